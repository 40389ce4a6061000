//! `rhumb member`: the proxy beside a member's router.

mod encoding;
mod table;

//! `rhumb member`: the proxy beside a member's router.

pub(crate) mod rtr;

//! The tests of this crate from outside, in one program: see CONTRIBUTING.md.
#![allow(clippy::unwrap_used, reason = "tests")]

mod bounds;
mod links;
mod members;
mod names;
mod packets;
mod paths;
mod routers;
mod streams;
mod world;

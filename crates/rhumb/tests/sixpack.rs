//! All tests of this crate that see SIXPACK from outside: exchanges, their members, and what these
//! stand between. They reach nothing of routers, nor of Platypus, and `cargo xtask test` goes by
//! that: see `xtask/src/products.rs`.

// What tests share.
mod exchanging;
mod harness;
mod members;
#[path = "../../rhumb-io/tests/wire/mod.rs"]
mod wire;

mod exchange;
mod exchange_admission;
mod exchange_failures;
mod exchange_kills;
mod exchange_plain;
mod member;
mod member_secrets;
mod one_host;
mod real_members;
mod real_neighbours;

//! All tests of this crate that see Platypus from outside: capabilities, key servers, waypoints and
//! stampers. They reach nothing of routers, nor of exchanges, and `cargo xtask test` goes by that:
//! see `xtask/src/products.rs`.

// What tests share.
mod harness;
mod keyzone;
mod namespaces;
mod pages;
mod stamping;
mod waypoints;
#[path = "../../rhumb-io/tests/wire/mod.rs"]
mod wire;

mod capability;
mod key_resolver;
mod keyserver;
mod line;
mod platypus_tour;
mod stamp;
mod stamp_daemon;
mod stamp_failover;
mod stamp_keys;
mod stamp_mtu;
mod stamp_policies;
mod stamp_udp;
mod waypoint;
mod waypoint_accounts;
mod waypoint_attacks;
mod waypoint_icmp;
mod waypoint_keys;
mod waypoint_restart;

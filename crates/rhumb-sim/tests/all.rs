//! All tests of this crate that see it from outside, as one program: it is linked once, and its
//! files run side by side.

// Of the bench of domains, which runs the same at full size.
#[path = "../benches/domains/day/mod.rs"]
mod day;
#[path = "../benches/domains/nest.rs"]
#[allow(dead_code, reason = "tests and bench each take a part of it")]
mod nest;
#[path = "../benches/domains/stock.rs"]
mod stock;

mod anycast;
mod at_most_once;
mod clock_skew;
mod dead_router;
mod delivery;
mod kill_under_load;
mod labels;
mod lying_rib;
mod mobility;
mod nack_storm;
mod partition;
mod path_mtu;
mod removal;
mod renewal;
mod repeatable;
mod rib_death;
mod roaming;
mod router_restart;
mod service;
mod sim;
mod spoofed_hello;
mod standby;
mod two_claims;
mod upstreams;
mod whole_day;

//! Discovery on the local network: where queries go, and a
//! router's side of it (GDP paper, section 3.6).
//!
//! A node asks every link it is on, by IPv6 link-local multicast and by IPv4 broadcast
//! ([`Links::query_targets`]). A router's [`Beacon`] hears queries on a port of its own and answers
//! from the router's socket, so that the address an answer comes from is the one to connect to.
//! Whoever wants to know of all that are there calls [`ask_around`].
//!
//! Invariant: an answer goes only to an address on a link of this host, is smaller
//! than its query, and is one of a bounded number per second: discovery is no
//! amplifier, and nobody outside hears of the router.

mod asking;
mod beacon;
mod links;
mod own;
mod responder;

pub use asking::{Answers, MAX_ANSWERS, ask_around};
pub use beacon::Beacon;
pub use links::Links;
pub use own::{interface_index, interface_name, own_addresses};
pub use responder::{ANSWERS_PER_S, BeaconCounters, BeaconDrop, MAX_BURST};

//! All tests of this crate that see it from outside, as one program: it is linked once, and its
//! files run side by side.

// What tests share.
mod world;

mod access;
mod allocations;
mod border;
mod border_attacks;
mod budgets;
mod bundles;
mod change;
mod conduct;
mod domains;
mod flood;
mod groups;
mod inquiry;
mod known_flows;
mod labels;
mod learning;
mod limits;
mod logs;
mod misses;
mod nested;
mod path;
mod reach;
mod recovery;
mod refusal;
mod removal;
mod replicas;
mod rib_silence;
mod router_in_the_path;
mod scope;
mod service;
mod shared_state;
mod stamp_vectors;
mod status;
mod superseded;
mod survival;
mod two_switches;
mod verification_shares;
mod workers;

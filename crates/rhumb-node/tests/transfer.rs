//! File transfers in virtual time over a seeded path that
//! loses, delays, reorders, doubles and refuses.

#![forbid(unsafe_code)]

mod congestion;
mod endings;
mod faults;
mod hostile_peer;
mod loss;
mod nacks;
mod one_end;
mod pair;
mod random_paths;
mod sizes;

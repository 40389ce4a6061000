//! File transfers in virtual time over a seeded path that loses, delays, reorders, doubles and refuses.

#![forbid(unsafe_code)]

mod congestion;
mod endings;
mod faults;
mod loss;
mod nacks;
mod pair;
mod random_paths;
mod sizes;

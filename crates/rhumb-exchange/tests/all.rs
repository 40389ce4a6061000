//! All tests of this crate that see it from outside, as one program: it is linked once, and its
//! files run side by side.

// What tests share.
mod pair;
mod world;

mod breaks;
mod circuits;
mod failures;
mod happy;
mod kills;
mod load;
mod oracle;
mod privacy;
mod quotas;
mod real_exchange;
mod real_tables;
mod rosters;
mod stock;
mod tables;

//! All tests of this crate that see it from outside, as one program: it is linked once, and its
//! files run side by side.

// What tests share.
mod world;

mod batches;
mod flood;
mod hand_over;
mod known_breaks;
mod malformed;
mod model;
mod replay;
mod tampering;
mod way;
mod waypoint;
mod windows;

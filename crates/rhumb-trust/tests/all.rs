//! All tests of this crate that see it from outside, as one program: it is linked once, and its
//! files run side by side.

mod chain;
mod delegation;
mod membership;
mod published;
mod removal;
mod vectors;

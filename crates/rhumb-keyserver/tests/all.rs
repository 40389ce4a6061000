//! All tests of this crate that see it from outside, as one program: it is linked once, and its
//! files run side by side.

// What tests share.
mod world;

mod answers;
mod client;
mod record_vectors;
mod revocation;

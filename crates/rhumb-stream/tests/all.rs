//! All tests of this crate that see it from outside, as one program.

// What tests share.
mod client;
mod middlebox;
mod world;

mod bounds;
mod foreign;
mod links;
mod middleboxes;

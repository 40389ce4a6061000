//! All tests of this crate that see it from outside, as one program: it is linked once, and its
//! files run side by side.

// What tests share.
mod lan;
mod relay;
mod world;

mod by_file;
mod chaos;
mod connections;
mod discovery;
mod exported;
mod files;
mod join;
mod labels;
mod node;
mod ping;
mod reconnect;
mod resend;
mod resuming;
mod senders;
mod serve;
mod superseded;

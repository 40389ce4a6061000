//! The library from outside: its header against its source, and C programs that are compiled,
//! linked with it, and run in a network.

// The library that the programs are linked with is the one that was built with this test.
use rhumb_c as _;

mod header;
mod network;
mod programs;

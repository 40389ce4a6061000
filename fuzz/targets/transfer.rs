//! The messages of a file transfer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_wire::fuzz::transfer(data));

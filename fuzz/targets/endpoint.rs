//! Sequences of operations on an endpoint that strangers talk to.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_link::fuzz::endpoint(data));

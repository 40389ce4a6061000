//! PDUs that share a sealed datagram.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_wire::fuzz::bundle(data));

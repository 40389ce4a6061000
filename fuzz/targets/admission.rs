//! What a keeper of a network and its members say to each other.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_wire::fuzz::admission(data));

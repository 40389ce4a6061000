//! Requests to a RIB and its answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_wire::fuzz::rib(data));

//! Series of requests to a RIB.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_rib::fuzz::requests(data));

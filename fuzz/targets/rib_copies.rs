//! Copies of a RIB's store that are not as they were made.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_rib::fuzz::copies(data));

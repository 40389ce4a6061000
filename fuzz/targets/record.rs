//! Sealed records: any change is refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_link::fuzz::record(data));

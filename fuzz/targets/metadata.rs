//! Metadata, the pre-image of a name.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_wire::fuzz::metadata(data));

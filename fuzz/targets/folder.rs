//! The list of what is in a folder that is sent.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_wire::fuzz::folder(data));

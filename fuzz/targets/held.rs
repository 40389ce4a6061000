//! What a receiver says of the files that it has of a folder.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_wire::fuzz::held(data));

//! Labels, records and files of the key server.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_keyserver::fuzz::key_text(data));

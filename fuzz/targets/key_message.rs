//! A message to a key server.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_keyserver::fuzz::key_message(data));

//! A key server's answer to a waypoint.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_keyserver::fuzz::key_answer(data));

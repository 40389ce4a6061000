//! Messages between members and parties of the private exchange, and between parties.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_exchange::fuzz::message(data));

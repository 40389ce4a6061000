//! Places and routes between members of the private exchange.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_member::fuzz::route(data));

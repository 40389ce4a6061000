//! Chains: none is believed unless each issuer signed its part.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_trust::fuzz::chain(data));

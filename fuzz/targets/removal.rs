//! Removals from trust domains: none is by who may not admit, or about who is above it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_trust::fuzz::removal(data));

//! Memberships of trust domains: none gives more than its giver has.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_trust::fuzz::membership(data));

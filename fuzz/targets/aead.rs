//! Records of any lengths and places, sealed and opened by every backend beside aws-lc.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_aead::fuzz::aead(data));

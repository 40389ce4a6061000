//! Packets, key records and capability files of Platypus.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_capability::fuzz::platypus(data));

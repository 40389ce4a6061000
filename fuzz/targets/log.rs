//! Heads of a RIB's log, and ways through its map.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_wire::fuzz::log(data));

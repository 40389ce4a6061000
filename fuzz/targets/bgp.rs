//! Messages to a BGP session that is up, and what becomes of them at the next neighbour.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_bgp::fuzz::bgp(data));

//! What a cache of the RPKI sends.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_bgp::policy::fuzz::rtr(data));

//! Expressions of routing policies, and paths that they are matched over.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_bgp::policy::fuzz::policy_text(data));

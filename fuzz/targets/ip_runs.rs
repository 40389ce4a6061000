//! Parts of runs of TCP segments, as a peer may send them and as a path may lose them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_node::fuzz::ip_runs(data));

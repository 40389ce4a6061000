//! IP packets of this host, and of names that may send to it and that may not.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_node::fuzz::ip_packets(data));

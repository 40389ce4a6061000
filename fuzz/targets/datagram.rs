//! The clear framing of UDP datagrams.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_wire::fuzz::datagram(data));

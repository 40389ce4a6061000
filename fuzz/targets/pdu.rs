//! PDUs with their certificates.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_wire::fuzz::pdu(data));

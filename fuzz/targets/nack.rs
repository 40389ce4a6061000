//! The small control messages: NACK, Accept, payload header.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_wire::fuzz::nack(data));

//! Messages between the two parties of a computation, and the frames that they come in.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_mpc::fuzz::mpc(data));

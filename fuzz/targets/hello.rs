//! A foreign peer's hello: the first hello that is written from it is one.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_link::fuzz::hello(data));

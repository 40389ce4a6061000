//! Two ends and a router between them that does as it likes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_end::fuzz::ends(data));

//! Records of TLS: what is handed over is what a peer has sealed, however it is cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rhumb_stream::fuzz::tls_records(data));

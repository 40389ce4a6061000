//! Platypus keys and revocations over DNS: the sans-IO key server, its client, and a waypoint's feed.

#![forbid(unsafe_code)]

pub mod tsig;

//! All tests of this crate that see it from outside, as one program: it is linked once, and its
//! files run side by side.

// What tests share.
mod foreign;
mod pair;

mod amplification;
mod bundles;
mod elsewhere;
mod forgery;
mod handshake;
mod identity;
mod lanes;
mod limits;
mod liveness;
mod loss;
mod mobility;
mod nonce;
mod openssl;
mod path_mtu;
mod privacy;
mod rekey;
mod renewal;
mod replay;
mod retry_token;
mod showing;
mod simultaneous_open;
mod spoofed;
mod streams;
mod together;
mod two_processes;

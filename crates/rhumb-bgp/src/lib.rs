//! A BGP-4 speaker, sans-IO: sessions ([RFC 4271](https://www.rfc-editor.org/rfc/rfc4271)), the tables behind them, and routing
//! [`policy`]. Messages are read and written by `rustbgpd-wire`; what is done about them is here.

#![forbid(unsafe_code)]

pub mod policy;

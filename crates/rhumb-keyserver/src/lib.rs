//! Platypus keys and revocations over DNS (Platypus paper, sections 4.4
//! and 5.1): the key server, and those who ask it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`server`] | the authoritative server of a zone of keys: messages in, answers out |
//! | [`question`], [`record`] | the label that a key is asked by, and the sealed record that answers |
//! | [`update`], [`revocation`], [`journal`] | what an operator takes back: as DNS UPDATE, in the book, on disk |
//! | [`operator`] | an operator's side: revokes, and learns when it is everywhere |
//! | [`feed`] | a waypoint's side: has each revocation within a moment |
//! | [`client`], [`principal`] | a principal's side: has each window's key before it is needed |
//! | [`tsig`] | signatures of messages |
//! | [`hosts`] | another zone, of hosts that have addresses, for programs of one machine |
//!
//! Sans-IO: messages, time and randomness are arguments; only the journal touches a file.
//! `docs/keyserver.md` is the normative page.

#![forbid(unsafe_code)]

pub mod client;
mod counters;
pub mod feed;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzz;
pub mod hosts;
pub mod journal;
pub mod kept;
mod limiter;
pub mod operator;
pub mod principal;
pub mod question;
pub mod record;
mod reply;
pub mod revocation;
pub mod server;
pub mod tsig;
pub mod update;
mod zone;

pub use counters::{Counters, DropReason, Refusal};
pub use reply::MAX_AMPLIFICATION;
pub use zone::{DomainName, Zone, ZoneError};

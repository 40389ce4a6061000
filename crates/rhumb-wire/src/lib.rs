//! The Rhumb protocol on the wire: names, metadata,
//! certificates, PDUs, control messages, datagram framing.
//!
//! This crate parses and emits; it verifies nothing. Every parser takes arbitrary bytes, never
//! panics, and accepts exactly one encoding of each value: what parses re-emits to the same bytes.
//! The normative text is `docs/spec.md`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`name`] | `Name`, 32 bytes, and its base32 text |
//! | [`metadata`] | what a name is the hash of |
//! | [`certificate`] | signed statements: routes, locators, withdrawals, absences, members |
//! | [`rights`] | what a member of a trust domain may do, and how much of it |
//! | [`pdu`] | the PDU: a view over bytes, and its header |
//! | [`nack`], [`accept`], [`flow`], [`group`], [`rib`], [`payload`] | what PDUs of each action carry |
//! | [`transfer`], [`folder`], [`held`] | what is said of a file or a folder on its stream, from end to end |
//! | [`datagram`] | the clear framing of a UDP datagram, and session parameters |
//! | [`discovery`] | the question whether there is a router on the local network, and the answer |
//! | [`admission`] | how somebody becomes a member of a network, and stays one |
//! | [`published`] | names that an owner publishes under its own |
//! | [`stream`] | the frames of a link over a stream, and the addresses that streams have |
//! | [`offer`] | that a domain is reached by a neighbour |
//! | [`batch`] | many datagrams in one arena: what I/O receives, a switch edits, and I/O sends |

#![forbid(unsafe_code)]

pub mod accept;
pub mod admission;
pub mod batch;
pub mod bundle;
pub mod certificate;
pub mod datagram;
pub mod discovery;
mod error;
pub mod flow;
pub mod folder;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
pub mod group;
pub mod held;
pub mod log;
pub mod metadata;
pub mod nack;
pub mod name;
pub mod offer;
pub mod payload;
pub mod pdu;
pub mod published;
mod reader;
pub mod rib;
pub mod rights;
pub mod stream;
pub mod transfer;

pub use batch::{Batch, Slot};
pub use certificate::{Certificate, Scope, Statement};
pub use error::WireError;
pub use metadata::{Metadata, PublicKey, Role};
pub use name::Name;
pub use offer::Offer;
pub use pdu::{Action, Pdu, PduHeader};
pub use published::{PublishedLabel, PublishedNames};
pub use rights::{Limit, Limits, Rights};

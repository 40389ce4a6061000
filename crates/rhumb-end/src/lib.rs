//! Ends: connections between two names, which nobody on the way reads or changes, with streams and
//! datagrams. QUIC (RFC 9000, 9001, 9221) over PDUs instead of UDP: an address is a name.
//!
//! 1. [`Ends::handle`] takes what arrived for this end, [`Ends::handle_timeout`] does what is due.
//! 2. [`Ends::connect`] begins a connection; others begin one where [`Ends::offer`] lets them.
//! 3. [`Ends::open`], [`Ends::write`], [`Ends::read`] and their like are about streams,
//!    [`Ends::send_datagram`] about datagrams, [`Ends::send_packets`] about packets that have
//!    congestion control of their own.
//! 4. [`Ends::poll_transmit`] has what is to be sent, [`Ends::poll_event`] tells what happened,
//!    [`Ends::poll_timeout`] when to call again.
//!
//! The time is an argument, and there are no sockets; what is secret in a handshake comes from the
//! system's source of randomness, inside of aws-lc-rs.
//!
//! INVARIANT: nothing of a program leaves, and nothing reaches one, before the handshake has proven
//! that the other end is the name that the connection is with. Routers on the way can withhold.
//!
//! Section 9.2 of the specification is normative.

#![forbid(unsafe_code)]

mod congestion;
mod connection;
mod credentials;
mod drop_reason;
mod ends;
mod error;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
mod gate;
mod halves;
mod numbered;
mod offers;
mod pace;
mod packets;
mod shares;
mod transport;

pub use connection::StreamId;
pub use drop_reason::{DropReason, Drops};
pub use ends::{
    Blocked, Config, ConnectionId, ConnectionStatus, Ends, Event, PACKETS, Ports, Transmit, Way,
    WriteError,
};
pub use error::{
    BUSY, CANCELLED, DatagramError, EndError, NOT_ALLOWED, PORT_CLOSED, ProofError, SERVICE_FAILED,
    StreamError,
};
pub use halves::{GaveWay, Halves};
pub use offers::{Admits, Carries};
pub use packets::Packets;

//! A BGP-4 speaker, sans-IO: sessions ([RFC 4271](https://www.rfc-editor.org/rfc/rfc4271)), the
//! tables behind them, and routing [`policy`]. Messages are read and written by `rustbgpd-wire`
//! ([`wire`]); what is done about them is here.
//!
//! | module | what it holds |
//! |---|---|
//! | [`session`] | one neighbour: its connections, state machine, timers, and both tables |
//! | [`config`] | what is to be known of a neighbour before |
//! | [`attributes`] | the path attributes of a route, kept once for all routes that share them |
//! | [`event`] | what a session says: up, down, announced, withdrawn; and what it counts |
//! | [`order`] | what a neighbour is to have, for whoever drives its session |
//! | [`negotiation`] | what two speakers agree on by their OPEN messages |
//! | [`policy`] | which routes go where, as operators write it |
//! | [`route_server`] | the table of a route server: for each client the best of what it may have |
//!
//! Bytes, time and a seed for jitter are arguments; who
//! drives a [`Session`] owns sockets and clock:
//!
//! ```no_run
//! # fn now() -> std::time::Instant { std::time::Instant::now() }
//! # use rhumb_bgp::{Config, Event, Session, Transmit};
//! # let config = Config::new(64500, [192, 0, 2, 1].into(), 64501);
//! let mut session = Session::new(config, 7)?;
//! session.start(now());
//! loop {
//!     while let Some(transmit) = session.poll_transmit(now()) {
//!         match transmit {
//!             // Begin to; then session.connected(Side::Outgoing, ..), or connect_failed(..).
//!             Transmit::Connect => {}
//!             // Write; poll no further while that connection takes nothing.
//!             Transmit::Send(connection, bytes) => {}
//!             Transmit::Close(connection) => { /* close it once all is written */ }
//!         }
//!     }
//!     while let Some(event) = session.poll_event() {
//!         if let Event::Announced { prefix, attributes, .. } = event {
//!             println!("{prefix:?} by {}", attributes.next_hop());
//!         }
//!     }
//!     // Wait for bytes (session.handle_bytes), for session.poll_timeout()
//!     // (session.handle_timeout), or for a listener.
//! }
//! # Ok::<(), rhumb_bgp::ConfigError>(())
//! ```
//!
//! `docs/bgp.md` says which RFCs this follows, and where it deviates.

#![forbid(unsafe_code)]

pub mod attributes;
pub mod config;
mod connection;
pub mod event;
mod export;
mod family;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzz;
mod intern;
mod jitter;
pub mod negotiation;
pub mod order;
mod otc;
pub mod policy;
mod rib_in;
mod rib_out;
pub mod route_server;
pub mod session;
mod table;
mod update;

pub use attributes::{Attributes, NextHop};
pub use config::{Config, ConfigError, FamilyConfig, Propagation, Timers};
pub use event::{Counters, DownReason, Event};
pub use export::Withheld;
pub use family::Family;
pub use negotiation::Negotiated;
pub use order::Order;
pub use session::{ConnectionId, Session, Side, State, Transmit};

/// The types of messages and attributes that this crate's interface uses.
pub mod wire {
    pub use rustbgpd_wire::notification::{
        cease_subcode, description, extract_shutdown_communication,
    };
    pub use rustbgpd_wire::{
        Aggregator, AsPath, AsPathSegment, BgpRole, ExtendedCommunity, Ipv4Prefix, Ipv6Prefix,
        LargeCommunity, NotificationCode, NotificationMessage, Origin, PathAttribute, Prefix,
        RawAttribute, RpkiValidation,
    };
}

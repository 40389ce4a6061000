//! The private exchange (SIXPACK, CoNEXT 2017), sans-IO: two route servers that hand out routes without seeing to whom, or which
//! their members prefer. It knows no BGP: a [`Destination`] is public bytes, a [`Route`] secret bytes. The protocol is in `docs/spec.md`, who
//! learns what in `docs/exchange-privacy.md`.

#![forbid(unsafe_code)]

pub mod circuits;
mod coins;
mod config;
mod error;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
mod member;
mod message;
mod roster;
mod route;
mod server;
mod shard;
mod wire;

pub use circuits::Form;
pub use config::{
    BATCH, Common, MAX_BATCH, MAX_ROUTES_PER_LANE, MAX_SHARDS, RANKING, REPLAY_LANES, SETTLE,
    STALE, ServerConfig,
};
pub use error::ExchangeError;
pub use member::{Candidate, Connection, Event, Member, MemberStatus, Round};
pub use message::hello::{Hello, Speaker};
pub use message::shard_of;
pub use rhumb_mpc::Party;
pub use roster::{Lane, LaneSet, MAX_LANES, MAX_TEXT, Roster, Site};
pub use route::{Destination, Route, RouteId, SIZE_CLASSES};
pub use server::Server;
pub use shard::{Counters, Output, Shard, Status};

/// Of the protocol between members and parties, and between parties. Those of different versions do not talk.
pub const VERSION: u8 = 1;

/// Bytes of a destination: a prefix of IP takes 17, a name 32; this leaves room for a type.
pub const MAX_DESTINATION: usize = 64;

/// Bytes of a route: what a message of BGP holds.
pub const MAX_ROUTE: usize = 4096;

/// Bytes of a message to or from a member: the longest are lists of ids, which are cut at this, and a bucket of what a member holds.
pub const MAX_MEMBER_MESSAGE: usize = 1 << 20;

/// Bytes of a message between the parties: the engine's, with three bytes before it.
pub const MAX_PEER_MESSAGE: usize = rhumb_mpc::MAX_MESSAGE + 3;

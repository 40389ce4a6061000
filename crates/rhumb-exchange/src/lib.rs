//! The private exchange (SIXPACK, CoNEXT 2017), sans-IO: two route servers that hand out routes
//! without seeing to whom, or which their members prefer. It knows no BGP: a [`Destination`] is
//! public bytes, a [`Route`] secret bytes. The protocol is in `docs/exchange-protocol.md`, who
//! learns what in `docs/exchange-privacy.md`.
//!
//! Whoever drives a party:
//!
//! 1. makes a [`Server`], or a [`Shard`] per thread;
//! 2. says [`ServerConfig::hello`] on each connection, and judges the other side's with
//!    [`ServerConfig::check_member`] (then [`Server::member_joined`]) or
//!    [`ServerConfig::check_party`] (then [`Server::pair_begun`] with the epoch that it gives);
//! 3. hands each further message to [`Server::member_message`] or
//!    [`Server::peer_message`]: one frame is one message;
//! 4. after each call takes [`Server::poll_output`] until there is nothing. [`Output::PairFailed`]
//!    means: close the connection to the other party and begin anew; [`Output::MemberFailed`] and
//!    an error of `member_message` mean: close that member's connection;
//! 5. calls [`Server::handle_timeout`] at
//!    [`Server::poll_timeout`], and [`Server::refill`] while idle.
//!
//! A standby is a server that hears members and has no pair. Whoever drives a member makes a
//! [`Member`], connects it to all servers, and gets [`Event`]s. Time and randomness are arguments.
//!
//! ```
//! # use std::{sync::Arc, time::Instant};
//! # use rhumb_exchange::*;
//! # use rhumb_mpc::Seed;
//! let site = |number: u8| Site {
//!     id: format!("site-{number}"),
//!     member: "A member".to_owned(),
//!     asn: 64500 + u32::from(number),
//!     key: [number; 32],
//! };
//! let common = Common::new(Arc::new(Roster::new(vec![site(0), site(1), site(2)])?));
//! let config = Arc::new(ServerConfig::new(common.clone()));
//! let now = Instant::now();
//!
//! // The two servers say hello to each other and are a pair. Nonces and seeds come from the
//! // system's generator.
//! let mut servers = [Server::new(Party::One, &config)?, Server::new(Party::Two, &config)?];
//! let hellos = [config.hello(Party::One, [1; 32]), config.hello(Party::Two, [2; 32])];
//! let epoch = config.check_party(&hellos[0], &Hello::parse(&hellos[1].emit())?)?;
//! servers[0].pair_begun(epoch, || Seed::new([3; 32]), now)?;
//! servers[1].pair_begun(epoch, || Seed::new([4; 32]), now)?;
//!
//! // Three members connect to both.
//! let mut members = [0, 1, 2].map(|lane| {
//!     let seed = [5 + lane as u8; 32];
//!     Member::new(common.clone(), Lane(lane), true, 1, seed).expect("of the roster")
//! });
//! for (lane, member) in members.iter_mut().enumerate() {
//!     for (number, party) in [(0, Party::One), (1, Party::Two)] {
//!         member.connected(Connection(number), party);
//!         let hello = member.poll_message(Connection(number)).expect("a hello is ready");
//!         let participates = config.check_member(&Hello::parse(&hello)?, Lane(lane as u16))?;
//!         member.handle(Connection(number), &hellos[number as usize].emit())?;
//!         servers[number as usize].member_joined(Lane(lane as u16), participates, now);
//!     }
//! }
//!
//! // Member 0 announces to member 2. The driver carries messages until nobody has one.
//! let policy = LaneSet::of(&common.roster, [Lane(2)])?;
//! let destination = Destination::new(b"192.0.2.0/24")?;
//! members[0].announce(&destination, &policy, &Route::new(b"by zero")?)?;
//! loop {
//!     let mut quiet = true;
//!     for number in 0..2 {
//!         for (lane, member) in members.iter_mut().enumerate() {
//!             while let Some(message) = member.poll_message(Connection(number as u32)) {
//!                 servers[number].member_message(Lane(lane as u16), &message, now)?;
//!                 quiet = false;
//!             }
//!         }
//!         while let Some(output) = servers[number].poll_output() {
//!             quiet = false;
//!             match output {
//!                 Output::Peer(message) => servers[1 - number].peer_message(&message, now)?,
//!                 Output::Member { lane, message } => {
//!                     members[usize::from(lane.0)].handle(Connection(number as u32), &message)?;
//!                 }
//!                 Output::PairFailed(error) => return Err(error),
//!                 Output::MemberFailed { error, .. } => return Err(error),
//!             }
//!         }
//!     }
//!     if quiet {
//!         break;
//!     }
//! }
//! let has_route = members.map(|mut member| {
//!     let mut events = std::iter::from_fn(|| member.poll_event());
//!     events.any(|event| matches!(event, Event::Offered { .. }))
//! });
//! assert_eq!(has_route, [false, false, true]);
//! # Ok::<(), ExchangeError>(())
//! ```

#![forbid(unsafe_code)]

pub mod circuits;
mod coins;
mod config;
mod error;
mod few;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
mod latency;
mod member;
mod message;
#[cfg(test)]
mod privacy;
mod roster;
mod route;
mod server;
mod shard;
mod wire;

pub use circuits::Form;
pub use config::{
    BATCH, Common, MAX_BATCH, MAX_ROUTES_PER_LANE, MAX_SHARDS, PASS, RANKING, REPLAY_AHEAD,
    REPLAY_LANES, SETTLE, STALE, ServerConfig,
};
pub use error::ExchangeError;
pub use few::Few;
pub use latency::Latencies;
pub use member::{Candidate, Connection, Event, Member, MemberStatus, Round};
pub use message::hello::{Hello, Speaker};
pub use message::{is_announcement, round_of, routes_in, shard_of};
pub use rhumb_mpc::Party;
pub use roster::{Lane, LaneSet, MAX_LANES, MAX_TEXT, Quota, Roster, Site};
pub use route::{Destination, Route, RouteId, SIZE_CLASSES};
pub use server::Server;
pub use shard::{Counters, Output, Shard, Status};

/// Of the protocol between members and parties, and between
/// parties. Those of different versions do not talk.
pub const VERSION: u8 = 3;

/// Bytes of a destination: a prefix of IP takes 17, a name 32; this leaves room for a type.
pub const MAX_DESTINATION: usize = 64;

/// Bytes of a route: what a message of BGP holds.
pub const MAX_ROUTE: usize = 4096;

/// Bytes of a message to or from a member: the longest are lists of ids, which are cut at this, and
/// a bucket of what a member holds.
pub const MAX_MEMBER_MESSAGE: usize = 1 << 20;

/// Bytes of a message between the parties: the engine's, with three bytes before it.
pub const MAX_PEER_MESSAGE: usize = rhumb_mpc::MAX_MESSAGE + 3;

//! A member of the private exchange, sans-IO: between a router that speaks BGP, or the RIB of a
//! trust domain, and the exchange's two servers, which know neither what is told nor to whom.
//!
//! | module | what it holds |
//! |---|---|
//! | [`seat`] | the member's core (`rhumb_exchange::Member`), whatever its routes are |
//! | [`domain`] | a trust domain's offers to its neighbours, and theirs |
//! | [`encoding`] | prefixes and routes as bytes, between members |
//! | [`law`] | what becomes of another member's route: its validity, and the import policy |
//! | [`table`] | the router's routes and those of others, and what is to be told of them |
//! | [`exchange`] | routes at the exchange by prefixes in place of ids |
//! | [`pace`] | when answers leave: by public facts alone |
//! | [`untold`] | what the exchange is to be told, in which order |
//!
//! Whoever drives the member of a router:
//!
//! 1. hands what its router says to the [`Table`], and what servers say to the [`Exchange`];
//! 2. has each [`Case`] of the [`Changes`] judged ([`Case::judge`]), on another thread if it likes,
//!    and hands what comes of it to [`Table::judged`];
//! 3. gives the router its orders, keeps what the exchange is to be told in [`Untold`] until it is
//!    due, and then hands it to [`Exchange::tell`];
//! 4. takes messages for the servers ([`Seat::poll_answer`], [`Seat::poll_message`]), and
//!    lets answers leave when [`Pace`] says so.
//!
//! Invariant: what a member says, when and in which order follows from public facts, and not from
//! its policies (`docs/exchange-privacy.md`). Time and randomness are arguments.

#![forbid(unsafe_code)]

pub mod domain;
pub mod encoding;
pub mod exchange;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzz;
pub mod law;
pub mod pace;
pub mod seat;
pub mod table;
pub mod untold;

pub use domain::{DomainCounters, DomainMember, OfferedBy};
pub use encoding::{Announced, Malformed, Place};
pub use exchange::{Counters, Exchange, Outcomes};
pub use law::{Case, Judged, Key, Law, Refusal, Taken};
pub use pace::{Grid, Pace};
pub use seat::Seat;
pub use table::{Changes, Counts, ForExchange, Offer, Policies, Shown, Table};
pub use untold::Untold;

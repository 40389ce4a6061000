//! The Routing Information Base: a directory of verified routes over a
//! durable store (GDP paper, sections 3.2 and 3.6).
//!
//! Holders of names publish signed statements: who may carry their traffic, where they are, that
//! what they said before no longer holds. Routers ask for the chain of such statements that leads
//! to a name. What a directory does not know it asks of the domain around its own, which it tells
//! what is to be known there. Nothing is stored before it is verified, nothing is acknowledged
//! before it is durable, and whoever asks verifies again.
//!
//! | module | what it holds |
//! |---|---|
//! | [`Rib`] | the directory: requests in, answers out; no sockets, no clock |
//! | [`server`] | the directory behind a secure endpoint: batches of datagrams in and out |
//! | [`store`] | where entries live: one file that survives `kill -9`, or memory |
//! | `beyond`, `upward` | the domain around: what it was asked and said, and what it is told |
//! | [`Neighbours`], `acquaintances` | the domains beside: what each offers, what it is told, and who knows their names |
//! | `removals` | who is a member of the directory's domain no longer, and who is told |
//! | [`cells`] | an entry as cells of a store that many servers write at once |
//! | [`log`] | what the directory signs of all that it holds, so that it cannot tell two askers two things |
//! | [`Entry`] | all that is known of one name, and which statement supersedes which |
//! | [`Counters`], [`DropReason`] | what happened, for metrics |

#![forbid(unsafe_code)]

mod absence;
mod acquaintances;
mod admission;
mod allowance;
mod beyond;
pub mod cells;
mod civil_clock;
mod config;
mod counters;
mod entry;
mod error;
mod fair;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzz;
mod generations;
mod gone;
mod limits;
pub mod log;
mod lookup;
mod neighbours;
mod pieces;
mod pushes;
mod record;
mod removals;
mod rib;
pub mod server;
mod share;
mod signatures;
mod spread;
mod stepping;
pub mod store;
mod subscriptions;
mod upward;
mod waits;

pub use admission::RefusedAsker;
pub use config::Config;
pub use counters::{Counters, DropReason};
pub use entry::{
    Admission, Entry, MAX_DELEGATION_LIFETIME_S, MAX_LIFETIME_S, MAX_SERVICE_LIFETIME_S,
    MAX_STRANGERS_LIFETIME_S, max_lifetime_s,
};
pub use error::{Cause, RibError};
pub use limits::{Givers, NameLimits};
pub use neighbours::{
    DEFAULT_COST, MAX_DOMAINS, Neighbour, Neighbours, NotTaken, Own, Relation, Tell, Way,
};
pub use rhumb_directory::{Conduct, Fault, Remote};
pub use rib::commit::{Commit, Committed};
pub use rib::logged::LogState;
pub use rib::verification::{Verdict, Verification};
pub use rib::{Asker, Fill, OrderId, Outcome, Push, Rib};
pub use server::{BATCH_DATAGRAMS, Server};
pub use share::{Account, Footprint, Held, Moves, Share};
pub use waits::Waits;

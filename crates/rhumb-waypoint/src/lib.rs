//! What a waypoint and a stamper of Platypus keep and decide beside the hot path of
//! `rhumb-capability`: no sockets, no files, no clocks.
//!
//! | module | what it holds |
//! |---|---|
//! | [`totals`] | the figures of a worker at one moment, and of all together |
//! | [`ledger`] | the accounts: who sent how much, in which period |
//! | [`masters`] | which master keys make a whole set, and what changes with another one |
//! | [`stamping`] | stamping a batch of packets, and what becomes of those that cannot be stamped |
//! | [`via`] | lists of waypoints, as a stamper is told them |
//! | [`policy`] | traffic that is stamped by what it is, and whither |
//! | [`choice`] | which of several ways packets take, by what probes say |
//!
//! Of `rhumb-io` it uses batches, counters and selectors, which are values. What writes accounts is
//! an argument, as time is.

#![forbid(unsafe_code)]

pub mod choice;
pub mod ledger;
pub mod masters;
#[cfg(target_os = "linux")]
pub mod policy;
pub mod stamping;
pub mod totals;
pub mod via;

pub use ledger::{Book, Ledger};
pub use masters::{MasterText, Masters};
#[cfg(target_os = "linux")]
pub use policy::{Family, Policy};
pub use totals::Totals;
pub use via::Via;

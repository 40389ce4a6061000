//! The client side of a RIB, sans-IO: whoever asks RIBs where names are and has them keep what it
//! says does it the same way, a router with its own RIBs and a RIB with those of the domain around.
//!
//! It holds what was asked, of whom, and what is to be published; its owner has the link, hands on
//! what is to be sent, and verifies what is answered before it says what came of it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`Directory`] | sessions to RIBs, one question at a time for each name, statements to keep published |
//! | [`Heads`] | the heads of RIBs' logs, and what two of them prove |
//! | [`Kept`], [`Remote`] | another party that a session is kept to, whatever happens |
//! | [`Table`], [`Eviction`], [`Chance`] | a table that cannot grow beyond its bound, and what goes when it is full |

#![forbid(unsafe_code)]

mod chance;
mod directory;
mod doubts;
mod eviction;
mod heads;
mod kept;
mod remote;
mod table;

pub use chance::Chance;
pub use directory::{
    Answered, Checks, Conduct, Directory, Fault, Kind, LogCounts, NoAnswer, PublishOutcome,
    Question, Slot, Suspicion, Teller,
};
pub use eviction::Eviction;
pub use heads::{Fork, Heads, Taken};
pub use kept::{Kept, reconnect_delay};
pub use remote::Remote;
pub use table::{Expires, Fill, Swept, Table, until};

//! The dashboard: one process asks the daemons of a host how they are, over their admin endpoints,
//! and serves a page that shows it to browsers that have the token.
//!
//! 1. [`gather`] finds the daemons, and asks each of them every two seconds: bounded in time and
//!    size, and each by itself, so that one that hangs holds up no other.
//! 2. [`board`] keeps the latest status of each, what is to be worried about ([`alarms`]), and ten
//!    minutes of every figure ([`history`]).
//! 3. [`serve`] answers browsers: the page to everybody, everything else to whom [`door`] has let
//!    in.
//!
//! Invariant: nothing is changed anywhere. Daemons are asked what `rhumb status` and `rhumb rib
//! list` ask them, and of a browser nothing is taken but the token, a name to trace the way to, and
//! which names of a RIB it wants to see. What peers say of themselves reaches the page as text in
//! JSON, and the page makes text of it: it has no way to make anything else.

#![forbid(unsafe_code)]

pub mod alarms;
pub mod board;
mod connections;
pub mod door;
pub mod gather;
pub mod history;
mod listing;
mod page;
mod requests;
pub mod serve;

pub use board::Board;
pub use door::{Door, Token};
pub use serve::{Dashboard, Trace};

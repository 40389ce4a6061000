//! What a neighbour is to have or to do, as a value: whoever decides hands it to whoever drives the
//! [`Session`](crate::Session), which may be another task.

use rustbgpd_wire::Prefix;

use crate::attributes::Attributes;
use crate::family::Family;

/// What a neighbour is to have or to do.
#[derive(Debug)]
pub enum Order {
    /// It shall have this route.
    Announce(Prefix, Attributes),
    /// It shall have no route to this prefix.
    Withdraw(Prefix),
    /// All routes that were here at the beginning have been announced.
    EndOfRib(Family),
    /// The session ends, with these words for the neighbour's operator, and is not sought any more.
    Stop(String),
}

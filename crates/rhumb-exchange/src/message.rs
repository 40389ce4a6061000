//! What members and parties say to each other. Each message is one frame of a connection that is ordered, authenticated and
//! encrypted; all but the hello begin with a kind and the shard they are for.
//!
//! Invariant: what parses is emitted as it was. Nothing here judges; lengths that depend on the roster are checked where it is known.

pub(crate) mod hello;
pub(crate) mod member;
pub(crate) mod pair;

use crate::ExchangeError;

/// A member's announcements to a shard in order. A member that begins anew has a greater incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Mark {
    pub(crate) incarnation: u64,
    /// From one upwards.
    pub(crate) number: u64,
}

/// When a shard of a pair of parties did something: both say it with what they send to members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Tag {
    /// Names the pair.
    pub(crate) epoch: u64,
    /// Counts its orders.
    pub(crate) position: u64,
}

/// The shard that a message is for.
///
/// # Errors
///
/// [`ExchangeError::Malformed`] if it is too short to say.
pub fn shard_of(message: &[u8]) -> Result<u16, ExchangeError> {
    match message {
        [_, low, high, ..] => Ok(u16::from_le_bytes([*low, *high])),
        _ => Err(ExchangeError::Malformed("it names no shard")),
    }
}

/// Groups of routes of which a member says what it has.
pub(crate) const BUCKETS: usize = 256;

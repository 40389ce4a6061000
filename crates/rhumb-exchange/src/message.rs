//! What members and parties say to each other. Each message is one frame of a
//! connection that is ordered, authenticated and encrypted; all but the hello
//! begin with a kind and the shard they are for.
//!
//! Invariant: what parses is emitted as it was. Nothing here judges; lengths that depend on the
//! roster are checked where it is known.

pub(crate) mod hello;
pub(crate) mod member;
pub(crate) mod pair;

use crate::ExchangeError;

/// A member's announcements to a shard in order. A
/// member that begins anew has a greater incarnation.
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

/// Whether a member's message is an announcement.
#[must_use]
pub fn is_announcement(message: &[u8]) -> bool {
    matches!(message, [1 | 2, ..])
}

/// What a message to a member has to do with a round of Select-Best: a number that names the round
/// in its shard, and whether it is its end. For whoever measures.
#[must_use]
pub fn round_of(message: &[u8]) -> Option<(u64, bool)> {
    let [kind @ (8 | 9), _, _, tag @ ..] = message else { return None };
    let position = tag.get(8..)?.first_chunk()?;
    Some((u64::from_le_bytes(*position), *kind == 9))
}

/// How many routes a party hands out with a message, to whom it may be.
#[must_use]
pub fn routes_in(message: &[u8]) -> usize {
    let [3, _, _, rest @ ..] = message else { return 0 };
    let count = rest.get(16..).and_then(|rest| rest.first_chunk());
    count
        .map_or(0, |count| u32::from_le_bytes(*count) as usize)
        .min(message.len() / member::OFFER_LEN)
}

/// Groups of routes of which a member says what it has.
pub(crate) const BUCKETS: usize = 256;

#[cfg(test)]
mod tests {
    use super::member::{FromMember, ToMember};
    use super::*;
    use crate::route::RouteId;

    #[test]
    fn messages_are_told_apart_by_their_heads() {
        let (mark, round) = (Mark { incarnation: 1, number: 2 }, Tag { epoch: 3, position: 4 });
        let half = member::Half::One { seed: [0; 16], lanes: 1, sealed: &[] };
        let announce = FromMember::Announce { mark, nonce: [0; 16], destination: &[], half };
        assert!(is_announcement(&announce.emit(5)));
        assert!(!is_announcement(&FromMember::End { mark }.emit(5)));
        assert_eq!(round_of(&ToMember::Ask { round, ids: Vec::new() }.emit(5)), Some((4, false)));
        assert_eq!(round_of(&ToMember::Result { round, share: 0 }.emit(5)), Some((4, true)));
        assert_eq!(round_of(&ToMember::Missed { round }.emit(5)), None);
        assert_eq!(round_of(&[9, 0, 0, 1]), None);
        let sealed = &[7; 144];
        let offer = member::Offer { id: RouteId([1; 16]), replaces: None, share: 2, sealed };
        assert_eq!(routes_in(&ToMember::Offers { tag: round, offers: vec![offer; 3] }.emit(5)), 3);
        assert_eq!(routes_in(&ToMember::Synced { tag: round }.emit(5)), 0);
        assert_eq!(routes_in(&[3, 0, 0, 1]), 0);
    }
}

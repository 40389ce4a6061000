//! What entries take of the store, and on whose share they count.
//!
//! An entry counts on its publisher, and either on the part of the admitted or on the pool of
//! strangers. In the pool it counts on its source, too: names cost a stranger nothing, addresses
//! do. Stores keep these accounts with the entries, so that a restart changes none.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use rhumb_link::Source;
use rhumb_trust::Standing;
use rhumb_wire::{Name, Role};

use crate::limits::Givers;
use crate::{Asker, Entry};

/// On whose share an entry counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Share {
    /// On the part of those who were admitted.
    Admitted,
    /// On the pool of strangers, by where it was published from.
    Stranger(Source),
}

/// Whose budget something counts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Payer {
    /// Somebody who was admitted: its own.
    Admitted(Name),
    /// All strangers of one source together.
    Stranger(Source),
}

impl Payer {
    pub(crate) fn of(asker: &Asker) -> Self {
        match asker.standing {
            Standing::Admitted => Self::Admitted(asker.name),
            _ => Self::Stranger(asker.source),
        }
    }
}

/// Something that entries are counted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Account {
    /// Entries that this publisher was the last to change.
    Publisher(Name),
    /// Entries of publishers whom this name admitted, within a limit of its own.
    Below(Name),
    /// All entries of the admitted.
    Admitted,
    /// All entries of strangers.
    Strangers,
    /// Those of strangers whose sequences are remembered for long: of capsules, and of names that
    /// publish others under their own.
    StrangersCapsules,
    /// Those of strangers that were published from one source.
    Source(Source),
}

impl Account {
    /// The bytes by which a store finds it: a kind, and whose it is.
    pub fn key(&self) -> Vec<u8> {
        match self {
            Self::Publisher(name) => [&[1], &name.0[..]].concat(),
            Self::Admitted => vec![2],
            Self::Strangers => vec![3],
            Self::Source(Source::V4(address)) => [&[4], &address[..]].concat(),
            Self::StrangersCapsules => vec![5],
            Self::Source(Source::V6(site)) => [&[6], &site[..]].concat(),
            Self::Below(name) => [&[7], &name.0[..]].concat(),
        }
    }

    /// Whether everybody counts on it, so that it may be as large as the store.
    pub fn is_of_all(&self) -> bool {
        matches!(self, Self::Admitted | Self::Strangers | Self::StrangersCapsules)
    }
}

/// How much is counted on an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Held {
    /// Names with an entry.
    pub names: u64,
    /// About as many bytes as they take on disk.
    pub bytes: u64,
}

impl Held {
    /// After so many names and bytes more, or fewer.
    #[must_use]
    pub fn moved_by(self, (names, bytes): (i64, i64)) -> Self {
        let names = self.names.saturating_add_signed(names);
        Self { names, bytes: self.bytes.saturating_add_signed(bytes) }
    }

    pub(crate) fn left_of(self, bound: Self) -> Self {
        let names = bound.names.saturating_sub(self.names);
        Self { names, bytes: bound.bytes.saturating_sub(self.bytes) }
    }

    pub(crate) fn least(self, other: Self) -> Self {
        Self { names: self.names.min(other.names), bytes: self.bytes.min(other.bytes) }
    }

    pub(crate) fn part(self, numerator: u64, denominator: u64) -> Self {
        let part =
            |of: u64| of / denominator * numerator + of % denominator * numerator / denominator;
        Self { names: part(self.names), bytes: part(self.bytes) }
    }

    /// Whether somebody who holds so much may have more, `left` being what is
    /// left for all: an eighth of that, so that whoever comes later finds
    /// something, too. Who holds nothing may always begin.
    pub(crate) fn may_grow(self, left: Self) -> bool {
        let within = |held: u64, left: u64| held.saturating_mul(PARTS) <= left;
        within(self.names, left.names) && within(self.bytes, left.bytes)
    }
}

/// What one entry takes, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footprint {
    pub(crate) publisher: Name,
    pub(crate) share: Share,
    pub(crate) givers: Givers,
    /// Its sequences are remembered for a month whoever brings them.
    pub(crate) is_kept_long: bool,
    pub(crate) bytes: u64,
}

impl Footprint {
    /// What this entry takes.
    pub fn of(entry: &Entry) -> Self {
        Self {
            publisher: entry.publisher,
            share: entry.share,
            givers: entry.givers.clone(),
            is_kept_long: entry.metadata.role == Role::Capsule || entry.published.is_some(),
            bytes: size_on_disk(entry.encoded_len()),
        }
    }

    /// About as many bytes as it takes on disk.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The accounts that it counts on.
    pub fn accounts(&self) -> impl Iterator<Item = Account> {
        let of_share = match self.share {
            Share::Admitted => [Some(Account::Admitted), None, None],
            Share::Stranger(source) => {
                let kept_long = self.is_kept_long.then_some(Account::StrangersCapsules);
                [Some(Account::Strangers), Some(Account::Source(source)), kept_long]
            }
        };
        let of_share = of_share.into_iter().flatten();
        let below = self.givers.iter().map(Account::Below);
        [Account::Publisher(self.publisher)].into_iter().chain(of_share).chain(below)
    }
}

/// How much more, or less, is counted on each account.
#[derive(Debug, Clone, Default)]
pub struct Moves(HashMap<Account, (i64, i64)>);

impl Moves {
    /// An entry takes the place of another one, or of none.
    pub fn replace(&mut self, before: Option<&Footprint>, after: Option<&Footprint>) {
        for (footprint, sign) in [(before, -1), (after, 1)] {
            let Some(footprint) = footprint else { continue };
            for account in footprint.accounts() {
                let bytes = sign * i64::try_from(footprint.bytes).unwrap_or(i64::MAX);
                match self.0.entry(account) {
                    Slot::Occupied(mut slot) => {
                        let (names, of_bytes) = slot.get_mut();
                        *names += sign;
                        *of_bytes = of_bytes.saturating_add(bytes);
                    }
                    Slot::Vacant(slot) => _ = slot.insert((sign, bytes)),
                }
            }
        }
    }

    /// What moves on one account.
    pub fn of(&self, account: &Account) -> (i64, i64) {
        self.0.get(account).copied().unwrap_or_default()
    }

    /// Accounts on which something moves.
    pub fn iter(&self) -> impl Iterator<Item = (&Account, &(i64, i64))> {
        self.0.iter().filter(|(_, moved)| **moved != (0, 0))
    }
}

/// A record of so many bytes takes about so many on disk: with its key, and with the room that
/// trees leave. Measured: 1,000,000 records of 270 bytes take 740 MB.
pub(crate) fn size_on_disk(record_len: usize) -> u64 {
    (record_len as u64 + Name::LEN as u64) * 5 / 2
}

/// Of what is left, a source may hold one in so many. One alone gets a ninth of the pool; after
/// thirteen that took what they could, one after the other, 21 % are left, after fifty 0.3 %.
const PARTS: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_later_finds_something_too() {
        let bound = Held { names: 100_000, bytes: 100_000 * 600 };
        let mut pool = Held::default();
        let mut last = 0;
        for source in 1..=13 {
            let mut own = Held::default();
            while own.may_grow(pool.left_of(bound)) && pool.left_of(bound).names > 0 {
                own = own.moved_by((1, 600));
                pool = pool.moved_by((1, 600));
            }
            last = own.names;
            if source == 1 {
                assert_eq!(own.names, bound.names / 9 + 1);
            }
        }
        assert!(pool.left_of(bound).names > bound.names / 5);
        assert!(last > 2_500, "{last}");
    }

    #[test]
    fn what_replaces_itself_moves_nothing() {
        let publisher = Name([1; 32]);
        let share = Share::Stranger(Source::V4([192, 0, 2, 1]));
        let givers = Givers::default();
        let footprint = Footprint { publisher, share, givers, is_kept_long: false, bytes: 700 };
        let mut moves = Moves::default();
        moves.replace(Some(&footprint), Some(&footprint));
        assert_eq!(moves.iter().count(), 0);
        moves.replace(None, Some(&footprint));
        assert_eq!(moves.of(&Account::Strangers), (1, 700));
        let admitted = Footprint { share: Share::Admitted, ..footprint.clone() };
        moves.replace(Some(&footprint), Some(&admitted));
        assert_eq!(
            (moves.of(&Account::Strangers), moves.of(&Account::Admitted)),
            ((0, 0), (1, 700))
        );
        assert_eq!(moves.of(&Account::Publisher(publisher)), (1, 700));
        let giver = Name([2; 32]);
        let below = Footprint { givers: Givers::new([giver].into_iter()), ..footprint };
        moves.replace(Some(&footprint), Some(&below));
        assert_eq!(moves.of(&Account::Below(giver)), (1, 700));
    }
}

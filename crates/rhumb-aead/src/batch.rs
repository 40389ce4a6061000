//! Sealing and opening many records: which go together, and what comes of their tags.
//!
//! Invariant: what becomes of a record depends on that record alone, whatever stands beside it.

use crate::Record;

/// The most records of one call: one bit of [`Opened`] for each.
pub const MAX_RECORDS: usize = 64;

/// Encrypts each record and writes its tag.
///
/// # Panics
/// With more than [`MAX_RECORDS`], and when a record's `from` has another length than its `bytes`.
pub fn seal(records: &mut [Record<'_>]) {
    check(records);
    let mut rest = records;
    while let Some(group) = next_group(&mut rest) {
        group[0].key.seal_group(group);
    }
}

/// Decrypts each record whose tag holds. The bytes of every other one are zeros then.
///
/// # Panics
/// As [`seal`].
pub fn open(records: &mut [Record<'_>]) -> Opened {
    check(records);
    let mut opened = Opened { opened: 0, count: records.len() as u32 };
    let (mut rest, mut at) = (records, 0);
    while let Some(group) = next_group(&mut rest) {
        opened.opened |= group[0].key.open_group(group) << at;
        at += group.len();
    }
    opened
}

/// Which records of a call opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Opened {
    opened: u64,
    count: u32,
}

impl Opened {
    /// Whether the tag of the record at this place held.
    #[inline]
    pub fn is_open(self, place: usize) -> bool {
        place < MAX_RECORDS && self.opened >> place & 1 == 1
    }

    /// Whether all tags held.
    #[inline]
    pub fn are_all(self) -> bool {
        self.opened.count_ones() == self.count
    }

    /// A bit for each record, the first lowest: set where the tag held.
    #[inline]
    pub fn bits(self) -> u64 {
        self.opened
    }
}

fn check(records: &[Record<'_>]) {
    assert!(records.len() <= MAX_RECORDS, "at most {MAX_RECORDS} records in one call");
    records.iter().for_each(Record::check);
}

/// Takes the records at the beginning that are worked on together: those of one key that follow
/// each other, as many as the key's backend takes side by side. What the key of a record further on
/// needs from memory is asked for meanwhile.
#[inline]
fn next_group<'r, 'a>(rest: &mut &'r mut [Record<'a>]) -> Option<&'r mut [Record<'a>]> {
    let first = rest.first()?;
    let key = first.key;
    let lanes = key.lanes(first.bytes.len());
    let mut count = 1;
    while count < lanes
        && let Some(next) = rest.get(count)
        && std::ptr::eq(next.key, key)
        && key.is_for_lanes(next.bytes.len())
    {
        count += 1;
    }
    if let Some(later) = rest.get(count - 1 + AHEAD)
        && !std::ptr::eq(later.key, key)
    {
        later.key.read_ahead(later.bytes.len());
    }
    let (group, others) = std::mem::take(rest).split_at_mut(count);
    *rest = others;
    Some(group)
}

/// How many records ahead: with one a key would not have come in time, with many it would be gone.
const AHEAD: usize = 3;

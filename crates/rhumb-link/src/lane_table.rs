//! Which session's lanes an index means. The index is a place in a table, a tag that changes
//! whenever the place is used again, and the lane; so look-up costs one index and one comparison,
//! and datagrams for a former session find nothing.
//!
//! | bits | what |
//! |---|---|
//! | 5 | tag, 1 to 31 |
//! | 20 | place |
//! | 3 | lane |
//!
//! A tag this short is enough, because it decides nothing: a record of a former session
//! whose tag has come round is opened with other keys than it was sealed with, which
//! fails, and costs what any forged record costs.

use std::collections::VecDeque;

use rhumb_wire::datagram::{LANES, SessionIndex};

/// Something for each session index that was given, for all its lanes.
pub(crate) struct LaneTable<T> {
    places: Vec<Place<T>>,
    /// First freed, first used again, so that a tag returns as late as possible.
    free: VecDeque<u32>,
    /// Where the tags of a place begin: differs from run to run, so
    /// that datagrams for the last run find nothing.
    first_tag: u8,
}

struct Place<T> {
    tag: u8,
    entry: Option<T>,
}

impl<T> LaneTable<T> {
    pub(crate) fn new(first_tag: u8) -> Self {
        Self { places: Vec::new(), free: VecDeque::new(), first_tag: first_tag % LAST_TAG }
    }

    /// Gives an index; `None` when all are taken.
    pub(crate) fn insert(&mut self, entry: T) -> Option<SessionIndex> {
        // A place that was just freed rests until others are free too.
        if self.free.len() > REST || self.places.len() > PLACE_MASK as usize {
            let place = self.free.pop_front()?;
            let slot = &mut self.places[place as usize];
            slot.tag = next_tag(slot.tag);
            slot.entry = Some(entry);
            return index(place, slot.tag);
        }
        let place = u32::try_from(self.places.len()).ok()?;
        let tag = next_tag(self.first_tag);
        self.places.push(Place { tag, entry: Some(entry) });
        index(place, tag)
    }

    /// Puts something where another table's index points to, in place of what was there.
    pub(crate) fn put(&mut self, index: SessionIndex, entry: T) {
        let (place, tag) = split(index);
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || Place { tag: 0, entry: None });
        }
        self.places[place] = Place { tag: tag as u8, entry: Some(entry) };
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: SessionIndex) -> Option<&mut T> {
        let (place, tag) = split(index);
        let place = self.places.get_mut(place)?;
        if u32::from(place.tag) == tag { place.entry.as_mut() } else { None }
    }

    #[inline]
    pub(crate) fn get(&self, index: SessionIndex) -> Option<&T> {
        let (place, tag) = split(index);
        let place = self.places.get(place)?;
        if u32::from(place.tag) == tag { place.entry.as_ref() } else { None }
    }

    /// Takes an index back.
    pub(crate) fn remove(&mut self, index: SessionIndex) {
        if self.forget(index) {
            self.free.push_back(split(index).0 as u32);
        }
    }

    /// Undoes [`LaneTable::put`]. Whether there was anything.
    pub(crate) fn forget(&mut self, index: SessionIndex) -> bool {
        let (place, tag) = split(index);
        let Some(place) = self.places.get_mut(place) else { return false };
        u32::from(place.tag) == tag && place.entry.take().is_some()
    }
}

/// Tags are never zero, so an index never is.
fn next_tag(tag: u8) -> u8 {
    if tag >= LAST_TAG { 1 } else { tag + 1 }
}

/// The index of lane 0.
fn index(place: u32, tag: u8) -> Option<SessionIndex> {
    SessionIndex::new(u32::from(tag) << (PLACE_BITS + LANE_BITS) | place << LANE_BITS)
}

/// Place and tag.
#[inline]
fn split(index: SessionIndex) -> (usize, u32) {
    let without_lane = index.as_u32() >> LANE_BITS;
    ((without_lane & PLACE_MASK) as usize, without_lane >> PLACE_BITS)
}

const LANE_BITS: u32 = LANES.trailing_zeros();
const PLACE_BITS: u32 = 20;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;
const LAST_TAG: u8 = (SessionIndex::MAX >> (PLACE_BITS + LANE_BITS)) as u8;
/// Freed places that rest before one is used again.
const REST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_index_finds_nothing() {
        let mut table = LaneTable::new(250);
        let mut former = std::collections::HashSet::new();
        for round in 0..1000 {
            let index = table.insert(round).unwrap();
            assert_ne!(index.as_u32(), 0);
            assert_eq!(index.lane(), 0);
            assert!(former.insert(index), "index {index:?} came back after {round} rounds");
            for lane in 0..LANES {
                assert_eq!(table.get(index.with_lane(lane)), Some(&round));
            }
            table.remove(index);
            table.remove(index);
            assert!(table.get(index).is_none() && table.get_mut(index).is_none());
        }
        assert!(table.places.len() <= REST + 1);
    }

    #[test]
    fn a_million_sessions_have_indexes_and_one_more_has_none() {
        let mut table = LaneTable::new(0);
        let mut last = None;
        for _ in 0..=PLACE_MASK {
            last = table.insert(());
            assert!(last.is_some());
        }
        assert_eq!(table.insert(()), None);
        let last = last.unwrap();
        assert!(last.with_lane(LANES - 1).as_u32() <= SessionIndex::MAX);
        table.remove(last);
        let next = table.insert(()).unwrap();
        assert!(next != last && table.get(last).is_none());
        const { assert!(LAST_TAG == 31 && PLACE_MASK >= 1_000_000) };
    }

    #[test]
    fn another_tables_index_finds_what_was_put_there() {
        let mut table = LaneTable::new(0);
        let index = |place, tag| super::index(place, tag).unwrap();
        table.put(index(3, 5), 'a');
        assert_eq!(table.get(index(3, 5).with_lane(7)), Some(&'a'));
        assert_eq!(
            (table.get(index(3, 4)), table.get(index(2, 0)), table.get(index(4, 5))),
            (None, None, None)
        );
        table.put(index(3, 6), 'b');
        assert!(!table.forget(index(3, 5)));
        assert_eq!((table.get(index(3, 5)), table.get(index(3, 6))), (None, Some(&'b')));
    }
}

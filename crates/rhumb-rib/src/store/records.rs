//! Records of entries in memory, for as many names as there is room: each spares reading it from
//! the file, and takes a quarter of the memory of an entry in use.
//!
//! What was not asked for longest makes room for what is new: each record stands in a queue, and
//! one that was asked for since its last turn is put behind all others.
//!
//! INVARIANT: a record stands in the queue once, and what all take is never above the bound.

use rhumb_wire::Name;

use crate::pieces::Pieces;
use crate::spread::Spread;

pub(crate) struct Records {
    kept: Spread<Name, Kept>,
    queue: Pieces<Name>,
    bytes: usize,
    bound: usize,
}

/// Empty when the record counts no longer: its place in the queue is still to come.
struct Kept {
    record: Box<[u8]>,
    is_used: bool,
}

impl Records {
    /// For records that take so many bytes together with what is needed to find them.
    pub(crate) fn new(bound: usize) -> Self {
        Self { kept: Spread::default(), queue: Pieces::default(), bytes: 0, bound }
    }

    pub(crate) fn get(&mut self, name: &Name) -> Option<&[u8]> {
        let kept = self.kept.get_mut(name).filter(|kept| !kept.record.is_empty())?;
        kept.is_used = true;
        Some(&kept.record)
    }

    pub(crate) fn insert(&mut self, name: Name, record: Vec<u8>) {
        let record = record.into_boxed_slice();
        self.bytes += record.len();
        match self.kept.get_mut(&name) {
            Some(kept) => {
                self.bytes -= kept.record.len();
                kept.record = record;
            }
            None => {
                self.bytes += PLACE;
                self.kept.insert(name, Kept { record, is_used: false });
                self.queue.push(name);
            }
        }
        self.make_room();
    }

    /// Of what nobody asked for: as long as nothing has to give way.
    pub(crate) fn offer(&mut self, name: Name, record: impl FnOnce() -> Vec<u8>) {
        if self.bytes + LARGE <= self.bound && !self.kept.contains_key(&name) {
            self.insert(name, record());
        }
    }

    /// The record counts no longer.
    pub(crate) fn remove(&mut self, name: &Name) {
        if let Some(kept) = self.kept.get_mut(name) {
            self.bytes -= kept.record.len();
            kept.record = Box::default();
        }
    }

    fn make_room(&mut self) {
        let mut spared = 0;
        while self.bytes > self.bound {
            let Some(name) = self.queue.pop() else { return };
            let Some(kept) = self.kept.get_mut(&name) else { continue };
            if spared < MAX_SPARED && std::mem::take(&mut kept.is_used) && !kept.record.is_empty() {
                spared += 1;
                self.queue.push(name);
            } else {
                self.bytes -= kept.record.len() + PLACE;
                self.kept.remove(&name);
            }
        }
    }
}

/// What a record takes besides its bytes: in the map, in the queue, and where it is.
const PLACE: usize = 160;
/// Room for any record but the rarest.
const LARGE: usize = 2048;
/// Bounds the work of one that is new.
const MAX_SPARED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 240;

    fn name(number: usize) -> Name {
        let mut name = [0; 32];
        name[..8].copy_from_slice(&number.to_be_bytes());
        Name(name)
    }

    fn record(number: usize) -> Vec<u8> {
        vec![number as u8; LEN]
    }

    #[test]
    fn what_is_in_use_stays_whatever_else_comes_and_nothing_is_beyond_the_bound() {
        let mut records = Records::new(100 * (LEN + PLACE));
        for number in 0..10_000 {
            records.insert(name(number), record(number));
            assert_eq!(records.get(&name(0)), Some(&record(0)[..]), "{number}");
            assert!(records.bytes <= records.bound && records.kept.len() <= 100);
        }
        assert_eq!(records.kept.len(), 100);
        assert_eq!(records.get(&name(9_999)), Some(&record(9_999)[..]));
        assert_eq!(records.get(&name(5_000)), None);
        // All are in use: something gives way all the same.
        (0..10_000).for_each(|number| _ = records.get(&name(number)));
        records.insert(name(10_000), record(1));
        assert!(records.bytes <= records.bound);
        assert!(records.get(&name(10_000)).is_some());
    }

    #[test]
    fn what_was_removed_is_not_there_and_may_come_again_as_often_as_it_likes() {
        let mut records = Records::new(100 * (LEN + PLACE));
        for number in 0..100_000 {
            records.insert(name(number % 10), record(number));
            records.remove(&name(number % 10));
            assert_eq!(records.get(&name(number % 10)), None);
        }
        assert_eq!((records.bytes, records.kept.len()), (10 * PLACE, 10));
        records.insert(name(3), record(7));
        assert_eq!(records.get(&name(3)), Some(&record(7)[..]));
        // Another record takes its place, of another length.
        records.insert(name(3), vec![1; 2 * LEN]);
        assert_eq!(records.bytes, 10 * PLACE + 2 * LEN);
        let mut queued = 0;
        while records.queue.pop().is_some() {
            queued += 1;
        }
        assert_eq!(queued, 10);
    }

    #[test]
    fn what_nobody_asked_for_takes_the_room_of_nothing() {
        let mut records = Records::new(10 * (LEN + PLACE) + LARGE);
        (0..20).for_each(|number| records.offer(name(number), || record(number)));
        assert_eq!(records.kept.len(), 11);
        assert!(records.get(&name(0)).is_some() && records.get(&name(19)).is_none());
        let mut none = Records::new(0);
        none.offer(name(0), || record(0));
        none.insert(name(0), record(0));
        assert_eq!((none.kept.len(), none.bytes), (0, 0));
    }
}

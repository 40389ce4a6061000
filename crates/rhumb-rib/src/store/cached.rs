//! A store with what is in use kept in memory in front of it. Of a store in a file these are as
//! many records as there is room for, and those few entries that are asked for most, which a
//! processor's caches hold; of a store elsewhere, entries.
//!
//! Only entries that exist are kept. Names that are not there would let a flood of random ones push
//! out those in use; they have a cache of their own, of signed absences.
//!
//! Of a store elsewhere it notes what was asked for and is not at hand, so that whoever asked can
//! be told to come again when it is ([`Cached::take_missed`]).

use std::hint::black_box;
use std::sync::Arc;

use rhumb_wire::Name;

use super::doubts::Doubts;
use super::recent::Recent;
use super::{Answer, Change, Doubt, Read, Store};
use crate::{Account, Entry, Held, RibError};

pub(crate) struct Cached<S> {
    store: S,
    hot: Recent<Arc<Entry>>,
    /// How many records were asked for again.
    asked_again: u32,
    /// None of a store elsewhere, which others change.
    records: Option<Recent<Box<[u8]>>>,
    doubts: Doubts,
    /// What was asked for since the last look, and is not at hand.
    missed: Vec<Read>,
    /// Entries that were in memory, and those that were not.
    uses: [u64; 2],
}

impl<S: Store> Cached<S> {
    /// With room for so many entries, and so many bytes of records.
    pub(crate) fn new(mut store: S, entries: usize, bytes: usize) -> Self {
        let is_elsewhere = store.awaited().is_some();
        let entries = match is_elsewhere {
            true => entries.max(LEAST_AWAITED),
            false => entries.min(MOST_BESIDE_RECORDS),
        };
        let records = (!is_elsewhere).then(|| Recent::new(bytes, RECORD_PLACE));
        Self {
            store,
            hot: Recent::new(entries, 1),
            asked_again: 0,
            records,
            doubts: Doubts::new(),
            missed: Vec::new(),
            uses: [0; 2],
        }
    }

    pub(crate) fn entry(&mut self, name: &Name) -> Result<Option<Arc<Entry>>, RibError> {
        if let Some(entry) = self.hot.get(name) {
            self.uses[0] += 1;
            return Ok(Some(entry.clone()));
        }
        let record = self.records.as_mut().and_then(|records| records.use_again(name));
        let decoded =
            record.and_then(|(record, is_again)| Some((Entry::decode(record)?, is_again)));
        if let Some((entry, is_again)) = decoded {
            self.uses[0] += 1;
            let entry = Arc::new(entry);
            self.asked_again = self.asked_again.wrapping_add(u32::from(is_again));
            if is_again && self.asked_again.is_multiple_of(KEPT_OF_AGAIN) {
                self.hot.insert(*name, entry.clone(), 0);
            }
            return Ok(Some(entry));
        }
        self.uses[1] += 1;
        let entry = self.store.entry(name);
        let Some(entry) = self.noting(Read::Entry(*name), entry)? else { return Ok(None) };
        self.record(*name, &entry);
        let entry = Arc::new(entry);
        // Beside records there is room for what is asked for again.
        if self.records.is_none() {
            self.hot.insert(*name, entry.clone(), 0);
        }
        Ok(Some(entry))
    }

    /// Has what is in memory of these names come near: they are asked for next.
    pub(crate) fn read_ahead(&self, names: &[Name]) {
        // A sum of something of each, so that nobody leaves the reading out.
        let mut sum = 0_u64;
        let cold = self.hot.read_ahead(names, |entry| sum ^= entry.touched());
        if let Some(records) = &self.records {
            records.read_ahead(&cold, |record| {
                sum ^= record.iter().step_by(64).map(|byte| u64::from(*byte)).sum::<u64>();
            });
        }
        black_box(sum);
    }

    fn record(&mut self, name: Name, entry: &Entry) {
        let Some(records) = &mut self.records else { return };
        let record = entry.encode().into_boxed_slice();
        let len = record.len();
        records.insert(name, record, len);
    }

    /// The first name that begins so.
    pub(crate) fn first_with(
        &mut self,
        beginning: [u8; Name::ADDRESS_LEN],
    ) -> Result<Option<Name>, RibError> {
        let first = self.store.first_with(beginning);
        self.noting(Read::FirstWith(beginning), first)
    }

    pub(crate) fn entries_after(
        &mut self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, RibError> {
        let entries = self.store.entries_after(after, limit);
        let entries = self.noting(Read::After(after, limit), entries)?;
        // Whoever goes through the store fills what room there is.
        for (name, entry) in &entries {
            if self.records.as_ref().is_some_and(|it| it.has_room(name, LARGE_RECORD)) {
                self.record(*name, entry);
            }
        }
        Ok(entries)
    }

    pub(crate) fn names(&mut self) -> Result<u64, RibError> {
        let names = self.store.names();
        self.noting(Read::Names, names)
    }

    pub(crate) fn held(&mut self, account: &Account) -> Result<Held, RibError> {
        let held = self.store.held(account);
        self.noting(Read::Held(*account), held)
    }

    fn noting<T>(&mut self, read: Read, result: Result<T, RibError>) -> Result<T, RibError> {
        if matches!(result, Err(RibError::NotAtHand)) {
            self.missed.push(read);
        }
        result
    }

    /// How many entries were in memory when they were asked for, and how many were not.
    pub(crate) fn uses(&self) -> [u64; 2] {
        self.uses
    }

    /// Whether something was asked for since the last look, and is not at hand.
    pub(crate) fn has_missed(&self) -> bool {
        !self.missed.is_empty()
    }

    /// That, once.
    pub(crate) fn take_missed(&mut self) -> Vec<Read> {
        std::mem::take(&mut self.missed)
    }

    /// A store elsewhere has answered.
    pub(crate) fn take_answer(&mut self, read: Read, answer: Answer) -> Taken {
        let Some(awaited) = self.store.awaited() else { return Taken::Old };
        let holds = match answer {
            Answer::Entry(Some(entry)) => {
                let Read::Entry(name) = read else { return Taken::Old };
                let holds = awaited.take_end(&read);
                if holds {
                    self.hot.insert(name, Arc::new(*entry), 0);
                }
                holds
            }
            answer => awaited.take_answer(read, answer),
        };
        match read {
            _ if !holds => Taken::Old,
            Read::Entry(name) if self.doubts.compare(name, self.hot.get(&name)) => {
                Taken::News(name)
            }
            _ => Taken::AsKnown,
        }
    }

    /// A commit of these changes has ended, well or not.
    pub(crate) fn settle(&mut self, changes: &[Change], is_written: bool, unwritten: &[Name]) {
        self.store.settle(changes, is_written);
        let is_elsewhere = self.store.awaited().is_some();
        for Change { name, after, .. } in changes {
            match after {
                Some(entry) if is_written && !unwritten.contains(name) => {
                    self.record(*name, entry);
                    let entry = Arc::new(entry.clone());
                    self.doubts.end(name, is_elsewhere.then(|| entry.clone()));
                    // What is published pushes out nothing that is asked for.
                    if is_elsewhere || self.hot.get(name).is_some() {
                        self.hot.insert(*name, entry, 0);
                    }
                }
                // After a failure it is not known which state the
                // store is in, so nothing may be remembered.
                _ => {
                    self.doubts.end(name, None);
                    self.hot.remove(name);
                    if let Some(records) = &mut self.records {
                        records.remove(name);
                    }
                }
            }
        }
    }

    /// Somebody else changes what is stored of a name, and that is told for the first time or
    /// again. What is in memory of it counts no longer, unless the change has been read.
    pub(crate) fn doubt(&mut self, name: &Name, is_first: bool, now_s: u64) -> Doubt {
        let held = self.hot.get(name).cloned();
        let doubt = match is_first {
            true => self.doubts.begin(*name, held, now_s),
            false => self.doubts.go_on(*name, held, now_s),
        };
        if doubt != Doubt::Settled {
            self.hot.remove(name);
            if let Some(awaited) = self.store.awaited() {
                awaited.forget(name);
            }
        }
        doubt
    }

    /// Whether all who share the store were told that this is there, as far as is known: of a store
    /// of one's own there is nobody else.
    pub(crate) fn was_told(&mut self, name: &Name, there: &Entry) -> bool {
        self.store.awaited().is_none() || self.doubts.was_told(name, there)
    }

    /// Somebody else may have changed anything.
    pub(crate) fn forget_all(&mut self) {
        self.hot.clear();
        self.doubts.clear();
        if let Some(awaited) = self.store.awaited() {
            awaited.forget_all();
        }
    }

    pub(crate) fn store(&mut self) -> &mut S {
        &mut self.store
    }

    pub(crate) fn into_store(self) -> S {
        self.store
    }
}

/// What a store elsewhere has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Something of it has changed since it was asked for.
    Old,
    /// It is at hand, and says nothing new to those who were told of it, as far as is known.
    AsKnown,
    /// It is at hand, and says of this name what nobody here was told.
    News(Name),
}

/// Taking a record apart is faster than waiting for an entry that is in no cache of the processor.
const MOST_BESIDE_RECORDS: usize = 1 << 12;
/// Of records that are asked for again, one in so many has its entry kept: what is asked for most
/// is soon among them, and little gives way to what is not.
const KEPT_OF_AGAIN: u32 = 64;
/// What a record takes besides its bytes: in the map, in the queue, and where it is.
const RECORD_PLACE: usize = 160;
/// Room for any record but the rarest.
const LARGE_RECORD: usize = 2048;
/// What is read for one request has to be at hand together.
const LEAST_AWAITED: usize = 1 << 12;

#[cfg(test)]
mod tests {
    use rhumb_trust::name_of;
    use rhumb_wire::{Metadata, PublicKey, Role};

    use super::*;
    use crate::store::Memory;

    /// Of the name of this number, published by somebody of that number.
    fn entry(number: u64, publisher: u8) -> (Name, Entry) {
        let metadata = Metadata::new(Role::Node, PublicKey::Ed25519([7; 32]), number);
        (name_of(&metadata), Entry::new(metadata, Name([publisher; 32])))
    }

    fn publish(cached: &mut Cached<Memory>, (name, entry): (Name, Entry)) {
        let changes = [Change { name, before: None, after: Some(entry) }];
        cached.store().commit(&changes).expect("stored");
        cached.settle(&changes, true, &[]);
    }

    /// Asks often enough for one to have its entry kept.
    fn ask_again(cached: &mut Cached<Memory>, name: &Name) {
        for _ in 0..=KEPT_OF_AGAIN {
            assert!(cached.entry(name).expect("read").is_some());
        }
    }

    #[test]
    fn what_is_asked_for_most_stays_whatever_is_published_and_is_always_the_newest() {
        let mut cached = Cached::new(Memory::new(), 4, 1 << 20);
        let (name, first) = entry(0, 1);
        publish(&mut cached, (name, first));
        assert!(cached.hot.get(&name).is_none());
        ask_again(&mut cached, &name);
        assert!(cached.hot.get(&name).is_some());
        for number in 1..1000 {
            publish(&mut cached, entry(number, 1));
        }
        assert!(cached.hot.get(&name).is_some());
        publish(&mut cached, entry(0, 2));
        for _ in 0..2 {
            let held = cached.entry(&name).expect("read").expect("there");
            assert_eq!(held.publisher(), Name([2; 32]));
        }
        // A record is replaced as well, of which no entry is kept.
        publish(&mut cached, entry(5, 2));
        let held = cached.entry(&entry(5, 2).0).expect("read").expect("there");
        assert_eq!(held.publisher(), Name([2; 32]));
    }

    #[test]
    fn who_asks_once_for_each_name_has_none_kept_and_who_asks_twice_few() {
        let mut cached = Cached::new(Memory::new(), 1 << 10, 1 << 24);
        let names: Vec<Name> = (0..1000).map(|number| entry(number, 1).0).collect();
        (0..1000).for_each(|number| publish(&mut cached, entry(number, 1)));
        let kept = |cached: &mut Cached<Memory>| {
            names.iter().filter(|name| cached.hot.get(name).is_some()).count()
        };
        names.iter().for_each(|name| _ = cached.entry(name).expect("read"));
        assert_eq!(kept(&mut cached), 0);
        names.iter().for_each(|name| _ = cached.entry(name).expect("read"));
        assert_eq!(kept(&mut cached), 1000 / KEPT_OF_AGAIN as usize);
        assert_eq!(cached.uses(), [2000, 0]);
    }
}

//! Which store each RIB has, and what a new one is to be told anew.
//!
//! 1. When a session with a RIB begins, it is asked which store it has, until it answers.
//! 2. Another one than before lacks perhaps whatever was stored there: all names that were
//!    published here go there again, so many at a time that neither end is drowned. A RIB that has
//!    them already answers without writing anything.
//!
//! What was not stored yet is repeated anyway: `publications`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_wire::rib::{RequestId, RibRequestBody, StoreId};
use rhumb_wire::{Certificate, Metadata, Name};

use super::{Directory, Question, Slot};

pub(super) struct Stores {
    by_replica: Vec<Seen>,
    /// What is to be published at which RIB again.
    behind: VecDeque<(usize, Name)>,
    behind_due: Option<Instant>,
}

/// What is known of one RIB's store.
#[derive(Default, Clone)]
struct Seen {
    store: Option<StoreId>,
    /// When to ask again in this session.
    again_at: Option<Instant>,
    tries: u32,
}

impl Stores {
    pub(super) fn new(replicas: usize) -> Self {
        let by_replica = vec![Seen::default(); replicas];
        Self { by_replica, behind: VecDeque::new(), behind_due: None }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let asking = self.by_replica.iter().filter_map(|seen| seen.again_at);
        asking.chain(self.behind_due).min()
    }

    /// The session with a RIB ended: it is asked again in the next.
    pub(super) fn closed(&mut self, replica: usize) {
        self.by_replica[replica].again_at = None;
        self.by_replica[replica].tries = 0;
    }
}

impl Directory {
    /// Asks a RIB which store it has.
    pub(super) fn ask_store(&mut self, replica: usize, now: Instant) {
        let seen = &mut self.stores.by_replica[replica];
        seen.again_at = Some(now + REPEAT_AFTER * 2u32.pow(seen.tries.min(MAX_DOUBLINGS)));
        seen.tries += 1;
        self.send(replica, Question::Store(replica), RibRequestBody::WhichStore, now);
    }

    pub(super) fn ask_stores_again(&mut self, now: Instant) {
        for replica in 0..self.stores.by_replica.len() {
            if self.stores.by_replica[replica].again_at.is_some_and(|at| at <= now) {
                self.ask_store(replica, now);
            }
        }
    }

    /// A RIB said which store it has, or that it cannot
    /// tell. Whether it is another one than before.
    pub fn store_told(&mut self, replica: usize, store: Option<StoreId>) -> bool {
        let Some(seen) = self.stores.by_replica.get_mut(replica) else { return false };
        seen.again_at = None;
        let Some(store) = store else { return false };
        let is_another = seen.store.replace(store).is_some_and(|before| before != store);
        if is_another {
            // It may begin from a back-up, and need not know what it said.
            self.words.forget(replica);
        }
        is_another
    }

    /// Notes names that are to be published at a RIB again.
    pub fn publish_anew(&mut self, replica: usize, names: Vec<Name>, now: Instant) {
        let stores = &mut self.stores;
        stores.behind.retain(|(behind, _)| *behind != replica);
        stores.behind.extend(names.into_iter().map(|name| (replica, name)));
        stores.behind_due = (!stores.behind.is_empty()).then_some(now);
    }

    /// The next that are to be published again, and where.
    pub fn take_behind(&mut self, now: Instant) -> Vec<(usize, Name)> {
        if self.stores.behind_due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        let behind = &mut self.stores.behind;
        let taken: Vec<_> = behind.drain(..behind.len().min(BURST)).collect();
        self.stores.behind_due = (!behind.is_empty()).then_some(now + BURST_INTERVAL);
        taken
    }

    /// Publishes at one RIB what is stored at the others, as far as they are to have it at all.
    pub fn publish_at(
        &mut self,
        replica: usize,
        metadata: Arc<Metadata>,
        certificates: Vec<Certificate>,
        until: Instant,
        now: Instant,
    ) {
        let Some(slot) = certificates.first().map(Slot::of) else { return };
        if !self.publications.has_room(&slot.issuer) {
            return;
        }
        let first_id = RequestId(self.next_id);
        let replicas = self.replicas.len();
        self.publications
            .lost(slot, (replica, replicas), first_id, || (metadata, certificates, until));
        self.send_publication(slot, replica, now);
    }
}

/// As long as an answer may take on a bad day.
const REPEAT_AFTER: Duration = Duration::from_millis(500);
const MAX_DOUBLINGS: u32 = 4;
/// With [`BURST_INTERVAL`] 1,000 a second: what a RIB verifies for one source.
const BURST: usize = 10;
const BURST_INTERVAL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn a_new_store_is_told_everything_at_a_pace_that_it_can_keep() {
        let start = Instant::now();
        let mut directory = Directory::new(&[], 1, 1, start);
        let names: Vec<Name> = (0..5000u16)
            .map(|number| {
                let mut name = Name([0; 32]);
                name.0[..2].copy_from_slice(&number.to_be_bytes());
                name
            })
            .collect();
        directory.publish_anew(0, names.clone(), start);
        let (mut told, mut now) = (Vec::new(), start);
        while let Some(due) = directory.stores.due() {
            now = due;
            told.extend(directory.take_behind(now).into_iter().map(|(_, name)| name));
            let elapsed_ms = now.duration_since(start).as_millis() as usize;
            assert!(told.len() <= BURST + elapsed_ms, "{} after {elapsed_ms} ms", told.len());
            // Whoever is asked too early has nothing.
            assert_eq!(directory.take_behind(now), []);
        }
        assert_eq!(told, names);
        assert!(now.duration_since(start) <= Duration::from_secs(5));
    }
}

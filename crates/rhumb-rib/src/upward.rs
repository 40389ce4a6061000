//! What is to be handed on to the domain around: names to look at, and what was handed on.
//!
//! 1. A name is noted when its statements change here; at the start the whole store is walked.
//! 2. Some at a time are looked at, so that neither end is drowned: [`Upward::take`].
//! 3. What was handed on is remembered by slot and sequence, so that nothing goes twice, and a
//!    withdrawal follows only what went before it.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::time::{Duration, Instant};

use rhumb_directory::{Kind, Slot, Table};
use rhumb_wire::{Certificate, Name};

pub(crate) struct Upward {
    queue: VecDeque<Name>,
    queued: HashSet<Name>,
    passed: Table<Slot, u64>,
    /// Where the walk through the store goes on, while there is one.
    walk: Option<Option<Name>>,
    /// Servers that are not known outside, each with a name that it answers for.
    kept_in: BTreeSet<(Name, Name)>,
    due: Option<Instant>,
}

impl Upward {
    /// Everything is to be looked at; so many names are remembered.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            queued: HashSet::new(),
            passed: Table::new(bound.saturating_mul(2)),
            walk: Some(None),
            kept_in: BTreeSet::new(),
            due: None,
        }
    }

    /// A name is to be looked at. What finds no room is found by another walk.
    pub(crate) fn note(&mut self, name: Name) {
        if self.queue.len() >= MAX_QUEUED {
            self.walk = Some(None);
        } else if self.queued.insert(name) {
            self.queue.push_back(name);
        }
    }

    /// Whether it is time to go on. If so, it is again after a while.
    pub(crate) fn is_time(&mut self, now: Instant) -> bool {
        let is_time = self.has_work() && self.due.is_none_or(|due| due <= now);
        if is_time {
            self.due = Some(now + BURST_INTERVAL);
        }
        is_time
    }

    /// The next names to look at.
    pub(crate) fn take(&mut self) -> Vec<Name> {
        let taken: Vec<Name> = self.queue.drain(..self.queue.len().min(BURST)).collect();
        for name in &taken {
            self.queued.remove(name);
        }
        taken
    }

    /// From where to read the store on, when all that was noted has been looked at.
    pub(crate) fn walk_from(&self) -> Option<Option<Name>> {
        self.walk.filter(|_| self.queue.is_empty())
    }

    /// Everything is to be looked at again: what is not remembered to be outside goes there.
    pub(crate) fn walk_again(&mut self) {
        self.walk = Some(None);
    }

    /// The walk has come to here, or to the end.
    pub(crate) fn walked_to(&mut self, name: Option<Name>) {
        self.walk = name.map(Some);
    }

    /// There is no room now: looks again in a while.
    pub(crate) fn postpone(&mut self, name: Name, now: Instant) {
        self.note(name);
        self.due = Some(now + POSTPONE_FOR);
    }

    /// When there is something to do; at once when it was not told yet.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| self.has_work())
    }

    fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.walk.is_some()
    }

    /// Whether anything of a name went outside.
    pub(crate) fn has_passed(&self, issuer: Name) -> bool {
        let slots = [Kind::Way, Kind::Locator, Kind::Export].map(|kind| Slot { issuer, kind });
        slots.iter().any(|slot| self.passed.peek(slot).is_some())
    }

    /// Whether this very statement did, which is noted if not.
    pub(crate) fn pass(&mut self, certificate: &Certificate) -> bool {
        let slot = Slot::of(certificate);
        let is_new = self.passed.get(&slot).is_none_or(|passed| *passed != certificate.sequence);
        if is_new {
            self.passed.insert(slot, certificate.sequence);
        }
        if let Slot { issuer, kind: Kind::OneOf(_) } = slot {
            // For whoever asks whether anything of the issuer went.
            let way = Slot { issuer, kind: Kind::Way };
            self.passed.insert(way, self.passed.peek(&way).copied().unwrap_or(0));
        }
        is_new
    }

    /// It was refused: the next of its slot is a new one, whatever its sequence.
    pub(crate) fn forget(&mut self, slot: &Slot) {
        self.passed.remove(slot);
    }

    /// Everybody of whom something went outside, in the order of names.
    pub(crate) fn issuers(&self) -> Vec<Name> {
        let issuers: BTreeSet<Name> = self.passed.iter().map(|(slot, _)| slot.issuer).collect();
        issuers.into_iter().collect()
    }

    /// A service stays inside, since its server does.
    pub(crate) fn keep_in(&mut self, server: Name, name: Name) {
        if self.kept_in.len() < MAX_KEPT_IN {
            self.kept_in.insert((server, name));
        }
    }

    /// A server is known outside from now on: so is what it answers for.
    pub(crate) fn let_out(&mut self, server: Name) {
        let range = (server, Name([0; 32]))..=(server, Name([0xFF; 32]));
        let names: Vec<Name> = self.kept_in.range(range).map(|(_, name)| *name).collect();
        for name in names {
            self.kept_in.remove(&(server, name));
            self.note(name);
        }
    }
}

/// With [`BURST_INTERVAL`] 1,000 names a second: what a RIB verifies for one source.
const BURST: usize = 10;
const BURST_INTERVAL: Duration = Duration::from_millis(10);
/// RIBs that are away for long are not there in a moment.
const POSTPONE_FOR: Duration = Duration::from_secs(1);
/// 4 MB; what is more is found by walking.
const MAX_QUEUED: usize = 1 << 16;
/// 4 MB. A service beyond it goes outside with its renewal only.
const MAX_KEPT_IN: usize = 1 << 16;

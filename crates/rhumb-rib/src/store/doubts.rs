//! What others have changed in a store elsewhere, until it is known what became of it.
//!
//! A change is told when it begins to be written, and some times again, since what is read at once
//! may be older than it. Here is what an entry was before: so what is read shows whether the change
//! is there, after which it need not be read again, and whether it says anything new to those who
//! were told of the name. Renewals, which are most of what changes, say nothing new.
//!
//! Of what this directory writes itself it keeps what everybody was told: an order that is repeated
//! may be of a commit that failed here or elsewhere, is there all the same, and was told to nobody.

use std::sync::Arc;

use rhumb_wire::Name;

use crate::Entry;
use crate::generations::Generations;

pub(crate) struct Doubts {
    before: Generations<Name, Before>,
    /// Names of which what was told last has been read.
    settled: Generations<Name, ()>,
    /// What this directory has written last, and told.
    told: Generations<Name, Arc<Entry>>,
}

/// An entry as it was in memory when a change of it was told.
struct Before {
    entry: Arc<Entry>,
    told_s: u64,
    /// More than one change is under way: what is read may be the one or the other.
    is_of_several: bool,
}

/// What can be said of a change that is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It has been read.
    Settled,
    /// What is read will be held against what was there before.
    Compared,
    /// Nothing was in memory that it could be held against.
    Unknown,
}

impl Doubts {
    pub(crate) fn new() -> Self {
        let (before, settled) = (Generations::new(NAMES), Generations::new(NAMES));
        Self { before, settled, told: Generations::new(NAMES) }
    }

    /// A change of a name is told for the first time, of which this was in memory.
    pub(crate) fn begin(&mut self, name: Name, held: Option<Arc<Entry>>, now_s: u64) -> Doubt {
        self.settled.remove(&name);
        self.told.remove(&name);
        let other = self.before.get_mut(&name).map(|before| before.told_s);
        let is_of_several = other.is_some_and(|told_s| told_s + UNDER_WAY_S > now_s);
        let Some(entry) = held else {
            self.before.remove(&name);
            return Doubt::Unknown;
        };
        self.before.insert(name, Before { entry, told_s: now_s, is_of_several });
        Doubt::Compared
    }

    /// A change is told once more.
    pub(crate) fn go_on(&mut self, name: Name, held: Option<Arc<Entry>>, now_s: u64) -> Doubt {
        if self.settled.get_mut(&name).is_some() {
            return Doubt::Settled;
        }
        self.told.remove(&name);
        match (self.before.get_mut(&name), held) {
            (Some(before), Some(entry)) => before.entry = entry,
            (Some(_), None) => {}
            (None, None) => return Doubt::Unknown,
            // It was read after the change was told, so there may be more of them than this one.
            (None, Some(entry)) => {
                self.before.insert(name, Before { entry, told_s: now_s, is_of_several: true });
            }
        }
        Doubt::Compared
    }

    /// What is there of a name was read. Whether it says anything new to who was told of it.
    pub(crate) fn compare(&mut self, name: Name, there: Option<&Arc<Entry>>) -> bool {
        let Some(before) = self.before.get_mut(&name) else { return false };
        let Some(entry) = there else {
            self.before.remove(&name);
            return true;
        };
        if **entry == *before.entry {
            return false;
        }
        let standing = |entry: &Entry| entry.standing(before.told_s);
        let says_news = standing(entry) != standing(&before.entry);
        if before.is_of_several {
            before.entry = entry.clone();
        } else {
            self.before.remove(&name);
            self.settled.insert(name, ());
        }
        says_news
    }

    /// This was written here of a name, and everybody was told; or nothing is known of what was.
    pub(crate) fn end(&mut self, name: &Name, told: Option<Arc<Entry>>) {
        self.before.remove(name);
        match told {
            Some(entry) => self.told.insert(*name, entry),
            None => self.told.remove(name),
        };
    }

    /// Whether everybody was told that this is there.
    pub(crate) fn was_told(&mut self, name: &Name, there: &Entry) -> bool {
        self.told.get_mut(name).is_some_and(|told| **told == *there)
    }

    pub(crate) fn clear(&mut self) {
        self.before.clear();
        self.settled.clear();
        self.told.clear();
    }
}

/// Of those beyond, each change is read each time and told: about 10 MB.
const NAMES: usize = 1 << 14;
/// A change is told for the last time before.
const UNDER_WAY_S: u64 = 12;

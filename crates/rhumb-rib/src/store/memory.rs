//! A store that lives as long as the process: for tests, and for a directory that may forget.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use rhumb_wire::Name;

use super::{Change, Store};
use crate::{Entry, RibError};

/// Entries in memory. Nothing here can fail.
#[derive(Debug, Default)]
pub struct Memory {
    entries: BTreeMap<Name, Entry>,
    held: HashMap<Name, u64>,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn release(&mut self, publisher: Name) {
        if let Some(count) = self.held.get_mut(&publisher) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&publisher);
            }
        }
    }
}

impl Store for Memory {
    fn entry(&mut self, name: &Name) -> Result<Option<Entry>, RibError> {
        Ok(self.entries.get(name).cloned())
    }

    fn entries_after(
        &mut self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, RibError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.entries.range((from, Bound::Unbounded));
        Ok(range.take(limit).map(|(name, entry)| (*name, entry.clone())).collect())
    }

    fn names(&mut self) -> Result<u64, RibError> {
        Ok(self.entries.len() as u64)
    }

    fn held_by(&mut self, publisher: &Name) -> Result<u64, RibError> {
        Ok(self.held.get(publisher).copied().unwrap_or(0))
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), RibError> {
        for (name, entry) in changes {
            let before = match entry {
                Some(entry) => {
                    *self.held.entry(entry.publisher()).or_default() += 1;
                    self.entries.insert(*name, entry.clone())
                }
                None => self.entries.remove(name),
            };
            if let Some(before) = before {
                self.release(before.publisher());
            }
        }
        Ok(())
    }
}

//! A store that lives as long as the process: for tests, and for a directory that may forget.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use rhumb_trust::Removal;
use rhumb_wire::Name;

use super::{Change, RemovalChange, Store};
use crate::{Account, Entry, Footprint, Held, Moves, RibError};

/// Entries in memory. Nothing here can fail.
#[derive(Debug, Default)]
pub struct Memory {
    entries: BTreeMap<Name, Entry>,
    held: HashMap<Account, Held>,
    removals: BTreeMap<(Name, Name), Removal>,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn count(&mut self, moves: &Moves) {
        for (account, moved) in moves.iter() {
            match self.held.entry(*account).or_default().moved_by(*moved) {
                Held { names: 0, .. } => _ = self.held.remove(account),
                held => _ = self.held.insert(*account, held),
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

    fn held(&mut self, account: &Account) -> Result<Held, RibError> {
        Ok(self.held.get(account).copied().unwrap_or_default())
    }

    fn commit(&mut self, changes: &[Change]) -> Result<Vec<Name>, RibError> {
        let mut moves = Moves::default();
        for Change { name, after: entry, .. } in changes {
            let before = match entry {
                Some(entry) => self.entries.insert(*name, entry.clone()),
                None => self.entries.remove(name),
            };
            let [before, after] = [&before, entry].map(|it| it.as_ref().map(Footprint::of));
            moves.replace(before.as_ref(), after.as_ref());
        }
        self.count(&moves);
        Ok(Vec::new())
    }

    fn removals(&mut self) -> Result<Vec<Option<Removal>>, RibError> {
        Ok(self.removals.values().cloned().map(Some).collect())
    }

    fn commit_removals(&mut self, changes: &[RemovalChange]) -> Result<(), RibError> {
        for (key, removal) in changes {
            match removal {
                Some(removal) => self.removals.insert(*key, (***removal).clone()),
                None => self.removals.remove(key),
            };
        }
        Ok(())
    }
}

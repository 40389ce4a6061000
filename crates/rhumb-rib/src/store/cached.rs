//! A store with the entries in use kept in memory in front of it.
//!
//! Only entries that exist are kept. Names that are not there would let a flood of random ones push
//! out those in use; they have a cache of their own, of signed absences.

use std::sync::Arc;

use rhumb_wire::Name;

use super::{Change, Store};
use crate::generations::Generations;
use crate::{Entry, RibError};

pub(crate) struct Cached<S> {
    store: S,
    hot: Generations<Name, Arc<Entry>>,
}

impl<S: Store> Cached<S> {
    pub(crate) fn new(store: S, bound: usize) -> Self {
        Self { store, hot: Generations::new(bound) }
    }

    pub(crate) fn entry(&mut self, name: &Name) -> Result<Option<Arc<Entry>>, RibError> {
        if let Some(entry) = self.hot.get_mut(name) {
            return Ok(Some(entry.clone()));
        }
        let Some(entry) = self.store.entry(name)? else { return Ok(None) };
        let entry = Arc::new(entry);
        self.hot.insert(*name, entry.clone());
        Ok(Some(entry))
    }

    /// A commit of these changes has ended, well or not.
    pub(crate) fn settle(&mut self, changes: &[Change], is_written: bool) {
        self.store.refresh();
        for (name, entry) in changes {
            match entry {
                Some(entry) if is_written => self.hot.insert(*name, Arc::new(entry.clone())),
                // After a failure it is not known which state the
                // store is in, so nothing may be remembered.
                _ => self.hot.remove(name),
            }
        }
    }

    pub(crate) fn store(&mut self) -> &mut S {
        &mut self.store
    }

    pub(crate) fn into_store(self) -> S {
        self.store
    }
}

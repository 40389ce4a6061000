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

    /// The first name that has an entry, from this one on.
    pub(crate) fn first_from(&mut self, name: &Name) -> Result<Option<Name>, RibError> {
        let found = self.store.entries_after(before(name), 1)?;
        Ok(found.first().map(|(name, _)| *name))
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

/// The last name before this one; none before the first.
fn before(name: &Name) -> Option<Name> {
    let mut before = *name;
    for byte in before.0.iter_mut().rev() {
        let (less, borrows) = byte.overflowing_sub(1);
        *byte = less;
        if !borrows {
            return Some(before);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_before_them_but_for_the_first() {
        let mut name = Name([0; 32]);
        assert_eq!(before(&name), None);
        name.0[15] = 1;
        let mut expected = Name([0; 32]);
        expected.0[16..].fill(255);
        assert_eq!(before(&name), Some(expected));
    }
}

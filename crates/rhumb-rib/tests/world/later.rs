//! A store that is elsewhere: nothing of it is at hand before it has been read.

use rhumb_rib::store::{Answer, Awaited, Change, Read, RemovalChange, Store};
use rhumb_rib::{Account, Entry, Held, RibError};
use rhumb_trust::Removal;
use rhumb_wire::Name;

/// What the directory sees, and what is there.
pub(crate) struct Later<S> {
    awaited: Awaited,
    pub(crate) there: S,
}

impl<S: Store> Later<S> {
    pub(crate) fn new(mut there: S) -> Self {
        let removals = there.removals().expect("removals that can be read");
        Self { awaited: Awaited::new(removals), there }
    }
}

impl<S: Store> Store for Later<S> {
    fn entry(&mut self, name: &Name) -> Result<Option<Entry>, RibError> {
        self.awaited.entry(name)
    }

    fn first_with(&mut self, beginning: [u8; Name::ADDRESS_LEN]) -> Result<Option<Name>, RibError> {
        self.awaited.first_with(beginning)
    }

    fn entries_after(
        &mut self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, RibError> {
        self.awaited.entries_after(after, limit)
    }

    fn names(&mut self) -> Result<u64, RibError> {
        self.awaited.names()
    }

    fn held(&mut self, account: &Account) -> Result<Held, RibError> {
        self.awaited.held(account)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<Vec<Name>, RibError> {
        self.there.commit(changes)
    }

    fn removals(&mut self) -> Result<Vec<Option<Removal>>, RibError> {
        self.awaited.removals()
    }

    fn commit_removals(&mut self, changes: &[RemovalChange]) -> Result<(), RibError> {
        self.there.commit_removals(changes)
    }

    fn settle(&mut self, changes: &[Change], is_written: bool) {
        self.awaited.settle(changes, is_written);
    }

    fn read(&mut self, read: &Read) -> Result<Answer, RibError> {
        self.there.read(read)
    }

    fn awaited(&mut self) -> Option<&mut Awaited> {
        Some(&mut self.awaited)
    }
}

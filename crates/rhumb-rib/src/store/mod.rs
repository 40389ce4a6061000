//! Where entries live. The trait says what the directory needs of a
//! store, so that another one can take its place.
//!
//! A store keeps whole entries by name and knows nothing of certificates. Its one promise is in
//! [`Store::commit`]: what it accepted outlives the process and the machine.
//!
//! A store on this machine answers at once. One that is elsewhere does not: what it is asked
//! ([`Store::entry`] and its like) it has read by whoever drives the directory, and until that is
//! there it says [`RibError::NotAtHand`]. [`Awaited`] is the half of such a store that the
//! directory sees.

mod awaited;
pub mod backup;
mod cached;
mod doubts;
pub mod embedded;
mod listing;
pub mod memory;
mod recent;

pub use awaited::Awaited;
pub use backup::{Copied, restore};
pub(crate) use cached::{Cached, Taken};
pub(crate) use doubts::Doubt;
pub use embedded::Embedded;
pub use listing::{Beginning, MOST_LISTED, NoBeginning, Page, Wanted};
pub use memory::Memory;

use std::sync::Arc;

use rhumb_trust::{Removal, Verified};
use rhumb_wire::Name;

use crate::{Account, Entry, Held, RibError};

/// Entries by name, in an order of the store's own.
pub trait Store {
    /// The entry of `name`.
    ///
    /// # Errors
    /// When the store cannot be read or the entry is damaged; [`RibError::NotAtHand`] when it is
    /// being read.
    fn entry(&mut self, name: &Name) -> Result<Option<Entry>, RibError>;

    /// The first name that begins so. As it is, it serves stores whose order is that of names.
    ///
    /// # Errors
    /// As [`Store::entry`].
    fn first_with(&mut self, beginning: [u8; Name::ADDRESS_LEN]) -> Result<Option<Name>, RibError> {
        let found = self.entries_after(before(&Name::first_of(beginning)), 1)?;
        let first = found.first().map(|(name, _)| *name);
        Ok(first.filter(|name| name.beginning() == beginning))
    }

    /// At most `limit` entries in the order of the store, beginning after `after`, or with the
    /// first.
    ///
    /// # Errors
    /// As [`Store::entry`].
    fn entries_after(
        &mut self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, RibError>;

    /// A page of what is stored, for people. As it is, it serves stores whose order is that of
    /// names.
    ///
    /// # Errors
    /// As [`Store::entry`]; whoever can tells of a damaged entry that it is one.
    fn page(&mut self, wanted: &Wanted) -> Result<Page, RibError> {
        wanted.page_by(|after, limit| {
            let entries = self.entries_after(after, limit)?;
            Ok(entries.into_iter().map(|(name, entry)| (name, Some(entry))).collect())
        })
    }

    /// About how many names have an entry.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn names(&mut self) -> Result<u64, RibError>;

    /// What is counted on an account: a store keeps them with the entries
    /// ([`Footprint::of`](crate::Footprint::of)).
    ///
    /// # Errors
    /// As [`Store::entry`].
    fn held(&mut self, account: &Account) -> Result<Held, RibError>;

    /// Writes all changes or none. When this returns `Ok`, they are durable, but for those of the
    /// names that it returns: of these something newer stands there, or keeps older ones away.
    /// After an error, nothing is known of the changes but that none is written in part.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn commit(&mut self, changes: &[Change]) -> Result<Vec<Name>, RibError>;

    /// All removals, none in place of one that is damaged. Read once, when a directory begins.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn removals(&mut self) -> Result<Vec<Option<Removal>>, RibError>;

    /// Writes all changes or none, as [`Store::commit`] does.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn commit_removals(&mut self, changes: &[RemovalChange]) -> Result<(), RibError>;

    /// A commit of these changes, through another handle of the same store, has ended, well or not:
    /// what is read from here on is what it left. Stores that have one handle only need not do
    /// anything.
    fn settle(&mut self, _changes: &[Change], _is_written: bool) {}

    /// Answers a question of [`Awaited`] by a store that answers at once.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn read(&mut self, read: &Read) -> Result<Answer, RibError> {
        Ok(match read {
            Read::Entry(name) => Answer::Entry(self.entry(name)?.map(Box::new)),
            Read::FirstWith(beginning) => Answer::FirstWith(self.first_with(*beginning)?),
            Read::After(after, limit) => Answer::After(self.entries_after(*after, *limit)?),
            Read::Names => Answer::Names(self.names()?),
            Read::Held(account) => Answer::Held(self.held(account)?),
        })
    }

    /// The half of the store that waits for answers, if it is not here.
    fn awaited(&mut self) -> Option<&mut Awaited> {
        None
    }
}

/// What becomes of a name's entry.
#[derive(Debug, Clone)]
pub struct Change {
    /// Whose.
    pub name: Name,
    /// What was there, as far as the directory knows; `None` when nothing was.
    pub before: Option<Arc<Entry>>,
    /// What is to be there; `None` removes the entry.
    pub after: Option<Entry>,
}

/// What becomes of the removal of the second name by the first; `None` removes it.
pub type RemovalChange = ((Name, Name), Option<Arc<Verified<Removal>>>);

/// What is asked of a store that is not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Read {
    /// [`Store::entry`].
    Entry(Name),
    /// [`Store::first_with`].
    FirstWith([u8; Name::ADDRESS_LEN]),
    /// [`Store::entries_after`].
    After(Option<Name>, usize),
    /// [`Store::names`].
    Names,
    /// [`Store::held`].
    Held(Account),
}

/// What it answers, each in the same way.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Of [`Read::Entry`].
    Entry(Option<Box<Entry>>),
    /// Of [`Read::FirstWith`].
    FirstWith(Option<Name>),
    /// Of [`Read::After`].
    After(Vec<(Name, Entry)>),
    /// Of [`Read::Names`].
    Names(u64),
    /// Of [`Read::Held`].
    Held(Held),
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

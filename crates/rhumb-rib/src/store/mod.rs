//! Where entries live. The trait says what the directory needs of a
//! store, so that another one can take its place.
//!
//! A store keeps whole entries by name and knows nothing of certificates. Its one promise is in
//! [`Store::commit`]: what it accepted outlives the process and the machine.

mod cached;
pub mod embedded;
pub mod memory;

pub(crate) use cached::Cached;
pub use embedded::Embedded;
pub use memory::Memory;

use std::sync::Arc;

use rhumb_trust::{Removal, Verified};
use rhumb_wire::Name;

use crate::{Account, Entry, Held, RibError};

/// Entries by name, in name order.
pub trait Store {
    /// The entry of `name`.
    ///
    /// # Errors
    /// When the store cannot be read or the entry is damaged.
    fn entry(&mut self, name: &Name) -> Result<Option<Entry>, RibError>;

    /// At most `limit` entries in name order, beginning after `after`, or with the first.
    ///
    /// # Errors
    /// As [`Store::entry`].
    fn entries_after(
        &mut self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, RibError>;

    /// How many names have an entry.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn names(&mut self) -> Result<u64, RibError>;

    /// What is counted on an account: a store keeps them with the entries
    /// ([`Footprint::of`](crate::Footprint::of)).
    ///
    /// # Errors
    /// When the store cannot be read.
    fn held(&mut self, account: &Account) -> Result<Held, RibError>;

    /// Writes all changes or none, an absent entry meaning removal. When this returns `Ok`, they
    /// are durable; after an error, nothing is known of them but that none is written in part.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn commit(&mut self, changes: &[Change]) -> Result<(), RibError>;

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

    /// A commit through another handle of the same store has ended, well or not: what is read from
    /// here on is what it left. Stores that have one handle only need not do anything.
    fn refresh(&mut self) {}
}

/// What becomes of a name's entry; `None` removes it.
pub type Change = (Name, Option<Entry>);
/// What becomes of the removal of the second name by the first; `None` removes it.
pub type RemovalChange = ((Name, Name), Option<Arc<Verified<Removal>>>);

//! The half of a store elsewhere that the directory sees: what is to be read, what is being read,
//! and what was answered of which there is no entry to keep.
//!
//! 1. What the directory asks for and is not here it wants ([`Awaited::want`]); who waits takes
//!    turns, payer by payer.
//! 2. Whoever drives the directory reads it, many at a time, and gives back what was answered.
//! 3. An answer holds until something of it is written, here or elsewhere ([`Awaited::forget`]).
//!    One that was under way meanwhile may be older than that: it is asked for once more.
//!
//! What counts on an account is read now and then, and moved in between by what is written here:
//! so an account may be seen smaller than it is by what other directories of the same store have
//! written in the last seconds; and longer where it takes the store long to count.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use rhumb_trust::Removal;
use rhumb_wire::Name;

use super::{Answer, Change, Read, RemovalChange, Store};
use crate::generations::Generations;
use crate::share::Payer;
use crate::signatures::Waiting;
use crate::{Account, Entry, Footprint, Held, Moves, RibError};

/// What is known of a store that is read and written elsewhere.
pub struct Awaited {
    /// Names without an entry.
    absent: Generations<Name, ()>,
    first_with: Generations<[u8; Name::ADDRESS_LEN], Option<Name>>,
    held: HashMap<Account, Aging<Held>>,
    names: Option<Aging<u64>>,
    pages: HashMap<(Option<Name>, usize), Page>,
    wanted: Waiting<Read>,
    /// What is wanted or being read, and whether what it is about has changed since.
    under_way: HashMap<Read, bool>,
    being_read: usize,
    removals: Vec<Option<Removal>>,
    /// Seconds that have passed.
    age_s: u64,
    /// When changes by others were heard of last.
    heard_at_s: u64,
}

type Page = Vec<(Name, Entry)>;

struct Aging<T> {
    value: T,
    read_at_s: u64,
}

impl Awaited {
    /// Of a store with these removals, `None` in place of one that is damaged.
    pub fn new(removals: Vec<Option<Removal>>) -> Self {
        Self {
            absent: Generations::new(MAX_ABSENT),
            first_with: Generations::new(MAX_ABSENT),
            held: HashMap::new(),
            names: None,
            pages: HashMap::new(),
            wanted: Waiting::default(),
            under_way: HashMap::new(),
            being_read: 0,
            removals,
            age_s: 0,
            heard_at_s: 0,
        }
    }

    /// Has something read for `payer` in its turn, unless it is being read.
    pub(crate) fn want(&mut self, read: Read, payer: Payer, asker: Name) {
        if let Slot::Vacant(slot) = self.under_way.entry(read) {
            slot.insert(false);
            self.wanted.push(payer, asker, read);
        }
    }

    /// The next to be read; none while too much is being read.
    pub(crate) fn poll_read(&mut self) -> Option<Read> {
        if self.being_read >= MAX_BEING_READ {
            return None;
        }
        let read = self.wanted.pop()?;
        // What changes from here on may not be in the answer.
        self.under_way.insert(read, false);
        self.being_read += 1;
        Some(read)
    }

    /// What was being read is answered, or failed: whether nothing of it has changed meanwhile.
    pub(crate) fn take_end(&mut self, read: &Read) -> bool {
        self.being_read = self.being_read.saturating_sub(1);
        self.under_way.remove(read) == Some(false)
    }

    /// Keeps an answer, if it is what is there now.
    pub(crate) fn take_answer(&mut self, read: Read, answer: Answer) -> bool {
        let is_new = self.take_end(&read);
        let read_at_s = self.age_s;
        match (read, answer) {
            _ if !is_new => return false,
            (Read::Entry(name), Answer::Entry(None)) => self.absent.insert(name, ()),
            (Read::FirstWith(beginning), Answer::FirstWith(first)) => {
                self.first_with.insert(beginning, first);
            }
            (Read::After(after, limit), Answer::After(page)) => {
                _ = self.pages.insert((after, limit), page);
            }
            (Read::Names, Answer::Names(value)) => self.names = Some(Aging { value, read_at_s }),
            (Read::Held(account), Answer::Held(value)) => {
                _ = self.held.insert(account, Aging { value, read_at_s });
            }
            _ => return false,
        }
        true
    }

    /// Something of a name was written.
    pub(crate) fn forget(&mut self, name: &Name) {
        let beginning = name.beginning();
        self.absent.remove(name);
        self.first_with.remove(&beginning);
        for read in [Read::Entry(*name), Read::FirstWith(beginning)] {
            if let Some(has_changed) = self.under_way.get_mut(&read) {
                *has_changed = true;
            }
        }
    }

    /// Anything may have been written.
    pub(crate) fn forget_all(&mut self) {
        self.absent.clear();
        self.first_with.clear();
        self.held.clear();
        self.under_way.values_mut().for_each(|has_changed| *has_changed = true);
    }

    /// What others have changed was heard of, if anything.
    pub(crate) fn note_heard(&mut self) {
        self.heard_at_s = self.age_s;
    }

    /// A second has passed. Whether what others change is heard of no longer.
    pub(crate) fn pass_second(&mut self) -> bool {
        self.age_s += 1;
        let age_s = self.age_s;
        self.held.retain(|account, held| held.read_at_s + held_for_s(account) > age_s);
        self.pages.clear();
        self.heard_at_s + DEAF_AFTER_S < age_s
    }
}

impl Store for Awaited {
    fn entry(&mut self, name: &Name) -> Result<Option<Entry>, RibError> {
        self.absent.get_mut(name).map(|()| None).ok_or(RibError::NotAtHand)
    }

    fn first_with(&mut self, beginning: [u8; Name::ADDRESS_LEN]) -> Result<Option<Name>, RibError> {
        self.first_with.get_mut(&beginning).copied().ok_or(RibError::NotAtHand)
    }

    fn entries_after(
        &mut self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, RibError> {
        self.pages.remove(&(after, limit)).ok_or(RibError::NotAtHand)
    }

    fn names(&mut self) -> Result<u64, RibError> {
        let names = self.names.as_ref().filter(|it| it.read_at_s + TOTALS_FOR_S > self.age_s);
        names.map(|it| it.value).ok_or(RibError::NotAtHand)
    }

    fn held(&mut self, account: &Account) -> Result<Held, RibError> {
        self.held.get(account).map(|it| it.value).ok_or(RibError::NotAtHand)
    }

    /// Nothing is written from here: [`Commit::changes`](crate::Commit::changes) says what is to
    /// be.
    fn commit(&mut self, _: &[Change]) -> Result<Vec<Name>, RibError> {
        Err(RibError::NotAtHand)
    }

    fn removals(&mut self) -> Result<Vec<Option<Removal>>, RibError> {
        Ok(std::mem::take(&mut self.removals))
    }

    fn commit_removals(&mut self, _: &[RemovalChange]) -> Result<(), RibError> {
        Err(RibError::NotAtHand)
    }

    fn settle(&mut self, changes: &[Change], is_written: bool) {
        let mut moves = Moves::default();
        for Change { name, before, after } in changes {
            self.forget(name);
            let before = before.as_ref().map(|entry| Footprint::of(entry));
            moves.replace(before.as_ref(), after.as_ref().map(Footprint::of).as_ref());
        }
        if is_written {
            for (account, moved) in moves.iter() {
                if let Some(held) = self.held.get_mut(account) {
                    held.value = held.value.moved_by(*moved);
                }
            }
        }
    }

    fn awaited(&mut self) -> Option<&mut Awaited> {
        Some(self)
    }
}

fn held_for_s(account: &Account) -> u64 {
    match account {
        Account::Admitted | Account::Strangers | Account::StrangersCapsules => TOTALS_FOR_S,
        Account::Publisher(_) | Account::Below(_) | Account::Source(_) => HELD_FOR_S,
    }
}

/// Reads that whoever drives the directory has under way. A cluster takes some thousands a second
/// from one client, each some milliseconds long; more at once only wait there.
const MAX_BEING_READ: usize = 512;
/// Names that are known to have no entry: 4 MB.
const MAX_ABSENT: usize = 1 << 16;
/// How long it is believed what counts on the account of a publisher or a source.
const HELD_FOR_S: u64 = 2;
/// The same of all together, which it takes more to count and in which one name is nothing.
const TOTALS_FOR_S: u64 = 30;
/// Who has not heard for so long what others change believes nothing that he has read earlier.
const DEAF_AFTER_S: u64 = 3;

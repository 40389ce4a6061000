//! What was revoked, by serial: the key server's book, which waypoints follow.
//!
//! Invariant: serials only grow. Of each subject only the newest word is kept;
//! that is all a follower needs, since a newer word about a subject is also
//! newer than whatever the follower has seen of it.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_capability::{DelegationId, Principal};

/// Whom a revocation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject {
    /// The principal.
    pub principal: Principal,
    /// Only what it delegated under this id; `None` for everything of the principal.
    pub delegation: Option<DelegationId>,
}

/// Taken back, or given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// From now on refused.
    Revoke,
    /// The revocation was a mistake, or is over.
    Restore,
}

/// The newest word about a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// When, in the order of words.
    pub serial: u32,
    /// What.
    pub action: Action,
    /// Whom.
    pub subject: Subject,
    /// Unix seconds. No secret that was given out before this word is of
    /// use from then on, so followers may forget it.
    pub until_s: u64,
}

/// Words of one serial, to be stored and told together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Larger than all before.
    pub serial: u32,
    /// As [`Word::until_s`].
    pub until_s: u64,
    /// At most [`MAX_BATCH`], each subject once.
    pub changes: Vec<(Action, Subject)>,
}

/// The book.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Book {
    last_serial: u32,
    words: BTreeMap<Subject, Word>,
    order: BTreeSet<(u32, Subject)>,
}

impl Book {
    /// The serial of the newest word; 0 when there was none.
    #[must_use]
    pub fn last_serial(&self) -> u32 {
        self.last_serial
    }

    /// How many subjects there are words about.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether there is room for a batch.
    #[must_use]
    pub fn has_room_for(&self, batch: &Batch) -> bool {
        self.words.len() + batch.changes.len() <= MAX_WORDS
    }

    /// Whether a principal gets no more keys. This does not end
    /// with time, only with a [`Action::Restore`].
    #[must_use]
    pub fn is_revoked(&self, principal: Principal) -> bool {
        let word = self.words.get(&Subject { principal, delegation: None });
        word.is_some_and(|word| word.action == Action::Revoke)
    }

    /// Takes a batch. Returns whether it was newer than all before; if not, nothing changes.
    pub fn apply(&mut self, batch: &Batch) -> bool {
        if batch.serial <= self.last_serial {
            return false;
        }
        self.last_serial = batch.serial;
        for (action, subject) in &batch.changes {
            let word = Word {
                serial: batch.serial,
                action: *action,
                subject: *subject,
                until_s: batch.until_s,
            };
            if let Some(before) = self.words.insert(*subject, word) {
                self.order.remove(&(before.serial, *subject));
            }
            self.order.insert((batch.serial, *subject));
        }
        true
    }

    /// The words after `serial` that still mean something at `now_s`, oldest first.
    pub fn since(&self, serial: u32, now_s: u64) -> impl Iterator<Item = &Word> {
        let from = (serial.saturating_add(1), LEAST);
        self.order
            .range(from..)
            .filter_map(|(_, subject)| self.words.get(subject))
            .filter(move |word| word.serial > serial && word.until_s > now_s)
    }

    /// Forgets what is of no use any more: all words whose
    /// time is over but those that withhold keys.
    pub fn sweep(&mut self, now_s: u64) {
        let keeps = |word: &Word| {
            word.until_s > now_s
                || (word.action == Action::Revoke && word.subject.delegation.is_none())
        };
        self.words.retain(|_, word| keeps(word));
        self.order.retain(|(_, subject)| self.words.contains_key(subject));
    }

    /// Forgets all words whose time is over: for a follower, to whom the
    /// server says everything again that still matters.
    pub fn expire(&mut self, now_s: u64) {
        self.words.retain(|_, word| word.until_s > now_s);
        self.order.retain(|(_, subject)| self.words.contains_key(subject));
    }

    /// What the book is made of, as batches to apply in order.
    #[must_use]
    pub fn batches(&self) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        for (serial, subject) in &self.order {
            let Some(word) = self.words.get(subject) else { continue };
            let change = (word.action, *subject);
            match batches.last_mut() {
                Some(batch) if batch.serial == *serial => batch.changes.push(change),
                _ => batches.push(Batch {
                    serial: *serial,
                    until_s: word.until_s,
                    changes: vec![change],
                }),
            }
        }
        // A serial may have lost all of its words, and must not be used again.
        if batches.last().map_or(0, |batch| batch.serial) < self.last_serial {
            batches.push(Batch { serial: self.last_serial, until_s: 0, changes: Vec::new() });
        }
        batches
    }
}

/// No subject is less.
const LEAST: Subject = Subject { principal: Principal(0), delegation: None };
/// Words of one update: fits a message, and the part of a feed's answer that must not be divided.
pub const MAX_BATCH: usize = 64;
/// About 10 MB. Revoked principals stay, so an operator that comes
/// near reuses no numbers and starts a new zone.
pub const MAX_WORDS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn subject(principal: u32, id: Option<u32>) -> Subject {
        let delegation = id.and_then(DelegationId::new);
        Subject { principal: Principal(principal), delegation }
    }

    fn batch(serial: u32, until_s: u64, changes: &[(Action, Subject)]) -> Batch {
        Batch { serial, until_s, changes: changes.to_vec() }
    }

    #[test]
    fn only_what_is_newer_is_taken() {
        let mut book = Book::default();
        let (seven, its_part) = (subject(7, None), subject(7, Some(1)));
        assert!(book.apply(&batch(5, 100, &[(Action::Revoke, seven), (Action::Revoke, its_part)])));
        for serial in [0, 4, 5] {
            assert!(!book.apply(&batch(serial, 900, &[(Action::Restore, seven)])), "{serial}");
        }
        assert!(book.is_revoked(Principal(7)) && !book.is_revoked(Principal(1)));
        assert!(book.apply(&batch(9, 200, &[(Action::Restore, seven)])));
        assert!(!book.is_revoked(Principal(7)));
        let told: Vec<(u32, Subject)> =
            book.since(0, 0).map(|word| (word.serial, word.subject)).collect();
        assert_eq!(told, [(5, its_part), (9, seven)]);
        assert_eq!(book.since(5, 0).count(), 1);
        assert_eq!(book.since(9, 0).count(), 0);
        assert_eq!(book.since(u32::MAX, 0).count(), 0);
        // Its time is over.
        assert_eq!(book.since(0, 100).map(|word| word.serial).collect::<Vec<_>>(), [9]);
    }

    #[test]
    fn a_sweep_keeps_who_gets_no_keys_and_the_serial() {
        let mut book = Book::default();
        book.apply(&batch(1, 10, &[(Action::Revoke, subject(1, None))]));
        book.apply(&batch(2, 10, &[(Action::Revoke, subject(2, Some(1)))]));
        book.apply(&batch(3, 10, &[(Action::Restore, subject(3, None))]));
        book.sweep(9);
        assert_eq!(book.len(), 3);
        book.sweep(10);
        assert_eq!((book.len(), book.last_serial()), (1, 3));
        assert!(book.is_revoked(Principal(1)));
        let mut again = Book::default();
        for batch in book.batches() {
            assert!(again.apply(&batch));
        }
        assert_eq!(again, book);
    }
}

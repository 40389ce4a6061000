//! The accounts of a waypoint: who sent how much, in which period; of each period
//! a [`Book`], from which a bill can be made.
//!
//! 1. Each second the workers' counters, which only grow, are compared with what they were: the
//!    difference goes to the period of now.
//! 2. What changed is written every [`SAVE_INTERVAL`], and at the end. What was not written when
//!    the machine ends is lost, in favour of the customer.
//! 3. When a period is over its book is written for the last time, and nobody changes it any more.
//!
//! Invariant: a packet is in one period, and in one book, and is counted once.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use rhumb_capability::{Account, DelegationId, Usage};
use serde::{Deserialize, Serialize};

use crate::totals::Totals;

/// One period: what its file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Book {
    /// Like 2026-11-21, in UTC.
    pub period: String,
    /// When the figures were written, in seconds of Unix time.
    pub written_s: u64,
    /// By principal and delegations.
    pub accounts: Vec<Line>,
    /// Of principals that found no place in the table.
    pub unlisted: Sum,
}

/// A principal, or those who send under its delegations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// By its number.
    pub principal: u32,
    /// Ids, the first delegator's first. None: the principal with all its delegates.
    pub delegations: Vec<u32>,
    /// What they sent.
    #[serde(flatten)]
    pub sum: Sum,
}

/// What was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Packets.
    pub packets: u64,
    /// As IP packets before they were stamped.
    pub bytes: u64,
    /// Packets that had proven whose they are, and were dropped:
    /// repeated, or out of hops. Not among `packets`.
    pub dropped_packets: u64,
    /// Unix time of the first and the last packet, to a second.
    pub first_s: u64,
    /// The last one.
    pub last_s: u64,
}

/// Keeps the books.
pub struct Ledger {
    /// The period of now.
    current: String,
    sums: BTreeMap<Key, Sum>,
    unlisted: Sum,
    /// What was known of each worker.
    seen: Vec<Seen>,
    is_changed: bool,
    next_save_s: u64,
}

/// A principal and the ids of delegations.
type Key = (u32, Vec<u32>);

#[derive(Default)]
struct Seen {
    principals: HashMap<rhumb_capability::Principal, Usage>,
    delegates: HashMap<Account, Usage>,
    dropped: HashMap<rhumb_capability::Principal, u64>,
    unlisted: Usage,
}

impl Ledger {
    /// Of a period and so many workers, which goes on where its book was left, if there is one.
    pub fn new(period: String, book: Option<Book>, workers: usize) -> Self {
        let Book { accounts, unlisted, .. } = book.unwrap_or_default();
        let lines = accounts.into_iter();
        Self {
            current: period,
            sums: lines.map(|line| ((line.principal, line.delegations), line.sum)).collect(),
            unlisted,
            seen: (0..workers).map(|_| Seen::default()).collect(),
            is_changed: false,
            next_save_s: 0,
        }
    }

    /// Takes what worker `number` has counted since the last time.
    pub fn take(&mut self, number: usize, totals: &Totals, now_s: u64) {
        let Self { sums, seen, unlisted, is_changed, .. } = self;
        let seen = &mut seen[number];
        let mut add = |key: Key, added: Usage, dropped: u64| {
            if added != Usage::default() || dropped > 0 {
                sums.entry(key).or_default().add(added, dropped, now_s);
                *is_changed = true;
            }
        };
        for (principal, usage) in &totals.principals {
            let added = grown(&mut seen.principals, *principal, *usage);
            add((principal.0, Vec::new()), added, 0);
        }
        for (account, usage) in &totals.delegates {
            let added = grown(&mut seen.delegates, *account, *usage);
            if added.packets > 0 {
                let ids = account.ids().map(DelegationId::as_u32).collect();
                add((account.principal.0, ids), added, 0);
            }
        }
        for (principal, count) in &totals.dropped {
            let before = seen.dropped.insert(*principal, *count).unwrap_or(0);
            add((principal.0, Vec::new()), Usage::default(), count.saturating_sub(before));
        }
        let added = difference(seen.unlisted, totals.unlisted);
        seen.unlisted = totals.unlisted;
        if added.packets > 0 {
            unlisted.add(added, 0, now_s);
            *is_changed = true;
        }
    }

    /// Has written what is due, and goes on to the next period when it has come: `period` is the
    /// one of now, and later ones sort behind.
    ///
    /// # Errors
    ///
    /// What `write` says. It will be tried again, and nothing is lost as long as the process lives.
    pub fn save_if_due<E>(
        &mut self,
        period: String,
        now_s: u64,
        mut write: impl FnMut(&Book) -> Result<(), E>,
    ) -> Result<(), E> {
        // A clock that is set back does not open a book again that is closed.
        if period > self.current {
            if self.is_changed {
                self.save(now_s, &mut write)?;
            }
            self.current = period;
            self.sums.clear();
            self.unlisted = Sum::default();
            return self.save(now_s, write);
        }
        if self.is_changed && self.next_save_s <= now_s {
            self.save(now_s, write)?;
        }
        Ok(())
    }

    /// Has everything written.
    ///
    /// # Errors
    ///
    /// What `write` says.
    pub fn save<E>(
        &mut self,
        now_s: u64,
        mut write: impl FnMut(&Book) -> Result<(), E>,
    ) -> Result<(), E> {
        self.next_save_s = now_s + SAVE_INTERVAL.as_secs();
        write(&self.book(now_s))?;
        self.is_changed = false;
        Ok(())
    }

    /// The book of the present period.
    pub fn book(&self, now_s: u64) -> Book {
        let lines = self.sums.iter().map(|((principal, delegations), sum)| Line {
            principal: *principal,
            delegations: delegations.clone(),
            sum: *sum,
        });
        Book {
            period: self.current.clone(),
            written_s: now_s,
            accounts: lines.collect(),
            unlisted: self.unlisted,
        }
    }
}

impl Sum {
    fn add(&mut self, added: Usage, dropped: u64, now_s: u64) {
        self.packets += added.packets;
        self.bytes += added.bytes;
        self.dropped_packets += dropped;
        if added.packets > 0 {
            if self.first_s == 0 {
                self.first_s = now_s;
            }
            self.last_s = self.last_s.max(now_s);
        }
    }
}

/// What the counter has grown by.
fn grown<K: Eq + Hash>(seen: &mut HashMap<K, Usage>, key: K, now: Usage) -> Usage {
    let before = seen.insert(key, now).unwrap_or_default();
    difference(before, now)
}

fn difference(before: Usage, now: Usage) -> Usage {
    Usage {
        packets: now.packets.saturating_sub(before.packets),
        bytes: now.bytes.saturating_sub(before.bytes),
    }
}

/// What may be lost when the machine fails.
pub const SAVE_INTERVAL: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_capability::{Delegations, Principal};

    fn totals(packets: u64) -> Totals {
        let mut totals = Totals::default();
        let usage = Usage { packets, bytes: packets * 100 };
        let mut delegations = Delegations::default();
        let id = DelegationId::new(17).unwrap();
        let prefix = "10.0.0.0/8".parse().unwrap();
        delegations.push(rhumb_capability::Delegation { prefix, id }).unwrap();
        totals.principals.insert(Principal(7), usage);
        totals.delegates.insert(Account::new(Principal(7), &delegations), usage);
        totals.dropped.insert(Principal(7), packets / 2);
        totals.unlisted = Usage { packets: 1, bytes: 9 };
        totals
    }

    fn saved(ledger: &mut Ledger, period: &str, now_s: u64) -> Vec<Book> {
        let mut books = Vec::new();
        let written = ledger.save_if_due(period.to_owned(), now_s, |book| {
            books.push(book.clone());
            Ok::<(), ()>(())
        });
        assert_eq!(written, Ok(()));
        books
    }

    #[test]
    fn what_cannot_be_written_is_tried_again_and_not_lost() {
        let mut ledger = Ledger::new("2026-11".to_owned(), None, 1);
        ledger.take(0, &totals(10), 5);
        let refused = ledger.save_if_due("2026-11".to_owned(), 5, |_| Err("no room"));
        assert_eq!(refused, Err("no room"));
        assert_eq!(saved(&mut ledger, "2026-11", 6), [], "not at once");
        let books = saved(&mut ledger, "2026-11", 7);
        assert_eq!((books.len(), books[0].accounts[0].sum.packets), (1, 10));
        assert_eq!(saved(&mut ledger, "2026-11", 20), [], "nothing has changed");
        // Nor is the book of a period that ends meanwhile.
        ledger.take(0, &totals(12), 21);
        let refused = ledger.save_if_due("2026-12".to_owned(), 22, |_| Err("no room"));
        assert_eq!(refused, Err("no room"));
        let books = saved(&mut ledger, "2026-12", 23);
        let told = |book: &Book| (book.period.clone(), book.accounts.len());
        let told: Vec<(String, usize)> = books.iter().map(told).collect();
        assert_eq!(told, [("2026-11".to_owned(), 2), ("2026-12".to_owned(), 0)]);
        assert_eq!(books[0].accounts[0].sum.packets, 12);
    }

    #[test]
    fn a_book_that_is_there_is_gone_on_with() {
        let mut ledger = Ledger::new("2026-11".to_owned(), None, 2);
        ledger.take(0, &totals(10), 5);
        ledger.take(0, &totals(10), 6);
        ledger.take(1, &totals(4), 7);
        let book = ledger.book(7);
        // Workers that begin with nothing.
        let mut ledger = Ledger::new("2026-11".to_owned(), Some(book), 2);
        ledger.take(0, &totals(2), 9);
        let Book { accounts, unlisted, .. } = ledger.book(9);
        let sum = Sum { packets: 16, bytes: 1600, dropped_packets: 8, first_s: 5, last_s: 9 };
        assert_eq!(accounts[0], Line { principal: 7, delegations: Vec::new(), sum });
        assert_eq!((accounts[1].delegations.clone(), unlisted.packets), (vec![17], 3));
    }
}

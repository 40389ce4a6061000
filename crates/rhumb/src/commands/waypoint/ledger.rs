//! The accounts of a waypoint: who sent how much, in which period. One file of
//! JSON a period, from which a bill can be made.
//!
//! 1. Each second the workers' counters, which only grow, are compared with what they were: the
//!    difference goes to the period of now.
//! 2. What changed is written every [`SAVE_INTERVAL`], and at the end: beside its place, then moved
//!    there, so a file is whole whenever the process or the machine ends. What was not written then
//!    is lost, in favour of the customer.
//! 3. When a period is over its file is written for the last time, and nobody changes it any more.
//!
//! Invariant: a packet is in one period, and in one file, and is counted once.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hash::Hash;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rhumb_capability::{Account, DelegationId, Usage};
use serde::{Deserialize, Serialize};

use super::totals::Totals;
use crate::clock;
use crate::config::Period;
use crate::failure::{Failure, Outcome};
use crate::secret_file;

/// One period: what its file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Book {
    /// Like 2026-11-21, in UTC.
    pub(crate) period: String,
    /// When the figures were written, in seconds of Unix time.
    pub(crate) written_s: u64,
    /// By principal and delegations.
    pub(crate) accounts: Vec<Line>,
    /// Of principals that found no place in the table.
    pub(crate) unlisted: Sum,
}

/// A principal, or those who send under its delegations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) principal: u32,
    /// Ids, the first delegator's first. None: the principal with all its delegates.
    pub(crate) delegations: Vec<u32>,
    #[serde(flatten)]
    pub(crate) sum: Sum,
}

/// What was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sum {
    pub(crate) packets: u64,
    /// As IP packets before they were stamped.
    pub(crate) bytes: u64,
    /// Packets that had proven whose they are, and were dropped:
    /// repeated, or out of hops. Not among `packets`.
    pub(crate) dropped_packets: u64,
    /// Unix time of the first and the last packet, to a second.
    pub(crate) first_s: u64,
    pub(crate) last_s: u64,
}

/// Keeps the books.
pub(crate) struct Ledger {
    folder: Option<PathBuf>,
    period: Period,
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
    /// The books in a folder, which is made if missing; without one they are in memory only. Goes
    /// on where the present period was left.
    pub(crate) fn open(
        folder: Option<&Path>,
        period: Period,
        workers: usize,
        now_s: u64,
    ) -> Outcome<Self> {
        let current = period_of(period, now_s);
        let mut ledger = Self {
            folder: folder.map(Path::to_owned),
            period,
            current,
            sums: BTreeMap::new(),
            unlisted: Sum::default(),
            seen: (0..workers).map(|_| Seen::default()).collect(),
            is_changed: false,
            next_save_s: 0,
        };
        if let Some(folder) = folder {
            let refused = |error: io::Error| {
                Failure::setup_text(format!("folder of accounts {}: {error}", folder.display()))
            };
            fs::create_dir_all(folder).map_err(refused)?;
            // Written at once: what cannot be kept had better be known now.
            if let Some(book) = read(&path_of(folder, &ledger.current))? {
                ledger.unlisted = book.unlisted;
                let lines = book.accounts.into_iter();
                ledger.sums =
                    lines.map(|line| ((line.principal, line.delegations), line.sum)).collect();
            }
            ledger.save(now_s).map_err(refused)?;
        }
        Ok(ledger)
    }

    /// Takes what worker `number` has counted since the last time.
    pub(crate) fn take(&mut self, number: usize, totals: &Totals, now_s: u64) {
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

    /// Writes what is due, and goes on to the next period when it has come.
    ///
    /// # Errors
    /// When it cannot be written; it will be tried again, and
    /// nothing is lost as long as the process lives.
    pub(crate) fn save_if_due(&mut self, now_s: u64) -> io::Result<()> {
        let period = period_of(self.period, now_s);
        // A clock that is set back does not open a book again that is closed.
        if period > self.current {
            if self.is_changed {
                self.save(now_s)?;
            }
            self.current = period;
            self.sums.clear();
            self.unlisted = Sum::default();
            return self.save(now_s);
        }
        if self.is_changed && self.next_save_s <= now_s {
            self.save(now_s)?;
        }
        Ok(())
    }

    /// Writes everything.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn save(&mut self, now_s: u64) -> io::Result<()> {
        self.next_save_s = now_s + SAVE_INTERVAL.as_secs();
        let Some(folder) = &self.folder else {
            self.is_changed = false;
            return Ok(());
        };
        let book = self.book(now_s);
        let text = serde_json::to_vec(&book).map_err(io::Error::other)?;
        // It says who pays whom, so it is its owner's only.
        secret_file::replace(&path_of(folder, &book.period), &text)?;
        self.is_changed = false;
        Ok(())
    }

    /// The book of the present period.
    pub(crate) fn book(&self, now_s: u64) -> Book {
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

/// The periods there are in a folder, the earliest first.
pub(crate) fn periods(folder: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_str().and_then(|it| it.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
        found.extend(name.map(str::to_owned));
    }
    found.sort();
    Ok(found)
}

/// The book of a period; `None` when there is none.
pub(crate) fn read_period(folder: &Path, period: &str) -> Outcome<Option<Book>> {
    read(&path_of(folder, period))
}

fn read(path: &Path) -> Outcome<Option<Book>> {
    let refused = |error: &dyn std::fmt::Display| {
        Failure::setup_text(format!("accounts {}: {error}", path.display()))
    };
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            refused(&format!("{error}; it is damaged: move it away, and look for a copy"))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refused(&error)),
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

/// The name of the period of a time, in UTC. Later ones sort behind.
fn period_of(period: Period, unix_s: u64) -> String {
    let text = clock::date_and_time(unix_s).replace(' ', "T");
    let len = match period {
        Period::Month => "2026-11".len(),
        Period::Day => "2026-11-21".len(),
        Period::Hour => "2026-11-21T17".len(),
    };
    text[..len].to_owned()
}

fn path_of(folder: &Path, period: &str) -> PathBuf {
    folder.join(format!("{PREFIX}{period}{SUFFIX}"))
}

/// What may be lost when the machine fails.
const SAVE_INTERVAL: Duration = Duration::from_secs(2);
const PREFIX: &str = "accounts-";
const SUFFIX: &str = ".json";

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_capability::{Delegations, Principal};

    /// 2026-11-21 17:00:00 UTC.
    const NOW_S: u64 = 1_795_280_400;

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

    #[test]
    fn figures_outlive_the_process_and_are_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Ledger::open(Some(folder.path()), Period::Day, 2, NOW_S).unwrap();
        let mut ledger = open();
        ledger.take(0, &totals(10), NOW_S);
        ledger.take(0, &totals(10), NOW_S + 1);
        ledger.take(1, &totals(4), NOW_S + 2);
        ledger.save_if_due(NOW_S + 2).unwrap();
        // Another process, whose workers begin with nothing.
        let mut ledger = open();
        ledger.take(0, &totals(2), NOW_S + 60);
        let book = ledger.book(NOW_S + 60);
        let sum = Sum {
            packets: 16,
            bytes: 1600,
            dropped_packets: 8,
            first_s: NOW_S,
            last_s: NOW_S + 60,
        };
        assert_eq!(book.accounts.len(), 2);
        assert_eq!(book.accounts[0], Line { principal: 7, delegations: Vec::new(), sum });
        assert_eq!(book.accounts[1].delegations, [17]);
        assert_eq!((book.accounts[1].sum.packets, book.unlisted.packets), (16, 3));
    }

    #[test]
    fn a_period_ends_and_its_book_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(Some(folder.path()), Period::Hour, 1, NOW_S).unwrap();
        ledger.take(0, &totals(10), NOW_S + 3599);
        ledger.save_if_due(NOW_S + 3600).unwrap();
        ledger.take(0, &totals(11), NOW_S + 3601);
        // A clock that goes back does not change what is closed.
        ledger.take(0, &totals(12), NOW_S + 10);
        ledger.save_if_due(NOW_S + 10).unwrap();
        ledger.save_if_due(NOW_S + 3610).unwrap();
        assert_eq!(periods(folder.path()).unwrap(), ["2026-11-21T17", "2026-11-21T18"]);
        let packets =
            |period| read_period(folder.path(), period).unwrap().unwrap().accounts[0].sum.packets;
        assert_eq!((packets("2026-11-21T17"), packets("2026-11-21T18")), (10, 2));
        assert!(read_period(folder.path(), "2026-11-21T19").unwrap().is_none());
    }

    #[test]
    fn periods_are_named_by_the_calendar() {
        let names = [Period::Month, Period::Day, Period::Hour].map(|it| period_of(it, NOW_S));
        assert_eq!(names, ["2026-11", "2026-11-21", "2026-11-21T17"]);
    }

    #[test]
    fn a_damaged_book_is_refused_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = path_of(folder.path(), "2026-11-21");
        fs::write(&path, b"{\"period\":").unwrap();
        let refused = Ledger::open(Some(folder.path()), Period::Day, 1, NOW_S).err().unwrap();
        assert!(refused.to_string().contains("it is damaged"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"{\"period\":");
    }
}

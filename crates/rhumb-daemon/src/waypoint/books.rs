//! The files of accounts ([`rhumb_waypoint::ledger`]): one of JSON a period. A book is written
//! beside its place, then moved there, so a file is whole whenever the process or the machine ends.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rhumb_waypoint::{Book, Ledger, Totals};

use crate::clock;
use crate::config::Period;
use crate::failure::{Failure, Outcome};
use crate::secret_file;

/// A ledger whose books are kept in a folder.
pub struct Books {
    /// Without one they are in memory only.
    folder: Option<PathBuf>,
    period: Period,
    ledger: Ledger,
}

impl Books {
    /// The books in a folder, which is made if missing. Goes on where the present period was left.
    pub fn open(
        folder: Option<&Path>,
        period: Period,
        workers: usize,
        now_s: u64,
    ) -> Outcome<Self> {
        let current = period_of(period, now_s);
        let Some(folder) = folder else {
            return Ok(Self { folder: None, period, ledger: Ledger::new(current, None, workers) });
        };
        let refused = |error: io::Error| {
            Failure::setup_text(format!("folder of accounts {}: {error}", folder.display()))
        };
        fs::create_dir_all(folder).map_err(refused)?;
        let book = read(&path_of(folder, &current))?;
        let ledger = Ledger::new(current, book, workers);
        let mut books = Self { folder: Some(folder.to_owned()), period, ledger };
        // Written at once: what cannot be kept had better be known now.
        books.save(now_s).map_err(refused)?;
        Ok(books)
    }

    /// Takes what worker `number` has counted since the last time.
    pub fn take(&mut self, number: usize, totals: &Totals, now_s: u64) {
        self.ledger.take(number, totals, now_s);
    }

    /// Writes what is due ([`Ledger::save_if_due`]).
    pub fn save_if_due(&mut self, now_s: u64) -> io::Result<()> {
        let (folder, period) = (self.folder.as_deref(), period_of(self.period, now_s));
        self.ledger.save_if_due(period, now_s, |book| write(folder, book))
    }

    /// Writes everything.
    pub fn save(&mut self, now_s: u64) -> io::Result<()> {
        let folder = self.folder.as_deref();
        self.ledger.save(now_s, |book| write(folder, book))
    }

    /// The book of the present period.
    pub fn book(&self, now_s: u64) -> Book {
        self.ledger.book(now_s)
    }
}

/// The periods there are in a folder, the earliest first.
pub fn periods(folder: &Path) -> io::Result<Vec<String>> {
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
pub fn read_period(folder: &Path, period: &str) -> Outcome<Option<Book>> {
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

fn write(folder: Option<&Path>, book: &Book) -> io::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    let text = serde_json::to_vec(book).map_err(io::Error::other)?;
    // It says who pays whom, so it is its owner's only.
    secret_file::replace(&path_of(folder, &book.period), &text)
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

const PREFIX: &str = "accounts-";
const SUFFIX: &str = ".json";

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_capability::{Principal, Usage};
    use rhumb_waypoint::ledger::{Line, Sum};
    use std::collections::HashMap;

    /// 2026-11-21 17:00:00 UTC.
    const NOW_S: u64 = 1_795_280_400;

    fn totals(packets: u64) -> Totals {
        let usage = Usage { packets, bytes: packets * 100 };
        let principals = HashMap::from([(Principal(7), usage)]);
        let dropped = HashMap::from([(Principal(7), packets / 2)]);
        Totals { principals, dropped, ..Totals::default() }
    }

    #[test]
    fn figures_outlive_the_process_and_are_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Books::open(Some(folder.path()), Period::Day, 2, NOW_S).unwrap();
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
        assert_eq!(book.accounts, [Line { principal: 7, delegations: Vec::new(), sum }]);
    }

    #[test]
    fn a_period_ends_and_its_book_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Books::open(Some(folder.path()), Period::Hour, 1, NOW_S).unwrap();
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
        let refused = Books::open(Some(folder.path()), Period::Day, 1, NOW_S).err().unwrap();
        assert!(refused.to_string().contains("it is damaged"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"{\"period\":");
    }
}

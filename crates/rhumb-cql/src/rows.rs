//! Rows as they are read, and those that this server has seen lately.
//!
//! What is remembered here answers nobody: it only tells which cells need not be written again. A
//! row that another server has changed since costs at worst a write too many, since newer cells
//! win.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rhumb_rib::RibError;
use rhumb_rib::cells::{Row, Slot};
use rhumb_wire::Name;

/// A row as the driver gives it.
pub(crate) type Columns = (
    Vec<u8>,
    Option<Vec<u8>>,
    Option<i64>,
    Option<Vec<u8>>,
    Option<i64>,
    Option<Vec<u8>>,
    Option<i64>,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Option<BTreeMap<Vec<u8>, Vec<u8>>>,
);

/// Reads the columns of a name.
///
/// # Errors
/// When a cell does not parse.
pub(crate) fn row_of(columns: Columns) -> Result<(Name, Row), RibError> {
    let (name, metadata, metadata_us, book, book_us, step, step_us, route, locator, ..) = columns;
    let (.., withdrawal, export, published, several_to, several) = columns;
    let name = Name(
        name.try_into()
            .map_err(|_| RibError::StoreFailed { source: "a row whose key is no name".into() })?,
    );
    let damaged = |_| RibError::DamagedEntry { name };
    let mut row = Row::default();
    for (slot, value, written_us) in [
        (Slot::Metadata, metadata, metadata_us),
        (Slot::Bookkeeping, book, book_us),
        (Slot::StepIn, step, step_us),
        (Slot::Route, route, None),
        (Slot::Locator, locator, None),
        (Slot::Withdrawal, withdrawal, None),
        (Slot::Export, export, None),
        (Slot::Published, published, None),
        (Slot::SeveralTo, several_to, None),
    ] {
        if let Some(value) = value {
            row.read(slot, written_us.unwrap_or(0), value).map_err(damaged)?;
        }
    }
    for (via, value) in several.unwrap_or_default() {
        let via = Name(via.try_into().map_err(|_| RibError::DamagedEntry { name })?);
        row.read(Slot::Several(via), 0, value).map_err(damaged)?;
    }
    Ok((name, row))
}

/// Rows seen lately: two generations, of which the older is forgotten when the younger is full.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Name, Row>,
    old: HashMap<Name, Row>,
}

impl Seen {
    pub(crate) fn row(&self, name: &Name) -> Option<Row> {
        let seen = self.lock();
        seen.young.get(name).or_else(|| seen.old.get(name)).cloned()
    }

    pub(crate) fn note(&self, name: Name, row: Row) {
        let mut seen = self.lock();
        if seen.young.len() >= HALF {
            seen.old = mem::take(&mut seen.young);
        }
        seen.young.insert(name, row);
    }

    pub(crate) fn forget(&self, name: &Name) {
        let mut seen = self.lock();
        seen.young.remove(name);
        seen.old.remove(name);
    }

    pub(crate) fn forget_all(&self) {
        *self.lock() = Generations::default();
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        // A panic within leaves less, never something wrong.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of some hundred bytes each: 20 MB in all.
const HALF: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_lately_is_remembered_within_a_bound() {
        let seen = Seen::default();
        let name = |number: usize| {
            let mut name = Name([0; 32]);
            name.0[..8].copy_from_slice(&number.to_be_bytes());
            name
        };
        for number in 0..3 * HALF {
            seen.note(name(number), Row::default());
        }
        assert!(seen.row(&name(3 * HALF - 1)).is_some() && seen.row(&name(0)).is_none());
        let held = seen.lock();
        assert!(held.young.len() + held.old.len() <= 2 * HALF);
        drop(held);
        seen.forget(&name(3 * HALF - 1));
        assert!(seen.row(&name(3 * HALF - 1)).is_none());
        seen.forget_all();
        assert!(seen.row(&name(3 * HALF - 2)).is_none());
    }
}

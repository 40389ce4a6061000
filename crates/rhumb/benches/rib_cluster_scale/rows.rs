//! Rows of a RIB's tables, made by the encoders that its store has, in the form that `Load.java`
//! reads. What the store adds to them, seconds to live and buckets, is made here once more;
//! `check` holds both against each other.

use std::io::{self, Write};

use aws_lc_rs::hmac;
use rhumb_rib::cells::{Plan, Row, Slot, Written};
use rhumb_rib::{Account, Entry};
use rhumb_wire::Name;

/// What the tables say of themselves, and where they are.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(crate) keyspace: String,
    pub(crate) secret: Vec<u8>,
    pub(crate) buckets: i32,
}

impl Tables {
    /// In which partition of an account a name is counted.
    pub(crate) fn bucket(&self, account: &Account, name: &Name) -> i32 {
        if !account.is_of_all() {
            return 0;
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.secret);
        let tag = hmac::sign(&key, &name.0);
        let number = tag.as_ref().first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        (number % self.buckets.unsigned_abs()).cast_signed()
    }
}

/// Everything that is to be written of an entry that nobody has known.
pub(crate) fn plan(entry: &Entry, written: Written) -> Plan {
    let mut plan = Row::default().plan(entry, written).expect("nothing has stepped in");
    plan.cells.sort_by_key(|cell| cell.slot);
    plan
}

/// For how many seconds the store keeps what is kept until then.
pub(crate) fn ttl_s(keep_until_s: u64, written: Written) -> i32 {
    (keep_until_s.saturating_sub(written.now_s) + 60) as i32
}

/// The columns of `names` that rows here have, by the number of each.
pub(crate) const COLUMNS: [(Slot, &str); 4] = [
    (Slot::Metadata, "metadata"),
    (Slot::Bookkeeping, "book"),
    (Slot::Route, "route"),
    (Slot::Locator, "locator"),
];

/// The bytes of a partition key of `accounts`, which has two parts.
pub(crate) fn account_key(account: &Account, bucket: i32) -> Vec<u8> {
    let account = account.key();
    let mut key = (account.len() as u16).to_be_bytes().to_vec();
    key.extend(account);
    key.extend([0, 0, 4]);
    key.extend(bucket.to_be_bytes());
    key.push(0);
    key
}

/// Writes partitions.
pub(crate) struct Writer<W>(pub(crate) W);

impl<W: Write> Writer<W> {
    /// Begins a table, into whose folder files go.
    pub(crate) fn table(
        &mut self,
        texts: [&str; 4],
        partitions: usize,
        written: Written,
    ) -> io::Result<()> {
        texts.iter().try_for_each(|text| self.text(text))?;
        self.0.write_all(&(partitions as u64).to_be_bytes())?;
        self.0.write_all(&written.now_s.to_be_bytes())
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(&(text.len() as u16).to_be_bytes())?;
        self.0.write_all(text.as_bytes())
    }

    pub(crate) fn partition(&mut self, key: &[u8], rows: usize) -> io::Result<()> {
        self.0.write_all(&(key.len() as u16).to_be_bytes())?;
        self.0.write_all(key)?;
        self.0.write_all(&(rows as u32).to_be_bytes())
    }

    /// A row with so many cells to follow, which was inserted then and for so long, or is there by
    /// its cells alone.
    pub(crate) fn row(
        &mut self,
        clustering: &[u8],
        inserted: Option<(i64, i32)>,
        cells: usize,
    ) -> io::Result<()> {
        self.0.write_all(&(clustering.len() as u16).to_be_bytes())?;
        self.0.write_all(clustering)?;
        self.0.write_all(&[u8::from(inserted.is_some())])?;
        if let Some((timestamp, ttl_s)) = inserted {
            self.0.write_all(&timestamp.to_be_bytes())?;
            self.0.write_all(&ttl_s.to_be_bytes())?;
        }
        self.0.write_all(&[cells as u8])
    }

    pub(crate) fn cell(
        &mut self,
        column: usize,
        timestamp: i64,
        ttl_s: i32,
        value: &[u8],
    ) -> io::Result<()> {
        self.0.write_all(&[column as u8])?;
        self.0.write_all(&timestamp.to_be_bytes())?;
        self.0.write_all(&ttl_s.to_be_bytes())?;
        self.0.write_all(&(value.len() as u32).to_be_bytes())?;
        self.0.write_all(value)
    }

    /// Ends a table; behind the last one, everything.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.0.write_all(&0u16.to_be_bytes())
    }
}

//! The default store: one file, by `redb`, safe against `kill -9` and loss of power, closed to a second process.
//!
//! | table | key | value |
//! |---|---|---|
//! | `names` | name | the entry's record |
//! | `publishers` | publisher | how many entries it holds |
//! | `format` | `version` | the number of this layout, 1 |
//!
//! Every commit is one transaction of immediate durability, in two phases and with the allocator's state. Two phases,
//! because strangers choose the bytes stored here and the one-phase commit leans on a checksum that is not
//! cryptographic; the allocator's state, because a killed process must be back at once, without walking the whole file.
//!
//! An error closes the file, since `redb` refuses all further work after a failed write; the next call opens it again. So
//! a full disk costs refusals while it lasts, and nothing more.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use redb::{
    Database, DatabaseError, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, StorageError, TableDefinition,
};
use rhumb_wire::Name;

use super::{Change, Store};
use crate::record::publisher_of;
use crate::{Entry, RibError};

/// A store in one file.
pub struct Embedded {
    path: PathBuf,
    /// `None` after an error.
    opened: Option<Opened>,
}

/// The open file, and its tables as of the last commit. Holding them open spares every look-up a transaction.
struct Opened {
    names: ReadOnlyTable<NameKey, &'static [u8]>,
    publishers: ReadOnlyTable<NameKey, u64>,
    // Last, so that it is closed last.
    database: Database,
}

impl Embedded {
    /// Opens the store at `path`, or makes a new one there.
    ///
    /// # Errors
    /// When another process has it open, when it is no store or of a newer format, and when the system refuses.
    pub fn open(path: &Path) -> Result<Self, RibError> {
        let opened = Opened::open(path)?;
        Ok(Self { path: path.to_owned(), opened: Some(opened) })
    }

    /// Runs `work` on the open file, which is closed when it fails.
    fn with<T>(
        &mut self,
        work: impl FnOnce(&mut Opened) -> Result<T, redb::Error>,
    ) -> Result<T, RibError> {
        let mut opened = match self.opened.take() {
            Some(opened) => opened,
            None => Opened::open(&self.path)?,
        };
        let done = work(&mut opened).map_err(|error| RibError::Database(Box::new(error)))?;
        self.opened = Some(opened);
        Ok(done)
    }
}

impl Opened {
    fn open(path: &Path) -> Result<Self, RibError> {
        let is_new = !path.exists();
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create(path)
            .map_err(|error| refusal_to_open(path, error))?;
        if is_new {
            // The file's bytes are durable by each commit; that it exists is its directory's to remember.
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))
                .and_then(|directory| directory.sync_all())
                .map_err(|source| RibError::StoreFile { path: path.to_owned(), source })?;
        }
        let failed = |error| RibError::Database(Box::new(error));
        let version = prepare(&database).map_err(failed)?;
        if version != FORMAT {
            return Err(RibError::UnknownFormat { version });
        }
        let (names, publishers) = read_tables(&database).map_err(failed)?;
        Ok(Self { names, publishers, database })
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        transaction.set_quick_repair(true);
        {
            let mut names = transaction.open_table(NAMES)?;
            let mut publishers = transaction.open_table(PUBLISHERS)?;
            for (name, entry) in changes {
                let before = match entry {
                    Some(entry) => {
                        let before = names.insert(&name.0, entry.encode().as_slice())?;
                        before.and_then(|record| publisher_of(record.value()))
                    }
                    None => {
                        let before = names.remove(&name.0)?;
                        before.and_then(|record| publisher_of(record.value()))
                    }
                };
                let after = entry.as_ref().map(Entry::publisher);
                if before != after {
                    count(&mut publishers, before, |held| held.saturating_sub(1))?;
                    count(&mut publishers, after, |held| held + 1)?;
                }
            }
        }
        transaction.commit()?;
        (self.names, self.publishers) = read_tables(&self.database)?;
        Ok(())
    }
}

impl Store for Embedded {
    fn entry(&mut self, name: &Name) -> Result<Option<Entry>, RibError> {
        let read = self.with(|opened| {
            let record = opened.names.get(&name.0)?;
            Ok(record.map(|record| Entry::decode(record.value())))
        })?;
        match read {
            None => Ok(None),
            Some(Some(entry)) => Ok(Some(entry)),
            Some(None) => Err(RibError::DamagedEntry { name: *name }),
        }
    }

    fn entries_after(
        &mut self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, RibError> {
        let read = self.with(|opened| {
            let from = match &after {
                Some(name) => Bound::Excluded(&name.0),
                None => Bound::Unbounded,
            };
            let range = opened.names.range::<&[u8; Name::LEN]>((from, Bound::Unbounded))?;
            let mut read = Vec::new();
            for record in range.take(limit) {
                let (name, record) = record?;
                read.push((Name(*name.value()), Entry::decode(record.value())));
            }
            Ok(read)
        })?;
        read.into_iter()
            .map(|(name, entry)| {
                entry.map(|entry| (name, entry)).ok_or(RibError::DamagedEntry { name })
            })
            .collect()
    }

    fn names(&mut self) -> Result<u64, RibError> {
        self.with(|opened| Ok(opened.names.len()?))
    }

    fn held_by(&mut self, publisher: &Name) -> Result<u64, RibError> {
        self.with(|opened| Ok(opened.publishers.get(&publisher.0)?.map_or(0, |held| held.value())))
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), RibError> {
        self.with(|opened| opened.commit(changes))
    }
}

/// Makes the tables of a new file; returns the format of this one.
fn prepare(database: &Database) -> Result<u64, redb::Error> {
    let transaction = database.begin_write()?;
    let version = {
        let mut format = transaction.open_table(FORMATS)?;
        let found = format.get(FORMAT_KEY)?.map(|version| version.value());
        match found {
            Some(version) => version,
            None => {
                format.insert(FORMAT_KEY, FORMAT)?;
                FORMAT
            }
        }
    };
    if version != FORMAT {
        transaction.abort()?;
        return Ok(version);
    }
    transaction.open_table(NAMES)?;
    transaction.open_table(PUBLISHERS)?;
    transaction.commit()?;
    Ok(version)
}

type Tables = (ReadOnlyTable<NameKey, &'static [u8]>, ReadOnlyTable<NameKey, u64>);

fn read_tables(database: &Database) -> Result<Tables, redb::Error> {
    let transaction = database.begin_read()?;
    Ok((transaction.open_table(NAMES)?, transaction.open_table(PUBLISHERS)?))
}

fn count(
    publishers: &mut redb::Table<'_, NameKey, u64>,
    publisher: Option<Name>,
    change: impl FnOnce(u64) -> u64,
) -> Result<(), redb::Error> {
    let Some(publisher) = publisher else { return Ok(()) };
    let held = publishers.get(&publisher.0)?.map_or(0, |held| held.value());
    match change(held) {
        0 => publishers.remove(&publisher.0)?,
        held => publishers.insert(&publisher.0, held)?,
    };
    Ok(())
}

fn refusal_to_open(path: &Path, error: DatabaseError) -> RibError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => RibError::StoreInUse { path },
        // What `redb` says of a file that is not its own.
        DatabaseError::Storage(StorageError::Io(source))
            if source.kind() != io::ErrorKind::InvalidData =>
        {
            RibError::StoreFile { path, source }
        }
        error => RibError::NotAStore { path, source: Box::new(error.into()) },
    }
}

type NameKey = &'static [u8; Name::LEN];

const NAMES: TableDefinition<'_, NameKey, &'static [u8]> = TableDefinition::new("names");
const PUBLISHERS: TableDefinition<'_, NameKey, u64> = TableDefinition::new("publishers");
const FORMATS: TableDefinition<'_, &'static str, u64> = TableDefinition::new("format");
const FORMAT_KEY: &str = "version";
/// Raised whenever an older program could misread the file.
const FORMAT: u64 = 1;
/// Pages that `redb` keeps in memory, besides the page cache of the system: the hot part of a million entries.
const CACHE_BYTES: usize = 64 << 20;

//! The default store: one file, by `redb`, safe against `kill -9`
//! and loss of power, closed to a second process.
//!
//! | table | key | value |
//! |---|---|---|
//! | `names` | name | the entry's record |
//! | `accounts` | account | names and bytes that count on it |
//! | `removals` | issuer, removed name | the removal as it travels |
//! | `format` | `version` | the number of this layout, 2 |
//!
//! Every commit is one transaction of immediate durability, in two phases and with the allocator's
//! state. Two phases, because strangers choose the bytes stored here and the one-phase commit leans
//! on a checksum that is not cryptographic; the allocator's state, because a killed process must be
//! back at once, without walking the whole file.
//!
//! Format 1 counted names by publisher only. A store of that format is counted anew when it is
//! opened: a million entries take some seconds.
//!
//! The file belongs to its owner alone: it says who is where. One that
//! others can read or write is taken from them.
//!
//! An error closes the file, since `redb` refuses all further work after a failed write; the next
//! call opens it again. So a full disk costs refusals while it lasts, and nothing more.
//!
//! A store can have several handles ([`Embedded::share`]), so that one thread
//! reads while another one commits. Each reads as of the last commit it knows
//! of; [`Store::settle`] tells it of another's.

use std::fs::File;
#[cfg(unix)]
use std::fs::{OpenOptions, Permissions};
use std::io;
use std::ops::Bound;
#[cfg(unix)]
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{
    Database, DatabaseError, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, StorageError, TableDefinition,
};
use rhumb_trust::Removal;
use rhumb_wire::Name;

use super::{Change, Page, RemovalChange, Store, Wanted};
use crate::record::footprint_of;
use crate::{Account, Entry, Held, Moves, RibError};

/// A handle of a store in one file.
pub struct Embedded {
    /// As of the last commit that this handle knows of; `None` after an error. Holding tables open
    /// spares every look-up a transaction.
    tables: Option<Tables>,
    pub(super) file: Arc<StoreFile>,
}

/// The file that handles share.
pub(super) struct StoreFile {
    path: PathBuf,
    /// Bytes of pages to be kept in memory.
    cache_bytes: usize,
    /// `None` after an error. Locked for as long as a commit takes.
    database: Mutex<Option<Database>>,
    /// How often a commit failed, after which the file is opened anew.
    failures: AtomicU64,
}

pub(super) struct Tables {
    pub(super) removals: ReadOnlyTable<RemovalKey, &'static [u8]>,
    pub(super) names: ReadOnlyTable<NameKey, &'static [u8]>,
    accounts: ReadOnlyTable<&'static [u8], (u64, u64)>,
}

impl Embedded {
    /// Opens the store at `path`, or makes a new one there.
    ///
    /// # Errors
    /// When another process has it open, when it is no store or of a
    /// newer format, and when the system refuses.
    pub fn open(path: &Path) -> Result<Self, RibError> {
        Self::open_with(path, CACHE_BYTES)
    }

    /// As [`Embedded::open`], with room for so many bytes of pages in memory.
    ///
    /// # Errors
    /// As [`Embedded::open`].
    pub fn open_with(path: &Path, cache_bytes: usize) -> Result<Self, RibError> {
        let database = Mutex::new(Some(open(path, cache_bytes)?));
        let (path, failures) = (path.to_owned(), AtomicU64::new(0));
        let file = StoreFile { path, cache_bytes, database, failures };
        Ok(Self { tables: Some(file.read_tables()?), file: Arc::new(file) })
    }

    /// Another handle of the same store, for another thread.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { tables: None, file: self.file.clone() }
    }

    /// At most `limit` entries behind `after`, or from the first; `None` where one is damaged.
    fn records_after(
        &mut self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Option<Entry>)>, RibError> {
        self.with(|tables| {
            let from = match &after {
                Some(name) => Bound::Excluded(&name.0),
                None => Bound::Unbounded,
            };
            let range = tables.names.range::<&[u8; Name::LEN]>((from, Bound::Unbounded))?;
            let mut read = Vec::new();
            for record in range.take(limit) {
                let (name, record) = record?;
                read.push((Name(*name.value()), Entry::decode(record.value())));
            }
            Ok(read)
        })
    }

    /// Runs `work` on the tables, which are closed when it fails.
    fn with<T>(
        &mut self,
        work: impl FnOnce(&Tables) -> Result<T, redb::Error>,
    ) -> Result<T, RibError> {
        let tables = match self.tables.take() {
            Some(tables) => tables,
            None => self.file.read_tables()?,
        };
        let done = work(&tables).map_err(database_failed)?;
        self.tables = Some(tables);
        Ok(done)
    }
}

impl StoreFile {
    /// The database, which nobody else touches meanwhile.
    fn lock(&self) -> MutexGuard<'_, Option<Database>> {
        // A panic within leaves a database or none, never half of one.
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often a commit has failed so far.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Acquire)
    }

    pub(super) fn read_tables(&self) -> Result<Tables, RibError> {
        let mut slot = self.lock();
        let database = match slot.take() {
            Some(database) => database,
            None => open(&self.path, self.cache_bytes)?,
        };
        let tables = tables_of(&database).map_err(database_failed)?;
        *slot = Some(database);
        Ok(tables)
    }

    fn commit(
        &self,
        write: impl FnOnce(&Database) -> Result<(), redb::Error>,
    ) -> Result<(), RibError> {
        let mut slot = self.lock();
        let database = match slot.take() {
            Some(database) => database,
            None => open(&self.path, self.cache_bytes)?,
        };
        if let Err(error) = write(&database) {
            self.failures.fetch_add(1, Ordering::Release);
            return Err(database_failed(error));
        }
        *slot = Some(database);
        Ok(())
    }
}

pub(super) fn database_failed(error: redb::Error) -> RibError {
    RibError::Database(Box::new(error))
}

fn open(path: &Path, cache_bytes: usize) -> Result<Database, RibError> {
    let is_new = !path.exists();
    make_private(path, is_new)
        .map_err(|source| RibError::StoreFile { path: path.to_owned(), source })?;
    let database = Database::builder()
        .set_cache_size(cache_bytes)
        .create(path)
        .map_err(|error| refusal_to_open(path, error))?;
    if is_new {
        // The file's bytes are durable by each commit; that
        // it exists is its directory's to remember.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))
            .and_then(|directory| directory.sync_all())
            .map_err(|source| RibError::StoreFile { path: path.to_owned(), source })?;
    }
    match prepare(&database).map_err(database_failed)? {
        FORMAT => Ok(database),
        version => Err(RibError::UnknownFormat { version }),
    }
}

fn write(database: &Database, changes: &[Change]) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_quick_repair(true);
    {
        let mut names = transaction.open_table(NAMES)?;
        let mut accounts = transaction.open_table(ACCOUNTS)?;
        let mut moves = Moves::default();
        for Change { name, after: entry, .. } in changes {
            let before = match entry {
                Some(entry) => {
                    let record = entry.encode();
                    let before = names.insert(&name.0, record.as_slice())?;
                    let before = before.and_then(|before| footprint_of(before.value()));
                    moves.replace(before.as_ref(), footprint_of(&record).as_ref());
                    continue;
                }
                None => names.remove(&name.0)?,
            };
            let before = before.and_then(|before| footprint_of(before.value()));
            moves.replace(before.as_ref(), None);
        }
        count(&mut accounts, &moves)?;
    }
    transaction.commit()?;
    Ok(())
}

fn write_removals(database: &Database, changes: &[RemovalChange]) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_quick_repair(true);
    {
        let mut removals = transaction.open_table(REMOVALS)?;
        for ((issuer, removed), removal) in changes {
            let mut key = [0; REMOVAL_KEY_LEN];
            key[..Name::LEN].copy_from_slice(&issuer.0);
            key[Name::LEN..].copy_from_slice(&removed.0);
            match removal {
                Some(removal) => removals.insert(&key, removal.emit().as_slice())?,
                None => removals.remove(&key)?,
            };
        }
    }
    transaction.commit()?;
    Ok(())
}

impl Store for Embedded {
    fn entry(&mut self, name: &Name) -> Result<Option<Entry>, RibError> {
        let read = self.with(|tables| {
            let record = tables.names.get(&name.0)?;
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
        let read = self.records_after(after, limit)?;
        read.into_iter()
            .map(|(name, entry)| {
                entry.map(|entry| (name, entry)).ok_or(RibError::DamagedEntry { name })
            })
            .collect()
    }

    fn page(&mut self, wanted: &Wanted) -> Result<Page, RibError> {
        wanted.page_by(|after, limit| self.records_after(after, limit))
    }

    fn names(&mut self) -> Result<u64, RibError> {
        self.with(|tables| Ok(tables.names.len()?))
    }

    fn held(&mut self, account: &Account) -> Result<Held, RibError> {
        let key = account.key();
        self.with(|tables| {
            let held = tables.accounts.get(key.as_slice())?;
            Ok(held.map_or_else(Held::default, |held| held_of(held.value())))
        })
    }

    fn commit(&mut self, changes: &[Change]) -> Result<Vec<Name>, RibError> {
        // Tables of the time before the commit would keep its file open after an error.
        self.tables = None;
        self.file.commit(|database| write(database, changes))?;
        Ok(Vec::new())
    }

    fn removals(&mut self) -> Result<Vec<Option<Removal>>, RibError> {
        self.with(|tables| {
            let all = tables.removals.range::<&[u8; REMOVAL_KEY_LEN]>(..)?;
            all.map(|record| Ok(Removal::parse(record?.1.value()).ok())).collect()
        })
    }

    fn commit_removals(&mut self, changes: &[RemovalChange]) -> Result<(), RibError> {
        self.tables = None;
        self.file.commit(|database| write_removals(database, changes))
    }

    fn settle(&mut self, _: &[Change], _: bool) {
        // The old ones first: after an error they would keep the file open. The
        // new ones now, because the next commit may lock the file before the
        // next look-up. What fails is tried again then.
        self.tables = None;
        self.tables = self.file.read_tables().ok();
    }
}

/// Makes the tables of a new file; returns the format of this one.
fn prepare(database: &Database) -> Result<u64, redb::Error> {
    let transaction = database.begin_write()?;
    let (version, is_old) = {
        let mut format = transaction.open_table(FORMATS)?;
        let found = format.get(FORMAT_KEY)?.map(|version| version.value());
        let version = match found {
            Some(version) if version != OLD_FORMAT => version,
            _ => {
                format.insert(FORMAT_KEY, FORMAT)?;
                FORMAT
            }
        };
        (version, found == Some(OLD_FORMAT))
    };
    if version != FORMAT {
        transaction.abort()?;
        return Ok(version);
    }
    {
        let names = transaction.open_table(NAMES)?;
        let mut accounts = transaction.open_table(ACCOUNTS)?;
        // A store of an earlier version has none.
        transaction.open_table(REMOVALS)?;
        if is_old {
            let mut moves = Moves::default();
            for record in names.iter()? {
                moves.replace(None, footprint_of(record?.1.value()).as_ref());
            }
            count(&mut accounts, &moves)?;
        }
    }
    if is_old {
        transaction.delete_table(PUBLISHERS)?;
    }
    transaction.commit()?;
    Ok(version)
}

fn tables_of(database: &Database) -> Result<Tables, redb::Error> {
    let transaction = database.begin_read()?;
    let (names, accounts) = (transaction.open_table(NAMES)?, transaction.open_table(ACCOUNTS)?);
    Ok(Tables { names, accounts, removals: transaction.open_table(REMOVALS)? })
}

pub(super) fn count(
    accounts: &mut redb::Table<'_, &'static [u8], (u64, u64)>,
    moves: &Moves,
) -> Result<(), redb::Error> {
    for (account, moved) in moves.iter() {
        let key = account.key();
        let before = accounts.get(key.as_slice())?.map(|held| held_of(held.value()));
        match before.unwrap_or_default().moved_by(*moved) {
            Held { names: 0, .. } => accounts.remove(key.as_slice())?,
            Held { names, bytes } => accounts.insert(key.as_slice(), (names, bytes))?,
        };
    }
    Ok(())
}

fn held_of((names, bytes): (u64, u64)) -> Held {
    Held { names, bytes }
}

/// Sees to it that the file is there and nobody else's to read or write.
#[cfg(unix)]
fn make_private(path: &Path, is_new: bool) -> io::Result<()> {
    if is_new {
        return OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(|_| ());
    }
    let mode = std::fs::metadata(path)?.permissions().mode();
    match mode & 0o077 {
        0 => Ok(()),
        _ => std::fs::set_permissions(path, Permissions::from_mode(0o600)),
    }
}

#[cfg(not(unix))]
fn make_private(_: &Path, _: bool) -> io::Result<()> {
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

pub(super) type NameKey = &'static [u8; Name::LEN];

/// Issuer and removed name.
pub(super) const REMOVAL_KEY_LEN: usize = 2 * Name::LEN;
pub(super) type RemovalKey = &'static [u8; REMOVAL_KEY_LEN];

pub(super) const REMOVALS: TableDefinition<'_, RemovalKey, &'static [u8]> =
    TableDefinition::new("removals");
pub(super) const NAMES: TableDefinition<'_, NameKey, &'static [u8]> = TableDefinition::new("names");
pub(super) const ACCOUNTS: TableDefinition<'_, &'static [u8], (u64, u64)> =
    TableDefinition::new("accounts");
/// Of format 1.
const PUBLISHERS: TableDefinition<'_, NameKey, u64> = TableDefinition::new("publishers");
pub(super) const FORMATS: TableDefinition<'_, &'static str, u64> = TableDefinition::new("format");
pub(super) const FORMAT_KEY: &str = "version";
/// Raised whenever an older program could misread the file.
pub(super) const FORMAT: u64 = 2;
const OLD_FORMAT: u64 = 1;
/// Pages that `redb` keeps in memory unless it is said otherwise, besides
/// the page cache of the system: the hot part of a million entries.
pub(super) const CACHE_BYTES: usize = 64 << 20;

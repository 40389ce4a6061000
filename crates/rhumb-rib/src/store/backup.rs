//! A copy of a store in a file, made while the directory goes on: read as it stands at one moment,
//! carried as a stream, and put together as another file.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `rhumbrib` |
//! | 1 | the version of this stream, 1 |
//! | 1 + 32 + 4 + n | 1, a name, and its entry's record with its length |
//! | 1 + 64 + 4 + n | 2, issuer and removed name, and the removal as it travels, with its length |
//! | 1 + 8 + 8 | 0, how many there were of the one and of the other: the end |
//!
//! Integers are big-endian. A stream that breaks off has no end, and nothing is made of it.
//!
//! INVARIANT: whoever reads the store chooses neither where the copy goes nor what it is called,
//! and whoever writes the copy believes nothing that it is given: both need not be the same user.

use std::fs::File;
use std::io::{self, Read, Write};

use redb::{Database, Durability};
use rhumb_trust::Removal;
use rhumb_wire::Name;

use super::embedded::{
    ACCOUNTS, CACHE_BYTES, FORMAT, FORMAT_KEY, FORMATS, NAMES, REMOVAL_KEY_LEN, REMOVALS, count,
    database_failed,
};
use super::{Embedded, RibError};
use crate::record::footprint_of;
use crate::{Entry, Moves};

/// How much was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Copied {
    /// Names with an entry.
    pub names: u64,
    /// Of who is a member no longer.
    pub removals: u64,
    /// Entries and removals that could not be read back, and are left out.
    pub damaged: u64,
}

impl Embedded {
    /// Writes all that is stored at this moment: what was acknowledged before is in it, and of a
    /// commit all or nothing. Others read and write meanwhile; what they replace keeps its room in
    /// the file until this ends, and it ends when the file is opened anew after a failure.
    ///
    /// # Errors
    /// When the store cannot be read; [`RibError::BackUp`] when `out` takes no more.
    pub fn back_up(&self, out: &mut dyn Write) -> Result<(), RibError> {
        let at = self.file.failures();
        let tables = self.file.read_tables()?;
        let is_over = || match self.file.failures() == at {
            true => Ok(()),
            false => {
                Err(RibError::BackUp { source: io::Error::other("the store failed meanwhile") })
            }
        };
        let (mut names, mut removals) = (0u64, 0u64);
        out.write_all(&[&MAGIC[..], &[VERSION]].concat()).map_err(not_written)?;
        let failed = |error: redb::StorageError| database_failed(error.into());
        for record in tables.names.range::<&[u8; Name::LEN]>(..).map_err(failed)? {
            let (name, record) = record.map_err(failed)?;
            write_one(out, ENTRY, name.value(), record.value()).map_err(not_written)?;
            names += 1;
            is_over()?;
        }
        for removal in tables.removals.range::<&[u8; REMOVAL_KEY_LEN]>(..).map_err(failed)? {
            let (key, removal) = removal.map_err(failed)?;
            write_one(out, REMOVAL, key.value(), removal.value()).map_err(not_written)?;
            removals += 1;
            is_over()?;
        }
        let end = [&[END], &names.to_be_bytes()[..], &removals.to_be_bytes()].concat();
        out.write_all(&end).and_then(|()| out.flush()).map_err(not_written)
    }
}

/// Makes a store of what [`Embedded::back_up`] wrote, in a file that is empty: in one transaction,
/// so that a file in which it did not end holds nothing.
///
/// # Errors
/// [`RibError::BackUp`] when the stream is none, or breaks off; and when the file cannot be
/// written.
pub fn restore(from: &mut dyn Read, file: File) -> Result<Copied, RibError> {
    let create = || Database::builder().set_cache_size(CACHE_BYTES).create_file(file);
    restore_to(from, create).map(|(copied, _)| copied)
}

/// As [`restore`], in an empty database.
fn restore_to(
    from: &mut dyn Read,
    create: impl FnOnce() -> Result<Database, redb::DatabaseError>,
) -> Result<(Copied, Database), RibError> {
    let mut head = [0; MAGIC.len() + 1];
    from.read_exact(&mut head).map_err(not_read)?;
    if head != [&MAGIC[..], &[VERSION]].concat()[..] {
        return Err(not_read(io::Error::new(io::ErrorKind::InvalidData, "it is no back-up")));
    }
    let failed = |error: redb::Error| database_failed(error);
    let database = create().map_err(|error| failed(error.into()))?;
    let mut transaction = database.begin_write().map_err(|error| failed(error.into()))?;
    transaction.set_durability(Durability::Immediate).map_err(|error| failed(error.into()))?;
    transaction.set_quick_repair(true);
    let copied = fill(from, &transaction)?;
    transaction.commit().map_err(|error| failed(error.into()))?;
    Ok((copied, database))
}

/// Puts all of a stream into the tables of a new store.
fn fill(from: &mut dyn Read, transaction: &redb::WriteTransaction) -> Result<Copied, RibError> {
    let failed = |error: redb::TableError| database_failed(error.into());
    let not_stored = |error: redb::StorageError| database_failed(error.into());
    let mut names = transaction.open_table(NAMES).map_err(failed)?;
    let mut removals = transaction.open_table(REMOVALS).map_err(failed)?;
    let mut accounts = transaction.open_table(ACCOUNTS).map_err(failed)?;
    let mut formats = transaction.open_table(FORMATS).map_err(failed)?;
    let (mut copied, mut moves) = (Copied::default(), Moves::default());
    let (mut seen, mut buffer) = ([0u64; 2], Vec::new());
    loop {
        match read_one(from, &mut buffer).map_err(not_read)? {
            One::Entry(name) => {
                seen[0] += 1;
                if Entry::decode(&buffer).is_none() {
                    copied.damaged += 1;
                    continue;
                }
                let before = names.insert(&name, buffer.as_slice()).map_err(not_stored)?;
                let before = before.and_then(|before| footprint_of(before.value()));
                copied.names += u64::from(before.is_none());
                moves.replace(before.as_ref(), footprint_of(&buffer).as_ref());
            }
            One::Removal(key) => {
                seen[1] += 1;
                if Removal::parse(&buffer).is_err() {
                    copied.damaged += 1;
                    continue;
                }
                removals.insert(&key, buffer.as_slice()).map_err(not_stored)?;
                copied.removals += 1;
            }
            One::End(said) if said == seen => break,
            One::End(_) => return Err(not_read(invalid("it lacks some of what it counts"))),
        }
    }
    count(&mut accounts, &moves).map_err(database_failed)?;
    formats.insert(FORMAT_KEY, FORMAT).map_err(not_stored)?;
    Ok(copied)
}

enum One {
    Entry([u8; Name::LEN]),
    Removal([u8; REMOVAL_KEY_LEN]),
    End([u64; 2]),
}

fn write_one(out: &mut dyn Write, kind: u8, key: &[u8], value: &[u8]) -> io::Result<()> {
    out.write_all(&[kind])?;
    out.write_all(key)?;
    out.write_all(&(value.len() as u32).to_be_bytes())?;
    out.write_all(value)
}

/// What comes next; its value is in `buffer`.
fn read_one(from: &mut dyn Read, buffer: &mut Vec<u8>) -> io::Result<One> {
    let [kind] = read_array(from)?;
    let one = match kind {
        END => {
            let counts = [read_array(from)?, read_array(from)?];
            return Ok(One::End(counts.map(u64::from_be_bytes)));
        }
        ENTRY => One::Entry(read_array(from)?),
        REMOVAL => One::Removal(read_array(from)?),
        _ => return Err(invalid("it holds what this version does not know; upgrade")),
    };
    let len = u32::from_be_bytes(read_array(from)?) as usize;
    if len > MAX_VALUE_LEN {
        return Err(invalid("it holds an entry that is larger than any"));
    }
    buffer.resize(len, 0);
    from.read_exact(buffer)?;
    Ok(one)
}

fn read_array<const LEN: usize>(from: &mut dyn Read) -> io::Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn invalid(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

fn not_written(source: io::Error) -> RibError {
    RibError::BackUp { source }
}

fn not_read(source: io::Error) -> RibError {
    let source = match source.kind() {
        io::ErrorKind::UnexpectedEof => invalid("it breaks off before its end"),
        _ => source,
    };
    RibError::BackUp { source }
}

const MAGIC: [u8; 8] = *b"rhumbrib";
const VERSION: u8 = 1;
const END: u8 = 0;
const ENTRY: u8 = 1;
const REMOVAL: u8 = 2;
/// More than any entry has: eight ways, and a list of names of 65,535 bytes.
const MAX_VALUE_LEN: usize = 1 << 18;

/// Restores a copy of these entries in which something was changed. Whatever that was, what is made
/// of it, if anything is, is as large as is said, and each entry can be read back.
#[cfg(any(fuzzing, test))]
pub(crate) fn restore_damaged(
    entries: &[(Name, Entry)],
    damage: impl FnOnce(&mut Vec<u8>),
) -> Option<Copied> {
    use redb::{ReadableDatabase, ReadableTableMetadata};

    let mut copy = [&MAGIC[..], &[VERSION]].concat();
    for (name, entry) in entries {
        write_one(&mut copy, ENTRY, &name.0, &entry.encode()).expect("memory takes it");
    }
    copy.push(END);
    copy.extend((entries.len() as u64).to_be_bytes());
    copy.extend(0u64.to_be_bytes());
    damage(&mut copy);
    let create = || Database::builder().create_with_backend(redb::backends::InMemoryBackend::new());
    let (copied, database) = restore_to(&mut &copy[..], create).ok()?;
    let read = database.begin_read().expect("it was made just now");
    let names = read.open_table(NAMES).expect("there is the table");
    assert_eq!(names.len().expect("memory can be read"), copied.names);
    for record in names.range::<&[u8; Name::LEN]>(..).expect("memory can be read") {
        let (_, record) = record.expect("memory can be read");
        assert!(Entry::decode(record.value()).is_some(), "an entry that cannot be read back");
    }
    let removals = read.open_table(REMOVALS).expect("there is the table");
    assert_eq!(removals.len().expect("memory can be read"), copied.removals);
    Some(copied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_no_back_up_makes_no_store(
            records in prop::collection::vec((0u8..4, prop::collection::vec(any::<u8>(), 0..200)), 0..8),
        ) {
            let mut stream = [&MAGIC[..], &[VERSION]].concat();
            for (kind, rest) in records {
                stream.push(kind);
                stream.extend(rest);
            }
            let restored = restore(&mut &stream[..], tempfile::tempfile().unwrap());
            let is_empty_end = stream[MAGIC.len() + 1..].starts_with(&[0; 17]);
            prop_assert!(restored.is_err() || is_empty_end || restored.unwrap().names == 0);
        }
    }

    #[test]
    fn what_says_that_it_is_long_takes_no_memory_for_it() {
        let mut buffer = Vec::new();
        let long = [&[ENTRY][..], &[7; Name::LEN], &u32::MAX.to_be_bytes()].concat();
        assert!(read_one(&mut &long[..], &mut buffer).is_err());
        assert!(buffer.capacity() == 0);
    }
}

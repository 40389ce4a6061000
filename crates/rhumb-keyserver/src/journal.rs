//! The book of revocations on disk: one line per batch, durable before anybody is told.
//!
//! ```text
//! rhumb revocations 1
//! 1800000000 1800004100 revoke:42 revoke:42/7 restore:9 0123456789abcdef
//! ```
//!
//! Serial, until when it matters, what was said, and the start of a SHA-256 over the line before
//! it. A batch is one line, so it is there as a whole or not at all. A process killed in the middle
//! of writing leaves a last line that does not verify; nobody was told of it, and it is cut off. A
//! bad line elsewhere is damage, and refused.
//!
//! After a failed write nothing more is taken: what the system has of the file is not known then (a
//! failed `fsync` may be forgotten by the next). A restart reads what is there.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use rhumb_capability::{DelegationId, Principal};

use crate::revocation::{Action, Batch, Book, Subject};

/// The file, open and locked.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    has_failed: bool,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another process has it open.
    #[error("journal {0} is in use by another process")]
    InUse(PathBuf),
    /// The file is no journal, or of a newer format.
    #[error("{0} is no journal of revocations that this version reads")]
    Foreign(PathBuf),
    /// A line that is not the last does not verify.
    #[error("journal {path} is damaged in line {line}; put a copy in its place")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    /// The system refuses.
    #[error("journal {path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An earlier write failed.
    #[error("journal {0} failed before; see to the disk and restart")]
    Stopped(PathBuf),
}

impl Journal {
    /// Opens the journal at `path`, or makes one, and reads the book.
    ///
    /// # Errors
    /// As [`JournalError`] says.
    pub fn open(path: &Path, now_s: u64) -> Result<(Self, Book), JournalError> {
        let failed = |source| JournalError::File { path: path.to_owned(), source };
        let mut file = open_file(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let (mut book, good_len, lines) = read(path, &bytes)?;
        book.sweep(now_s);
        let batches = book.batches();
        let mut journal = Self { path: path.to_owned(), file, has_failed: false };
        if good_len == 0 || lines > batches.len() * 2 + SPARE_LINES {
            journal.rewrite(&batches).map_err(failed)?;
        } else if good_len < bytes.len() {
            journal.cut(good_len).map_err(failed)?;
        }
        Ok((journal, book))
    }

    /// Writes a batch. When this returns, the batch outlives the process and the machine's power.
    ///
    /// # Errors
    /// When the system refuses, or has before.
    pub fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        if self.has_failed {
            return Err(JournalError::Stopped(self.path.clone()));
        }
        let written =
            self.file.write_all(line(batch).as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|source| {
            self.has_failed = true;
            JournalError::File { path: self.path.clone(), source }
        })
    }

    /// Cuts off what a killed process left unfinished.
    fn cut(&mut self, len: usize) -> io::Result<()> {
        self.file.set_len(len as u64)?;
        self.file.seek(SeekFrom::End(0))?;
        self.file.sync_all()
    }

    /// Replaces the file as a whole by one of these batches.
    fn rewrite(&mut self, batches: &[Batch]) -> io::Result<()> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".new");
        let new_path = PathBuf::from(name);
        let mut file = open_file(&new_path)?;
        // Locked before it has the journal's name, so that no other process can come between.
        file.try_lock().map_err(io::Error::other)?;
        file.set_len(0)?;
        let mut text = HEADER.to_owned();
        batches.iter().for_each(|batch| text.push_str(&line(batch)));
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new_path, &self.path)?;
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
        self.file = file;
        Ok(())
    }
}

/// Readable by its owner only: it says who is no longer trusted.
fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The book, how many bytes of it are good, and how many lines. 0 bytes when there is nothing yet.
fn read(path: &Path, bytes: &[u8]) -> Result<(Book, usize, usize), JournalError> {
    let mut book = Book::default();
    // A header that is cut short was never followed by anything.
    if HEADER.as_bytes().starts_with(bytes) && bytes.len() < HEADER.len() {
        return Ok((book, 0, 0));
    }
    let Some(mut rest) = bytes.strip_prefix(HEADER.as_bytes()) else {
        return Err(JournalError::Foreign(path.to_owned()));
    };
    let mut lines = 1;
    while !rest.is_empty() {
        lines += 1;
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let (line, tail) = rest.split_at(end);
        let is_good = !tail.is_empty() && parse(line).is_some_and(|batch| book.apply(&batch));
        if !is_good {
            if tail.len() > 1 {
                return Err(JournalError::Damaged { path: path.to_owned(), line: lines });
            }
            break;
        }
        rest = &tail[1..];
    }
    Ok((book, bytes.len() - rest.len(), lines))
}

pub(crate) fn line(batch: &Batch) -> String {
    let mut line = format!("{} {}", batch.serial, batch.until_s);
    for (action, subject) in &batch.changes {
        let verb = match action {
            Action::Revoke => "revoke",
            Action::Restore => "restore",
        };
        line.push_str(&format!(" {verb}:{}", subject.principal.0));
        if let Some(id) = subject.delegation {
            line.push_str(&format!("/{}", id.as_u32()));
        }
    }
    let sum = sum(&line);
    line + " " + &sum + "\n"
}

pub(crate) fn parse(line: &[u8]) -> Option<Batch> {
    let (text, found) = std::str::from_utf8(line).ok()?.rsplit_once(' ')?;
    if sum(text) != found {
        return None;
    }
    let mut words = text.split(' ');
    let serial = words.next()?.parse().ok()?;
    let until_s = words.next()?.parse().ok()?;
    let changes = words.map(parse_change).collect::<Option<Vec<_>>>()?;
    Some(Batch { serial, until_s, changes })
}

fn parse_change(word: &str) -> Option<(Action, Subject)> {
    let (verb, subject) = word.split_once(':')?;
    let action = match verb {
        "revoke" => Action::Revoke,
        "restore" => Action::Restore,
        _ => return None,
    };
    let (principal, delegation) = match subject.split_once('/') {
        Some((principal, id)) => (principal, Some(DelegationId::new(id.parse().ok()?)?)),
        None => (subject, None),
    };
    let principal = Principal(principal.parse().ok()?);
    Some((action, Subject { principal, delegation }))
}

pub(crate) fn sum(text: &str) -> String {
    HEXLOWER.encode(&digest(&SHA256, text.as_bytes()).as_ref()[..SUM_LEN])
}

const HEADER: &str = "rhumb revocations 1\n";
/// Against accidents; whoever can write the file can write the sum as well.
const SUM_LEN: usize = 8;
/// A file shorter than this is not worth writing anew.
const SPARE_LINES: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(serial: u32) -> Batch {
        let subject = |principal, id: Option<u32>| Subject {
            principal: Principal(principal),
            delegation: id.and_then(DelegationId::new),
        };
        let changes = vec![
            (Action::Revoke, subject(serial, None)),
            (Action::Revoke, subject(42, Some(serial))),
            (Action::Restore, subject(9, None)),
        ];
        Batch { serial, until_s: 1000, changes }
    }

    #[test]
    fn what_was_appended_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("revocations");
        let (mut journal, mut book) = Journal::open(&path, 0).unwrap();
        assert!(book.is_empty());
        for serial in [3, 4, 90] {
            journal.append(&batch(serial)).unwrap();
            assert!(book.apply(&batch(serial)));
        }
        let second = Journal::open(&path, 0).unwrap_err();
        assert!(matches!(second, JournalError::InUse(_)), "{second}");
        drop(journal);
        let (mut journal, again) = Journal::open(&path, 0).unwrap();
        assert_eq!(again, book);
        journal.append(&batch(91)).unwrap();
        drop(journal);
        assert_eq!(Journal::open(&path, 0).unwrap().1.last_serial(), 91);
    }

    #[test]
    fn a_last_line_cut_anywhere_is_forgotten_and_nothing_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("revocations");
        let whole = HEADER.to_owned() + &line(&batch(1)) + &line(&batch(2));
        let first_len = whole.len() - line(&batch(2)).len();
        for len in 0..=whole.len() {
            std::fs::write(&path, &whole[..len]).unwrap();
            let (mut journal, book) = Journal::open(&path, 0).unwrap();
            let expected = match len {
                len if len == whole.len() => 2,
                len if len >= first_len => 1,
                _ => 0,
            };
            assert_eq!(book.last_serial(), expected, "{len}");
            journal.append(&batch(7)).unwrap();
            drop(journal);
            assert_eq!(Journal::open(&path, 0).unwrap().1.last_serial(), 7, "{len}");
        }
    }

    #[test]
    fn damage_before_the_end_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("revocations");
        let whole = HEADER.to_owned() + &line(&batch(1)) + &line(&batch(2));
        std::fs::write(&path, whole.replacen("revoke:1", "revoke:2", 1)).unwrap();
        let damaged = Journal::open(&path, 0).unwrap_err();
        assert!(matches!(damaged, JournalError::Damaged { line: 2, .. }), "{damaged}");
        std::fs::write(&path, "something else\n").unwrap();
        assert!(matches!(Journal::open(&path, 0), Err(JournalError::Foreign(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"something else\n");
    }

    #[test]
    fn a_long_file_is_written_anew_without_what_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("revocations");
        let mut text = HEADER.to_owned();
        (1..2000).for_each(|serial| {
            let part = batch(serial).changes[1];
            text.push_str(&line(&Batch { serial, until_s: 10, changes: vec![part] }));
        });
        std::fs::write(&path, text).unwrap();
        let (journal, book) = Journal::open(&path, 11).unwrap();
        assert_eq!((book.last_serial(), book.len()), (1999, 0));
        assert!(matches!(Journal::open(&path, 0), Err(JournalError::InUse(_))));
        drop(journal);
        assert!(std::fs::metadata(&path).unwrap().len() < 100);
        assert_eq!(Journal::open(&path, 11).unwrap().1, book);
    }
}

//! A folder as it is sent: a list of what is in it, and then the bytes of its files in that order.
//!
//! | size | field |
//! |---|---|
//! | 4 | length of the list |
//! | .. | list |
//! | .. | bytes of the files |
//!
//! An entry of the list:
//!
//! | size | field |
//! |---|---|
//! | 1 | 0 folder, 1 file, 2 file that may be executed; 2 more with a SHA-256 |
//! | 8 | length of the file, 0 of a folder |
//! | 2 | length of the path |
//! | .. | path from within the folder: file names with `/` between them |
//! | 32 | SHA-256 of the file, if the first byte says so |
//!
//! Either all files of a list have their SHA-256, or none. Where they have, each of them arrives by
//! itself, and [`crate::held`] says which are there.
//!
//! Paths ascend, name by name, and the folder that holds an entry is listed before it. So there is
//! one list for a folder, nothing is there twice, and nothing is outside.

use std::collections::HashSet;

use crate::WireError;
use crate::reader::Reader;
use crate::transfer::{FileName, LENGTHS};

/// What is in a folder: within its bounds, in order, and with nothing outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing(Vec<Entry>);

/// A folder or a file in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it is: file names with `/` between them.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder, with what is listed below it.
    Folder,
    /// A file.
    File {
        /// Its bytes.
        length: u64,
        /// Whether it may be executed.
        is_executable: bool,
        /// SHA-256 of its bytes; all files of a list have it, or none.
        sha256: Option<[u8; 32]>,
    },
}

/// A file in the content of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSpan {
    /// Where its bytes begin.
    pub at: u64,
    /// How many there are.
    pub length: u64,
    /// Their SHA-256.
    pub sha256: [u8; 32],
}

impl Listing {
    /// The most entries.
    pub const MAX_ENTRIES: usize = 1 << 16;
    /// The most bytes of a list, so that a receiver can hold it.
    pub const MAX_LEN: usize = 1 << 24;
    /// The most names in a path.
    pub const MAX_DEPTH: usize = 32;
    /// The most bytes of a path, which leaves systems room for where the folder is.
    pub const MAX_PATH_LEN: usize = 1024;
    /// Bytes before the list.
    pub const HEAD_LEN: usize = 4;

    /// Takes entries in any order.
    ///
    /// # Errors
    /// When they are more, deeper or longer than a folder may have, when a name may not travel, is
    /// there twice, or the folder that holds it is not among them.
    pub fn new(mut entries: Vec<Entry>) -> Result<Self, WireError> {
        entries.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
        let listing = Self(entries);
        listing.check()?;
        Ok(listing)
    }

    /// Parses a list, without its length in front.
    ///
    /// # Errors
    /// When `data` is not exactly one, as the one encoding of it.
    pub fn parse(data: &[u8]) -> Result<Self, WireError> {
        if data.len() > Self::MAX_LEN {
            return Err(WireError::TooLong { field: "list of a folder", limit: Self::MAX_LEN });
        }
        let mut reader = Reader::new(data);
        let mut entries = Vec::new();
        while !reader.is_empty() {
            if entries.len() == Self::MAX_ENTRIES {
                return Err(TOO_MANY);
            }
            let (kind, length) = (reader.u8()?, reader.u64()?);
            let path_len = usize::from(reader.u16()?);
            let path = std::str::from_utf8(reader.take(path_len)?).map_err(|_| BAD_PATH)?;
            let kind = match kind {
                0 if length == 0 => EntryKind::Folder,
                0 => return Err(WireError::NotCanonical("length of a folder")),
                1..=4 => EntryKind::File {
                    length,
                    is_executable: kind % 2 == 0,
                    sha256: if kind > 2 { Some(reader.array()?) } else { None },
                },
                value => return Err(WireError::UnknownVariant { field: "entry", value }),
            };
            entries.push(Entry { path: path.to_owned(), kind });
        }
        let listing = Self(entries);
        listing.check()?;
        Ok(listing)
    }

    /// The list with its length in front: what the folder's content begins with.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = vec![0; Self::HEAD_LEN];
        for Entry { path, kind } in &self.0 {
            let (kind, length, sha256) = match *kind {
                EntryKind::Folder => (0, 0, None),
                EntryKind::File { length, is_executable, sha256 } => {
                    let kind = if sha256.is_some() { 3 } else { 1 };
                    (kind + u8::from(is_executable), length, sha256)
                }
            };
            out.push(kind);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&(path.len() as u16).to_be_bytes());
            out.extend_from_slice(path.as_bytes());
            out.extend(sha256.into_iter().flatten());
        }
        let len = (out.len() - Self::HEAD_LEN) as u32;
        out[..Self::HEAD_LEN].copy_from_slice(&len.to_be_bytes());
        out
    }

    /// What is in the folder, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// Bytes of the folder's content, with the list and its length.
    pub fn content_len(&self) -> u64 {
        let files = self.0.iter().map(Entry::length).sum::<u64>();
        Self::HEAD_LEN as u64 + self.len() as u64 + files
    }

    /// Where the files are in the folder's content, in order; `None` if they have no SHA-256.
    pub fn spans(&self) -> Option<Vec<FileSpan>> {
        let mut at = Self::HEAD_LEN as u64 + self.len() as u64;
        let mut spans = Vec::new();
        for entry in &self.0 {
            if let EntryKind::File { length, sha256, .. } = entry.kind {
                spans.push(FileSpan { at, length, sha256: sha256? });
                at += length;
            }
        }
        Some(spans)
    }

    /// The same without any SHA-256, as earlier versions read it.
    #[must_use]
    pub fn without_hashes(mut self) -> Self {
        for entry in &mut self.0 {
            if let EntryKind::File { sha256, .. } = &mut entry.kind {
                *sha256 = None;
            }
        }
        self
    }

    fn len(&self) -> usize {
        let of = |entry: &Entry| {
            let hash_len = entry.sha256().map_or(0, |sha256| sha256.len());
            ENTRY_HEAD_LEN + entry.path.len() + hash_len
        };
        self.0.iter().map(of).sum()
    }

    fn check(&self) -> Result<(), WireError> {
        if self.0.len() > Self::MAX_ENTRIES {
            return Err(TOO_MANY);
        }
        if self.len() > Self::MAX_LEN {
            return Err(WireError::TooLong { field: "list of a folder", limit: Self::MAX_LEN });
        }
        let is_ascending = |pair: &[Entry]| pair[0].path.split('/').lt(pair[1].path.split('/'));
        if !self.0.windows(2).all(is_ascending) {
            return Err(WireError::NotCanonical("order of a folder"));
        }
        let (mut folders, mut bytes) = (HashSet::from([""]), 0_u64);
        for entry in &self.0 {
            entry.check_path()?;
            if !folders.contains(entry.path.rsplit_once('/').map_or("", |(parent, _)| parent)) {
                return Err(BAD_PATH);
            }
            if entry.kind == EntryKind::Folder {
                folders.insert(&entry.path);
            }
            bytes = bytes.saturating_add(entry.length());
        }
        self.check_hashes()?;
        // With the list in front it is a length, too.
        match bytes < LENGTHS - (1 << 25) {
            true => Ok(()),
            false => Err(WireError::NotCanonical("length of a folder's files")),
        }
    }

    /// Files of no bytes never arrive by themselves, so theirs is looked at here.
    fn check_hashes(&self) -> Result<(), WireError> {
        let is_file = |entry: &&Entry| entry.kind != EntryKind::Folder;
        let mut files = self.0.iter().filter(is_file);
        let first = files.clone().next().map(|entry| entry.sha256().is_some());
        let is_good = |entry: &Entry| {
            let sha256 = entry.sha256();
            Some(sha256.is_some()) == first
                && (entry.length() > 0 || sha256.is_none_or(|it| it == SHA256_OF_NOTHING))
        };
        match files.all(is_good) {
            true => Ok(()),
            false => Err(WireError::NotCanonical("SHA-256 of a file")),
        }
    }
}

impl Entry {
    fn length(&self) -> u64 {
        match self.kind {
            EntryKind::Folder => 0,
            EntryKind::File { length, .. } => length,
        }
    }

    fn sha256(&self) -> Option<[u8; 32]> {
        match self.kind {
            EntryKind::Folder => None,
            EntryKind::File { sha256, .. } => sha256,
        }
    }

    fn check_path(&self) -> Result<(), WireError> {
        if self.path.len() > Listing::MAX_PATH_LEN {
            return Err(WireError::TooLong { field: "path", limit: Listing::MAX_PATH_LEN });
        }
        if self.path.split('/').count() > Listing::MAX_DEPTH {
            return Err(WireError::TooLong { field: "depth", limit: Listing::MAX_DEPTH });
        }
        self.path.split('/').try_for_each(FileName::check)
    }
}

const TOO_MANY: WireError =
    WireError::TooLong { field: "number of entries", limit: Listing::MAX_ENTRIES };
const BAD_PATH: WireError = WireError::NotCanonical("path");
/// Kind, length, and the length of the path.
const ENTRY_HEAD_LEN: usize = 11;
/// What a file of no bytes has.
const SHA256_OF_NOTHING: [u8; 32] = [
    0xE3, 0xB0, 0xC4, 0x42, 0x98, 0xFC, 0x1C, 0x14, 0x9A, 0xFB, 0xF4, 0xC8, 0x99, 0x6F, 0xB9, 0x24,
    0x27, 0xAE, 0x41, 0xE4, 0x64, 0x9B, 0x93, 0x4C, 0xA4, 0x95, 0x99, 0x1B, 0x78, 0x52, 0xB8, 0x55,
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(path: &str, length: u64) -> Entry {
        let kind = EntryKind::File { length, is_executable: length % 2 == 1, sha256: None };
        Entry { path: path.to_owned(), kind }
    }

    fn hashed(path: &str, length: u64, sha256: [u8; 32]) -> Entry {
        let kind = EntryKind::File { length, is_executable: false, sha256: Some(sha256) };
        Entry { path: path.to_owned(), kind }
    }

    fn folder(path: &str) -> Entry {
        Entry { path: path.to_owned(), kind: EntryKind::Folder }
    }

    #[test]
    fn a_folder_round_trips_and_is_in_order() {
        let entries =
            vec![file("b", 3), folder("a"), file("a-b", 0), file("a/x", 2), folder("a/c")];
        let listing = Listing::new(entries).unwrap();
        let paths: Vec<_> = listing.entries().iter().map(|entry| &entry.path[..]).collect();
        assert_eq!(paths, ["a", "a/c", "a/x", "a-b", "b"]);
        let bytes = listing.emit();
        assert_eq!(listing.content_len(), bytes.len() as u64 + 5);
        assert_eq!(Listing::parse(&bytes[4..]), Ok(listing));
        assert_eq!(Listing::parse(&[]).unwrap().content_len(), 4, "an empty folder");
        for cut in 5..bytes.len() {
            let _ = Listing::parse(&bytes[4..cut]);
        }
    }

    #[test]
    fn files_with_their_hashes_are_told_apart_from_those_without() {
        let entries =
            vec![hashed("b", 3, [3; 32]), folder("a"), hashed("a/x", 0, SHA256_OF_NOTHING)];
        let listing = Listing::new(entries.clone()).unwrap();
        let bytes = listing.emit();
        assert_eq!(Listing::parse(&bytes[4..]).as_ref(), Ok(&listing));
        assert_eq!(listing.content_len(), bytes.len() as u64 + 3);
        let at = bytes.len() as u64;
        let spans = [
            FileSpan { at, length: 0, sha256: SHA256_OF_NOTHING },
            FileSpan { at, length: 3, sha256: [3; 32] },
        ];
        assert_eq!(listing.spans().as_deref(), Some(&spans[..]));
        let plain = listing.without_hashes();
        assert_eq!(plain.spans(), None);
        assert_eq!(plain.emit().len(), bytes.len() - 64);
        for odd in [file("c", 1), hashed("c", 0, [3; 32])] {
            let entries = [&entries[..], &[odd]].concat();
            let refused = Err(WireError::NotCanonical("SHA-256 of a file"));
            assert_eq!(Listing::new(entries), refused);
        }
    }

    #[test]
    fn nothing_is_outside_or_there_twice() {
        let bad = [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            "..",
            "../a",
            "a/..",
            "a/../b",
            ".",
            "a/./b",
            "a\\b",
            "a/b\n",
            "a/\u{202E}",
        ];
        for path in bad {
            assert!(Listing::new(vec![folder("a"), file(path, 1)]).is_err(), "{path:?}");
        }
        let refused = |entries: Vec<Entry>| Listing::new(entries).is_err();
        assert!(refused(vec![file("a", 1), file("a", 1)]), "twice");
        assert!(refused(vec![folder("a"), file("a", 1)]), "as two kinds");
        assert!(refused(vec![file("a/b", 1)]), "nobody said what holds it");
        assert!(refused(vec![file("a", 1), file("a/b", 1)]), "in a file");
        let swapped = Listing(vec![file("b", 1), file("a", 1)]).emit();
        assert_eq!(
            Listing::parse(&swapped[4..]),
            Err(WireError::NotCanonical("order of a folder"))
        );
    }

    #[test]
    fn bounds_hold_from_both_sides() {
        let deep = |depth: usize| {
            let paths = (1..=depth).map(|depth| vec!["d"; depth].join("/"));
            Listing::new(paths.map(|path| folder(&path)).collect())
        };
        assert!(deep(Listing::MAX_DEPTH).is_ok() && deep(Listing::MAX_DEPTH + 1).is_err());
        let long = |last: usize| {
            let [a, b, c] = ["a", "b", "c"].map(|name| name.repeat(255));
            let [ab, abc] = [format!("{a}/{b}"), format!("{a}/{b}/{c}")];
            let d = format!("{abc}/{}", "d".repeat(last));
            let path = format!("{d}/e");
            Listing::new(vec![folder(&a), folder(&ab), folder(&abc), folder(&d), file(&path, 0)])
        };
        // Three names of 255, four separators, and the last one of a byte.
        assert!(long(Listing::MAX_PATH_LEN - 770).is_ok());
        assert!(long(Listing::MAX_PATH_LEN - 769).is_err());
        let many =
            |count: usize| Listing::new((0..count).map(|n| file(&format!("{n:05}"), 0)).collect());
        assert!(many(Listing::MAX_ENTRIES).is_ok());
        assert_eq!(many(Listing::MAX_ENTRIES + 1), Err(TOO_MANY));
        let sizes = |a, b| Listing::new(vec![file("a", a), file("b", b)]);
        let most = LENGTHS - (1 << 25);
        assert!(sizes(most - 2, 1).is_ok());
        assert!(sizes(most - 1, 1).is_err() && sizes(u64::MAX, 2).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_the_one_encoding(
            entries in prop::collection::vec((0_u8..6, 0_u64..3, "[ab/.]{0,5}"), 0..5),
        ) {
            let mut data = Vec::new();
            for (kind, length, path) in entries {
                data.push(kind);
                data.extend_from_slice(&length.to_be_bytes());
                data.extend_from_slice(&(path.len() as u16).to_be_bytes());
                data.extend_from_slice(path.as_bytes());
                if kind > 2 {
                    data.extend_from_slice(&SHA256_OF_NOTHING);
                }
            }
            crate::fuzz::folder(&data);
        }
    }
}

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
//! | 1 | 0 folder, 1 file, 2 file that may be executed |
//! | 8 | length of the file, 0 of a folder |
//! | 2 | length of the path |
//! | .. | path from within the folder: file names with `/` between them |
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
    },
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
                1 | 2 => EntryKind::File { length, is_executable: kind == 2 },
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
            let (kind, length) = match *kind {
                EntryKind::Folder => (0, 0),
                EntryKind::File { length, is_executable } => (1 + u8::from(is_executable), length),
            };
            out.push(kind);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&(path.len() as u16).to_be_bytes());
            out.extend_from_slice(path.as_bytes());
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

    fn len(&self) -> usize {
        self.0.iter().map(|entry| ENTRY_HEAD_LEN + entry.path.len()).sum()
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
        // With the list in front it is a length, too.
        match bytes < LENGTHS - (1 << 25) {
            true => Ok(()),
            false => Err(WireError::NotCanonical("length of a folder's files")),
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(path: &str, length: u64) -> Entry {
        let kind = EntryKind::File { length, is_executable: length % 2 == 1 };
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
            entries in prop::collection::vec((0_u8..4, 0_u64..3, "[ab/.]{0,5}"), 0..5),
        ) {
            let mut data = Vec::new();
            for (kind, length, path) in entries {
                data.push(kind);
                data.extend_from_slice(&length.to_be_bytes());
                data.extend_from_slice(&(path.len() as u16).to_be_bytes());
                data.extend_from_slice(path.as_bytes());
            }
            crate::fuzz::folder(&data);
        }
    }
}

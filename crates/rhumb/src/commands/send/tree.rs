//! A folder as it is sent: the list of what is in it, and then its files, one behind the other.
//!
//! The list has the SHA-256 of each file, so all of them are read before anything is sent: what the
//! receiver has of them is not sent then. Links are not followed, and neither they nor what is no
//! file are sent: they are told of. A file that is another one by the time it is read ends the
//! transfer.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_node::transfer::{ReadAt, sha256_of};
use rhumb_wire::folder::{Entry, EntryKind, Listing};
use rhumb_wire::transfer::FileName;
use rustix::fs::OFlags;

/// What a folder is sent as.
#[derive(Debug)]
pub(super) struct Tree {
    head: Vec<u8>,
    files: Vec<Part>,
    length: u64,
    /// The one read last.
    open: Option<(usize, File)>,
}

/// A file, and where its bytes are in all of it.
#[derive(Debug)]
struct Part {
    at: u64,
    length: u64,
    path: PathBuf,
}

/// What was found, and what was left out.
#[derive(Debug, Default)]
struct Found {
    entries: Vec<Entry>,
    left_out: Vec<String>,
}

impl Tree {
    /// Looks at a folder. Beside it, what in it is not sent.
    pub(super) fn of(folder: &Path) -> Outcome<(Self, Vec<String>)> {
        let mut found = Found::default();
        found.look_into(folder, "")?;
        let Found { mut entries, mut left_out } = found;
        left_out.sort_unstable();
        for Entry { path, kind } in &mut entries {
            if let EntryKind::File { length, sha256, .. } = kind {
                let path = folder.join(path);
                let hash = open(&path, *length).and_then(|mut file| sha256_of(&mut file, *length));
                *sha256 = Some(hash.map_err(|error| refuse(&path, &error))?);
            }
        }
        let listing = Listing::new(entries).map_err(|error| refuse(folder, &error))?;
        let head = listing.emit();
        let (mut files, mut at) = (Vec::new(), head.len() as u64);
        for entry in listing.entries() {
            if let EntryKind::File { length, .. } = entry.kind {
                files.push(Part { at, length, path: folder.join(&entry.path) });
                at += length;
            }
        }
        Ok((Self { head, files, length: at, open: None }, left_out))
    }

    /// Bytes of all of it.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// How many of them the list is, with its length.
    pub(super) fn list_len(&self) -> u64 {
        self.head.len() as u64
    }

    /// Opens a file, if it is what it was.
    fn open(&mut self, number: usize) -> io::Result<&File> {
        let opened = self.open.take().filter(|(open, _)| *open == number);
        let file = match opened {
            Some((_, file)) => file,
            None => open(&self.files[number].path, self.files[number].length)?,
        };
        Ok(&self.open.insert((number, file)).1)
    }
}

impl ReadAt for Tree {
    fn read_exact_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (mut at, mut filled) = (offset, 0);
        while filled < buffer.len() {
            let rest = &mut buffer[filled..];
            let len = if let Some(head) =
                usize::try_from(at).ok().and_then(|at| self.head.get(at..))
                && !head.is_empty()
            {
                let len = head.len().min(rest.len());
                rest[..len].copy_from_slice(&head[..len]);
                len
            } else {
                let number = self.files.partition_point(|it| it.at + it.length <= at);
                let part = self.files.get(number).ok_or(io::ErrorKind::UnexpectedEof)?;
                let (within, end) = (at - part.at, part.at + part.length);
                let len = usize::try_from(end - at).map_or(rest.len(), |left| left.min(rest.len()));
                FileExt::read_exact_at(self.open(number)?, &mut rest[..len], within)?;
                len
            };
            filled += len;
            at += len as u64;
        }
        Ok(())
    }
}

impl Found {
    /// Looks at what is in a folder, which is at `path` of the one that is sent.
    fn look_into(&mut self, folder: &Path, path: &str) -> Outcome {
        for entry in std::fs::read_dir(folder).map_err(|error| refuse(folder, &error))? {
            let entry = entry.map_err(|error| refuse(folder, &error))?;
            let here = entry.path();
            let name = entry.file_name();
            let name = name.to_str().ok_or("it is not UTF-8".to_owned());
            let name = name.and_then(|name| {
                FileName::new(name).map(|_| name).map_err(|error| error.to_string())
            });
            let name = name.map_err(|problem| {
                refuse(&here, &format_args!("its name cannot travel ({problem}); rename it"))
            })?;
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            let metadata =
                std::fs::symlink_metadata(&here).map_err(|error| refuse(&here, &error))?;
            let kind = if metadata.is_dir() {
                EntryKind::Folder
            } else if metadata.is_file() {
                let is_executable = metadata.mode() & 0o111 != 0;
                EntryKind::File { length: metadata.len(), is_executable, sha256: None }
            } else {
                self.left_out.push(path);
                continue;
            };
            if self.entries.len() == Listing::MAX_ENTRIES || path.len() > Listing::MAX_PATH_LEN {
                let (entries, len) = (Listing::MAX_ENTRIES, Listing::MAX_PATH_LEN);
                let bounds = format!(
                    "a folder has {entries} entries at most, with paths of {len} bytes; pack it with tar first"
                );
                return Err(refuse(&here, &bounds));
            }
            self.entries.push(Entry { path: path.clone(), kind });
            if kind == EntryKind::Folder {
                // Paths that are bounded bound the depth.
                self.look_into(&here, &path)?;
            }
        }
        Ok(())
    }
}

/// Opens a file, if it is one of this length.
fn open(path: &Path, length: u64) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    match metadata.is_file() && metadata.len() == length {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn refuse(path: &Path, problem: &dyn fmt::Display) -> Failure {
    Failure::setup_text(format!("cannot send {}: {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_folder_is_its_list_and_its_files_and_links_are_left_out() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("sub/empty")).unwrap();
        std::fs::write(at("a"), "first").unwrap();
        std::fs::write(at("nothing"), "").unwrap();
        std::fs::write(at("sub/run"), "second").unwrap();
        std::fs::set_permissions(at("sub/run"), PermissionsExt::from_mode(0o755)).unwrap();
        symlink("/etc/passwd", at("sub/link")).unwrap();
        let (mut tree, left_out) = Tree::of(place.path()).unwrap();
        assert_eq!(left_out, ["sub/link"]);
        let mut bytes = vec![0; usize::try_from(tree.length()).unwrap()];
        tree.read_exact_at(0, &mut bytes).unwrap();
        assert!(bytes.ends_with(b"firstsecond"));
        let list = &bytes[4..bytes.len() - 11];
        let listing = Listing::parse(list).unwrap();
        let paths: Vec<_> = listing.entries().iter().map(|entry| &entry.path[..]).collect();
        assert_eq!(paths, ["a", "nothing", "sub", "sub/empty", "sub/run"]);
        let sha256 = Some(sha256_of(&mut &b"second"[..], 6).unwrap());
        let run = EntryKind::File { length: 6, is_executable: true, sha256 };
        assert_eq!(listing.entries()[4].kind, run);
        for at in 0..bytes.len() {
            let mut part = vec![0; (bytes.len() - at).min(7)];
            tree.read_exact_at(at as u64, &mut part).unwrap();
            assert_eq!(part, bytes[at..at + part.len()]);
        }
        assert!(tree.read_exact_at(1, &mut bytes).is_err(), "beyond the end");
        // A link in the place of a file is no file of this folder.
        std::fs::remove_file(at("a")).unwrap();
        symlink("sub/run", at("a")).unwrap();
        tree.open = None;
        assert!(tree.read_exact_at(bytes.len() as u64 - 11, &mut [0; 5]).is_err());
    }

    #[test]
    fn names_that_cannot_travel_are_told() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("a\\b"), "").unwrap();
        let refused = Tree::of(place.path()).unwrap_err().to_string();
        assert!(refused.contains("a\\b: its name cannot travel"), "{refused}");
    }
}

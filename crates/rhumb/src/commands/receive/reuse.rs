//! Files of a folder that are there already, in its own part from an earlier process, or in parts
//! of what else the same sender has sent for the same name: the folder as it was before one of its
//! files was changed. What is there by content is not sent again, whatever its path.
//!
//! A list and a mark only say where to look. A file counts when its bytes have the SHA-256 that the
//! new list says, so an old list that lies costs its own sender a file, and nobody else anything.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use aws_lc_rs::digest;
use rhumb_wire::folder::FileSpan;
use rhumb_wire::held::Held;

use super::folders;

/// A part of a folder that arrives file by file, as its list and its mark say.
pub(super) struct Source {
    content: File,
    files: Vec<FileSpan>,
    held: Held,
    /// Of what is there of the file that is not whole.
    sha256: [u8; 32],
}

impl Source {
    /// What `mark` says of a part; `None` if it makes no sense.
    pub(super) fn of(content: File, mark: &[u8]) -> Option<Self> {
        let sha256 = mark.get(8..MARK_HEAD_LEN)?.try_into().ok()?;
        let files = folders::read_listing(&content).ok()?.spans()?;
        let held = Held::parse(&mark[MARK_HEAD_LEN..], &files).ok()?;
        Some(Self { content, files, held, sha256 })
    }

    /// The file that is not whole, and how much of it there is.
    fn partial(&self) -> Option<(usize, u64)> {
        let missing = self.held.missing(&self.files)?;
        Some((missing.number, self.held.there())).filter(|(_, there)| *there > 0)
    }
}

/// What a part is marked with: how much is there with the list, the SHA-256 of what is there of the
/// file that is not whole, and which files are.
pub(super) fn mark(length: u64, held: &Held, sha256: &[u8; 32]) -> Vec<u8> {
    let mut text = length.to_be_bytes().to_vec();
    text.extend_from_slice(sha256);
    held.emit(&mut text);
    text
}

/// Which of `files` are there, once what others have of them was copied into `part`.
pub(super) fn gather(
    part: &File,
    own: Option<Source>,
    others: Vec<Source>,
    files: &[FileSpan],
    see: &mut dyn FnMut(&[u8]),
) -> io::Result<Held> {
    let (mut held, mut partial) = (Held::nothing(files), None);
    if let Some(own) = own.filter(|own| own.files == files) {
        let is_good = |file: &FileSpan| {
            let sha256 = hash_of(part, file.at, file.length);
            sha256.is_ok_and(|sha256| sha256 == file.sha256)
        };
        for (number, file) in files.iter().enumerate() {
            if own.held.is_whole(number) && file.length > 0 && is_good(file) {
                held.add_whole(number);
            }
        }
        partial = own.partial().filter(|(number, there)| {
            hash_of(part, files[*number].at, *there).is_ok_and(|sha256| sha256 == own.sha256)
        });
    }
    for other in others {
        partial = take_from(&other, part, files, &mut held)?.or(partial);
    }
    if let Some((number, there)) = partial.filter(|(number, _)| !held.is_whole(*number)) {
        held.begin_with(number, there);
        let seen = |bytes: &[u8]| {
            see(bytes);
            Ok(())
        };
        read(part, files[number].at, there, seen)?;
    }
    Ok(held)
}

/// Copies what is missing from another part. Says what is there of a file that is not whole, if
/// that is missing as well.
fn take_from(
    other: &Source,
    part: &File,
    files: &[FileSpan],
    held: &mut Held,
) -> io::Result<Option<(usize, u64)>> {
    let whole = other.files.iter().enumerate().filter(|(number, _)| other.held.is_whole(*number));
    let whole: HashMap<_, _> =
        whole.map(|(_, file)| ((file.sha256, file.length), file.at)).collect();
    let mut partial = None;
    for (number, file) in files.iter().enumerate() {
        if held.is_whole(number) {
            continue;
        }
        if let Some(at) = whole.get(&(file.sha256, file.length)) {
            if copy(&other.content, *at, file.length, (part, file.at))? == Some(file.sha256) {
                held.add_whole(number);
            }
        } else if let Some((of_other, there)) = other.partial()
            && (other.files[of_other].sha256, other.files[of_other].length)
                == (file.sha256, file.length)
        {
            let at = other.files[of_other].at;
            if copy(&other.content, at, there, (part, file.at))? == Some(other.sha256) {
                partial = Some((number, there));
            }
        }
    }
    Ok(partial)
}

/// Copies a piece, and says its SHA-256; `None` if it cannot be read.
fn copy(
    from: &File,
    at: u64,
    length: u64,
    (to, to_at): (&File, u64),
) -> io::Result<Option<[u8; 32]>> {
    let (mut hash, mut copied, mut is_written) = (digest::Context::new(&digest::SHA256), 0, Ok(()));
    let read = read(from, at, length, |bytes| {
        hash.update(bytes);
        is_written = to.write_all_at(bytes, to_at + copied);
        copied += bytes.len() as u64;
        match is_written {
            Ok(()) => Ok(()),
            Err(_) => Err(io::ErrorKind::WriteZero.into()),
        }
    });
    is_written?;
    Ok(read.ok().and_then(|()| hash.finish().as_ref().try_into().ok()))
}

fn hash_of(file: &File, at: u64, length: u64) -> io::Result<[u8; 32]> {
    let mut hash = digest::Context::new(&digest::SHA256);
    read(file, at, length, |bytes| {
        hash.update(bytes);
        Ok(())
    })?;
    Ok(hash.finish().as_ref().try_into().expect("invariant: SHA-256 has 32 bytes"))
}

fn read(
    file: &File,
    at: u64,
    length: u64,
    mut see: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let (mut buffer, mut done) = (vec![0; length.min(READ_LEN) as usize], 0);
    while done < length {
        let len = (length - done).min(READ_LEN) as usize;
        file.read_exact_at(&mut buffer[..len], at + done)?;
        see(&buffer[..len])?;
        done += len as u64;
    }
    Ok(())
}

/// How much is there, and a SHA-256.
const MARK_HEAD_LEN: usize = 40;
/// Read at once.
const READ_LEN: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rhumb_node::transfer::{Offered, WriteAt, sha256_of};
    use rhumb_wire::Name;
    use rhumb_wire::folder::{Entry, EntryKind, Listing};
    use rhumb_wire::transfer::{FileName, Kind, Offer};

    use super::super::parts::{Part, Parts};
    use super::*;

    fn hash(bytes: &[u8]) -> [u8; 32] {
        sha256_of(&mut { bytes }, bytes.len() as u64).unwrap()
    }

    /// A folder of these files, as `from` offers it.
    fn folder(from: u8, files: &[(&str, &[u8])]) -> (Offered, Vec<u8>, Vec<FileSpan>) {
        let entry = |(path, bytes): &(&str, &[u8])| {
            let (length, sha256) = (bytes.len() as u64, Some(hash(bytes)));
            let kind = EntryKind::File { length, is_executable: false, sha256 };
            Entry { path: (*path).to_owned(), kind }
        };
        let listing = Listing::new(files.iter().map(entry).collect()).unwrap();
        let head = listing.emit();
        let (kind, length, sha256) = (Kind::FileByFile, listing.content_len(), hash(&head));
        let offer = Offer { kind, length, sha256, name: FileName::new("folder").unwrap() };
        let content = files.iter().fold(head, |head, (_, bytes)| [&head, *bytes].concat());
        let offered = Offered::new(Name([from; 32]), Name([9; 32]), offer);
        (offered, content, listing.spans().unwrap())
    }

    fn begin(parts: &Arc<Parts>, offered: &Offered, content: &[u8], files: &[FileSpan]) -> Part {
        let mut part = parts.open(offered, false).unwrap();
        part.write_all_at(0, &content[..files[0].at as usize]).unwrap();
        part
    }

    /// Leaves a part in which all but the last file are whole, and three bytes of that are there.
    fn leave(parts: &Arc<Parts>, offered: &Offered, content: &[u8], files: &[FileSpan]) {
        let mut part = begin(parts, offered, content, files);
        let (mut held, last) = (Held::nothing(files), files.len() - 1);
        (0..last).for_each(|number| held.add_whole(number));
        held.begin_with(last, 3);
        let at = files[last].at as usize;
        part.write_all_at(files[0].at, &content[files[0].at as usize..at + 3]).unwrap();
        part.settle_files(at as u64 + 3, &held, &hash(&content[at..at + 3])).unwrap();
    }

    /// Which files are there, and what of the one that is not whole.
    fn found(part: &mut Part, files: &[FileSpan]) -> (Vec<bool>, Vec<u8>) {
        let mut seen = Vec::new();
        let held = part.recall_files(files, &mut |bytes| seen.extend_from_slice(bytes));
        let held = held.unwrap().unwrap();
        assert_eq!(held.there(), seen.len() as u64);
        ((0..files.len()).map(|number| held.is_whole(number)).collect(), seen)
    }

    #[test]
    fn what_a_folder_had_is_there_when_it_has_changed_whatever_the_paths() {
        let place = tempfile::tempdir().unwrap();
        let parts = Parts::of(place.path());
        let (before, content, files) =
            folder(1, &[("a", b"first"), ("b", b"second"), ("c", b"third one")]);
        leave(&parts, &before, &content, &files);
        let changed: [(&str, &[u8]); 4] =
            [("a", b"FIRST"), ("c", b"third one"), ("d", b""), ("e", b"second")];
        let (offered, content, files) = folder(1, &changed);
        let mut part = begin(&parts, &offered, &content, &files);
        let is_there = (vec![false, false, true, true], b"thi".to_vec());
        assert_eq!(found(&mut part, &files), is_there);
        // Now it is its own, and its list and mark say so.
        let mut held = Held::nothing(&files);
        held.add_whole(3);
        held.begin_with(1, 3);
        part.settle_files(1, &held, &hash(b"thi")).unwrap();
        drop(part);
        parts.give_up(&before);
        let mut part = begin(&parts, &offered, &content, &files);
        assert_eq!(found(&mut part, &files), is_there);
        part.write_all_at(files[0].at, b"FIRST").unwrap();
        part.write_all_at(files[1].at + 3, b"rd one").unwrap();
        let whole = part.keep(&offered.offer.name, Kind::FileByFile).unwrap();
        let there = |path: &str| std::fs::read(whole.join(path)).unwrap();
        assert!(changed.iter().all(|(path, bytes)| there(path) == *bytes));
    }

    #[test]
    fn neither_a_list_that_lies_nor_a_disk_that_forgets_gives_a_file() {
        let place = tempfile::tempdir().unwrap();
        let parts = Parts::of(place.path());
        let files: [(&str, &[u8]); 3] = [("a", b"secret"), ("b", b"second"), ("c", b"third one")];
        let (offered, mut content, files) = folder(1, &files);
        content[files[0].at as usize..][..6].copy_from_slice(b"public");
        leave(&parts, &offered, &content, &files);
        let mut part = begin(&parts, &offered, &content, &files);
        assert_eq!(found(&mut part, &files).0, [false, true, false], "in its own part");
        drop(part);
        let (other, content, files) = folder(1, &[("a", b"secret"), ("b", b"second")]);
        let mut part = begin(&parts, &other, &content, &files);
        assert_eq!(found(&mut part, &files).0, [false, true], "in another one");
    }

    #[test]
    fn nobody_is_told_what_others_have_sent() {
        let place = tempfile::tempdir().unwrap();
        let parts = Parts::of(place.path());
        let had: [(&str, &[u8]); 2] = [("a", b"known to both"), ("b", b"other")];
        let (offered, content, files) = folder(1, &had);
        leave(&parts, &offered, &content, &files);
        let (of_another, content, files) = folder(2, &had);
        let mut part = begin(&parts, &of_another, &content, &files);
        assert_eq!(found(&mut part, &files), (vec![false, false], Vec::new()));
    }
}

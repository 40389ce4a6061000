//! A folder that has arrived whole, as one part, becomes a folder.
//!
//! It is made in a private place, where nobody has put anything, from a list in which nothing leads
//! out; then it gets its name.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use rhumb_wire::folder::{EntryKind, Listing};
use rhumb_wire::transfer::Kind;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

/// Makes the folder of `content` at `whole`, below a private folder, both of which are made.
pub(super) fn unpack(content: &File, kind: Kind, whole: &Path) -> io::Result<()> {
    let staged = whole.parent().ok_or(io::ErrorKind::InvalidInput)?;
    match std::fs::remove_dir_all(staged) {
        // An earlier process may have been killed here.
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => DirBuilder::new().mode(0o700).create(staged)?,
    }
    let listing = read_listing(content)?;
    let has_hashes = listing.spans().is_some_and(|files| !files.is_empty());
    if listing.content_len() != content.metadata()?.len() || (has_hashes && kind == Kind::Folder) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    std::fs::create_dir(whole)?;
    let mut content = content.try_clone()?;
    content.seek(SeekFrom::Start(listing.emit().len() as u64))?;
    for entry in listing.entries() {
        let path = whole.join(&entry.path);
        match entry.kind {
            EntryKind::Folder => std::fs::create_dir(path)?,
            EntryKind::File { length, is_executable, .. } => {
                let mode = if is_executable { 0o777 } else { 0o666 };
                let mut options = OpenOptions::new();
                let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
                if io::copy(&mut (&mut content).take(length), &mut file)? != length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                #[cfg(not(target_os = "linux"))]
                file.sync_all()?;
            }
        }
    }
    // One look at the disk for all of them: there may be thousands.
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(File::open(whole)?)?;
    Ok(())
}

/// The list of a folder; it is the sender's fault if that makes no sense.
pub(super) fn read_listing(content: &File) -> io::Result<Listing> {
    let mut head = [0; Listing::HEAD_LEN];
    content.read_exact_at(&mut head, 0)?;
    let len = u32::from_be_bytes(head) as usize;
    if len > Listing::MAX_LEN {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut list = vec![0; len];
    content.read_exact_at(&mut list, head.len() as u64)?;
    let listing = Listing::parse(&list);
    listing.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Renames a folder, unless something is there already.
pub(super) fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems cannot do that in one step.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            if std::fs::symlink_metadata(to).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            std::fs::rename(from, to)
        }
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    use rhumb_wire::folder::Entry;

    fn content_of(folder: &Path, bytes: &[u8]) -> File {
        let path = folder.join("content");
        std::fs::write(&path, bytes).unwrap();
        File::open(path).unwrap()
    }

    #[test]
    fn a_folder_is_what_its_list_says() {
        let place = tempfile::tempdir().unwrap();
        let file = |length, is_executable| EntryKind::File { length, is_executable, sha256: None };
        let entries = [
            ("a", EntryKind::Folder),
            ("a/run", file(5, true)),
            ("empty", EntryKind::Folder),
            ("text", file(4, false)),
            ("zero", file(0, false)),
        ];
        let entries = entries.map(|(path, kind)| Entry { path: path.to_owned(), kind });
        let bytes =
            [Listing::new(entries.to_vec()).unwrap().emit(), b"#!/xytext".to_vec()].concat();
        let content = content_of(place.path(), &bytes);
        let whole = place.path().join("staged/whole");
        // What another process left there is no part of it.
        std::fs::create_dir_all(whole.join("left")).unwrap();
        unpack(&content, Kind::Folder, &whole).unwrap();
        assert_eq!(std::fs::read(whole.join("a/run")).unwrap(), b"#!/xy");
        assert_eq!(std::fs::read(whole.join("text")).unwrap(), b"text");
        assert_eq!(std::fs::read(whole.join("zero")).unwrap(), b"");
        let mode = |path: &str| std::fs::metadata(whole.join(path)).unwrap().permissions().mode();
        assert_eq!((mode("a/run") & 0o100, mode("text") & 0o111), (0o100, 0));
        assert!(std::fs::read_dir(whole.join("empty")).unwrap().next().is_none());
        assert!(!whole.join("left").exists());
        let there = place.path().join("there");
        std::fs::create_dir(&there).unwrap();
        let error = rename_to_new(&whole, &there).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "not even an empty one");
        rename_to_new(&whole, &place.path().join("new")).unwrap();
    }

    #[test]
    fn what_leads_out_or_makes_no_sense_is_refused_before_anything_is_made() {
        let place = tempfile::tempdir().unwrap();
        let listed = |path: &[u8], rest: &[u8]| {
            let len = (11 + path.len() as u32).to_be_bytes();
            let head = [&len[..], &[1], &2_u64.to_be_bytes(), &(path.len() as u16).to_be_bytes()];
            [&head.concat(), path, rest].concat()
        };
        for bytes in [
            listed(b"../out", b"ab"),
            listed(b"/out", b"ab"),
            listed(b"a", b"abc"),
            listed(b"a", b"a"),
            u32::MAX.to_be_bytes().to_vec(),
        ] {
            let content = content_of(place.path(), &bytes);
            let whole = place.path().join("staged/whole");
            let error = unpack(&content, Kind::Folder, &whole).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(!place.path().join("staged/whole").exists());
        }
    }
}

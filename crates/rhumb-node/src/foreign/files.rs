//! Files by their paths, for programs that have no storage of their own: one is sent, and one is
//! received into a folder, under the name that its sender gives it, if there is none of that name.
//!
//! INVARIANT: nothing is overwritten, and a file has its name once it is whole and not before.

use std::fs::{self, File, OpenOptions};
use std::io;
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rhumb_end::Admits;
use rhumb_wire::Name;
use rhumb_wire::transfer::{CancelReason, FileName, Kind, Offer};

use super::{Fault, FaultKind};
use crate::transfer::{Offered, WriteAt, sha256_of};
use crate::{Node, ReceiveReport, SendReport};

/// Sends the file at `path` to `to`, under its own name. Dropped, it stops. `progress` is told how
/// many bytes have arrived, of how many.
///
/// # Errors
/// When it cannot be read, or as [`Node::send_file`].
pub async fn send_file(
    node: &Node,
    to: Name,
    path: PathBuf,
    mut progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<SendReport, Fault> {
    let read = move || offered(&path);
    let read = tokio::task::spawn_blocking(read).await;
    let (file, offer) = read.map_err(|error| Fault::new(FaultKind::System, error))??;
    let length = offer.length;
    Ok(node.send_file(to, file, offer, move |bytes| progress(bytes, length)).await?)
}

/// Receives one file of up to `most` bytes into `folder`, from whom `admits` says: where it is.
/// Folders are declined, and what has no length yet, and what has a name that is taken. Dropped, it
/// stops, and nothing is left. `progress` is told how many bytes have arrived, of how many.
///
/// # Errors
/// When it cannot be written, or as [`Node::receive_file`].
pub async fn receive_file(
    node: &Node,
    folder: PathBuf,
    admits: Admits,
    most: u64,
    mut progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<(PathBuf, ReceiveReport), Fault> {
    if !folder.is_dir() {
        return Err(Fault::invalid(format!("{} is no folder; make one", folder.display())));
    }
    let place = folder.clone();
    let length = Arc::new(AtomicU64::new(0));
    let all = Arc::clone(&length);
    let open = move |offered: &Offered| {
        let arriving = Arriving::begin(&place, &offered.offer, most)?;
        length.store(offered.offer.length, Ordering::Relaxed);
        Ok(arriving)
    };
    let progress = move |bytes| progress(bytes, all.load(Ordering::Relaxed));
    let report = node.receive_file_from(admits, open, progress).await?;
    Ok((folder.join(&report.file_name), report))
}

fn offered(path: &Path) -> Result<(File, Offer), Fault> {
    let unread =
        |error: io::Error| Fault::new(FaultKind::System, format!("{}: {error}", path.display()));
    let unnamed = || Fault::invalid(format!("{} has no name that can travel", path.display()));
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(unnamed)?;
    let name = FileName::new(name).map_err(|_| unnamed())?;
    let mut file = File::open(path).map_err(unread)?;
    let metadata = file.metadata().map_err(unread)?;
    if !metadata.is_file() {
        return Err(Fault::invalid(format!("{} is no file", path.display())));
    }
    let sha256 = sha256_of(&mut file, metadata.len()).map_err(unread)?;
    Ok((file, Offer { kind: Kind::File, length: metadata.len(), sha256, name }))
}

/// A file on its way in, under a name of its own until it is whole.
struct Arriving {
    file: File,
    folder: PathBuf,
    temporary: PathBuf,
}

impl Arriving {
    fn begin(folder: &Path, offer: &Offer, most: u64) -> Result<Self, CancelReason> {
        if offer.kind != Kind::File || folder.join(offer.name.as_str()).symlink_metadata().is_ok() {
            return Err(CancelReason::Declined);
        }
        if offer.length > most {
            return Err(CancelReason::TooLarge);
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".rhumb-{}-{number}.part", std::process::id()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        options.mode(0o600);
        let file = options.open(&temporary).map_err(|_| CancelReason::WriteFailed)?;
        Ok(Self { file, folder: folder.to_owned(), temporary })
    }
}

impl WriteAt for Arriving {
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        WriteAt::write_all_at(&mut self.file, offset, bytes)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)
    }

    fn finish(&mut self, name: &FileName) -> io::Result<()> {
        self.file.sync_all()?;
        // A link, unlike a new name, takes the place of nothing.
        fs::hard_link(&self.temporary, self.folder.join(name.as_str()))
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        // It has another name by now, or is not wanted.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Tells files apart that arrive at once.
static NEXT: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("rhumb-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn offer(kind: Kind, length: u64) -> Offer {
        Offer { kind, length, sha256: [0; 32], name: FileName::new("chart").unwrap() }
    }

    #[test]
    fn a_file_has_its_name_once_it_is_whole_and_overwrites_nothing() {
        let folder = folder("files-whole");
        let offer = offer(Kind::File, 3);
        let mut one = Arriving::begin(&folder, &offer, 3).ok().unwrap();
        let mut other = Arriving::begin(&folder, &offer, 3).ok().unwrap();
        one.write_all_at(0, b"one").unwrap();
        other.write_all_at(0, b"two").unwrap();
        assert!(!folder.join("chart").exists());
        one.finish(&offer.name).unwrap();
        assert!(other.finish(&offer.name).is_err());
        drop((one, other));
        assert_eq!(fs::read(folder.join("chart")).unwrap(), b"one");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        let again = Arriving::begin(&folder, &offer, 3).err();
        assert_eq!(again, Some(CancelReason::Declined));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_too_large_or_no_file_is_declined_and_leaves_nothing() {
        let folder = folder("files-declined");
        for (kind, length, reason) in [
            (Kind::File, 4, CancelReason::TooLarge),
            (Kind::Folder, 3, CancelReason::Declined),
            (Kind::Endless, 0, CancelReason::Declined),
        ] {
            assert_eq!(Arriving::begin(&folder, &offer(kind, length), 3).err(), Some(reason));
        }
        std::os::unix::fs::symlink("nowhere", folder.join("chart")).unwrap();
        let onto_a_link = Arriving::begin(&folder, &offer(Kind::File, 3), 3).err();
        assert_eq!(onto_a_link, Some(CancelReason::Declined));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}

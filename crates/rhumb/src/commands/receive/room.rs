//! How much a receiver takes: files up to a size each, and
//! never so much that the disk has nothing left.
//!
//! What was promised to senders and has not arrived yet counts as used, so that files that arrive
//! at once do not fill the disk together.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The bounds of one receiver.
#[derive(Debug)]
pub(super) struct Room {
    folder: PathBuf,
    /// Of each file: what the user says.
    max_size: Option<u64>,
    promises: Mutex<Vec<Weak<AtomicU64>>>,
}

/// What a file takes of the disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    /// While it is made, at most.
    pub(super) most: u64,
    /// Of that, what is there already.
    pub(super) there: u64,
}

/// Room for one file, kept until this is dropped.
#[derive(Debug)]
pub(super) struct Promise {
    most: u64,
    missing: Arc<AtomicU64>,
}

/// Why there is no room for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// It is larger than files may be.
    TooLarge {
        /// So large may they be.
        limit: u64,
        /// Whether that is for strangers only.
        for_strangers: bool,
    },
    /// The disk would be full.
    DiskFull,
    /// It is a folder, and goes nowhere where one could be made.
    IsFolder,
}

/// A disk's bytes.
#[derive(Debug, Clone, Copy)]
struct Space {
    free: u64,
    all: u64,
}

impl Room {
    pub(super) fn new(folder: &Path, max_size: Option<u64>) -> Self {
        Self { folder: folder.to_owned(), max_size, promises: Mutex::default() }
    }

    /// Keeps room for a file of `length` bytes, from somebody whom a rule names or from a stranger.
    pub(super) fn promise(
        &self,
        length: u64,
        takes: Use,
        is_strangers: bool,
    ) -> Result<Promise, NoRoom> {
        self.promise_within(space_of(&self.folder), length, takes, is_strangers)
    }

    /// Whether a file may have so many bytes.
    pub(super) fn allows(&self, length: u64, is_strangers: bool) -> Result<(), NoRoom> {
        let default = is_strangers.then_some(STRANGERS_MAX_SIZE);
        match self.max_size.or(default) {
            Some(limit) if length > limit => {
                let for_strangers = self.max_size.is_none();
                Err(NoRoom::TooLarge { limit, for_strangers })
            }
            _ => Ok(()),
        }
    }

    fn promise_within(
        &self,
        space: Option<Space>,
        length: u64,
        takes: Use,
        is_strangers: bool,
    ) -> Result<Promise, NoRoom> {
        self.allows(length, is_strangers)?;
        let mut promises = self.promises.lock().unwrap_or_else(PoisonError::into_inner);
        promises.retain(|promise| promise.strong_count() > 0);
        let promised: u64 = promises
            .iter()
            .filter_map(Weak::upgrade)
            .map(|missing| missing.load(Ordering::Relaxed))
            .sum();
        if let Some(Space { free, all }) = space {
            let kept_free = (all / KEPT_FREE_PART).min(KEPT_FREE_MOST);
            let missing = takes.most.saturating_sub(takes.there);
            if missing.saturating_add(promised).saturating_add(kept_free) > free {
                return Err(NoRoom::DiskFull);
            }
        }
        let missing = Arc::new(AtomicU64::new(takes.most.saturating_sub(takes.there)));
        promises.push(Arc::downgrade(&missing));
        Ok(Promise { most: takes.most, missing })
    }
}

impl Promise {
    /// What a transfer's progress tells: `bytes` are on the disk by now.
    pub(super) fn arrived(&self, bytes: u64) {
        self.missing.store(self.most.saturating_sub(bytes), Ordering::Relaxed);
    }
}

#[cfg(target_os = "linux")]
fn space_of(folder: &Path) -> Option<Space> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Some(Space { free: bytes(disk.f_bavail), all: bytes(disk.f_blocks) })
}

/// Elsewhere the disk says so itself when it is full.
#[cfg(not(target_os = "linux"))]
fn space_of(_: &Path) -> Option<Space> {
    None
}

/// Of each file from whom no rule names, unless `--max-size` says otherwise. More than a film clip,
/// a book or a log takes, and too little to fill a disk before its owner sees the lines about it.
pub(super) const STRANGERS_MAX_SIZE: u64 = 1_000_000_000;
/// A twentieth of the disk stays free ..
const KEPT_FREE_PART: u64 = 20;
/// .. or this, where that is less: enough for others on this
/// machine to go on, and for its owner to clear up.
const KEPT_FREE_MOST: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(most: u64, there: u64) -> Use {
        Use { most, there }
    }

    const DISK: Option<Space> = Some(Space { free: 6_000, all: 20_000 });

    #[test]
    fn strangers_have_a_bound_and_whoever_is_named_has_the_disk() {
        let room = Room::new(Path::new("."), None);
        let limit = STRANGERS_MAX_SIZE;
        assert!(room.promise_within(None, limit, of(limit, 0), true).is_ok());
        let too_large = NoRoom::TooLarge { limit, for_strangers: true };
        assert_eq!(
            room.promise_within(None, limit + 1, of(limit + 1, 0), true).unwrap_err(),
            too_large
        );
        assert!(room.promise_within(None, u64::MAX, of(u64::MAX, 0), false).is_ok());
        let room = Room::new(Path::new("."), Some(10));
        let too_large = NoRoom::TooLarge { limit: 10, for_strangers: false };
        for is_strangers in [false, true] {
            assert!(room.promise_within(None, 10, of(10, 0), is_strangers).is_ok());
            assert_eq!(
                room.promise_within(None, 11, of(11, 0), is_strangers).unwrap_err(),
                too_large
            );
        }
    }

    #[test]
    fn files_that_arrive_at_once_do_not_fill_the_disk_together() {
        let room = Room::new(Path::new("."), None);
        assert_eq!(
            room.promise_within(DISK, 5_001, of(5_001, 0), false).unwrap_err(),
            NoRoom::DiskFull
        );
        let first = room.promise_within(DISK, 3_000, of(3_000, 0), false).unwrap();
        assert_eq!(
            room.promise_within(DISK, 2_001, of(2_001, 0), false).unwrap_err(),
            NoRoom::DiskFull
        );
        drop(room.promise_within(DISK, 2_000, of(2_000, 0), false).unwrap());
        // What has arrived is on the disk, which has less
        // free space for it, and is not counted twice.
        first.arrived(2_500);
        let later = Some(Space { free: 3_500, all: 20_000 });
        assert!(room.promise_within(later, 2_000, of(2_000, 0), false).is_ok());
        assert_eq!(
            room.promise_within(later, 2_001, of(2_001, 0), false).unwrap_err(),
            NoRoom::DiskFull
        );
        drop(first);
        assert!(room.promise_within(later, 2_500, of(2_500, 0), false).is_ok());
        // What is there from before needs no room again.
        assert!(room.promise_within(later, 9_000, of(9_000, 6_500), false).is_ok());
        assert_eq!(
            room.promise_within(later, 9_000, of(9_000, 6_499), false).unwrap_err(),
            NoRoom::DiskFull
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_disk_tells_its_space() {
        let space = space_of(Path::new(".")).unwrap();
        assert!(0 < space.free && space.free <= space.all, "{space:?}");
    }
}

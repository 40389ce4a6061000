//! The routes that a router keeps in a file, and who was removed from domains, so that it knows
//! them again after a restart, also when no RIB is there.
//!
//! The file is written beside its place and then moved there, so that it is whole whenever the
//! router is killed. It names who talks with whom, so it is for its owner only. What is read is
//! believed no more than a RIB's answer: the switch verifies it again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_switch::{SavedRoutes, Switch};
use rhumb_trust::Now;

/// The file, and the thread that writes it.
pub(super) struct StateFile {
    path: PathBuf,
    saved_revision: (u64, u64),
    next_save: Instant,
    to_save: SyncSender<SavedRoutes>,
    saver: JoinHandle<()>,
}

impl StateFile {
    /// Hands `switch` what was saved at `path`, and saves there from now
    /// on. A file that is damaged costs a warning.
    pub(super) fn open(path: &Path, switch: &mut Switch, now: Now) -> Outcome<Self> {
        let refused = |error: &dyn std::fmt::Display| {
            let path = path.display();
            Failure::setup_text(format!("state file {path}: {error}; name another with --state"))
        };
        check_writable(path).map_err(|error| refused(&error))?;
        match fs::read(path) {
            Ok(bytes) => match SavedRoutes::parse(&bytes) {
                Ok(saved) => {
                    tracing::info!(routes = saved.len(), "routes read, to be verified");
                    switch.import_routes(saved, now);
                }
                Err(error) => {
                    tracing::warn!("state file {}: {error}; starting without it", path.display());
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused(&error)),
        }
        let (to_save, saves) = sync_channel::<SavedRoutes>(1);
        let place = path.to_owned();
        let save = move || {
            for routes in saves {
                if let Err(error) = write(&place, &routes.encode()) {
                    tracing::warn!("state file {}: {error}", place.display());
                }
            }
        };
        let thread = std::thread::Builder::new().name("saver".to_owned());
        Ok(Self {
            path: path.to_owned(),
            saved_revision: revision(switch),
            next_save: now.instant + SAVE_INTERVAL,
            to_save,
            saver: thread.spawn(save).map_err(Failure::operation)?,
        })
    }

    /// Saves, if it is time and there is anything new.
    pub(super) fn save_if_due(&mut self, switch: &mut Switch, now: Now) {
        let revision = revision(switch);
        // Nobody who was removed gets in again because the router is killed soon after.
        let is_urgent = revision.1 != self.saved_revision.1;
        if now.instant < self.next_save && !is_urgent {
            return;
        }
        self.next_save = now.instant + SAVE_INTERVAL;
        // A disk that is slower than the interval gets the next.
        if revision != self.saved_revision
            && self.to_save.try_send(switch.export_routes(now)).is_ok()
        {
            self.saved_revision = revision;
        }
    }

    /// Saves for the last time.
    pub(super) fn finish(self, switch: &mut Switch, now: Now) -> Outcome {
        drop(self.to_save);
        // It has nothing left to do but what it began.
        let _ = self.saver.join();
        if revision(switch) == self.saved_revision {
            return Ok(());
        }
        write(&self.path, &switch.export_routes(now).encode()).map_err(|error| {
            Failure::operation_text(format!("state file {}: {error}", self.path.display()))
        })
    }
}

/// Of routes, and of removals.
fn revision(switch: &Switch) -> (u64, u64) {
    (switch.routes_revision(), switch.removals_revision())
}

/// Replaces the file as a whole.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(path);
    let mut file = create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

fn check_writable(path: &Path) -> io::Result<()> {
    let beside = beside(path);
    drop(create(&beside)?);
    fs::remove_file(&beside)
}

/// A new file for its owner only; one that an earlier run left there makes room.
fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

/// What is lost when a router is killed is learnt again with the next PDU, if there is a RIB.
const SAVE_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_replaced_as_a_whole_and_is_its_owners_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("routes");
        fs::write(&path, b"from before").unwrap();
        fs::write(beside(&path), b"left by a run that was killed").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!beside(&path).exists());
        check_writable(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(check_writable(&folder.path().join("missing/routes")).is_err());
    }
}

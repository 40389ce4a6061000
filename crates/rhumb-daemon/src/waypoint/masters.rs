//! The files of a waypoint's master keys: read at the start, and again when a file changes or on
//! SIGHUP.
//!
//! Invariant: keys that are in use stay until others have been read and found in order, so a file
//! that is being written, or was damaged, costs a line in the log and no packet.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rhumb_waypoint::masters::{Change, MasterText, Masters};

use crate::failure::{Failure, Outcome};
use crate::secret_file::{self, Look};

/// Where the keys are, and what was found there.
pub struct MasterFiles {
    /// Files, and folders of files.
    places: Vec<PathBuf>,
    addresses: Vec<IpAddr>,
    /// What the files looked like when they were read.
    seen: Vec<(PathBuf, Look)>,
    masters: Masters,
}

impl MasterFiles {
    /// Reads the keys of a waypoint with these addresses.
    pub fn read(places: &[PathBuf], addresses: &[IpAddr]) -> Outcome<Self> {
        let mut files = Self {
            places: places.to_vec(),
            addresses: addresses.to_vec(),
            seen: Vec::new(),
            masters: Masters::default(),
        };
        let seen = files.look()?;
        files.masters = files.load(&seen)?;
        files.seen = seen;
        Ok(files)
    }

    /// All keys.
    pub fn all(&self) -> &[MasterText] {
        self.masters.all()
    }

    /// Reads the keys again if a file has changed, or if `asked` for it.
    pub fn read_again(&mut self, asked: bool) -> Outcome<Option<Change<'_>>> {
        let seen = self.look()?;
        if seen == self.seen && !asked {
            return Ok(None);
        }
        // Also when it cannot be read: then once, not each second.
        self.seen.clone_from(&seen);
        let masters = self.load(&seen)?;
        Ok(Some(self.masters.replace(masters)))
    }

    /// The files there are, and what tells whether they change.
    fn look(&self) -> Outcome<Vec<(PathBuf, Look)>> {
        let mut files = Vec::new();
        for place in &self.places {
            if !place.is_dir() {
                files.push(place.clone());
                continue;
            }
            let entries = fs::read_dir(place).map_err(|error| refused(place, &error))?;
            let all = entries.filter_map(|entry| Some(entry.ok()?.path()));
            let mut found: Vec<PathBuf> =
                all.filter(|path| path.extension().is_some_and(|it| it == EXTENSION)).collect();
            found.sort();
            files.extend(found);
        }
        let looks = files.into_iter().map(|path| {
            let look = secret_file::look(&path).map_err(|error| refused(&path, &error))?;
            Ok((path, look))
        });
        looks.collect()
    }

    fn load(&self, files: &[(PathBuf, Look)]) -> Outcome<Masters> {
        let mut masters = Masters::default();
        for (path, _) in files {
            let text = secret_file::read(path, "rhumb capability master ADDR")?;
            masters.add(text, &self.addresses).map_err(|fault| refused(path, &fault))?;
        }
        masters.check(&self.addresses).map_err(Failure::setup)?;
        Ok(masters)
    }
}

fn refused(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::setup_text(format!("{}: {why}", path.display()))
}

/// Of files in a folder, those that are meant.
const EXTENSION: &str = "master";

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_capability::{Epoch, Master};
    use rhumb_keyserver::principal::master_text;
    use std::os::unix::fs::PermissionsExt;

    fn write(path: &Path, waypoint: &str, epoch: u8, key: u8) {
        let text = master_text(waypoint.parse().unwrap(), Epoch(epoch), &Master::new([key; 16]));
        let _ = fs::remove_file(path);
        fs::write(path, text.as_bytes()).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn a_folder_is_followed_and_what_is_wrong_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = [folder.path().to_owned()];
        let addresses = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        let read = || MasterFiles::read(&place, &addresses).map_err(|error| error.to_string());
        assert!(read().err().unwrap().contains("rhumb capability master 192.0.2.1"));
        let [a, b, c] = ["a", "b", "c"].map(|name| folder.path().join(format!("{name}.master")));
        write(&a, "192.0.2.1", 1, 7);
        write(&b, "2001:db8::1", 1, 8);
        let mut masters = read().unwrap();
        assert_eq!(masters.all().len(), 2);
        assert!(masters.read_again(false).unwrap().is_none());
        write(&c, "192.0.2.1", 2, 8);
        let change = masters.read_again(false).unwrap().unwrap();
        assert_eq!((change.install.len(), change.retire.len()), (3, 0));
        fs::write(&b, "half a fi").unwrap();
        assert!(masters.read_again(false).is_err(), "damaged");
        assert!(masters.read_again(false).unwrap().is_none(), "said once");
        assert_eq!(masters.all().len(), 3);
        write(&b, "2001:db8::1", 1, 8);
        fs::remove_file(&a).unwrap();
        let change = masters.read_again(false).unwrap().unwrap();
        assert_eq!((change.install.len(), change.retire), (2, vec![(addresses[0], Epoch(1))]));
        assert!(masters.read_again(true).unwrap().is_some(), "asked for");
    }

    #[test]
    fn keys_that_cannot_be_used_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| folder.path().join(name));
        let read = |files: &[&PathBuf]| {
            let files: Vec<PathBuf> = files.iter().map(|it| (*it).clone()).collect();
            MasterFiles::read(&files, &["192.0.2.1".parse().unwrap()]).err().unwrap().to_string()
        };
        write(&a, "192.0.2.1", 1, 7);
        write(&b, "192.0.2.1", 1, 8);
        assert!(read(&[&a, &b]).contains("another file is the master of 192.0.2.1, epoch 1"));
        write(&b, "192.0.2.9", 1, 7);
        assert!(read(&[&b]).contains("it is the master of 192.0.2.9"));
        write(&b, "192.0.2.1", 2, 7);
        write(&c, "192.0.2.1", 3, 7);
        assert!(read(&[&a, &b, &c]).contains("for 3 epochs"));
        fs::set_permissions(&a, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(&[&a]).contains("chmod 600"));
        assert!(read(&[&folder.path().join("none")]).contains("No such file"));
    }
}

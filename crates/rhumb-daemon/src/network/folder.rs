//! Where the files of a network lie: a folder of its label in `networks`, beside the book of names.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rhumb_node::joined::networks_in;
use rhumb_wire::PublishedLabel;

use crate::failure::{Failure, Outcome};
use crate::names::book;
use crate::secret_file;

/// The folder of a network, which its user alone can enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    label: PublishedLabel,
}

impl Folder {
    /// That of the network called `label`, whether it is there or not.
    ///
    /// # Errors
    /// When this user has no place for it.
    pub fn of(label: &PublishedLabel) -> Outcome<Self> {
        Ok(Self { path: networks()?.join(label.as_str()), label: label.clone() })
    }

    /// As [`Folder::of`], where it is being made: nobody finds it there.
    pub(super) fn hidden(label: &PublishedLabel) -> Outcome<Self> {
        let path = networks()?.join(format!(".making-{label}-{}", std::process::id()));
        Ok(Self { path, label: label.clone() })
    }

    /// All that there are, by their labels.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn all() -> Outcome<Vec<Self>> {
        let Ok(networks) = networks() else { return Ok(Vec::new()) };
        let entries = match fs::read_dir(&networks) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| cannot(&networks, &error))?,
        };
        let labels = entries.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
        let mut labels: Vec<PublishedLabel> = labels.collect();
        labels.sort_unstable();
        labels.iter().map(Self::of).collect()
    }

    /// What the network is called here.
    pub fn label(&self) -> &PublishedLabel {
        &self.label
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file of it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes it, if it is not there.
    pub(super) fn make(&self) -> Outcome {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.map_err(|error| cannot(&self.path, &error))
    }

    /// Puts it where it is found, as a whole; refuses if there is something.
    pub(super) fn reveal(self) -> Outcome<Self> {
        let found = Self::of(&self.label)?;
        fs::rename(&self.path, &found.path).map_err(|error| match found.path.exists() {
            true => found.is_there(),
            false => cannot(&found.path, &error),
        })?;
        Ok(found)
    }

    /// Takes it away with all that is in it: what was begun and not finished, or is not wanted.
    pub(super) fn discard(&self) {
        let _ = fs::remove_dir_all(&self.path);
    }

    /// Why no other network can have this label.
    pub fn is_there(&self) -> Failure {
        Failure::setup_text(format!(
            "a network is called {} here already, in {}; choose another label",
            self.label,
            self.path.display()
        ))
    }
}

/// Where the key of a host waits that has asked to join and has had no answer, so that it asks as
/// the same name again.
pub(super) fn waiting(id: &str) -> Outcome<PathBuf> {
    let folder = networks()?.join(".joining");
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| cannot(&folder, &error))?;
    Ok(folder.join(id))
}

fn networks() -> Outcome<PathBuf> {
    let folder = book::folder()
        .ok_or_else(|| Failure::setup_text("no place for networks: set HOME or XDG_DATA_HOME"))?;
    Ok(networks_in(&folder))
}

/// Writes a file of a network in the place of the one before.
pub(super) fn replace(path: &Path, text: &str) -> Outcome {
    secret_file::replace(path, text.as_bytes())
        .map_err(|error| Failure::operation_text(format!("file {}: {error}", path.display())))
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::setup_text(format!("folder {}: {error}", path.display()))
}

/// The key of a router, be it the network's first one or one that joined.
pub(super) const ROUTER_KEY: &str = "router.key";

//! The book of names: a file in the user's data folder, `$XDG_DATA_HOME/rhumb/names.toml` or
//! `~/.local/share/rhumb/names.toml`.
//!
//! Invariant: readable and writable by its owner only, or refused; replaced as a whole under a
//! lock, so that two commands at once lose nothing. What `rhumb keygen` put there counts while its
//! key file is there and holds that name: whoever makes keys anew is not asked about those that are
//! gone. `version` is for what else will be known of names; what is not understood is refused.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rhumb_wire::Name;
use serde::{Deserialize, Serialize};

use super::Label;
use crate::failure::{Failure, Outcome};
use crate::secret_file;

/// The book, as read.
#[derive(Debug, Clone, Default)]
pub struct Book {
    entries: Vec<Entry>,
}

/// One label, and what it stands for. Several may have the same label: then it is ambiguous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What the name is called here.
    pub label: Label,
    /// The name in full.
    pub name: Name,
    /// Who wrote it, which decides when it no longer counts.
    pub origin: Origin,
}

/// How an entry came into the book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// By `rhumb name add`.
    Added,
    /// By `rhumb keygen`, which wrote this key file.
    Key(PathBuf),
}

impl Book {
    /// The user's; empty if there is none.
    pub fn read() -> Outcome<Self> {
        match place() {
            Some(path) => Self::read_from(&path),
            None => Ok(Self::default()),
        }
    }

    /// Changes the user's book, while nobody else does.
    pub fn change<T>(change: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let path = place().ok_or_else(|| {
            Failure::setup_text("no place for the book of names: set HOME or XDG_DATA_HOME")
        })?;
        let failed = |error| Failure::setup_text(format!("file {}: {error}", path.display()));
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        let mut lock = OpenOptions::new();
        lock.write(true).create(true).truncate(false).mode(0o600);
        let lock = lock.open(path.with_extension("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut book = Self::read_from(&path)?;
        let changed = change(&mut book)?;
        if book.entries.len() > MOST_ENTRIES {
            return Err(Failure::setup_text(format!(
                "file {} holds {MOST_ENTRIES} labels, and no more; take some off: rhumb name remove LABEL",
                path.display()
            )));
        }
        secret_file::replace(&path, book.emit().as_bytes()).map_err(failed)?;
        Ok(changed)
    }

    /// All that count now.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.counts())
    }

    /// What `name` is called: the first of its labels.
    pub(crate) fn label_of(&self, name: Name) -> Option<&Label> {
        self.entries().find(|entry| entry.name == name).map(|entry| &entry.label)
    }

    /// Adds an entry, and drops those that count no more. A key file holds one name: what was said
    /// of that file before is past.
    pub fn add(&mut self, label: Label, name: Name, origin: Origin) {
        let is_same_file = |other: &Origin| matches!(origin, Origin::Key(_)) && *other == origin;
        self.entries.retain(|entry| {
            let is_said_again = entry.label == label && entry.name == name;
            entry.counts() && !is_said_again && !is_same_file(&entry.origin)
        });
        self.entries.push(Entry { label, name, origin });
    }

    /// Takes off what is called `label`, or of that only `name`. Returns how many.
    pub fn remove(&mut self, label: &Label, name: Option<Name>) -> usize {
        let before = self.entries.len();
        let is_meant = |it: &Entry| it.label == *label && name.is_none_or(|name| name == it.name);
        self.entries.retain(|entry| !is_meant(entry));
        before - self.entries.len()
    }

    fn read_from(path: &Path) -> Outcome<Self> {
        match path.try_exists() {
            Ok(false) => return Ok(Self::default()),
            Ok(true) => {}
            Err(error) => {
                return Err(Failure::setup_text(format!("file {}: {error}", path.display())));
            }
        }
        let text = secret_file::read(path, "rhumb name add LABEL NAME")?;
        Self::parse(&text).map_err(|problem| {
            Failure::setup_text(format!("file {}, the book of names: {problem}", path.display()))
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let raw: RawVersion = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if raw.version != VERSION {
            return Err(format!("it has version {}, and this rhumb reads {VERSION}", raw.version));
        }
        let raw: RawBook = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let entries = raw.names.into_iter().map(|raw| {
            Ok(Entry {
                label: raw.label.parse()?,
                name: crate::remote::parse_name(&raw.name)?,
                origin: raw.key.map_or(Origin::Added, Origin::Key),
            })
        });
        Ok(Self { entries: entries.collect::<Result<_, String>>()? })
    }

    fn emit(&self) -> String {
        let names = self.entries.iter().map(|entry| RawEntry {
            label: entry.label.to_string(),
            name: entry.name.to_string(),
            key: match &entry.origin {
                Origin::Added => None,
                Origin::Key(path) => Some(path.clone()),
            },
        });
        let raw = RawBook { version: VERSION, names: names.collect() };
        let text = toml::to_string(&raw)
            .expect("invariant: labels and names are text, and paths of keys were checked to be");
        format!("# What names are called on this machine: rhumb name.\n{text}")
    }
}

impl Entry {
    fn counts(&self) -> bool {
        match &self.origin {
            Origin::Added => true,
            Origin::Key(path) => is_name_of_key(path, self.name),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label, name, origin } = self;
        match origin {
            Origin::Added => write!(f, "{name} ({label}, added)"),
            Origin::Key(path) => write!(f, "{name} ({label}, key {})", path.display()),
        }
    }
}

/// Whether the key file says that it is of `name`. Its key is not read.
fn is_name_of_key(path: &Path, name: Name) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let mut head = Vec::new();
    if file.take(KEY_HEAD_LEN).read_to_end(&mut head).is_err() {
        return false;
    }
    let line = format!("name {name}");
    head.split(|byte| *byte == b'\n').nth(1) == Some(line.as_bytes())
}

/// Where the user's book is.
/// Where the user's book is, and what else this user has on this machine.
pub fn folder() -> Option<PathBuf> {
    let folder = |variable: &str| {
        std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
    };
    let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")))?;
    Some(data.join("rhumb"))
}

fn place() -> Option<PathBuf> {
    Some(folder()?.join("names.toml"))
}

/// What is looked at first: a later version may have other keys.
#[derive(Deserialize)]
struct RawVersion {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBook {
    version: u32,
    #[serde(default, rename = "name")]
    names: Vec<RawEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    label: String,
    name: String,
    key: Option<PathBuf>,
}

const VERSION: u32 = 1;
/// More than anybody makes by hand; all are looked through for each label.
const MOST_ENTRIES: usize = 10_000;
/// The first two lines of a key file, and some more.
const KEY_HEAD_LEN: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_book_reads_as_it_was_written() {
        let mut book = Book::default();
        book.add("bob".parse().unwrap(), Name([1; 32]), Origin::Added);
        book.add("bob".parse().unwrap(), Name([2; 32]), Origin::Added);
        let key = PathBuf::from("/a \"b\"/c.key");
        let (label, name) = ("c".parse().unwrap(), Name([3; 32]));
        book.entries.push(Entry { label, name, origin: Origin::Key(key) });
        assert_eq!(Book::parse(&book.emit()).unwrap().entries, book.entries);
        assert!(Book::parse("version = 1").unwrap().entries.is_empty());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let name = Name([1; 32]);
        for (text, expected) in [
            ("version = 2\npetname = 1", "version 2"),
            ("", "version"),
            ("version = 1\nresolver = 1", "resolver"),
            ("version = 1\n[[name]]\nlabel = \"a b\"\nname = \"x\"", "cannot be a label"),
            ("version = 1\n[[name]]\nlabel = \"a\"\nname = \"x\"", "is not a name"),
            (&format!("version = 1\n[[name]]\nlabel = \"a\"\nname = \"{name}\"\nx = 1"), "`x`"),
        ] {
            let problem = Book::parse(text).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn an_entry_lasts_as_long_as_its_key_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bob.key");
        let key = |name| {
            Origin::Key({
                fs::write(&file, format!("rhumb-key 1\nname {name}\nmetadata 00\n")).unwrap();
                file.clone()
            })
        };
        let (first, second) = (Name([1; 32]), Name([2; 32]));
        let mut book = Book::default();
        book.add("bob".parse().unwrap(), first, key(first));
        book.add("bob".parse().unwrap(), second, key(second));
        assert_eq!(book.entries().map(|entry| entry.name).collect::<Vec<_>>(), [second]);
        assert_eq!(book.label_of(second).unwrap().as_str(), "bob");
        fs::remove_file(&file).unwrap();
        assert_eq!(book.entries().count(), 0);
        book.add("bob".parse().unwrap(), first, Origin::Added);
        assert_eq!(book.entries.len(), 1, "what is gone does not stay in the file");
        assert_eq!(book.remove(&"bob".parse().unwrap(), Some(second)), 0);
        assert_eq!(book.remove(&"bob".parse().unwrap(), None), 1);
    }
}

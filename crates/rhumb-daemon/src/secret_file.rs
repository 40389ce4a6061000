//! Text files that hold secrets, and what else is nobody's business: readable by their owner only.
//! Secrets are never overwritten.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use zeroize::Zeroizing;

use crate::failure::{Failure, Outcome};

/// The text of `path`, which nobody but its owner may read. `maker` says how such a file is made.
pub fn read(path: &Path, maker: &str) -> Outcome<Zeroizing<String>> {
    let shown = path.display();
    let mut file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::setup_text(format!("no file {shown}; make one: {maker}"))
        }
        _ => Failure::setup_text(format!("file {shown}: {error}")),
    })?;
    let refused = |error: io::Error| Failure::setup_text(format!("file {shown}: {error}"));
    // The open file is asked, not the path: nobody can exchange it in between.
    let mode = file.metadata().map_err(refused)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(Failure::setup_text(format!(
            "file {shown} holds a secret and has mode {mode:03o}; do: chmod 600 {shown}"
        )));
    }
    let mut text = Zeroizing::new(String::new());
    let read = (&mut file).take(MAX_LEN).read_to_string(&mut text).map_err(refused)?;
    if read as u64 == MAX_LEN {
        return Err(Failure::setup_text(format!("file {shown} is longer than any of its kind")));
    }
    Ok(text)
}

/// What tells whether a file has changed.
pub fn look(path: &Path) -> io::Result<Look> {
    let it = fs::metadata(path)?;
    Ok([it.mtime(), it.mtime_nsec(), it.size() as i64, it.ino() as i64])
}

/// Of a file: when it was written, its length and its number.
pub type Look = [i64; 4];

/// Writes a new file, durably.
pub fn create(path: &Path, text: &str) -> Outcome {
    let shown = path.display();
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::setup_text(format!(
            "file {shown} exists and is never overwritten; give another with --out"
        )),
        _ => Failure::setup_text(format!("file {shown}: {error}")),
    })?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| Failure::operation_text(format!("file {shown}: {error}")))
}

/// Replaces a file as a whole, durably: after a crash there is the one
/// before, or this. Readable by its owner only.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    match fs::remove_file(beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(beside, path)?;
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// A book of principals may be long; 16 MB are 200,000 of them.
const MAX_LEN: u64 = 16 << 20;

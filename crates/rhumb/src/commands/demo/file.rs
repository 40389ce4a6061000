//! The file that the demo moves: the one given, or a part of this very program.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::bytes_text;
use rhumb_node::transfer::sha256_of;

/// A file to move, and its SHA-256 as read before anything is sent.
pub(super) struct DemoFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl DemoFile {
    /// The file at `given`; without one, so many bytes of this program, put into `folder`.
    pub(super) fn choose(given: Option<&Path>, folder: &Path, excerpt: u64) -> Outcome<Self> {
        let path = match given {
            Some(path) => path.to_owned(),
            None => excerpt_of_this_program(folder, excerpt).map_err(Failure::operation)?,
        };
        let refuse = |problem: &dyn std::fmt::Display| {
            Failure::setup_text(format!("cannot move {}: {problem}", path.display()))
        };
        let metadata = std::fs::metadata(&path).map_err(|error| refuse(&error))?;
        if !metadata.is_file() {
            return Err(refuse(&"it is no regular file"));
        }
        let bytes = metadata.len();
        if bytes > MAX_BYTES {
            let most = bytes_text(MAX_BYTES);
            return Err(refuse(&format_args!("a demo moves {most} at most; give a smaller file")));
        }
        let sha256 = sha256_text(&path).map_err(|error| refuse(&error))?;
        Ok(Self { path, bytes, sha256 })
    }

    /// A file in `folder` of so many bytes: this program, over and over.
    pub(super) fn long(folder: &Path, bytes: u64) -> Outcome<Self> {
        let path = folder.join(LONG_NAME);
        let write = || -> std::io::Result<()> {
            let program = std::env::current_exe()?;
            let mut long = File::create_new(&path)?;
            let mut left = bytes;
            while left > 0 {
                left -= std::io::copy(&mut File::open(&program)?.take(left), &mut long)?;
            }
            long.flush()
        };
        write().map_err(Failure::operation)?;
        let sha256 = sha256_text(&path).map_err(Failure::operation)?;
        Ok(Self { path, bytes, sha256 })
    }
}

/// The SHA-256 of a file, in hex.
pub(super) fn sha256_text(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok(HEXLOWER.encode(&sha256_of(&mut file, length)?))
}

fn excerpt_of_this_program(folder: &Path, bytes: u64) -> std::io::Result<PathBuf> {
    let path = folder.join(EXCERPT_NAME);
    let mut program = File::open(std::env::current_exe()?)?.take(bytes);
    let mut excerpt = File::create_new(&path)?;
    std::io::copy(&mut program, &mut excerpt)?;
    excerpt.flush()?;
    Ok(path)
}

const LONG_NAME: &str = "rhumb-programs";
const EXCERPT_NAME: &str = "rhumb-program";
/// What a slow machine moves within the demo's time.
const MAX_BYTES: u64 = 512_000_000;

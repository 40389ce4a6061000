//! The file in which a waypoint keeps what was revoked, for a
//! restart during which its key server is away.
//!
//! It is written whenever something was revoked, before the server is told that
//! this is in force here, and read at the start.
//! - **Lost**, it is as at the first start: without the key server nothing is known, and the
//!   waypoint says so and goes on.
//! - **Damaged**, somebody was revoked perhaps: with the key server it is written anew, and without
//!   it the waypoint does not start.
//!
//! Invariant: the file is replaced as a whole
//! (`secret_file::replace`), so a crash leaves the one before.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rhumb_keyserver::feed::RevocationFeed;
use rhumb_keyserver::kept::MAX_KEPT_LEN;

use crate::failure::{Failure, Outcome};
use crate::secret_file;

/// The file.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    found: Found,
}

/// What was in it at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing, or nothing was asked for.
    Nothing,
    /// All that was revoked up to a serial.
    Book {
        /// Which.
        serial: u32,
    },
    /// What cannot be used, and why.
    Damaged(String),
}

impl Kept {
    /// Reads the file into `feed`, and sees that it can be written.
    pub(crate) fn open(path: &Path, feed: &mut RevocationFeed, now_s: u64) -> Outcome<Self> {
        let refused = |error: &dyn std::fmt::Display| {
            Failure::setup_text(format!("revocations {}: {error}", path.display()))
        };
        let mut kept = Self { path: path.to_owned(), found: Found::Nothing };
        let text = match read(path) {
            Ok(text) => text,
            Err(error) => return Err(refused(&error)),
        };
        match text.map(|text| text.and_then(|text| resume(feed, &text, now_s))) {
            None => {}
            Some(Ok(())) if feed.serial() == 0 => {}
            Some(Ok(())) => kept.found = Found::Book { serial: feed.serial() },
            Some(Err(why)) => kept.found = Found::Damaged(format!("{} {why}", path.display())),
        }
        if !matches!(kept.found, Found::Damaged(_)) {
            // What cannot be kept had better be known now.
            kept.save(feed).map_err(|error| refused(&error))?;
        }
        Ok(kept)
    }

    /// What was there at the start.
    pub(crate) fn found(&self) -> &Found {
        &self.found
    }

    /// Writes what the feed knows, durably.
    pub(crate) fn save(&self, feed: &RevocationFeed) -> io::Result<()> {
        let text = feed.keep().ok_or_else(|| io::Error::other("more than can be kept"))?;
        secret_file::replace(&self.path, text.as_bytes())
    }
}

impl Found {
    /// What it means that the key server does not answer
    /// at the start: this is said, or is an error.
    pub fn without_server(&self) -> Outcome {
        match self {
            Self::Nothing => {
                tracing::warn!("the key server does not answer; going on without revocations");
            }
            Self::Book { serial } => tracing::warn!(
                serial,
                "the key server does not answer; going on with the revocations that were kept"
            ),
            Self::Damaged(why) => {
                return Err(Failure::setup_text(format!(
                    "{why}, and the key server does not answer: who was revoked is not known; wait for the server, \
                     or remove the file to go on without"
                )));
            }
        }
        Ok(())
    }
}

fn resume(feed: &mut RevocationFeed, text: &str, now_s: u64) -> Result<(), String> {
    feed.resume(text, now_s).map_err(|error| error.to_string())
}

/// The text, or why it is none; `None` when there is no file.
fn read(path: &Path) -> io::Result<Option<Result<String, String>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MAX_KEPT_LEN as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_KEPT_LEN {
        return Ok(Some(Err(format!("has more than {MAX_KEPT_LEN} bytes"))));
    }
    Ok(Some(String::from_utf8(bytes).map_err(|_| "is no text".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed() -> RevocationFeed {
        let key = rhumb_keyserver::tsig::TsigKey::new("w1.example", &[7; 32]).unwrap();
        RevocationFeed::new("_k.example", key).unwrap()
    }

    #[test]
    fn what_cannot_be_used_is_left_as_it_is_until_the_server_has_answered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("revocations");
        let open = || Kept::open(&path, &mut feed(), 0).unwrap().found().clone();
        // The first start writes an empty one, so that it is known that this can be done.
        assert_eq!(open(), Found::Nothing);
        assert!(path.exists());
        assert_eq!(open(), Found::Nothing);
        assert!(Found::Nothing.without_server().is_ok());
        for damage in [&b"\xFF\xFE"[..], b"", b"rhumb kept-revocations 1\nzone _k.example\n7 9 re"]
        {
            std::fs::write(&path, damage).unwrap();
            let found = open();
            assert!(matches!(found, Found::Damaged(_)), "{found:?}");
            let why = found.without_server().unwrap_err().to_string();
            assert!(why.contains("revocations") && why.contains("remove the file"), "{why}");
            assert_eq!(std::fs::read(&path).unwrap(), damage);
        }
        std::fs::write(&path, vec![b'x'; MAX_KEPT_LEN + 1]).unwrap();
        assert!(matches!(open(), Found::Damaged(why) if why.contains("bytes")));
        let nowhere = folder.path().join("none").join("revocations");
        assert!(Kept::open(&nowhere, &mut feed(), 0).is_err());
    }
}

//! Why a key could not be made, read or written. Refused certificates
//! have their own errors beside their verifiers.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// What went wrong with a key.
#[derive(Debug)]
#[non_exhaustive]
pub enum TrustError {
    /// The cryptographic library refused to make or to use a key.
    Crypto,
    /// The key bytes are not those of a P-256 private key that matches the metadata.
    BadKey,
    /// The key file cannot be read or written.
    KeyFile {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others than the owner can read the key file.
    KeyFileTooOpen {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is no key file, or it is damaged.
    KeyFileMalformed {
        /// Which file.
        path: PathBuf,
        /// The first line that is wrong, counted from 1; 0 when lines are missing.
        line: usize,
    },
    /// The key in the file is none, or it belongs to another name.
    KeyFileBadKey {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<TrustError>,
    },
    /// The key file is sealed and no passphrase was given.
    PassphraseNeeded {
        /// Which file.
        path: PathBuf,
    },
    /// The passphrase does not open the key file.
    WrongPassphrase {
        /// Which file.
        path: PathBuf,
    },
}

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crypto => f.write_str("the cryptographic library failed"),
            Self::BadKey => {
                f.write_str("the private key does not belong to the metadata beside it")
            }
            Self::KeyFile { path, source } => write!(f, "key file {}: {source}", path.display()),
            Self::KeyFileTooOpen { path, mode } => write!(
                f,
                "key file {} can be read by others (mode {mode:03o}); run: chmod 600 {}",
                path.display(),
                path.display()
            ),
            Self::KeyFileMalformed { path, line: 0 } => {
                write!(f, "key file {} is cut short; restore it from a backup", path.display())
            }
            Self::KeyFileMalformed { path, line } => {
                write!(
                    f,
                    "key file {} is damaged in line {line}; restore it from a backup",
                    path.display()
                )
            }
            Self::KeyFileBadKey { path, source } => {
                write!(f, "key file {}: {source}; restore it from a backup", path.display())
            }
            Self::PassphraseNeeded { path } => {
                write!(f, "key file {} is sealed; give its passphrase", path.display())
            }
            Self::WrongPassphrase { path } => {
                write!(f, "the passphrase does not open key file {}", path.display())
            }
        }
    }
}

impl std::error::Error for TrustError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::KeyFile { source, .. } => Some(source),
            Self::KeyFileBadKey { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

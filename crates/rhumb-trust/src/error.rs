//! Why a key could not be made, read or written. Refused certificates
//! have their own errors beside their verifiers.

use std::io;
use std::path::PathBuf;

/// What went wrong with a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The cryptographic library refused to make or to use a key.
    #[error("the cryptographic library failed")]
    Crypto,
    /// The key bytes are not those of a P-256 private key that matches the metadata.
    #[error("the private key does not belong to the metadata beside it")]
    BadKey,
    /// More labels than one list of names holds.
    #[error(
        "these are more than an owner can publish: {} labels, and {} bytes in all",
        rhumb_wire::PublishedNames::MAX_LABELS,
        rhumb_wire::PublishedNames::MAX_LEN
    )]
    TooManyNames,
    /// The key file cannot be read or written.
    #[error("key file {path}: {source}")]
    KeyFile {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others than the owner can read the key file.
    #[error("key file {path} can be read by others (mode {mode:03o}); run: chmod 600 {path}")]
    KeyFileTooOpen {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is no key file, or it is damaged.
    #[error("key file {path} is {}; restore it from a backup", damage(*.line))]
    KeyFileMalformed {
        /// Which file.
        path: PathBuf,
        /// The first line that is wrong, counted from 1; 0 when lines are missing.
        line: usize,
    },
    /// The key in the file is none, or it belongs to another name.
    #[error("key file {path}: {source}; restore it from a backup")]
    KeyFileBadKey {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<TrustError>,
    },
    /// The key file is sealed and no passphrase was given.
    #[error("key file {path} is sealed; give its passphrase")]
    PassphraseNeeded {
        /// Which file.
        path: PathBuf,
    },
    /// The passphrase does not open the key file.
    #[error("the passphrase does not open key file {path}")]
    WrongPassphrase {
        /// Which file.
        path: PathBuf,
    },
}

fn damage(line: usize) -> String {
    if line == 0 { "cut short".to_owned() } else { format!("damaged in line {line}") }
}

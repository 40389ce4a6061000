//! Why a RIB could not be opened or could not go on. What a publisher did
//! wrong is a `Refusal` on the wire, not an error.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rhumb_trust::TrustError;
use rhumb_wire::Name;

/// What went wrong with a RIB's store or key.
#[derive(Debug)]
#[non_exhaustive]
pub enum RibError {
    /// Another process has the store open.
    StoreInUse {
        /// Which file.
        path: PathBuf,
    },
    /// The file cannot be created, opened, or made durable.
    StoreFile {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not a store, or it is damaged beyond repair.
    NotAStore {
        /// Which file.
        path: PathBuf,
        /// What the database said.
        source: Box<redb::Error>,
    },
    /// The store was written by a version of this program that is not known here.
    UnknownFormat {
        /// The format's number.
        version: u64,
    },
    /// The database failed while reading or writing.
    Database(Box<redb::Error>),
    /// The entry of a name cannot be read back.
    DamagedEntry {
        /// Whose.
        name: Name,
    },
    /// A statement could not be signed.
    Signing(TrustError),
    /// The civil clock is further ahead than time has passed; nothing is swept until it is right.
    ClockJumped {
        /// By so much.
        ahead_s: u64,
    },
}

impl fmt::Display for RibError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StoreInUse { path } => write!(
                f,
                "store {} is in use by another process; stop that one or name another file",
                path.display()
            ),
            Self::StoreFile { path, source } => write!(f, "store {}: {source}", path.display()),
            Self::NotAStore { path, source } => {
                write!(f, "{} is not a store: {source}; name another file", path.display())
            }
            Self::UnknownFormat { version } => {
                write!(f, "the store has format {version}, which a newer version wrote; upgrade")
            }
            Self::Database(source) => write!(f, "the store failed: {source}"),
            Self::DamagedEntry { name } => write!(f, "the entry of {name} is damaged"),
            Self::Signing(source) => write!(f, "signing failed: {source}"),
            Self::ClockJumped { ahead_s } => write!(
                f,
                "the clock jumped {ahead_s} s ahead, and nothing is taken out of the store by such a clock; set it \
                 right, or restart if it is"
            ),
        }
    }
}

impl std::error::Error for RibError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::StoreFile { source, .. } => Some(source),
            Self::NotAStore { source, .. } | Self::Database(source) => Some(source),
            Self::Signing(source) => Some(source),
            _ => None,
        }
    }
}

impl From<TrustError> for RibError {
    fn from(source: TrustError) -> Self {
        Self::Signing(source)
    }
}

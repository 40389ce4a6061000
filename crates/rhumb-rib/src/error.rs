//! Why a RIB could not be opened or could not go on. What a publisher did
//! wrong is a `Refusal` on the wire, not an error.

use std::io;
use std::path::PathBuf;

use rhumb_trust::TrustError;
use rhumb_wire::Name;

/// What went wrong with a RIB's store or key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RibError {
    /// Another process has the store open.
    #[error("store {path} is in use by another process; stop that one or name another file")]
    StoreInUse {
        /// Which file.
        path: PathBuf,
    },
    /// The file cannot be created, opened, or made durable.
    #[error("store {path}: {source}")]
    StoreFile {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not a store, or it is damaged beyond repair.
    #[error("{path} is not a store: {source}; name another file")]
    NotAStore {
        /// Which file.
        path: PathBuf,
        /// What the database said.
        source: Box<redb::Error>,
    },
    /// The store was written by a version of this program that is not known here.
    #[error("the store has format {version}, which a newer version wrote; upgrade")]
    UnknownFormat {
        /// The format's number.
        version: u64,
    },
    /// The database failed while reading or writing.
    #[error("the store failed: {0}")]
    Database(#[source] Box<redb::Error>),
    /// The entry of a name cannot be read back.
    #[error("the entry of {name} is damaged")]
    DamagedEntry {
        /// Whose.
        name: Name,
    },
    /// The store is elsewhere, and is being asked. Whoever meets this comes again.
    #[error("the store has been asked and has not answered yet")]
    NotAtHand,
    /// More is asked of the store than it answers.
    #[error("the store has too much to do; give it more machines, or ask less of it")]
    Overloaded,
    /// A removal cannot be read back.
    #[error("a removal in the store is damaged; have its domain remove who it was about once more")]
    DamagedRemoval,
    /// A statement could not be signed.
    #[error("signing failed: {0}")]
    Signing(#[from] TrustError),
    /// The civil clock is further ahead than time has passed; nothing is swept until it is right.
    #[error(
        "the clock jumped {ahead_s} s ahead, and nothing is taken out of the store by such a clock; set it \
         right, or restart if it is"
    )]
    ClockJumped {
        /// By so much.
        ahead_s: u64,
    },
}

//! Why a RIB could not be opened or could not go on. What a publisher did
//! wrong is a `Refusal` on the wire, not an error.

use std::error::Error;
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
    /// A copy of a store could not be carried to its end, or is none.
    #[error("the back-up is not whole, and nothing is made of it: {source}")]
    BackUp {
        /// Why not.
        source: io::Error,
    },
    /// The entry of a name cannot be read back.
    #[error("the entry of {name} is damaged")]
    DamagedEntry {
        /// Whose.
        name: Name,
    },
    /// The store is elsewhere, and is being asked. Whoever meets this comes again.
    #[error("the store has been asked and has not answered yet")]
    NotAtHand,
    /// Names that begin alike are not beside each other in the store.
    #[error(
        "a store in a cluster has names in an order of its own and cannot be searched by their \
         beginning: give a whole name, or look through it page by page"
    )]
    NotInOrder,
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
    /// No node of a store of several machines answers.
    #[error("no node of the store at {nodes} can be reached; start them, or name others: {source}")]
    StoreUnreachable {
        /// Those that were named.
        nodes: String,
        /// What its driver said.
        source: Cause,
    },
    /// A node of a store of several machines is there, and does not prove who it is, or does not
    /// speak as it is spoken to.
    #[error("node {node} of the store {source}")]
    StoreNotTrusted {
        /// As it was named.
        node: String,
        /// What it does, and what to do about that.
        source: Cause,
    },
    /// Fewer nodes of the store answer than must agree.
    #[error("too few nodes of the store are up to agree; start those that are down: {source}")]
    StoreWithoutQuorum {
        /// What its driver said.
        source: Cause,
    },
    /// The store did not answer in time. What was to be written may be written yet.
    #[error(
        "the store did not answer in time; look for nodes that are stopped or overloaded: {source}"
    )]
    StoreTooSlow {
        /// What its driver said.
        source: Cause,
    },
    /// The store refuses who this is.
    #[error("the store refuses the user or the password; see the file that names them: {source}")]
    StoreRefusesUser {
        /// What its driver said.
        source: Cause,
    },
    /// Nodes of the store fail, or refuse what is asked of them.
    #[error(
        "the store failed; see the logs of its nodes, and whether their disks are full: {source}"
    )]
    StoreFailed {
        /// What its driver said.
        source: Cause,
    },
    /// What was written cannot be seen, since the store still remembers that there was something
    /// newer.
    #[error(
        "the store remembers a removal of {name} as new or newer that is over; its domain must sign a higher \
         sequence: milliseconds since 1970"
    )]
    Shadowed {
        /// Who was removed.
        name: Name,
    },
    /// The store has no tables.
    #[error(
        "keyspace {keyspace} of the store has no tables of a RIB, or not all; have them made once \
             (`--create-schema`)"
    )]
    SchemaMissing {
        /// Where they would be.
        keyspace: String,
    },
    /// The store's tables are those of an older version.
    #[error(
        "keyspace {keyspace} has tables of format {found}, and this version needs {wanted}; name \
             another keyspace and have tables made there (`--create-schema`), or run the older version"
    )]
    SchemaOlder {
        /// Where they are.
        keyspace: String,
        /// Their format.
        found: i32,
        /// The one of this version.
        wanted: i32,
    },
    /// The store's tables are those of a newer version.
    #[error(
        "keyspace {keyspace} has tables of format {found}, which a newer version made, and this \
             version knows {wanted}; upgrade"
    )]
    SchemaNewer {
        /// Where they are.
        keyspace: String,
        /// Their format.
        found: i32,
        /// The one of this version.
        wanted: i32,
    },
    /// The clocks of the store's nodes differ.
    #[error(
        "the clocks of the store's nodes {ahead} and {behind} are {apart_ms} ms apart, and what is stored \
             would end at different times; set them right"
    )]
    ClocksApart {
        /// The one whose clock is ahead.
        ahead: String,
        /// The one whose clock is behind.
        behind: String,
        /// By so much.
        apart_ms: u64,
    },
}

/// What a store's driver said.
pub type Cause = Box<dyn Error + Send + Sync>;

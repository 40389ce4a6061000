//! Why a session between the two parties cannot begin or go
//! on. Every error that a message causes is final.

/// What went wrong, by whose fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MpcError {
    // The peer's, which is incompatible.
    /// The peer speaks another version of the protocol.
    #[error("the peer speaks version {theirs} of the protocol, not {}", crate::VERSION)]
    Version {
        /// The version it speaks.
        theirs: u8,
    },
    /// The peer was started with another value of this parameter.
    #[error("the peer was started with another {0}")]
    Parameter(&'static str),
    /// Both sides believe to be the same party.
    #[error("both sides are started as the same party")]
    SameParty,

    // The peer's or the channel's, which is out of step.
    /// A message that is no message of its kind.
    #[error("a message of the peer is malformed: {0}")]
    Malformed(&'static str),
    /// A message above the bound.
    #[error("a message of {len} bytes is above the bound of {}", crate::MAX_MESSAGE)]
    MessageTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// A message of another session.
    #[error("a message of another session")]
    OtherSession,
    /// A message was lost, repeated or overtaken.
    #[error("message {found} came where {expected} was next")]
    Sequence {
        /// The number of the next message.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// A message that has no place at this point.
    #[error("{0} came at a point where it has no place")]
    Unexpected(&'static str),
    /// The parties are not at the same point of the same computation.
    #[error("the parties are out of step: {0} differs")]
    Desynchronised(&'static str),
    /// The peer makes more triples than the pool may hold.
    #[error("the peer makes more triples than the pool may hold")]
    PoolOverflow,

    // The caller's.
    /// The session is not set up yet.
    #[error("the session is not set up yet")]
    NotReady,
    /// A computation is under way, and there is one at a time.
    #[error("a computation is under way")]
    Busy,
    /// An input that has no value, too many lanes, or belongs to the other party.
    #[error("an input {0}")]
    Input(&'static str),
    /// Above its bound, or below.
    #[error("{what} is not within {least} to {most}")]
    OutOfRange {
        /// What is.
        what: &'static str,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
    /// The pool holds fewer triples than the computation takes.
    #[error("{needed} words of triples are needed, {stock} are in stock")]
    NotEnoughTriples {
        /// Words of 64 triples that are needed.
        needed: u64,
        /// Words that are there.
        stock: u64,
    },
    /// The program permutes by an order that is not installed, or of another size.
    #[error("no order of the program's size is installed in slot {slot}")]
    NoOrder {
        /// Its slot.
        slot: u8,
    },

    /// The session has failed before; only a new one helps.
    #[error("the session has failed before; begin a new one")]
    Failed,
}

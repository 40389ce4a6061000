//! Why a session between the two parties cannot begin or go
//! on. Every error that a message causes is final.

use std::fmt;

/// What went wrong, by whose fault.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MpcError {
    // The peer's, which is incompatible.
    /// The peer speaks another version of the protocol.
    Version {
        /// The version it speaks.
        theirs: u8,
    },
    /// The peer was started with another value of this parameter.
    Parameter(&'static str),
    /// Both sides believe to be the same party.
    SameParty,

    // The peer's or the channel's, which is out of step.
    /// A message that is no message of its kind.
    Malformed(&'static str),
    /// A message above the bound.
    MessageTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// A message of another session.
    OtherSession,
    /// A message was lost, repeated or overtaken.
    Sequence {
        /// The number of the next message.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// A message that has no place at this point.
    Unexpected(&'static str),
    /// The parties are not at the same point of the same computation.
    Desynchronised(&'static str),
    /// The peer makes more triples than the pool may hold.
    PoolOverflow,

    // The caller's.
    /// The session is not set up yet.
    NotReady,
    /// A computation is under way, and there is one at a time.
    Busy,
    /// An input that has no value, too many lanes, or belongs to the other party.
    Input(&'static str),
    /// Above its bound, or below.
    OutOfRange {
        /// What is.
        what: &'static str,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
    /// The pool holds fewer triples than the computation takes.
    NotEnoughTriples {
        /// Words of 64 triples that are needed.
        needed: u64,
        /// Words that are there.
        stock: u64,
    },
    /// The program permutes by an order that is not installed, or of another size.
    NoOrder {
        /// Its slot.
        slot: u8,
    },

    /// The session has failed before; only a new one helps.
    Failed,
}

impl fmt::Display for MpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { theirs } => {
                write!(
                    f,
                    "the peer speaks version {theirs} of the protocol, not {}",
                    crate::VERSION
                )
            }
            Self::Parameter(what) => write!(f, "the peer was started with another {what}"),
            Self::SameParty => f.write_str("both sides are started as the same party"),
            Self::Malformed(what) => write!(f, "a message of the peer is malformed: {what}"),
            Self::MessageTooLong { len } => {
                write!(f, "a message of {len} bytes is above the bound of {}", crate::MAX_MESSAGE)
            }
            Self::OtherSession => f.write_str("a message of another session"),
            Self::Sequence { expected, found } => {
                write!(f, "message {found} came where {expected} was next")
            }
            Self::Unexpected(what) => write!(f, "{what} came at a point where it has no place"),
            Self::Desynchronised(what) => write!(f, "the parties are out of step: {what} differs"),
            Self::PoolOverflow => f.write_str("the peer makes more triples than the pool may hold"),
            Self::NotReady => f.write_str("the session is not set up yet"),
            Self::Busy => f.write_str("a computation is under way"),
            Self::Input(why) => write!(f, "an input {why}"),
            Self::OutOfRange { what, least, most } => {
                write!(f, "{what} is not within {least} to {most}")
            }
            Self::NotEnoughTriples { needed, stock } => {
                write!(f, "{needed} words of triples are needed, {stock} are in stock")
            }
            Self::NoOrder { slot } => {
                write!(f, "no order of the program's size is installed in slot {slot}")
            }
            Self::Failed => f.write_str("the session has failed before; begin a new one"),
        }
    }
}

impl std::error::Error for MpcError {}

//! What is wrong, by whose fault. An error of a connection is
//! final for that connection, and for nothing else.

use rhumb_mpc::MpcError;

use crate::roster::Lane;

/// Why a call is refused, or a connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    // The other side's, which is incompatible.
    /// It speaks another version of the protocol.
    #[error(
        "the other side speaks version {theirs} of the exchange's protocol, not {}",
        crate::VERSION
    )]
    Version {
        /// The version it speaks.
        theirs: u8,
    },
    /// It was started with another roster.
    #[error("the other side was started with another roster")]
    Roster,
    /// It was started with another value of this parameter.
    #[error("the other side was started with another {0}")]
    Parameter(&'static str),
    /// It is another party, or no party, than should be there.
    #[error("the other side {0}")]
    Speaker(&'static str),
    /// Its key is another lane's than it says.
    #[error("the other side says to be lane {} of the roster, and its key is that of lane {}", .says.0, .is.0)]
    Lane {
        /// The lane that it says to be.
        says: Lane,
        /// The lane of its key.
        is: Lane,
    },

    // The other side's, which misbehaves.
    /// A message that is none.
    #[error("a message is malformed: {0}")]
    Malformed(&'static str),
    /// More of something than the bound allows.
    #[error("more than {most} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        most: usize,
    },
    /// A message that has no place at this point.
    #[error("{0} came at a point where it has no place")]
    Unexpected(&'static str),
    /// The two parties do not hold the same.
    #[error("the parties are out of step: {0}")]
    OutOfStep(&'static str),
    /// The computation's.
    #[error("the computation ended: {0}")]
    Engine(#[from] MpcError),

    // The caller's.
    /// Longer than the bound.
    #[error("{what} of {len} bytes is above the bound of {most}")]
    TooLong {
        /// What is.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The bound.
        most: usize,
    },
    /// A policy names a lane that the roster does not have.
    #[error("the policy names lane {}, the roster has {lanes}", .lane.0)]
    Policy {
        /// The lane.
        lane: Lane,
        /// Lanes of the roster.
        lanes: usize,
    },
    /// A roster that cannot be: what is wrong, and with which lane.
    #[error("lane {1} of the roster {0}")]
    BadRoster(&'static str, usize),
    /// A parameter without or above its bounds.
    #[error("{what} must be within {least} to {most}")]
    OutOfRange {
        /// Which.
        what: &'static str,
        /// The least allowed.
        least: usize,
        /// The most allowed.
        most: usize,
    },
}

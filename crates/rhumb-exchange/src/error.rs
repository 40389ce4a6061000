//! What is wrong, by whose fault. An error of a connection is
//! final for that connection, and for nothing else.

use std::fmt;

use rhumb_mpc::MpcError;

use crate::roster::Lane;

/// Why a call is refused, or a connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeError {
    // The other side's, which is incompatible.
    /// It speaks another version of the protocol.
    Version {
        /// The version it speaks.
        theirs: u8,
    },
    /// It was started with another roster.
    Roster,
    /// It was started with another value of this parameter.
    Parameter(&'static str),
    /// It is another party, or no party, than should be there.
    Speaker(&'static str),
    /// Its key is another lane's than it says.
    Lane {
        /// The lane that it says to be.
        says: Lane,
        /// The lane of its key.
        is: Lane,
    },

    // The other side's, which misbehaves.
    /// A message that is none.
    Malformed(&'static str),
    /// More of something than the bound allows.
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        most: usize,
    },
    /// A message that has no place at this point.
    Unexpected(&'static str),
    /// The two parties do not hold the same.
    OutOfStep(&'static str),
    /// The computation's.
    Engine(MpcError),

    // The caller's.
    /// Longer than the bound.
    TooLong {
        /// What is.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The bound.
        most: usize,
    },
    /// A policy names a lane that the roster does not have.
    Policy {
        /// The lane.
        lane: Lane,
        /// Lanes of the roster.
        lanes: usize,
    },
    /// A roster that cannot be: what is wrong, and with which lane.
    BadRoster(&'static str, usize),
    /// A parameter without or above its bounds.
    OutOfRange {
        /// Which.
        what: &'static str,
        /// The least allowed.
        least: usize,
        /// The most allowed.
        most: usize,
    },
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { theirs } => write!(
                f,
                "the other side speaks version {theirs} of the exchange's protocol, not {}",
                crate::VERSION
            ),
            Self::Roster => f.write_str("the other side was started with another roster"),
            Self::Parameter(what) => write!(f, "the other side was started with another {what}"),
            Self::Speaker(what) => write!(f, "the other side {what}"),
            Self::Lane { says, is } => write!(
                f,
                "the other side says to be lane {} of the roster, and its key is that of lane {}",
                says.0, is.0
            ),
            Self::Malformed(what) => write!(f, "a message is malformed: {what}"),
            Self::TooMany { what, most } => write!(f, "more than {most} {what}"),
            Self::Unexpected(what) => write!(f, "{what} came at a point where it has no place"),
            Self::OutOfStep(what) => write!(f, "the parties are out of step: {what}"),
            Self::Engine(error) => write!(f, "the computation ended: {error}"),
            Self::TooLong { what, len, most } => {
                write!(f, "{what} of {len} bytes is above the bound of {most}")
            }
            Self::Policy { lane, lanes } => {
                write!(f, "the policy names lane {}, the roster has {lanes}", lane.0)
            }
            Self::BadRoster(what, lane) => write!(f, "lane {lane} of the roster {what}"),
            Self::OutOfRange { what, least, most } => {
                write!(f, "{what} must be within {least} to {most}")
            }
        }
    }
}

impl std::error::Error for ExchangeError {}

impl From<MpcError> for ExchangeError {
    fn from(error: MpcError) -> Self {
        Self::Engine(error)
    }
}

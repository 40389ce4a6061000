//! Why a transfer ended without its file, as told to whoever asked for it.

use std::fmt;
use std::io;
use std::time::Duration;

use rhumb_wire::nack::Reason;
use rhumb_wire::transfer::CancelReason;

/// Why a transfer ended without its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransferError {
    /// The other end gave this reason.
    EndedByPeer(CancelReason),
    /// All bytes arrived, but they are not the file that was offered.
    Corrupt,
    /// The file on offer is larger than the receiver takes.
    TooLarge {
        /// Bytes of the file.
        length: u64,
        /// Bytes the receiver takes.
        limit: u64,
    },
    /// The receiver did not take the offer.
    Refused(CancelReason),
    /// This end was told to stop.
    Stopped,
    /// The file to send cannot be read.
    Read(io::ErrorKind),
    /// The file to receive cannot be written, or not be read back.
    Write(io::ErrorKind),
    /// The other end was silent, or nothing arrived there.
    NoProgress {
        /// For so long.
        after: Duration,
        /// What the path said last, if anything.
        last_nack: Option<Reason>,
    },
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndedByPeer(reason) => write!(f, "ended by the other end: {reason}"),
            Self::Corrupt => {
                f.write_str("what arrived is not the file that was sent: SHA-256 differs")
            }
            Self::TooLarge { length, limit } => {
                write!(f, "the file has {length} bytes, at most {limit} are taken")
            }
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::Stopped => f.write_str("stopped"),
            Self::Read(kind) => write!(f, "the file cannot be read: {kind}"),
            Self::Write(kind) => write!(f, "the file cannot be written: {kind}"),
            Self::NoProgress { after, last_nack: None } => {
                write!(f, "no progress for {} s", after.as_secs())
            }
            Self::NoProgress { after, last_nack: Some(reason) } => {
                write!(f, "no progress for {} s; the path last said: {reason}", after.as_secs())
            }
        }
    }
}

impl std::error::Error for TransferError {}

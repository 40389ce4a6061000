//! Why a transfer ended without its file, as told to whoever asked for it.

use std::io;
use std::time::Duration;

use rhumb_wire::nack::Reason;
use rhumb_wire::transfer::CancelReason;

/// Why a transfer ended without its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The other end gave this reason.
    #[error("ended by the other end: {0}")]
    EndedByPeer(CancelReason),
    /// All bytes arrived, but they are not the file that was offered.
    #[error("what arrived is not the file that was sent: SHA-256 differs")]
    Corrupt,
    /// The file on offer is larger than the receiver takes.
    #[error("the file has {length} bytes, at most {limit} are taken")]
    TooLarge {
        /// Bytes of the file.
        length: u64,
        /// Bytes the receiver takes.
        limit: u64,
    },
    /// The receiver did not take the offer.
    #[error("refused: {0}")]
    Refused(CancelReason),
    /// This end was told to stop.
    #[error("stopped")]
    Stopped,
    /// The file to send cannot be read.
    #[error("the file cannot be read: {0}")]
    Read(io::ErrorKind),
    /// The file to receive cannot be written, or not be read back.
    #[error("the file cannot be written: {0}")]
    Write(io::ErrorKind),
    /// The other end was silent, or nothing arrived there.
    #[error("no progress for {} s{}", .after.as_secs(), last_said(.last_nack))]
    NoProgress {
        /// For so long.
        after: Duration,
        /// What the path said last, if anything.
        last_nack: Option<Reason>,
    },
}

fn last_said(nack: &Option<Reason>) -> String {
    nack.map_or_else(String::new, |reason| format!("; the path last said: {reason}"))
}

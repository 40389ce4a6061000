//! Why a transfer ended without its file, as told to whoever asked for it.

use std::io;

use rhumb_end::{EndError, PORT_CLOSED, StreamError};
use rhumb_wire::transfer::CancelReason;

use crate::stream_error;

/// Why a transfer ended without its file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The other end gave this reason.
    #[error("ended by the other end: {0}")]
    EndedByPeer(CancelReason),
    /// All bytes arrived, but they are not the file that was offered.
    #[error("what arrived is not the file that was sent: SHA-256 differs")]
    Corrupt,
    /// This end was told to stop.
    #[error("stopped")]
    Stopped,
    /// The file to send cannot be read.
    #[error("the file cannot be read: {0}")]
    Read(io::ErrorKind),
    /// The file to receive cannot be written.
    #[error("the file cannot be written: {0}")]
    Write(io::ErrorKind),
    /// The receiver has less than was kept here of what is read once.
    #[error("the receiver began anew, and what was sent cannot be read again")]
    NotKept,
    /// The name is there, and receives no files.
    #[error("nobody receives files there now; ask its holder to run `rhumb receive`")]
    NoReceiver,
    /// There is no connection, or no longer.
    #[error("{0}")]
    Connection(#[from] EndError),
    /// The stream ended otherwise.
    #[error("{0}")]
    Stream(StreamError),
    /// The other end was silent, or nothing arrived there.
    #[error("no progress for {} s", super::GIVES_UP_AFTER.as_secs())]
    NoProgress,
}

impl From<StreamError> for TransferError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Ended { code: PORT_CLOSED } => Self::NoReceiver,
            StreamError::Ended { code } => match CancelReason::from_code(code) {
                Some(reason) => Self::EndedByPeer(reason),
                None => Self::Stream(error),
            },
            StreamError::Connection(error) => Self::Connection(error),
            other => Self::Stream(other),
        }
    }
}

impl From<io::Error> for TransferError {
    /// Of reading from a stream or writing to it.
    fn from(error: io::Error) -> Self {
        match stream_error(&error) {
            Some(error) => error.clone().into(),
            // A stream that ends too soon.
            None => Self::EndedByPeer(CancelReason::Nonsense),
        }
    }
}

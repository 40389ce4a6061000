//! A file, whole and checked, over datagrams that may be
//! lost, doubled, reordered or refused. Sans-IO.
//!
//! [`Sender`] and [`Receiver`] are the two ends. Neither has a clock, a socket or a
//! source of randomness: the caller hands in messages, NACKs and the time, and
//! takes messages out. One transfer goes like this:
//!
//! 1. the sender offers: length, SHA-256, name. It repeats the offer until it is answered;
//! 2. the receiver accepts, or cancels with a reason;
//! 3. chunks go out as the congestion window, the receiver's window and the NACKs of the path allow
//!    ([`Sender`]); the receiver writes each where it belongs and acknowledges ([`Receiver`]);
//! 4. when all bytes are there the receiver compares the SHA-256 and says so, once more for every
//!    doubt, until the sender has repeated its verdict.
//!
//! Drive either end the same way: after every `handle_*`, and when the instant of
//! `poll_timeout` has come, call `poll_transmit` until it says `false`, then `poll_event`
//! until it says `None`. Drop it when `is_closed`.
//!
//! What a transfer does not do: it proves nothing of who sends. The hash is the sender's word, so
//! an end must be chosen by the source name of the PDU and the
//! [`TransferId`](rhumb_wire::transfer::TransferId) together.

mod congestion;
mod error;
mod farewell;
mod pacer;
mod range_set;
mod receiver;
mod round_trip;
mod scoreboard;
mod sender;
mod storage;

use std::time::Duration;

pub use error::TransferError;
pub use receiver::{Receiver, ReceiverConfig, ReceiverCounts};
pub use sender::{Sender, SenderConfig, SenderCounts};
pub use storage::{ReadAt, WriteAt, sha256_of};

/// What has become of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// So many bytes, from the start of the file and without a gap,
    /// have arrived. Told once per change at most.
    Progress {
        /// Bytes that have arrived.
        bytes: u64,
    },
    /// The receiver has the whole file and its SHA-256 is right. Nothing follows.
    Completed,
    /// The transfer is over without its file. Nothing follows.
    Failed(TransferError),
}

/// The least room for a message that a transfer works with: every message but a Chunk always fits,
/// and a Chunk with this room still is for the most part file. Every path carries more (IPv6
/// promises 1280 bytes of datagram).
pub const MIN_BODY_LEN: usize = 512;

/// How long an end goes on without any sign of progress.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(30);

const _: () = assert!(rhumb_wire::transfer::Message::MAX_CONTROL_LEN <= MIN_BODY_LEN);

//! Files: each goes over a stream of a connection, encrypted from end to end, whole and checked.
//!
//! 1. the sender opens a stream to [`PORT`] and offers: length, SHA-256, name;
//! 2. the receiver says how much of the file it has, once it has looked at that, or gives a reason
//!    and ends it;
//! 3. the bytes follow from there on, while the receiver says again and again how much it has;
//! 4. when it has all it compares the SHA-256, and says so.
//!
//! A stream that breaks, because its connection is lost or another server answers for the name, is
//! followed by another one with the same offer, and the receiver says where to go on. What it has
//! is the same content of the same sender for the same name, whatever the number of the transfer:
//! from another stream, from a process of the sender that is no more, or, where the place for it
//! keeps that, from an earlier process of its own. `sending` and `receiving` are the two ends,
//! `arrivals` gives streams to those who receive. What has no end yet is in frames, and `tail`
//! keeps the last of it. A folder goes file by file, as `by_file` says: what is between two steps
//! above is said of each of its files, and only those go that the receiver lacks.

mod arrivals;
mod by_file;
mod error;
mod receiving;
mod sending;
mod storage;
mod tail;

use std::time::Duration;

pub(crate) use arrivals::Arrivals;
pub use error::TransferError;
pub(crate) use receiving::receive;
pub use receiving::{Offered, ReceiveReport};
pub use sending::SendReport;
pub(crate) use sending::{send, send_endless};
pub use storage::{ReadAt, WriteAt, sha256_of};

/// The port of streams on which files arrive.
pub const PORT: u16 = 0;
/// What is read or written at once.
const PART_LEN: usize = 256 << 10;
/// A receiver says at least as often how much it has, so that its sender knows that the way is
/// good.
const SAYS_EVERY: Duration = Duration::from_secs(1);
/// Either end gives up when no byte of the file has arrived for so long.
const GIVES_UP_AFTER: Duration = Duration::from_secs(30);

//! What is sent without an end: read once, and kept until the receiver has it, so that another
//! stream can go on. More than [`KEPT_LEN`] is not read ahead of the receiver.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Notify;

use super::{PART_LEN, TransferError, storage};

/// The last of what was read.
pub(super) struct Tail {
    reader: tokio::sync::Mutex<Box<dyn AsyncRead + Send + Unpin>>,
    kept: Mutex<Kept>,
    has_room: Notify,
}

struct Kept {
    /// Where it begins.
    from: u64,
    bytes: VecDeque<u8>,
    hash: digest::Context,
    end: Option<[u8; 32]>,
}

/// What is sent next.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    /// Nothing more, with the SHA-256 of all.
    End([u8; 32]),
}

impl Tail {
    pub(super) fn new(reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let hash = digest::Context::new(&digest::SHA256);
        let kept = Kept { from: 0, bytes: VecDeque::new(), hash, end: None };
        let reader = tokio::sync::Mutex::new(Box::new(reader) as Box<dyn AsyncRead + Send + Unpin>);
        Self { reader, kept: Mutex::new(kept), has_room: Notify::new() }
    }

    /// What comes from `at` on.
    pub(super) async fn piece(&self, at: u64) -> Result<Piece, TransferError> {
        loop {
            let is_full = {
                let kept = self.kept();
                let skip = at.checked_sub(kept.from).and_then(|skip| usize::try_from(skip).ok());
                let skip = skip.filter(|skip| *skip <= kept.bytes.len());
                let skip = skip.ok_or(TransferError::NotKept)?;
                if skip < kept.bytes.len() {
                    let piece = kept.bytes.range(skip..).take(PART_LEN);
                    return Ok(Piece::Bytes(piece.copied().collect()));
                }
                if let Some(sha256) = kept.end {
                    return Ok(Piece::End(sha256));
                }
                kept.bytes.len() >= KEPT_LEN
            };
            if is_full {
                self.has_room.notified().await;
                continue;
            }
            let mut part = vec![0; PART_LEN];
            let read = self.reader.lock().await.read(&mut part).await;
            let len = read.map_err(|error| TransferError::Read(error.kind()))?;
            self.kept().take(&part[..len]);
        }
    }

    /// The receiver has so much, and will not want it again.
    pub(super) fn arrived(&self, arrived: u64) {
        let mut kept = self.kept();
        let len = arrived.saturating_sub(kept.from).min(kept.bytes.len() as u64);
        kept.bytes.drain(..len as usize);
        kept.from += len;
        self.has_room.notify_one();
    }

    /// How much was read.
    pub(super) fn read(&self) -> u64 {
        self.kept().until()
    }

    /// How much there is, and its SHA-256, once its end was read.
    pub(super) fn whole(&self) -> Option<(u64, [u8; 32])> {
        let kept = self.kept();
        kept.end.map(|sha256| (kept.until(), sha256))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn until(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }

    fn take(&mut self, part: &[u8]) {
        if part.is_empty() {
            self.end = Some(storage::finish(self.hash.clone()));
        }
        self.hash.update(part);
        self.bytes.extend(part);
    }
}

/// What goes out in a second at 64 Mbit/s: a receiver tells ten times a second what it has.
const KEPT_LEN: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    async fn bytes(tail: &Tail, at: u64) -> Option<usize> {
        match tail.piece(at).await {
            Ok(Piece::Bytes(bytes)) => Some(bytes.len()),
            Ok(Piece::End(_)) => Some(0),
            Err(_) => None,
        }
    }

    #[tokio::test]
    async fn what_has_not_arrived_can_be_had_again_and_no_more_is_read() {
        let tail = Tail::new(tokio::io::repeat(7));
        let mut at = 0;
        while at < KEPT_LEN as u64 {
            at += bytes(&tail, at).await.unwrap() as u64;
        }
        let more = timeout(std::time::Duration::from_millis(20), bytes(&tail, at)).await;
        assert!(more.is_err(), "nothing is read while so much is kept");
        assert!(bytes(&tail, 5).await.unwrap() > 0);
        tail.arrived(1000);
        assert_eq!(bytes(&tail, 999).await, None, "it is gone");
        assert!(bytes(&tail, 1000).await.unwrap() > 0);
        assert!(bytes(&tail, at).await.unwrap() > 0, "there is room");
        assert_eq!(bytes(&tail, tail.read() + 1).await, None);
        assert_eq!(tail.whole(), None);
    }

    #[tokio::test]
    async fn the_end_is_known_with_its_hash() {
        let tail = Tail::new(&b"abc"[..]);
        assert_eq!(bytes(&tail, 0).await, Some(3));
        let Ok(Piece::End(sha256)) = tail.piece(3).await else { panic!("it is over") };
        assert_eq!(sha256, storage::sha256_of(&mut &b"abc"[..], 3).unwrap());
        assert_eq!(tail.whole(), Some((3, sha256)));
    }
}

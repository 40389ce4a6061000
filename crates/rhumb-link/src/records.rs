//! Records by the keys of a connection between two ends, which has made them elsewhere: one lane
//! each way, with the epochs, counters and windows of sessions.
//!
//! INVARIANT: keys are used by one [`Records`] at each end, in one direction each, so that no nonce
//! comes twice (`lane`).

use std::fmt;
use std::time::Instant;

use rhumb_wire::datagram::{RECORD_OVERHEAD, RecordHeader, RecordKind, SessionIndex};

use crate::keys::{EXPORT_LEN, ExportedKeys};
use crate::lane::{ReceiveLane, SendLane};
use crate::{Cipher, DropReason};

/// What one end seals, and opens, records with.
pub struct Records {
    sends: Box<SendLane>,
    receives: Box<ReceiveLane>,
    index: SessionIndex,
}

impl Records {
    /// Bytes to export from a connection: keys and salts, and an index for each direction.
    pub const EXPORT_LEN: usize = EXPORT_LEN + 2 * INDEX_LEN;
    /// Bytes that a record has beyond what is sealed in it.
    pub const OVERHEAD: usize = RECORD_OVERHEAD;

    /// By the keys of a connection, for the end that began it or for the other one.
    pub fn new(export: &[u8; Self::EXPORT_LEN], has_begun: bool, now: Instant) -> Option<Self> {
        let (keys, indices) = export.split_at(EXPORT_LEN);
        let ([sends, ..], [receives, ..]) = ExportedKeys::new(keys)?.lane_secrets(has_begun);
        let (of_begun, rest) = indices.split_first_chunk()?;
        let of_other = rest.first_chunk()?;
        let index = |bytes: &[u8; INDEX_LEN]| {
            SessionIndex::new(u32::from_be_bytes(*bytes) & SessionIndex::MAX)
        };
        let (to, index) = match has_begun {
            true => (index(of_begun)?, index(of_other)?),
            false => (index(of_other)?, index(of_begun)?),
        };
        Some(Self {
            sends: Box::new(SendLane::new(CIPHER, sends, to, now)),
            receives: Box::new(ReceiveLane::new(CIPHER, receives, now)),
            index,
        })
    }

    /// Whether a record is for this end of the connection, as far as its header says.
    pub fn are_of(&self, header: &RecordHeader) -> bool {
        header.index == self.index && header.kind == RecordKind::Pdu
    }

    /// Seals in place: 12 bytes for the header, what is to be sealed, 16 bytes for the tag.
    ///
    /// # Errors
    /// When the buffer has no room for header and tag, or all counters were used.
    #[inline]
    pub fn seal(&mut self, buffer: &mut [u8], now: Instant) -> Result<(), DropReason> {
        self.sends.seal(RecordKind::Pdu, buffer, now)
    }

    /// Opens in place what stands behind a header, and says how many bytes were sealed. After an
    /// error the bytes are garbage.
    ///
    /// # Errors
    /// When it was opened before, is too old, or was not sealed by the other end.
    #[inline]
    pub fn open(
        &mut self,
        header: RecordHeader,
        sealed: &mut [u8],
        now: Instant,
    ) -> Result<usize, DropReason> {
        self.receives.open_behind(header, &header.emit(), sealed, now)
    }

    /// Forgets keys that nothing on its way needs any more; to be called every few seconds.
    pub fn tidy(&mut self, now: Instant) {
        self.receives.wipe_previous(now);
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("index", &self.index).finish_non_exhaustive()
    }
}

/// That of QUIC between ends: what a program says has a second seal on each hop.
const CIPHER: Cipher = Cipher::Aes128Gcm;
const INDEX_LEN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> ([Records; 2], Instant) {
        #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
        let now = Instant::now();
        let export = std::array::from_fn(|at| at as u8 ^ 0x5A);
        ([true, false].map(|it| Records::new(&export, it, now).unwrap()), now)
    }

    fn sealed(by: &mut Records, what: &[u8], now: Instant) -> (RecordHeader, Vec<u8>) {
        let mut record = [&[0; RecordHeader::LEN], what, &[0; 16]].concat();
        by.seal(&mut record, now).unwrap();
        assert_eq!(record.len(), what.len() + Records::OVERHEAD);
        (RecordHeader::parse(&record).unwrap(), record.split_off(RecordHeader::LEN))
    }

    #[test]
    fn each_end_opens_what_the_other_one_sealed_once_and_nobody_else_does() {
        let ([mut a, mut b], now) = pair();
        for _ in 0..2 {
            let (header, record) = sealed(&mut a, b"said", now);
            assert!(b.are_of(&header) && !a.are_of(&header));
            assert!(a.open(header, &mut record.clone(), now).is_err(), "its own");
            let mut altered = record.clone();
            altered[2] ^= 1;
            assert_eq!(b.open(header, &mut altered, now), Err(DropReason::BadSeal));
            let mut opened = record.clone();
            assert_eq!(b.open(header, &mut opened, now), Ok(4));
            assert_eq!(&opened[..4], b"said");
            assert_eq!(b.open(header, &mut record.clone(), now), Err(DropReason::Replayed));
            std::mem::swap(&mut a, &mut b);
        }
    }

    #[test]
    fn epochs_go_on_and_the_one_before_is_forgotten() {
        let ([mut a, mut b], now) = pair();
        let late = sealed(&mut a, b"late", now);
        let later = now + crate::EPOCH_LIFETIME;
        let (header, mut record) = sealed(&mut a, b"next", later);
        assert_eq!(header.counter.epoch(), 1);
        assert_eq!(b.open(header, &mut record, later), Ok(4));
        b.tidy(later);
        assert_eq!(b.open(late.0, &mut late.1.clone(), later), Ok(4));
        let later_again = sealed(&mut a, b"", later);
        assert_eq!(b.open(later_again.0, &mut later_again.1.clone(), later), Ok(0));
        let late = sealed(&mut a, b"late", later);
        let last = later + crate::EPOCH_LIFETIME;
        let (header, mut record) = sealed(&mut a, b"last", last);
        assert_eq!(b.open(header, &mut record, last), Ok(4));
        b.tidy(last + crate::EPOCH_LIFETIME);
        assert!(b.open(late.0, &mut late.1.clone(), last).is_err());
    }
}

//! Records by the keys of a connection between two ends, which has made them elsewhere: one lane
//! each way, with the epochs, counters and windows of sessions.
//!
//! INVARIANT: keys are used by one [`Records`] at each end, in one direction each, so that no nonce
//! comes twice (`lane`).

use std::fmt;
use std::time::Instant;

use rhumb_wire::datagram::{RECORD_OVERHEAD, RecordHeader, RecordKind, SessionIndex};

use crate::aead::PacketKey;
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

    /// Opens what stands behind a header to the beginning of `plaintext`, which is at least as long
    /// as what was sealed, and says how many bytes that are. After an error they are garbage.
    ///
    /// # Errors
    /// When it was opened before, is too old, or was not sealed by the other end.
    #[inline]
    pub fn open(
        &mut self,
        header: RecordHeader,
        sealed: &[u8],
        plaintext: &mut [u8],
        now: Instant,
    ) -> Result<usize, DropReason> {
        let clear = header.emit();
        let open = |key: &PacketKey| key.open_into(header.counter, &clear, sealed, plaintext);
        self.receives.open_by(header, now, open)
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

    /// What one end makes of a record with room for so many bytes.
    fn opened(
        by: &mut Records,
        (header, record): (RecordHeader, &[u8]),
        room: usize,
        now: Instant,
    ) -> Result<Vec<u8>, DropReason> {
        let mut plaintext = vec![0xFF; room];
        let len = by.open(header, record, &mut plaintext, now)?;
        assert!(plaintext[len..].iter().all(|byte| *byte == 0xFF), "what is behind stays");
        plaintext.truncate(len);
        Ok(plaintext)
    }

    #[test]
    fn each_end_opens_what_the_other_one_sealed_once_and_nobody_else_does() {
        let ([mut a, mut b], now) = pair();
        for _ in 0..2 {
            let (header, record) = sealed(&mut a, b"said", now);
            assert!(b.are_of(&header) && !a.are_of(&header));
            assert!(opened(&mut a, (header, &record), 4, now).is_err(), "its own");
            let mut altered = record.clone();
            altered[2] ^= 1;
            let refused = Err(DropReason::BadSeal);
            assert_eq!(opened(&mut b, (header, &altered), 4, now), refused);
            assert_eq!(opened(&mut b, (header, &record), 3, now), refused, "no room");
            assert_eq!(opened(&mut b, (header, &record[..15]), 4, now), refused, "no seal");
            assert_eq!(opened(&mut b, (header, &record), 9, now).as_deref(), Ok(&b"said"[..]));
            let again = opened(&mut b, (header, &record), 4, now);
            assert_eq!(again, Err(DropReason::Replayed));
            std::mem::swap(&mut a, &mut b);
        }
    }

    #[test]
    fn epochs_go_on_and_the_one_before_is_forgotten() {
        let ([mut a, mut b], now) = pair();
        let late = sealed(&mut a, b"late", now);
        let later = now + crate::EPOCH_LIFETIME;
        let (header, record) = sealed(&mut a, b"next", later);
        assert_eq!(header.counter.epoch(), 1);
        let open = |b: &mut Records, header, record: &[u8], at| opened(b, (header, record), 4, at);
        assert_eq!(open(&mut b, header, &record, later).as_deref(), Ok(&b"next"[..]));
        b.tidy(later);
        assert_eq!(open(&mut b, late.0, &late.1, later).as_deref(), Ok(&b"late"[..]));
        let later_again = sealed(&mut a, b"", later);
        assert_eq!(open(&mut b, later_again.0, &later_again.1, later), Ok(Vec::new()));
        let late = sealed(&mut a, b"late", later);
        let last = later + crate::EPOCH_LIFETIME;
        let (header, record) = sealed(&mut a, b"last", last);
        assert_eq!(open(&mut b, header, &record, last).as_deref(), Ok(&b"last"[..]));
        b.tidy(last + crate::EPOCH_LIFETIME);
        assert!(open(&mut b, late.0, &late.1, last).is_err());
    }
}

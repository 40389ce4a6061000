//! Lanes: one direction of a session's records. A lane has its own
//! keys, counter and, on the receiving side, window.
//!
//! Sending: packet numbers grow by one and never reset; the epoch's key is replaced by its
//! successor after [`EPOCH_PACKETS`] packets or [`EPOCH_LIFETIME`] of use. Receiving: the epoch of
//! a record says which key opens it; an epoch ahead is believed only when a record opened under it.
//!
//! Why no nonce is ever used twice: the nonce is the epoch's salt XOR (epoch, packet
//! number); within an epoch the packet number grows; a sender that has used the last
//! packet number, or the last epoch, refuses to send.

use std::ops::Range;
use std::time::{Duration, Instant};

use rhumb_wire::datagram::{
    AEAD_TAG_LEN, Counter, RECORD_OVERHEAD, RecordHeader, RecordKind, SessionIndex,
};

use crate::aead::PacketKey;
use crate::keys::LaneSecret;
use crate::{Cipher, DropReason};

/// The sending side of a lane.
pub(crate) struct SendLane {
    cipher: Cipher,
    /// The index that the receiver chose.
    index: SessionIndex,
    secret: LaneSecret,
    key: PacketKey,
    epoch: u16,
    packet_number: u64,
    /// The first packet number that is not for this epoch's key; 0 until that is used.
    epoch_end: u64,
    /// When that key is used up, whatever was sealed with it.
    epoch_until: Instant,
    /// When anything was sealed last.
    pub(crate) last_sealed: Instant,
}

/// A sending lane before its first record: it takes little room.
pub(crate) struct UnusedLane {
    pub(crate) cipher: Cipher,
    pub(crate) secret: LaneSecret,
    pub(crate) index: SessionIndex,
}

impl UnusedLane {
    pub(crate) fn begin(self, now: Instant) -> Box<SendLane> {
        Box::new(SendLane::new(self.cipher, self.secret, self.index, now))
    }
}

impl SendLane {
    pub(crate) fn new(
        cipher: Cipher,
        secret: LaneSecret,
        index: SessionIndex,
        now: Instant,
    ) -> Self {
        let key = secret.packet_key(cipher);
        Self {
            cipher,
            index,
            secret,
            key,
            epoch: 0,
            packet_number: 0,
            epoch_end: 0,
            epoch_until: now,
            last_sealed: now,
        }
    }

    /// Seals in place: 12 bytes for the header, the plaintext, 16 bytes for the tag.
    #[inline]
    pub(crate) fn seal(
        &mut self,
        kind: RecordKind,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<(), DropReason> {
        let (clear, rest) =
            buffer.split_first_chunk_mut::<{ RecordHeader::LEN }>().ok_or(DropReason::TooShort)?;
        let (plaintext, tag) =
            rest.split_last_chunk_mut::<AEAD_TAG_LEN>().ok_or(DropReason::TooShort)?;
        if self.is_epoch_over(now) {
            self.begin_epoch(now)?;
        }
        let counter = self.give_counter(kind, clear, now);
        *tag = self.key.seal(counter, clear, plaintext);
        Ok(())
    }

    /// As [`SendLane::seal`], or half of it, if it goes together with others.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        kind: RecordKind,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<Begun, DropReason> {
        if !self.key.is_for_many(buffer.len()) {
            self.seal(kind, buffer, now)?;
            return Ok(Begun::Sealed);
        }
        if buffer.len() < RECORD_OVERHEAD {
            return Err(DropReason::TooShort);
        }
        let clear = buffer.first_chunk_mut().ok_or(DropReason::TooShort)?;
        if self.is_epoch_over(now) {
            return Ok(Begun::EpochFirst);
        }
        self.give_counter(kind, clear, now);
        Ok(Begun::Header)
    }

    /// That of the present epoch.
    #[inline]
    pub(crate) fn key(&self) -> &PacketKey {
        &self.key
    }

    #[inline]
    fn is_epoch_over(&self, now: Instant) -> bool {
        self.packet_number >= self.epoch_end || now >= self.epoch_until
    }

    #[inline]
    fn give_counter(
        &mut self,
        kind: RecordKind,
        clear: &mut [u8; RecordHeader::LEN],
        now: Instant,
    ) -> Counter {
        let counter = Counter::new(self.epoch, self.packet_number);
        self.packet_number += 1;
        *clear = RecordHeader { kind, index: self.index, counter }.emit();
        self.last_sealed = now;
        counter
    }

    /// Asks for the memory that sealing as many bytes needs.
    #[inline]
    pub(crate) fn read_ahead(&self, len: usize) {
        self.key.read_ahead(len);
    }

    /// Records sealed so far.
    pub(crate) fn sealed(&self) -> u64 {
        self.packet_number
    }

    /// Whether so few epochs are left that a fresh handshake is due: at the fastest conceivable
    /// 10^8 packets a second an epoch lasts 40 ms, so what is left lasts 160 s.
    pub(crate) fn nearly_exhausted(&self) -> bool {
        self.epoch >= u16::MAX - 4096
            || self.packet_number >= Counter::MAX_PACKET_NUMBER - (1 << 34)
    }

    /// Takes the key into use, or its successor if it was used.
    #[cold]
    pub(crate) fn begin_epoch(&mut self, now: Instant) -> Result<(), DropReason> {
        if self.packet_number > Counter::MAX_PACKET_NUMBER {
            return Err(DropReason::CounterExhausted);
        }
        if self.epoch_end > 0 {
            self.epoch = self.epoch.checked_add(1).ok_or(DropReason::CounterExhausted)?;
            self.secret = self.secret.next();
            self.key = self.secret.packet_key(self.cipher);
        }
        self.epoch_end = (self.packet_number + EPOCH_PACKETS).min(Counter::MAX_PACKET_NUMBER + 1);
        self.epoch_until = now + EPOCH_LIFETIME;
        Ok(())
    }
}

/// How far a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It has its counter and its header. Whoever asked encrypts it with [`SendLane::key`], before
    /// another epoch begins, or drops it.
    Header,
    /// It is sealed.
    Sealed,
    /// It waits for the next epoch, and nothing has changed.
    EpochFirst,
}

/// The receiving side of a lane.
pub(crate) struct ReceiveLane {
    cipher: Cipher,
    window: crate::replay::ReplayWindow,
    epoch: u16,
    key: PacketKey,
    /// The secret of `epoch`.
    secret: LaneSecret,
    /// The key of the epoch before, for datagrams that were overtaken.
    previous: Option<PacketKey>,
    epoch_began: Instant,
    /// When a record that was not a close was opened last, or the lane was made.
    pub(crate) last_opened: Instant,
}

impl ReceiveLane {
    pub(crate) fn new(cipher: Cipher, secret: LaneSecret, now: Instant) -> Self {
        Self {
            cipher,
            window: crate::replay::ReplayWindow::new(),
            epoch: 0,
            key: secret.packet_key(cipher),
            secret,
            previous: None,
            epoch_began: now,
            last_opened: now,
        }
    }

    /// Opens a whole datagram in place and says where its plaintext
    /// stands. After an error the bytes are garbage.
    #[inline(always)] // Called in two places, of which one is hot.
    pub(crate) fn open(
        &mut self,
        header: RecordHeader,
        datagram: &mut [u8],
        now: Instant,
    ) -> Result<Range<usize>, DropReason> {
        let (clear, sealed) = datagram
            .split_first_chunk_mut::<{ RecordHeader::LEN }>()
            .ok_or(DropReason::Malformed)?;
        let len = self.open_by(header, now, |key| key.open(header.counter, clear, sealed))?;
        Ok(RecordHeader::LEN..RecordHeader::LEN + len)
    }

    /// As [`ReceiveLane::open`], by what opens the record with the key of its epoch, and says how
    /// many bytes were in it.
    #[inline(always)] // As above.
    pub(crate) fn open_by(
        &mut self,
        header: RecordHeader,
        now: Instant,
        open: impl FnOnce(&PacketKey) -> Option<usize>,
    ) -> Result<usize, DropReason> {
        let number = header.counter.packet_number();
        self.window.check(number)?;
        let epoch = header.counter.epoch();
        let opened = if epoch == self.epoch {
            open(&self.key)
        } else if epoch < self.epoch {
            match &self.previous {
                Some(key) if epoch + 1 == self.epoch => open(key),
                _ => return Err(DropReason::EpochOutOfRange),
            }
        } else {
            self.open_ahead(epoch, now, open)?
        };
        let len = opened.ok_or(DropReason::BadSeal)?;
        self.note_opened(header, now);
        Ok(len)
    }

    /// The key that a record opens with, if that is the present epoch's and nothing of its number
    /// was opened before.
    #[inline]
    pub(crate) fn key_for(&self, header: &RecordHeader) -> Option<&PacketKey> {
        let counter = header.counter;
        let is_usual =
            counter.epoch() == self.epoch && self.window.check(counter.packet_number()).is_ok();
        is_usual.then_some(&self.key)
    }

    /// A record was decrypted by [`ReceiveLane::key_for`].
    ///
    /// # Errors
    /// When another one of its number was opened since.
    #[inline]
    pub(crate) fn take_decrypted(
        &mut self,
        header: RecordHeader,
        now: Instant,
    ) -> Result<(), DropReason> {
        self.window.check(header.counter.packet_number())?;
        self.note_opened(header, now);
        Ok(())
    }

    #[inline]
    fn note_opened(&mut self, header: RecordHeader, now: Instant) {
        self.window.update(header.counter.packet_number());
        if header.kind != RecordKind::Close {
            self.last_opened = now;
        }
    }

    /// Asks for the memory that opening a record of this number and length needs.
    #[inline]
    pub(crate) fn read_ahead(&self, number: u64, len: usize) {
        let _ = std::hint::black_box(self.window.check(number));
        self.key.read_ahead(len);
    }

    /// Back to what it was made of. Only of a lane on which nothing was
    /// opened: any other goes on in a later epoch.
    pub(crate) fn into_secret(self) -> LaneSecret {
        debug_assert!(self.epoch == 0 && self.window.newest().is_none());
        self.secret
    }

    /// The highest packet number that was opened.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.window.newest()
    }

    /// Wipes the previous epoch's key once datagrams of that epoch cannot be on their way any more.
    pub(crate) fn wipe_previous(&mut self, now: Instant) {
        if now.saturating_duration_since(self.epoch_began) >= PREVIOUS_EPOCH_LIFETIME {
            self.previous = None;
        }
    }

    /// Derives the keys of an epoch ahead, and keeps them if they open
    /// the record: a forged epoch changes nothing.
    #[cold]
    fn open_ahead(
        &mut self,
        epoch: u16,
        now: Instant,
        open: impl FnOnce(&PacketKey) -> Option<usize>,
    ) -> Result<Option<usize>, DropReason> {
        let steps = epoch - self.epoch;
        if steps > MAX_EPOCHS_AHEAD {
            return Err(DropReason::EpochOutOfRange);
        }
        let mut secret = self.secret.next();
        let mut before = None;
        for _ in 1..steps {
            let next = secret.next();
            before = Some(std::mem::replace(&mut secret, next));
        }
        let key = secret.packet_key(self.cipher);
        let Some(len) = open(&key) else { return Ok(None) };
        let last = std::mem::replace(&mut self.key, key);
        self.previous = Some(before.map_or(last, |secret| secret.packet_key(self.cipher)));
        self.secret = secret;
        self.epoch = epoch;
        self.epoch_began = now;
        Ok(Some(len))
    }
}

/// Packets sealed under one key. A datagram has at most 2^12 AES blocks, so an epoch
/// has 2^34, and the advantage of an attacker on AES-GCM stays below 2^(2*34 - 128) =
/// 2^-60; of the usual 1,452 bytes, below 2^-70.
pub const EPOCH_PACKETS: u64 = 1 << 22;
/// Longest use of one key, so that a stolen key opens little.
pub const EPOCH_LIFETIME: Duration = Duration::from_secs(120);
/// Epochs ahead of its own that a receiver tries. A keep-alive is sent every 5
/// s, so to be one behind, a receiver must have lost all of an epoch; to be
/// five behind, ten minutes or 16 million packets.
pub const MAX_EPOCHS_AHEAD: u16 = 4;
/// How long a datagram may be overtaken by those of the next epoch.
const PREVIOUS_EPOCH_LIFETIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::ExportedKeys;
    use rhumb_wire::datagram::RECORD_OVERHEAD;

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn sender() -> (SendLane, Instant) {
        let now = Instant::now();
        let [secret, ..] = ExportedKeys::new(&[3; 88]).unwrap().lane_secrets(true).0;
        let index = SessionIndex::new(1).unwrap();
        (SendLane::new(Cipher::Aes128Gcm, secret, index, now), now)
    }

    fn seal(lane: &mut SendLane, now: Instant) -> Result<(), DropReason> {
        lane.seal(RecordKind::Pdu, &mut [0; RECORD_OVERHEAD], now)
    }

    #[test]
    fn the_last_packet_number_is_used_and_none_after_it() {
        let (mut lane, now) = sender();
        lane.packet_number = Counter::MAX_PACKET_NUMBER;
        assert!(lane.nearly_exhausted());
        assert_eq!(seal(&mut lane, now), Ok(()));
        for _ in 0..3 {
            assert_eq!(seal(&mut lane, now), Err(DropReason::CounterExhausted));
        }
    }

    #[test]
    fn the_last_epoch_is_used_and_none_after_it() {
        let (mut lane, now) = sender();
        assert!(!lane.nearly_exhausted());
        lane.epoch = u16::MAX - 1;
        assert!(lane.nearly_exhausted());
        assert_eq!(seal(&mut lane, now), Ok(()));
        let later = now + EPOCH_LIFETIME;
        assert_eq!(seal(&mut lane, later), Ok(()));
        assert_eq!(lane.epoch, u16::MAX);
        for _ in 0..3 {
            assert_eq!(seal(&mut lane, later + EPOCH_LIFETIME), Err(DropReason::CounterExhausted));
        }
    }

    #[test]
    fn a_buffer_without_room_is_refused() {
        let (mut lane, now) = sender();
        for len in [0, RecordHeader::LEN, RECORD_OVERHEAD - 1] {
            let result = lane.seal(RecordKind::Pdu, &mut vec![0; len], now);
            assert_eq!(result, Err(DropReason::TooShort), "{len}");
        }
        assert_eq!(lane.packet_number, 0);
    }
}

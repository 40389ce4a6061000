//! Records of one batch that go through the AEAD in one call, where those of one key are worked on
//! side by side.
//!
//! Opening: 1. a key is asked for each datagram, which changes nothing; 2. all that have one are
//! decrypted in place; 3. each is opened as it is by itself, but for the decryption: its window is
//! asked once more, since one number may stand in a group twice.
//!
//! Sealing: 1. each record is given its counter and its header; 2. all are encrypted.
//!
//! INVARIANT: what was given a header and was not encrypted is dropped, so that no plaintext leaves
//! here; and a lane begins no epoch before what has a header of the last one is encrypted.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use arrayvec::ArrayVec;
use rhumb_aead::{MAX_RECORDS, Record};
use rhumb_wire::Batch;
use rhumb_wire::datagram::{AEAD_TAG_LEN, RecordHeader};

use crate::aead::PacketKey;
use crate::lane::Begun;
use crate::{DropReason, SessionId};

/// What was decrypted of some datagrams that follow each other in a batch.
#[derive(Debug)]
pub struct Decrypted {
    /// A bit for each datagram that is left: whether it was tried.
    tried: u64,
    /// A bit for each of those: whether its tag held.
    held: u64,
}

/// Whether a datagram is decrypted already: what [`Decrypted::next`] says of it, and of no other.
#[derive(Debug, Clone, Copy)]
pub struct Decryption(pub(crate) Option<bool>);

impl Decryption {
    /// It stands there as it came.
    pub const NONE: Self = Self(None);
}

impl Decrypted {
    /// Of the next datagram, in the order of their slots.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it has no end")]
    pub fn next(&mut self) -> Decryption {
        let is_tried = self.tried & 1 == 1;
        self.tried >>= 1;
        if !is_tried {
            return Decryption::NONE;
        }
        let held = self.held & 1 == 1;
        self.held >>= 1;
        Decryption(Some(held))
    }
}

/// Decrypts the datagrams in these slots, of the first 64, for which there is a key.
#[inline]
pub(crate) fn decrypt<'k>(
    batch: &mut Batch,
    slots: Range<usize>,
    key_of: impl Fn(SocketAddr, &RecordHeader) -> Option<&'k PacketKey>,
) -> Decrypted {
    let mut decrypted = Decrypted { tried: 0, held: 0 };
    // One by itself is opened by itself.
    if slots.len() < 2 {
        return decrypted;
    }
    let mut records = ArrayVec::<Record<'_>, MAX_RECORDS>::new();
    for (place, (from, datagram)) in batch.apart_mut(slots).enumerate().take(MAX_RECORDS) {
        let Ok(header) = RecordHeader::parse(datagram) else { continue };
        let Some(key) = key_of(from, &header) else { continue };
        if !key.is_for_many(datagram.len()) {
            // Nor do the others, mostly: a process has keys of one kind, and a batch one length.
            break;
        }
        let Some((clear, body, tag)) = parts(datagram) else { continue };
        let tag = *tag;
        records.push(key.record(header.counter, clear, body).with_tag(tag));
        decrypted.tried |= 1 << place;
    }
    decrypted.held = rhumb_aead::open(&mut records).bits();
    decrypted
}

/// Whoever has sessions that records are sealed for.
pub(crate) trait Seals {
    /// Begins to seal.
    ///
    /// # Errors
    /// When there is no such session, or nothing of this length goes there.
    fn begin(
        &mut self,
        session: SessionId,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<Begun, DropReason>;

    /// Where what is sealed for this session goes.
    fn address(&self, session: SessionId) -> Option<&SocketAddr>;

    /// Begins the epoch that [`Seals::begin`] wants begun.
    fn begin_epoch(&mut self, session: SessionId, now: Instant) -> Result<(), DropReason>;

    /// Counts what is not sealed.
    fn refuse(&mut self, reason: DropReason);

    /// What this session's records are encrypted with.
    fn key(&self, session: SessionId) -> Option<&PacketKey>;
}

/// Seals what stands in each of these slots, 64 at most, for the session at its place, and has it
/// go there; drops what goes nowhere.
#[inline]
pub(crate) fn seal(
    seals: &mut impl Seals,
    batch: &mut Batch,
    slots: Range<usize>,
    sessions: &[Option<SessionId>],
    now: Instant,
) {
    assert!(slots.len() <= MAX_RECORDS, "at most {MAX_RECORDS} records in one call");
    let mut begun = 0;
    for ((place, slot), session) in slots.clone().enumerate().zip(sessions) {
        let Some(session) = *session else {
            batch.drop_datagram(slot);
            continue;
        };
        let mut result = seals.begin(session, batch.datagram_mut(slot).1, now);
        if result == Ok(Begun::EpochFirst) {
            encrypt(seals, batch, slots.clone(), sessions, std::mem::take(&mut begun));
            let epoch = seals.begin_epoch(session, now);
            result = epoch.and_then(|()| seals.begin(session, batch.datagram_mut(slot).1, now));
        }
        match (result, seals.address(session)) {
            (Ok(Begun::Header), Some(to)) => {
                begun |= 1 << place;
                batch.redirect(slot, *to);
            }
            (Ok(Begun::Sealed), Some(to)) => batch.redirect(slot, *to),
            (Ok(_), _) => batch.drop_datagram(slot),
            (Err(reason), _) => {
                seals.refuse(reason);
                batch.drop_datagram(slot);
            }
        }
    }
    encrypt(seals, batch, slots, sessions, begun);
}

/// Encrypts the records that `begun` has a bit for; drops those that have no key any more.
#[inline]
fn encrypt(
    seals: &impl Seals,
    batch: &mut Batch,
    slots: Range<usize>,
    sessions: &[Option<SessionId>],
    begun: u64,
) {
    if begun == 0 {
        return;
    }
    let left = begun & !encrypt_in_order(seals, batch, slots.clone(), sessions, begun);
    if left == 0 {
        return;
    }
    // What does not stand in the order of its slot goes by itself.
    for (place, (slot, session)) in slots.zip(sessions).enumerate() {
        if left >> place & 1 == 1 && !encrypt_alone(seals, batch.datagram_mut(slot).1, *session) {
            batch.drop_datagram(slot);
        }
    }
}

/// Encrypts those that stand behind each other: a bit for each.
#[inline]
fn encrypt_in_order(
    seals: &impl Seals,
    batch: &mut Batch,
    slots: Range<usize>,
    sessions: &[Option<SessionId>],
    begun: u64,
) -> u64 {
    let mut encrypted = 0;
    let mut records = ArrayVec::<Record<'_>, MAX_RECORDS>::new();
    let mut tags = ArrayVec::<&mut [u8; AEAD_TAG_LEN], MAX_RECORDS>::new();
    for (place, ((_, datagram), session)) in batch.apart_mut(slots).zip(sessions).enumerate() {
        if begun >> place & 1 == 0 {
            continue;
        }
        let Some(key) = session.and_then(|session| seals.key(session)) else { continue };
        let Ok(header) = RecordHeader::parse(datagram) else { continue };
        let Some((clear, body, tag)) = parts(datagram) else { continue };
        records.push(key.record(header.counter, clear, body));
        tags.push(tag);
        encrypted |= 1 << place;
    }
    rhumb_aead::seal(&mut records);
    for (tag, record) in tags.iter_mut().zip(&records) {
        **tag = record.tag;
    }
    encrypted
}

#[cold]
fn encrypt_alone(seals: &impl Seals, datagram: &mut [u8], session: Option<SessionId>) -> bool {
    let Some(key) = session.and_then(|session| seals.key(session)) else { return false };
    let Ok(header) = RecordHeader::parse(datagram) else { return false };
    let Some((clear, body, tag)) = parts(datagram) else { return false };
    *tag = key.seal(header.counter, clear, body);
    true
}

/// Header, what is or will be encrypted, and tag.
#[inline]
fn parts(datagram: &mut [u8]) -> Option<Parts<'_>> {
    let (clear, rest) = datagram.split_first_chunk_mut()?;
    let (body, tag) = rest.split_last_chunk_mut()?;
    Some((clear, body, tag))
}

type Parts<'a> = (&'a [u8; RecordHeader::LEN], &'a mut [u8], &'a mut [u8; AEAD_TAG_LEN]);

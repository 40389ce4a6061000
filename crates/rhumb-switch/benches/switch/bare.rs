//! What cannot be saved: AES-256-GCM open in place, one look-up of a 32-byte name, seal in place. No session, no replay
//! window, no epoch, no TTL, no check of a header. Sizes and layout of datagrams are those of the switch.

use std::net::SocketAddr;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use foldhash::quality::RandomState;
use hashbrown::HashMap;
use rhumb_wire::datagram::{AEAD_TAG_LEN, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::{Batch, PduHeader};

/// Opens with one key, seals with another.
pub(crate) struct Resealer {
    incoming: LessSafeKey,
    outgoing: LessSafeKey,
    counter: u64,
}

impl Resealer {
    pub(crate) fn new() -> Self {
        Self { incoming: key(INCOMING), outgoing: key(OUTGOING), counter: 0 }
    }

    /// The plaintext, or `None` when it is not from [`Ends`].
    #[inline]
    pub(crate) fn open<'a>(&self, datagram: &'a mut [u8]) -> Option<&'a mut [u8]> {
        open(&self.incoming, datagram)
    }

    #[inline]
    pub(crate) fn seal(&mut self, datagram: &mut [u8]) {
        seal(&self.outgoing, &mut self.counter, datagram);
    }
}

/// Where a name leads to, for many names.
pub(crate) struct Names {
    next_hops: HashMap<[u8; 32], u32, RandomState>,
}

impl Names {
    pub(crate) fn new(names: &[[u8; 32]]) -> Self {
        Self { next_hops: names.iter().copied().zip(0..).collect() }
    }

    /// The next hop of an open PDU.
    #[inline]
    pub(crate) fn next_hop(&self, pdu: &[u8]) -> Option<u32> {
        let name: &[u8; 32] = pdu.get(DESTINATION..)?.first_chunk()?;
        self.next_hops.get(name).copied()
    }
}

/// Both ends of what a [`Resealer`] forwards.
pub(crate) struct Ends {
    source: LessSafeKey,
    counter: u64,
    sink: LessSafeKey,
}

impl Ends {
    pub(crate) fn new() -> Self {
        Self { source: key(INCOMING), counter: 0, sink: key(OUTGOING) }
    }

    /// Appends a sealed PDU for `destination`.
    pub(crate) fn push(
        &mut self,
        batch: &mut Batch,
        peer: SocketAddr,
        destination: &[u8; 32],
        payload: usize,
    ) {
        let datagram = batch.push_with(peer, RECORD_OVERHEAD + PduHeader::LEN + payload);
        // Whatever stands in a reused batch is as good a payload as any.
        datagram[RecordHeader::LEN + DESTINATION..][..32].copy_from_slice(destination);
        seal(&self.source, &mut self.counter, datagram);
    }

    /// Whether a forwarded datagram is one of ours, sealed by the forwarder.
    pub(crate) fn opens(&self, datagram: &mut [u8]) -> bool {
        open(&self.sink, datagram).is_some()
    }

    /// Whether a forwarded datagram is one of ours, as it left the source.
    pub(crate) fn is_untouched(&self, datagram: &mut [u8]) -> bool {
        open(&self.source, datagram).is_some()
    }
}

#[inline]
fn open<'a>(key: &LessSafeKey, datagram: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let (clear, sealed) = datagram.split_first_chunk_mut::<{ RecordHeader::LEN }>()?;
    let nonce = Nonce::assume_unique_for_key(*clear);
    key.open_in_place(nonce, Aad::from(&*clear), sealed).ok()
}

/// The clear bytes are a constant and a counter, and serve as the nonce.
#[inline]
fn seal(key: &LessSafeKey, counter: &mut u64, datagram: &mut [u8]) {
    let (clear, rest) = datagram.split_first_chunk_mut().expect("room for a header");
    let (plaintext, tag) = rest.split_last_chunk_mut::<AEAD_TAG_LEN>().expect("room for a tag");
    *clear = CLEAR;
    clear[4..].copy_from_slice(&counter.to_be_bytes());
    *counter += 1;
    let nonce = Nonce::assume_unique_for_key(*clear);
    let sealed = key.seal_in_place_separate_tag(nonce, Aad::from(&*clear), plaintext);
    tag.copy_from_slice(sealed.expect("AES-GCM seals any datagram").as_ref());
}

fn key(bytes: [u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &bytes).expect("32 bytes are a key"))
}

const INCOMING: [u8; 32] = [1; 32];
const OUTGOING: [u8; 32] = [2; 32];
const CLEAR: [u8; RecordHeader::LEN] = [0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
/// Where the destination stands in a PDU: after 12 bytes of fields and the source.
const DESTINATION: usize = 44;

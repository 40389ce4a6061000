//! What cannot be saved: AES-256-GCM open in place, one look-up, seal in place. No session, no
//! replay window, no epoch, no TTL, no check of a header. Sizes and layout of datagrams are those
//! of the switch: PDUs with names are looked up by a 32-byte name in a hash table, PDUs with a
//! label by a 4-byte index in an array.

use std::net::SocketAddr;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use foldhash::quality::RandomState;
use hashbrown::HashMap;
use rhumb_wire::Batch;
use rhumb_wire::datagram::{AEAD_TAG_LEN, RECORD_OVERHEAD, RecordHeader};

use crate::chance::Chance;
use crate::member::Form;

/// Opens with the key of the session that a datagram
/// comes on, seals with that of the one it goes to.
pub(crate) struct Resealer {
    incoming: Vec<LessSafeKey>,
    outgoing: Vec<Sealer>,
}

impl Resealer {
    pub(crate) fn new(sessions: usize) -> Self {
        let incoming = (0..sessions).map(|session| key(INCOMING, session)).collect();
        let outgoing = (0..sessions).map(|session| Sealer::new(OUTGOING, session)).collect();
        Self { incoming, outgoing }
    }

    /// The plaintext, or `None` when it is not from [`Ends`].
    #[inline]
    pub(crate) fn open<'a>(&self, datagram: &'a mut [u8]) -> Option<&'a mut [u8]> {
        open(&self.incoming, datagram)
    }

    /// Seals for next hop number `next`; hops share sessions when there are fewer of those.
    #[inline]
    pub(crate) fn seal(&mut self, next: u32, datagram: &mut [u8]) {
        let mask = self.outgoing.len() - 1;
        self.outgoing[next as usize & mask].seal(datagram);
    }
}

/// Where names, or labels, lead to.
pub(crate) enum Table {
    Names { next_hops: HashMap<[u8; 32], u32, RandomState>, names: Vec<[u8; 32]> },
    Labels { next_hops: Vec<u32> },
}

impl Table {
    pub(crate) fn new(form: Form, entries: usize, chance: &mut Chance) -> Self {
        match form {
            Form::Names => {
                let names: Vec<_> = (0..entries).map(|_| chance.name()).collect();
                Self::Names { next_hops: names.iter().copied().zip(0..).collect(), names }
            }
            Form::Labels => Self::Labels { next_hops: (0..entries as u32).collect() },
        }
    }

    pub(crate) fn form(&self) -> Form {
        match self {
            Self::Names { .. } => Form::Names,
            Self::Labels { .. } => Form::Labels,
        }
    }

    /// The next hop of an open PDU.
    #[inline]
    pub(crate) fn next_hop(&self, pdu: &[u8]) -> Option<u32> {
        match self {
            Self::Names { next_hops, .. } => {
                let name: &[u8; 32] = pdu.get(DESTINATION..)?.first_chunk()?;
                next_hops.get(name).copied()
            }
            Self::Labels { next_hops } => {
                let label = u32::from_be_bytes(*pdu.get(LABEL..)?.first_chunk()?);
                next_hops.get(label as usize).copied()
            }
        }
    }

    /// Addresses a PDU to entry number `entry`.
    pub(crate) fn address(&self, entry: usize, pdu: &mut [u8]) {
        match self {
            Self::Names { names, .. } => {
                pdu[DESTINATION..][..32].copy_from_slice(&names[entry]);
            }
            Self::Labels { .. } => {
                pdu[LABEL..][..4].copy_from_slice(&(entry as u32).to_be_bytes());
            }
        }
    }
}

impl Table {
    /// Addresses a PDU to a name that, drawn at random, is
    /// not in the table. Labels have no such thing.
    pub(crate) fn address_nowhere(&self, name: &[u8; 32], pdu: &mut [u8]) {
        if let Self::Names { .. } = self {
            pdu[DESTINATION..][..32].copy_from_slice(name);
        }
    }
}

/// All ends of what a [`Resealer`] forwards.
pub(crate) struct Ends {
    sources: Vec<Sealer>,
    sinks: Vec<LessSafeKey>,
}

impl Ends {
    pub(crate) fn new(sessions: usize) -> Self {
        let sources = (0..sessions).map(|session| Sealer::new(INCOMING, session)).collect();
        let sinks = (0..sessions).map(|session| key(OUTGOING, session)).collect();
        Self { sources, sinks }
    }

    /// Appends a PDU of `len` bytes that `address` has
    /// addressed, sealed on session number `session`.
    pub(crate) fn push(
        &mut self,
        batch: &mut Batch,
        peer: SocketAddr,
        (session, len): (usize, usize),
        address: impl FnOnce(&mut [u8]),
    ) {
        let datagram = batch.push_with(peer, RECORD_OVERHEAD + len);
        // Whatever stands in a reused batch is as good a payload as any.
        address(&mut datagram[RecordHeader::LEN..][..len]);
        self.sources[session].seal(datagram);
    }

    /// Whether a forwarded datagram is one of ours, sealed by the forwarder.
    pub(crate) fn opens(&self, datagram: &mut [u8]) -> bool {
        open(&self.sinks, datagram).is_some()
    }

    /// Whether a forwarded datagram is one of ours, as it left the source.
    pub(crate) fn is_untouched(&self, datagram: &mut [u8]) -> bool {
        open_with(&self.sources[session_of(datagram) as usize].key, datagram).is_some()
    }
}

/// Seals on one session. Its clear bytes are its number and a counter, and serve as the nonce.
struct Sealer {
    key: LessSafeKey,
    clear: [u8; 4],
    counter: u64,
}

impl Sealer {
    fn new(direction: u8, session: usize) -> Self {
        let clear = (TYPE | session as u32).to_be_bytes();
        Self { key: key(direction, session), clear, counter: 0 }
    }

    #[inline]
    fn seal(&mut self, datagram: &mut [u8]) {
        let (clear, rest) = datagram.split_first_chunk_mut::<12>().expect("room for a header");
        let (plaintext, tag) = rest.split_last_chunk_mut::<AEAD_TAG_LEN>().expect("room for a tag");
        clear[..4].copy_from_slice(&self.clear);
        clear[4..].copy_from_slice(&self.counter.to_be_bytes());
        self.counter += 1;
        if cfg!(rhumb_null_cipher) {
            return;
        }
        let nonce = Nonce::assume_unique_for_key(*clear);
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::from(&*clear), plaintext);
        tag.copy_from_slice(sealed.expect("AES-GCM seals any datagram").as_ref());
    }
}

#[inline]
fn open<'a>(keys: &[LessSafeKey], datagram: &'a mut [u8]) -> Option<&'a mut [u8]> {
    open_with(keys.get(session_of(datagram) as usize)?, datagram)
}

#[inline]
fn open_with<'a>(key: &LessSafeKey, datagram: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let (clear, sealed) = datagram.split_first_chunk_mut::<{ RecordHeader::LEN }>()?;
    if cfg!(rhumb_null_cipher) {
        let len = sealed.len().checked_sub(AEAD_TAG_LEN)?;
        return sealed.get_mut(..len);
    }
    let nonce = Nonce::assume_unique_for_key(*clear);
    key.open_in_place(nonce, Aad::from(&*clear), sealed).ok()
}

#[inline]
fn session_of(datagram: &[u8]) -> u32 {
    let clear = datagram.first_chunk().map_or(u32::MAX, |clear| u32::from_be_bytes(*clear));
    clear ^ TYPE
}

fn key(direction: u8, session: usize) -> LessSafeKey {
    let mut bytes = [direction; 32];
    bytes[..8].copy_from_slice(&(session as u64).to_be_bytes());
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &bytes).expect("32 bytes are a key"))
}

const INCOMING: u8 = 1;
const OUTGOING: u8 = 2;
/// That of a sealed PDU.
const TYPE: u32 = 0x8000_0000;
/// Where the destination stands in a PDU: after 12 bytes of fields and the source.
const DESTINATION: usize = 44;
/// Where a label stands.
const LABEL: usize = 12;

//! Bindings: a MAC over what of a packet must not change. `docs/platypus.md`, section 3.
//!
//! ```text
//! message = length of the header, 2 | index of the capability, 1 | "B"
//!           | the header, its pointer and all bindings zero
//! suite 1   CBC-MAC with AES-128 over the message, padded with zeros
//! suite 2   SipHash-2-4-128 over the message
//! suite 3   AES-128(m, POLYVAL(h, message padded | payload padded | lengths of both in bits)),
//!           h = PRF(m, "H")
//! ```
//!
//! The binding is the first half. The second half never leaves the
//! waypoint; its replay filter knows packets by it.

use aes::cipher::consts::U16;
use polyval::Polyval;
use polyval::universal_hash::{UniversalHash, common::array::Array};

use crate::header::{Layout, MAX_HEADER_LEN, POINTER_AT};
use crate::prf::{AesKey, BLOCK, PrfInput, sip};
use crate::side_by_side::LongKey;
use crate::{BINDING_LEN, Suite};

/// A header as bindings see it.
pub(crate) struct Message {
    bytes: [u8; MESSAGE_MAX],
    len: usize,
}

impl Message {
    pub(crate) fn empty() -> Self {
        Self { bytes: [0; MESSAGE_MAX], len: 0 }
    }

    /// The message of capability `index` of a header.
    #[inline]
    pub(crate) fn write(&mut self, header: &[u8], layout: &Layout, index: u8) {
        let len = usize::from(layout.header_len);
        let [high, low] = layout.header_len.to_be_bytes();
        self.bytes[..PREAMBLE].copy_from_slice(&[high, low, index, b'B']);
        self.bytes[PREAMBLE..PREAMBLE + len].copy_from_slice(&header[..len]);
        self.bytes[PREAMBLE + POINTER_AT] = 0;
        for place in &layout.places[..usize::from(layout.count)] {
            let at = PREAMBLE + place.binding_at();
            self.bytes[at..at + BINDING_LEN].fill(0);
        }
        self.len = PREAMBLE + len;
        self.bytes[self.len..self.len + BLOCK].fill(0);
    }

    /// Another capability of the same header.
    #[inline]
    pub(crate) fn set_index(&mut self, index: u8) {
        self.bytes[2] = index;
    }

    #[inline]
    pub(crate) fn blocks(&self) -> &[[u8; BLOCK]] {
        let (blocks, _) = self.bytes.as_chunks();
        &blocks[..self.len.div_ceil(BLOCK)]
    }

    fn unpadded(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A key of bindings, ready for use. A stamper has at most four.
#[expect(clippy::large_enum_variant, reason = "the largest is the one that is used")]
pub(crate) enum MacKey {
    /// Ready for one packet, and as it is for several side by side.
    Aes(AesKey, LongKey),
    Sip(crate::Secret),
    Polyval(Box<PolyvalKey>),
}

/// Boxed by whoever keeps it; the verifier makes one per packet, on the stack.
pub(crate) struct PolyvalKey {
    hash: Polyval,
    cipher: AesKey,
}

impl MacKey {
    pub(crate) fn new(suite: Suite, key: &[u8; BLOCK]) -> Self {
        match suite {
            Suite::HeaderAes => Self::Aes(AesKey::new(key), LongKey::new(key)),
            Suite::HeaderSip => Self::Sip(crate::Secret::new(*key)),
            Suite::PacketPolyval => Self::Polyval(Box::new(PolyvalKey::new(key))),
        }
    }

    pub(crate) fn mac(&self, message: &Message, payload: &[u8]) -> [u8; BLOCK] {
        match self {
            Self::Aes(key, _) => key.cbc_mac(message.blocks()),
            Self::Sip(key) => sip(key.expose(), message.unpadded()),
            Self::Polyval(key) => key.mac(message, payload),
        }
    }
}

impl PolyvalKey {
    pub(crate) fn new(key: &[u8; BLOCK]) -> Self {
        let cipher = AesKey::new(key);
        let hash_key = cipher.prf(&PrfInput::new(&[b"H"]));
        Self { hash: Polyval::new(&hash_key.into()), cipher }
    }

    pub(crate) fn mac(&self, message: &Message, payload: &[u8]) -> [u8; BLOCK] {
        let mut hash = self.hash.clone();
        hash.update(arrays(message.blocks()));
        let (whole, rest) = payload.as_chunks::<BLOCK>();
        hash.update(arrays(whole));
        if !rest.is_empty() {
            let mut last = [0; BLOCK];
            last[..rest.len()].copy_from_slice(rest);
            hash.update(arrays(&[last]));
        }
        let lengths = [message.len as u64 * 8, payload.len() as u64 * 8].map(u64::to_be_bytes);
        let mut lengths_block = [0; BLOCK];
        lengths_block.copy_from_slice(lengths.as_flattened());
        hash.update(arrays(&[lengths_block]));
        let mut state: [u8; BLOCK] = hash.finalize().into();
        self.cipher.encrypt(&mut state);
        state
    }
}

/// A MAC with a key that is used once: nothing is allocated.
pub(crate) fn mac_once(
    suite: Suite,
    key: &[u8; BLOCK],
    message: &Message,
    payload: &[u8],
) -> [u8; BLOCK] {
    match suite {
        Suite::HeaderAes => AesKey::new(key).cbc_mac(message.blocks()),
        Suite::HeaderSip => sip(key, message.unpadded()),
        Suite::PacketPolyval => PolyvalKey::new(key).mac(message, payload),
    }
}

fn arrays(blocks: &[[u8; BLOCK]]) -> &[Array<u8, U16>] {
    Array::cast_slice_from_core(blocks)
}

/// Before the header: its length, the index, a letter.
pub(crate) const PREAMBLE: usize = 4;
/// Blocks of the longest message.
pub(crate) const MESSAGE_BLOCKS: usize = (PREAMBLE + MAX_HEADER_LEN).div_ceil(BLOCK);
/// With one block more, since padding is written a whole block at a time.
const MESSAGE_MAX: usize = (MESSAGE_BLOCKS + 1) * BLOCK;

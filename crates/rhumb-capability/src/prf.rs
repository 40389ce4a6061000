//! The pseudorandom function that all secrets come from. `docs/platypus.md`, section 4.
//!
//! Invariant: inputs are prefix-free, since the first byte is the length;
//! CBC-MAC is a PRF on such inputs and on no others.

use aes::Aes128Enc;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::Suite;

/// What a secret is derived from: at most 31 bytes, with their number before them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrfInput {
    bytes: [u8; 2 * BLOCK],
    len: u8,
}

impl PrfInput {
    /// Blocks of an input, at most.
    pub(crate) const MOST_BLOCKS: usize = 2;

    /// The parts, one after the other.
    #[inline]
    pub(crate) fn new(parts: &[&[u8]]) -> Self {
        let mut bytes = [0; 2 * BLOCK];
        let mut len = 1;
        for part in parts {
            bytes[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        bytes[0] = len as u8 - 1;
        Self { bytes, len: len as u8 }
    }

    /// Three bytes, 8 bytes of the wire and 4 more are one block, here made of numbers and stored
    /// at once: whoever reads a block back from bytes just written waits for them.
    #[inline(always)]
    pub(crate) fn one_block(head: [u8; 3], wire: [u8; 8], tail: [u8; 4]) -> [u8; BLOCK] {
        let [a, b, c] = head;
        let start = u32::from_le_bytes([BLOCK as u8 - 1, a, b, c]);
        let (wire, tail) = (u64::from_le_bytes(wire), u32::from_le_bytes(tail));
        (u128::from(start) | u128::from(wire) << 32 | u128::from(tail) << 96).to_le_bytes()
    }

    /// Three bytes, and what of the wire follows them. Its length
    /// is a constant, so copying it takes no call.
    #[inline(always)]
    pub(crate) fn with_wire<const N: usize>(head: [u8; 3], wire: &[u8; N], tail: [u8; 4]) -> Self {
        let mut bytes = [0; 2 * BLOCK];
        bytes[0] = (7 + N) as u8;
        bytes[1..4].copy_from_slice(&head);
        bytes[4..4 + N].copy_from_slice(wire);
        bytes[4 + N..8 + N].copy_from_slice(&tail);
        Self { bytes, len: (8 + N) as u8 }
    }

    /// Padded with zeros to one or two blocks.
    #[inline]
    pub(crate) fn blocks(&self) -> &[[u8; BLOCK]] {
        let (blocks, _) = self.bytes.as_chunks();
        &blocks[..usize::from(self.len).div_ceil(BLOCK)]
    }

    fn unpadded(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// An AES-128 key, ready for use. Wiped when dropped.
pub(crate) struct AesKey(Aes128Enc);

impl AesKey {
    #[inline]
    pub(crate) fn new(key: &[u8; BLOCK]) -> Self {
        Self(Aes128Enc::new(key.into()))
    }

    #[inline]
    pub(crate) fn encrypt(&self, block: &mut [u8; BLOCK]) {
        self.0.encrypt_block(block.into());
    }

    /// CBC-MAC over whole blocks.
    #[inline]
    pub(crate) fn cbc_mac(&self, blocks: &[[u8; BLOCK]]) -> [u8; BLOCK] {
        let mut state = [0; BLOCK];
        for block in blocks {
            xor(&mut state, block);
            self.encrypt(&mut state);
        }
        state
    }

    #[inline]
    pub(crate) fn prf(&self, input: &PrfInput) -> [u8; BLOCK] {
        self.cbc_mac(input.blocks())
    }
}

/// The function of a suite.
pub(crate) fn prf(suite: Suite, key: &[u8; BLOCK], input: &PrfInput) -> [u8; BLOCK] {
    match suite {
        Suite::HeaderAes | Suite::PacketPolyval => AesKey::new(key).prf(input),
        Suite::HeaderSip => sip(key, input.unpadded()),
    }
}

/// SipHash-2-4 with 128 bits of output.
pub(crate) fn sip(key: &[u8; BLOCK], message: &[u8]) -> [u8; BLOCK] {
    let mut hasher = SipHasher24::new_with_key(key);
    std::hash::Hasher::write(&mut hasher, message);
    hasher.finish128().as_bytes()
}

#[inline]
pub(crate) fn xor(state: &mut [u8; BLOCK], other: &[u8; BLOCK]) {
    *state = (u128::from_ne_bytes(*state) ^ u128::from_ne_bytes(*other)).to_ne_bytes();
}

/// Bytes of a block, a key and an output.
pub(crate) const BLOCK: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 197, appendix C.1.
    #[test]
    fn aes_is_aes() {
        let key = std::array::from_fn(|at| at as u8);
        let mut block = std::array::from_fn(|at| (at * 0x11) as u8);
        AesKey::new(&key).encrypt(&mut block);
        assert_eq!(u128::from_be_bytes(block), 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a);
    }

    /// The reference implementation's vectors of SipHash-2-4-128, for 0, 1 and 63 bytes.
    #[test]
    fn sip_is_the_reference_siphash_of_128_bits() {
        let key = std::array::from_fn(|at| at as u8);
        let message: Vec<u8> = (0..63).collect();
        for (len, expected) in [
            (0, 0xa381_7f04_ba25_a8e6_6df6_7214_c755_0293_u128),
            (1, 0xda87_c1d8_6b99_af44_3476_5911_9b22_fc45),
            (63, 0x5150_d177_2f50_834a_503e_069a_973f_bd7c),
        ] {
            assert_eq!(sip(&key, &message[..len]), expected.to_be_bytes(), "{len} bytes");
        }
    }

    #[test]
    fn one_block_is_what_its_parts_say() {
        let whole = PrfInput::with_wire(*b"abc", b"defghijk", *b"lmno");
        let at_once = PrfInput::one_block(*b"abc", *b"defghijk", *b"lmno");
        assert_eq!([at_once], *whole.blocks());
    }

    #[test]
    fn inputs_begin_with_their_length() {
        let input = PrfInput::new(&[b"ab", b"", b"c"]);
        assert_eq!(input.unpadded(), b"\x03abc");
        assert_eq!(input.blocks().len(), 1);
        assert_eq!(PrfInput::new(&[&[7; 15]]).blocks().len(), 1);
        assert_eq!(PrfInput::new(&[&[7; 16]]).blocks().len(), 2);
        assert_eq!(PrfInput::new(&[&[7; 31]]).blocks().len(), 2);
    }
}

//! AES-128 as two things: a generator that stretches a seed, and the hash that breaks the correlation of extended OTs.
//!
//! The hash is that of Guo, Katz, Wang, Weng and Yu, "Better concrete security for half-gates garbling" (CRYPTO 2020,
//! MITCCRH): `H(x, i) = E(start ^ i, s(x)) ^ s(x)` with `s(l | r) = l^r | l`. Its tweak `i` is a [`Place`] in the extension.
//!
//! Invariant: a place is used once. A session counts the blocks of each use upwards and never back, and a use's number is
//! part of the place, so no two blocks of a direction share a key; 128 OTs of one block do, which costs 8 bits of security.

use aes::Aes128Enc;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

/// Blocks of 128 bits that are encrypted with one call.
const AT_ONCE: usize = 16;

/// Which OTs: the use they are made for, and a count of blocks of 128 within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) usage: Usage,
    pub(crate) block: u64,
}

/// What a block of a stream is for. Streams of different uses never meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    BitTriples = 1,
    VectorTriples = 2,
    Orders = 3,
    /// The two children of a node of a tree.
    Tree = 4,
    /// Shares of a translation.
    Translation = 5,
}

impl Place {
    fn number(self) -> u128 {
        (self.usage as u128) << 64 | u128::from(self.block)
    }
}

/// Stretches a seed of 16 bytes. Wiped when dropped.
pub(crate) struct Generator(Aes128Enc);

impl Generator {
    pub(crate) fn new(seed: u128) -> Self {
        Self(Aes128Enc::new(&seed.to_le_bytes().into()))
    }

    /// Block `first.block + i` of the stream of its use, for all i.
    #[inline]
    pub(crate) fn fill(&self, first: Place, out: &mut [u128]) {
        for (number, value) in out.iter_mut().enumerate() {
            *value = Place { block: first.block + number as u64, ..first }.number();
        }
        encrypt(&self.0, out);
    }

    /// The seeds of both children of a node.
    pub(crate) fn children(seed: u128) -> [u128; 2] {
        let mut children = [0; 2];
        Self::new(seed).fill(Place { usage: Usage::Tree, block: 0 }, &mut children);
        children
    }
}

/// The hash, with the start point of one direction of a session.
pub(crate) struct CorrelationHash {
    start: u128,
}

impl CorrelationHash {
    pub(crate) fn new(start: u128) -> Self {
        Self { start }
    }

    /// The hash of all blocks of 128 OTs that have this place.
    #[inline]
    pub(crate) fn at(&self, place: Place) -> KeyedHash {
        KeyedHash(Aes128Enc::new(&(self.start ^ place.number()).to_le_bytes().into()))
    }
}

/// The hash at one place.
pub(crate) struct KeyedHash(Aes128Enc);

impl KeyedHash {
    #[inline]
    pub(crate) fn apply(&self, values: &mut [u128; 128]) {
        for values in values.as_chunks_mut::<AT_ONCE>().0 {
            let mixed = values.map(orthomorphism);
            *values = mixed;
            encrypt(&self.0, values);
            for (value, mixed) in values.iter_mut().zip(mixed) {
                *value ^= mixed;
            }
        }
    }
}

/// Linear, a permutation, and a permutation still when its argument is added.
#[inline]
fn orthomorphism(value: u128) -> u128 {
    let high = value & (u128::MAX << 64);
    value.rotate_left(64) ^ high
}

#[inline]
fn encrypt(key: &Aes128Enc, values: &mut [u128]) {
    for values in values.chunks_mut(AT_ONCE) {
        let mut blocks = [aes::Block::default(); AT_ONCE];
        for (block, value) in blocks.iter_mut().zip(&*values) {
            *block = value.to_le_bytes().into();
        }
        let used = &mut blocks[..values.len()];
        key.encrypt_blocks(used);
        for (value, block) in values.iter_mut().zip(used) {
            *value = u128::from_le_bytes((*block).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 197, appendix C.1.
    #[test]
    fn the_cipher_is_aes_128() {
        let key = Aes128Enc::new(&std::array::from_fn(|i| i as u8).into());
        let mut values =
            [u128::from_be_bytes(std::array::from_fn(|i| i as u8 * 0x11)).swap_bytes()];
        encrypt(&key, &mut values);
        assert_eq!(values[0].swap_bytes(), 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a);
    }

    #[test]
    fn the_stream_is_the_same_in_pieces_and_differs_by_use() {
        let generator = Generator::new(7);
        let place = |block| Place { usage: Usage::BitTriples, block };
        let (mut whole, mut piece, mut other) = ([0; 40], [0; 3], [0; 3]);
        generator.fill(place(5), &mut whole);
        generator.fill(place(22), &mut piece);
        assert_eq!(whole[17..20], piece);
        generator.fill(Place { usage: Usage::VectorTriples, block: 22 }, &mut other);
        assert_ne!(piece, other);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        let place = Place { usage: Usage::Orders, block: 3 };
        let hash = CorrelationHash::new(99);
        let x = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978_u128;
        let mut values = [x; 128];
        hash.at(place).apply(&mut values);
        let (left, right) = ((x >> 64) as u64, x as u64);
        let mixed = u128::from(left ^ right) << 64 | u128::from(left);
        let mut expected = [mixed];
        let key = Aes128Enc::new(&(99 ^ (3_u128 << 64 | 3)).to_le_bytes().into());
        encrypt(&key, &mut expected);
        assert!(values.iter().all(|value| *value == expected[0] ^ mixed));
    }
}

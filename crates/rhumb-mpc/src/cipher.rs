//! AES-128 as two things: generators that stretch seeds, and the hash that breaks the correlation
//! of extended OTs. How it is made fast is in `side_by_side.rs`.
//!
//! The hash is that of Guo, Katz, Wang, Weng and Yu, "Better concrete security for half-gates
//! garbling" (CRYPTO 2020, MITCCRH): `H(x, i) = E(start ^ i, s(x)) ^ s(x)` with `s(l | r) = l^r |
//! l`. Its tweak `i` is a [`Place`] in the extension.
//!
//! Invariant: a place is used once. A session counts the blocks of each use upwards and never back,
//! and a use's number is part of the place, so no two blocks of a direction share a key; 128 OTs of
//! one block do, which costs 8 bits of security.

use zeroize::Zeroizing;

use crate::side_by_side::{self, Generators, Quad, ROW_BLOCKS, Row, Squares};

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

/// The streams of the generators in `which` from `first` on, one
/// after the other, in equal parts of `streams`.
#[inline]
pub(crate) fn stretch(
    generators: &Generators,
    which: std::ops::Range<usize>,
    first: Place,
    streams: &mut [Quad],
) {
    // A session ends long before it has used 2^64 blocks.
    generators.stretch(which, first.number(), streams);
}

/// The seeds of both children of each node.
pub(crate) fn children(nodes: &[u128]) -> Zeroizing<Vec<[u128; 2]>> {
    let blocks = [0, 1].map(|block| Place { usage: Usage::Tree, block }.number());
    let mut children = Zeroizing::new(vec![[0; 2]; nodes.len()]);
    side_by_side::children(nodes, blocks, &mut children);
    children
}

/// The hash, with the start point of one direction of a session.
pub(crate) struct CorrelationHash {
    start: u128,
}

impl CorrelationHash {
    pub(crate) fn new(start: u128) -> Self {
        Self { start }
    }

    /// Hashes all blocks of 16 columns of 128 OTs; `first` is the place of the first column.
    #[inline]
    pub(crate) fn apply(&self, first: Place, rows: &mut [Row]) {
        side_by_side::hash(rows, &self.keys(first));
    }

    /// The lowest bits of the hashes of all blocks plus `delta`, in words by column.
    #[inline]
    pub(crate) fn to_bits(
        &self,
        first: Place,
        squares: &Squares,
        delta: u128,
    ) -> [u64; 2 * ROW_BLOCKS] {
        side_by_side::hash_to_bits(squares, delta, &self.keys(first))
    }

    fn keys(&self, first: Place) -> [u128; ROW_BLOCKS] {
        std::array::from_fn(|column| {
            let place = Place { block: first.block + column as u64, ..first };
            self.start ^ place.number()
        })
    }
}

#[cfg(test)]
mod tests {
    use aes::Aes128Enc;
    use aes::cipher::{BlockCipherEncrypt, KeyInit};

    use super::*;

    #[test]
    fn the_stream_is_the_same_in_pieces_and_differs_by_use() {
        let generators = Generators::new(&[7]);
        let place = |block| Place { usage: Usage::BitTriples, block };
        let (mut whole, mut piece, mut other) = ([[0; 8]; 10], [[0; 8]; 2], [[0; 8]; 2]);
        stretch(&generators, 0..1, place(5), &mut whole);
        stretch(&generators, 0..1, place(21), &mut piece);
        assert_eq!(whole[4..6], piece);
        stretch(&generators, 0..1, Place { usage: Usage::VectorTriples, block: 21 }, &mut other);
        assert_ne!(piece, other);
    }

    #[test]
    fn the_children_of_a_node_are_its_stream() {
        let mut stream = [[0; 8]];
        let place = Place { usage: Usage::Tree, block: 0 };
        stretch(&Generators::new(&[99]), 0..1, place, &mut stream);
        let words: Vec<u64> = children(&[99])[0]
            .iter()
            .flat_map(|child| [*child as u64, (*child >> 64) as u64])
            .collect();
        assert_eq!(words, stream[0][..4]);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        let place = Place { usage: Usage::Orders, block: 3 };
        let hash = CorrelationHash::new(99);
        let x = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978_u128;
        let (left, right) = ((x >> 64) as u64, x as u64);
        let mut squares = Box::new([[[0; 8]; 4]; 128]);
        for words in squares.as_flattened_mut().as_flattened_mut().as_chunks_mut().0 {
            *words = [right, left];
        }
        let bits = hash.to_bits(place, &squares, 0);
        hash.apply(place, &mut squares[..]);
        for column in 0..ROW_BLOCKS {
            let mixed = u128::from(left ^ right) << 64 | u128::from(left);
            let key = 99 ^ (3_u128 << 64 | (3 + column as u128));
            let mut block = mixed.to_le_bytes().into();
            Aes128Enc::new(&key.to_le_bytes().into()).encrypt_block(&mut block);
            let expected = u128::from_le_bytes(block.into()) ^ mixed;
            for row in squares.iter() {
                let words = &row.as_flattened()[2 * column..2 * column + 2];
                assert_eq!(words, [expected as u64, (expected >> 64) as u64]);
            }
            let word = 0_u64.wrapping_sub(expected as u64 & 1);
            assert_eq!(bits[2 * column..2 * column + 2], [word, word]);
        }
    }
}

//! Many random oblivious transfers from 128: SoftSpoken OT (Roy, CRYPTO 2022), without its checks,
//! since the parties are honest but curious.
//!
//! 1. The 128 transfers make `128 / k` trees of `2^k` leaves; of each the extension's receiver
//!    knows all leaves, and its sender all but leaf `delta` of that tree (`tree.rs`).
//! 2. Each leaf is stretched. The receiver has `u` = the sum of all leaves, and `v_j` = the sum of
//!    those whose number has bit j. The sender, with its leaves renumbered by their distance from
//!    `delta`, has `w_j = v_j + delta_j u`.
//! 3. `u` of the first tree are the receiver's choices. For each other tree it sends the
//!    difference, 1 bit per transfer.
//! 4. Turned over, transfer `l` is a row `t` of the receiver and a row `q = t + u delta` of the
//!    sender. Hashed, the sender has two random values, and the receiver the one it chose.

use subtle::{ConditionallySelectable, ConstantTimeEq};
use zeroize::{Zeroize, Zeroizing};

use crate::FieldBits;
use crate::MpcError;
use crate::cipher::{CorrelationHash, Place, stretch};
use crate::side_by_side::{Aligned, Generators, Quad, ROW_BLOCKS, Row, Squares, fold, turn};
use crate::tree::{grow, grow_punctured};

/// Blocks of 128 transfers that are extended with one call: with 128 rows of 256
/// bytes, the squares stay in a first-level cache.
pub(crate) const CHUNK_BLOCKS: usize = ROW_BLOCKS;
/// Words of 64 transfers in a chunk.
pub(crate) const CHUNK_WORDS: usize = 2 * CHUNK_BLOCKS;
/// Transfers of a chunk.
pub(crate) const CHUNK: usize = 128 * CHUNK_BLOCKS;
const ROW_BYTES: usize = CHUNK / 8;

/// A chunk's rows: a bit of each transfer in each, and when they are turned over, the value of a
/// transfer in each column. Wiped when dropped.
pub(crate) struct Rows(Box<Aligned<Squares>>);

impl Rows {
    pub(crate) fn new() -> Self {
        Self(Box::new(Aligned([NO_ROW; 128])))
    }

    /// The values of the 64 transfers of this word of the chunk.
    #[inline]
    pub(crate) fn word(&self, word: usize) -> impl Iterator<Item = u128> {
        let numbers = move |[low, high]: [u64; 2]| u128::from(high) << 64 | u128::from(low);
        self.halves(word).map(numbers)
    }

    /// The same, four together.
    #[inline]
    pub(crate) fn quads(&self, word: usize) -> impl Iterator<Item = Aligned<Quad>> {
        let mut halves = self.halves(word);
        (0..16).map(move |_| {
            let mut quad = Quad::default();
            for (place, value) in quad.as_chunks_mut::<2>().0.iter_mut().zip(halves.by_ref()) {
                *place = value;
            }
            Aligned(quad)
        })
    }

    #[inline]
    fn halves(&self, word: usize) -> impl Iterator<Item = [u64; 2]> {
        let (block, side) = (word / 2, word % 2);
        self.0.0[64 * side..64 * (side + 1)].iter().map(move |row| {
            let words = row.as_flattened();
            [words[2 * block], words[2 * block + 1]]
        })
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.0.0.as_flattened_mut().as_flattened_mut().zeroize();
    }
}

/// What the receiver of a chunk sends for it, in bytes.
pub(crate) fn correction_len(field: FieldBits) -> usize {
    (field.trees() - 1) * ROW_BYTES
}

/// The side that makes choices.
pub(crate) struct ExtensionReceiver {
    field: FieldBits,
    leaves: Generators,
    hash: CorrelationHash,
}

impl ExtensionReceiver {
    /// Grows the trees, from the keys of the transfers
    /// that it sends; appends what the sender needs.
    pub(crate) fn new(
        field: FieldBits,
        pairs: &[[u128; 2]],
        start: u128,
        corrections: &mut Vec<[u128; 2]>,
    ) -> Self {
        let mut leaves = Zeroizing::new(Vec::with_capacity(field.trees() << field.bits()));
        for pairs in pairs.chunks_exact(field.bits()) {
            leaves.extend_from_slice(&grow(pairs, corrections));
        }
        let leaves = Generators::new(&leaves);
        Self { field, leaves, hash: CorrelationHash::new(start) }
    }

    /// Fills `rows`, appends [`correction_len`] bytes, and gives the
    /// choices, 64 to a word. No place is used twice.
    pub(crate) fn extend(
        &self,
        first: Place,
        rows: &mut Rows,
        corrections: &mut Vec<u8>,
    ) -> [u64; CHUNK_WORDS] {
        let bits = self.field.bits();
        let mut streams = Zeroizing::new(Aligned([NO_ROW; MAX_LEAVES]));
        let mut choices = [0; CHUNK_WORDS];
        for (tree, rows) in rows.0.0.chunks_exact_mut(bits).enumerate() {
            let leaves = tree << bits..(tree + 1) << bits;
            let streams = &mut streams.0[..1 << bits];
            stretch(&self.leaves, leaves, first, streams.as_flattened_mut());
            fold(streams, rows);
            let sum = streams[0].as_flattened();
            if tree == 0 {
                choices.copy_from_slice(sum);
                continue;
            }
            let mut correction = [0; ROW_BYTES];
            let words = correction.as_chunks_mut().0.iter_mut();
            for ((bytes, sum), choice) in words.zip(sum).zip(&choices) {
                *bytes = (sum ^ choice).to_le_bytes();
            }
            corrections.extend_from_slice(&correction);
        }
        turn(&mut rows.0.0);
        choices
    }

    /// Puts the chosen values of all transfers into the rows
    /// that [`ExtensionReceiver::extend`] filled.
    #[inline]
    pub(crate) fn values(&self, first: Place, rows: &mut Rows) {
        self.hash.apply(first, &mut rows.0.0[..]);
    }

    /// The lowest bits of the chosen values, 64 to a word.
    #[inline]
    pub(crate) fn bits(&self, first: Place, rows: &Rows) -> [u64; CHUNK_WORDS] {
        self.hash.to_bits(first, &rows.0.0, 0)
    }
}

/// The side that has both values.
pub(crate) struct ExtensionSender {
    field: FieldBits,
    delta: Zeroizing<u128>,
    leaves: Generators,
    hash: CorrelationHash,
}

impl ExtensionSender {
    /// Grows the punctured trees. Bit `i` of `delta` is what
    /// this party did *not* choose in transfer `i`.
    pub(crate) fn new(
        field: FieldBits,
        chosen: &[u128],
        delta: u128,
        start: u128,
        corrections: &[[u128; 2]],
    ) -> Self {
        let bits = field.bits();
        let mut leaves = Zeroizing::new(Vec::with_capacity(field.trees() << bits));
        for (tree, chosen) in chosen.chunks_exact(bits).enumerate() {
            let missing = missing_leaf(delta, tree, bits);
            let corrections = &corrections[tree * (bits - 1)..(tree + 1) * (bits - 1)];
            let grown = grow_punctured(chosen, missing, corrections);
            for distance in 0..1_u32 << bits {
                let mut leaf = 0;
                for (number, value) in grown.iter().enumerate() {
                    let wanted = (number as u32).ct_eq(&(distance ^ missing));
                    leaf.conditional_assign(value, wanted);
                }
                leaves.push(leaf);
            }
        }
        let leaves = Generators::new(&leaves);
        Self { field, delta: Zeroizing::new(delta), leaves, hash: CorrelationHash::new(start) }
    }

    /// Fills `rows`, with what the receiver sent: [`correction_len`] bytes.
    pub(crate) fn extend(
        &self,
        first: Place,
        rows: &mut Rows,
        corrections: &[u8],
    ) -> Result<(), MpcError> {
        if corrections.len() != correction_len(self.field) {
            return Err(MpcError::Malformed("corrections of an extension"));
        }
        let bits = self.field.bits();
        let mut streams = Zeroizing::new(Aligned([NO_ROW; MAX_LEAVES]));
        let mut corrections = corrections.as_chunks::<ROW_BYTES>().0.iter();
        for (tree, rows) in rows.0.0.chunks_exact_mut(bits).enumerate() {
            let streams = &mut streams.0[..1 << bits];
            // The missing leaf is at distance zero, and counts for nothing.
            let known = (tree << bits) + 1..(tree + 1) << bits;
            streams[0] = NO_ROW;
            stretch(&self.leaves, known, first, streams[1..].as_flattened_mut());
            fold(streams, rows);
            let correction = if tree == 0 { None } else { corrections.next() };
            let Some(correction) = correction else { continue };
            let missing = missing_leaf(*self.delta, tree, bits);
            for (level, row) in rows.iter_mut().enumerate() {
                let bit = row_bit(level, bits);
                let mask = 0_u64.wrapping_sub(u64::from(missing >> bit & 1));
                let words = row.as_flattened_mut().iter_mut();
                for (word, bytes) in words.zip(correction.as_chunks().0) {
                    *word ^= u64::from_le_bytes(*bytes) & mask;
                }
            }
        }
        turn(&mut rows.0.0);
        Ok(())
    }

    /// Puts the first values of all transfers into the rows that [`ExtensionSender::extend`]
    /// filled, and the second ones into `others`.
    #[inline]
    pub(crate) fn values(&self, first: Place, rows: &mut Rows, others: &mut Rows) {
        let [low, high] = [*self.delta as u64, (*self.delta >> 64) as u64];
        let words = others.0.0.as_flattened_mut().as_flattened_mut().as_chunks_mut::<2>().0;
        let of = rows.0.0.as_flattened().as_flattened().as_chunks::<2>().0;
        for (other, value) in words.iter_mut().zip(of) {
            *other = [value[0] ^ low, value[1] ^ high];
        }
        self.hash.apply(first, &mut rows.0.0[..]);
        self.hash.apply(first, &mut others.0.0[..]);
    }

    /// The lowest bits of both values, 64 to a word.
    #[inline]
    pub(crate) fn bits(&self, first: Place, rows: &Rows) -> [[u64; CHUNK_WORDS]; 2] {
        [0, *self.delta].map(|delta| self.hash.to_bits(first, &rows.0.0, delta))
    }
}

/// Row `level` of a tree is about bit `bits - 1 - level` of the
/// leaves' numbers, as level `level` of the tree is.
fn row_bit(level: usize, bits: usize) -> usize {
    bits - 1 - level
}

/// `delta`'s bits of one tree; the first is the highest, since it leads from the root.
fn missing_leaf(delta: u128, tree: usize, bits: usize) -> u32 {
    (0..bits).fold(0, |leaf, level| leaf << 1 | (delta >> (tree * bits + level)) as u32 & 1)
}

const NO_ROW: Row = [[0; 8]; 4];
/// With k = 4.
const MAX_LEAVES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base_ot::tests::transferred;
    use crate::cipher::Usage;

    fn pair(field: FieldBits, delta: u128) -> (ExtensionReceiver, ExtensionSender) {
        let [(pairs, _), (_, chosen)] = transferred([0, !delta]);
        let mut corrections = Vec::new();
        let receiver = ExtensionReceiver::new(field, &pairs, 77, &mut corrections);
        (receiver, ExtensionSender::new(field, &chosen, delta, 77, &corrections))
    }

    #[test]
    fn the_receiver_has_the_value_it_chose_and_not_the_other() {
        let delta = 0xfeed_f00d_0123_4567_89ab_cdef_5555_1234;
        for field in [FieldBits::Two, FieldBits::Four] {
            let (receiver, sender) = pair(field, delta);
            let [mut mine, mut theirs, mut others] = [(); 3].map(|()| Rows::new());
            let (mut sent, mut ones) = (Vec::new(), 0);
            for chunk in 0..3 {
                let first = Place { usage: Usage::BitTriples, block: chunk * CHUNK_BLOCKS as u64 };
                sent.clear();
                let choices = receiver.extend(first, &mut mine, &mut sent);
                assert_eq!(sent.len(), correction_len(field));
                sender.extend(first, &mut theirs, &sent).unwrap();
                let bits = (receiver.bits(first, &mine), sender.bits(first, &theirs));
                receiver.values(first, &mut mine);
                sender.values(first, &mut theirs, &mut others);
                for (word, choices) in choices.iter().enumerate() {
                    let both = theirs.word(word).zip(others.word(word));
                    for (lane, (chosen, both)) in mine.word(word).zip(both).enumerate() {
                        let pair = if choices >> lane & 1 == 1 { (both.1, both.0) } else { both };
                        assert_eq!(chosen, pair.0);
                        assert_ne!(chosen, pair.1);
                        let lowest = |bits: &[u64; CHUNK_WORDS]| bits[word] >> lane & 1;
                        assert_eq!(lowest(&bits.0), chosen as u64 & 1);
                        assert_eq!(lowest(&bits.1[0]), both.0 as u64 & 1);
                        assert_eq!(lowest(&bits.1[1]), both.1 as u64 & 1);
                    }
                    ones += choices.count_ones();
                }
            }
            // 6144 fair coins: the bounds are eight standard deviations away.
            assert!((2758..3386).contains(&ones), "{ones} ones");
        }
    }

    #[test]
    fn corrections_of_another_length_are_refused() {
        let (_, sender) = pair(FieldBits::Two, 5);
        let place = Place { usage: Usage::BitTriples, block: 0 };
        for len in [0, correction_len(FieldBits::Two) - 1, correction_len(FieldBits::Two) + 1] {
            let result = sender.extend(place, &mut Rows::new(), &vec![0; len]);
            assert_eq!(result, Err(MpcError::Malformed("corrections of an extension")));
        }
    }
}

//! Many random oblivious transfers from 128: SoftSpoken OT (Roy, CRYPTO 2022), without its checks, since the parties are
//! honest but curious.
//!
//! 1. The 128 transfers make `128 / k` trees of `2^k` leaves; of each the extension's receiver knows all leaves, and its
//!    sender all but leaf `delta` of that tree (`tree.rs`).
//! 2. Each leaf is stretched. The receiver has `u` = the sum of all leaves, and `v_j` = the sum of those whose number has bit
//!    j. The sender, with its leaves renumbered by their distance from `delta`, has `w_j = v_j + delta_j u`.
//! 3. `u` of the first tree are the receiver's choices. For each other tree it sends the difference, 1 bit per transfer.
//! 4. Turned over, transfer `l` is a row `t` of the receiver and a row `q = t + u delta` of the sender. Hashed, the sender has two
//!    random values, and the receiver the one it chose.

use subtle::{ConditionallySelectable, ConstantTimeEq};
use zeroize::{Zeroize, Zeroizing};

use crate::FieldBits;
use crate::MpcError;
use crate::base_ot::BaseKeys;
use crate::cipher::{CorrelationHash, Generator, Place};
use crate::transpose::transpose;
use crate::tree::{grow, grow_punctured};

/// Blocks of 128 transfers that are extended with one call: with 128 rows of 256 bytes, the square stays in a first-level cache.
pub(crate) const CHUNK_BLOCKS: usize = 16;
/// Transfers of a chunk.
pub(crate) const CHUNK: usize = 128 * CHUNK_BLOCKS;
const ROW_BYTES: usize = CHUNK / 8;
/// A bit of each transfer of a chunk.
pub(crate) type Row = [u128; CHUNK_BLOCKS];

/// A chunk's rows before they are turned over. Wiped when dropped.
pub(crate) struct Rows(Box<[Row; 128]>);

impl Rows {
    pub(crate) fn new() -> Self {
        Self(Box::new([[0; CHUNK_BLOCKS]; 128]))
    }

    /// The rows of 128 transfers, one each.
    #[inline]
    fn block(&self, block: usize, square: &mut [u128; 128]) {
        for (value, row) in square.iter_mut().zip(self.0.iter()) {
            *value = row[block];
        }
        transpose(square);
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.0.as_flattened_mut().zeroize();
    }
}

/// What the receiver of a chunk sends for it, in bytes.
pub(crate) fn correction_len(field: FieldBits) -> usize {
    (field.trees() - 1) * ROW_BYTES
}

/// The side that makes choices.
pub(crate) struct ExtensionReceiver {
    field: FieldBits,
    leaves: Vec<Generator>,
    hash: CorrelationHash,
}

impl ExtensionReceiver {
    /// Grows the trees, from the keys of the transfers that it sends; appends what the sender needs.
    pub(crate) fn new(
        field: FieldBits,
        keys: &BaseKeys,
        start: u128,
        corrections: &mut Vec<[u128; 2]>,
    ) -> Self {
        let mut leaves = Vec::new();
        for pairs in keys.pairs.chunks_exact(field.bits()) {
            let grown = grow(pairs, corrections);
            leaves.extend(grown.iter().map(|leaf| Generator::new(*leaf)));
        }
        Self { field, leaves, hash: CorrelationHash::new(start) }
    }

    /// Fills `rows`, appends [`correction_len`] bytes, and gives the choices. No place is used twice.
    pub(crate) fn extend(&self, first: Place, rows: &mut Rows, corrections: &mut Vec<u8>) -> Row {
        let bits = self.field.bits();
        let mut streams = Zeroizing::new([[0; CHUNK_BLOCKS]; MAX_LEAVES]);
        let mut choices = [0; CHUNK_BLOCKS];
        let trees = self.leaves.chunks_exact(1 << bits).zip(rows.0.chunks_exact_mut(bits));
        for (tree, (leaves, rows)) in trees.enumerate() {
            for (leaf, stream) in leaves.iter().zip(streams.iter_mut()) {
                leaf.fill(first, stream);
            }
            fold(&mut streams[..1 << bits], rows);
            if tree == 0 {
                choices = streams[0];
            } else {
                for (sum, choice) in streams[0].iter().zip(&choices) {
                    corrections.extend_from_slice(&(sum ^ choice).to_le_bytes());
                }
            }
        }
        choices
    }

    /// The chosen values of block `block` of the rows, whose place is `place`.
    #[inline]
    pub(crate) fn values(&self, rows: &Rows, block: usize, place: Place, values: &mut [u128; 128]) {
        rows.block(block, values);
        self.hash.at(place).apply(values);
    }
}

/// The side that has both values.
pub(crate) struct ExtensionSender {
    field: FieldBits,
    delta: Zeroizing<u128>,
    leaves: Vec<Generator>,
    hash: CorrelationHash,
}

impl ExtensionSender {
    /// Grows the punctured trees. Bit `i` of `delta` is what this party did *not* choose in transfer `i`.
    pub(crate) fn new(
        field: FieldBits,
        keys: &BaseKeys,
        delta: u128,
        start: u128,
        corrections: &[[u128; 2]],
    ) -> Self {
        let bits = field.bits();
        let mut leaves = Vec::new();
        for (tree, chosen) in keys.chosen.chunks_exact(bits).enumerate() {
            let missing = missing_leaf(delta, tree, bits);
            let corrections = &corrections[tree * (bits - 1)..(tree + 1) * (bits - 1)];
            let grown = grow_punctured(chosen, missing, corrections);
            for distance in 0..1_u32 << bits {
                let mut leaf = 0;
                for (number, value) in grown.iter().enumerate() {
                    let wanted = (number as u32).ct_eq(&(distance ^ missing));
                    leaf.conditional_assign(value, wanted);
                }
                leaves.push(Generator::new(leaf));
            }
        }
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
        let mut streams = Zeroizing::new([[0; CHUNK_BLOCKS]; MAX_LEAVES]);
        let mut corrections = corrections.as_chunks::<ROW_BYTES>().0.iter();
        let trees = self.leaves.chunks_exact(1 << bits).zip(rows.0.chunks_exact_mut(bits));
        for (tree, (leaves, rows)) in trees.enumerate() {
            streams[0] = [0; CHUNK_BLOCKS];
            for (leaf, stream) in leaves.iter().zip(streams.iter_mut()).skip(1) {
                leaf.fill(first, stream);
            }
            fold(&mut streams[..1 << bits], rows);
            let correction = if tree == 0 { None } else { corrections.next() };
            let Some(correction) = correction else { continue };
            let missing = missing_leaf(*self.delta, tree, bits);
            for (level, row) in rows.iter_mut().enumerate() {
                let bit = row_bit(level, bits);
                let mask = 0_u128.wrapping_sub(u128::from(missing >> bit & 1));
                for (value, bytes) in row.iter_mut().zip(correction.as_chunks().0) {
                    *value ^= u128::from_le_bytes(*bytes) & mask;
                }
            }
        }
        Ok(())
    }

    /// Both values of block `block` of the rows, whose place is `place`.
    #[inline]
    pub(crate) fn values(
        &self,
        rows: &Rows,
        block: usize,
        place: Place,
        values: &mut [[u128; 128]; 2],
    ) {
        let [zero, one] = values;
        rows.block(block, zero);
        for (one, zero) in one.iter_mut().zip(&*zero) {
            *one = zero ^ *self.delta;
        }
        let hash = self.hash.at(place);
        hash.apply(zero);
        hash.apply(one);
    }
}

/// Row `level` of a tree is about bit `bits - 1 - level` of the leaves' numbers, as level `level` of the tree is.
fn row_bit(level: usize, bits: usize) -> usize {
    bits - 1 - level
}

/// `delta`'s bits of one tree; the first is the highest, since it leads from the root.
fn missing_leaf(delta: u128, tree: usize, bits: usize) -> u32 {
    (0..bits).fold(0, |leaf, level| leaf << 1 | (delta >> (tree * bits + level)) as u32 & 1)
}

/// Leaves in `streams[0]` the sum of all streams, in `rows[level]` that of those whose number has the level's bit.
#[inline]
fn fold(streams: &mut [Row], rows: &mut [Row]) {
    let mut streams = streams;
    for row in rows.iter_mut() {
        let half = streams.len() / 2;
        let (low, high) = streams.split_at_mut(half);
        *row = [0; CHUNK_BLOCKS];
        for (low, high) in low.iter_mut().zip(high) {
            for ((low, high), sum) in low.iter_mut().zip(high).zip(row.iter_mut()) {
                *low ^= *high;
                *sum ^= *high;
            }
        }
        streams = low;
    }
}

/// With k = 4.
const MAX_LEAVES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base_ot::BaseTransfers;
    use crate::cipher::Usage;
    use crate::coins::Seed;

    fn pair(field: FieldBits, delta: u128) -> (ExtensionReceiver, ExtensionSender) {
        let one = BaseTransfers::new(&Seed::new([1; 32]), 0);
        let two = BaseTransfers::new(&Seed::new([2; 32]), !delta);
        let messages = [one.message().to_vec(), two.message().to_vec()];
        let mut corrections = Vec::new();
        let keys = one.finish(&messages[1], &[3; 32]).unwrap();
        let receiver = ExtensionReceiver::new(field, &keys, 77, &mut corrections);
        let keys = two.finish(&messages[0], &[3; 32]).unwrap();
        (receiver, ExtensionSender::new(field, &keys, delta, 77, &corrections))
    }

    #[test]
    fn the_receiver_has_the_value_it_chose_and_not_the_other() {
        let delta = 0xfeed_f00d_0123_4567_89ab_cdef_5555_1234;
        for field in [FieldBits::Two, FieldBits::Four] {
            let (receiver, sender) = pair(field, delta);
            let (mut mine, mut theirs, mut sent) = (Rows::new(), Rows::new(), Vec::new());
            let mut ones = 0;
            for chunk in 0..3 {
                let place = |block| Place { usage: Usage::BitTriples, block };
                let first = chunk * CHUNK_BLOCKS as u64;
                sent.clear();
                let choices = receiver.extend(place(first), &mut mine, &mut sent);
                assert_eq!(sent.len(), correction_len(field));
                sender.extend(place(first), &mut theirs, &sent).unwrap();
                for (block, choices) in choices.iter().enumerate() {
                    let place = place(first + block as u64);
                    let (mut chosen, mut both) = ([0; 128], [[0; 128]; 2]);
                    receiver.values(&mine, block, place, &mut chosen);
                    sender.values(&theirs, block, place, &mut both);
                    for (number, chosen) in chosen.iter().enumerate() {
                        let choice = (choices >> number & 1) as usize;
                        assert_eq!(*chosen, both[choice][number]);
                        assert_ne!(*chosen, both[1 - choice][number]);
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

//! Putting shared wires into an order that only party one knows: share translation (Chase, Ghosh
//! and Poburinnaya, "Secret-shared shuffle", ASIACRYPT 2020), stretched so that an order is set up
//! once and used for many computations.
//!
//! 1. Party two grows a tree of seeds per place `i` of the order; party one learns all its leaves
//!    but leaf `order[i]`. Leaf `j` of tree `i`, stretched, is `m[i][j]`: new bits for every use.
//! 2. Party two has `a[j]` = the sum over `i`, and `b[i]` = the sum over `j`. Party one has, from
//!    what it knows, `d[i] = a[order[i]] + b[i]`.
//! 3. Party two sends its share plus `a`, and has `b` as its share of the result. Party one puts
//!    what came and its own share in order, and adds `d`.
//!
//! Invariant: a use of a translation takes blocks of the streams that no other
//! takes. The order is in no branch and no index.

use zeroize::{Zeroize, Zeroizing};

use crate::MpcError;
use crate::cipher::{Place, Usage, stretch};
use crate::extension::CHUNK_WORDS;
use crate::message::FLIPS_LEN;
use crate::side_by_side::{Generators, Quad, add_streams};
use crate::tree::{equal_mask, grow, grow_punctured};

/// The most wires that an order has: more routes to a prefix than any exchange has seen, and both
/// directions' transfers (768) fit into one chunk of the extension.
pub const MAX_ORDER: usize = 64;

/// A party's side of one order, or of its inverse.
pub(crate) struct Translation {
    size: usize,
    /// `size` squared, row by row. Party one's missing ones are wrong, and left out by `missing`.
    leaves: Generators,
    /// Party one's: which leaf of each tree it lacks.
    missing: Option<Zeroizing<Vec<u32>>>,
    /// The first block of the streams that is not used.
    next: u64,
}

/// Sums over the trees, and over the leaves of a number: of
/// each some quads, of which the first words count.
struct Sums {
    by_tree: Zeroizing<Vec<Quad>>,
    by_leaf: Zeroizing<Vec<Quad>>,
    quads: usize,
}

impl Sums {
    /// Of a tree or a leaf, with words beyond those that count.
    fn rows<'a>(&self, sums: &'a [Quad]) -> impl Iterator<Item = &'a [u64]> {
        sums.as_flattened().chunks_exact(8 * self.quads)
    }
}

impl Translation {
    /// How many wires it orders.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// How far the streams are used.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Party two: `rows` are its shares, of which it writes what it sends,
    /// and which become its shares of the result.
    pub(crate) fn give(&mut self, rows: &mut [u64], words: usize, out: &mut [u8]) {
        let sums = self.sums(words);
        let sent = out.chunks_exact_mut(8 * words).zip(rows.chunks_exact_mut(words));
        let masks = sums.rows(&sums.by_leaf).zip(sums.rows(&sums.by_tree));
        for ((bytes, row), (by_leaf, by_tree)) in sent.zip(masks) {
            for ((bytes, value), mask) in bytes.as_chunks_mut().0.iter_mut().zip(&*row).zip(by_leaf)
            {
                *bytes = (value ^ mask).to_le_bytes();
            }
            row.copy_from_slice(&by_tree[..words]);
        }
    }

    /// Party one: adds what party two sent to its shares, and puts them in order.
    pub(crate) fn take(&mut self, rows: &mut [u64], words: usize, received: &[u8]) {
        let sums = self.sums(words);
        for (value, bytes) in rows.iter_mut().zip(received.as_chunks().0) {
            *value ^= u64::from_le_bytes(*bytes);
        }
        for (row, sum) in rows.chunks_exact_mut(words).zip(sums.rows(&sums.by_leaf)) {
            row.iter_mut().zip(sum).for_each(|(value, sum)| *value ^= sum);
        }
        let unordered = Zeroizing::new(rows.to_vec());
        let none = Zeroizing::new(Vec::new());
        let missing = self.missing.as_ref().unwrap_or(&none);
        let targets = rows.chunks_exact_mut(words).zip(sums.rows(&sums.by_tree));
        for ((target, sum), from) in targets.zip(missing.iter()) {
            target.copy_from_slice(&sum[..words]);
            for (number, row) in unordered.chunks_exact(words).enumerate() {
                let mask = equal_mask(number as u32, *from) as u64;
                target.iter_mut().zip(row).for_each(|(target, value)| *target ^= value & mask);
            }
        }
    }

    fn sums(&mut self, words: usize) -> Sums {
        let blocks = words.div_ceil(2);
        // Whole registers: what is too much is not used by anyone.
        let quads = blocks.div_ceil(4);
        let none = || Zeroizing::new(vec![[0; 8]; self.size * quads]);
        let mut sums = Sums { by_tree: none(), by_leaf: none(), quads };
        let mut streams = none();
        let first = Place { usage: Usage::Translation, block: self.next };
        for (tree, by_tree) in sums.by_tree.chunks_exact_mut(quads).enumerate() {
            let leaves = tree * self.size..(tree + 1) * self.size;
            stretch(&self.leaves, leaves, first, &mut streams);
            let mut keep = [u64::MAX; MAX_ORDER];
            if let Some(missing) = &self.missing {
                for (leaf, keep) in keep.iter_mut().enumerate() {
                    *keep = !equal_mask(leaf as u32, missing[tree]) as u64;
                }
            }
            add_streams(&streams, &keep, by_tree, &mut sums.by_leaf);
        }
        self.next += blocks as u64;
        sums
    }
}

/// An order and its inverse, as one party has them.
pub(crate) struct OrderPair {
    pub(crate) epoch: u64,
    pub(crate) forward: Translation,
    pub(crate) inverse: Translation,
}

/// An order that party one has sent, until the trees for it are here.
pub(crate) struct PendingOrder {
    pub(crate) slot: u8,
    pub(crate) epoch: u64,
    /// The order, then its inverse.
    leaves: Zeroizing<Vec<u32>>,
    keys: Zeroizing<Vec<u128>>,
}

impl PendingOrder {
    /// From the random transfers of one chunk: `choices` and the values chosen. Gives also the
    /// flips that make the random choices the wanted ones.
    pub(crate) fn new(
        slot: u8,
        epoch: u64,
        order: &[u32],
        choices: &[u64; CHUNK_WORDS],
        chosen: &[u128],
    ) -> (Self, [u8; FLIPS_LEN]) {
        let depth = depth(order.len());
        let mut leaves = Zeroizing::new(order.to_vec());
        for place in 0..order.len() as u32 {
            // The inverse of a permutation, without an index that tells it.
            let at = order.iter().enumerate().fold(0, |at, (number, value)| {
                at | number as u32 & equal_mask(*value, place) as u32
            });
            leaves.push(at);
        }
        let mut flips = [0; FLIPS_LEN];
        let transfers = leaves.len() * depth;
        for number in 0..transfers {
            let wanted = !(leaves[number / depth] >> (depth - 1 - number % depth)) & 1;
            let random = (choices[number / 64] >> (number % 64)) as u32 & 1;
            flips[number / 8] |= ((wanted ^ random) as u8) << (number % 8);
        }
        let keys = Zeroizing::new(chosen[..transfers].to_vec());
        (Self { slot, epoch, leaves, keys }, flips)
    }

    /// With party two's corrections.
    pub(crate) fn finish(self, corrections: &[u8]) -> Result<OrderPair, MpcError> {
        let size = self.leaves.len() / 2;
        let depth = depth(size);
        if corrections.len() != trees_len(size) {
            return Err(MpcError::Malformed("corrections of an order"));
        }
        let corrections = parse_corrections(corrections);
        let mut sides = self.leaves.chunks_exact(size).enumerate().map(|(side, missing)| {
            let mut leaves = Zeroizing::new(Vec::with_capacity(size * size));
            for (tree, missing) in missing.iter().enumerate() {
                let number = side * size + tree;
                let keys = &self.keys[number * depth..(number + 1) * depth];
                let levels = number * (depth - 1)..(number + 1) * (depth - 1);
                let grown = grow_punctured(keys, *missing, &corrections[levels]);
                leaves.extend_from_slice(&grown[..size]);
            }
            let leaves = Generators::new(&leaves);
            let missing = Some(Zeroizing::new(missing.to_vec()));
            Translation { size, leaves, missing, next: 0 }
        });
        let (Some(forward), Some(inverse)) = (sides.next(), sides.next()) else {
            return Err(MpcError::Malformed("an order"));
        };
        Ok(OrderPair { epoch: self.epoch, forward, inverse })
    }
}

impl OrderPair {
    /// Party two's: from both values of the random transfers of one
    /// chunk, and the flips. Appends the corrections.
    pub(crate) fn grow(
        epoch: u64,
        size: usize,
        values: &[[u128; 2]],
        flips: &[u8; FLIPS_LEN],
        corrections: &mut Vec<u8>,
    ) -> Self {
        let depth = depth(size);
        let mut levels = Vec::new();
        let mut side = |side: usize| {
            let mut leaves = Zeroizing::new(Vec::with_capacity(size * size));
            for tree in 0..size {
                let first = (side * size + tree) * depth;
                let mut pairs = Zeroizing::new(values[first..first + depth].to_vec());
                for (number, pair) in (first..).zip(pairs.iter_mut()) {
                    // Flips are public: party one's choices, masked.
                    if flips[number / 8] >> (number % 8) & 1 == 1 {
                        pair.swap(0, 1);
                    }
                }
                let grown = grow(&pairs, &mut levels);
                leaves.extend_from_slice(&grown[..size]);
            }
            Translation { size, leaves: Generators::new(&leaves), missing: None, next: 0 }
        };
        let (forward, inverse) = (side(0), side(1));
        for value in levels.as_flattened() {
            corrections.extend_from_slice(&value.to_le_bytes());
        }
        levels.as_flattened_mut().zeroize();
        Self { epoch, forward, inverse }
    }
}

/// Levels of a tree of this many leaves.
fn depth(size: usize) -> usize {
    size.next_power_of_two().ilog2() as usize
}

/// Transfers that an order of this size takes.
pub(crate) fn transfers(size: usize) -> usize {
    2 * size * depth(size)
}

/// Bytes of the corrections of an order's trees.
pub(crate) fn trees_len(size: usize) -> usize {
    2 * size * (depth(size) - 1) * 32
}

/// Whole pairs of little-endian numbers.
pub(crate) fn parse_corrections(bytes: &[u8]) -> Vec<[u128; 2]> {
    let number = |bytes: &[u8; 16]| u128::from_le_bytes(*bytes);
    let pairs = bytes.as_chunks::<32>().0.iter();
    pairs.map(|pair| [number(&pair.as_chunks().0[0]), number(&pair.as_chunks().0[1])]).collect()
}

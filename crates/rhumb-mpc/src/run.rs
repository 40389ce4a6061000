//! One run of a program: GMW (Goldreich, Micali and Wigderson, STOC 1987)
//! with triples after Beaver, on rows of words.
//!
//! 1. [`Run::begin_level`]: evaluate what is local, then mask the inputs of the level's ANDs with
//!    triples: that is the message.
//! 2. [`Run::finish_level`]: with the peer's message the masked inputs are known, `d = x + a` and
//!    `e = y + b`, and `xy = c + d b + e a + d e`, of which one party adds the last.
//!
//! Invariant: each word of triples masks one pair of inputs; a run has
//! exactly those it needs, in the order of its gates.

use std::sync::Arc;

use zeroize::Zeroize;

use crate::message::LevelTag;
use crate::program::{Input, Inputs, Level, LocalGate, Outputs, Program, words};
use crate::side_by_side::{Aligned, add_selected};
use crate::translation::OrderPair;
use crate::triples::{FourVectors, Payload, TripleRows};
use crate::wipe::wipe;
use crate::{MpcError, Party};

/// Orders by slot.
pub(crate) type Orders = [Option<OrderPair>; crate::MAX_ORDER_SLOTS];

/// The triples of a run.
#[derive(Clone, Copy)]
pub(crate) struct Masks<'a> {
    pub(crate) bits: TripleRows<'a, u64>,
    pub(crate) vectors: TripleRows<'a, FourVectors>,
}

/// Memory that runs have one after the other, so that it need not be got anew.
#[derive(Default)]
pub(crate) struct Workspace {
    /// Shares of wires, row after row. Zeros between runs, and when dropped.
    bits: Vec<u64>,
    vectors: Vec<FourVectors>,
    /// What was opened of a row of vectors, which both parties know.
    row: Vec<FourVectors>,
    /// What this party has sent in this level.
    opened: Vec<u8>,
}

impl Workspace {
    /// What was secret in it is wiped.
    fn clear(&mut self) {
        wipe(&mut self.bits);
        wipe(&mut self.vectors);
        self.bits.clear();
        self.vectors.clear();
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A party's side of a run. Wiped when dropped.
pub(crate) struct Run {
    program: Arc<Program>,
    party: Party,
    words: usize,
    tag: LevelTag,
    space: Workspace,
    /// Words of triples that earlier levels used.
    used: usize,
    vectors_used: usize,
}

impl Run {
    /// `tag` is that of level 0.
    pub(crate) fn new(
        program: &Arc<Program>,
        tag: LevelTag,
        inputs: &Inputs,
        mut space: Workspace,
    ) -> Self {
        let words = words(inputs.lanes);
        // Inputs that are the other party's alone are zero here.
        space.bits.resize(program.rows.bits * words, 0);
        space.vectors.resize(program.rows.vectors * words * FourVectors::PER_WORD, NO_VECTORS);
        space.row.resize(words * FourVectors::PER_WORD, NO_VECTORS);
        for (wire, row) in &inputs.bits {
            let Some(input) = find(&program.inputs, *wire) else { continue };
            let start = input.row as usize * words;
            space.bits[start..start + row.len()].copy_from_slice(row);
        }
        for (wire, vectors) in &inputs.vectors {
            let Some(input) = find(&program.vector_inputs, *wire) else { continue };
            let start = input.row as usize * words * FourVectors::PER_WORD;
            for (quad, vectors) in space.vectors[start..].iter_mut().zip(vectors.chunks(4)) {
                for (place, vector) in quad.0.as_chunks_mut::<2>().0.iter_mut().zip(vectors) {
                    *place = [*vector as u64, (*vector >> 64) as u64];
                }
            }
        }
        let (program, party) = (Arc::clone(program), inputs.party);
        Self { program, party, words, tag, space, used: 0, vectors_used: 0 }
    }

    /// The tag of the level at hand.
    pub(crate) fn tag(&self) -> LevelTag {
        self.tag
    }

    /// What is to be sent in this level; nothing after the last.
    pub(crate) fn begin_level(&mut self, masks: Masks<'_>, orders: &mut Orders) -> Option<&[u8]> {
        let program = Arc::clone(&self.program);
        let level = &program.levels[self.tag.level as usize];
        for gate in &level.local {
            self.local(*gate);
        }
        if self.tag.level as usize + 1 == program.levels.len() {
            return None;
        }
        // All of it is written below.
        self.space.opened.resize(level.payload_len(self.party, self.words), 0);
        self.mask(level, masks);
        if self.party == Party::Two {
            self.give_permuted(level, orders);
        }
        Some(&self.space.opened)
    }

    /// With what the peer sent in this level; the next is at hand then.
    pub(crate) fn finish_level(
        &mut self,
        masks: Masks<'_>,
        orders: &mut Orders,
        received: &[u8],
    ) -> Result<(), MpcError> {
        let program = Arc::clone(&self.program);
        let level = &program.levels[self.tag.level as usize];
        let peer = self.party.other();
        if received.len() != level.payload_len(peer, self.words) {
            return Err(MpcError::Malformed("the length of a level"));
        }
        let ands_len = received.len() - self.permuted_len(level, peer);
        let (ands, permuted) = received.split_at(ands_len);
        self.multiply(level, masks, ands);
        if self.party == Party::One {
            self.take_permuted(level, orders, permuted);
        }
        self.tag.level += 1;
        Ok(())
    }

    /// This party's shares of the results, and the memory back.
    pub(crate) fn finish(mut self) -> (Outputs, Workspace) {
        let (words, lanes) = (self.words, self.tag.lanes as usize);
        let bits = self.program.outputs.iter().map(|row| {
            let mut row = self.space.bits[row_of(*row, words)].to_vec();
            if let (Some(last), spare @ 1..) = (row.last_mut(), words * 64 - lanes) {
                *last &= u64::MAX >> spare;
            }
            row
        });
        let vectors = self.program.vector_outputs.iter().map(|row| {
            let row = &self.space.vectors[row_of(*row, words * FourVectors::PER_WORD)];
            let pairs = row.iter().flat_map(|quad| quad.0.as_chunks::<2>().0);
            let mut vectors = Vec::with_capacity(lanes);
            let numbers = pairs.map(|[low, high]| u128::from(*high) << 64 | u128::from(*low));
            vectors.extend(numbers.take(lanes));
            vectors
        });
        let outputs = Outputs { lanes, bits: bits.collect(), vectors: vectors.collect() };
        self.space.clear();
        (outputs, std::mem::take(&mut self.space))
    }

    fn local(&mut self, gate: LocalGate) {
        let (words, lead) = (self.words, self.party == Party::One);
        let Workspace { bits, vectors, .. } = &mut self.space;
        match gate {
            LocalGate::Constant { out, value } => {
                bits[row_of(out, words)].fill(if lead && value { u64::MAX } else { 0 });
            }
            LocalGate::ConstantVector { out, value } => {
                let value = if lead { value } else { 0 };
                let [low, high] = [value as u64, (value >> 64) as u64];
                let quad = Aligned([low, high, low, high, low, high, low, high]);
                vectors[row_of(out, words * FourVectors::PER_WORD)].fill(quad);
            }
            LocalGate::Not { out, of } => {
                let (row, [of, _]) = rows(bits, words, out, [of, of]);
                let ones = if lead { u64::MAX } else { 0 };
                row.iter_mut().zip(of).for_each(|(out, of)| *out = of ^ ones);
            }
            LocalGate::Xor { out, left, right } => {
                let (row, [left, right]) = rows(bits, words, out, [left, right]);
                for (out, (left, right)) in row.iter_mut().zip(left.iter().zip(right)) {
                    *out = left ^ right;
                }
            }
            LocalGate::XorVector { out, left, right } => {
                let len = words * FourVectors::PER_WORD;
                let (row, [left, right]) = rows(vectors, len, out, [left, right]);
                for (out, (left, right)) in row.iter_mut().zip(left.iter().zip(right)) {
                    let words = out.0.iter_mut().zip(left.0.iter().zip(&right.0));
                    words.for_each(|(out, (left, right))| *out = left ^ right);
                }
            }
        }
    }

    /// Writes the masked inputs of all ANDs of the level.
    fn mask(&mut self, level: &Level, masks: Masks<'_>) {
        let words = self.words;
        let Workspace { bits, vectors, opened, .. } = &mut self.space;
        let (of_bits, of_vectors) = opened.split_at_mut(level.ands.len() * 16 * words);
        let mut at = self.used;
        for (gate, opened) in level.ands.iter().zip(of_bits.chunks_exact_mut(16 * words)) {
            let (left, right) = opened.split_at_mut(8 * words);
            let masks = masks.bits.part(at, words);
            put_sum(left, &bits[row_of(gate.left, words)], masks.a);
            put_sum(right, &bits[row_of(gate.right, words)], masks.b);
            at += words;
        }
        let mut at = self.vectors_used;
        let opened = of_vectors.chunks_exact_mut(8 * words * 129);
        for (gate, opened) in level.vector_ands.iter().zip(opened) {
            let (left, right) = opened.split_at_mut(8 * words);
            let masks = masks.vectors.part(at, words);
            put_sum(left, &bits[row_of(gate.left, words)], masks.a);
            let row = &vectors[row_of(gate.right, words * FourVectors::PER_WORD)];
            let sums = right.as_chunks_mut::<64>().0.iter_mut();
            for (opened, (value, mask)) in sums.zip(row.iter().zip(masks.b)) {
                put_sum(opened, &value.0, &mask.0);
            }
            at += words;
        }
    }

    /// The level's products, from what both sent.
    fn multiply(&mut self, level: &Level, masks: Masks<'_>, received: &[u8]) {
        let (words, lead) = (self.words, self.party == Party::One);
        let Workspace { bits, vectors, row, opened } = &mut self.space;
        let of_bits = level.ands.len() * 16 * words;
        let opened = opened[..received.len()].split_at(of_bits);
        let received = received.split_at(of_bits);
        let pairs = opened.0.chunks_exact(16 * words).zip(received.0.chunks_exact(16 * words));
        for (gate, pair) in level.ands.iter().zip(pairs) {
            let out = &mut bits[row_of(gate.out, words)];
            multiply_bits(out, masks.bits.part(self.used, words), pair, lead);
            self.used += words;
        }
        let gate_len = 8 * words * 129;
        let pairs = opened.1.chunks_exact(gate_len).zip(received.1.chunks_exact(gate_len));
        for (gate, (mine, theirs)) in level.vector_ands.iter().zip(pairs) {
            let masks = masks.vectors.part(self.vectors_used, words);
            let (mine, my_row) = mine.split_at(8 * words);
            let (theirs, their_row) = theirs.split_at(8 * words);
            let sums = my_row.as_chunks::<64>().0.iter().zip(their_row.as_chunks::<64>().0);
            for (quad, (mine, theirs)) in row.iter_mut().zip(sums) {
                let words = quad.0.iter_mut().zip(numbers((mine, theirs)));
                words.for_each(|(word, opened)| *word = opened);
            }
            let out = &mut vectors[row_of(gate.out, words * FourVectors::PER_WORD)];
            out.copy_from_slice(masks.c);
            let selecting: Vec<u64> = numbers((mine, theirs)).collect();
            add_selected(out, &selecting, masks.b);
            // With `d e`, the lead's factor of `e` is `a + d`.
            let mut factors = selecting;
            for (factor, a) in factors.iter_mut().zip(masks.a) {
                *factor = if lead { *factor ^ a } else { *a };
            }
            add_selected(out, &factors, row);
            factors.zeroize();
            self.vectors_used += words;
        }
    }

    /// Party two: masks the wires that are permuted, behind
    /// the ANDs, and has its shares of the result.
    fn give_permuted(&mut self, level: &Level, orders: &mut Orders) {
        let words = self.words;
        let mut at = self.space.opened.len() - self.permuted_len(level, Party::Two);
        for gate in &level.permutes {
            let Some(pair) = &mut orders[usize::from(gate.slot)] else { continue };
            let translation = if gate.inverse { &mut pair.inverse } else { &mut pair.forward };
            let mut rows = gather(&self.space.bits, words, &gate.ins);
            let len = 8 * rows.len();
            translation.give(&mut rows, words, &mut self.space.opened[at..at + len]);
            at += len;
            scatter(&mut self.space.bits, words, &gate.outs, &rows);
            wipe(&mut rows);
        }
    }

    /// Party one: puts them in its order.
    fn take_permuted(&mut self, level: &Level, orders: &mut Orders, received: &[u8]) {
        let words = self.words;
        let mut received = received;
        for gate in &level.permutes {
            let Some(pair) = &mut orders[usize::from(gate.slot)] else { continue };
            let translation = if gate.inverse { &mut pair.inverse } else { &mut pair.forward };
            let mut rows = gather(&self.space.bits, words, &gate.ins);
            let (own, others) = received.split_at(8 * rows.len());
            translation.take(&mut rows, words, own);
            received = others;
            scatter(&mut self.space.bits, words, &gate.outs, &rows);
            wipe(&mut rows);
        }
    }

    fn permuted_len(&self, level: &Level, party: Party) -> usize {
        match party {
            Party::One => 0,
            Party::Two => {
                let wires: usize = level.permutes.iter().map(|gate| gate.ins.len()).sum();
                8 * self.words * wires
            }
        }
    }
}

/// Words of both kinds of triples that a run takes.
pub(crate) fn needs(program: &Program, lanes: usize) -> [u64; 2] {
    let cost = program.cost();
    [cost.ands, cost.vector_ands].map(|ands| (ands * words(lanes)) as u64)
}

/// `xy` of one gate, from what both opened.
#[inline]
fn multiply_bits(
    out: &mut [u64],
    masks: TripleRows<'_, u64>,
    (mine, theirs): (&[u8], &[u8]),
    lead: bool,
) {
    let words = out.len();
    let [mine, theirs] = [mine, theirs].map(|opened| opened.as_chunks::<8>().0.split_at(words));
    let opened =
        |mine: &[u8; 8], theirs: &[u8; 8]| u64::from_le_bytes(*mine) ^ u64::from_le_bytes(*theirs);
    let d = mine.0.iter().zip(theirs.0).map(|(mine, theirs)| opened(mine, theirs));
    let e = mine.1.iter().zip(theirs.1).map(|(mine, theirs)| opened(mine, theirs));
    let masks = masks.a.iter().zip(masks.b).zip(masks.c);
    let lead = if lead { u64::MAX } else { 0 };
    for ((out, (d, e)), ((a, b), c)) in out.iter_mut().zip(d.zip(e)).zip(masks) {
        *out = c ^ d & b ^ e & (a ^ d & lead);
    }
}

/// An input by its wire; they are in the order of their wires.
fn find(inputs: &[Input], wire: u32) -> Option<&Input> {
    let at = inputs.binary_search_by_key(&wire, |input| input.wire).ok()?;
    inputs.get(at)
}

/// Where a row stands.
#[inline]
fn row_of(row: u32, len: usize) -> std::ops::Range<usize> {
    row as usize * len..(row as usize + 1) * len
}

/// A row to be written and two others to be read, which may be the same.
#[inline]
fn rows<T>(all: &mut [T], len: usize, out: u32, read: [u32; 2]) -> (&mut [T], [&[T]; 2]) {
    let at = row_of(out, len);
    let (before, rest) = all.split_at_mut(at.start);
    let (row, after) = rest.split_at_mut(len);
    let (before, after) = (&*before, &*after);
    let read = read.map(|read| {
        debug_assert_ne!(read, out);
        if read < out { &before[row_of(read, len)] } else { &after[row_of(read - out - 1, len)] }
    });
    (row, read)
}

fn gather(bits: &[u64], words: usize, wires: &[u32]) -> Vec<u64> {
    wires.iter().flat_map(|wire| &bits[row_of(*wire, words)]).copied().collect()
}

fn scatter(bits: &mut [u64], words: usize, wires: &[u32], rows: &[u64]) {
    for (wire, values) in wires.iter().zip(rows.chunks_exact(words)) {
        bits[row_of(*wire, words)].copy_from_slice(values);
    }
}

/// Writes the sums of a row and its mask.
#[inline]
fn put_sum(out: &mut [u8], row: &[u64], mask: &[u64]) {
    for (bytes, (value, mask)) in out.as_chunks_mut().0.iter_mut().zip(row.iter().zip(mask)) {
        *bytes = (value ^ mask).to_le_bytes();
    }
}

/// What two shares of a row of words open to.
fn numbers<'a>((mine, theirs): (&'a [u8], &'a [u8])) -> impl Iterator<Item = u64> + 'a {
    let pairs = mine.as_chunks().0.iter().zip(theirs.as_chunks().0);
    pairs.map(|(mine, theirs)| u64::from_le_bytes(*mine) ^ u64::from_le_bytes(*theirs))
}

const NO_VECTORS: FourVectors = Aligned([0; 8]);

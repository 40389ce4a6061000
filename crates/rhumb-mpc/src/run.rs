//! One run of a program: GMW (Goldreich, Micali and Wigderson, STOC 1987) with triples after Beaver, on rows of words.
//!
//! 1. [`Run::begin_level`]: evaluate what is local, then mask the inputs of the level's ANDs with triples: that is the message.
//! 2. [`Run::finish_level`]: with the peer's message the masked inputs are known, `d = x + a` and `e = y + b`, and
//!    `xy = c + d b + e a + d e`, of which one party adds the last.
//!
//! Invariant: each word of triples masks one pair of inputs; a run has exactly those it needs, in the order of its gates.

use std::sync::Arc;

use zeroize::Zeroize;

use crate::message::LevelTag;
use crate::program::{Inputs, Level, LocalGate, Outputs, Program, words};
use crate::translation::OrderPair;
use crate::triples::{Payload, Triples};
use crate::{MpcError, Party};

/// Orders by slot.
pub(crate) type Orders = [Option<OrderPair>; crate::MAX_ORDER_SLOTS];

/// A party's side of a run. Wiped when dropped.
pub(crate) struct Run {
    program: Arc<Program>,
    party: Party,
    words: usize,
    tag: LevelTag,
    /// Shares of all wires, row after row.
    bits: Vec<u64>,
    vectors: Vec<u128>,
    triples: Triples<u64>,
    vector_triples: Triples<u128>,
    /// Words that earlier levels used.
    used: usize,
    vectors_used: usize,
    /// What this party has sent in this level.
    opened: Vec<u8>,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.bits.zeroize();
        self.vectors.zeroize();
    }
}

impl Run {
    /// `tag` is that of level 0. There must be as many triples as [`needs`] says.
    pub(crate) fn new(
        program: &Arc<Program>,
        tag: LevelTag,
        inputs: &Inputs,
        triples: Triples<u64>,
        vector_triples: Triples<u128>,
    ) -> Self {
        let words = words(inputs.lanes);
        let mut run = Self {
            program: Arc::clone(program),
            party: inputs.party,
            words,
            tag,
            bits: vec![0; program.bits * words],
            vectors: vec![0; program.vectors * words * 64],
            triples,
            vector_triples,
            used: 0,
            vectors_used: 0,
            opened: Vec::new(),
        };
        for (wire, row) in &inputs.bits {
            let start = *wire as usize * words;
            run.bits[start..start + row.len()].copy_from_slice(row);
        }
        for (wire, vectors) in &inputs.vectors {
            let start = *wire as usize * words * 64;
            run.vectors[start..start + vectors.len()].copy_from_slice(vectors);
        }
        run
    }

    /// The tag of the level at hand.
    pub(crate) fn tag(&self) -> LevelTag {
        self.tag
    }

    /// What is to be sent in this level; nothing after the last.
    pub(crate) fn begin_level(&mut self, orders: &mut Orders) -> Option<&[u8]> {
        let program = Arc::clone(&self.program);
        let level = &program.levels[self.tag.level as usize];
        for gate in &level.local {
            self.local(*gate);
        }
        if self.tag.level as usize + 1 == program.levels.len() {
            return None;
        }
        self.opened.clear();
        self.opened.reserve(level.payload_len(self.party, self.words));
        self.mask(level);
        if self.party == Party::Two {
            self.permute(level, orders, None);
        }
        Some(&self.opened)
    }

    /// With what the peer sent in this level; the next is at hand then.
    pub(crate) fn finish_level(
        &mut self,
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
        self.multiply(level, ands);
        if self.party == Party::One {
            self.permute(level, orders, Some(permuted));
        }
        self.tag.level += 1;
        Ok(())
    }

    /// This party's shares of the results.
    pub(crate) fn outputs(&self) -> Outputs {
        let (words, lanes) = (self.words, self.tag.lanes as usize);
        let bits = self.program.outputs.iter().map(|wire| {
            let start = *wire as usize * words;
            let mut row = self.bits[start..start + words].to_vec();
            if let (Some(last), spare @ 1..) = (row.last_mut(), words * 64 - lanes) {
                *last &= u64::MAX >> spare;
            }
            row
        });
        let vectors = self.program.vector_outputs.iter().map(|wire| {
            let start = *wire as usize * words * 64;
            self.vectors[start..start + lanes].to_vec()
        });
        Outputs { lanes, bits: bits.collect(), vectors: vectors.collect() }
    }

    fn local(&mut self, gate: LocalGate) {
        let words = self.words;
        let lead = if self.party == Party::One { u64::MAX } else { 0 };
        match gate {
            LocalGate::Constant { out, value } => {
                let value = if value { lead } else { 0 };
                self.bits[out as usize * words..][..words].fill(value);
            }
            LocalGate::ConstantVector { out, value } => {
                let value = if self.party == Party::One { value } else { 0 };
                self.vectors[out as usize * words * 64..][..words * 64].fill(value);
            }
            LocalGate::Not { out, of } => {
                let (before, row) = self.bits.split_at_mut(out as usize * words);
                for (out, of) in row[..words].iter_mut().zip(&before[of as usize * words..]) {
                    *out = of ^ lead;
                }
            }
            LocalGate::Xor { out, left, right } => xor(&mut self.bits, words, [out, left, right]),
            LocalGate::XorVector { out, left, right } => {
                xor(&mut self.vectors, words * 64, [out, left, right]);
            }
        }
    }

    /// Appends the masked inputs of all ANDs of the level.
    fn mask(&mut self, level: &Level) {
        let words = self.words;
        let mut at = self.used;
        for gate in &level.ands {
            for (wire, mask) in [(gate.left, &self.triples.a), (gate.right, &self.triples.b)] {
                let row = &self.bits[wire as usize * words..][..words];
                append(&mut self.opened, row, &mask[at..at + words]);
            }
            at += words;
        }
        let mut at = self.vectors_used;
        for gate in &level.vector_ands {
            let row = &self.bits[gate.left as usize * words..][..words];
            append(&mut self.opened, row, &self.vector_triples.a[at..at + words]);
            let row = &self.vectors[gate.right as usize * words * 64..][..words * 64];
            let mask = &self.vector_triples.b[at * 64..(at + words) * 64];
            for (value, mask) in row.iter().zip(mask) {
                self.opened.extend_from_slice(&(value ^ mask).to_le_bytes());
            }
            at += words;
        }
    }

    /// The level's products, from what both sent.
    fn multiply(&mut self, level: &Level, received: &[u8]) {
        let (words, lead) = (self.words, self.party == Party::One);
        let mut opened = self.opened.chunks_exact(8 * words).zip(received.chunks_exact(8 * words));
        for gate in &level.ands {
            let at = self.used;
            let (Some(first), Some(second)) = (opened.next(), opened.next()) else { break };
            let out = &mut self.bits[gate.out as usize * words..][..words];
            let selecting = numbers(first).zip(numbers(second));
            for (number, (d, e)) in selecting.enumerate() {
                let (a, b) = (self.triples.a[at + number], self.triples.b[at + number]);
                let both = if lead { d & e } else { 0 };
                out[number] = self.triples.c[at + number] ^ d & b ^ e & a ^ both;
            }
            self.used += words;
        }
        let start = level.ands.len() * 16 * words;
        let gate_len = 8 * words * 129;
        let opened = self.opened[start..].chunks_exact(gate_len);
        let gates = opened.zip(received[start..].chunks_exact(gate_len)).zip(&level.vector_ands);
        for ((mine, theirs), gate) in gates {
            let at = self.vectors_used;
            let (mine_bits, mine) = mine.split_at(8 * words);
            let (their_bits, theirs) = theirs.split_at(8 * words);
            let out = &mut self.vectors[gate.out as usize * words * 64..][..words * 64];
            let opened = mine.as_chunks().0.iter().zip(theirs.as_chunks().0);
            let opened = opened.map(|(l, r)| u128::from_le_bytes(*l) ^ u128::from_le_bytes(*r));
            let b = self.vector_triples.b[at * 64..].iter();
            let products = self.vector_triples.c[at * 64..].iter().zip(b);
            let mut lanes = out.iter_mut().zip(opened).zip(products);
            for (d, a) in numbers((mine_bits, their_bits)).zip(&self.vector_triples.a[at..]) {
                // With `d e`, the lead's factor of `e` is `a + d`.
                let factor = if lead { a ^ d } else { *a };
                for (lane, ((out, e), (c, b))) in lanes.by_ref().take(64).enumerate() {
                    *out = c ^ b.times(d, lane) ^ e.times(factor, lane);
                }
            }
            self.vectors_used += words;
        }
    }

    /// Party two gives, party one takes.
    fn permute(&mut self, level: &Level, orders: &mut Orders, received: Option<&[u8]>) {
        let words = self.words;
        let mut received = received;
        for gate in &level.permutes {
            let Some(pair) = &mut orders[usize::from(gate.slot)] else { continue };
            let translation = if gate.inverse { &mut pair.inverse } else { &mut pair.forward };
            let row = |wire: &u32| *wire as usize * words..(*wire as usize + 1) * words;
            let mut rows: Vec<u64> =
                gate.ins.iter().flat_map(|wire| &self.bits[row(wire)]).copied().collect();
            match &mut received {
                Some(rest) => {
                    let (own, others) = rest.split_at(8 * rows.len());
                    translation.take(&mut rows, words, own);
                    *rest = others;
                }
                None => translation.give(&mut rows, words, &mut self.opened),
            }
            for (wire, values) in gate.outs.iter().zip(rows.chunks_exact(words)) {
                self.bits[row(wire)].copy_from_slice(values);
            }
            rows.zeroize();
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

/// `rows[out] = rows[left] ^ rows[right]`; `out` was made last.
#[inline]
fn xor<T: Copy + std::ops::BitXor<Output = T>>(rows: &mut [T], len: usize, wires: [u32; 3]) {
    let [out, left, right] = wires.map(|wire| wire as usize * len);
    let (before, row) = rows.split_at_mut(out);
    let pairs = before[left..left + len].iter().zip(&before[right..right + len]);
    for (out, (left, right)) in row.iter_mut().zip(pairs) {
        *out = *left ^ *right;
    }
}

fn append(out: &mut Vec<u8>, row: &[u64], mask: &[u64]) {
    for (value, mask) in row.iter().zip(mask) {
        out.extend_from_slice(&(value ^ mask).to_le_bytes());
    }
}

/// What two shares of a row of words open to.
fn numbers<'a>((mine, theirs): (&'a [u8], &'a [u8])) -> impl Iterator<Item = u64> + 'a {
    let pairs = mine.as_chunks().0.iter().zip(theirs.as_chunks().0);
    pairs.map(|(mine, theirs)| u64::from_le_bytes(*mine) ^ u64::from_le_bytes(*theirs))
}

//! Two sessions joined in memory, with triples in stock.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "test helpers, of which each file uses some"
)]

use std::sync::Arc;

use rhumb_mpc::{
    Bit, FieldBits, Inputs, Outputs, Parameters, Party, Program, Seed, Session, Vector, exchange,
};

pub struct Pair {
    pub one: Session,
    pub two: Session,
}

/// Small pools: quick to fill.
pub const SMALL: Parameters =
    Parameters { field: FieldBits::Two, bit_words: 2048, vector_words: 256 };

impl Pair {
    /// Ready, with full pools.
    pub fn new(parameters: Parameters, seed: u8) -> Self {
        let mut pair = Self::fresh(parameters, seed);
        exchange(&mut pair.one, &mut pair.two).unwrap();
        assert!(pair.one.is_ready() && pair.two.is_ready());
        pair.refill();
        pair
    }

    /// Nothing is said yet.
    pub fn fresh(parameters: Parameters, seed: u8) -> Self {
        let seeds = [[seed; 32], [!seed; 32]].map(Seed::new);
        let [one, two] = seeds;
        Self {
            one: Session::new(Party::One, parameters, one).unwrap(),
            two: Session::new(Party::Two, parameters, two).unwrap(),
        }
    }

    pub fn refill(&mut self) {
        while self.one.refill().unwrap() {
            exchange(&mut self.one, &mut self.two).unwrap();
        }
        assert_eq!(self.one.stock(), self.two.stock());
    }

    /// Runs a program with shared inputs split by `coins`; gives the outputs, put together.
    pub fn run(&mut self, program: &Arc<Program>, lanes: usize, values: &Values) -> Opened {
        let [one, two] = values.split(program, lanes);
        self.one.start(program, &one).unwrap();
        self.two.start(program, &two).unwrap();
        exchange(&mut self.one, &mut self.two).unwrap();
        let shares = [self.one.take_outputs().unwrap(), self.two.take_outputs().unwrap()];
        Opened::new(&shares)
    }
}

/// Inputs in the clear, and what the shares of party one are.
#[derive(Default)]
pub struct Values {
    pub bits: Vec<(Bit, Vec<u64>)>,
    pub vectors: Vec<(Vector, Vec<u128>)>,
    pub coins: u64,
}

impl Values {
    pub fn split(&self, program: &Program, lanes: usize) -> [Inputs; 2] {
        let mut random = Random(self.coins);
        let mut inputs =
            [Party::One, Party::Two].map(|party| Inputs::new(program, party, lanes).unwrap());
        for (wire, row) in &self.bits {
            let share: Vec<u64> = row.iter().map(|_| random.word()).collect();
            let rest: Vec<u64> = row.iter().zip(&share).map(|(v, s)| v ^ s).collect();
            inputs[0].set(*wire, &share);
            inputs[1].set(*wire, &rest);
        }
        for (wire, row) in &self.vectors {
            let share: Vec<u128> = row.iter().map(|_| random.wide()).collect();
            let rest: Vec<u128> = row.iter().zip(&share).map(|(v, s)| v ^ s).collect();
            inputs[0].set_vector(*wire, &share);
            inputs[1].set_vector(*wire, &rest);
        }
        inputs
    }
}

/// Results.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    pub bits: Vec<Vec<u64>>,
    pub vectors: Vec<Vec<u128>>,
}

impl Opened {
    pub fn new([one, two]: &[Outputs; 2]) -> Self {
        assert_eq!(one.lanes(), two.lanes());
        let bits = one.bits().iter().zip(two.bits());
        let vectors = one.vectors().iter().zip(two.vectors());
        Self {
            bits: bits.map(|(l, r)| l.iter().zip(r).map(|(l, r)| l ^ r).collect()).collect(),
            vectors: vectors.map(|(l, r)| l.iter().zip(r).map(|(l, r)| l ^ r).collect()).collect(),
        }
    }
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn wide(&mut self) -> u128 {
        u128::from(self.word()) << 64 | u128::from(self.word())
    }

    pub fn row(&mut self, words: usize) -> Vec<u64> {
        (0..words).map(|_| self.word()).collect()
    }
}

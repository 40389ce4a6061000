//! Two sessions of the engine joined in memory, and shares of inputs.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "test helpers, of which each file uses some"
)]

use std::sync::Arc;

use rhumb_exchange::circuits::{Candidate, Choice, SelectBest, rows};
use rhumb_mpc::{
    FieldBits, Inputs, OrderSlot, Outputs, Parameters, Party, Program, Seed, Session, exchange,
};

pub struct Pair {
    pub one: Session,
    pub two: Session,
}

impl Pair {
    /// Ready, with triples for circuits of `R = 32` over 12 words.
    pub fn new() -> Self {
        let parameters =
            Parameters { field: FieldBits::Two, bit_words: 1 << 15, vector_words: 1 << 10 };
        let session = |party, seed| Session::new(party, parameters, Seed::new([seed; 32])).unwrap();
        let mut pair = Self { one: session(Party::One, 1), two: session(Party::Two, 2) };
        exchange(&mut pair.one, &mut pair.two).unwrap();
        pair
    }

    pub fn install(&mut self, slot: OrderSlot, order: &[u32]) {
        self.one.install_order(slot, order).unwrap();
        exchange(&mut self.one, &mut self.two).unwrap();
    }

    /// Fills the pools and runs.
    pub fn run(&mut self, program: &Arc<Program>, inputs: &[Inputs; 2]) -> [Outputs; 2] {
        while self.one.refill().unwrap() {
            exchange(&mut self.one, &mut self.two).unwrap();
        }
        self.one.start(program, &inputs[0]).unwrap();
        self.two.start(program, &inputs[1]).unwrap();
        exchange(&mut self.one, &mut self.two).unwrap();
        [self.one.take_outputs().unwrap(), self.two.take_outputs().unwrap()]
    }

    /// Runs on routes in the clear, which are shared by `coins`; gives each lane's choice.
    pub fn select(
        &mut self,
        circuit: &SelectBest,
        routes: &[ClearRoute],
        coins: &mut Random,
    ) -> Vec<Choice> {
        let lanes = routes[0].policy.len();
        let mut sides: [Vec<OwnedCandidate>; 2] = [Vec::new(), Vec::new()];
        for route in routes {
            let rankings = rows(&route.ranking, circuit.form().ranking_bits());
            let [policy_one, policy_two] = coins.share(&bits(&route.policy));
            let (mut ranking_one, mut ranking_two) = (Vec::new(), Vec::new());
            for row in &rankings {
                let [one, two] = coins.share(row);
                ranking_one.push(one);
                ranking_two.push(two);
            }
            let (mut keys_one, mut keys_two) = (Vec::new(), Vec::new());
            for key in &route.keys {
                let share = coins.wide();
                keys_one.push(share);
                keys_two.push(key ^ share);
            }
            let load = if route.load.is_empty() { Vec::new() } else { rows(&route.load, 4) };
            sides[0].push(OwnedCandidate(policy_one, ranking_one, load, keys_one));
            sides[1].push(OwnedCandidate(policy_two, ranking_two, Vec::new(), keys_two));
        }
        let inputs = [(Party::One, &sides[0]), (Party::Two, &sides[1])].map(|(party, side)| {
            let candidates: Vec<Candidate<'_>> = side
                .iter()
                .map(|OwnedCandidate(policy, ranking, load, keys)| Candidate {
                    policy,
                    ranking,
                    load,
                    keys,
                })
                .collect();
            circuit.inputs(party, lanes, &candidates).unwrap()
        });
        let shares = self.run(circuit.program(), &inputs).map(|outputs| circuit.results(&outputs));
        let pairs = shares[0].iter().zip(&shares[1]);
        pairs.map(|(one, two)| circuit.form().open([*one, *two]).unwrap()).collect()
    }
}

struct OwnedCandidate(Vec<u64>, Vec<Vec<u64>>, Vec<Vec<u64>>, Vec<u128>);

/// A route in the clear; each of the fields by lane.
#[derive(Default, Clone)]
pub struct ClearRoute {
    pub policy: Vec<bool>,
    /// Classes, or whether it is of the best class.
    pub ranking: Vec<u8>,
    /// Empty for a circuit that takes none.
    pub load: Vec<u8>,
    pub keys: Vec<u128>,
}

pub fn bits(lanes: &[bool]) -> Vec<u64> {
    let numbers: Vec<u8> = lanes.iter().map(|bit| u8::from(*bit)).collect();
    rows(&numbers, 1).remove(0)
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

    pub fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    pub fn share(&mut self, row: &[u64]) -> [Vec<u64>; 2] {
        let one: Vec<u64> = row.iter().map(|_| self.word()).collect();
        let two = one.iter().zip(row).map(|(share, value)| share ^ value).collect();
        [one, two]
    }

    /// A permutation of `0..count` (Fisher and Yates).
    pub fn order(&mut self, count: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.below(last as u64 + 1) as usize);
        }
        order
    }
}

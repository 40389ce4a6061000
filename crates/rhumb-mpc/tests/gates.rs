//! Every gate and every small circuit against plaintext, and what they cost.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;

use pair::{Pair, Random, SMALL, Values};
use proptest::prelude::*;
use rhumb_mpc::{Bit, Circuit, Cost, FieldBits, MpcError, OrderSlot, Owner, Parameters};

use crate::pair;

/// Lanes with a last word that is not full.
const LANES: usize = 750;
const WORDS: usize = 12;
const LAST: u64 = u64::MAX >> (WORDS * 64 - LANES);

fn trimmed(mut row: Vec<u64>) -> Vec<u64> {
    row[WORDS - 1] &= LAST;
    row
}

#[test]
fn each_gate_computes_what_it_says() {
    for field in [FieldBits::Two, FieldBits::Four] {
        let mut pair = Pair::new(Parameters { field, ..SMALL }, 1);
        let mut circuit = Circuit::new();
        let [s, x, y] = [(); 3].map(|()| circuit.input(Owner::Shared));
        let [v, w] = [(); 2].map(|()| circuit.input_vector(Owner::Shared));
        let ones = circuit.constant(true);
        let outs = [
            circuit.and(x, y),
            circuit.xor(x, y),
            circuit.not(x),
            circuit.or(x, y),
            circuit.mux(s, x, y),
            circuit.and(x, ones),
            circuit.equal(&[x, y], &[y, x]),
        ];
        let vectors =
            [circuit.xor_vector(v, w), circuit.and_vector(s, v), circuit.mux_vector(s, v, w)];
        outs.into_iter().for_each(|bit| circuit.output(bit));
        vectors.into_iter().for_each(|vector| circuit.output_vector(vector));
        let program = Arc::new(circuit.finish());
        let mut random = Random(2);
        for coins in 0..3 {
            let [rs, rx, ry] = [(); 3].map(|()| random.row(WORDS));
            let [rv, rw] = [(); 2].map(|()| (0..LANES).map(|_| random.wide()).collect::<Vec<_>>());
            let values = Values {
                bits: vec![(s, rs.clone()), (x, rx.clone()), (y, ry.clone())],
                vectors: vec![(v, rv.clone()), (w, rw.clone())],
                coins,
            };
            let opened = pair.run(&program, LANES, &values);
            pair.refill();
            let each = |f: fn(u64, u64, u64) -> u64| {
                trimmed((0..WORDS).map(|i| f(rs[i], rx[i], ry[i])).collect())
            };
            let expected: [fn(u64, u64, u64) -> u64; 7] = [
                |_, x, y| x & y,
                |_, x, y| x ^ y,
                |_, x, _| !x,
                |_, x, y| x | y,
                |s, x, y| s & x | !s & y,
                |_, x, _| x,
                |_, x, y| !(x ^ y),
            ];
            for (number, (bits, expected)) in opened.bits.iter().zip(expected).enumerate() {
                assert_eq!(*bits, each(expected), "gate {number}");
            }
            for lane in 0..LANES {
                let (v, w, s) = (rv[lane], rw[lane], rs[lane / 64] >> (lane % 64) & 1 == 1);
                let expected = [v ^ w, if s { v } else { 0 }, if s { v } else { w }];
                let opened = [0, 1, 2].map(|vector: usize| opened.vectors[vector][lane]);
                assert_eq!(opened, expected, "lane {lane}");
            }
        }
    }
}

/// All pairs of two bytes, in lanes.
#[test]
fn the_comparator_is_right_for_all_pairs_of_bytes() {
    let parameters = Parameters { bit_words: 1 << 16, ..SMALL };
    let mut pair = Pair::new(parameters, 3);
    let mut circuit = Circuit::new();
    let [left, right] = [(); 2].map(|()| circuit.inputs(Owner::Shared, 8));
    let greater = circuit.greater(&left, &right);
    let equal = circuit.equal(&left, &right);
    [greater, equal].into_iter().for_each(|bit| circuit.output(bit));
    let program = Arc::new(circuit.finish());
    let row = |shift: usize| -> Vec<u64> {
        (0..1024).map(|w| word(|lane| (w * 64 + lane) >> shift & 1 == 1)).collect()
    };
    let bits = left.iter().enumerate().map(|(i, wire)| (*wire, row(i)));
    let bits = bits.chain(right.iter().enumerate().map(|(i, wire)| (*wire, row(i + 8)))).collect();
    let opened = pair.run(&program, 1 << 16, &Values { bits, vectors: vec![], coins: 4 });
    for w in 0..1024 {
        let pair_of = |lane: usize| ((w * 64 + lane) & 255, (w * 64 + lane) >> 8);
        assert_eq!(opened.bits[0][w], word(|lane| pair_of(lane).0 > pair_of(lane).1));
        assert_eq!(opened.bits[1][w], word(|lane| pair_of(lane).0 == pair_of(lane).1));
    }
}

fn word(bit: impl Fn(usize) -> bool) -> u64 {
    (0..64).fold(0, |word, lane| word | u64::from(bit(lane)) << lane)
}

/// Every subset of up to eight wires, in lanes.
#[test]
fn prefixes_and_first_ones_are_right_for_all_subsets() {
    let mut pair = Pair::new(SMALL, 5);
    for count in 1..=8 {
        let mut circuit = Circuit::new();
        let inputs = circuit.inputs(Owner::Shared, count);
        let outs = [circuit.prefix_or(&inputs), circuit.first_one(&inputs)].concat();
        outs.into_iter().for_each(|bit| circuit.output(bit));
        let program = Arc::new(circuit.finish());
        let row = |i: usize| (0..4).map(|w| word(|lane| (w * 64 + lane) >> i & 1 == 1)).collect();
        let bits = inputs.iter().enumerate().map(|(i, wire)| (*wire, row(i))).collect();
        let opened = pair.run(&program, 256, &Values { bits, vectors: vec![], coins: 6 });
        pair.refill();
        for i in 0..count {
            for w in 0..4 {
                let subset = |lane: usize| w * 64 + lane;
                let prefix = word(|lane| subset(lane) & ((2 << i) - 1) != 0);
                let first = word(|lane| subset(lane).trailing_zeros() as usize == i);
                assert_eq!(opened.bits[i][w], prefix, "prefix {i} of {count}");
                assert_eq!(opened.bits[count + i][w], first, "first {i} of {count}");
            }
        }
    }
}

#[test]
fn costs_are_the_published_ones() {
    let cost = |build: &dyn Fn(&mut Circuit) -> Vec<Bit>| {
        let mut circuit = Circuit::new();
        build(&mut circuit).into_iter().for_each(|bit| circuit.output(bit));
        circuit.finish().cost()
    };
    let ands = |ands, rounds| Cost { ands, rounds, ..Cost::default() };
    let bytes = |circuit: &mut Circuit| [(); 2].map(|()| circuit.inputs(Owner::Shared, 8));
    let greater = cost(&|circuit| {
        let [left, right] = bytes(circuit);
        vec![circuit.greater(&left, &right)]
    });
    assert_eq!(greater, ands(19, 4));
    let equal = cost(&|circuit| {
        let [left, right] = bytes(circuit);
        vec![circuit.equal(&left, &right)]
    });
    assert_eq!(equal, ands(7, 3));
    for (count, prefix) in [(8, 12), (32, 80)] {
        let first = cost(&|circuit| {
            let inputs = circuit.inputs(Owner::Shared, count);
            circuit.first_one(&inputs)
        });
        assert_eq!(first, ands(prefix, count.ilog2() as usize));
    }
    // The tournament of the paper: per comparison 19 ANDs, 8 for the
    // preference, one vector for the key; and 5 levels.
    let mut circuit = Circuit::new();
    let [left, right] = bytes(&mut circuit);
    let keys = [(); 2].map(|()| circuit.input_vector(Owner::Shared));
    let select = circuit.greater(&left, &right);
    circuit.mux_all(select, &left, &right).into_iter().for_each(|bit| circuit.output(bit));
    let key = circuit.mux_vector(select, keys[0], keys[1]);
    circuit.output_vector(key);
    let program = circuit.finish();
    assert_eq!(program.cost(), Cost { ands: 27, vector_ands: 1, permuted: 0, rounds: 5 });
    let per_word = 8 * (2 * 27 + 129);
    assert_eq!(program.payload_len(rhumb_mpc::Party::One, LANES), per_word * WORDS);
}

#[test]
fn an_order_and_its_inverse() {
    let mut pair = Pair::new(SMALL, 7);
    let mut random = Random(8);
    for size in [2, 3, 5, 8, 32, 64] {
        let mut circuit = Circuit::new();
        let inputs = circuit.inputs(Owner::Shared, size);
        let slot = OrderSlot(size as u8 % 16);
        let there = circuit.permute(slot, &inputs);
        let inverse = circuit.unpermute(slot, &inputs);
        let back = circuit.unpermute(slot, &there);
        let outs = [there, inverse, back].concat();
        outs.into_iter().for_each(|bit| circuit.output(bit));
        let program = Arc::new(circuit.finish());
        let cost = Cost { permuted: 3 * size, rounds: 2, ..Cost::default() };
        assert_eq!(program.cost(), cost);
        for _ in 0..2 {
            let mut order: Vec<u32> = (0..size as u32).collect();
            for at in (1..size).rev() {
                order.swap(at, random.word() as usize % (at + 1));
            }
            pair.one.install_order(slot, &order).unwrap();
            rhumb_mpc::exchange(&mut pair.one, &mut pair.two).unwrap();
            assert!(pair.one.order_epoch(slot).is_some());
            assert_eq!(pair.one.order_epoch(slot), pair.two.order_epoch(slot));
            // An order is set up once and serves many runs.
            for coins in 0..3 {
                let rows: Vec<Vec<u64>> = (0..size).map(|_| random.row(WORDS)).collect();
                let bits = inputs.iter().copied().zip(rows.iter().cloned()).collect();
                let opened = pair.run(&program, LANES, &Values { bits, vectors: vec![], coins });
                for (i, from) in order.iter().enumerate() {
                    let from = *from as usize;
                    assert_eq!(opened.bits[i], trimmed(rows[from].clone()), "size {size}");
                    assert_eq!(opened.bits[size + from], trimmed(rows[i].clone()));
                    assert_eq!(opened.bits[2 * size + i], trimmed(rows[i].clone()));
                }
            }
        }
    }
}

#[test]
fn what_cannot_run_is_refused_and_the_session_goes_on() {
    let mut pair = Pair::new(SMALL, 9);
    let mut circuit = Circuit::new();
    let (mine, theirs) = (circuit.input(Owner::One), circuit.input(Owner::Two));
    let ordered = circuit.permute(OrderSlot(3), &[mine, theirs]);
    let out = circuit.and(ordered[0], ordered[1]);
    circuit.output(out);
    let program = Arc::new(circuit.finish());
    let inputs = |party, bits: &[Bit], lanes: usize| {
        let mut inputs = rhumb_mpc::Inputs::new(&program, party, lanes).unwrap();
        for bit in bits {
            inputs.set(*bit, &vec![1; lanes.div_ceil(64)]);
        }
        inputs
    };
    use rhumb_mpc::Party::{One, Two};
    let wrong = Err(MpcError::Input("is missing, given twice, or not this party's"));
    assert_eq!(pair.one.start(&program, &inputs(One, &[], 1)), wrong);
    assert_eq!(pair.one.start(&program, &inputs(One, &[mine, mine], 1)), wrong);
    assert_eq!(pair.one.start(&program, &inputs(One, &[mine, theirs], 1)), wrong);
    assert_eq!(pair.one.start(&program, &inputs(One, &[theirs], 1)), wrong);
    let others = pair.one.start(&program, &inputs(Two, &[theirs], 1));
    assert_eq!(others, Err(MpcError::Input("is made for the other party")));
    let unordered = pair.one.start(&program, &inputs(One, &[mine], 1));
    assert_eq!(unordered, Err(MpcError::NoOrder { slot: 3 }));
    for order in [&[0, 0][..], &[1, 2], &[0], &[]] {
        let refused = pair.one.install_order(OrderSlot(3), order);
        assert_eq!(refused, Err(MpcError::Input("is no permutation of 2 to 64 wires")));
    }
    let beyond = OrderSlot(rhumb_mpc::MAX_ORDER_SLOTS as u8);
    assert!(pair.one.install_order(beyond, &[1, 0]).is_err());
    assert!(pair.two.install_order(OrderSlot(3), &[1, 0]).is_err());
    pair.one.install_order(OrderSlot(3), &[1, 0]).unwrap();
    rhumb_mpc::exchange(&mut pair.one, &mut pair.two).unwrap();
    let many = inputs(One, &[mine], 64 * 2049);
    let error = MpcError::NotEnoughTriples { needed: 2049, stock: 2048 };
    assert_eq!(pair.one.start(&program, &many), Err(error));
    for lanes in [0, rhumb_mpc::MAX_LANES + 1] {
        assert!(rhumb_mpc::Inputs::new(&program, One, lanes).is_err());
    }
    pair.one.start(&program, &inputs(One, &[mine], 1)).unwrap();
    assert_eq!(pair.one.start(&program, &inputs(One, &[mine], 1)), Err(MpcError::Busy));
    pair.two.start(&program, &inputs(Two, &[theirs], 1)).unwrap();
    rhumb_mpc::exchange(&mut pair.one, &mut pair.two).unwrap();
    assert_eq!(pair.one.start(&program, &inputs(One, &[mine], 1)), Err(MpcError::Busy));
    let shares = [pair.one.take_outputs().unwrap(), pair.two.take_outputs().unwrap()];
    assert_eq!(pair::Opened::new(&shares).bits, [[1]]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Random circuits over random lanes, evaluated in the clear beside.
    #[test]
    fn random_circuits(
        gates in proptest::collection::vec((0_u8..4, any::<u16>(), any::<u16>()), 1..40),
        lanes in 1_usize..130,
        coins: u64,
    ) {
        let mut pair = Pair::new(SMALL, 11);
        let mut random = Random(coins);
        let words = lanes.div_ceil(64);
        let mut circuit = Circuit::new();
        let mut wires = circuit.inputs(Owner::Shared, 4);
        let mut clear: Vec<Vec<u64>> = (0..4).map(|_| random.row(words)).collect();
        let bits = wires.iter().copied().zip(clear.iter().cloned()).collect();
        for (kind, left, right) in gates {
            let (l, r) = (usize::from(left) % wires.len(), usize::from(right) % wires.len());
            let (wire, f): (_, fn(u64, u64) -> u64) = match kind {
                0 => (circuit.and(wires[l], wires[r]), |l, r| l & r),
                1 => (circuit.xor(wires[l], wires[r]), |l, r| l ^ r),
                2 => (circuit.or(wires[l], wires[r]), |l, r| l | r),
                _ => (circuit.not(wires[l]), |l, _| !l),
            };
            clear.push((0..words).map(|w| f(clear[l][w], clear[r][w])).collect());
            wires.push(wire);
        }
        wires.iter().for_each(|wire| circuit.output(*wire));
        let program = Arc::new(circuit.finish());
        let opened = pair.run(&program, lanes, &Values { bits, vectors: vec![], coins });
        let last = u64::MAX >> (words * 64 - lanes);
        for (bits, mut clear) in opened.bits.into_iter().zip(clear) {
            clear[words - 1] &= last;
            prop_assert_eq!(bits, clear);
        }
    }
}

//! Privacy of runs, by exact enumeration: what a party sees of a small circuit
//! has the same distribution whatever the other party's inputs are; and what it
//! sends has the same lengths, whatever anything is.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::circuit::{Circuit, Owner, Vector};
use crate::message::LevelTag;
use crate::program::{Inputs, Program};
use crate::run::{Masks, Orders, Run, Workspace};
use crate::side_by_side::Aligned;
use crate::triples::{FourVectors, TripleRows};
use crate::{Bit, MAX_ORDER_SLOTS, Party};

/// Two ANDs, one after the other, of one input each: `(x y) (x + y)`.
fn circuit() -> (Arc<Program>, [Bit; 2]) {
    let mut circuit = Circuit::new();
    let inputs = [Owner::One, Owner::Two].map(|owner| circuit.input(owner));
    let product = circuit.and(inputs[0], inputs[1]);
    let sum = circuit.xor(inputs[0], inputs[1]);
    let out = circuit.and(product, sum);
    circuit.output(out);
    (Arc::new(circuit.finish()), inputs)
}

fn tag(program: &Program, lanes: u32) -> LevelTag {
    let (run, level, bit_serial, vector_serial) = (0, 0, 0, 0);
    let (program, orders) = (program.digest, [0; 32]);
    LevelTag { run, level, lanes, program, bit_serial, vector_serial, orders }
}

fn words<'a>(a: &'a [u64; 2], b: &'a [u64; 2], c: &'a [u64; 2]) -> Masks<'a> {
    Masks { bits: TripleRows { a, b, c }, vectors: NO_VECTORS }
}

const NO_VECTORS: TripleRows<'_, FourVectors> = TripleRows { a: &[], b: &[], c: &[] };

/// All that a party knows in the end, in the lowest lane: its
/// triples, what it received, its share of the result.
type View = (Vec<u64>, Vec<u64>, u64);

/// Runs the circuit with what a dealer dealt; both views, and the result.
fn views(inputs: [u64; 2], dealt: [[u64; 2]; 5]) -> ([View; 2], u64) {
    let (program, wires) = circuit();
    let [a1, a2, b1, b2, c1] = dealt;
    let c2 = [0, 1].map(|i| c1[i] ^ (a1[i] ^ a2[i]) & (b1[i] ^ b2[i]));
    let masks = [words(&a1, &b1, &c1), words(&a2, &b2, &c2)];
    let mut runs = [Party::One, Party::Two].map(|party| {
        let at = party as usize - 1;
        let mut given = Inputs::new(&program, party, 1).unwrap();
        given.set(wires[at], &[inputs[at]]);
        Run::new(&program, tag(&program, 1), &given, Workspace::default())
    });
    let mut orders: Orders = [const { None }; MAX_ORDER_SLOTS];
    let mut received = [Vec::new(), Vec::new()];
    for _ in 0..2 {
        let sent =
            [0, 1].map(|side| runs[side].begin_level(masks[side], &mut orders).unwrap().to_vec());
        for (side, run) in runs.iter_mut().enumerate() {
            run.finish_level(masks[side], &mut orders, &sent[1 - side]).unwrap();
            received[side].extend(
                sent[1 - side].as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes) & 1),
            );
        }
    }
    let mut side = 0;
    let shares = runs.map(|mut run| {
        assert!(run.begin_level(masks[side], &mut orders).is_none());
        side += 1;
        run.finish().0.bits()[0][0]
    });
    let [one, two] = received;
    let own = [[a1, b1, c1].concat(), [a2, b2, c2].concat()];
    let [mine, theirs] = own;
    ([(mine, one, shares[0]), (theirs, two, shares[1])], shares[0] ^ shares[1])
}

#[test]
fn a_view_does_not_depend_on_the_others_input() {
    for party in [0, 1] {
        for own in [0, 1] {
            let histograms = [0, 1].map(|other| {
                let inputs = if party == 0 { [own, other] } else { [other, own] };
                let mut histogram: BTreeMap<View, u64> = BTreeMap::new();
                for coins in 0..1_u64 << 10 {
                    let bit = |at: usize| coins >> at & 1;
                    let dealt = std::array::from_fn(|i| [bit(2 * i), bit(2 * i + 1)]);
                    let (views, result) = views(inputs, dealt);
                    assert_eq!(result, 0, "x y (x + y) is never one");
                    *histogram.entry(views[party].clone()).or_default() += 1;
                }
                histogram
            });
            assert!(histograms[0].len() > 100);
            assert_eq!(histograms[0], histograms[1], "party {party}, input {own}");
        }
    }
}

/// The enumeration above would see a leak: without masks the views differ.
#[test]
fn the_enumeration_sees_a_leak() {
    let unmasked = [[0; 2]; 5];
    let (views_of_zero, _) = views([1, 0], unmasked);
    let (views_of_one, _) = views([1, 1], unmasked);
    assert_ne!(views_of_zero[0], views_of_one[0]);
}

/// One lane of a vector AND: the 129 bits that are
/// opened are masked by 129 bits that are used once.
#[test]
fn what_a_vector_gate_opens_is_its_input_masked() {
    let mut circuit = Circuit::new();
    let bit = circuit.input(Owner::Shared);
    let vector: Vector = circuit.input_vector(Owner::Shared);
    let out = circuit.and_vector(bit, vector);
    circuit.output_vector(out);
    let program = Arc::new(circuit.finish());
    let mut given = Inputs::new(&program, Party::Two, 1).unwrap();
    given.set(bit, &[1]).set_vector(vector, &[0xABCD]);
    let (b, c) =
        ([Aligned([0x1234, 0, 0x1234, 0, 0x1234, 0, 0x1234, 0]); 16], [Aligned([0; 8]); 16]);
    let bits = TripleRows { a: &[], b: &[], c: &[] };
    let masks = Masks { bits, vectors: TripleRows { a: &[1], b: &b, c: &c } };
    let mut run = Run::new(&program, tag(&program, 1), &given, Workspace::default());
    let mut orders: Orders = [const { None }; MAX_ORDER_SLOTS];
    let sent = run.begin_level(masks, &mut orders).unwrap();
    assert_eq!(sent.len(), 8 + 64 * 16);
    assert_eq!(sent[..8], 0_u64.to_le_bytes());
    assert_eq!(sent[8..24], (0xABCD_u128 ^ 0x1234).to_le_bytes());
    assert_eq!(sent[24..40], 0x1234_u128.to_le_bytes());
}

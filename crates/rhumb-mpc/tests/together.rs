//! Programs that are run together give what each gives alone, in the rounds of the longest.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;

use rhumb_mpc::{Circuit, Inputs, MpcError, OrderSlot, Owner, Party, Program, exchange};

use crate::pair::{Opened, Pair, Random, SMALL, Values};

const LANES: usize = 130;
const WORDS: usize = 3;

/// A program with values for its inputs.
type Example = (Arc<Program>, Values);

/// One round; and none.
fn short(random: &mut Random) -> [Example; 2] {
    [true, false].map(|has_round| {
        let mut circuit = Circuit::new();
        let [left, right] = [(); 2].map(|()| circuit.input(Owner::Shared));
        let out = if has_round { circuit.and(left, right) } else { circuit.xor(left, right) };
        let inverted = circuit.not(out);
        [out, inverted].into_iter().for_each(|bit| circuit.output(bit));
        let bits = [left, right].map(|wire| (wire, random.row(WORDS))).into();
        (Arc::new(circuit.finish()), Values { bits, vectors: vec![], coins: random.word() })
    })
}

/// With vectors and several rounds.
fn tournament(random: &mut Random) -> Example {
    let mut circuit = Circuit::new();
    let [left, right] = [(); 2].map(|()| circuit.inputs(Owner::Shared, 8));
    let [mine, other] = [(); 2].map(|()| circuit.input_vector(Owner::Shared));
    let constant = circuit.constant_vector(77);
    let wins = circuit.greater(&left, &right);
    let winner = circuit.mux_vector(wins, mine, other);
    let shifted = circuit.xor_vector(winner, constant);
    [winner, shifted].into_iter().for_each(|vector| circuit.output_vector(vector));
    circuit.output(wins);
    let bits = [left, right].concat().into_iter().map(|wire| (wire, random.row(WORDS))).collect();
    let vectors =
        [mine, other].map(|wire| (wire, (0..LANES).map(|_| random.wide()).collect())).into();
    (Arc::new(circuit.finish()), Values { bits, vectors, coins: random.word() })
}

/// By the order in a slot.
fn ordered(random: &mut Random, slot: OrderSlot) -> Example {
    let mut circuit = Circuit::new();
    let inputs = circuit.inputs(Owner::Shared, 4);
    let there = circuit.permute(slot, &inputs);
    let first = circuit.first_one(&there);
    circuit.unpermute(slot, &first).into_iter().for_each(|bit| circuit.output(bit));
    let bits = inputs.into_iter().map(|wire| (wire, random.row(WORDS))).collect();
    (Arc::new(circuit.finish()), Values { bits, vectors: vec![], coins: random.word() })
}

#[test]
fn together_they_give_what_each_gives_alone() {
    let mut pair = Pair::new(SMALL, 21);
    let mut random = Random(22);
    for (slot, order) in [(3, [2, 0, 3, 1]), (4, [1, 0, 2, 3])] {
        pair.one.install_order(OrderSlot(slot), &order).unwrap();
        exchange(&mut pair.one, &mut pair.two).unwrap();
    }
    let mut examples = vec![tournament(&mut random), ordered(&mut random, OrderSlot(3))];
    examples.extend(short(&mut random));
    // The same order twice in one level, and another one.
    examples.extend([3, 4].map(|slot| ordered(&mut random, OrderSlot(slot))));
    let alone: Vec<Opened> = examples
        .iter()
        .map(|(program, values)| {
            let opened = pair.run(program, LANES, values);
            pair.refill();
            opened
        })
        .collect();

    let programs: Vec<_> = examples.iter().map(|(program, _)| Arc::clone(program)).collect();
    let program = Arc::new(Program::together(&programs));
    let costs = programs.iter().map(|program| program.cost());
    assert_eq!(program.cost().ands, costs.clone().map(|cost| cost.ands).sum());
    assert_eq!(program.cost().rounds, costs.map(|cost| cost.rounds).max().unwrap());
    let inputs = [0, 1].map(|party| {
        let of_each = examples.iter().map(|(program, values)| {
            let [one, two] = values.split(program, LANES);
            if party == 0 { one } else { two }
        });
        Inputs::together(&programs, of_each.collect()).unwrap()
    });
    pair.one.start(&program, &inputs[0]).unwrap();
    pair.two.start(&program, &inputs[1]).unwrap();
    exchange(&mut pair.one, &mut pair.two).unwrap();
    let [one, two] = [&mut pair.one, &mut pair.two]
        .map(|session| session.take_outputs().unwrap().apart(&programs));
    for (number, (one, two)) in one.into_iter().zip(two).enumerate() {
        assert_eq!(Opened::new(&[one, two]), alone[number], "program {number}");
    }
}

#[test]
fn inputs_of_others_are_refused() {
    let mut random = Random(23);
    let [first, second] = short(&mut random);
    let programs = [Arc::clone(&first.0), Arc::clone(&second.0)];
    let zeros = |of: &Example, party, lanes| Inputs::zeros(&of.0, party, lanes).unwrap();
    let refused = |inputs: Vec<Inputs>| {
        let error = Inputs::together(&programs, inputs).err();
        assert!(matches!(error, Some(MpcError::Input(_))), "{error:?}");
    };
    let one = Party::One;
    assert!(
        Inputs::together(&programs, vec![zeros(&first, one, 9), zeros(&second, one, 9)]).is_ok()
    );
    refused(vec![]);
    refused(vec![zeros(&first, one, 9)]);
    refused(vec![zeros(&second, one, 9), zeros(&first, one, 9)]);
    refused(vec![zeros(&first, one, 9), zeros(&second, one, 10)]);
    refused(vec![zeros(&first, one, 9), zeros(&second, Party::Two, 9)]);
}

//! Whatever is lost, repeated, overtaken, cut, changed or out of step ends the session with an
//! error that says so, and for good.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;

use rhumb_mpc::{
    Bit, Circuit, FieldBits, Inputs, MAX_MESSAGE, MpcError, OrderSlot, Owner, Parameters, Party,
    Program, Seed, Session, Stock, VERSION, exchange,
};

use crate::pair::{Pair, Random, SMALL};

/// Two levels deep: `x y z`.
fn program(order: Option<u8>) -> (Arc<Program>, [Bit; 3]) {
    let mut circuit = Circuit::new();
    let [x, y, z] = [(); 3].map(|()| circuit.input(Owner::Shared));
    let mut inputs = [x, y];
    if let Some(slot) = order {
        inputs.copy_from_slice(&circuit.permute(OrderSlot(slot), &[x, y]));
    }
    let xy = circuit.and(inputs[0], inputs[1]);
    let xyz = circuit.and(xy, z);
    circuit.output(xyz);
    (Arc::new(circuit.finish()), [x, y, z])
}

fn start(
    session: &mut Session,
    party: Party,
    (program, bits): &(Arc<Program>, [Bit; 3]),
    lanes: usize,
) {
    let mut inputs = Inputs::new(program, party, lanes).unwrap();
    for bit in bits {
        inputs.set(*bit, &vec![3; lanes.div_ceil(64)]);
    }
    session.start(program, &inputs).unwrap();
}

/// Party one's error, once both have begun; it has nothing
/// more to say, and whatever comes then is refused.
fn error_of_one(pair: &mut Pair) -> MpcError {
    let mut error = None;
    while let Some(message) = pair.two.poll_message() {
        if let Err(what) = pair.one.handle(&message) {
            error.get_or_insert(what);
        }
    }
    check_dead(&mut pair.one);
    error.unwrap()
}

fn check_dead(session: &mut Session) {
    assert!(session.has_failed() && !session.is_ready());
    assert_eq!(session.poll_message(), None);
    assert_eq!(session.handle(&[]), Err(MpcError::Failed));
    assert_eq!(session.refill(), Err(MpcError::Failed));
    assert_eq!(session.install_order(OrderSlot(0), &[1, 0]), Err(MpcError::Failed));
    assert_eq!(session.stock(), Stock::default());
    assert!(session.take_outputs().is_none());
    let (program, _) = program(None);
    let inputs = Inputs::new(&program, Party::One, 1).unwrap();
    assert_eq!(session.start(&program, &inputs), Err(MpcError::Failed));
}

#[test]
fn other_programs_lanes_and_orders_are_noticed() {
    let plain = program(None);
    let mut pair = Pair::new(SMALL, 1);
    start(&mut pair.one, Party::One, &plain, 100);
    start(&mut pair.two, Party::Two, &plain, 120);
    let lanes = MpcError::Desynchronised("the number of lanes");
    assert_eq!(error_of_one(&mut pair), lanes);

    let mut pair = Pair::new(SMALL, 2);
    pair.one.install_order(OrderSlot(1), &[1, 0]).unwrap();
    exchange(&mut pair.one, &mut pair.two).unwrap();
    start(&mut pair.one, Party::One, &plain, 100);
    start(&mut pair.two, Party::Two, &program(Some(1)), 100);
    assert_eq!(error_of_one(&mut pair), MpcError::Desynchronised("the program"));

    // The peer's level is here before this party begins another program.
    let mut pair = Pair::new(SMALL, 3);
    pair.one.install_order(OrderSlot(1), &[1, 0]).unwrap();
    exchange(&mut pair.one, &mut pair.two).unwrap();
    start(&mut pair.two, Party::Two, &plain, 100);
    pair.one.handle(&pair.two.poll_message().unwrap()).unwrap();
    let (other, bits) = program(Some(1));
    let mut inputs = Inputs::new(&other, Party::One, 100).unwrap();
    for bit in bits {
        inputs.set(bit, &[0, 0]);
    }
    let result = pair.one.start(&other, &inputs);
    assert_eq!(result, Err(MpcError::Desynchronised("the program")));
    check_dead(&mut pair.one);
}

#[test]
fn a_run_that_only_one_party_has_done_is_noticed() {
    let plain = program(None);
    let mut pair = Pair::new(SMALL, 4);
    start(&mut pair.one, Party::One, &plain, 64);
    start(&mut pair.two, Party::Two, &plain, 64);
    exchange(&mut pair.one, &mut pair.two).unwrap();
    assert!(pair.one.take_outputs().is_some() && pair.two.take_outputs().is_some());
    // A run without rounds takes no triples and no messages;
    // the number of the run differs all the same.
    let mut circuit = Circuit::new();
    let bit = circuit.input(Owner::Two);
    circuit.output(bit);
    let local = Arc::new(circuit.finish());
    let inputs = Inputs::new(&local, Party::One, 1).unwrap();
    pair.one.start(&local, &inputs).unwrap();
    assert!(pair.one.take_outputs().is_some());
    start(&mut pair.one, Party::One, &plain, 64);
    start(&mut pair.two, Party::Two, &plain, 64);
    assert_eq!(error_of_one(&mut pair), MpcError::Desynchronised("the number of the run"));
}

#[test]
fn lost_repeated_and_overtaken_messages_are_noticed() {
    // Of the set-up and of a run, each message once.
    for lost in 0..6 {
        for fault in ["lost", "repeated", "swapped"] {
            let mut pair = Pair::fresh(SMALL, 5);
            let mut number = 0;
            let mut held: Option<Vec<u8>> = None;
            let mut result = Ok(());
            let mut started = false;
            while result.is_ok() {
                if !started
                    && pair.one.stock() != Stock::default()
                    && pair.two.stock() != Stock::default()
                {
                    started = true;
                    start(&mut pair.one, Party::One, &program(None), 64);
                    start(&mut pair.two, Party::Two, &program(None), 64);
                }
                if pair.two.is_ready() && pair.two.stock() == Stock::default() && number == 3 {
                    pair.two.refill().unwrap();
                }
                while let Some(message) = pair.one.poll_message() {
                    pair.two.handle(&message).unwrap();
                }
                let Some(message) = pair.two.poll_message() else { break };
                let hit = number == lost;
                number += 1;
                match (hit, fault) {
                    (true, "lost") => continue,
                    (true, "swapped") => {
                        held = Some(message);
                        continue;
                    }
                    (true, _) => result = pair.one.handle(&message),
                    (false, _) => {}
                }
                if result.is_ok() {
                    result = pair.one.handle(&message);
                }
                if let (Ok(()), Some(held)) = (&result, held.take()) {
                    result = pair.one.handle(&held);
                }
            }
            // After a lost level the peer waits for the answer:
            // nothing comes, and nothing is computed.
            if lost < 5 || fault == "repeated" {
                let error = result.unwrap_err();
                let in_order = matches!(error, MpcError::Sequence { .. } | MpcError::OtherSession);
                assert!(in_order, "{fault} {lost}: {error:?}");
                check_dead(&mut pair.one);
            } else {
                assert!(pair.one.take_outputs().is_none(), "{fault} {lost}");
            }
        }
    }
}

#[test]
fn messages_of_another_session_are_refused() {
    let mut pair = Pair::new(SMALL, 6);
    let mut other = Pair::new(SMALL, 7);
    for pair in [&mut pair, &mut other] {
        start(&mut pair.one, Party::One, &program(None), 64);
        start(&mut pair.two, Party::Two, &program(None), 64);
    }
    let message = other.two.poll_message().unwrap();
    assert_eq!(pair.one.handle(&message), Err(MpcError::OtherSession));
    check_dead(&mut pair.one);
}

/// After a break both begin from new seeds: other triples, and nothing of the old session is taken.
#[test]
fn a_new_session_has_nothing_of_the_old_one() {
    let openings = [8, 9].map(|seed| {
        let mut pair = Pair::new(SMALL, seed);
        start(&mut pair.one, Party::One, &program(None), 64);
        start(&mut pair.two, Party::Two, &program(None), 64);
        [pair.one.poll_message().unwrap(), pair.two.poll_message().unwrap()]
    });
    // The same inputs, opened under other masks: 16 bytes at the end.
    for (old, new) in openings[0].iter().zip(&openings[1]) {
        assert_ne!(old[old.len() - 16..], new[new.len() - 16..]);
        assert_ne!(old[2..18], new[2..18], "the session");
    }
}

#[test]
fn cut_lengthened_and_changed_messages_end_the_session() {
    let mut random = Random(10);
    // Hello, base, trees, triples of both kinds, level.
    for stage in 0..6 {
        for change in 0..8 {
            let mut pair = Pair::fresh(SMALL, 11);
            let mut message = next_of_two(&mut pair, stage);
            match change {
                0 => drop(message.pop()),
                1 => message.push(0),
                2 => message.truncate(random.word() as usize % message.len()),
                3 => message[0] ^= 3,
                4 => message[1] = 99,
                5 => message[2] ^= 1,
                6 => message[18] ^= 1,
                _ => message[1] = message[1] % 7 + 1,
            }
            let error = pair.one.handle(&message).unwrap_err();
            let expected = match change {
                3 => error == MpcError::Version { theirs: VERSION ^ 3 },
                5 => error == MpcError::OtherSession,
                6 => matches!(error, MpcError::Sequence { .. }),
                _ => matches!(
                    error,
                    MpcError::Malformed(_) | MpcError::Unexpected(_) | MpcError::Desynchronised(_)
                ),
            };
            assert!(expected, "stage {stage}, change {change}: {error:?}");
            check_dead(&mut pair.one);
        }
    }
    let mut pair = Pair::fresh(SMALL, 12);
    let long = vec![VERSION; MAX_MESSAGE + 1];
    let too_long = Err(MpcError::MessageTooLong { len: MAX_MESSAGE + 1 });
    assert_eq!(pair.one.handle(&long), too_long);
}

/// The message of party two that party one is to take at this stage.
fn next_of_two(pair: &mut Pair, stage: usize) -> Vec<u8> {
    for _ in 0..stage.min(3) {
        let messages = [pair.one.poll_message().unwrap(), pair.two.poll_message().unwrap()];
        pair.two.handle(&messages[0]).unwrap();
        pair.one.handle(&messages[1]).unwrap();
    }
    if stage >= 3 {
        pair.two.refill().unwrap();
    }
    if stage == 4 {
        pair.one.handle(&pair.two.poll_message().unwrap()).unwrap();
    }
    if stage == 5 {
        exchange(&mut pair.one, &mut pair.two).unwrap();
        start(&mut pair.one, Party::One, &program(None), 64);
        start(&mut pair.two, Party::Two, &program(None), 64);
    }
    pair.two.poll_message().unwrap()
}

#[test]
fn parties_that_do_not_fit_say_why() {
    let meet = |one: (Party, Parameters), two: (Party, Parameters)| {
        let mut one = Session::new(one.0, one.1, Seed::new([1; 32])).unwrap();
        let mut two = Session::new(two.0, two.1, Seed::new([2; 32])).unwrap();
        one.handle(&two.poll_message().unwrap())
    };
    use Party::{One, Two};
    assert_eq!(meet((One, SMALL), (Two, SMALL)), Ok(()));
    assert_eq!(meet((Two, SMALL), (Two, SMALL)), Err(MpcError::SameParty));
    let others = [
        (Parameters { field: FieldBits::Four, ..SMALL }, "field of the extension"),
        (Parameters { bit_words: 4096, ..SMALL }, "size of the pool of bit triples"),
        (Parameters { vector_words: 512, ..SMALL }, "size of the pool of vector triples"),
    ];
    for (other, what) in others {
        assert_eq!(meet((One, SMALL), (Two, other)), Err(MpcError::Parameter(what)));
    }
    let bounds = [
        (Parameters { bit_words: 127, ..SMALL }, false),
        (Parameters { bit_words: 128, ..SMALL }, true),
        (Parameters { vector_words: 127, ..SMALL }, false),
        (Parameters { vector_words: 128, ..SMALL }, true),
        (Parameters { bit_words: Parameters::MAX_BIT_WORDS + 1, ..SMALL }, false),
        (Parameters { vector_words: Parameters::MAX_VECTOR_WORDS + 1, ..SMALL }, false),
    ];
    for (parameters, is_good) in bounds {
        let session = Session::new(Party::One, parameters, Seed::new([1; 32]));
        assert_eq!(session.is_ok(), is_good, "{parameters:?}");
    }
}

#[test]
fn a_peer_cannot_fill_the_pool_beyond_its_bound() {
    let mut pair = Pair::new(SMALL, 13);
    // The peer alone believes that it used up its stock:
    // what it refills is more than this party holds.
    let (program, bits) = program(None);
    let mut error = None;
    for _ in 0..6 {
        let mut inputs = Inputs::new(&program, Party::Two, 64 * 1024).unwrap();
        for bit in bits {
            inputs.set(bit, &[0; 1024]);
        }
        if pair.two.start(&program, &inputs).is_err() {
            break;
        }
        while pair.two.refill().unwrap() {}
        while let Some(message) = pair.two.poll_message() {
            error = error.or(pair.one.handle(&message).err());
        }
    }
    assert!(pair.one.stock().bit_words <= 2 * 2048);
    assert_eq!(error, None, "one run ahead is allowed for");
}

/// Both may fill at once, and each may be ahead.
#[test]
fn pools_fill_from_both_sides() {
    let mut pair = Pair::fresh(SMALL, 14);
    exchange(&mut pair.one, &mut pair.two).unwrap();
    assert_eq!(pair.one.stock(), Stock::default());
    while pair.one.refill().unwrap() | pair.two.refill().unwrap() {}
    exchange(&mut pair.one, &mut pair.two).unwrap();
    assert_eq!(pair.one.stock(), pair.two.stock());
    assert_eq!(pair.one.stock().bit_words, 2048);
    assert_eq!(pair.one.stock().vector_words, 256);
    // Serial numbers go up by what a run takes: two ANDs over two words.
    for run in 1..=3 {
        start(&mut pair.one, Party::One, &program(None), 100);
        start(&mut pair.two, Party::Two, &program(None), 100);
        exchange(&mut pair.one, &mut pair.two).unwrap();
        assert!(pair.one.take_outputs().is_some() && pair.two.take_outputs().is_some());
        assert_eq!(pair.one.stock().bit_words_used, 4 * run);
        assert_eq!(pair.one.stock().bit_words, 2048 - 4 * run);
    }
}

#[test]
fn nothing_runs_before_the_session_is_set_up() {
    let mut pair = Pair::fresh(SMALL, 15);
    let (program, _) = program(None);
    let inputs = Inputs::new(&program, Party::One, 1).unwrap();
    assert_eq!(pair.one.start(&program, &inputs), Err(MpcError::NotReady));
    assert_eq!(pair.one.refill(), Err(MpcError::NotReady));
    assert!(!pair.one.has_failed());
}

/// Party two's view and party one's: lengths, counts and order of messages are those of the
/// program, whatever the secrets.
#[test]
fn transcripts_have_the_same_shape_for_all_secrets() {
    let shape = |values: [u64; 2], order: [u32; 2]| {
        let mut pair = Pair::new(SMALL, 16);
        let mut shape = Vec::new();
        pair.one.install_order(OrderSlot(2), &order).unwrap();
        let program = program(Some(2));
        let mut deliver = |pair: &mut Pair| {
            loop {
                let messages = [pair.one.poll_message(), pair.two.poll_message()];
                let lengths = messages.each_ref().map(|m| m.as_ref().map(|m| (m[1], m.len())));
                if lengths == [None; 2] {
                    break;
                }
                shape.push(lengths);
                let [from_one, from_two] = messages;
                from_one.iter().for_each(|message| pair.two.handle(message).unwrap());
                from_two.iter().for_each(|message| pair.one.handle(message).unwrap());
            }
        };
        deliver(&mut pair);
        for (party, value) in [Party::One, Party::Two].into_iter().zip(values) {
            let mut inputs = Inputs::new(&program.0, party, 64).unwrap();
            for bit in program.1 {
                inputs.set(bit, &[value]);
            }
            let session = if party == Party::One { &mut pair.one } else { &mut pair.two };
            session.start(&program.0, &inputs).unwrap();
        }
        deliver(&mut pair);
        shape
    };
    let first = shape([0, 0], [0, 1]);
    assert_eq!(first.len(), 2 + 3);
    for values in [[u64::MAX, 0], [0, u64::MAX], [0x1234, 0xFEDC]] {
        assert_eq!(shape(values, [1, 0]), first);
    }
}

//! Examples of messages between the two parties of a computation.

use std::sync::Arc;

use rhumb_mpc::{Circuit, Inputs, OrderSlot, Owner, Parameters, Party, Seed, Session, VERSION};

/// The first bytes of each message of party one up to a level of a
/// run; the long ones cut, which parse as well.
pub(crate) fn messages() -> Result<Vec<Vec<u8>>, rhumb_mpc::MpcError> {
    let mut circuit = Circuit::new();
    let inputs = circuit.inputs(Owner::One, 2);
    let ordered = circuit.permute(OrderSlot(1), &inputs);
    let out = circuit.and(ordered[0], ordered[1]);
    circuit.output(out);
    let program = Arc::new(circuit.finish());

    let mut one = Session::new(Party::One, Parameters::default(), Seed::new([1; 32]))?;
    let mut two = Session::new(Party::Two, Parameters::default(), Seed::new([2; 32]))?;
    let mut examples = Vec::new();
    deliver(&mut one, &mut two, &mut examples)?;
    one.refill()?;
    deliver(&mut one, &mut two, &mut examples)?;
    one.install_order(OrderSlot(1), &[1, 0])?;
    deliver(&mut one, &mut two, &mut examples)?;
    let mut values = Inputs::new(&program, Party::One, 1)?;
    one.start(&program, values.set(inputs[0], &[1]).set(inputs[1], &[0]))?;
    deliver(&mut one, &mut two, &mut examples)?;
    assert!(examples.len() > 8 && examples.iter().all(|example| example[0] == VERSION));
    Ok(examples)
}

fn deliver(
    one: &mut Session,
    two: &mut Session,
    examples: &mut Vec<Vec<u8>>,
) -> Result<(), rhumb_mpc::MpcError> {
    loop {
        let messages = [one.poll_message(), two.poll_message()];
        if messages == [None, None] {
            return Ok(());
        }
        for (message, to) in messages.into_iter().zip([&mut *two, &mut *one]) {
            let Some(message) = message else { continue };
            examples.push(message[..message.len().min(LONGEST)].to_vec());
            to.handle(&message)?;
        }
    }
}

/// Up to the first offer of a message of base transfers: header, point, two points, offer.
const LONGEST: usize = 26 + 32 + 64 + 2336;

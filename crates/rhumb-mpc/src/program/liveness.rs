//! Which row of memory each wire of a program has: rows are given to later wires when they are read
//! for the last time, so that a run works in memory that stays in a cache.
//!
//! A level reads and writes in this order, to which the rows keep: its local gates, one after the
//! other; the inputs of its ANDs, which are masked and not read again; what party two permutes; the
//! products; what party one permutes.

use super::{Level, LocalGate};

/// Rows of one kind, of bits or of vectors.
struct Rows {
    /// Of each wire, when it is read for the last time.
    last_reads: Vec<u32>,
    of_wire: Vec<u32>,
    free: Vec<u32>,
    count: u32,
}

/// How many rows there are, of bits and of vectors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RowCounts {
    pub(crate) bits: usize,
    pub(crate) vectors: usize,
}

/// Replaces wires by rows: in the levels, in `inputs` (wires before, then rows), and in `outputs`.
/// Bits come first, then vectors.
pub(crate) fn assign(
    levels: &mut [Level],
    wires: [usize; 2],
    inputs: [&[u32]; 2],
    outputs: [&mut [u32]; 2],
) -> (RowCounts, [Vec<u32>; 2]) {
    let mut rows = wires.map(Rows::new);
    note_reads(levels, &mut rows);
    for (rows, outputs) in rows.iter_mut().zip(&outputs) {
        outputs.iter().for_each(|wire| rows.read(*wire, NEVER));
    }
    let input_rows = [0, 1].map(|kind| {
        let given: Vec<u32> = inputs[kind].iter().map(|wire| rows[kind].give(*wire)).collect();
        inputs[kind].iter().for_each(|wire| rows[kind].leave(*wire, 0));
        given
    });
    let mut now = 0;
    for level in levels {
        place_level(level, &mut rows, &mut now);
    }
    for (rows, outputs) in rows.iter().zip(outputs) {
        outputs.iter_mut().for_each(|wire| *wire = rows.of(*wire));
    }
    let [bits, vectors] = rows.map(|rows| rows.count as usize);
    (RowCounts { bits, vectors }, input_rows)
}

/// Times: one for each local gate, then one for what is masked, then one for the end of the level.
fn note_reads(levels: &[Level], [bits, vectors]: &mut [Rows; 2]) {
    let mut now = 0;
    for level in levels {
        for gate in &level.local {
            now += 1;
            let (_, reads, is_vector) = parts(*gate);
            let rows = if is_vector { &mut *vectors } else { &mut *bits };
            reads.into_iter().flatten().for_each(|wire| rows.read(wire, now));
        }
        now += 1;
        for gate in &level.ands {
            bits.read(gate.left, now);
            bits.read(gate.right, now);
        }
        for gate in &level.vector_ands {
            bits.read(gate.left, now);
            vectors.read(gate.right, now);
        }
        now += 1;
        level.permutes.iter().flat_map(|gate| &gate.ins).for_each(|wire| bits.read(*wire, now));
    }
}

fn place_level(level: &mut Level, [bits, vectors]: &mut [Rows; 2], now: &mut u32) {
    for gate in &mut level.local {
        *now += 1;
        let (out, reads, is_vector) = parts(*gate);
        let rows = if is_vector { &mut *vectors } else { &mut *bits };
        let out_row = rows.give(out);
        let read_rows = reads.map(|read| read.map_or(0, |wire| rows.of(wire)));
        for wire in reads.into_iter().flatten().chain([out]) {
            rows.leave(wire, *now);
        }
        replace(gate, out_row, read_rows);
    }
    *now += 1;
    let mut read = [Vec::new(), Vec::new()];
    for gate in &mut level.ands {
        read[0].extend([gate.left, gate.right]);
        (gate.left, gate.right) = (bits.of(gate.left), bits.of(gate.right));
    }
    for gate in &mut level.vector_ands {
        read[0].push(gate.left);
        read[1].push(gate.right);
        (gate.left, gate.right) = (bits.of(gate.left), vectors.of(gate.right));
    }
    read[0].iter().for_each(|wire| bits.leave(*wire, *now));
    read[1].iter().for_each(|wire| vectors.leave(*wire, *now));
    *now += 1;
    let mut passed = Vec::new();
    for gate in &mut level.ands {
        passed.push(gate.out);
        gate.out = bits.give(gate.out);
    }
    for gate in &mut level.permutes {
        passed.extend(gate.ins.iter().chain(&gate.outs));
        gate.ins.iter_mut().for_each(|wire| *wire = bits.of(*wire));
        gate.outs.iter_mut().for_each(|wire| *wire = bits.give(*wire));
    }
    passed.iter().for_each(|wire| bits.leave(*wire, *now));
    let made: Vec<u32> = level.vector_ands.iter().map(|gate| gate.out).collect();
    level.vector_ands.iter_mut().for_each(|gate| gate.out = vectors.give(gate.out));
    made.iter().for_each(|wire| vectors.leave(*wire, *now));
}

/// What a gate writes, what it reads, and whether they are vectors.
fn parts(gate: LocalGate) -> (u32, [Option<u32>; 2], bool) {
    match gate {
        LocalGate::Constant { out, .. } => (out, [None; 2], false),
        LocalGate::ConstantVector { out, .. } => (out, [None; 2], true),
        LocalGate::Not { out, of } => (out, [Some(of), None], false),
        LocalGate::Xor { out, left, right } => (out, [Some(left), Some(right)], false),
        LocalGate::XorVector { out, left, right } => (out, [Some(left), Some(right)], true),
    }
}

fn replace(gate: &mut LocalGate, out_row: u32, read_rows: [u32; 2]) {
    match gate {
        LocalGate::Constant { out, .. } | LocalGate::ConstantVector { out, .. } => *out = out_row,
        LocalGate::Not { out, of } => (*out, *of) = (out_row, read_rows[0]),
        LocalGate::Xor { out, left, right } | LocalGate::XorVector { out, left, right } => {
            (*out, *left, *right) = (out_row, read_rows[0], read_rows[1]);
        }
    }
}

impl Rows {
    fn new(wires: usize) -> Self {
        Self { last_reads: vec![0; wires], of_wire: vec![NONE; wires], free: Vec::new(), count: 0 }
    }

    fn read(&mut self, wire: u32, now: u32) {
        let last = &mut self.last_reads[wire as usize];
        *last = now.max(*last);
    }

    fn give(&mut self, wire: u32) -> u32 {
        let row = self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        });
        self.of_wire[wire as usize] = row;
        row
    }

    fn of(&self, wire: u32) -> u32 {
        self.of_wire[wire as usize]
    }

    /// Takes the row back, if the wire is not read after this time.
    fn leave(&mut self, wire: u32, now: u32) {
        let row = self.of_wire[wire as usize];
        if self.last_reads[wire as usize] <= now && row != NONE {
            self.of_wire[wire as usize] = NONE;
            self.free.push(row);
        }
    }
}

/// Of outputs: after the end.
const NEVER: u32 = u32::MAX;
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use crate::{Circuit, Owner};

    #[test]
    fn a_long_circuit_takes_few_rows() {
        let mut circuit = Circuit::new();
        let mut bits = circuit.inputs(Owner::Shared, 2);
        for _ in 0..100 {
            let [left, right] = [bits[0], bits[1]];
            bits = vec![circuit.xor(left, right), circuit.and(left, right)];
        }
        bits.iter().for_each(|bit| circuit.output(*bit));
        let program = circuit.finish();
        assert_eq!(program.cost().ands, 100);
        assert!(program.rows.bits <= 4, "{:?}", program.rows);
    }

    /// As the paper's largest circuit carries its keys.
    #[test]
    fn a_tournament_takes_one_row_more_than_players() {
        let mut circuit = Circuit::new();
        let mut players: Vec<_> = (0..32).map(|_| circuit.input_vector(Owner::Shared)).collect();
        while players.len() > 1 {
            let wins = circuit.input(Owner::Shared);
            let pairs = players.chunks(2).map(|pair| circuit.mux_vector(wins, pair[0], pair[1]));
            players = pairs.collect();
        }
        circuit.output_vector(players[0]);
        assert_eq!(circuit.vector_depths.len(), 32 + 3 * 31);
        assert_eq!(circuit.finish().rows.vectors, 33);
    }

    #[test]
    fn what_is_never_read_and_what_is_named_twice_have_rows() {
        let mut circuit = Circuit::new();
        let [left, right] = [(); 2].map(|()| circuit.input(Owner::Shared));
        let unread = circuit.input(Owner::Shared);
        let both = circuit.and(left, left);
        circuit.and(left, right);
        circuit.output(both);
        circuit.output(both);
        circuit.output(right);
        let program = circuit.finish();
        let rows: Vec<u32> = program.inputs.iter().map(|input| input.row).collect();
        assert_eq!(rows, [0, 1, 2]);
        assert_eq!(program.inputs[2].wire, unread.0);
        assert_eq!(program.outputs[0], program.outputs[1]);
        assert_ne!(program.outputs[0], program.outputs[2]);
    }
}

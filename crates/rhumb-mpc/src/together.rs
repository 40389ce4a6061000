//! Several programs as one, for computations that wait at the same time: their messages of a level
//! are one, so that all together take as many rounds as the longest alone.
//!
//! Invariant: each keeps its own wires and rows, shifted behind those of
//! the programs before it; none reads another's.

use std::sync::Arc;

use crate::MpcError;
use crate::coins::digest;
use crate::program::liveness::RowCounts;
use crate::program::{
    AndGate, Cost, Input, Inputs, Level, LocalGate, Outputs, PermuteGate, Program,
};

/// Where the wires and rows of one of the programs begin.
#[derive(Clone, Copy, Default)]
struct Shift {
    wires: [u32; 2],
    rows: [u32; 2],
}

impl Shift {
    fn past(self, program: &Program) -> Self {
        let rows = [program.rows.bits as u32, program.rows.vectors as u32];
        let sum = |left: [u32; 2], right: [u32; 2]| [left[0] + right[0], left[1] + right[1]];
        Self { wires: sum(self.wires, program.wires), rows: sum(self.rows, rows) }
    }

    fn input(self, kind: usize, input: &Input) -> Input {
        let (wire, row) = (input.wire + self.wires[kind], input.row + self.rows[kind]);
        Input { wire, row, owner: input.owner }
    }

    fn local(self, gate: LocalGate) -> LocalGate {
        let [bits, vectors] = self.rows;
        match gate {
            LocalGate::Constant { out, value } => LocalGate::Constant { out: out + bits, value },
            LocalGate::ConstantVector { out, value } => {
                LocalGate::ConstantVector { out: out + vectors, value }
            }
            LocalGate::Not { out, of } => LocalGate::Not { out: out + bits, of: of + bits },
            LocalGate::Xor { out, left, right } => {
                LocalGate::Xor { out: out + bits, left: left + bits, right: right + bits }
            }
            LocalGate::XorVector { out, left, right } => {
                let [out, left, right] = [out, left, right].map(|row| row + vectors);
                LocalGate::XorVector { out, left, right }
            }
        }
    }

    fn level(self, level: &Level, to: &mut Level) {
        let [bits, vectors] = self.rows;
        to.local.extend(level.local.iter().map(|gate| self.local(*gate)));
        to.ands.extend(level.ands.iter().map(|gate| AndGate {
            out: gate.out + bits,
            left: gate.left + bits,
            right: gate.right + bits,
        }));
        to.vector_ands.extend(level.vector_ands.iter().map(|gate| AndGate {
            out: gate.out + vectors,
            left: gate.left + bits,
            right: gate.right + vectors,
        }));
        to.permutes.extend(level.permutes.iter().map(|gate| PermuteGate {
            slot: gate.slot,
            inverse: gate.inverse,
            outs: gate.outs.iter().map(|row| row + bits).collect(),
            ins: gate.ins.iter().map(|row| row + bits).collect(),
        }));
    }
}

impl Program {
    /// One that runs all of these at the same time. Takes about as long as copying them.
    #[must_use]
    pub fn together(parts: &[Arc<Program>]) -> Program {
        let rounds = parts.iter().map(|part| part.cost.rounds).max().unwrap_or(0);
        let mut levels = vec![Level::default(); rounds + 1];
        let (mut inputs, mut vector_inputs) = (Vec::new(), Vec::new());
        let (mut outputs, mut vector_outputs) = (Vec::new(), Vec::new());
        let (mut cost, mut shift) = (Cost { rounds, ..Cost::default() }, Shift::default());
        for part in parts {
            for (level, to) in part.levels.iter().zip(&mut levels) {
                shift.level(level, to);
            }
            inputs.extend(part.inputs.iter().map(|input| shift.input(0, input)));
            vector_inputs.extend(part.vector_inputs.iter().map(|input| shift.input(1, input)));
            outputs.extend(part.outputs.iter().map(|row| row + shift.rows[0]));
            vector_outputs.extend(part.vector_outputs.iter().map(|row| row + shift.rows[1]));
            cost.ands += part.cost.ands;
            cost.vector_ands += part.cost.vector_ands;
            cost.permuted += part.cost.permuted;
            shift = shift.past(part);
        }
        let [bits, vectors] = shift.rows.map(|count| count as usize);
        let (rows, wires) = (RowCounts { bits, vectors }, shift.wires);
        let digest = digest_of(parts.iter().map(|part| part.digest));
        Self { levels, inputs, vector_inputs, outputs, vector_outputs, rows, wires, digest, cost }
    }
}

impl Inputs {
    /// For [`Program::together`] of these programs, from the inputs of each.
    ///
    /// # Errors
    ///
    /// [`MpcError::Input`] if there is none, or they are of different parties, of different numbers
    /// of lanes, or not one for each program.
    pub fn together(parts: &[Arc<Program>], inputs: Vec<Inputs>) -> Result<Inputs, MpcError> {
        let Some((party, lanes)) = inputs.first().map(|first| (first.party, first.lanes)) else {
            return Err(MpcError::Input("is of no program"));
        };
        let of_parts = parts.iter().map(|part| part.digest);
        let are_alike = inputs.iter().all(|one| (one.party, one.lanes) == (party, lanes));
        if !are_alike || !inputs.iter().map(|one| one.digest).eq(of_parts.clone()) {
            return Err(MpcError::Input("is made for another program, party or number of lanes"));
        }
        let (mut bits, mut vectors, mut shift) = (Vec::new(), Vec::new(), Shift::default());
        for (part, one) in parts.iter().zip(inputs) {
            let [bit_wires, vector_wires] = shift.wires;
            bits.extend(one.bits.into_iter().map(|(wire, row)| (wire + bit_wires, row)));
            vectors.extend(one.vectors.into_iter().map(|(wire, row)| (wire + vector_wires, row)));
            shift = shift.past(part);
        }
        Ok(Self { digest: digest_of(of_parts), party, lanes, bits, vectors })
    }
}

impl Outputs {
    /// Of each of the programs that were run together.
    #[must_use]
    pub fn apart(mut self, parts: &[Arc<Program>]) -> Vec<Outputs> {
        let (mut bits, mut vectors) = (self.bits.drain(..), self.vectors.drain(..));
        let of_part = |part: &Arc<Program>| Outputs {
            lanes: self.lanes,
            bits: bits.by_ref().take(part.outputs.len()).collect(),
            vectors: vectors.by_ref().take(part.vector_outputs.len()).collect(),
        };
        parts.iter().map(of_part).collect()
    }
}

fn digest_of(parts: impl Iterator<Item = [u8; 32]>) -> [u8; 32] {
    let parts: Vec<u8> = parts.flatten().collect();
    digest(b"rhumb-mpc programs together", &[&parts])
}

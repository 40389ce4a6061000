//! A circuit made ready to run: what is local of each
//! level, then what needs one message of each party.

pub(crate) mod liveness;

use self::liveness::{RowCounts, assign};
use crate::MpcError;
use crate::circuit::{Bit, Circuit, Gate, Owner, Vector};
use crate::coins::digest;

/// A gate that a party evaluates alone. Its numbers are wires until rows are assigned
/// (`program/liveness.rs`), as those of all gates here.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LocalGate {
    Constant { out: u32, value: bool },
    ConstantVector { out: u32, value: u128 },
    Not { out: u32, of: u32 },
    Xor { out: u32, left: u32, right: u32 },
    XorVector { out: u32, left: u32, right: u32 },
}

/// An AND: of two bits, or of a bit and a vector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AndGate {
    pub(crate) out: u32,
    pub(crate) left: u32,
    pub(crate) right: u32,
}

/// Wires put in party one's order.
#[derive(Debug, Clone)]
pub(crate) struct PermuteGate {
    pub(crate) slot: u8,
    pub(crate) inverse: bool,
    pub(crate) outs: Vec<u32>,
    pub(crate) ins: Vec<u32>,
}

/// The gates whose inputs have this depth.
#[derive(Debug, Clone, Default)]
pub(crate) struct Level {
    pub(crate) local: Vec<LocalGate>,
    pub(crate) ands: Vec<AndGate>,
    pub(crate) vector_ands: Vec<AndGate>,
    pub(crate) permutes: Vec<PermuteGate>,
}

/// An input: its wire in the circuit, the row where it begins, and who has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input {
    pub(crate) wire: u32,
    pub(crate) row: u32,
    pub(crate) owner: Owner,
}

/// What both parties run, with the same digest. Made by
/// [`Circuit::finish`]; cheap to share in an `Arc`.
#[derive(Debug, Clone)]
pub struct Program {
    /// One more than there are rounds: the last has local gates only.
    pub(crate) levels: Vec<Level>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) vector_inputs: Vec<Input>,
    /// Rows.
    pub(crate) outputs: Vec<u32>,
    pub(crate) vector_outputs: Vec<u32>,
    pub(crate) rows: RowCounts,
    /// Wires of bits and of vectors that its circuit had.
    pub(crate) wires: [u32; 2],
    pub(crate) digest: [u8; 32],
    pub(crate) cost: Cost,
}

/// What one lane of a program costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// ANDs of bits: a triple each.
    pub ands: usize,
    /// ANDs of a bit and a vector: a vector triple each.
    pub vector_ands: usize,
    /// Wires that are put in an order.
    pub permuted: usize,
    /// Messages of each party, one after the other.
    pub rounds: usize,
}

impl Circuit {
    /// The program that both parties run.
    #[must_use]
    pub fn finish(self) -> Program {
        let digest = digest(b"rhumb-mpc program", &[&self.encode()]);
        Program::new(&self, digest)
    }
}

impl Program {
    fn new(circuit: &Circuit, digest: [u8; 32]) -> Self {
        let depths = circuit.bit_depths.iter().chain(&circuit.vector_depths);
        let rounds = depths.max().map_or(0, |depth| *depth as usize);
        let mut levels = vec![Level::default(); rounds + 1];
        let (mut inputs, mut vector_inputs) = (Vec::new(), Vec::new());
        let bit_depth = |out: u32| circuit.depth(Bit(out)) as usize;
        let vector_depth = |out: u32| circuit.vector_depth(Vector(out)) as usize;
        let mut cost = Cost { rounds, ..Cost::default() };
        for gate in &circuit.gates {
            match gate.clone() {
                Gate::Input { out, owner } => inputs.push((out, owner)),
                Gate::InputVector { out, owner } => vector_inputs.push((out, owner)),
                Gate::Constant { out, value } => {
                    levels[0].local.push(LocalGate::Constant { out, value });
                }
                Gate::ConstantVector { out, value } => {
                    levels[0].local.push(LocalGate::ConstantVector { out, value });
                }
                Gate::Not { out, of } => {
                    levels[bit_depth(out)].local.push(LocalGate::Not { out, of });
                }
                Gate::Xor { out, left, right } => {
                    levels[bit_depth(out)].local.push(LocalGate::Xor { out, left, right });
                }
                Gate::XorVector { out, left, right } => {
                    levels[vector_depth(out)].local.push(LocalGate::XorVector { out, left, right });
                }
                // What needs the peer is sent one level before its result is there.
                Gate::And { out, left, right } => {
                    cost.ands += 1;
                    levels[bit_depth(out) - 1].ands.push(AndGate { out, left, right });
                }
                Gate::AndVector { out, bit, vector } => {
                    cost.vector_ands += 1;
                    let gate = AndGate { out, left: bit, right: vector };
                    levels[vector_depth(out) - 1].vector_ands.push(gate);
                }
                Gate::Permute { slot, inverse, outs, ins } => {
                    cost.permuted += outs.len();
                    if let Some(first) = outs.first() {
                        let level = bit_depth(*first) - 1;
                        levels[level].permutes.push(PermuteGate { slot, inverse, outs, ins });
                    }
                }
            }
        }
        let [mut outputs, mut vector_outputs] =
            [&circuit.outputs, &circuit.vector_outputs].map(Clone::clone);
        let wires = |inputs: &[(u32, Owner)]| -> Vec<u32> {
            inputs.iter().map(|(wire, _)| *wire).collect()
        };
        let counts = [circuit.bit_depths.len(), circuit.vector_depths.len()];
        let (rows, [input_rows, vector_input_rows]) = assign(
            &mut levels,
            counts,
            [&wires(&inputs), &wires(&vector_inputs)],
            [&mut outputs, &mut vector_outputs],
        );
        Self {
            inputs: with_rows(inputs, input_rows),
            vector_inputs: with_rows(vector_inputs, vector_input_rows),
            levels,
            outputs,
            vector_outputs,
            rows,
            wires: counts.map(|count| count as u32),
            digest,
            cost,
        }
    }

    /// What one lane costs.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Bytes that party one or two sends for all levels of a
    /// run over this many lanes, headers left out.
    #[must_use]
    pub fn payload_len(&self, party: crate::Party, lanes: usize) -> usize {
        self.levels.iter().map(|level| level.payload_len(party, words(lanes))).sum()
    }
}

impl Level {
    /// Bytes of the party's message of this level.
    pub(crate) fn payload_len(&self, party: crate::Party, words: usize) -> usize {
        let permuted: usize = match party {
            crate::Party::One => 0,
            crate::Party::Two => self.permutes.iter().map(|gate| gate.ins.len()).sum(),
        };
        8 * words * (2 * self.ands.len() + 129 * self.vector_ands.len() + permuted)
    }
}

fn with_rows(inputs: Vec<(u32, Owner)>, rows: Vec<u32>) -> Vec<Input> {
    let inputs = inputs.into_iter().zip(rows);
    inputs.map(|((wire, owner), row)| Input { wire, row, owner }).collect()
}

/// Words that hold this many lanes.
pub(crate) fn words(lanes: usize) -> usize {
    lanes.div_ceil(64)
}

/// A party's inputs of one run: its values and its shares. Wiped when dropped.
pub struct Inputs {
    pub(crate) digest: [u8; 32],
    pub(crate) party: crate::Party,
    pub(crate) lanes: usize,
    /// Rows and bundles, each by the wire it is for.
    pub(crate) bits: Vec<(u32, zeroize::Zeroizing<Vec<u64>>)>,
    pub(crate) vectors: Vec<(u32, zeroize::Zeroizing<Vec<u128>>)>,
}

impl Inputs {
    /// None yet.
    ///
    /// # Errors
    ///
    /// [`MpcError::OutOfRange`] if there is no lane, or more than [`MAX_LANES`](crate::MAX_LANES).
    pub fn new(program: &Program, party: crate::Party, lanes: usize) -> Result<Self, MpcError> {
        if !(1..=crate::MAX_LANES).contains(&lanes) {
            let most = crate::MAX_LANES as u64;
            return Err(MpcError::OutOfRange { what: "the number of lanes", least: 1, most });
        }
        let (bits, vectors) = (Vec::new(), Vec::new());
        Ok(Self { digest: program.digest, party, lanes, bits, vectors })
    }

    /// Zero for all inputs of which this party has the value or a share.
    ///
    /// # Errors
    ///
    /// As [`Inputs::new`].
    pub fn zeros(program: &Program, party: crate::Party, lanes: usize) -> Result<Self, MpcError> {
        let mut inputs = Self::new(program, party, lanes)?;
        for input in program.inputs.iter().filter(|input| input.owner.includes(party)) {
            inputs.set(Bit(input.wire), &vec![0; words(lanes)]);
        }
        for input in program.vector_inputs.iter().filter(|input| input.owner.includes(party)) {
            inputs.set_vector(Vector(input.wire), &vec![0; lanes]);
        }
        Ok(inputs)
    }

    /// The lanes of an input in order, 64 to a word, the first in the lowest bit.
    pub fn set(&mut self, input: Bit, lanes: &[u64]) -> &mut Self {
        self.bits.push((input.0, zeroize::Zeroizing::new(lanes.to_vec())));
        self
    }

    /// A vector for each lane of an input.
    pub fn set_vector(&mut self, input: Vector, lanes: &[u128]) -> &mut Self {
        self.vectors.push((input.0, zeroize::Zeroizing::new(lanes.to_vec())));
        self
    }
}

impl std::fmt::Debug for Inputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inputs({:?}, {} lanes, ..)", self.party, self.lanes)
    }
}

/// A party's shares of the results of a run. Wiped when dropped.
#[derive(zeroize::Zeroize, zeroize::ZeroizeOnDrop)]
pub struct Outputs {
    pub(crate) lanes: usize,
    pub(crate) bits: Vec<Vec<u64>>,
    pub(crate) vectors: Vec<Vec<u128>>,
}

impl Outputs {
    /// Its lanes.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Rows of words, in the order in which outputs were named. Lanes beyond the last are zero.
    #[must_use]
    pub fn bits(&self) -> &[Vec<u64>] {
        &self.bits
    }

    /// Vectors per lane, in the order in which outputs were named.
    #[must_use]
    pub fn vectors(&self) -> &[Vec<u128>] {
        &self.vectors
    }
}

impl std::fmt::Debug for Outputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Outputs({} lanes, ..)", self.lanes)
    }
}

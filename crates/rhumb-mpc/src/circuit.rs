//! Boolean circuits: what is computed, gate by gate, over wires of
//! which each has as many lanes as the computation.
//!
//! Invariant: a gate's inputs are wires made before it, so the order of making
//! is an order of evaluation. What is public (the circuit, the lanes) decides
//! all lengths and counts; values decide nothing.

/// A wire: one bit per lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bit(pub(crate) u32);

/// A bundle of 128 wires: a vector of 128 bits per lane, such as a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vector(pub(crate) u32);

/// A slot for an order that party one knows; see
/// [`Session::install_order`](crate::Session::install_order).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderSlot(pub u8);

/// Who has the value of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Each party has a share.
    Shared,
    /// Party one knows it.
    One,
    /// Party two knows it.
    Two,
}

impl Owner {
    /// Whether this party has the value, or a share of it.
    pub(crate) fn includes(self, party: crate::Party) -> bool {
        match self {
            Self::Shared => true,
            Self::One => party == crate::Party::One,
            Self::Two => party == crate::Party::Two,
        }
    }
}

/// A gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gate {
    Input {
        out: u32,
        owner: Owner,
    },
    InputVector {
        out: u32,
        owner: Owner,
    },
    Constant {
        out: u32,
        value: bool,
    },
    ConstantVector {
        out: u32,
        value: u128,
    },
    Not {
        out: u32,
        of: u32,
    },
    Xor {
        out: u32,
        left: u32,
        right: u32,
    },
    And {
        out: u32,
        left: u32,
        right: u32,
    },
    XorVector {
        out: u32,
        left: u32,
        right: u32,
    },
    AndVector {
        out: u32,
        bit: u32,
        vector: u32,
    },
    /// `outs[i] = ins[order[i]]`, or the inverse.
    Permute {
        slot: u8,
        inverse: bool,
        outs: Vec<u32>,
        ins: Vec<u32>,
    },
}

/// A circuit while it is built. Gates that need the other party (AND,
/// permutations) make depth; all others are free.
///
/// # Panics
///
/// All methods that take wires panic if one was made by another circuit and has no place in this.
#[derive(Debug, Clone, Default)]
pub struct Circuit {
    pub(crate) gates: Vec<Gate>,
    /// Depth of each wire.
    pub(crate) bit_depths: Vec<u32>,
    pub(crate) vector_depths: Vec<u32>,
    pub(crate) outputs: Vec<u32>,
    pub(crate) vector_outputs: Vec<u32>,
}

impl Circuit {
    /// Without gates.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An input of one bit per lane.
    pub fn input(&mut self, owner: Owner) -> Bit {
        let out = self.bit(0);
        self.gates.push(Gate::Input { out: out.0, owner });
        out
    }

    /// Several.
    pub fn inputs(&mut self, owner: Owner, count: usize) -> Vec<Bit> {
        (0..count).map(|_| self.input(owner)).collect()
    }

    /// An input of 128 bits per lane.
    pub fn input_vector(&mut self, owner: Owner) -> Vector {
        let out = self.vector(0);
        self.gates.push(Gate::InputVector { out: out.0, owner });
        out
    }

    /// The same public bit in all lanes.
    pub fn constant(&mut self, value: bool) -> Bit {
        let out = self.bit(0);
        self.gates.push(Gate::Constant { out: out.0, value });
        out
    }

    /// The same public vector in all lanes.
    pub fn constant_vector(&mut self, value: u128) -> Vector {
        let out = self.vector(0);
        self.gates.push(Gate::ConstantVector { out: out.0, value });
        out
    }

    /// Free.
    pub fn not(&mut self, of: Bit) -> Bit {
        let out = self.bit(self.depth(of));
        self.gates.push(Gate::Not { out: out.0, of: of.0 });
        out
    }

    /// Free.
    pub fn xor(&mut self, left: Bit, right: Bit) -> Bit {
        let out = self.bit(self.depth(left).max(self.depth(right)));
        self.gates.push(Gate::Xor { out: out.0, left: left.0, right: right.0 });
        out
    }

    /// One triple per lane, and one level of depth.
    pub fn and(&mut self, left: Bit, right: Bit) -> Bit {
        let out = self.bit(1 + self.depth(left).max(self.depth(right)));
        self.gates.push(Gate::And { out: out.0, left: left.0, right: right.0 });
        out
    }

    /// Free.
    pub fn xor_vector(&mut self, left: Vector, right: Vector) -> Vector {
        let out = self.vector(self.vector_depth(left).max(self.vector_depth(right)));
        self.gates.push(Gate::XorVector { out: out.0, left: left.0, right: right.0 });
        out
    }

    /// The vector where the bit is one, zero elsewhere: one
    /// vector triple per lane, and one level of depth.
    pub fn and_vector(&mut self, bit: Bit, vector: Vector) -> Vector {
        let out = self.vector(1 + self.depth(bit).max(self.vector_depth(vector)));
        self.gates.push(Gate::AndVector { out: out.0, bit: bit.0, vector: vector.0 });
        out
    }

    /// Puts wires into an order that party one knows: wire `i` of the result is wire `order[i]` of
    /// `bits`. One level of depth and no triple; the order is the same in all lanes.
    pub fn permute(&mut self, order: OrderSlot, bits: &[Bit]) -> Vec<Bit> {
        self.permutation(order, bits, false)
    }

    /// The inverse of [`Circuit::permute`].
    pub fn unpermute(&mut self, order: OrderSlot, bits: &[Bit]) -> Vec<Bit> {
        self.permutation(order, bits, true)
    }

    /// Names an output. Each party gets a share of it; who puts them together learns it.
    pub fn output(&mut self, bit: Bit) {
        self.outputs.push(bit.0);
    }

    /// Names an output of 128 bits per lane.
    pub fn output_vector(&mut self, vector: Vector) {
        self.vector_outputs.push(vector.0);
    }

    fn permutation(&mut self, order: OrderSlot, bits: &[Bit], inverse: bool) -> Vec<Bit> {
        let depth = bits.iter().map(|bit| self.depth(*bit)).max().unwrap_or(0) + 1;
        let outs: Vec<Bit> = bits.iter().map(|_| self.bit(depth)).collect();
        self.gates.push(Gate::Permute {
            slot: order.0,
            inverse,
            outs: outs.iter().map(|bit| bit.0).collect(),
            ins: bits.iter().map(|bit| bit.0).collect(),
        });
        outs
    }

    fn bit(&mut self, depth: u32) -> Bit {
        self.bit_depths.push(depth);
        Bit(self.bit_depths.len() as u32 - 1)
    }

    fn vector(&mut self, depth: u32) -> Vector {
        self.vector_depths.push(depth);
        Vector(self.vector_depths.len() as u32 - 1)
    }

    pub(crate) fn depth(&self, bit: Bit) -> u32 {
        self.bit_depths[bit.0 as usize]
    }

    pub(crate) fn vector_depth(&self, vector: Vector) -> u32 {
        self.vector_depths[vector.0 as usize]
    }

    /// Injective: each gate by its letter, the length of what follows, and that.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |letter: u8, numbers: &[u32]| {
            bytes.push(letter);
            bytes.extend((numbers.len() as u32).to_le_bytes());
            bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        };
        for gate in &self.gates {
            match gate {
                Gate::Input { out, owner } => put(b'i', &[*out, *owner as u32]),
                Gate::InputVector { out, owner } => put(b'I', &[*out, *owner as u32]),
                Gate::Constant { out, value } => put(b'c', &[*out, u32::from(*value)]),
                Gate::ConstantVector { out, value } => {
                    let [low, mid, high, top] =
                        [0, 32, 64, 96].map(|shift| (value >> shift) as u32);
                    put(b'C', &[*out, low, mid, high, top]);
                }
                Gate::Not { out, of } => put(b'n', &[*out, *of]),
                Gate::Xor { out, left, right } => put(b'x', &[*out, *left, *right]),
                Gate::And { out, left, right } => put(b'a', &[*out, *left, *right]),
                Gate::XorVector { out, left, right } => put(b'X', &[*out, *left, *right]),
                Gate::AndVector { out, bit, vector } => put(b'A', &[*out, *bit, *vector]),
                Gate::Permute { slot, inverse, outs, ins } => {
                    put(b'p', &[u32::from(*slot), u32::from(*inverse)]);
                    put(b'p', outs);
                    put(b'p', ins);
                }
            }
        }
        put(b'o', &self.outputs);
        put(b'O', &self.vector_outputs);
        bytes
    }
}

//! Small circuits that larger ones are made of, with what they cost: ANDs per lane and depth.

use crate::circuit::{Bit, Circuit, Vector};

impl Circuit {
    /// One AND, depth 1.
    pub fn or(&mut self, left: Bit, right: Bit) -> Bit {
        let [left, right] = [left, right].map(|bit| self.not(bit));
        let neither = self.and(left, right);
        self.not(neither)
    }

    /// `yes` where `select` is one, else `no`: one AND, depth 1.
    pub fn mux(&mut self, select: Bit, yes: Bit, no: Bit) -> Bit {
        let difference = self.xor(yes, no);
        let chosen = self.and(select, difference);
        self.xor(chosen, no)
    }

    /// [`Circuit::mux`] of as many wires as both have.
    pub fn mux_all(&mut self, select: Bit, yes: &[Bit], no: &[Bit]) -> Vec<Bit> {
        yes.iter().zip(no).map(|(yes, no)| self.mux(select, *yes, *no)).collect()
    }

    /// `yes` where `select` is one, else `no`: one vector AND, depth 1.
    pub fn mux_vector(&mut self, select: Bit, yes: Vector, no: Vector) -> Vector {
        let difference = self.xor_vector(yes, no);
        let chosen = self.and_vector(select, difference);
        self.xor_vector(chosen, no)
    }

    /// All of them: one AND less than there are wires, depth the logarithm. One if there are none.
    pub fn all(&mut self, bits: &[Bit]) -> Bit {
        let mut bits = bits.to_vec();
        while bits.len() > 1 {
            let pairs = bits.chunks(2).map(|pair| match pair {
                [left, right] => self.and(*left, *right),
                single => single[0],
            });
            bits = pairs.collect();
        }
        match bits.first() {
            Some(bit) => *bit,
            None => self.constant(true),
        }
    }

    /// Whether two numbers of the same width are equal: one AND
    /// less than they have bits, depth the logarithm.
    pub fn equal(&mut self, left: &[Bit], right: &[Bit]) -> Bit {
        let same: Vec<Bit> =
            left.iter().zip(right).map(|pair| self.same(*pair.0, *pair.1)).collect();
        self.all(&same)
    }

    /// Whether `left > right`, numbers without sign and of the same width,
    /// lowest bit first. For 8 bits 19 ANDs, depth 4.
    ///
    /// Of a range of bits it is known whether `left` is greater there, and whether
    /// both are equal there; two ranges make one. Whether the lowest range is
    /// equal is never asked, so it is not computed.
    pub fn greater(&mut self, left: &[Bit], right: &[Bit]) -> Bit {
        let mut ranges: Vec<(Bit, Bit)> = Vec::new();
        for (left, right) in left.iter().zip(right) {
            let not_right = self.not(*right);
            ranges.push((self.and(*left, not_right), self.same(*left, *right)));
        }
        while ranges.len() > 1 {
            let mut joined = Vec::with_capacity(ranges.len().div_ceil(2));
            for (number, pair) in ranges.chunks(2).enumerate() {
                let [low, high] = pair else {
                    joined.push(pair[0]);
                    continue;
                };
                let below = self.and(high.1, low.0);
                let greater = self.xor(high.0, below);
                // The lowest range's second wire stays unused, whatever it is.
                let equal = if number == 0 { low.1 } else { self.and(high.1, low.1) };
                joined.push((greater, equal));
            }
            ranges = joined;
        }
        match ranges.first() {
            Some((greater, _)) => *greater,
            None => self.constant(false),
        }
    }

    /// Wire `i` is the OR of wires `0..=i` (Sklansky): for n wires, n a
    /// power of two, n/2 log n ANDs, depth log n.
    pub fn prefix_or(&mut self, bits: &[Bit]) -> Vec<Bit> {
        let mut bits = bits.to_vec();
        let mut side = 1;
        while side < bits.len() {
            for start in (side..bits.len()).step_by(2 * side) {
                for at in start..(start + side).min(bits.len()) {
                    bits[at] = self.or(bits[start - 1], bits[at]);
                }
            }
            side *= 2;
        }
        bits
    }

    /// Only the first of the wires that are one stays one. Costs what [`Circuit::prefix_or`] does.
    pub fn first_one(&mut self, bits: &[Bit]) -> Vec<Bit> {
        let prefixes = self.prefix_or(bits);
        let mut firsts = prefixes[..prefixes.len().min(1)].to_vec();
        firsts.extend(prefixes.windows(2).map(|pair| self.xor(pair[0], pair[1])));
        firsts
    }

    fn same(&mut self, left: Bit, right: Bit) -> Bit {
        let different = self.xor(left, right);
        self.not(different)
    }
}

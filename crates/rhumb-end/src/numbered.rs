//! Tables by numbers that this end gives out itself, one after the other: of connections. Nobody
//! else chooses them, so nobody can have them fall into one place, and a multiplication spreads
//! them as well as a keyed hash of their bytes does, in a tenth of the time: each packet is looked
//! up a dozen times.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table whose keys are such numbers.
pub(crate) type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Spreads a number over all bits.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Tables look at the low bits and at the highest ones: the product's middle goes to both.
        let product = u128::from(self.0 ^ number) * u128::from(GOLDEN);
        self.0 = product as u64 ^ (product >> u64::BITS) as u64;
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// 2^64 by the golden ratio: products of numbers in a row lie as far apart as can be.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, Hash};

    use super::*;

    #[derive(Hash)]
    struct Number(u64);

    #[test]
    fn numbers_in_a_row_fall_apart_in_the_bits_that_tables_look_at() {
        let build = BuildHasherDefault::<Spread>::default();
        for (first, step) in [(0, 1), (1 << 40, 1), (7, 1 << 8), (0, 1 << 32)] {
            let hashes: Vec<u64> =
                (0..4096).map(|n| build.hash_one(Number(first + n * step))).collect();
            let low: HashSet<u64> = hashes.iter().map(|it| it & 4095).collect();
            let high: HashSet<u64> = hashes.iter().map(|it| it >> 57).collect();
            // By chance it would be 63 of 100, and all of the 128.
            assert!(low.len() > 2200, "{first} {step}: {}", low.len());
            assert!(high.len() > 100, "{first} {step}: {}", high.len());
        }
    }
}

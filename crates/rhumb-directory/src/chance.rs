//! Numbers that strangers cannot foresee, for samples: SplitMix64
//! (Steele, Lea and Flood, 2014) from a secret seed.
//!
//! Whoever knows the seed knows them all, so they are good for
//! samples and for nothing that must stay secret.

/// A row of such numbers.
pub struct Chance(u64);

impl Chance {
    /// Chances for one purpose; those of other purposes follow from the
    /// same secret and have nothing to do with them.
    pub fn new(secret: &[u8; 32], purpose: u64) -> Self {
        let words = secret
            .chunks_exact(8)
            .map(|chunk| chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        let mut chance = Self(purpose);
        for word in words {
            chance.0 = chance.next_u64() ^ word;
        }
        chance
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is at most 2^32.
    pub fn below(&mut self, bound: usize) -> usize {
        (((self.next_u64() >> 32) * bound as u64) >> 32) as usize
    }
}

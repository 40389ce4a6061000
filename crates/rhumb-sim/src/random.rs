//! Chance that follows from a seed: SplitMix64 (Steele, Lea and Flood 2014).
//!
//! Invariant: a source forked for a purpose draws the same numbers whatever other sources draw, so
//! that one more datagram on one link changes nothing on another.

use std::time::Duration;

/// A seeded source of numbers. No secret.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The source of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A source of its own for the purpose `label`; this one is not advanced.
    #[must_use]
    pub fn fork(&self, label: u64) -> Self {
        Self(mix(self.0 ^ mix(label.wrapping_add(STEP))))
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "there is no number below 0");
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// A number from 0 to below 1.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `share`.
    pub fn chance(&mut self, share: f64) -> bool {
        self.fraction() < share
    }

    /// A time from `least` to below `most`.
    pub fn time(&mut self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.fraction())
    }

    /// One of `choices`, of which there must be one.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// 32 bytes.
    pub fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for part in bytes.chunks_exact_mut(8) {
            part.copy_from_slice(&self.bits().to_be_bytes());
        }
        bytes
    }
}

/// Mixes the bits of a number: a bijection.
pub(crate) fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_and_forks_do_not_disturb_each_other() {
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        let mut fork = a.fork(1);
        fork.bits();
        assert_eq!(a.bits(), b.bits());
        assert_eq!(Random::new(7).fork(1).bits(), Random::new(7).fork(1).bits());
        assert_ne!(Random::new(7).fork(1).bits(), Random::new(7).fork(2).bits());
        assert_ne!(Random::new(7).fork(1).bits(), Random::new(8).fork(1).bits());
    }

    #[test]
    fn draws_are_within_their_bounds_and_reach_them() {
        let mut random = Random::new(1);
        let drawn: std::collections::BTreeSet<_> = (0..1000).map(|_| random.below(7)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.fraction())));
        assert!(!random.chance(0.0) && random.chance(1.0));
        let (least, most) = (Duration::from_secs(1), Duration::from_secs(2));
        assert!((0..1000).all(|_| (least..most).contains(&random.time(least, most))));
        assert_eq!(random.time(most, least), most);
    }
}

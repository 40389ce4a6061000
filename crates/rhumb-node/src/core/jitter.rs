//! Waits that differ a little from node to node, so that nodes
//! which lost the same router do not return as one.
//!
//! The numbers are SplitMix64 (Steele, Lea and Flood 2014) over a
//! seed given: repeatable in tests, and no secret.

use std::time::Duration;

/// A source of spread.
#[derive(Debug)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The wait, and up to a quarter more.
    pub(super) fn lengthen(&mut self, wait: Duration) -> Duration {
        wait + (wait / 4).mul_f64(self.fraction())
    }

    /// Between half of the wait and all of it.
    pub(super) fn shorten(&mut self, wait: Duration) -> Duration {
        wait - (wait / 2).mul_f64(self.fraction())
    }

    pub(super) fn next_u32(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    fn fraction(&mut self) -> f64 {
        f64::from(self.next_u32()) / f64::from(u32::MAX)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_stay_within_their_bounds_and_differ() {
        let mut jitter = Jitter::new(1);
        let wait = Duration::from_millis(100);
        let waits: Vec<_> = (0..100).map(|_| jitter.lengthen(wait)).collect();
        assert!(waits.iter().all(|w| (wait..=wait * 5 / 4).contains(w)));
        assert!(waits.windows(2).any(|pair| pair[0] != pair[1]));
        assert!((0..100).map(|_| jitter.shorten(wait)).all(|w| (wait / 2..=wait).contains(&w)));
    }
}

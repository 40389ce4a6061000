//! Jitter of timers (RFC 4271, section 10): many
//! sessions that began together do not go on together.

use std::time::Duration;

/// A small generator (SplitMix64): spreading timers asks for no
/// secrecy, and the same seed gives the same run.
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Between 75 and 100 per cent of `full`.
    pub(crate) fn apply(&mut self, full: Duration) -> Duration {
        let spread = full / 4;
        let thousandth = (self.next() % 1001) as u32;
        full - spread * thousandth / 1000
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_within_a_quarter_below_and_reaches_both_ends() {
        let mut jitter = Jitter::new(1);
        let full = Duration::from_secs(120);
        let drawn: Vec<_> = (0..10_000).map(|_| jitter.apply(full)).collect();
        assert!(drawn.iter().all(|drawn| *drawn >= full * 3 / 4 && *drawn <= full));
        assert!(drawn.iter().any(|drawn| *drawn < full * 76 / 100));
        assert!(drawn.iter().any(|drawn| *drawn > full * 99 / 100));
    }
}

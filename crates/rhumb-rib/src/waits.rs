//! How long requests were waited for, in steps that double: what answers at once is in the first.

use std::time::Duration;

/// How often something took how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Waits {
    /// Below 1 ms, 2 ms, 4 ms and so on, and the rest.
    pub below_ms: [u64; Self::STEPS],
    /// Of all together.
    pub sum_ms: u64,
}

impl Waits {
    /// How many steps there are: up to 8 seconds, and the rest.
    pub const STEPS: usize = 15;

    /// The first step whose bound, a power of two, it is below.
    pub fn step_of(wait: Duration) -> usize {
        let bits = u128::BITS - wait.as_millis().leading_zeros();
        (bits as usize).min(Self::STEPS - 1)
    }

    pub(crate) fn note(&mut self, wait: Duration) {
        self.below_ms[Self::step_of(wait)] += 1;
        let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.sum_ms = self.sum_ms.saturating_add(ms);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.below_ms.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_ends_at_a_power_of_two() {
        let of_ms = |ms| Waits::step_of(Duration::from_millis(ms));
        assert_eq!([0, 1, 2, 3, 4, 7, 8].map(of_ms), [0, 1, 2, 2, 3, 3, 4]);
        assert_eq!([8191, 8192, 1 << 40].map(of_ms), [13, 14, 14]);
        let mut waits = Waits::default();
        for ms in [0, 1, 3, 4, 8191, 8192, 1 << 40] {
            waits.note(Duration::from_millis(ms));
        }
        let mut expected = [0; Waits::STEPS];
        for step in [0, 1, 2, 3, 13, 14, 14] {
            expected[step] += 1;
        }
        assert_eq!((waits.below_ms, waits.count()), (expected, 7));
    }
}

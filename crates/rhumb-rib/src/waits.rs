//! How long requests were waited for, in steps that double: what answers at once is in the first.

use std::time::Duration;

/// How often something took how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Waits {
    /// Below 1 ms, 2 ms, 4 ms and so on, and the rest.
    pub below_ms: [u64; STEPS],
    /// Of all together.
    pub sum_ms: u64,
}

impl Waits {
    pub(crate) fn note(&mut self, wait: Duration) {
        let ms = wait.as_millis();
        let step = (u128::BITS - ms.leading_zeros()) as usize;
        self.below_ms[step.min(STEPS - 1)] += 1;
        self.sum_ms = self.sum_ms.saturating_add(u64::try_from(ms).unwrap_or(u64::MAX));
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.below_ms.iter().sum()
    }
}

/// Up to 8 seconds, and the rest.
const STEPS: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_ends_at_a_power_of_two() {
        let mut waits = Waits::default();
        for ms in [0, 1, 3, 4, 8191, 8192, 1 << 40] {
            waits.note(Duration::from_millis(ms));
        }
        let mut expected = [0; STEPS];
        for step in [0, 1, 2, 3, 13, 14, 14] {
            expected[step] += 1;
        }
        assert_eq!((waits.below_ms, waits.count()), (expected, 7));
    }
}

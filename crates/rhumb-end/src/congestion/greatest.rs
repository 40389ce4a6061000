//! The greatest of what was measured in the last rounds.

/// Of each of the last [`ROUNDS`] rounds in which something was measured, the greatest.
#[derive(Debug, Default, Clone)]
pub(super) struct Greatest {
    /// By round, modulo their number.
    by_round: [u64; ROUNDS as usize],
    latest: u64,
}

impl Greatest {
    pub(super) fn add(&mut self, value: u64, round: u64) {
        let passed = round.saturating_sub(self.latest).min(ROUNDS);
        for other in 0..passed {
            self.by_round[((round - other) % ROUNDS) as usize] = 0;
        }
        self.latest = self.latest.max(round);
        let of_round = &mut self.by_round[(round % ROUNDS) as usize];
        *of_round = value.max(*of_round);
    }

    /// 0 when nothing was measured.
    pub(super) fn value(&self) -> u64 {
        self.by_round.into_iter().max().unwrap_or(0)
    }
}

/// "six to ten" (section 4.1.1.3): longer than a cycle of probing for more.
const ROUNDS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_of_ten_rounds_counts_and_no_longer() {
        let mut greatest = Greatest::default();
        assert_eq!(greatest.value(), 0);
        greatest.add(7, 3);
        greatest.add(9, 3);
        greatest.add(8, 3);
        greatest.add(2, 12);
        assert_eq!(greatest.value(), 9);
        greatest.add(1, 13);
        assert_eq!(greatest.value(), 2);
        greatest.add(1, 1_000);
        assert_eq!(greatest.value(), 1);
    }
}

//! How long things took: a histogram of fixed size, exact to one part in eight.

/// Microseconds by power of two, each in eight steps.
#[derive(Debug, Clone)]
pub struct Latencies {
    counts: [u64; BUCKETS],
    total: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], total: 0 }
    }
}

impl Latencies {
    /// Counts one.
    pub fn add(&mut self, us: u64) {
        self.counts[bucket(us)] += 1;
        self.total += 1;
    }

    /// Takes those of another in.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in self.counts.iter_mut().zip(other.counts) {
            *own += other;
        }
        self.total += other.total;
    }

    /// Microseconds that `permille` of all did not exceed, rounded up to
    /// a bucket's end; nothing if there were none.
    pub fn at(&self, permille: u64) -> Option<u64> {
        let rank = (self.total * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        self.counts.iter().enumerate().find_map(|(index, count)| {
            seen += count;
            (seen >= rank).then(|| last_of(index))
        })
    }
}

fn bucket(us: u64) -> usize {
    let power = us.max(1).ilog2() as usize;
    if power < STEP_BITS {
        return us as usize;
    }
    let step = (us >> (power - STEP_BITS)) as usize & (STEPS - 1);
    ((power - STEP_BITS + 1) * STEPS + step).min(BUCKETS - 1)
}

/// The largest value in a bucket.
fn last_of(index: usize) -> u64 {
    if index < STEPS {
        return index as u64;
    }
    let shift = index / STEPS - 1;
    (((STEPS + index % STEPS + 1) as u64) << shift) - 1
}

const STEP_BITS: usize = 3;
const STEPS: usize = 1 << STEP_BITS;
/// Up to 2^33 us, more than two hours; what is longer counts as that.
const BUCKETS: usize = 31 * STEPS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_that_ends_close_above_it() {
        for us in (0..20_000).chain([1 << 20, (1 << 33) - 1]) {
            let last = last_of(bucket(us));
            assert!(last >= us && last <= us + us / 8, "{us} {last}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_what_was_counted() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.at(500), None);
        let mut odd = Latencies::default();
        for us in 1..=1000 {
            if us % 2 == 0 { latencies.add(us) } else { odd.add(us) }
        }
        latencies.merge(&odd);
        for (permille, exact) in [(500, 500), (990, 990), (1000, 1000)] {
            let found = latencies.at(permille).unwrap();
            assert!((exact..=exact + exact / 8).contains(&found), "{permille}: {found}");
        }
    }
}

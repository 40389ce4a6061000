//! Rates that strangers are held to, by where they come from, in memory that does not grow.
//!
//! A [`TokenBucket`] holds one rate. [`TokenBuckets`] hold a rate for every source at once: each
//! source has a bucket in each of two rows, chosen by keyed hashes, and may go on while either of
//! them has tokens; what it takes, it takes from both. So a source never gets more than its rate,
//! whatever it does, and is held up by others only if those have emptied both of its buckets: a
//! hundred busy sources hold up one in two thousand.
//!
//! INVARIANT: nothing is evicted, because nothing is added: strangers cannot push each other out.

use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;

use crate::Source;

/// So many a second, and so many at once after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// In the long run; not 0.
    pub per_s: u32,
    /// At once, after a pause; not 0.
    pub burst: u32,
}

impl Rate {
    /// One of so many equal parts of it.
    pub(crate) fn part(self, parts: u32) -> Self {
        Self { per_s: (self.per_s / parts).max(1), burst: (self.burst / parts).max(1) }
    }

    fn time_of(self, amount: u32) -> Duration {
        Duration::from_nanos(1_000_000_000 * u64::from(amount) / u64::from(self.per_s.max(1)))
    }
}

/// One rate, as the time at which the bucket will be full again (GCRA).
#[derive(Debug, Clone, Copy)]
pub struct TokenBucket {
    rate: Rate,
    full_at: Instant,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, full_at: now }
    }

    /// Whether there are `amount` tokens.
    pub fn has(&self, amount: u32, now: Instant) -> bool {
        has_tokens(self.full_at, self.rate, amount, now)
    }

    /// Takes `amount` tokens; `false` when they are not there, and nothing is taken.
    pub fn take(&mut self, amount: u32, now: Instant) -> bool {
        let has = self.has(amount, now);
        if has {
            self.full_at = self.full_at.max(now) + self.rate.time_of(amount);
        }
        has
    }
}

/// One rate for each source.
#[derive(Debug)]
pub struct TokenBuckets {
    rate: Rate,
    rows: [Row; ROWS],
}

#[derive(Debug)]
struct Row {
    hasher: RandomState,
    /// When each bucket will be full again.
    full_at: Box<[Instant]>,
}

impl TokenBuckets {
    /// Full buckets: 128 KiB.
    pub fn new(rate: Rate, now: Instant) -> Self {
        let row = |_| Row { hasher: RandomState::default(), full_at: vec![now; BUCKETS].into() };
        Self { rate, rows: std::array::from_fn(row) }
    }

    /// Whether a source has `amount` tokens.
    pub fn has(&self, source: Source, amount: u32, now: Instant) -> bool {
        let places = self.rows.iter().map(|row| (row, row.place(source)));
        places
            .into_iter()
            .any(|(row, place)| has_tokens(row.full_at[place], self.rate, amount, now))
    }

    /// Takes `amount` tokens of a source; `false` when they are not there, and nothing is taken.
    pub fn take(&mut self, source: Source, amount: u32, now: Instant) -> bool {
        let rate = self.rate;
        let buckets = self.rows.each_mut().map(|row| row.bucket(source));
        let has = buckets.iter().any(|full_at| has_tokens(**full_at, rate, amount, now));
        if has {
            let empty = now + rate.time_of(rate.burst);
            for full_at in buckets {
                *full_at = ((*full_at).max(now) + rate.time_of(amount)).min(empty);
            }
        }
        has
    }
}

impl Row {
    fn bucket(&mut self, source: Source) -> &mut Instant {
        let place = self.place(source);
        &mut self.full_at[place]
    }

    fn place(&self, source: Source) -> usize {
        self.hasher.hash_one(source) as usize % BUCKETS
    }
}

fn has_tokens(full_at: Instant, rate: Rate, amount: u32, now: Instant) -> bool {
    full_at.max(now) + rate.time_of(amount) <= now + rate.time_of(rate.burst)
}

const ROWS: usize = 2;
/// In a row: a source out of a hundred busy ones meets one of them in both rows once in 1,700.
const BUCKETS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_s: 10, burst: 5 };

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn start() -> Instant {
        Instant::now()
    }

    fn source(n: u32) -> Source {
        Source::V4(n.to_be_bytes())
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let now = start();
        let mut bucket = TokenBucket::new(RATE, now);
        assert!(!bucket.take(6, now));
        assert!(bucket.take(5, now));
        assert!(!bucket.take(1, now + Duration::from_millis(99)));
        assert!(bucket.take(1, now + Duration::from_millis(100)));
        assert!(!bucket.take(1, now + Duration::from_millis(199)));
        // A pause fills it, and no more.
        let later = now + Duration::from_secs(60);
        assert!(bucket.take(5, later));
        assert!(!bucket.take(1, later));
    }

    #[test]
    fn each_source_has_its_own_and_gets_no_more_by_asking() {
        let start = start();
        let mut buckets = TokenBuckets::new(RATE, start);
        let taken = (0..10_000u64)
            .filter(|ms| buckets.take(source(1), 1, start + Duration::from_millis(*ms)))
            .count();
        assert_eq!(taken, 5 + 99);
        assert!(!buckets.has(source(1), 2, start) && buckets.has(source(2), 5, start));
        assert!(buckets.take(source(2), 5, start));
    }

    #[test]
    fn busy_sources_hold_up_hardly_any_other() {
        let now = start();
        let mut buckets = TokenBuckets::new(RATE, now);
        for n in 0..100 {
            while buckets.take(source(n), 1, now) {}
        }
        let others = 100_000..110_000;
        let held_up = others.filter(|n| !buckets.take(source(*n), 0, now)).count();
        assert_eq!(held_up, 0, "nothing is asked for");
        let held_up = (0..2_000)
            .filter(|n| {
                let mut buckets = TokenBuckets::new(RATE, now);
                let attackers = 1_000_000 + n * 100..;
                attackers.take(100).for_each(|n| _ = buckets.take(source(n), 5, now));
                !buckets.take(source(*n), 1, now)
            })
            .count();
        assert!(held_up < 12, "{held_up} of 2,000, of which 1.2 are expected");
    }
}

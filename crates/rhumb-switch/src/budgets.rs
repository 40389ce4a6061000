//! What strangers may cost us: counted by where they come
//! from, because names and sessions cost nothing.
//!
//! A source of strangers has a rate of its own, all of them together have another one, and a little
//! of each is assured to every source whatever the others do. Sessions that are admitted have their
//! shares for themselves: see `neighbour`.

use std::time::Instant;

use rhumb_link::{Rate, Source, TokenBucket, TokenBuckets};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    /// A NACK of ours.
    Nack,
    /// A PDU of no known flow that is looked into.
    Miss,
    /// A question to RIBs.
    Question,
    /// A statement that RIBs are to store.
    Publication,
    /// Copies of a PDU that goes several ways.
    Copies(u32),
    /// Bytes of a NACK of a foreign peer that are passed on without a capability.
    Relayed(u32),
}

impl Cost {
    fn amount(self) -> u32 {
        match self {
            Self::Copies(amount) | Self::Relayed(amount) => amount,
            _ => 1,
        }
    }
}

/// The budgets of strangers.
pub(crate) struct Budgets {
    nacks: Pool,
    misses: Pool,
    questions: Pool,
    publications: Pool,
    copies: Pool,
    relayed: Pool,
}

/// What strangers have of one thing.
struct Pool {
    of_source: TokenBuckets,
    of_all: TokenBucket,
    assured: TokenBuckets,
}

/// How much that is.
struct Sizes {
    of_source: Rate,
    of_all: Rate,
    assured: Rate,
}

impl Budgets {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            nacks: Pool::new(&NACKS, now),
            misses: Pool::new(&MISSES, now),
            questions: Pool::new(&QUESTIONS, now),
            publications: Pool::new(&PUBLICATIONS, now),
            copies: Pool::new(&COPIES, now),
            relayed: Pool::new(&RELAYED, now),
        }
    }

    /// Whether strangers of a source may cause one more, which is counted.
    pub(crate) fn take(&mut self, source: Source, cost: Cost, now: Instant) -> bool {
        self.pool(cost).take(source, cost.amount(), now)
    }

    /// Whether a source of strangers has NACKs left of its own rate.
    pub(crate) fn have_nacks_for(&self, source: Source, now: Instant) -> bool {
        self.nacks.of_source.has(source, 1, now)
    }

    fn pool(&mut self, cost: Cost) -> &mut Pool {
        match cost {
            Cost::Nack => &mut self.nacks,
            Cost::Miss => &mut self.misses,
            Cost::Question => &mut self.questions,
            Cost::Publication => &mut self.publications,
            Cost::Copies(_) => &mut self.copies,
            Cost::Relayed(_) => &mut self.relayed,
        }
    }
}

impl Pool {
    fn new(sizes: &Sizes, now: Instant) -> Self {
        Self {
            of_source: TokenBuckets::new(sizes.of_source, now),
            of_all: TokenBucket::new(sizes.of_all, now),
            assured: TokenBuckets::new(sizes.assured, now),
        }
    }

    fn take(&mut self, source: Source, amount: u32, now: Instant) -> bool {
        self.of_source.has(source, amount, now)
            && (self.of_all.take(amount, now) || self.assured.take(source, amount, now))
            && self.of_source.take(source, amount, now)
    }
}

/// A client's whole window may miss at once; a flood gets 20,000 answers a second, which cost one
/// core 2 %, and all floods together 10 %.
const NACKS: Sizes = Sizes {
    of_source: Rate { per_s: 20_000, burst: 2000 },
    of_all: Rate { per_s: 100_000, burst: 10_000 },
    assured: Rate { per_s: 200, burst: 50 },
};
/// As many as may be answered: 20,000 a second, which
/// cost one core 1 %, and all floods together 5 %.
const MISSES: Sizes = NACKS;
/// Each with its answer takes 6 us here, and a signature of a RIB, which makes
/// 1,000 a second for one router: half of them, so that those who are
/// admitted, and our own questions, have the other half.
const QUESTIONS: Sizes = Sizes {
    of_source: Rate { per_s: 250, burst: 100 },
    of_all: Rate { per_s: 500, burst: 500 },
    assured: Rate { per_s: 10, burst: 20 },
};
/// A RIB verifies 1,000 a second for one router. A server joins with its
/// 256 names at once, and perhaps two of one host.
const PUBLICATIONS: Sizes = Sizes {
    of_source: Rate { per_s: 300, burst: 512 },
    of_all: Rate { per_s: 600, burst: 600 },
    assured: Rate { per_s: 5, burst: 16 },
};
/// A copy takes a microsecond with its sending: all of strangers together have a tenth of a core.
/// At once as many as a group may have members here.
const COPIES: Sizes = Sizes {
    of_source: Rate { per_s: 50_000, burst: 16_384 },
    of_all: Rate { per_s: 100_000, burst: 32_768 },
    assured: Rate { per_s: 500, burst: 100 },
};

/// Bytes: of NACKs of the usual length 5,800 a second,
/// in which nobody hides more than some megabits.
const RELAYED: Sizes = Sizes {
    of_source: Rate { per_s: 655_360, burst: 1 << 16 },
    of_all: Rate { per_s: 4 * 655_360, burst: 1 << 18 },
    assured: Rate { per_s: 11_200, burst: 1120 },
};

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn source(number: u32) -> Source {
        Source::V4(number.to_be_bytes())
    }

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_source_has_its_rate_all_have_theirs_and_a_little_is_assured() {
        let now = start();
        let mut pool = Pool::new(&QUESTIONS, now);
        let taken = |pool: &mut Pool, source, at| {
            (0..100_000).take_while(|_| pool.take(source, 1, at)).count()
        };
        assert_eq!(taken(&mut pool, source(1), now), 100);
        assert!(!pool.of_source.has(source(1), 1, now));
        // So many sources empty what all have.
        let together: usize = (2..100).map(|it| taken(&mut pool, source(it), now)).sum();
        assert!((400..400 + 98 * 20 + 1).contains(&together), "{together}");
        assert_eq!(taken(&mut pool, source(1000), now), 20, "what is assured");
        let later = now + Duration::from_secs(1);
        assert_eq!(taken(&mut pool, source(1000), later), 100);
    }
}

//! What happened at the store, as plain numbers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rhumb_rib::{RibError, Waits};

/// What was asked of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// An entry, a name by its address, an account, a page.
    Read,
    /// A commit.
    Write,
}

/// What happened since the handle was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Reads that were answered.
    pub reads: u64,
    /// Commits that were acknowledged by a quorum.
    pub commits: u64,
    /// Names in them.
    pub names_written: u64,
    /// Reads after a write, to see that it is in force.
    pub read_back: u64,
    /// Names in commits that were not stored: something newer hides them, though it is over; or
    /// they have had too many ways within a day.
    pub shadowed: u64,
    /// More was asked at once than may be.
    pub overloaded: u64,
    /// Not answered in time.
    pub too_slow: u64,
    /// Too few nodes were up.
    pub without_quorum: u64,
    /// All other failures.
    pub failed: u64,
    /// Reads by how long they took: below 1 ms, 2 ms, 4 ms and so on, and the rest.
    pub read_ms: [u64; Waits::STEPS],
    /// Commits by how long they took, as reads.
    pub commit_ms: [u64; Waits::STEPS],
}

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    reads: AtomicU64,
    commits: AtomicU64,
    pub(crate) names_written: AtomicU64,
    pub(crate) read_back: AtomicU64,
    pub(crate) shadowed: AtomicU64,
    overloaded: AtomicU64,
    too_slow: AtomicU64,
    without_quorum: AtomicU64,
    failed: AtomicU64,
    read_ms: [AtomicU64; Waits::STEPS],
    commit_ms: [AtomicU64; Waits::STEPS],
}

impl Metrics {
    pub(crate) fn note<T>(&self, kind: Kind, result: &Result<T, RibError>, took: Duration) {
        let (count, histogram) = match kind {
            Kind::Read => (&self.reads, &self.read_ms),
            Kind::Write => (&self.commits, &self.commit_ms),
        };
        let Err(error) = result else {
            add_one(&histogram[Waits::step_of(took)]);
            return add_one(count);
        };
        add_one(match error {
            RibError::Overloaded => &self.overloaded,
            RibError::StoreTooSlow { .. } => &self.too_slow,
            RibError::StoreWithoutQuorum { .. } => &self.without_quorum,
            _ => &self.failed,
        });
    }

    pub(crate) fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let all =
            |counts: &[AtomicU64; Waits::STEPS]| std::array::from_fn(|step| of(&counts[step]));
        Counts {
            reads: of(&self.reads),
            commits: of(&self.commits),
            names_written: of(&self.names_written),
            read_back: of(&self.read_back),
            shadowed: of(&self.shadowed),
            overloaded: of(&self.overloaded),
            too_slow: of(&self.too_slow),
            without_quorum: of(&self.without_quorum),
            failed: of(&self.failed),
            read_ms: all(&self.read_ms),
            commit_ms: all(&self.commit_ms),
        }
    }
}

pub(crate) fn add_one(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_is_counted_by_its_kind() {
        let metrics = Metrics::default();
        let took = Duration::from_millis(3);
        metrics.note(Kind::Read, &Ok(()), took);
        metrics.note(Kind::Write, &Ok(()), took);
        metrics.note::<()>(Kind::Read, &Err(RibError::Overloaded), took);
        metrics.note::<()>(Kind::Write, &Err(RibError::DamagedRemoval), took);
        let counts = metrics.counts();
        assert_eq!((counts.reads, counts.commits, counts.overloaded, counts.failed), (1, 1, 1, 1));
        assert_eq!((counts.read_ms[2], counts.commit_ms[2]), (1, 1));
    }
}

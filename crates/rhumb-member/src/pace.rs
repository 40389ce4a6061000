//! When a proxy speaks to the servers: at points of a grid of time, which depend on what was heard,
//! and when, and not on what is thought about it.
//!
//! 1. A connection's task notes when a message came. Nothing else is done on its thread.
//! 2. Each route that a server hands out counts for a fixed time, whether this
//!    member may have it or not ([`Pace::heard`]).
//! 3. What follows from a message leaves at the second point of the grid behind all that
//!    ([`Pace::due`]). Until shortly before, the proxy thinks.
//!
//! Invariant: what is late for its point leaves at a later point, and never between two.

use std::time::{Duration, Instant};

/// Points of time, equally far from each other.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    origin: Instant,
}

impl Grid {
    /// Points from `origin` on.
    pub fn new(origin: Instant) -> Self {
        Self { origin }
    }

    /// The first point that is not before `at`.
    pub fn from(&self, at: Instant) -> Instant {
        let steps = at.saturating_duration_since(self.origin).as_nanos().div_ceil(STEP.as_nanos());
        self.origin + STEP * u32::try_from(steps).unwrap_or(u32::MAX)
    }
}

/// When what follows from a message leaves.
#[derive(Debug)]
pub struct Pace {
    /// Where things leave.
    pub grid: Grid,
    /// What a route counts for.
    cost: Duration,
    /// All routes that were heard of count until then.
    busy: Instant,
}

impl Pace {
    /// Begins now, with what a route counts for.
    pub fn new(now: Instant, cost: Duration) -> Self {
        Self { grid: Grid::new(now), cost, busy: now }
    }

    /// Policies are others.
    pub fn set_cost(&mut self, cost: Duration) {
        self.cost = cost;
    }

    /// A server handed out so many routes, to this member or to others.
    pub fn heard(&mut self, at: Instant, routes: usize) {
        let cost = self.cost * u32::try_from(routes).unwrap_or(u32::MAX);
        self.busy = self.busy.max(at) + cost;
    }

    /// When what follows from a message leaves that came at `at`.
    pub fn due(&self, at: Instant) -> Instant {
        self.grid.from(at.max(self.busy)) + STEP
    }

    /// The same for a ranking, which the parties do not wait for very long.
    pub fn due_soon(&self, at: Instant) -> Instant {
        self.grid.from(at.max(self.busy.min(at + SOON))) + STEP
    }
}

/// Until when is thought about what is due then.
pub fn closes(due: Instant) -> Instant {
    due.checked_sub(CLOSING).unwrap_or(due)
}

/// Several times what a proxy takes for a round, and little beside what a router takes for a route.
pub const STEP: Duration = Duration::from_millis(5);
/// What it takes to wake, and to write answers down, also on a busy machine: what was not counted
/// before is thought about for the rest.
const CLOSING: Duration = Duration::from_micros(3500);
/// Half of what the parties wait for a ranking.
const SOON: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    #[expect(clippy::disallowed_methods, reason = "a virtual clock begins somewhere")]
    fn begin() -> Instant {
        Instant::now()
    }

    #[test]
    fn all_leaves_at_points_and_those_of_one_step_together() {
        let begin = begin();
        let pace = Pace::new(begin, 16 * MICRO);
        for step in 0..50 {
            for part in [1, 2, 2500, 4999, 5000] {
                let at = begin + STEP * step + MICRO * part;
                assert_eq!(pace.due(at), begin + STEP * (step + 2), "{step}, {part}");
                assert_eq!(pace.due(at), pace.due_soon(at));
                assert!(closes(pace.due(at)) > at + MICRO * 1499);
            }
        }
        assert_eq!(pace.grid.from(begin), begin);
        assert_eq!(pace.grid.from(begin + MICRO), begin + STEP);
    }

    /// The one who hears knows how many routes were handed out, and that alone.
    #[test]
    fn routes_count_whether_they_are_for_this_member_or_not() {
        let begin = begin();
        let mut pace = Pace::new(begin, 1000 * MICRO);
        pace.heard(begin + MICRO, 7);
        assert_eq!(pace.due(begin + 2 * MICRO), begin + 3 * STEP);
        pace.heard(begin + 3 * MICRO, 4);
        assert_eq!(pace.due(begin + 4 * MICRO), begin + 4 * STEP);
        // They do not count for ever, nor for what is asked later.
        assert_eq!(pace.due(begin + 20 * STEP), begin + 21 * STEP);
        pace.heard(begin + 21 * STEP, 10_000);
        let at = begin + 21 * STEP;
        assert_eq!(pace.due_soon(at), at + SOON + STEP);
        assert_eq!(pace.due(at), at + 10_000 * 1000 * MICRO + STEP);
    }
}

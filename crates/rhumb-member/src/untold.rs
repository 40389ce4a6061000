//! What the exchange is to be told, and is not yet. A router sends together what is alike, down to
//! communities, which say whom routes are for. So what it sends in one step of the grid is told in
//! the order of prefixes, and so is its table, once it has sent it, or has paused.
//!
//! Invariant: of one destination, changes are told in the order in which they came.

use std::time::{Duration, Instant};

use crate::pace::Grid;
use crate::table::ForExchange;

/// Changes that wait to be told.
#[derive(Debug, Default)]
pub struct Untold {
    changes: Vec<ForExchange>,
    /// When they are told, if the router is not sending its table.
    due: Option<Instant>,
    /// Since when the router sends its table, of which nothing was told.
    table: Option<Instant>,
    heard: Option<Instant>,
}

impl Untold {
    /// A session with the router is up.
    pub fn table_begins(&mut self, now: Instant) {
        self.table = Some(now);
    }

    /// The router has sent all, or will not.
    pub fn table_ended(&mut self) {
        self.table = None;
    }

    /// The router said something.
    pub fn heard_router(&mut self, now: Instant) {
        self.heard = Some(now);
    }

    /// These follow from what the router said, or from other policies.
    pub fn add(&mut self, changes: Vec<ForExchange>, now: Instant, grid: &Grid) {
        if self.due.is_none() && !changes.is_empty() {
            self.due = Some(grid.from(now));
        }
        self.changes.extend(changes);
    }

    /// The exchange knows nothing, and is to be told all.
    pub fn begin(&mut self, all: Vec<ForExchange>, now: Instant, grid: &Grid) {
        (self.changes, self.due) = (Vec::new(), None);
        self.add(all, now, grid);
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// When something is to be told.
    pub fn due(&self) -> Option<Instant> {
        let due = self.due?;
        let Some(began) = self.table else { return Some(due) };
        let paused = self.heard.unwrap_or(began) + PAUSE;
        Some(due.max(paused.min(began + LONGEST)))
    }

    /// What is to be told now.
    pub fn take_due(&mut self, now: Instant) -> Vec<ForExchange> {
        if self.due().is_none_or(|due| due > now) {
            return Vec::new();
        }
        (self.due, self.table) = (None, None);
        let mut changes = std::mem::take(&mut self.changes);
        // Those of one destination stay in their order.
        changes.sort_by_key(|change| (change.place().prefix, change.place().variant));
        changes
    }
}

/// A router that sends its table has more to send within this time.
const PAUSE: Duration = Duration::from_secs(1);
/// A router that sends for longer than this has much to send, of which not all shall wait.
const LONGEST: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Place;
    use rhumb_bgp::policy::prefix::parse_prefix;

    const MILLI: Duration = Duration::from_millis(1);

    fn gone(third: u8, variant: u8) -> ForExchange {
        let prefix = parse_prefix(&format!("10.0.{third}.0/24")).unwrap();
        ForExchange::Withdraw(Place { prefix, variant })
    }

    #[expect(clippy::disallowed_methods, reason = "a virtual clock begins somewhere")]
    fn begin() -> Instant {
        Instant::now()
    }

    #[test]
    fn what_comes_in_one_step_is_told_together_in_the_order_of_prefixes() {
        let begin = begin();
        let (grid, mut untold) = (Grid::new(begin), Untold::default());
        untold.add(vec![gone(9, 0), gone(3, 1)], begin + MILLI, &grid);
        untold.add(vec![gone(3, 0)], begin + 4 * MILLI, &grid);
        assert_eq!(untold.due(), Some(begin + 5 * MILLI));
        assert_eq!(untold.take_due(begin + 4 * MILLI), []);
        assert_eq!(untold.take_due(begin + 5 * MILLI), [gone(3, 0), gone(3, 1), gone(9, 0)]);
        assert!(untold.is_empty() && untold.due().is_none());
    }

    #[test]
    fn a_table_is_told_in_order_once_the_router_has_sent_it_or_pauses() {
        let begin = begin();
        let (grid, mut untold) = (Grid::new(begin), Untold::default());
        untold.table_begins(begin);
        for step in 1..50 {
            let now = begin + 100 * step * MILLI;
            untold.heard_router(now);
            untold.add(vec![gone(50 - step as u8, 0)], now, &grid);
            assert_eq!(untold.take_due(now), []);
        }
        assert_eq!(untold.due(), Some(begin + 5900 * MILLI));
        let told = untold.take_due(begin + 5900 * MILLI);
        assert!(told.len() == 49 && told.is_sorted_by_key(|it| it.place().prefix));
        // From then on it does not wait; nor if the end was said.
        untold.heard_router(begin + 6000 * MILLI);
        untold.add(vec![gone(1, 0)], begin + 6000 * MILLI, &grid);
        assert_eq!(untold.take_due(begin + 6005 * MILLI).len(), 1);
        untold.table_begins(begin + 7000 * MILLI);
        untold.add(vec![gone(1, 0)], begin + 7001 * MILLI, &grid);
        untold.table_ended();
        assert_eq!(untold.take_due(begin + 7005 * MILLI).len(), 1);
        // Who never pauses is told of after a while.
        untold.table_begins(begin);
        untold.heard_router(begin + 9500 * MILLI);
        untold.add(vec![gone(1, 0)], begin + 9500 * MILLI, &grid);
        assert_eq!(untold.due(), Some(begin + LONGEST));
    }
}

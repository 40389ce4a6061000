//! Party one has everything chosen anew, slowly and for ever, so that choices follow the load of
//! ports without anybody seeing when it changes.
//!
//! 1. A pass begins: what the exchange prefers from now on is taken over, and orders of the engine
//!    are installed anew, whether it differs or not.
//! 2. One destination after the other, of those with several routes, all who take part are asked
//!    about. A member keeps what it has until it has the result.
//! 3. The next pass begins when its time has come, and the last
//!    destination of this one has been asked about.
//!
//! What a lane's preference is comes into force if it has been another for a whole pass, by a
//! margin: a port whose load goes up and down moves nothing.
//!
//! Invariant: when a pass begins and what is asked when depends on how many destinations have
//! several routes, and not on the load.

use std::time::{Duration, Instant};

use super::Shard;
use crate::roster::{Lane, LaneSet};
use crate::route::Destination;

/// How far a pass is.
pub(super) struct Sweep {
    /// When the next question, or the next pass, is due.
    pub(super) due: Instant,
    pace: Duration,
    /// Those not asked about, the next at the end.
    left: Vec<Destination>,
}

impl Sweep {
    /// The first pass begins after the time of one: who joins is asked about all.
    pub(super) fn new(now: Instant, pass: Duration) -> Self {
        Self { due: now + pass, pace: pass, left: Vec::new() }
    }
}

/// What party one prefers, and what it will.
#[derive(Default)]
pub(super) struct Preferences {
    /// By lane: in force, and as said last.
    pub(super) in_force: Vec<u8>,
    wanted: Vec<u8>,
    /// Lanes that have differed since the last pass began.
    differing: Vec<bool>,
}

impl Preferences {
    pub(super) fn new(lanes: usize) -> Self {
        let mut preferences = Self::default();
        preferences.extend(lanes);
        preferences
    }

    /// There are more lanes now.
    pub(super) fn extend(&mut self, lanes: usize) {
        self.in_force.resize(lanes, 0);
        self.wanted.resize(lanes, 0);
        self.differing.resize(lanes, false);
    }

    /// Says what it shall be. `at_once` while nothing has been chosen.
    pub(super) fn want(&mut self, wanted: &[u8], at_once: bool) {
        self.wanted.copy_from_slice(wanted);
        if at_once {
            self.in_force.copy_from_slice(wanted);
        }
        for lane in 0..self.wanted.len() {
            self.differing[lane] &= self.differs(lane);
        }
    }

    /// A pass begins.
    fn take_over(&mut self) {
        for lane in 0..self.wanted.len() {
            let differs = self.differs(lane);
            if differs && self.differing[lane] {
                self.in_force[lane] = self.wanted[lane];
            }
            self.differing[lane] = self.differs(lane);
        }
    }

    fn differs(&self, lane: usize) -> bool {
        self.wanted[lane].abs_diff(self.in_force[lane]) >= MARGIN
    }
}

impl Shard {
    /// Asks about the next destination, or begins the next pass, if it is time.
    pub(super) fn sweep(&mut self, now: Instant) {
        let pass = self.config.pass;
        if self.lead().is_none_or(|lead| lead.sweep.due > now) {
            return;
        }
        if self.lead().is_some_and(|lead| lead.sweep.left.is_empty()) {
            self.preferences.take_over();
            if let Some(pair) = &mut self.pair {
                pair.forget_orders();
            }
            let mut left: Vec<Destination> = self.table.contested().cloned().collect();
            // In an order that is the same for the same history.
            left.sort_unstable();
            let Some(lead) = self.lead() else { return };
            let count = u32::try_from(left.len()).unwrap_or(u32::MAX);
            lead.sweep.pace = (pass / count.max(1)).max(LEAST_PACE);
            lead.sweep.left = left;
        }
        let lanes = self.all_lanes();
        let Some(lead) = self.lead() else { return };
        if let Some(next) = lead.sweep.left.pop() {
            lead.ask_about_old(&next, &lanes);
        }
        lead.sweep.due = now + lead.sweep.pace;
    }

    pub(super) fn all_lanes(&self) -> LaneSet {
        let mut lanes = LaneSet::none(self.connections.len());
        (0..self.connections.len()).for_each(|lane| lanes.insert(Lane(lane as u16)));
        lanes
    }
}

/// Steps of sixteen. One is what a port is above or below by chance.
const MARGIN: u8 = 2;
/// Twenty questions a second take a fiftieth of a processor at each
/// party, and a table of 100,000 an hour and a half.
const LEAST_PACE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_preferred_changes_after_a_whole_pass_and_by_a_margin_alone() {
        let mut preferences = Preferences::new(3);
        preferences.want(&[8, 8, 8], true);
        preferences.want(&[2, 9, 8], false);
        assert_eq!(preferences.in_force, [8, 8, 8]);
        preferences.take_over();
        assert_eq!(preferences.in_force, [8, 8, 8], "it may have been so for a moment");
        preferences.want(&[3, 9, 12], false);
        preferences.take_over();
        assert_eq!(preferences.in_force, [3, 8, 8], "one step moves nothing, ever");
        // The third came back in between: it has not differed for a whole pass.
        preferences.want(&[3, 9, 8], false);
        preferences.want(&[3, 9, 12], false);
        preferences.take_over();
        assert_eq!(preferences.in_force, [3, 8, 8]);
        preferences.take_over();
        assert_eq!(preferences.in_force, [3, 8, 12]);
    }
}

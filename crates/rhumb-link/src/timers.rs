//! When somebody has to be looked at again: one heap of deadlines for all sessions and handshakes.
//!
//! Deadlines that move later (a session was just used) are not moved in the heap: the early entry
//! fires, its owner sees that nothing is due and arms itself again. So the paths that run per
//! packet never touch the heap, and an owner causes at most one early look per deadline.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::slots::Key;

/// Whose deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Exchange(Key),
    Session(Key),
}

/// The deadline an owner is next looked at, kept beside it.
#[derive(Debug, Default)]
pub(crate) struct Armed(Option<Instant>);

/// All deadlines.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Owner)>>,
}

impl Timers {
    /// Has `owner` looked at no later than `at`.
    pub(crate) fn arm(&mut self, owner: Owner, armed: &mut Armed, at: Instant) {
        if armed.0.is_none_or(|earlier| at < earlier) {
            armed.0 = Some(at);
            self.heap.push(Reverse((at, owner)));
        }
    }

    /// The earliest deadline; perhaps one whose owner has nothing to do any more.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes a deadline that has passed.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Instant, Owner)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

impl Armed {
    /// Whether a popped deadline is the one armed; if so it is
    /// disarmed. Others were overtaken by an earlier one.
    pub(crate) fn fires(&mut self, at: Instant) -> bool {
        let fires = self.0 == Some(at);
        if fires {
            self.0 = None;
        }
        fires
    }
}

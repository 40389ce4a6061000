//! Moments as flows keep them: in half the room of an [`Instant`], so that what a known flow needs
//! fits a line of the processor's cache.

use std::time::{Duration, Instant};

/// Counts the time from its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
}

/// A moment by a [`Clock`], in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Clock {
    pub(crate) fn new(start: Instant) -> Self {
        Self { start }
    }

    pub(crate) fn moment(self, instant: Instant) -> Moment {
        // There is room for five centuries.
        Moment(instant.saturating_duration_since(self.start).as_nanos() as u64)
    }

    pub(crate) fn instant(self, moment: Moment) -> Instant {
        self.start + Duration::from_nanos(moment.0)
    }
}

impl Moment {
    /// That from which the clock counts.
    pub(crate) const START: Self = Self(0);

    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

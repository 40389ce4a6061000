//! Whether the civil clock can be believed: it is
//! compared with the monotonic one, which nobody sets.
//!
//! What has expired is taken out of the store for good, so a clock that jumped
//! years ahead would empty it. A clock that is set right by less than
//! [`MAX_STEP_S`] is believed, and counts from there on.

use std::time::Instant;

use rhumb_trust::Now;

#[derive(Debug, Clone, Copy)]
pub(crate) struct CivilClock {
    instant: Instant,
    unix_s: u64,
}

impl CivilClock {
    /// Believes `now`.
    pub(crate) fn new(now: Now) -> Self {
        Self { instant: now.instant, unix_s: now.unix_s() }
    }

    /// How many seconds the clock is ahead of where it could be, if that is too much to be
    /// believed. A machine that slept looks the same where its monotonic clock slept too; it is
    /// believed again after a restart.
    pub(crate) fn jumped_ahead_s(&mut self, now: Now) -> Option<u64> {
        let passed_s = now.instant.saturating_duration_since(self.instant).as_secs();
        let ahead_s = now.unix_s().saturating_sub(self.unix_s.saturating_add(passed_s));
        if ahead_s > MAX_STEP_S {
            return Some(ahead_s);
        }
        // One that went back may come back to where it was.
        if ahead_s > 0 {
            *self = Self::new(now);
        }
        None
    }
}

/// A day: more than any time zone, daylight saving or leap second
/// mistaken, and as long as the longest statement.
const MAX_STEP_S: u64 = 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_day_is_believed_and_a_second_more_is_not() {
        #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
        let start = Now { instant: Instant::now(), unix_ms: 1_000_000_000_000 };
        let ahead = |now: Now, by_s: u64| Now { unix_ms: now.unix_ms + by_s * 1000, ..now };
        let later = start.plus(Duration::from_secs(50));
        let mut clock = CivilClock::new(start);
        assert_eq!(clock.jumped_ahead_s(ahead(later, MAX_STEP_S + 1)), Some(MAX_STEP_S + 1));
        assert_eq!(clock.jumped_ahead_s(ahead(later, MAX_STEP_S)), None);
        // From there on it counts as right, and back is no harm.
        let then = ahead(start.plus(Duration::from_secs(100)), MAX_STEP_S);
        assert_eq!(clock.jumped_ahead_s(ahead(then, 5)), None);
        assert_eq!(clock.jumped_ahead_s(Now { unix_ms: 1, ..then }), None);
        assert_eq!(clock.jumped_ahead_s(then), None);
        assert_eq!(clock.jumped_ahead_s(ahead(then, MAX_STEP_S + 6)), Some(MAX_STEP_S + 1));
    }

    #[test]
    fn months_of_drift_are_believed() {
        #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
        let mut now = Now { instant: Instant::now(), unix_ms: 1_000_000_000_000 };
        let mut clock = CivilClock::new(now);
        for _ in 0..1000 {
            now = now.plus(Duration::from_secs(1000));
            now.unix_ms += 500_000;
            assert_eq!(clock.jumped_ahead_s(now), None);
        }
    }
}

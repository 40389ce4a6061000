//! When what an owner says is said again: at half of the time that it lasts, so that RIBs may be
//! away for the other half. As long as one of them has not stored it, it is said again after a
//! second, then after twice as long each time, up to ten minutes.
//!
//! It goes by the clock of the day, which goes on while a machine sleeps. A clock that was put back
//! does not make it wait for longer: what was said then is said anew.

use std::time::Duration;

use rhumb_trust::MAX_NAMES_LIFETIME_S;

/// When it is said next.
#[derive(Debug)]
pub(super) struct Renewal {
    /// When it was said last.
    said_at_ms: u64,
    /// How long after that it is said again.
    rest: Duration,
    /// How long that is when it is not stored.
    wait: Duration,
}

impl Renewal {
    /// At once.
    pub(super) fn at(now_ms: u64) -> Self {
        Self { said_at_ms: now_ms, rest: Duration::ZERO, wait: LEAST_WAIT }
    }

    /// It was said, and all RIBs have stored it, or not.
    pub(super) fn said(&mut self, is_stored: bool, now_ms: u64) {
        self.said_at_ms = now_ms;
        self.rest = if is_stored { RENEWED_AFTER } else { self.wait };
        self.wait = if is_stored { LEAST_WAIT } else { (2 * self.wait).min(MOST_WAIT) };
    }

    /// For how long nothing is to be done: zero when it is to be said, and otherwise so short that
    /// a clock that was set is noticed.
    pub(super) fn rest(&self, now_ms: u64) -> Duration {
        let since_ms = match now_ms.checked_sub(self.said_at_ms) {
            None if self.said_at_ms - now_ms >= PUT_BACK_MS => return Duration::ZERO,
            since_ms => since_ms.unwrap_or_default(),
        };
        self.rest.saturating_sub(Duration::from_millis(since_ms)).min(LOOKS_EVERY)
    }
}

/// Half of the time that a list lasts.
const RENEWED_AFTER: Duration = Duration::from_secs(MAX_NAMES_LIFETIME_S / 2);
const LEAST_WAIT: Duration = Duration::from_secs(1);
const MOST_WAIT: Duration = Duration::from_mins(10);
const LOOKS_EVERY: Duration = Duration::from_mins(1);
/// Time services move clocks by less.
const PUT_BACK_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;
    const LASTS_MS: u64 = MAX_NAMES_LIFETIME_S * 1000;
    const START_MS: u64 = 1_800_000_000_000;

    /// Lets `days` go by, in which a RIB is there when `is_there` says so, and tells how often it
    /// was said, and for how long no list was in force.
    fn lived(days: u64, is_there: impl Fn(u64) -> bool) -> (u32, Duration) {
        let (mut now_ms, end_ms) = (START_MS, START_MS + days * DAY_MS);
        let mut renewal = Renewal::at(now_ms);
        let (mut said, mut holds_until_ms, mut without_ms) = (0, now_ms, 0);
        while now_ms < end_ms {
            let rest = renewal.rest(now_ms);
            if rest.is_zero() {
                said += 1;
                let is_stored = is_there(now_ms - START_MS);
                if is_stored {
                    without_ms += now_ms.saturating_sub(holds_until_ms);
                    holds_until_ms = now_ms + LASTS_MS;
                }
                renewal.said(is_stored, now_ms);
            }
            now_ms += rest.as_millis() as u64;
        }
        (said, Duration::from_millis(without_ms))
    }

    #[test]
    fn a_year_goes_by_without_an_hour_in_which_nothing_is_in_force() {
        assert_eq!(lived(365, |_| true), (25, Duration::ZERO), "twice in the time that it lasts");
    }

    #[test]
    fn a_rib_that_is_away_for_less_than_the_other_half_is_told_in_time() {
        // It leaves just before it would have been told.
        let away = |from_days: u64, days: u64| {
            move |at_ms| !(from_days * DAY_MS..(from_days + days) * DAY_MS).contains(&at_ms)
        };
        let (said, without) = lived(60, away(15, 14));
        assert_eq!(without, Duration::ZERO);
        // While it is away it is asked each ten minutes, not each second.
        assert!((1000..=14 * 144 + 30).contains(&said), "{said}");
        let (_, without) = lived(60, away(15, 16));
        let least = Duration::from_hours(24);
        assert!((least..=least + MOST_WAIT).contains(&without), "{without:?}");
    }

    #[test]
    fn a_machine_that_slept_says_it_at_once_and_a_clock_put_back_holds_nothing_up() {
        let mut renewal = Renewal::at(START_MS);
        assert_eq!(renewal.rest(START_MS), Duration::ZERO);
        renewal.said(true, START_MS);
        assert_eq!(renewal.rest(START_MS + LASTS_MS / 2 - 1), Duration::from_millis(1));
        assert_eq!(renewal.rest(START_MS + LASTS_MS / 2), Duration::ZERO);
        assert_eq!(renewal.rest(START_MS + 3 * LASTS_MS), Duration::ZERO, "it slept");
        assert_eq!(renewal.rest(START_MS - 1000), LOOKS_EVERY, "a time service sets it");
        assert_eq!(renewal.rest(START_MS - 365 * DAY_MS), Duration::ZERO, "it was a year ahead");
    }
}

//! One of the RIBs: whether there is a session with it, and how soon it answers.
//!
//! The smoothed answer time says whom to ask first; the 95th of the last hundred, how long to wait
//! before a second one is asked as well. A RIB that stays silent is counted as slow as one waited
//! for it, and one whose answers are not to be believed as slower than any honest one.

use std::time::{Duration, Instant};

use rhumb_link::SessionId;

use crate::Remote;
use crate::kept::Kept;

pub(super) struct Replica {
    pub(super) kept: Kept,
    pub(super) times: AnswerTimes,
    pub(super) silence: Silence,
}

impl Replica {
    pub(super) fn new(remote: Remote, now: Instant) -> Self {
        let (times, silence) = (AnswerTimes::default(), Silence::default());
        Self { kept: Kept::new(remote, now), times, silence }
    }

    pub(super) fn session(&self) -> Option<SessionId> {
        self.kept.session()
    }
}

/// Since when a RIB has answered nothing that it was asked. Its
/// session is given up much later: it may be busy.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Silence {
    since: Option<Instant>,
    is_told: bool,
}

impl Silence {
    /// It is asked something.
    pub(super) fn note_asked(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// It answered, or is not there to be asked.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// For how long, once that is longer than a busy RIB takes.
    pub(super) fn lasts(&self, now: Instant) -> Option<Duration> {
        let lasts = now.saturating_duration_since(self.since?);
        (lasts >= SILENT_AFTER).then_some(lasts)
    }

    /// Whether to tell of it now: once each time.
    pub(super) fn is_news(&mut self, now: Instant) -> bool {
        let is_news = !self.is_told && self.lasts(now).is_some();
        self.is_told |= is_news;
        is_news
    }
}

/// How soon a RIB answers.
#[derive(Debug, Default)]
pub(super) struct AnswerTimes {
    smoothed: Option<Duration>,
    /// The same without penalties.
    measured: Option<Duration>,
    /// The last [`RECENT`], in a ring.
    recent: Vec<Duration>,
    oldest: usize,
}

impl AnswerTimes {
    /// It answered, or was given up, after so long.
    pub(super) fn note(&mut self, time: Duration) {
        let time = time.min(SLOWEST);
        // A weight of an eighth, as for round-trip times (RFC 6298).
        for smoothed in [&mut self.smoothed, &mut self.measured] {
            *smoothed = Some(smoothed.map_or(time, |smoothed| (smoothed * 7 + time) / 8));
        }
        if self.recent.len() < RECENT {
            self.recent.push(time);
        } else {
            self.recent[self.oldest] = time;
            self.oldest = (self.oldest + 1) % RECENT;
        }
    }

    /// Its answer was refused: it is asked last until it has given good ones.
    pub(super) fn penalise(&mut self) {
        self.smoothed = Some(SLOWEST);
    }

    /// The lower, the sooner it is asked. One that never answered is
    /// taken for a quick one, so that it is tried.
    pub(super) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(SHORTEST_HEDGE)
    }

    /// How long it takes to answer, whatever its answers are worth; none before the first one.
    pub(super) fn measured(&self) -> Option<Duration> {
        self.measured
    }

    /// How long to wait for it before another one is asked too.
    pub(super) fn hedge_after(&self) -> Duration {
        let mut sorted = self.recent.clone();
        sorted.sort_unstable();
        let p95 = sorted.get(sorted.len() * 95 / 100).copied().unwrap_or_default();
        p95.clamp(SHORTEST_HEDGE, LONGEST_HEDGE)
    }
}

/// Enough that the 95th of a hundred is not chance alone, few enough to sort for every question.
const RECENT: usize = 64;
/// Below this, a busy moment of this router would look like a slow RIB.
const SHORTEST_HEDGE: Duration = Duration::from_millis(20);
/// A question is repeated after this anyway.
const LONGEST_HEDGE: Duration = Duration::from_millis(200);
/// The last repetition of a question goes out after this, and none was answered.
const SILENT_AFTER: Duration = Duration::from_secs(1);
/// Slower than any RIB that is worth asking.
const SLOWEST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_hedge_waits_for_the_95th_of_100_within_its_bounds() {
        let mut times = AnswerTimes::default();
        assert_eq!(times.hedge_after(), SHORTEST_HEDGE);
        for _ in 0..RECENT {
            times.note(MS);
        }
        assert_eq!(times.hedge_after(), SHORTEST_HEDGE);
        // Three of 64 are less than five of a hundred, four are more.
        (0..3).for_each(|_| times.note(90 * MS));
        assert_eq!(times.hedge_after(), SHORTEST_HEDGE);
        times.note(90 * MS);
        assert_eq!(times.hedge_after(), 90 * MS);
        (0..RECENT).for_each(|_| times.note(Duration::from_secs(9)));
        assert_eq!((times.hedge_after(), times.smoothed() <= SLOWEST), (LONGEST_HEDGE, true));
    }

    #[test]
    fn who_lied_is_asked_last_until_it_has_answered_well_for_a_while() {
        let mut times = AnswerTimes::default();
        times.note(MS);
        times.penalise();
        assert_eq!(times.smoothed(), SLOWEST);
        (0..5).for_each(|_| times.note(MS));
        assert!(times.smoothed() > 500 * MS);
        (0..50).for_each(|_| times.note(MS));
        assert!(times.smoothed() < 5 * MS);
    }
}

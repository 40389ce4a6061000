//! What is known of a path, measure by measure.

use std::time::{Duration, Instant};

use super::delivery::Sample;
use super::greatest::Greatest;

/// Round trips, counted in packets: one ends when what was sent after its beginning is acknowledged
/// (section 4.1.1.3).
#[derive(Debug, Default, Clone)]
pub(super) struct Rounds {
    pub(super) count: u64,
    pub(super) ends_at: u64,
    /// The last acknowledgement began one.
    pub(super) is_new: bool,
}

/// The least round trip (RTprop, section 4.1.2).
#[derive(Debug, Default, Clone)]
pub(super) struct Least {
    pub(super) round_trip: Option<Duration>,
    /// When it was seen last.
    seen_at: Option<Instant>,
    /// What has been seen since little is under way for its sake, and the time before.
    looked: Option<Duration>,
    looked_before: Option<Duration>,
}

/// Whether the path is full, as far as rates tell that grow no more (section 4.3.2.2).
#[derive(Debug, Default, Clone)]
pub(super) struct Filling {
    rate: u64,
    rounds: u32,
    pub(super) is_full: bool,
}

/// What is acknowledged together, more than the rate would have it. Source:
/// draft-cardwell-iccrg-bbr-congestion-control-02, section 4.5.5.
#[derive(Debug, Default, Clone)]
pub(super) struct Aggregation {
    since: Option<Instant>,
    acked: u64,
    pub(super) greatest: Greatest,
}

impl Rounds {
    pub(super) fn update(&mut self, sample: &Sample) {
        self.is_new = sample.delivered_before >= self.ends_at;
        if self.is_new {
            self.ends_at = sample.delivered;
            self.count += 1;
        }
    }
}

impl Least {
    /// Whether it has to be looked for, since it has not been seen for long.
    pub(super) fn update(&mut self, sample: &Sample, is_app_limited: bool, now: Instant) -> bool {
        let round_trip = sample.round_trip.max(Duration::from_micros(1));
        let old = self.seen_at.is_some_and(|at| now.saturating_duration_since(at) > LEAST_HOLDS);
        // Who says little has no queue of his own in the way.
        let takes_any = old && is_app_limited;
        if takes_any || self.round_trip.is_none_or(|least| round_trip <= least) {
            (self.round_trip, self.seen_at) = (Some(round_trip), Some(now));
        }
        self.looked = self.looked.map(|looked| looked.min(round_trip));
        old && !is_app_limited
    }

    /// From now on little is under way.
    pub(super) fn begin_to_look(&mut self) {
        self.looked = Some(Duration::MAX);
    }

    /// What was seen counts, and what was seen the time before.
    pub(super) fn end_looking(&mut self, now: Instant) {
        let Some(looked) = self.looked.take().filter(|it| *it < Duration::MAX) else { return };
        let before = self.looked_before.replace(looked);
        self.round_trip = Some(before.map_or(looked, |before| before.min(looked)));
        self.seen_at = Some(now);
    }
}

impl Filling {
    pub(super) fn update(&mut self, rate: u64) {
        if self.is_full {
            return;
        }
        if rate >= gain(FULL_GROWTH, self.rate) {
            (self.rate, self.rounds) = (rate, 0);
            return;
        }
        self.rounds += 1;
        self.is_full = self.rounds >= FULL_ROUNDS;
    }
}

impl Aggregation {
    pub(super) fn update(&mut self, sample: &Sample, rate: u64, round: u64, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let expected = rate_times(rate, now.saturating_duration_since(since));
        if self.acked <= expected {
            (self.since, self.acked) = (Some(now), sample.acked);
            return;
        }
        self.acked += sample.acked;
        self.greatest.add(self.acked - expected, round);
    }
}

pub(super) fn gain(by: f64, value: u64) -> u64 {
    (by * value as f64) as u64
}

pub(super) fn rate_of(bytes: u64, time: Duration) -> u64 {
    let nanos = time.as_nanos().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
}

pub(super) fn rate_times(rate: u64, time: Duration) -> u64 {
    u64::try_from(u128::from(rate) * time.as_nanos() / 1_000_000_000).unwrap_or(u64::MAX)
}

const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Twice as often as section 4.1.2.2 has it, and as draft-cardwell-iccrg-bbr-congestion-control-02
/// does: beside others that keep a queue full, it is seldom seen how short the path is.
const LEAST_HOLDS: Duration = Duration::from_secs(5);

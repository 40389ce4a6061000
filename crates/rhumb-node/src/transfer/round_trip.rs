//! The round-trip time of a path and how long to wait for an answer (RFC 6298).

use std::time::Duration;

/// An estimate of the round-trip time.
#[derive(Debug)]
pub(super) struct RoundTrip {
    estimate: Option<Estimate>,
    /// Timeouts since the last progress; each doubles the next.
    backoff: u32,
}

#[derive(Debug)]
struct Estimate {
    smoothed: Duration,
    variation: Duration,
    latest: Duration,
    shortest: Duration,
}

impl RoundTrip {
    pub(super) fn new() -> Self {
        Self { estimate: None, backoff: 0 }
    }

    /// Takes the time one answer took.
    pub(super) fn sample(&mut self, time: Duration) {
        self.estimate = Some(match self.estimate.take() {
            None => Estimate { smoothed: time, variation: time / 2, latest: time, shortest: time },
            Some(Estimate { smoothed, variation, shortest, .. }) => Estimate {
                smoothed: smoothed * 7 / 8 + time / 8,
                variation: variation * 3 / 4 + smoothed.abs_diff(time) / 4,
                latest: time,
                shortest: shortest.min(time),
            },
        });
    }

    pub(super) fn smoothed(&self) -> Duration {
        self.estimate.as_ref().map_or(FIRST_TIMEOUT, |estimate| estimate.smoothed)
    }

    /// The time of the path when nothing waits on it.
    pub(super) fn shortest(&self) -> Duration {
        self.estimate.as_ref().map_or(FIRST_TIMEOUT, |estimate| estimate.shortest)
    }

    /// The time by which the answer to a chunk is overdue when that to a later one is there.
    pub(super) fn current(&self) -> Duration {
        self.estimate
            .as_ref()
            .map_or(FIRST_TIMEOUT, |estimate| estimate.smoothed.max(estimate.latest))
    }

    /// How long to wait for any answer.
    pub(super) fn timeout(&self) -> Duration {
        let first = self.estimate.as_ref().map_or(FIRST_TIMEOUT, |estimate| {
            (estimate.smoothed + estimate.variation * 4).max(MIN_TIMEOUT) + MAX_ACK_DELAY
        });
        (first * (1 << self.backoff.min(MAX_BACKOFF))).min(MAX_TIMEOUT)
    }

    /// Timeouts since the last progress.
    pub(super) fn backoff(&self) -> u32 {
        self.backoff
    }

    pub(super) fn timed_out(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    pub(super) fn progressed(&mut self) {
        self.backoff = 0;
    }
}

/// How long a receiver may hold an acknowledgement back.
pub(super) const MAX_ACK_DELAY: Duration = Duration::from_millis(5);
/// Before anything is known of the path. Below the second of RFC 6298, because the first messages
/// of a flow are often refused while a switch looks up their route, and then a second is long.
const FIRST_TIMEOUT: Duration = Duration::from_millis(250);
/// Far below the second of RFC 6298, which is meant for hosts that hold acknowledgements back for
/// up to half a second; ours wait 5 ms, and 20 ms is beyond what a scheduler adds.
const MIN_TIMEOUT: Duration = Duration::from_millis(20);
/// So short that a path which is back is noticed soon,
/// so long that a dead one costs next to nothing.
const MAX_TIMEOUT: Duration = Duration::from_secs(2);
/// Keeps the shift in range; 25 ms doubled this often is beyond [`MAX_TIMEOUT`].
const MAX_BACKOFF: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn follows_the_path() {
        let mut round_trip = RoundTrip::new();
        assert_eq!(round_trip.timeout(), FIRST_TIMEOUT);
        round_trip.sample(MS * 100);
        assert_eq!(round_trip.smoothed(), MS * 100);
        assert_eq!(
            round_trip.timeout(),
            MS * 305,
            "as in RFC 6298, 2.2, and the delay of an acknowledgement"
        );
        for _ in 0..200 {
            round_trip.sample(MS * 40);
        }
        assert!(round_trip.smoothed().abs_diff(MS * 40) < MS);
        assert!(round_trip.timeout() < MS * 50);
        round_trip.sample(MS * 90);
        assert_eq!(round_trip.current(), MS * 90);
        assert_eq!(round_trip.shortest(), MS * 40);
    }

    #[test]
    fn timeouts_double_up_to_a_bound() {
        let mut round_trip = RoundTrip::new();
        round_trip.sample(Duration::from_micros(100));
        let mut expected = MIN_TIMEOUT + MAX_ACK_DELAY;
        assert_eq!(round_trip.timeout(), expected);
        for _ in 0..40 {
            round_trip.timed_out();
            expected = (expected * 2).min(MAX_TIMEOUT);
            assert_eq!(round_trip.timeout(), expected);
        }
        round_trip.progressed();
        assert_eq!(round_trip.timeout(), MIN_TIMEOUT + MAX_ACK_DELAY);
    }
}

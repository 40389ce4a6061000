//! Spreads what the congestion window allows over the round trip, in short bursts:
//! a queue in front of a slow line need not hold a window at once, and
//! segmentation offload still gets its runs of chunks.
//!
//! A token bucket (RFC 9002, section 7.7). On a path as short as a loopback the bucket holds
//! several windows, so it never binds, and no timer is ever needed there.

use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Pacer {
    /// Bytes that may go out now.
    budget: f64,
    filled_at: Instant,
}

/// How fast, for the moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Bytes per round trip.
    pub window: u64,
    pub round_trip: Duration,
    /// In slow start the window is to double in a round trip.
    pub is_slow_start: bool,
    pub chunk_len: u64,
}

impl Pacer {
    pub(super) fn new(now: Instant) -> Self {
        Self { budget: f64::INFINITY, filled_at: now }
    }

    /// Whether a chunk may go out now, or when to ask again.
    pub(super) fn poll(&mut self, pace: Pace, now: Instant) -> Result<(), Instant> {
        let headroom = if pace.is_slow_start { 2.0 } else { 1.25 };
        let round_trip_s = pace.round_trip.as_secs_f64().max(1e-6);
        let per_second = pace.window as f64 * headroom / round_trip_s;
        let burst =
            (per_second * BURST.as_secs_f64()).max((MIN_BURST_CHUNKS * pace.chunk_len) as f64);
        let elapsed = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.budget = (self.budget + per_second * elapsed).min(burst);
        self.filled_at = now;
        if self.budget >= pace.chunk_len as f64 {
            return Ok(());
        }
        // Half a burst at once, not chunk by chunk; and no longer than a pace may stay what it is.
        let wait_s = (burst / 2.0 - self.budget) / per_second;
        Err(now + Duration::from_secs_f64(wait_s).clamp(MIN_WAIT, pace.round_trip.max(MIN_WAIT)))
    }

    /// So many bytes went out.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.budget -= bytes as f64;
    }
}

/// Twice what timers of a runtime resolve.
const BURST: Duration = Duration::from_millis(2);
/// The initial window (RFC 6928), which may go out at once.
const MIN_BURST_CHUNKS: u64 = 10;
/// The finest step in which time is worth asking.
const MIN_WAIT: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        window: 1_000_000,
        round_trip: Duration::from_millis(100),
        is_slow_start: false,
        chunk_len: 1000,
    };

    /// Bytes that go out at once.
    fn drain(pacer: &mut Pacer, pace: Pace, now: Instant) -> u64 {
        let mut bytes = 0;
        while pacer.poll(pace, now).is_ok() && bytes < 1 << 30 {
            pacer.sent(pace.chunk_len);
            bytes += pace.chunk_len;
        }
        bytes
    }

    #[test]
    fn spreads_a_window_over_a_round_trip() {
        let start = Instant::now();
        for (pace, expected) in
            [(PACE, 1_250_000), (Pace { is_slow_start: true, ..PACE }, 2_000_000u64)]
        {
            let mut pacer = Pacer::new(start);
            let (mut now, mut bytes, mut bursts) = (start, 0, 0);
            while now < start + pace.round_trip {
                let burst = drain(&mut pacer, pace, now);
                assert!(burst <= expected / 50, "2 ms at most: {burst}");
                bytes += burst;
                bursts += 1;
                now = pacer.poll(pace, now).unwrap_err();
            }
            assert!(bytes.abs_diff(expected) < expected / 20, "{bytes} of {expected}");
            assert!(bursts < 120, "{bursts}");
        }
    }

    #[test]
    fn never_binds_where_the_path_is_short() {
        let pace = Pace { round_trip: Duration::from_micros(100), ..PACE };
        let mut pacer = Pacer::new(Instant::now());
        assert!(drain(&mut pacer, pace, Instant::now()) >= 10 * pace.window);
    }

    #[test]
    fn an_initial_window_goes_out_at_once() {
        let pace = Pace { window: 10_000, round_trip: Duration::from_secs(1), ..PACE };
        let now = Instant::now();
        assert_eq!(drain(&mut Pacer::new(now), pace, now), 10_000);
    }
}

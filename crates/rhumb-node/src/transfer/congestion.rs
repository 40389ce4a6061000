//! How many bytes may be under way: CUBIC (RFC 9438) with slow start.
//!
//! One thing is not as in CUBIC: a loss never takes the window below what the path has just been
//! seen to carry without a queue, as in TCP Westwood+ (Grieco and Mascolo, 2004). Where losses come
//! of full queues this changes nothing, because then the round trip is longer than its shortest.
//! Where they come of a bad radio or line, it is worth several times the throughput.
//!
//! 1. [`Congestion::observe`] ends slow start when the round trip grows (after HyStart++,
//!    RFC 9406), which is before the queue of a bottleneck overflows;
//! 2. [`Congestion::acknowledged`] grows the window: by what arrived in slow start, then along the
//!    cubic curve, and never slower than Reno would;
//! 3. [`Congestion::lost`] shrinks it, once for all losses of one round trip;
//! 4. [`Congestion::regret`] takes that back when the loss turns out to be reordering;
//! 5. [`Congestion::timed_out`] starts over.

use std::time::{Duration, Instant};

use super::scoreboard::Sample;

/// The congestion window of one transfer. Sizes are in bytes, numbers those of transmissions.
#[derive(Debug)]
pub(super) struct Congestion {
    chunk_len: f64,
    window: f64,
    /// Slow start ends here.
    threshold: f64,
    /// Where the window was when it last shrank.
    plateau: f64,
    /// What the path carries in its shortest round trip.
    carried: f64,
    /// Round trips that took longer than the shortest, since the last that did not.
    late_samples: u32,
    /// The present run along the curve.
    run: Option<Run>,
    /// Losses of transmissions before this belong to a reduction that has been made.
    recovery_until: u64,
    before_reduction: Option<Before>,
}

/// A run along the cubic curve.
#[derive(Debug)]
struct Run {
    since: Instant,
    /// The window at which the curve is flat.
    plateau: f64,
    /// Seconds until the curve is back at the plateau.
    to_plateau_s: f64,
    /// What Reno's window would be.
    reno: f64,
}

#[derive(Debug)]
struct Before {
    window: f64,
    threshold: f64,
    plateau: f64,
}

impl Congestion {
    pub(super) fn new(chunk_len: u64) -> Self {
        let chunk_len = chunk_len as f64;
        Self {
            chunk_len,
            window: INITIAL_CHUNKS * chunk_len,
            threshold: f64::INFINITY,
            plateau: 0.0,
            carried: 0.0,
            late_samples: 0,
            run: None,
            recovery_until: 0,
            before_reduction: None,
        }
    }

    /// Bytes that may be under way.
    pub(super) fn window(&self) -> u64 {
        self.window as u64
    }

    /// Whether the window doubles with every round trip.
    pub(super) fn is_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Chunks are of another length from now on.
    pub(super) fn set_chunk_len(&mut self, chunk_len: u64) {
        self.chunk_len = chunk_len as f64;
        self.window = self.window.max(MIN_CHUNKS * self.chunk_len);
    }

    /// Takes what one transmission has shown; `shortest` is the round
    /// trip of the path when nothing waits on it.
    pub(super) fn observe(&mut self, sample: Sample, shortest: Duration) {
        // Up to a quarter more is the delay of acknowledgements, and
        // bursts; what is beyond waited in a queue.
        let without_queue_s = shortest.as_secs_f64() * 1.25;
        let share = without_queue_s / sample.round_trip.as_secs_f64().max(1e-9);
        let carried = sample.arrived as f64 * share.min(1.0);
        self.carried = carried.max(self.carried + (carried - self.carried) / 8.0);
        let late_by = (shortest / 8).clamp(MIN_LATENESS, MAX_LATENESS);
        self.late_samples =
            if sample.round_trip > shortest + late_by { self.late_samples + 1 } else { 0 };
        if self.is_slow_start() && self.late_samples >= LATE_SAMPLES {
            self.threshold = self.window;
        }
    }

    /// `bytes` arrived when `in_flight` were under way; `newest`
    /// is the newest transmission that has arrived.
    pub(super) fn acknowledged(
        &mut self,
        bytes: u64,
        in_flight: u64,
        newest: u64,
        round_trip: Duration,
        now: Instant,
    ) {
        let bytes = bytes as f64;
        // A window that is not used proves nothing, and what was sent
        // before a loss says nothing of the time after.
        if newest < self.recovery_until || (in_flight as f64) < self.window / 2.0 {
            return;
        }
        if self.is_slow_start() {
            self.window = (self.window + bytes).min(self.threshold);
            return;
        }
        let (window, chunk_len) = (self.window, self.chunk_len);
        let plateau = self.plateau.max(window);
        let run = self.run.get_or_insert_with(|| Run {
            since: now,
            plateau,
            to_plateau_s: ((plateau - window) / chunk_len / CUBIC_C).cbrt(),
            reno: window,
        });
        let reno_gain = if run.reno < run.plateau { RENO_GAIN } else { 1.0 };
        run.reno += reno_gain * bytes / window * chunk_len;
        let ahead_s = (now + round_trip - run.since).as_secs_f64() - run.to_plateau_s;
        let curve = run.plateau + CUBIC_C * ahead_s.powi(3) * chunk_len;
        let target = curve.clamp(window, window * 1.5);
        self.window = (window + (target - window) * bytes / window).max(run.reno);
    }

    /// The transmission `newest` and perhaps others
    /// before it are lost; the next one will be `next`.
    pub(super) fn lost(&mut self, newest: u64, next: u64) {
        if newest < self.recovery_until {
            return;
        }
        self.recovery_until = next;
        self.before_reduction =
            Some(Before { window: self.window, threshold: self.threshold, plateau: self.plateau });
        // Fast convergence: a flow that did not get back to its plateau makes room for others.
        self.plateau = if self.window < self.plateau {
            self.window * (1.0 + CUBIC_BETA) / 2.0
        } else {
            self.window
        };
        let floor = self.carried.min(self.window).max(MIN_CHUNKS * self.chunk_len);
        self.window = (self.window * CUBIC_BETA).max(floor);
        self.threshold = self.window;
        self.run = None;
    }

    /// The last loss was none: the chunk came by a longer way.
    pub(super) fn regret(&mut self) {
        if let Some(before) = self.before_reduction.take() {
            self.window = self.window.max(before.window);
            self.threshold = before.threshold;
            self.plateau = before.plateau;
            self.run = None;
        }
    }

    /// Nothing has come back for long; the next transmission will be `next`.
    pub(super) fn timed_out(&mut self, next: u64) {
        self.before_reduction = None;
        self.carried = 0.0;
        self.recovery_until = next;
        let floor = MIN_CHUNKS * self.chunk_len;
        if self.window > floor {
            self.plateau = self.window;
            self.threshold = (self.window * CUBIC_BETA).max(floor);
        }
        self.window = floor;
        self.run = None;
    }
}

/// RFC 6928.
const INITIAL_CHUNKS: f64 = 10.0;
const MIN_CHUNKS: f64 = 2.0;
/// So many in a row are a queue that builds up, not jitter.
const LATE_SAMPLES: u32 = 8;
/// More than the delay of an acknowledgement.
const MIN_LATENESS: Duration = Duration::from_millis(8);
const MAX_LATENESS: Duration = Duration::from_millis(16);
/// How steep the curve is, in chunks per second cubed (RFC 9438, section 5.1).
const CUBIC_C: f64 = 0.4;
/// What a loss leaves of the window (RFC 9438, section 4.6).
const CUBIC_BETA: f64 = 0.7;
/// Chunks per window with which Reno, shrinking to [`CUBIC_BETA`],
/// would be as fast as Reno (RFC 9438, section 4.3).
const RENO_GAIN: f64 = 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA);

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 1000;
    const ROUND_TRIP: Duration = Duration::from_millis(50);

    /// One round trip in which a whole window arrives.
    fn round(congestion: &mut Congestion, number: u64, now: &mut Instant) {
        *now += ROUND_TRIP;
        let window = congestion.window();
        for _ in 0..window / CHUNK {
            congestion.acknowledged(CHUNK, window, number, ROUND_TRIP, *now);
        }
    }

    #[test]
    fn slow_start_doubles_and_an_unused_window_does_not_grow() {
        let (mut congestion, mut now) = (Congestion::new(CHUNK), Instant::now());
        round(&mut congestion, 1, &mut now);
        assert_eq!(congestion.window(), 20 * CHUNK);
        congestion.acknowledged(CHUNK, CHUNK, 1, ROUND_TRIP, now);
        assert_eq!(congestion.window(), 20 * CHUNK);
    }

    #[test]
    fn a_round_trip_that_grows_ends_slow_start_and_one_that_jitters_does_not() {
        let sample = |ms| Sample { round_trip: ROUND_TRIP + Duration::from_millis(ms), arrived: 0 };
        let mut congestion = Congestion::new(CHUNK);
        for ms in [9, 12, 9, 20, 30, 9, 9, 5].repeat(5) {
            congestion.observe(sample(ms), ROUND_TRIP);
        }
        assert!(congestion.is_slow_start());
        for _ in 0..8 {
            assert!(congestion.is_slow_start());
            congestion.observe(sample(9), ROUND_TRIP);
        }
        assert!(!congestion.is_slow_start());
    }

    #[test]
    fn losses_of_one_round_trip_count_once() {
        let mut congestion = Congestion::new(CHUNK);
        congestion.lost(5, 10);
        assert_eq!(congestion.window(), 7 * CHUNK);
        congestion.lost(9, 12);
        assert_eq!(congestion.window(), 7 * CHUNK);
        congestion.lost(10, 12);
        assert_eq!(congestion.window(), 4900);
        for number in 12..100 {
            congestion.lost(number, number + 1);
        }
        assert_eq!(congestion.window(), 2 * CHUNK, "the floor");
    }

    #[test]
    fn a_loss_without_a_queue_leaves_what_the_path_carried() {
        let shown = |arrived, round_trip| {
            let mut congestion = Congestion::new(CHUNK);
            congestion.observe(Sample { round_trip, arrived }, ROUND_TRIP);
            congestion.lost(1, 2);
            congestion.window()
        };
        assert_eq!(shown(9 * CHUNK, ROUND_TRIP), 9 * CHUNK);
        assert_eq!(shown(9 * CHUNK, ROUND_TRIP * 5 / 4), 9 * CHUNK);
        assert_eq!(shown(9 * CHUNK, ROUND_TRIP * 2), 7 * CHUNK, "three eighths waited in a queue");
        assert_eq!(shown(90 * CHUNK, ROUND_TRIP), 10 * CHUNK, "never more than before");
    }

    #[test]
    fn comes_back_to_the_plateau_and_lingers_there() {
        let (mut congestion, mut now) = (Congestion::new(CHUNK), Instant::now());
        for _ in 0..6 {
            round(&mut congestion, 1, &mut now);
        }
        let plateau = congestion.window();
        congestion.lost(1, 2);
        let mut windows = vec![congestion.window()];
        // K = cbrt(640 * 0.3 / 0.4) = 7.8 s, or 157 round trips.
        for _ in 0..157 {
            round(&mut congestion, 2, &mut now);
            windows.push(congestion.window());
        }
        let last = *windows.last().unwrap();
        assert!(last.abs_diff(plateau) < plateau / 20, "{last} against {plateau}");
        let growth = |at: usize| windows[at + 10] - windows[at];
        assert!(growth(0) > 4 * growth(140), "steep first, then flat: {windows:?}");
        for _ in 0..157 {
            round(&mut congestion, 2, &mut now);
        }
        assert!(congestion.window() > plateau * 5 / 4, "then it probes beyond");
    }

    #[test]
    fn a_loss_that_was_none_is_taken_back_once() {
        let mut congestion = Congestion::new(CHUNK);
        congestion.lost(1, 2);
        congestion.regret();
        assert_eq!(congestion.window(), 10 * CHUNK);
        congestion.lost(2, 3);
        congestion.timed_out(4);
        congestion.regret();
        assert_eq!(congestion.window(), 2 * CHUNK, "a timeout is not taken back");
    }
}

//! When the next packet may go, by the rate that congestion control gives.
//!
//! QUIC's own pacing knows windows only, and spreads one over most of a round trip; BBR's window is
//! a bound, and its rate what counts.

use std::time::{Duration, Instant};

/// Of one connection.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Pace {
    /// When all that was sent has had its time.
    free_at: Option<Instant>,
    /// What one packet takes.
    of_one: Duration,
}

impl Pace {
    /// When to look again, if nothing may be sent now.
    pub(crate) fn holds_until(&self, now: Instant) -> Option<Instant> {
        let free_at = self.free_at.filter(|at| *at > now)?;
        // Several go together, where one takes less than a wake is worth.
        Some(if self.of_one < TOGETHER { free_at + TOGETHER } else { free_at })
    }

    /// Packets leave: so long each, so many bytes in all.
    pub(crate) fn sent(&mut self, (each, all): (usize, usize), bytes_per_s: u64, now: Instant) {
        let takes =
            |bytes: usize| Duration::from_nanos(bytes as u64 * 1_000_000_000 / bytes_per_s.max(1));
        self.of_one = takes(each);
        // What was not used is made up for, as far as threads wake late.
        let credit = CREDIT.max(self.of_one * CREDIT_PACKETS);
        let from = now
            .checked_sub(credit)
            .map_or(now, |since| self.free_at.map_or(since, |free_at| free_at.max(since)));
        self.free_at = Some(from + takes(all));
    }
}

/// How many packets of this length go together: what the rate sends within [`TOGETHER`].
pub(crate) fn together(len: usize, bytes_per_s: u64) -> usize {
    let bytes = bytes_per_s.saturating_mul(TOGETHER.as_micros() as u64) / 1_000_000;
    usize::try_from(bytes).unwrap_or(usize::MAX).checked_div(len).unwrap_or(1).max(1)
}

/// As coarse as packets are released: a timer for each would cost more than it gives.
const TOGETHER: Duration = Duration::from_millis(1);
/// A busy host lets a thread wait for so long.
const CREDIT: Duration = Duration::from_millis(4);
/// What may begin at once, as RFC 9002 has it (section 7.7).
const CREDIT_PACKETS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "the first instant")]
    fn start() -> Instant {
        Instant::now()
    }

    /// Sends as much as it may; returns how many packets that was.
    fn send(pace: &mut Pace, now: Instant) -> u32 {
        let mut sent = 0;
        while pace.holds_until(now).is_none() {
            pace.sent((1000, 1000), RATE, now);
            sent += 1;
        }
        sent
    }

    /// A packet of 1000 bytes each tenth of a millisecond.
    const RATE: u64 = 10_000_000;

    #[test]
    fn packets_go_at_the_rate_and_some_together() {
        let (mut pace, begin) = (Pace::default(), start());
        let mut now = begin;
        let mut sent = send(&mut pace, now);
        assert!(sent <= 41, "{sent}");
        let mut wakes = 0;
        while now < begin + Duration::from_secs(1) {
            now = pace.holds_until(now).unwrap();
            let together = send(&mut pace, now);
            assert!((10..=12).contains(&together), "{together}");
            (sent, wakes) = (sent + together, wakes + 1);
        }
        assert!((10_000..10_060).contains(&sent), "{sent}");
        assert!(wakes <= 1000, "{wakes}");
    }

    #[test]
    fn a_train_counts_as_all_of_its_packets_and_is_no_longer_than_the_rate_has_it() {
        let (mut pace, now) = (Pace::default(), start());
        assert_eq!((together(1000, RATE), together(1000, 100_000)), (10, 1));
        let mut sent = 0;
        while pace.holds_until(now).is_none() {
            pace.sent((1000, 10_000), RATE, now);
            sent += 10;
        }
        assert!((41..=50).contains(&sent), "{sent}");
    }

    #[test]
    fn who_wakes_late_makes_up_for_a_little_and_not_for_a_pause() {
        let (mut pace, begin) = (Pace::default(), start());
        send(&mut pace, begin);
        let due = pace.holds_until(begin).unwrap();
        assert_eq!(send(&mut pace, due + Duration::from_millis(2)), 31);
        let later = due + Duration::from_secs(60);
        assert_eq!(send(&mut pace, later), 41);
    }

    #[test]
    fn at_a_slow_rate_packets_go_one_by_one_after_the_first_few() {
        let (mut pace, mut now) = (Pace::default(), start());
        let mut first = 0;
        while pace.holds_until(now).is_none() {
            pace.sent((1000, 1000), 100_000, now);
            first += 1;
        }
        assert_eq!(first, 11);
        for _ in 0..20 {
            let next = pace.holds_until(now).unwrap();
            assert_eq!(next - now, Duration::from_millis(10));
            now = next;
            pace.sent((1000, 1000), 100_000, now);
        }
    }
}

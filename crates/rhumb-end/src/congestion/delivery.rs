//! The rate at which a path delivers, from when packets were sent and acknowledged.
//! Source: draft-cheng-iccrg-delivery-rate-estimation-00, whose names are in brackets.
//!
//! The draft notes with each packet what had been delivered when it was sent. Here that is noted
//! once for each acknowledgement, and found by the time at which a packet was sent: as exact, and
//! less to keep.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What has been delivered so far, and the marks that rates are measured from.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    /// Bytes acknowledged (C.delivered).
    delivered: u64,
    /// The newest of the packets that were acknowledged, by when it was sent.
    newest_sent: Instant,
    /// Bytes of the acknowledgement that is being taken.
    news: u64,
    /// Up to when the sender had nothing more to say, in bytes delivered (C.app_limited).
    limited_until: u64,
    /// Nothing is under way.
    is_idle: bool,
    marks: VecDeque<Mark>,
}

/// How things stood at some time.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// C.delivered_time
    at: Instant,
    delivered: u64,
    /// C.first_sent_time
    newest_sent: Instant,
    is_limited: bool,
}

/// What an acknowledgement has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// Bytes that it was the first to acknowledge.
    pub(super) acked: u64,
    /// All there ever were.
    pub(super) delivered: u64,
    /// What had been delivered when its newest packet was sent (P.delivered).
    pub(super) delivered_before: u64,
    /// Bytes a second, if it can be told.
    pub(super) rate: Option<u64>,
    /// The sender had nothing more to say, so the path may deliver more than that.
    pub(super) is_limited: bool,
    /// The round trip of the newest packet.
    pub(super) round_trip: Duration,
    /// When that was sent.
    pub(super) newest_sent: Instant,
}

impl Delivery {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            delivered: 0,
            newest_sent: now,
            news: 0,
            limited_until: 0,
            is_idle: true,
            marks: VecDeque::new(),
        }
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Something is sent.
    pub(super) fn sent(&mut self, now: Instant) {
        if self.is_idle {
            self.is_idle = false;
            self.newest_sent = now;
            self.mark(now, Duration::ZERO);
        }
    }

    /// A packet is acknowledged.
    pub(super) fn acked(&mut self, bytes: u64, sent: Instant) {
        self.news += bytes;
        self.delivered += bytes;
        self.newest_sent = self.newest_sent.max(sent);
    }

    /// An acknowledgement is at its end; `None` if it brought no news. `least` is the least round
    /// trip, if it is known: rates over less are noise.
    pub(super) fn end(
        &mut self,
        (in_flight, is_limited): (u64, bool),
        least: Option<Duration>,
        now: Instant,
    ) -> Option<Sample> {
        let acked = std::mem::take(&mut self.news);
        if acked == 0 {
            return None;
        }
        let newest_sent = self.newest_sent;
        let before = self.marks.partition_point(|mark| mark.at <= newest_sent).checked_sub(1);
        // Packets sent before that are late, and are measured from the oldest mark that is left.
        self.marks.drain(..before.unwrap_or(0));
        let mark = before.and_then(|_| self.marks.front().copied());
        if self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        if is_limited {
            self.limited_until = self.delivered + in_flight;
        }
        let sample = Sample {
            acked,
            delivered: self.delivered,
            delivered_before: mark.map_or(0, |mark| mark.delivered),
            rate: mark.and_then(|mark| self.rate_since(mark, least, now)),
            is_limited: mark.is_some_and(|mark| mark.is_limited),
            round_trip: now.saturating_duration_since(newest_sent),
            newest_sent,
        };
        self.mark(now, least.unwrap_or_default() / MARKS_PER_ROUND_TRIP);
        self.is_idle = in_flight == 0;
        Some(sample)
    }

    /// Of the slower of two: that at which was sent what now is acknowledged, and that at which it
    /// was acknowledged.
    fn rate_since(&self, mark: Mark, least: Option<Duration>, now: Instant) -> Option<u64> {
        let sending = self.newest_sent.saturating_duration_since(mark.newest_sent);
        let acknowledging = now.saturating_duration_since(mark.at);
        let took = sending.max(acknowledging);
        if took.is_zero() || took < least.unwrap_or_default() {
            return None;
        }
        let bytes = u128::from(self.delivered - mark.delivered);
        u64::try_from(bytes * 1_000_000_000 / took.as_nanos()).ok()
    }

    fn mark(&mut self, now: Instant, apart: Duration) {
        if self.marks.back().is_some_and(|last| now.saturating_duration_since(last.at) < apart) {
            return;
        }
        if self.marks.len() >= MOST_MARKS {
            self.marks.pop_front();
        }
        let (delivered, newest_sent) = (self.delivered, self.newest_sent);
        let is_limited = self.limited_until != 0;
        self.marks.push_back(Mark { at: now, delivered, newest_sent, is_limited });
    }
}

/// Closer marks would tell little more.
const MARKS_PER_ROUND_TRIP: u32 = 128;
/// A few round trips of marks, 24 kB: queues may make round trips longer than the least.
pub(super) const MOST_MARKS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[expect(clippy::disallowed_methods, reason = "the first instant")]
    fn start() -> Instant {
        Instant::now()
    }

    /// A packet of 1000 bytes each millisecond, each acknowledged 50 ms later.
    fn steady(delivery: &mut Delivery, start: Instant, from: u32, to: u32) -> Option<Sample> {
        let mut last = None;
        for at in from..to {
            let now = start + at * MS;
            delivery.sent(now);
            if at >= from.max(50) {
                delivery.acked(1000, now - 50 * MS);
                last = delivery.end((50_000, false), Some(50 * MS), now);
            }
        }
        last
    }

    #[test]
    fn a_steady_flow_is_measured_as_it_is() {
        let begin = start();
        let mut delivery = Delivery::new(begin);
        let sample = steady(&mut delivery, begin, 0, 300).unwrap();
        assert_eq!((sample.acked, sample.delivered), (1000, 250_000));
        assert_eq!((sample.rate, sample.is_limited), (Some(1_000_000), false));
        assert_eq!(sample.round_trip, 50 * MS);
    }

    #[test]
    fn acknowledgements_that_come_together_raise_no_rate() {
        let begin = start();
        let mut delivery = Delivery::new(begin);
        steady(&mut delivery, begin, 0, 300);
        // Nothing is heard for 20 ms, and then all of it at once, four times.
        for at in [320_u32, 340, 360, 380] {
            let now = begin + at * MS;
            for packet in at - 20..at {
                delivery.sent(begin + packet * MS);
                delivery.acked(1000, begin + (packet - 50) * MS);
            }
            let rate = delivery.end((50_000, false), Some(50 * MS), now).unwrap().rate.unwrap();
            assert!((900_000..1_050_000).contains(&rate), "{rate}");
        }
    }

    #[test]
    fn what_the_sender_did_not_fill_is_marked() {
        let begin = start();
        let mut delivery = Delivery::new(begin);
        delivery.sent(begin);
        delivery.acked(1000, begin);
        assert!(!delivery.end((5000, true), None, begin + 50 * MS).unwrap().is_limited);
        delivery.sent(begin + 51 * MS);
        delivery.acked(1000, begin + 51 * MS);
        assert!(delivery.end((4000, false), None, begin + 101 * MS).unwrap().is_limited);
        // What was under way then has been delivered.
        delivery.acked(6000, begin + 102 * MS);
        delivery.end((1000, false), None, begin + 152 * MS);
        delivery.acked(1000, begin + 153 * MS);
        assert!(!delivery.end((1000, false), None, begin + 203 * MS).unwrap().is_limited);
    }

    #[test]
    fn a_pause_is_no_part_of_a_rate() {
        let begin = start();
        let mut delivery = Delivery::new(begin);
        delivery.sent(begin);
        delivery.acked(1000, begin);
        delivery.end((0, true), None, begin + 50 * MS);
        let later = begin + Duration::from_secs(60);
        delivery.sent(later);
        delivery.acked(50_000, later);
        let sample = delivery.end((0, true), Some(50 * MS), later + 50 * MS).unwrap();
        assert_eq!(sample.rate, Some(1_000_000));
    }

    #[test]
    fn marks_are_bounded_whatever_is_acknowledged() {
        let begin = start();
        let mut delivery = Delivery::new(begin);
        delivery.sent(begin);
        for at in 1..5000 {
            delivery.acked(1, begin);
            delivery.end((1, false), Some(MS), begin + at * MS);
            assert!(delivery.marks.len() <= MOST_MARKS);
        }
        assert_eq!(delivery.end((1, false), None, begin), None, "no news");
    }
}

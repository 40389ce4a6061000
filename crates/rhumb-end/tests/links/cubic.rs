//! A flow that fills a queue until something gets lost, as most of the world's do: CUBIC (RFC 9438)
//! in packets, without retransmission.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Link;

pub(crate) struct Cubic {
    /// Packets that may be under way.
    window: f64,
    /// Where it was when something got lost last, and when that was.
    before: Option<(f64, Instant)>,
    /// When the sender hears of each packet, and whether it has arrived.
    under_way: VecDeque<(Instant, bool)>,
    /// Bytes.
    pub(crate) delivered: u64,
}

impl Cubic {
    pub(crate) fn new(now: Instant) -> Self {
        let under_way = VecDeque::from([(now, true)]);
        Self { window: 10.0, before: None, under_way, delivered: 0 }
    }

    /// Does what it would have done until now.
    pub(crate) fn go_on(&mut self, link: &mut Link, now: Instant) {
        while let Some(&(at, has_arrived)) = self.under_way.front()
            && at <= now
        {
            self.under_way.pop_front();
            if has_arrived {
                self.delivered += PACKET as u64;
                self.grow(link.round_trip, at);
            } else {
                self.shrink(link.round_trip, at);
            }
            while self.under_way.len() < self.window as usize {
                let back = link.round_trip / 2;
                let arrives = link.carry(PACKET, at).map(|arrives| (arrives + back, true));
                // What follows it tells that it is lost.
                let lost = (link.free_at + link.round_trip, false);
                self.under_way.push_back(arrives.unwrap_or(lost));
            }
        }
    }

    fn grow(&mut self, round_trip: Duration, now: Instant) {
        let Some((before, since)) = self.before else {
            self.window += 1.0;
            return;
        };
        // Section 4.2: how the window was before is reached after as many seconds.
        let reached = (before * (1.0 - AFTER_LOSS) / C).cbrt();
        let time = (now - since + round_trip).as_secs_f64() - reached;
        let target = (C * time.powi(3) + before).clamp(self.window, 1.5 * self.window);
        self.window += (target - self.window) / self.window;
    }

    /// Once for a round trip, whatever else gets lost in it.
    fn shrink(&mut self, round_trip: Duration, now: Instant) {
        if self.before.is_some_and(|(_, since)| now < since + 2 * round_trip) {
            return;
        }
        self.before = Some((self.window, now));
        self.window = (self.window * AFTER_LOSS).max(2.0);
    }
}

/// Bytes.
const PACKET: usize = 1500;
/// Section 5.1.
const C: f64 = 0.4;
/// Section 4.6.
const AFTER_LOSS: f64 = 0.7;

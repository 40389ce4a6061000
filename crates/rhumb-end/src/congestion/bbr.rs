//! The model of a path, and the states in which it is explored.

use std::time::{Duration, Instant};

use super::delivery::{Delivery, Sample};
use super::greatest::Greatest;
use super::measures::{Aggregation, Filling, Least, Rounds, gain, rate_of, rate_times};

/// One path's.
#[derive(Debug, Clone)]
pub(super) struct Bbr {
    delivery: Delivery,
    rounds: Rounds,
    /// The rate at which the path delivers (BtlBw, section 4.1.1).
    greatest_rate: Greatest,
    least: Least,
    filling: Filling,
    aggregation: Aggregation,
    recovery: Recovery,
    state: State,
    mtu: u64,
    /// Bytes a second, at which packets are sent.
    pace: u64,
    window: u64,
    /// Acknowledged and lost last, so as far as is known.
    in_flight: u64,
    /// Lost since the last acknowledgement.
    lost: u64,
    /// Lost in this round.
    lost_in_round: u64,
}

/// What an acknowledgement leaves behind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acked {
    pub(super) in_flight: u64,
    /// The sender has nothing more to say.
    pub(super) is_app_limited: bool,
}

/// After many losses, as much is sent for a round as arrives; then the window is as before (section
/// 4.2.3.4, which does so after each: then a path that loses by chance holds up every round).
#[derive(Debug, Default, Clone)]
enum Recovery {
    #[default]
    None,
    Under {
        /// What was sent after that and arrives ends it.
        since: Instant,
        /// The round up to whose end no more is sent than arrives.
        conserves_until: u64,
        window_before: u64,
    },
}

/// What is being found out about the path (section 4.3).
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// How much it delivers: more than twice as much each round.
    Startup,
    /// The queue that this has left is emptied.
    Drain,
    /// Most of the time at the rate that is known; now and then a round of more, and one of less.
    Steady { phase: usize, since: Instant },
    /// How short a round trip is with next to nothing under way.
    Shortest {
        /// Little enough has been under way for so long.
        until: Option<(Instant, u64)>,
        window_before: u64,
    },
}

impl Bbr {
    pub(super) fn new(now: Instant, mtu: u16) -> Self {
        Self {
            delivery: Delivery::new(now),
            rounds: Rounds::default(),
            greatest_rate: Greatest::default(),
            least: Least::default(),
            filling: Filling::default(),
            aggregation: Aggregation::default(),
            recovery: Recovery::None,
            state: State::Startup,
            mtu: mtu.into(),
            pace: rate_of(gain(STARTUP_GAIN, INITIAL_WINDOW), FIRST_ROUND_TRIP),
            window: INITIAL_WINDOW,
            in_flight: 0,
            lost: 0,
            lost_in_round: 0,
        }
    }

    pub(super) fn sent(&mut self, bytes: u64, now: Instant) {
        self.in_flight += bytes;
        self.delivery.sent(now);
    }

    pub(super) fn acked(&mut self, bytes: u64, sent: Instant) {
        self.delivery.acked(bytes, sent);
    }

    pub(super) fn lost(&mut self, bytes: u64, now: Instant) {
        let many = (self.in_flight / MANY_LOST_ONE_IN).max(MANY_LOST * self.mtu);
        self.lost += bytes;
        self.lost_in_round += bytes;
        self.in_flight = self.in_flight.saturating_sub(bytes);
        // At the beginning the window follows what arrives anyway.
        if self.state == State::Startup || self.lost_in_round < many {
            return;
        }
        let window_before = self.window;
        self.window = self.window.saturating_sub(bytes).max(self.least_window());
        match &mut self.recovery {
            Recovery::Under { since, .. } => *since = now,
            Recovery::None => {
                let conserves_until = self.rounds.count + 1;
                self.rounds.ends_at = self.delivery.delivered();
                self.recovery = Recovery::Under { since: now, conserves_until, window_before };
                self.window = self.in_flight.max(self.least_window());
            }
        }
    }

    pub(super) fn update(&mut self, Acked { in_flight, is_app_limited }: Acked, now: Instant) {
        self.in_flight = in_flight;
        let least = self.least.round_trip;
        let Some(sample) = self.delivery.end((in_flight, is_app_limited), least, now) else {
            return;
        };
        self.rounds.update(&sample);
        if self.rounds.is_new {
            self.lost_in_round = 0;
        }
        if let Some(rate) = sample.rate
            && (!sample.is_limited || rate >= self.rate())
        {
            self.greatest_rate.add(rate, self.rounds.count);
        }
        self.aggregation.update(&sample, self.greatest_rate.value(), self.rounds.count, now);
        let before = in_flight + sample.acked;
        self.go_through_steady(before, now);
        if self.rounds.is_new && !sample.is_limited {
            self.filling.update(self.greatest_rate.value());
        }
        self.leave_startup(in_flight, now);
        let is_due = self.least.update(&sample, is_app_limited, now);
        if let (None, Some(first)) = (least, self.least.round_trip) {
            self.pace = rate_of(gain(STARTUP_GAIN, INITIAL_WINDOW), first);
        }
        self.look_for_shortest(is_due, in_flight, now);
        self.set_pace();
        self.set_window(&sample, in_flight);
        self.lost = 0;
    }

    pub(super) fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu.into();
        self.window = self.window.max(self.least_window());
    }

    /// Bytes that may be under way.
    pub(super) fn window(&self) -> u64 {
        match self.state {
            State::Shortest { .. } => self.window.min(self.shortest_window()),
            _ => self.window,
        }
    }

    /// Bytes that may be sent in a second.
    pub(super) fn pace(&self) -> u64 {
        self.pace.max(self.mtu)
    }

    fn rate(&self) -> u64 {
        self.greatest_rate.value()
    }

    /// What is under way when the path is full and no queue is there, times a gain.
    fn full(&self, by: f64) -> u64 {
        let Some(round_trip) = self.least.round_trip else { return INITIAL_WINDOW };
        let product = u128::from(self.rate()) * round_trip.as_nanos() / 1_000_000_000;
        let product = u64::try_from(product).unwrap_or(u64::MAX);
        gain(by, product).max(self.least_window())
    }

    /// Two packets under way in each direction (section 4.2.3.3).
    fn least_window(&self) -> u64 {
        4 * self.mtu
    }

    fn shortest_window(&self) -> u64 {
        self.full(SHORTEST_GAIN)
    }

    fn pace_gain(&self) -> f64 {
        match self.state {
            State::Startup => STARTUP_GAIN,
            State::Drain => 1.0 / STARTUP_GAIN,
            State::Steady { phase, .. } => CYCLE[phase],
            State::Shortest { .. } => 1.0,
        }
    }

    /// The cycle of section 4.3.4.3; `before` is what was under way before the acknowledgement.
    fn go_through_steady(&mut self, before: u64, now: Instant) {
        let State::Steady { phase, since } = self.state else { return };
        let round_trip = self.least.round_trip.unwrap_or_default();
        let is_long = now.saturating_duration_since(since) > round_trip;
        let by = CYCLE[phase];
        let is_over = if by > 1.0 {
            is_long && (self.lost > 0 || before >= self.full(by))
        } else if by < 1.0 {
            is_long || before <= self.full(1.0)
        } else {
            is_long
        };
        if is_over {
            self.state = State::Steady { phase: (phase + 1) % CYCLE.len(), since: now };
        }
    }

    fn leave_startup(&mut self, in_flight: u64, now: Instant) {
        if self.state == State::Startup && self.filling.is_full {
            self.state = State::Drain;
        }
        if self.state == State::Drain && in_flight <= self.full(1.0) {
            self.begin_steady(now);
        }
    }

    /// Anywhere in the cycle but in the round of less, which only follows one of more. Connections
    /// differ in what they have delivered, so they do not probe together.
    fn begin_steady(&mut self, now: Instant) {
        let others = CYCLE.len() as u64 - 1;
        let back = self.delivery.delivered() / self.mtu.max(1) % others;
        let phase = (CYCLE.len() - back as usize) % CYCLE.len();
        self.state = State::Steady { phase, since: now };
    }

    /// Section 4.3.5.
    fn look_for_shortest(&mut self, is_due: bool, in_flight: u64, now: Instant) {
        if is_due && !matches!(self.state, State::Shortest { .. }) {
            let window_before = match self.recovery {
                Recovery::None => self.window,
                Recovery::Under { window_before, .. } => window_before.max(self.window),
            };
            self.least.begin_to_look();
            self.state = State::Shortest { until: None, window_before };
        }
        let State::Shortest { until, window_before } = self.state else { return };
        let until = match until {
            None if in_flight <= self.shortest_window() => {
                Some((now + SHORTEST_FOR, self.rounds.count + 1))
            }
            Some((at, round)) if at <= now && self.rounds.count >= round => {
                self.least.end_looking(now);
                self.window = self.window.max(window_before);
                if self.filling.is_full {
                    self.begin_steady(now);
                } else {
                    self.state = State::Startup;
                }
                return;
            }
            until => until,
        };
        self.state = State::Shortest { until, window_before };
    }

    /// Section 4.2.1.
    fn set_pace(&mut self) {
        let pace = gain(self.pace_gain() * BELOW, self.rate());
        if self.filling.is_full || pace > self.pace {
            self.pace = pace;
        }
    }

    /// Section 4.2.3.
    fn set_window(&mut self, sample: &Sample, in_flight: u64) {
        let acked = sample.acked;
        if let Recovery::Under { since, conserves_until, window_before } = self.recovery {
            if self.lost == 0 && sample.newest_sent > since {
                self.recovery = Recovery::None;
                self.window = self.window.max(window_before);
            } else if self.rounds.count < conserves_until {
                self.window = self.window.max(in_flight + acked);
                return;
            }
        }
        let by = if self.filling.is_full { WINDOW_GAIN } else { STARTUP_WINDOW_GAIN };
        let together =
            self.aggregation.greatest.value().min(rate_times(self.rate(), MOST_TOGETHER));
        let paced_together =
            rate_times(self.pace, PACED_TOGETHER).clamp(2 * self.mtu, MOST_PACED_TOGETHER);
        let target = self.full(by).saturating_add(together).saturating_add(3 * paced_together);
        if self.filling.is_full {
            self.window = target.min(self.window + acked);
        } else if self.window < target || sample.delivered < INITIAL_WINDOW {
            self.window += acked;
        }
        self.window = self.window.max(self.least_window());
    }
}

/// As deployed for QUIC by others; RFC 9002, section 7.2, recommends twelve.
pub(super) const INITIAL_WINDOW: u64 = 32 * 1200;
/// Before one was measured.
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(1);
/// 4 ln 2, the least that doubles each round. Source:
/// draft-cardwell-iccrg-bbr-congestion-control-02, section 2.4.
const STARTUP_GAIN: f64 = 2.77;
/// Likewise: a queue of one more round trip.
const STARTUP_WINDOW_GAIN: f64 = 2.0;
/// Less than the 2 of section 4.2.3.2. With 2, in a queue that holds what the path does, a flow of
/// BBR has whatever it wants, and one of cubic beside it a sixth of the link; with this they have
/// about a half each.
const WINDOW_GAIN: f64 = 1.5;
/// A little less than is delivered, so that no queue stays. Source: as above.
const BELOW: f64 = 0.99;
/// Section 4.3.4.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// More is lost in a round than by chance, on paths that are of use: so many packets, and such a
/// part of what is under way.
const MANY_LOST: u64 = 4;
const MANY_LOST_ONE_IN: u64 = 16;
const SHORTEST_FOR: Duration = Duration::from_millis(200);
/// Half of what the path holds. Source: as above.
const SHORTEST_GAIN: f64 = 0.5;
/// The longest silence of acknowledgements that is made up for.
const MOST_TOGETHER: Duration = Duration::from_millis(100);
/// What is paced together, as [`crate::pace`] has it.
const PACED_TOGETHER: Duration = Duration::from_millis(1);
const MOST_PACED_TOGETHER: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A sender that always has something to say, and a path with a queue that never ends, in
    /// virtual time. Each packet is acknowledged by itself.
    struct World {
        bbr: Bbr,
        now: Instant,
        /// Of the path.
        rate: u64,
        round_trip: Duration,
        free_at: Instant,
        paced_at: Instant,
        /// When each packet was sent, and is acknowledged.
        under_way: VecDeque<(Instant, Instant)>,
        /// Packets, of which one in so many gets lost; 0 for none.
        sent: u64,
        loses_one_in: u64,
        /// The most that was under way since it was looked at last.
        most: u64,
        arrived: u64,
        states: Vec<State>,
    }

    const PACKET: u64 = 1200;
    const ROUND_TRIP: Duration = Duration::from_millis(40);
    const SECOND: Duration = Duration::from_secs(1);
    const RATE: u64 = 3_000_000;
    /// What the path holds.
    const FULL: u64 = 120_000;

    impl World {
        fn new() -> Self {
            #[expect(clippy::disallowed_methods, reason = "the first instant")]
            let now = Instant::now();
            Self {
                bbr: Bbr::new(now, PACKET as u16),
                now,
                rate: RATE,
                round_trip: ROUND_TRIP,
                free_at: now,
                paced_at: now,
                under_way: VecDeque::new(),
                sent: 0,
                loses_one_in: 0,
                most: 0,
                arrived: 0,
                states: Vec::new(),
            }
        }

        fn in_flight(&self) -> u64 {
            self.under_way.len() as u64 * PACKET
        }

        fn run(&mut self, time: Duration) {
            let until = self.now + time;
            (self.most, self.arrived) = (0, 0);
            self.states.clear();
            while self.now < until {
                self.step();
            }
        }

        /// Sends a packet, or takes an acknowledgement, whichever is next.
        fn step(&mut self) {
            let has_room = self.in_flight() + PACKET <= self.bbr.window();
            let heard_at = self.under_way.front().map(|(_, at)| *at);
            if has_room && heard_at.is_none_or(|at| self.paced_at <= at) {
                self.now = self.now.max(self.paced_at);
                self.send();
            } else if let Some((sent, at)) = self.under_way.pop_front() {
                self.now = self.now.max(at);
                self.bbr.acked(PACKET, sent);
                self.arrived += PACKET;
                let in_flight = self.in_flight();
                self.bbr.update(Acked { in_flight, is_app_limited: false }, self.now);
            }
            self.most = self.most.max(self.in_flight());
            if self.states.last() != Some(&self.bbr.state) {
                self.states.push(self.bbr.state);
            }
        }

        fn send(&mut self) {
            self.bbr.sent(PACKET, self.now);
            self.sent += 1;
            let took = |rate: u64| Duration::from_nanos(PACKET * 1_000_000_000 / rate);
            self.paced_at = self.now + took(self.bbr.pace());
            self.free_at = self.free_at.max(self.now) + took(self.rate);
            if self.loses_one_in > 0 && self.sent.is_multiple_of(self.loses_one_in) {
                // As if that were known at once.
                self.bbr.lost(PACKET, self.now);
            } else {
                self.under_way.push_back((self.now, self.free_at + self.round_trip));
            }
        }

        fn share(&self, time: Duration) -> f64 {
            self.arrived as f64 / time.as_secs_f64() / self.rate as f64
        }
    }

    #[test]
    fn the_path_is_found_and_filled_without_a_queue() {
        let mut world = World::new();
        world.run(SECOND);
        assert!(world.most < 3 * FULL, "{}", world.most);
        assert!(matches!(world.bbr.state, State::Steady { .. }), "{:?}", world.bbr.state);
        let rate = world.bbr.rate();
        assert!(rate.abs_diff(RATE) < RATE / 50, "{rate}");
        world.run(3 * SECOND);
        assert!(world.share(3 * SECOND) > 0.95, "{}", world.share(3 * SECOND));
        assert!(world.most < FULL + FULL * 2 / 5, "{}", world.most);
        let room = FULL * 3 / 2 + 3 * RATE / 1000;
        assert!(world.bbr.window() < room + FULL / 2, "{}", world.bbr.window());
    }

    #[test]
    fn the_round_trip_is_looked_at_again_with_little_under_way() {
        let mut world = World::new();
        world.run(4 * SECOND);
        assert!(!world.states.iter().any(|it| matches!(it, State::Shortest { .. })));
        // All of a sudden the path is longer, as after a move.
        world.round_trip = ROUND_TRIP * 2;
        world.run(12 * SECOND);
        let looked = world.states.iter().filter(|it| matches!(it, State::Shortest { .. })).count();
        assert!(looked >= 2);
        let found = world.bbr.least.round_trip.unwrap();
        assert!((ROUND_TRIP * 2..ROUND_TRIP * 21 / 10).contains(&found), "{found:?}");
        assert!(matches!(world.bbr.state, State::Steady { .. }), "{:?}", world.bbr.state);
        world.run(SECOND);
        assert!(world.share(SECOND) > 0.9, "{}", world.share(SECOND));
    }

    #[test]
    fn more_and_less_rate_are_found_as_they_come() {
        let mut world = World::new();
        world.run(2 * SECOND);
        world.rate = RATE / 3;
        world.run(6 * SECOND);
        world.run(2 * SECOND);
        assert!(world.share(2 * SECOND) > 0.9);
        assert!(world.most < FULL, "{}", world.most);
        world.rate = RATE;
        world.run(3 * SECOND);
        world.run(2 * SECOND);
        assert!(world.share(2 * SECOND) > 0.9, "{}", world.share(2 * SECOND));
    }

    #[test]
    fn losses_by_chance_hold_nothing_up_and_many_do_for_a_round() {
        let mut world = World::new();
        world.run(SECOND);
        world.loses_one_in = 50;
        world.run(3 * SECOND);
        assert!(matches!(world.bbr.recovery, Recovery::None));
        assert!(world.share(3 * SECOND) > 0.9, "{}", world.share(3 * SECOND));
        let (under_way, before) = (world.bbr.in_flight, world.bbr.window);
        world.bbr.lost(under_way / 2, world.now);
        assert_eq!(world.bbr.window, world.bbr.in_flight);
        assert!(world.bbr.window <= before / 2 + PACKET);
        world.loses_one_in = 0;
        world.run(SECOND);
        assert!(matches!(world.bbr.recovery, Recovery::None));
        assert!(world.bbr.window >= FULL);
    }

    #[test]
    fn silence_of_the_sender_says_nothing_of_the_path() {
        let mut world = World::new();
        world.run(2 * SECOND);
        let rate = world.bbr.rate();
        // A packet each tenth of a second, for long.
        for _ in 0..200 {
            world.now += Duration::from_millis(100);
            let sent = world.now - ROUND_TRIP;
            world.bbr.sent(PACKET, sent);
            world.bbr.acked(PACKET, sent);
            world.bbr.update(Acked { in_flight: 0, is_app_limited: true }, world.now);
        }
        assert_eq!(world.bbr.rate(), rate);
        assert!(matches!(world.bbr.state, State::Steady { .. }), "{:?}", world.bbr.state);
    }

    #[test]
    fn a_window_has_room_for_four_packets_whatever_happens() {
        #[expect(clippy::disallowed_methods, reason = "the first instant")]
        let begin = Instant::now();
        let mut dice = 7_u64;
        let mut next = move |most: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (dice >> 33) % most
        };
        for _ in 0..50 {
            let (mut bbr, mut now) = (Bbr::new(begin, 1200), begin);
            for _ in 0..2000 {
                let (of_time, of_size) = (1 + next(34), 1 + next(40));
                now += Duration::from_nanos(next(1 << of_time));
                let size = next(1 << of_size);
                match next(5) {
                    0 => bbr.sent(size, now),
                    1 => bbr.acked(size, now - Duration::from_nanos(next(1 << 30))),
                    2 => bbr.lost(size, now),
                    3 => bbr.set_mtu(1200 + next(300) as u16),
                    _ => {
                        let is_app_limited = next(2) == 0;
                        bbr.update(Acked { in_flight: size, is_app_limited }, now);
                    }
                }
                assert!(bbr.window() >= 4 * 1200 && bbr.pace() >= 1200);
            }
        }
    }
}

//! What a link does to datagrams: loss, delay, jitter, reordering,
//! duplication, corruption, bandwidth and its queue.
//!
//! Invariant: the fate of the n-th datagram of a direction follows from the seed, the direction,
//! its kind and n alone, so a retransmission more or less does not change what happens to others.
//! Handshakes are sent with fresh randomness of their own: their lengths differ from run to run, so
//! they are charged as full datagrams.

use std::time::Duration;

use crate::random::Random;

/// How a link treats datagrams, each direction for itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// Share of datagrams that are lost, 0 to 1.
    pub loss: f64,
    /// Share of datagrams that arrive twice.
    pub duplication: f64,
    /// Share of datagrams of which one bit is flipped.
    pub corruption: f64,
    /// Share of datagrams that are held back by [`HELD_BACK`] delays.
    pub reordering: f64,
    /// The least time under way.
    pub delay: Duration,
    /// Up to so much more, evenly spread. More than the time between two datagrams reorders them.
    pub jitter: Duration,
    /// Bits per second; any number when not given.
    pub bandwidth_bps: Option<u64>,
    /// Bytes that may wait for the link; what comes when so many wait is lost.
    pub queue_bytes: u64,
    /// Larger datagrams are lost, and nobody is told.
    pub largest_datagram: usize,
    /// Whether handshake datagrams pass unharmed. The library that makes
    /// them spreads its retransmissions by randomness of its own, so only a
    /// run in which none is lost is the same each time.
    pub spares_handshakes: bool,
}

impl Conditions {
    /// A good local network: 200 µs, nothing lost.
    pub const LAN: Self = Self {
        loss: 0.0,
        duplication: 0.0,
        corruption: 0.0,
        reordering: 0.0,
        delay: Duration::from_micros(200),
        jitter: Duration::ZERO,
        bandwidth_bps: None,
        queue_bytes: 1 << 20,
        largest_datagram: usize::MAX,
        spares_handshakes: false,
    };

    /// A bad wide-area network: 20 to 40 ms, 3 % lost, some doubled, late or broken.
    pub const ROUGH: Self = Self {
        loss: 0.03,
        duplication: 0.02,
        corruption: 0.005,
        reordering: 0.02,
        delay: Duration::from_millis(20),
        jitter: Duration::from_millis(20),
        ..Self::LAN
    };
}

/// Which of the two sorts of datagram: their chances are drawn apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Handshake,
    Record,
}

/// What becomes of one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Lost,
    Overflowed,
    Carried {
        at: Duration,
        /// When a second copy arrives.
        again: Option<Duration>,
        /// Which bit is flipped; to be taken modulo the datagram's bits.
        flipped: Option<u64>,
    },
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Direction {
    pub(crate) conditions: Conditions,
    chance: Random,
    handshakes: u64,
    records: u64,
    busy_until: Duration,
}

impl Direction {
    pub(crate) fn new(conditions: Conditions, chance: Random) -> Self {
        Self { conditions, chance, handshakes: 0, records: 0, busy_until: Duration::ZERO }
    }

    /// Decides about a datagram of `len` bytes that is sent at `now`.
    pub(crate) fn carry(&mut self, sort: Sort, len: usize, now: Duration) -> Fate {
        let conditions = self.conditions;
        let (label, charged) = match sort {
            Sort::Handshake => (self.handshakes << 1, FULL_DATAGRAM),
            Sort::Record => (self.records << 1 | 1, len as u64),
        };
        match sort {
            Sort::Handshake => self.handshakes += 1,
            Sort::Record => self.records += 1,
        }
        let mut chance = self.chance.fork(label);
        let spared = sort == Sort::Handshake && conditions.spares_handshakes;
        let mut happens = |share: f64| chance.chance(share) && !spared;
        let lost = happens(conditions.loss);
        let doubled = happens(conditions.duplication);
        let broken = happens(conditions.corruption);
        let held_back = happens(conditions.reordering);
        if lost || len > conditions.largest_datagram {
            return Fate::Lost;
        }
        let Some(sent) = self.transmit(charged, now) else { return Fate::Overflowed };
        let mut arrival =
            || sent + conditions.delay + chance.time(Duration::ZERO, conditions.jitter);
        let (first, second) = (arrival(), arrival());
        let late = (conditions.delay + conditions.jitter) * HELD_BACK;
        Fate::Carried {
            at: if held_back { first + late } else { first },
            again: doubled.then_some(second),
            flipped: broken.then(|| chance.bits()),
        }
    }

    /// When the last bit has left; `None` when the queue has no room.
    fn transmit(&mut self, bytes: u64, now: Duration) -> Option<Duration> {
        let Some(bandwidth_bps) = self.conditions.bandwidth_bps else { return Some(now) };
        let takes =
            |bytes: u64| Duration::from_nanos(bytes * 8 * 1_000_000_000 / bandwidth_bps.max(1));
        let waiting = self.busy_until.saturating_sub(now);
        if waiting > takes(self.conditions.queue_bytes) {
            return None;
        }
        self.busy_until = self.busy_until.max(now) + takes(bytes);
        Some(self.busy_until)
    }
}

/// Delays by which a reordered datagram is late.
pub const HELD_BACK: u32 = 3;
const FULL_DATAGRAM: u64 = 1280;

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(conditions: Conditions, count: usize) -> Vec<Fate> {
        let mut direction = Direction::new(conditions, Random::new(5));
        (0..count).map(|_| direction.carry(Sort::Record, 125, Duration::ZERO)).collect()
    }

    #[test]
    fn shares_are_as_stated() {
        let conditions =
            Conditions { loss: 0.2, duplication: 0.3, corruption: 0.1, ..Conditions::LAN };
        let fates = arrivals(conditions, 10_000);
        let share = |is: fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count();
        assert!((1800..2200).contains(&share(|fate| *fate == Fate::Lost)));
        assert!(
            (2200..2600).contains(&share(|f| matches!(f, Fate::Carried { again: Some(_), .. })))
        );
        assert!(
            (700..900).contains(&share(|f| matches!(f, Fate::Carried { flipped: Some(_), .. })))
        );
    }

    #[test]
    fn bandwidth_delays_and_the_queue_overflows() {
        let conditions =
            Conditions { bandwidth_bps: Some(1_000_000), queue_bytes: 1250, ..Conditions::LAN };
        let fates = arrivals(conditions, 13);
        let at = |n: u64| Fate::Carried {
            at: Duration::from_millis(n) + Conditions::LAN.delay,
            again: None,
            flipped: None,
        };
        assert_eq!(fates[0], at(1));
        assert_eq!(fates[10], at(11), "one under way, ten waiting");
        assert_eq!(fates[11], Fate::Overflowed);
    }

    #[test]
    fn handshakes_do_not_change_the_chances_of_records() {
        let mut with = Direction::new(Conditions::ROUGH, Random::new(5));
        let mut without = Direction::new(Conditions::ROUGH, Random::new(5));
        for _ in 0..100 {
            with.carry(Sort::Handshake, 900, Duration::ZERO);
            assert_eq!(
                with.carry(Sort::Record, 100, Duration::ZERO),
                without.carry(Sort::Record, 100, Duration::ZERO)
            );
        }
    }

    #[test]
    fn spared_handshakes_arrive_whole() {
        let conditions =
            Conditions { loss: 1.0, corruption: 1.0, spares_handshakes: true, ..Conditions::LAN };
        let mut direction = Direction::new(conditions, Random::new(1));
        let fate = direction.carry(Sort::Handshake, 100, Duration::ZERO);
        assert!(matches!(fate, Fate::Carried { flipped: None, .. }));
        assert_eq!(direction.carry(Sort::Record, 100, Duration::ZERO), Fate::Lost);
    }
}

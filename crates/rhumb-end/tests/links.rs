//! Links with a rate, a queue and losses, in virtual time: what share of such a link a stream has,
//! how long its queue stays, and what is left to who shares it.

mod cubic;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rhumb_end::{ConnectionId, StreamId, WriteError};
use rhumb_wire::Name;

use crate::world::{ONE_WAY, Payload, World};
use cubic::Cubic;

/// A link from one end to the other: what is sent waits in a queue in front of it, if there is
/// room, and goes out at its rate. What comes back has the delay alone.
struct Link {
    round_trip: Duration,
    /// What fits into the queue.
    queue: Duration,
    /// Of 10,000 payloads.
    loses: u32,
    dice: u32,
    /// When all that waits has gone out.
    free_at: Instant,
}

/// What came of a stream.
#[derive(Debug)]
struct Outcome {
    /// Of the link's rate.
    share: f64,
    /// Of those that shared it with the stream.
    other_share: f64,
    /// How long packets waited in front of the link, in the mean.
    waited: Duration,
}

impl Link {
    fn new(round_trip_ms: u64, loses: u32, now: Instant) -> Self {
        let round_trip = Duration::from_millis(round_trip_ms);
        Self { round_trip, queue: round_trip, loses, dice: 1, free_at: now }
    }

    /// When a packet is at the end of the link, unless it is lost.
    fn carry(&mut self, bytes: usize, now: Instant) -> Option<Instant> {
        if self.waits(now) > self.queue {
            return None;
        }
        let took = bytes as u64 * 1_000_000_000 / BYTES_PER_S;
        self.free_at = self.free_at.max(now) + Duration::from_nanos(took);
        self.dice = self.dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((self.dice >> 8) % 10_000 >= self.loses).then_some(self.free_at + self.round_trip / 2)
    }

    fn waits(&self, now: Instant) -> Duration {
        self.free_at.saturating_duration_since(now)
    }
}

/// Has a stream fill a link for a time, after a beginning that does not count.
fn fill(link: Link, mut other: Option<Cubic>, beginning: Duration, time: Duration) -> Outcome {
    let (mut world, a, b) = World::pair();
    let clock = Rc::clone(&world.clock);
    let half = link.round_trip / 2;
    let link = Rc::new(RefCell::new(link));
    let waited = Rc::new(RefCell::new((Duration::ZERO, 0_u32)));
    let others = Rc::new(RefCell::new(0_u64));
    let (way, waits, other_took) = (Rc::clone(&link), Rc::clone(&waited), Rc::clone(&others));
    world.router = Box::new(move |payload: Payload| {
        let now = clock.get();
        if payload.from != a {
            return vec![(half - ONE_WAY, payload)];
        }
        let mut link = way.borrow_mut();
        if let Some(other) = &mut other {
            other.go_on(&mut link, now);
            *other_took.borrow_mut() = other.delivered;
        }
        let mut waits = waits.borrow_mut();
        *waits = (waits.0 + link.waits(now), waits.1 + 1);
        let at = link.carry(payload.body.len() + AROUND, now);
        at.map(|at| (at - now - ONE_WAY, payload)).into_iter().collect()
    });
    let id = world.connected(a, b).unwrap();
    let stream = world.open(a, id);
    bring(&mut world, (a, b), (id, stream), beginning);
    *waited.borrow_mut() = (Duration::ZERO, 0);
    let others_before = *others.borrow();
    let brought = bring(&mut world, (a, b), (id, stream), time);
    let whole = time.as_secs_f64() * BYTES_PER_S as f64;
    let (waited, count) = *waited.borrow();
    Outcome {
        share: brought as f64 / whole,
        other_share: (*others.borrow() - others_before) as f64 / whole,
        waited: waited / count.max(1),
    }
}

/// Writes as much as there is room for and reads what has arrived, for so long; how much that was.
fn bring(
    world: &mut World,
    (a, b): (Name, Name),
    (id, stream): (ConnectionId, StreamId),
    time: Duration,
) -> u64 {
    let (until, mut read) = (world.now.instant + time, 0);
    while world.now.instant < until {
        let now = world.now;
        while world.end(a).write(id, stream, &[0; 65_536], now).is_ok() {}
        if let Some(&(id, stream)) = world.opened(b).first() {
            loop {
                match world.end(b).read(id, stream, usize::MAX, now) {
                    Ok(Some(bytes)) => read += bytes.len() as u64,
                    Ok(None) | Err(WriteError::Blocked) => break,
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
        world.step();
    }
    read
}

#[expect(clippy::disallowed_methods, reason = "the first instant")]
fn link(round_trip_ms: u64, loses: u32) -> Link {
    Link::new(round_trip_ms, loses, Instant::now())
}

#[test]
fn a_link_is_filled_and_its_queue_is_not() {
    let outcome = fill(link(50, 0), None, 2 * SECOND, 5 * SECOND);
    assert!(outcome.share > 0.8, "{outcome:?}");
    assert!(outcome.waited < Duration::from_millis(10), "{outcome:?}");
}

#[test]
fn losses_by_chance_slow_nothing_down() {
    let outcome = fill(link(50, 100), None, 2 * SECOND, 5 * SECOND);
    assert!(outcome.share > 0.8, "{outcome:?}");
    assert!(outcome.waited < Duration::from_millis(10), "{outcome:?}");
}

#[test]
fn a_long_link_that_loses_is_filled_whatever_gets_lost_at_the_beginning() {
    for dice in [2, 7, 16, 23] {
        let outcome = fill(Link { dice, ..link(200, 100) }, None, 4 * SECOND, 4 * SECOND);
        assert!(outcome.share > 0.7, "{dice}: {outcome:?}");
        assert!(outcome.waited < Duration::from_millis(50), "{dice}: {outcome:?}");
    }
}

#[test]
fn who_shares_a_link_with_cubic_leaves_it_a_good_part_and_has_one() {
    let (link, beginning, time) = (link(50, 0), 5 * SECOND, 25 * SECOND);
    let cubic = Cubic::new(link.free_at);
    let outcome = fill(link, Some(cubic), beginning, time);
    assert!(outcome.share > 0.3, "{outcome:?}");
    assert!(outcome.other_share > 0.3, "{outcome:?}");
}

const SECOND: Duration = Duration::from_secs(1);
/// 20 Mbit/s: a tenth of a second of it is a few hundred packets.
const BYTES_PER_S: u64 = 2_500_000;
/// Around a payload's body: IP, UDP, a record, a PDU's header.
const AROUND: usize = 28 + 28 + 76;

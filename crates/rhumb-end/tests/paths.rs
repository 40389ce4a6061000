//! Paths that are narrow, shrink, lose, break, and ends that are gone.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use rhumb_end::{EndError, StreamError, WriteError};
use rhumb_wire::payload::PayloadKind;

use crate::world::{LONGEST, World, noise};

/// What every path carries: a datagram of 1232 bytes, less the seal, a PDU's header and a
/// payload's.
const NARROWEST: usize = 1232 - 28 - 76 - 4;

#[test]
fn the_narrowest_path_carries_a_handshake_in_halves() {
    let (mut world, a, b) = World::pair();
    world.longest = NARROWEST;
    let halves = Rc::new(Cell::new(0));
    let count = Rc::clone(&halves);
    world.router = Box::new(move |payload| {
        count.set(count.get() + u32::from(payload.header.kind == PayloadKind::Half));
        vec![(Duration::ZERO, payload)]
    });
    let id = world.connected(a, b).unwrap();
    let said = noise(200_000);
    assert_eq!(world.carry(a, b, id, &said), said);
    assert!(halves.get() > 100);
}

#[test]
fn a_path_that_shrinks_holds_nothing_up_for_long() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let said = noise(2_000_000);
    assert_eq!(world.carry(a, b, id, &said), said);
    let found = world.end(a).connections().next().unwrap().datagram_len;
    assert!(usize::from(found) > LONGEST - 50, "{found}");
    world.longest = NARROWEST;
    let began = world.now.instant;
    assert_eq!(world.carry(a, b, id, &said), said);
    assert!(world.now.instant - began < Duration::from_secs(10));
}

#[test]
fn a_path_that_loses_carries_all_the_same() {
    let (mut world, a, b) = World::pair();
    let mut count = 0u32;
    world.router = Box::new(move |payload| {
        count = count.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        if (count >> 16).is_multiple_of(10) { Vec::new() } else { vec![(Duration::ZERO, payload)] }
    });
    let id = world.connected(a, b).unwrap();
    let said = noise(300_000);
    assert_eq!(world.carry(a, b, id, &said), said);
}

#[test]
fn a_break_is_outlived_and_a_rejoin_ends_it_at_once() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let stream = world.open(a, id);
    world.run(Duration::from_millis(100));
    world.router = Box::new(|_| Vec::new());
    world.write(a, id, stream, b"into the void");
    world.run(Duration::from_secs(15));
    world.router = Box::new(crate::world::honest);
    let now = world.now;
    world.end(a).rejoined(now);
    world.run(Duration::from_millis(1500));
    let (theirs, same) = world.opened(b)[0];
    assert_eq!(world.outcome(b, theirs, same), Ok(Some(b"into the void".to_vec())));
}

#[test]
fn a_peer_that_is_silent_is_given_up_after_half_a_minute() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let stream = world.open(a, id);
    world.run(Duration::from_millis(100));
    world.leave(b);
    world.write(a, id, stream, b"anybody?");
    world.run(Duration::from_secs(25));
    assert_eq!(world.ended(a, id), None);
    world.run(Duration::from_secs(8));
    assert_eq!(world.ended(a, id), Some(EndError::Lost(b)));
    let lost = StreamError::Connection(EndError::Lost(b));
    assert_eq!(world.outcome(a, id, stream), Err(WriteError::Over(lost.clone())));
    let now = world.now;
    assert_eq!(world.end(a).write(id, stream, b"x", now), Err(WriteError::Over(lost)));
}

#[test]
fn nobody_there_is_known_within_ten_seconds_or_as_soon_as_the_network_says_so() {
    let mut world = World::new();
    let (a, nobody) = (world.join(), World::identity().name());
    let began = world.now.instant;
    assert_eq!(world.connected(a, nobody).unwrap_err(), EndError::NoAnswer(nobody));
    let took = world.now.instant - began;
    assert!((Duration::from_secs(9)..Duration::from_secs(11)).contains(&took), "{took:?}");
    let id = world.connect(a, nobody);
    let now = world.now;
    world.end(a).unreachable(nobody, now);
    world.step();
    assert_eq!(world.ended(a, id), Some(EndError::Unreachable(nobody)));
}

#[test]
fn a_peer_that_began_anew_says_that_it_knows_nothing() {
    let mut world = World::new();
    let identity = World::identity();
    let (a, b) = (world.join(), world.join_as(identity.clone()));
    world.offer(b, [a]);
    let id = world.connected(a, b).unwrap();
    let stream = world.open(a, id);
    world.run(Duration::from_millis(100));
    world.join_as(identity);
    world.offer(b, [a]);
    world.write(a, id, stream, &noise(500));
    world.run(Duration::from_secs(3));
    assert_eq!(world.ended(a, id), Some(EndError::Forgotten(b)));
    let again = world.connected(a, b).unwrap();
    assert_ne!(again, id);
}

//! Pings: answered when they come in, and told of when their
//! answers do, wherever on the way those are made.

use std::time::Duration;

use rhumb_node::core::{DropReason, Event};
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::{Action, Name, PduHeader};

use crate::world::{LATENCY, World};

const TO: Name = Name([7; 32]);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_ping_is_answered_with_its_own_tag_and_data() {
    let mut world = World::joined();
    let from = Name([5; 32]);
    let header = PduHeader { tag: 77, ..PduHeader::new(Action::Ping, from, world.core.name()) };
    world.router.send(header, b"some data", world.now);
    world.run_for(3 * LATENCY);
    let pong = world.router.seen(Action::Pong)[0].clone();
    assert_eq!(pong.data, b"some data");
    assert_eq!(pong.header.tag, 77);
    assert_eq!((pong.header.source, pong.header.destination), (world.core.name(), from));
    assert_eq!(pong.header.ttl, PduHeader::INITIAL_TTL);
}

#[test]
fn a_flood_of_pings_is_answered_in_part() {
    let mut world = World::joined();
    for tag in 0..1000 {
        let header = PduHeader { tag, ..PduHeader::new(Action::Ping, TO, world.core.name()) };
        world.router.send(header, b"", world.now);
    }
    world.run_for(3 * LATENCY);
    assert_eq!(world.router.seen(Action::Pong).len(), 64);
    assert_eq!(world.core.drops().of(DropReason::AnswerQueueFull), 1000 - 64);
}

#[test]
fn a_pong_tells_the_round_trip_time() {
    let mut world = World::joined();
    let tag = world.core.ping(TO, 64, 36, world.now).unwrap();
    world.run_for(LATENCY);
    let ping = world.router.seen(Action::Ping)[0].clone();
    assert_eq!((ping.data.len(), ping.header.tag, ping.header.ttl), (36, tag, 64));
    world.run_for(20 * LATENCY);
    let pong = PduHeader { tag, ..PduHeader::new(Action::Pong, TO, world.core.name()) };
    world.router.send(pong, &ping.data, world.now);
    // Twice: the second answers nothing any more.
    world.router.send(pong, &ping.data, world.now);
    world.run_for(2 * LATENCY);
    assert_eq!(world.events, [Event::Pong { tag, from: TO, rtt: 22 * LATENCY }]);
    assert_eq!(world.core.drops().of(DropReason::UnknownPong), 1);
}

#[test]
fn a_pong_of_another_name_or_tag_is_dropped() {
    let mut world = World::joined();
    let tag = world.core.ping(TO, 64, 36, world.now).unwrap();
    world.core.send(TO, 9, b"no ping", world.now).unwrap();
    world.run_for(LATENCY);
    let me = world.core.name();
    for (from, tag) in [(Name([8; 32]), tag), (TO, tag.wrapping_sub(1)), (TO, tag.wrapping_add(1))]
    {
        let pong = PduHeader { tag, ..PduHeader::new(Action::Pong, from, me) };
        world.router.send(pong, b"", world.now);
    }
    world.run_for(SECOND);
    assert!(world.events.is_empty(), "{:?}", world.events);
    assert_eq!(world.core.drops().of(DropReason::UnknownPong), 3);
}

#[test]
fn a_router_where_the_ttl_ends_names_itself() {
    let mut world = World::joined();
    let tag = world.core.ping(TO, 1, 0, world.now).unwrap();
    world.run_for(LATENCY);
    let ping = world.router.seen(Action::Ping)[0].clone();
    assert_eq!(ping.header.ttl, 1);
    assert!(ping.data.len() >= Nack::MAX_LEN, "room for the name");
    world.nack(&ping, Reason::TtlExceeded);
    world.run_for(2 * LATENCY);
    let reporter = Some(world.router.identity.name());
    let rtt = Some(2 * LATENCY);
    let reason = Reason::TtlExceeded;
    assert_eq!(
        world.events,
        [Event::PingNacked { tag, to: TO, reason, reporter, rtt, retried: false, evidence: None }]
    );
}

#[test]
fn a_ping_that_needs_a_route_first_is_sent_again() {
    let mut world = World::joined();
    let tag = world.core.ping(TO, 64, 36, world.now).unwrap();
    world.run_for(LATENCY);
    let ping = world.router.seen(Action::Ping)[0].clone();
    world.nack(&ping, Reason::NotYet(10));
    world.run_for(20 * LATENCY);
    assert_eq!(world.router.seen(Action::Ping).len(), 2);
    assert!(matches!(
        world.events[..],
        [Event::PingNacked { retried: true, reason: Reason::NotYet(10), .. }]
    ));
    let pong = PduHeader { tag, ..PduHeader::new(Action::Pong, TO, world.core.name()) };
    world.router.send(pong, &ping.data, world.now);
    world.run_for(2 * LATENCY);
    let rtt = world.take_event(|event| match event {
        Event::Pong { rtt, .. } => Some(*rtt),
        _ => None,
    });
    assert!(rtt.is_some_and(|rtt| rtt < 15 * LATENCY), "counted from the second sending: {rtt:?}");
}

#[test]
fn what_is_not_for_a_node_is_dropped_by_reason() {
    let mut world = World::joined();
    let me = world.core.name();
    let cases = [
        (PduHeader::new(Action::Data, TO, Name([1; 32])), &[1, 0, 0, 9][..]),
        (PduHeader::new(Action::Data, TO, me), &[9, 0, 0, 9]),
        (PduHeader::new(Action::Nack, TO, me), &[1]),
        (PduHeader::new(Action::RibRequest, TO, me), &[]),
        (PduHeader::new(Action::Advertise, TO, me), &[]),
    ];
    for (header, data) in cases {
        world.router.send(header, data, world.now);
    }
    world.run_for(2 * LATENCY);
    let drops = world.core.drops();
    assert_eq!(drops.of(DropReason::NotForUs), 1);
    assert_eq!(drops.of(DropReason::Malformed), 2);
    assert_eq!(drops.of(DropReason::NotForNodes), 2);
    assert!(world.events.is_empty() && world.arrived.is_empty());
    let good = PduHeader::new(Action::Data, TO, me);
    world.router.send(good, &[1, 0, 0, 9, b'x'], world.now);
    world.run_for(2 * LATENCY);
    assert_eq!(world.arrived, [(TO, 9, b"x".to_vec())]);
}

//! Packets as records: what routers may do to them, who takes them, and what has no room.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rhumb_end::{
    Admits, Carries, Config, ConnectionId, DatagramError, DropReason, Event, PACKETS, Packets,
};
use rhumb_wire::Name;
use rhumb_wire::payload::PayloadKind;

use crate::world::{PORTS, Payload, World, honest, noise};

/// Two ends that are connected, of which the second takes packets of the first.
fn pair() -> (World, Name, Name, ConnectionId) {
    let (mut world, a, b) = World::pair();
    world.end(b).offer(Carries::Datagrams, PACKETS, Admits::names([a]));
    let id = world.connected(a, b).unwrap();
    world.run(Duration::from_millis(500));
    (world, a, b, id)
}

fn block(bodies: &[Vec<u8>]) -> Packets {
    let mut packets = Packets::default();
    bodies.iter().for_each(|body| packets.push(&[body]));
    packets
}

fn send(world: &mut World, at: Name, id: ConnectionId, bodies: &[Vec<u8>]) {
    let (now, mut packets) = (world.now, block(bodies));
    assert_eq!(world.end(at).send_packets(id, &mut packets, now), Ok(true));
    assert!(packets.is_empty());
}

fn arrived(world: &World, at: Name) -> Vec<Vec<u8>> {
    let blocks = world.events[&at].iter().filter_map(|event| match event {
        Event::Packets { packets, as_member: false, .. } => Some(packets),
        _ => None,
    });
    blocks.flat_map(Packets::iter).map(<[u8]>::to_vec).collect()
}

fn is_record(payload: &Payload) -> bool {
    payload.header.kind == PayloadKind::Record
}

#[test]
fn packets_arrive_as_they_are_in_order_and_nothing_answers_them() {
    let (mut world, a, b, id) = pair();
    let longest = world.end(a).max_packet_len(id).unwrap();
    assert!(longest > world.end(a).max_datagram_body(id).unwrap());
    let bodies: Vec<Vec<u8>> = [longest, longest, 7, longest, longest - 1, 1, 2].map(noise).into();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sees = Rc::clone(&seen);
    world.router = Box::new(move |payload| {
        sees.borrow_mut().push(payload.clone());
        honest(payload)
    });
    send(&mut world, a, id, &bodies);
    world.run(Duration::from_millis(50));
    assert_eq!(arrived(&world, b), bodies);
    let seen = seen.borrow();
    assert_eq!(seen.iter().filter(|it| is_record(it)).count(), bodies.len());
    assert!(seen.iter().all(is_record), "nobody acknowledges them");
    let contains = |it: &Payload| it.body.windows(16).any(|part| *part == noise(16));
    assert!(!seen.iter().any(contains), "routers read nothing");
}

#[test]
fn a_router_that_alters_copies_or_redirects_changes_nothing() {
    let (mut world, a, b, id) = pair();
    let c = world.join();
    world.end(c).offer(Carries::Datagrams, PACKETS, Admits::Everybody);
    let mut count = 0;
    world.router = Box::new(move |payload| {
        if !is_record(&payload) {
            return honest(payload);
        }
        count += 1;
        let (mut altered, mut cut) = (payload.clone(), payload.clone());
        let at = count * 7 % altered.body.len();
        altered.body[at] ^= 1;
        cut.body.truncate(count);
        let (to_c, from_c) =
            (Payload { to: c, ..payload.clone() }, Payload { from: c, ..payload.clone() });
        let back = Payload { from: payload.to, to: payload.from, ..payload.clone() };
        let all = [altered, cut, to_c, from_c, back, payload.clone(), payload];
        all.map(|it| (Duration::ZERO, it)).into()
    });
    let bodies: Vec<Vec<u8>> = (50..90).map(noise).collect();
    send(&mut world, a, id, &bodies);
    world.run(Duration::from_millis(50));
    assert_eq!(arrived(&world, b), bodies);
    assert!(arrived(&world, a).is_empty() && arrived(&world, c).is_empty());
    assert_eq!(world.end(b).drops().of(DropReason::RepeatedRecord), 40);
    assert!(world.end(b).drops().of(DropReason::UnknownRecord) > 40);
    assert!(world.end(b).open_between(b, a).is_some());
}

#[test]
fn what_is_overtaken_arrives_and_what_is_lost_is_not_waited_for() {
    let (mut world, a, b, id) = pair();
    let mut count = 0;
    world.router = Box::new(move |payload| {
        count += u64::from(is_record(&payload));
        match count % 4 {
            0 => Vec::new(),
            late => vec![(Duration::from_millis(20 * (late % 2)), payload)],
        }
    });
    let bodies: Vec<Vec<u8>> = (1..=40).map(noise).collect();
    send(&mut world, a, id, &bodies);
    world.run(Duration::from_millis(100));
    let mut lens: Vec<usize> = arrived(&world, b).iter().map(Vec::len).collect();
    assert!(!lens.is_sorted(), "they are handed on as they come");
    lens.sort_unstable();
    assert_eq!(lens, (1..=40).filter(|it| it % 4 != 0).collect::<Vec<_>>());
}

#[test]
fn an_end_that_knows_no_records_is_sent_none_and_has_datagrams() {
    for old in [0, 1] {
        let mut world = World::new();
        let config = |is_old: bool| {
            let mut config = Config::new(1400);
            config.has_records = !is_old;
            config
        };
        let a = world.join_with(World::identity(), config(old == 0));
        let b = world.join_with(World::identity(), config(old == 1));
        world.offer(b, [a]);
        world.end(b).offer(Carries::Datagrams, PACKETS, Admits::names([a]));
        let id = world.connected(a, b).unwrap();
        let now = world.now;
        assert_eq!(world.end(a).max_packet_len(id), None);
        let mut packets = block(&[noise(10)]);
        let refused = world.end(a).send_packets(id, &mut packets, now);
        assert_eq!(refused, Err(DatagramError::NotTaken));
        assert_eq!(packets.len(), 1);
        world.end(a).send_datagram(id, PORTS, b"x", now).unwrap();
        world.run(Duration::from_millis(50));
        let is_datagram = |it: &Event| matches!(it, Event::Datagram { ports: PORTS, .. });
        assert!(world.events[&b].iter().any(is_datagram));
    }
}

#[test]
fn what_finds_no_room_stays_and_it_is_told_when_there_is_some() {
    let (mut world, a, b, id) = pair();
    let now = world.now;
    let all: Vec<Vec<u8>> = (0..100).map(|_| noise(1300)).collect();
    let mut blocks = 0;
    let mut packets = block(&all);
    while world.end(a).send_packets(id, &mut packets, now).unwrap() {
        blocks += 1;
        assert!(blocks < 10, "there is a bound");
        packets = block(&all);
    }
    assert_eq!(packets.len(), 100);
    assert!(!world.events[&a].iter().any(|it| matches!(it, Event::MaySend { .. })));
    world.run(Duration::from_millis(20));
    let told = |it: &&Event| matches!(it, Event::MaySend { .. });
    assert_eq!(world.events[&a].iter().filter(told).count(), 1);
    let now = world.now;
    assert_eq!(world.end(a).send_packets(id, &mut packets, now), Ok(true));
    world.run(Duration::from_millis(20));
    assert_eq!(arrived(&world, b).len(), (blocks + 1) * 100);
    // One block that is longer than all the room there is goes when nothing else waits.
    let all: Vec<Vec<u8>> = (0..1000).map(|_| noise(1300)).collect();
    send(&mut world, a, id, &all);
}

#[test]
fn a_path_that_became_narrower_loses_what_is_too_long_and_no_more() {
    let (mut world, a, b, id) = pair();
    let longest = world.end(a).max_packet_len(id).unwrap();
    world.longest = 1250;
    send(&mut world, a, id, &[noise(longest), noise(100), noise(longest), noise(99)]);
    world.run(Duration::from_millis(50));
    assert_eq!(arrived(&world, b), [noise(100), noise(99)]);
    assert_eq!(world.end(a).drops().of(DropReason::PacketTooBig), 2);
    let fits = world.end(a).max_packet_len(id).unwrap();
    assert!(fits < longest && fits <= 1250);
    send(&mut world, a, id, &[noise(fits)]);
    world.run(Duration::from_millis(50));
    assert_eq!(arrived(&world, b).len(), 3);
}

#[test]
fn packets_are_taken_of_whom_they_are_offered_to_alone_and_of_nobody_who_has_closed() {
    let (mut world, a, b, id) = pair();
    world.end(b).offer(Carries::Datagrams, PACKETS, Admits::names([]));
    send(&mut world, a, id, &[noise(10)]);
    world.run(Duration::from_millis(50));
    assert!(arrived(&world, b).is_empty());
    assert_eq!(world.end(b).drops().of(DropReason::DatagramNotOffered), 1);
    world.end(b).offer(Carries::Datagrams, PACKETS, Admits::Everybody);
    send(&mut world, a, id, &[noise(10)]);
    world.run(Duration::from_millis(50));
    assert_eq!(arrived(&world, b).len(), 1);
    let now = world.now;
    let mut packets = block(&[noise(10)]);
    world.end(a).close(id, 0, now);
    assert!(world.end(a).send_packets(id, &mut packets, now).is_err());
    assert_eq!(world.end(a).max_packet_len(id), None);
}

#[test]
fn packets_of_several_peers_in_turns_are_each_of_its_own() {
    let (mut world, a, b, of_a) = pair();
    let c = world.join();
    world.end(b).offer(Carries::Datagrams, PACKETS, Admits::names([a, c]));
    let of_c = world.connected(c, b).unwrap();
    world.run(Duration::from_millis(500));
    let turns = [(a, of_a), (c, of_c), (c, of_c), (a, of_a), (c, of_c)];
    for (len, (from, id)) in (1..).zip(turns) {
        send(&mut world, from, id, &[noise(len)]);
        world.run(Duration::from_millis(5));
    }
    let packets = world.events[&b].iter().filter_map(|event| match event {
        Event::Packets { id, packets, .. } => Some((*id, packets.bytes())),
        _ => None,
    });
    let packets: Vec<_> = packets.collect();
    let came = packets.into_iter().map(|(id, len)| (world.end(b).names(id).unwrap().1, len));
    assert_eq!(came.collect::<Vec<_>>(), [(a, 1), (c, 2), (c, 3), (a, 4), (c, 5)]);
}

#[test]
fn packets_and_streams_take_turns() {
    let (mut world, a, b, id) = pair();
    let all: Vec<Vec<u8>> = (0..300).map(|_| noise(1300)).collect();
    for _ in 0..3 {
        send(&mut world, a, id, &all[..100]);
        assert_eq!(world.carry(a, b, id, &noise(200_000)), noise(200_000));
    }
    world.run(Duration::from_millis(50));
    assert_eq!(arrived(&world, b).len(), 300);
}

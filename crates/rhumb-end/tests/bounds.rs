//! What strangers can make an end hold and do.

use std::collections::VecDeque;
use std::time::Duration;

use rhumb_end::{Admits, Carries, DropReason, EndError, Event};
use rhumb_trust::Standing;
use rhumb_wire::Name;
use rhumb_wire::payload::{PayloadHeader, PayloadKind};

use crate::world::{PORT, PORTS, Payload, World, honest, noise};

/// First packets of as many connections, each of its own: what a flood is made of.
fn first_packets(world: &mut World, to: Name, count: usize) -> Vec<Payload> {
    let attacker = world.join();
    let now = world.now;
    let mut body = Vec::new();
    let mut packets = Vec::new();
    for n in 0..count {
        let mut target = [0xEE; 32];
        target[..8].copy_from_slice(&(n as u64).to_be_bytes());
        let mut from = target;
        from[31] = 1;
        world.end(attacker).connect(attacker, Name(target), now).unwrap();
        while let Some(transmit) = world.end(attacker).poll_transmit(|_| 1400, &mut body, now) {
            let header = transmit.header;
            packets.push(Payload { from: Name(from), to, header, body: body.clone() });
        }
    }
    world.leave(attacker);
    packets
}

#[test]
fn a_flood_of_handshakes_is_bounded_and_who_was_chosen_gets_in() {
    let (mut world, a, b) = World::pair();
    world.end(b).offer(Carries::Streams, 80, Admits::Everybody);
    let flood = first_packets(&mut world, b, 1500);
    for packet in &flood {
        world.deliver(packet);
    }
    let drops = *world.end(b).drops();
    world.run(Duration::from_millis(10));
    let held = world.end(b).beginning();
    assert!(held <= 16, "{held} half-open, {drops:?}");
    // The flood goes on meanwhile.
    let mut packets = flood.into_iter().cycle();
    let id = world.connect(a, b);
    for _ in 0..200 {
        for _ in 0..10 {
            world.deliver(&packets.next().unwrap());
        }
        world.step();
    }
    assert!(world.end(a).is_open(id), "{:?}", world.ended(a, id));
    assert_eq!(world.carry(a, b, id, b"I was chosen"), b"I was chosen");
    // Half-open ones are given up.
    world.run(Duration::from_secs(12));
    assert_eq!(world.end(b).beginning(), 0);
}

#[test]
fn who_only_sends_gets_no_more_bytes_than_he_sent() {
    let (mut world, _, b) = World::pair();
    world.end(b).offer(Carries::Streams, 80, Admits::Everybody);
    let flood = first_packets(&mut world, b, 100);
    let (mut came, mut went) = (0, 0);
    let (now, mut body) = (world.now, Vec::new());
    for packet in &flood {
        came += packet.body.len();
        world.deliver(packet);
        while world.end(b).poll_transmit(|_| 1400, &mut body, now).is_some() {
            went += body.len();
        }
    }
    // RFC 9000 allows three times as many; past the first few there are only tokens.
    assert!(went < came, "{went} for {came}");
}

#[test]
fn a_stranger_gets_in_while_there_is_no_flood_and_comes_back_with_a_token_in_one() {
    let (mut world, _, b) = World::pair();
    world.end(b).offer(Carries::Streams, PORT, Admits::Everybody);
    let c = world.join();
    let id = world.connected(c, b).unwrap();
    assert_eq!(world.carry(c, b, id, b"hello"), b"hello");
    for packet in first_packets(&mut world, b, 40) {
        world.deliver(&packet);
    }
    let d = world.join();
    let id = world.connected(d, b).unwrap();
    assert_eq!(world.carry(d, b, id, b"hello"), b"hello");
}

#[test]
fn whom_the_rules_refuse_is_told_so_and_costs_nothing() {
    let (mut world, a, b) = World::pair();
    world.standing = Standing::Refused;
    let id = world.connect(a, b);
    world.run(Duration::from_secs(1));
    assert_eq!(world.ended(a, id), Some(EndError::Refused(b)));
    assert_eq!(world.end(b).beginning(), 0);
    assert!(world.end(b).drops().of(DropReason::SenderRefused) > 0);
}

#[test]
fn noise_is_dropped_without_an_answer_that_is_larger() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let stranger = Name([9; 32]);
    let now = world.now;
    let mut body = Vec::new();
    let (mut came, mut went) = (0, 0);
    for len in (0..1300).step_by(3) {
        for first in [0x00, 0x40, 0xC3, 0xE0, 0xFF] {
            let mut bytes = noise(len);
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            for kind in [PayloadKind::Connection, PayloadKind::Half, PayloadKind::Datagram] {
                came += bytes.len();
                let header = PayloadHeader { kind, port: 0 };
                let payload = Payload { from: stranger, to: b, header, body: bytes.clone() };
                world.deliver(&payload);
            }
        }
        while world.end(b).poll_transmit(|_| 1400, &mut body, now).is_some() {
            went += body.len();
        }
    }
    assert!(went <= came, "{went} for {came}");
    assert_eq!(world.carry(a, b, id, b"still here"), b"still here");
}

#[test]
fn streams_that_never_say_their_port_are_bounded_and_reach_nobody() {
    let (mut world, _, b) = World::pair();
    world.end(b).offer(Carries::Streams, PORT, Admits::Everybody);
    let c = world.join();
    let id = world.connected(c, b).unwrap();
    let now = world.now;
    let mut count = 0;
    while world.end(c).open(id, rhumb_end::Way::Out, PORT + 1, now).unwrap().is_ok() {
        count += 1;
        assert!(count <= 256, "a stranger's share");
    }
    world.run(Duration::from_secs(1));
    assert!(world.opened(b).is_empty());
    let refused = |event: &&Event| matches!(event, Event::Refused { port: Some(_), .. });
    assert!(world.events[&b].iter().filter(refused).count() >= 256);
    let mut world = world;
    world.router = Box::new(honest);
    assert_eq!(world.carry(c, b, id, b"fair use goes on"), b"fair use goes on");
}

#[test]
fn who_begins_and_never_ends_gives_way_to_who_does() {
    let (mut world, _, b) = World::pair();
    world.end(b).offer(Carries::Streams, PORT, Admits::Everybody);
    let slow: Vec<Name> = (0..70).map(|_| world.join()).collect();
    let of_slow = slow.clone();
    // They return the token, and that is all that they ever do.
    world.router = Box::new(move |payload| {
        let is_retry = payload.body.first().is_some_and(|first| first & 0xF0 == 0xF0);
        match of_slow.contains(&payload.to) && !is_retry {
            true => Vec::new(),
            false => honest(payload),
        }
    });
    for name in &slow {
        world.connect(*name, b);
        world.run(Duration::from_millis(20));
    }
    world.run(Duration::from_millis(200));
    assert_eq!(world.end(b).beginning(), 64, "as many as can be");
    let honest_one = world.join();
    let id = world.connected(honest_one, b).unwrap();
    assert_eq!(world.carry(honest_one, b, id, b"hello"), b"hello");
    // They try for as long as they may.
    world.run(Duration::from_secs(16));
    assert_eq!(world.end(b).beginning(), 0);
}

/// An end that takes a while for each payload, with a queue before it that is bounded, as a
/// socket's is. A flood comes in all the time; somebody else sends a file meanwhile.
/// How much of it has arrived after two seconds.
fn arrived_in_a_flood(is_told: bool) -> usize {
    let (mut world, a, b) = World::pair();
    let flooder = world.join();
    world.offer(b, [a, flooder]);
    let (id, of_flooder) = (world.connected(a, b).unwrap(), world.connected(flooder, b).unwrap());
    let (now, mut body) = (world.now, Vec::new());
    world.end(flooder).send_datagram(of_flooder, PORTS, b"again and again", now).unwrap();
    let sent = world.end(flooder).poll_transmit(|_| 1400, &mut body, now).unwrap();
    let flood = Payload { from: flooder, to: b, header: sent.header, body: body.clone() };
    let stream = world.open(a, id);
    let mut queue = VecDeque::new();
    let mut arrived = Vec::new();
    let mut busy_until = world.now.instant;
    for _ in 0..2000 {
        world.now.instant += Duration::from_millis(1);
        let now = world.now;
        queue.extend(std::iter::repeat_n(flood.clone(), 100));
        let _ = world.end(a).write(id, stream, &[7; 4096], now);
        while let Some(it) = world.end(a).poll_transmit(|_| 1400, &mut body, now) {
            queue.push_back(Payload { from: a, to: b, header: it.header, body: body.clone() });
        }
        queue.truncate(1000);
        if busy_until <= now.instant {
            let end = world.end(b);
            end.begin_batch(now);
            busy_until = now.instant;
            for payload in queue.drain(..) {
                let parts = (payload.header, &payload.body[..]);
                let handled = end.handle(payload.from, b, parts, Standing::Stranger, now);
                let took = match handled {
                    Ok(_) if payload.from == flooder => Duration::from_micros(250),
                    Ok(_) => Duration::from_micros(5),
                    Err(_) => Duration::from_micros(2),
                };
                if let (true, Ok(Some(id))) = (is_told, handled) {
                    end.charge(id, took);
                }
                busy_until += took;
            }
        }
        world.end(b).handle_timeout(now);
        world.end(a).handle_timeout(now);
        while let Some(it) = world.end(b).poll_transmit(|_| 1400, &mut body, now) {
            let answer = Payload { from: b, to: it.to, header: it.header, body: body.clone() };
            world.deliver(&answer);
        }
        let events = std::iter::from_fn(|| world.end(b).poll_event()).collect::<Vec<_>>();
        world.events.entry(b).or_default().extend(events);
        if let Some(&(id, stream)) = world.opened(b).first() {
            world.read_all(b, id, stream, &mut arrived);
        }
    }
    arrived.len()
}

#[test]
fn who_floods_a_connection_has_his_share_of_the_processor_and_others_theirs() {
    let all = 2000 * 4096;
    let without = arrived_in_a_flood(false);
    let with = arrived_in_a_flood(true);

    assert!(without < all / 10, "this is no flood: {without}");
    assert!(with > all * 9 / 10, "{with} of {all}, {without} without shares");
}

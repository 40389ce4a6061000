//! What routers on the way may try: to read, alter, repeat, reorder, copy and redirect.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rhumb_end::{DropReason, EndError, Event, ProofError};

use crate::world::{ONE_WAY, Payload, World, noise};

#[test]
fn an_honest_router_carries_what_two_names_say() {
    let (mut world, a, b) = World::pair();
    let id = world.connected(a, b).unwrap();
    let said = noise(300_000);
    assert_eq!(world.carry(a, b, id, &said), said);
    let there = world.events[&b].iter().any(
        |event| matches!(event, Event::Connected { local, peer, is_ours: false, .. } if (*local, *peer) == (b, a)),
    );
    assert!(there);
}

#[test]
fn a_router_that_keeps_everything_reads_nothing() {
    let (mut world, a, b) = World::pair();
    let kept = Rc::new(RefCell::new(Vec::new()));
    let copy = Rc::clone(&kept);
    world.router = Box::new(move |payload| {
        copy.borrow_mut().extend_from_slice(&payload.body);
        vec![(Duration::ZERO, payload)]
    });
    let id = world.connected(a, b).unwrap();
    let secret = b"the secret that two names share, and no router on the way";
    let said = secret.repeat(100);
    assert_eq!(world.carry(a, b, id, &said), said);
    let now = world.now;
    world.end(a).send_datagram(id, crate::world::PORTS, secret, now).unwrap();
    world.run(ONE_WAY * 4);
    let datagram = world.events[&b]
        .iter()
        .any(|event| matches!(event, Event::Datagram { body, .. } if body[..] == secret[..]));
    assert!(datagram);
    let kept = kept.borrow();
    assert!(kept.len() > said.len());
    assert!(!kept.windows(16).any(|window| secret.windows(16).any(|part| part == window)));
}

#[test]
fn what_is_altered_is_dropped_and_sent_again() {
    let (mut world, a, b) = World::pair();
    let mut count = 0;
    world.router = Box::new(move |mut payload| {
        count += 1;
        if count % 5 == 0 {
            let at = count * 7919 % payload.body.len();
            payload.body[at] ^= 1 << (count % 8);
        }
        vec![(Duration::ZERO, payload)]
    });
    let id = world.connected(a, b).unwrap();
    let said = noise(300_000);
    assert_eq!(world.carry(a, b, id, &said), said);
    assert_eq!(world.carry(a, b, id, b"and again"), b"and again");
}

#[test]
fn what_is_repeated_and_reordered_arrives_once_and_in_order() {
    let (mut world, a, b) = World::pair();
    let mut count = 0u32;
    world.router = Box::new(move |payload| {
        count += 1;
        let late = Duration::from_millis(u64::from(count * 37 % 11));
        let again = Duration::from_millis(u64::from(count * 53 % 400));
        vec![(late, payload.clone()), (again, payload)]
    });
    let id = world.connected(a, b).unwrap();
    let said = noise(300_000);
    assert_eq!(world.carry(a, b, id, &said), said);
    let now = world.now;
    for n in 0..20u8 {
        world.end(a).send_datagram(id, crate::world::PORTS, &[n], now).unwrap();
    }
    world.run(Duration::from_secs(2));
    let mut datagrams: Vec<u8> = world.events[&b]
        .iter()
        .filter_map(|event| match event {
            Event::Datagram { body, .. } => Some(body[0]),
            _ => None,
        })
        .collect();
    datagrams.sort_unstable();
    assert_eq!(datagrams, (0..20).collect::<Vec<u8>>(), "each once");
    assert_eq!(world.opened(b).len(), 1, "a stream is not opened by a copy");
    let connected = |event: &&Event| matches!(event, Event::Connected { .. });
    assert_eq!(world.events[&b].iter().filter(connected).count(), 1);
}

#[test]
fn a_copy_under_another_name_touches_nothing() {
    let (mut world, a, b) = World::pair();
    let m = world.join();
    world.offer(b, [a, m]);
    world.router = Box::new(move |payload| {
        let copies = match payload.to {
            // Whatever goes to B comes from M, too, and whatever goes to A as well.
            to if to == b || to == a => vec![Payload { from: m, ..payload.clone() }],
            _ => Vec::new(),
        };
        let mut carried: Vec<_> = copies.into_iter().map(|it| (Duration::ZERO, it)).collect();
        carried.push((Duration::from_micros(10), payload));
        carried
    });
    // The copies are there first: of the first packet, M's may begin a connection that M cannot go
    // on with, and A's own come again.
    match world.connected(a, b) {
        Ok(id) => assert_eq!(world.carry(a, b, id, b"hello"), b"hello"),
        // It can hinder, as dropping would.
        Err(error) => assert!(matches!(error, EndError::NoAnswer(_)), "{error}"),
    }
    assert!(world.end(b).drops().of(DropReason::OtherNames) > 0);
    let as_m = |event: &Event| matches!(event, Event::Connected { peer, .. } if *peer == m);
    assert!(!world.events[&b].iter().any(as_m), "M is nobody");
    assert!(!world.events[&m].iter().any(|event| matches!(event, Event::Connected { .. })));
}

#[test]
fn copies_of_an_open_connection_touch_nothing() {
    let (mut world, a, b) = World::pair();
    let m = world.join();
    world.offer(b, [a, m]);
    let id = world.connected(a, b).unwrap();
    world.router = Box::new(move |payload| {
        let copy = Payload { from: m, ..payload.clone() };
        vec![(Duration::ZERO, copy), (Duration::from_micros(10), payload)]
    });
    let said = noise(100_000);
    assert_eq!(world.carry(a, b, id, &said), said);
    assert!(world.end(b).drops().of(DropReason::OtherNames) > 50);
    assert_eq!(world.end(b).connections().count(), 1);
}

#[test]
fn who_redirects_is_caught_before_anything_is_said() {
    let (mut world, a, b) = World::pair();
    let m = world.join();
    world.offer(m, [a]);
    world.router = Box::new(move |payload| {
        let payload = match (payload.from, payload.to) {
            (_, to) if to == b => Payload { to: m, ..payload },
            (from, _) if from == m => Payload { from: b, ..payload },
            _ => payload,
        };
        vec![(Duration::ZERO, payload)]
    });
    let error = world.connected(a, b).unwrap_err();
    let wrong = ProofError::WrongName { expected: b, found: m };
    assert_eq!(error, EndError::NotProven(wrong), "{error}");
    world.run(Duration::from_secs(1));
    let connected = |event: &Event| matches!(event, Event::Connected { .. });
    assert!(!world.events[&m].iter().any(connected), "A proved nothing to M");
}

#[test]
fn who_speaks_for_another_source_is_caught() {
    // M, whose router lies, calls itself A.
    let (mut world, a, b) = World::pair();
    let m = world.join();
    world.router = Box::new(move |payload| {
        let payload = match (payload.from, payload.to) {
            (from, _) if from == m => Payload { from: a, ..payload },
            (_, to) if to == a => Payload { to: m, ..payload },
            _ => payload,
        };
        vec![(Duration::ZERO, payload)]
    });
    let id = world.connect(m, b);
    world.run(Duration::from_secs(12));
    assert!(world.ended(m, id).is_some());
    let connected = |event: &Event| matches!(event, Event::Connected { .. });
    assert!(!world.events[&b].iter().any(connected));
    assert!(world.opened(b).is_empty());
}

#[test]
fn two_ends_that_are_redirected_to_each_other_by_false_names_do_not_meet() {
    // A asks for B and C for D; the router puts A and D together.
    let mut world = World::new();
    let [a, b, c, d] = [(); 4].map(|()| world.join());
    world.offer(d, [c, a]);
    world.offer(b, [a]);
    world.router = Box::new(move |payload| {
        let payload = match (payload.from, payload.to) {
            (from, to) if from == a && to == b => Payload { from: c, to: d, ..payload },
            (from, to) if from == d && to == c => Payload { from: b, to: a, ..payload },
            _ => payload,
        };
        vec![(Duration::ZERO, payload)]
    });
    let error = world.connected(a, b).unwrap_err();
    assert_eq!(error, EndError::NotProven(ProofError::WrongName { expected: b, found: d }));
    assert!(world.opened(d).is_empty());
}

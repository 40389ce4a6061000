//! Data move by name over one router and over many, both
//! ways, and every hop had the right to carry them.

use std::time::Duration;

use rhumb_io::memory::Conditions;
use rhumb_node::core::Event;
use rhumb_switch::DropReason;
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::Reason;
use world::World;

use crate::world;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn two_nodes_of_one_router() {
    let mut world = World::new();
    world.line(1);
    let (a, b) = (world.node(0), world.node(0));
    world.send(a, b, b"hello");
    world.run(SECOND);
    assert_eq!(world.nodes[b].received, [(world.name(a), b"hello".to_vec())]);
}

#[test]
fn a_line_of_any_length_carries_both_ways() {
    for len in [2, 3, 5, 7] {
        let mut world = World::new();
        world.line(len);
        let (a, b) = (world.node(0), world.node(len - 1));
        world.send(a, b, b"there");
        world.run(SECOND);
        assert_eq!(world.nodes[b].received, [(world.name(a), b"there".to_vec())], "{len} routers");
        world.send(b, a, b"and back");
        world.run(SECOND);
        assert_eq!(world.nodes[a].received, [(world.name(b), b"and back".to_vec())]);
        for router in 0..len {
            assert_eq!(world.dropped(router, DropReason::BadCertificate), 0);
            assert_eq!(world.dropped(router, DropReason::MalformedPdu), 0);
        }
    }
}

#[test]
fn in_steady_state_no_certificate_travels_and_nothing_is_verified() {
    let mut world = World::new();
    world.line(3);
    let (a, b) = (world.node(0), world.node(2));
    for _ in 0..3 {
        world.send(a, b, &[1; 100]);
        world.run(SECOND);
    }
    let before: Vec<_> = (0..3).map(|r| world.counters(r).chains_accepted).collect();
    let capture = world.capture(0, 1);
    for _ in 0..50 {
        world.send(a, b, &[2; 100]);
        world.settle();
    }
    assert_eq!(world.nodes[b].received.len(), 53);
    let after: Vec<_> = (0..3).map(|r| world.counters(r).chains_accepted).collect();
    assert_eq!(before, after);
    // 12 clear bytes, 16 of labelled header, 4 of payload header, the body, 16 of tag.
    let lens: Vec<_> = capture.datagrams().iter().map(|d| d.bytes.len()).collect();
    assert_eq!(lens, [12 + 16 + 4 + 100 + 16; 50]);
}

#[test]
fn the_largest_payload_survives_its_chain() {
    let mut world = World::new();
    world.line(3);
    let (a, b) = (world.node(0), world.node(2));
    let max = world.nodes[a].core.max_body_len(world.name(b), world.now);
    world.send(a, b, &vec![7; max]);
    world.run(SECOND);
    assert_eq!(world.nodes[b].received.len(), 1);
    assert_eq!(world.nodes[b].received[0].1.len(), max);
    assert!(world.dropped(0, DropReason::ChainAhead) > 0, "the chain did not fit beside the data");
    assert_eq!(world.nodes[a].core.max_body_len(world.name(b), world.now), max);
}

#[test]
fn a_wiretap_sees_no_name_and_no_payload() {
    let mut world = World::new();
    world.line(3);
    let captures = [world.capture(0, 1), world.capture(1, 2)];
    let (a, b) = (world.node(0), world.node(2));
    let body = b"attack at dawn, by the eastern gate";
    for _ in 0..20 {
        world.send(a, b, body);
        world.settle();
    }
    world.run(SECOND);
    assert_eq!(world.nodes[b].received.len(), 20);
    let routers = world.routers.iter().map(|r| r.switch.name());
    let secrets: Vec<Vec<u8>> = [world.name(a), world.name(b)]
        .into_iter()
        .chain(routers)
        .map(|name| name.0.to_vec())
        .chain([body.to_vec()])
        .collect();
    for capture in captures {
        let seen = capture.datagrams();
        assert!(seen.len() >= 20);
        for datagram in seen {
            for secret in &secrets {
                // Eight bytes in a row by chance: one in 10^19 per place.
                let found = secret
                    .windows(8)
                    .any(|part| datagram.bytes.windows(8).any(|window| window == part));
                assert!(!found, "a wiretap reads {secret:02x?}");
            }
        }
    }
}

#[test]
fn a_lossy_network_loses_little_that_is_resent() {
    let conditions =
        Conditions { loss: 0.05, duplication: 0.05, reordering: 0.1, ..Conditions::default() };
    let mut world = World::with_conditions(7, conditions);
    world.line(3);
    let (a, b) = (
        world.node_of(world.identity(Role::Node), 0),
        world.node_of(world.identity(Role::Node), 2),
    );
    world.run(20 * SECOND);
    assert!(world.nodes[a].core.is_joined() && world.nodes[b].core.is_joined());
    for _ in 0..200 {
        world.send(a, b, b"again");
        world.run(Duration::from_millis(20));
    }
    // Four hops, each losing 5 %: four in five arrive, and nothing
    // twice, because the replay window drops copies.
    let arrived = world.nodes[b].received.len();
    assert!((120..=200).contains(&arrived), "{arrived} of 200 arrived");
}

#[test]
fn an_unknown_name_is_unreachable() {
    let mut world = World::new();
    world.line(3);
    let a = world.node(0);
    let nobody = rhumb_wire::Name([0x77; 32]);
    world.nodes[a].core.send(nobody, 1, b"anybody there?", world.now).unwrap();
    world.run(10 * SECOND);
    let failed = world.nodes[a]
        .events
        .iter()
        .any(|event| matches!(event, Event::SendFailed { to, .. } if *to == nobody));
    assert!(failed, "{:?}", world.nodes[a].events);
    assert!(world.dropped(0, DropReason::Unreachable) > 0);
    assert!(world.counters(0).rib_requests < 40, "absences are cached");
}

#[test]
fn a_trace_names_every_router_on_the_path_and_its_right() {
    let mut world = World::new();
    world.line(3);
    let (a, b) = (world.node(0), world.node(2));
    world.send(a, b, b"warm up");
    world.run(SECOND);
    world.nodes[a].events.clear();
    let to = world.name(b);
    // The first leaves no room for evidence.
    for (ttl, len) in [(1, 64), (1, 1100), (2, 1100), (3, 1100), (4, 1100)] {
        world.nodes[a].core.ping(to, ttl, len, world.now).unwrap();
        world.run(Duration::from_millis(100));
    }
    let answers: Vec<_> = world.nodes[a]
        .events
        .iter()
        .filter_map(|event| match event {
            Event::PingNacked { reason: Reason::TtlExceeded, reporter, evidence, .. } => {
                Some((reporter.unwrap(), evidence.clone()))
            }
            _ => None,
        })
        .collect();
    let routers: Vec<_> = world.routers.iter().map(|r| r.switch.name()).collect();
    let reporters: Vec<_> = answers.iter().map(|(reporter, _)| *reporter).collect();
    assert_eq!(reporters, [&routers[..1], &routers[..]].concat());
    assert_eq!(answers[0].1, None);
    // Each certificate is by the one before, and verifies with the metadata that one showed.
    let mut issuer = (world.name(a), None);
    for (reporter, evidence) in &answers[1..] {
        let evidence = evidence.as_deref().expect("room for evidence");
        assert_eq!(rhumb_trust::name_of(&evidence.metadata), *reporter);
        assert_eq!(evidence.certificate.issuer, issuer.0);
        assert_eq!(evidence.certificate.statement.hands_on_to(), Some(*reporter));
        if let Some(metadata) = &issuer.1 {
            let now_s = world.now.unix_s();
            assert!(rhumb_trust::verify_statement(&evidence.certificate, metadata, now_s).is_ok());
        }
        issuer = (*reporter, Some(evidence.metadata.clone()));
    }
    let ponged = |e: &Event| matches!(e, Event::Pong { from, .. } if *from == to);
    assert!(world.nodes[a].events.iter().any(ponged));
}

#[test]
fn routers_answer_pings_by_their_own_names_from_anywhere() {
    let mut world = World::new();
    world.line(3);
    let elsewhere = world.identity(Role::Router);
    let address = world::router_address(9);
    world.router(elsewhere, address, None, Some(address));
    world.run(2 * SECOND);
    let a = world.node(0);
    for router in 0..4 {
        let to = world.routers[router].switch.name();
        world.nodes[a].events.clear();
        world.nodes[a].core.ping(to, 64, 64, world.now).unwrap();
        world.run(2 * SECOND);
        let ponged = |e: &Event| matches!(e, Event::Pong { from, .. } if *from == to);
        assert!(world.nodes[a].events.iter().any(ponged), "router {router}");
    }
    for router in 0..4 {
        assert_eq!(world.counters(router).chains_refused, 0, "router {router}");
    }
}

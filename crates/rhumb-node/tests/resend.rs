//! What a NACK says is done: data go out again, or are
//! given up; and only for NACKs that can be true.

use std::time::Duration;

use rhumb_node::SendError;
use rhumb_node::core::{DropReason, Event, SendFailure};
use rhumb_wire::nack::Reason;
use rhumb_wire::payload::{PayloadHeader, PayloadKind};
use rhumb_wire::{Action, Batch, Name, PduHeader};

use crate::world::{LATENCY, OnAdvertise, Seen, World};

const TO: Name = Name([7; 32]);
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A world in which one datagram has just reached the router.
#[expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their functions, and this is a helper"
)]
fn with_one_sent() -> (World, Seen) {
    let mut world = World::joined();
    world.core.send(TO, 9, b"body", world.now).unwrap();
    world.run_for(LATENCY);
    let seen = world.router.seen(Action::Data);
    assert_eq!(seen.len(), 1);
    let seen = seen[0].clone();
    (world, seen)
}

fn data_seen(world: &World) -> usize {
    world.router.seen(Action::Data).len()
}

fn failure(world: &mut World) -> Option<SendFailure> {
    world.take_event(|event| match event {
        Event::SendFailed { to: TO, reason, .. } => Some(*reason),
        _ => None,
    })
}

#[test]
fn data_carry_names_port_and_body() {
    let (world, seen) = with_one_sent();
    assert_eq!((seen.header.source, seen.header.destination), (world.core.name(), TO));
    assert_eq!(seen.header.ttl, PduHeader::INITIAL_TTL);
    let (header, body) = PayloadHeader::parse(&seen.data).unwrap();
    assert_eq!(header, PayloadHeader { kind: PayloadKind::Datagram, port: 9 });
    assert_eq!(body, b"body");
    assert!(seen.certificates.is_empty(), "the router knows the right to send already");
}

#[test]
fn data_wait_until_the_name_is_accepted() {
    let mut world = World::new();
    world.router.on_advertise = OnAdvertise::Silence;
    world.core.send(TO, 9, b"early", world.now).unwrap();
    world.run_for(300 * MS);
    assert_eq!(data_seen(&world), 0);
    world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: false };
    world.run_for(SECOND);
    assert_eq!(data_seen(&world), 1);
}

#[test]
fn silence_is_success() {
    let (mut world, _) = with_one_sent();
    world.run_for(100 * SECOND);
    assert_eq!(data_seen(&world), 1);
    assert!(world.events.is_empty());
}

#[test]
fn not_yet_and_overloaded_are_waited_for() {
    for reason in [Reason::NotYet(50), Reason::Overloaded(50), Reason::Unreachable(50)] {
        let (mut world, seen) = with_one_sent();
        world.nack(&seen, reason);
        world.run_for(50 * MS);
        assert_eq!(data_seen(&world), 1, "too early: {reason}");
        // A quarter more by chance, and there and back.
        world.run_for(13 * MS + 2 * LATENCY);
        let again = world.router.seen(Action::Data);
        assert_eq!(again.len(), 2, "too late: {reason}");
        assert_eq!((again[1].header, &again[1].data), (seen.header, &seen.data));
        assert_eq!((world.core.traffic().resent, world.core.traffic().nacks), (1, 1));
        world.run_for(10 * SECOND);
        assert!(world.events.is_empty());
    }
}

#[test]
fn what_stays_unreachable_is_given_up() {
    let (mut world, seen) = with_one_sent();
    let began = world.now;
    let mut seen_before = 0;
    while data_seen(&world) > seen_before {
        seen_before = data_seen(&world);
        world.nack(&seen, Reason::Unreachable(400));
        world.run_for(520 * MS);
    }
    assert!((9..=12).contains(&seen_before), "{seen_before}");
    assert!(world.now.instant - began.instant < 6 * SECOND);
    assert_eq!(failure(&mut world), Some(SendFailure::Nacked(Reason::Unreachable(400))));
    assert_eq!(world.core.traffic().given_up, 1);
}

#[test]
fn what_will_be_unreachable_for_too_long_is_given_up_at_once() {
    let (mut world, seen) = with_one_sent();
    world.nack(&seen, Reason::Unreachable(10_000));
    world.run_for(2 * LATENCY);
    assert_eq!(failure(&mut world), Some(SendFailure::Nacked(Reason::Unreachable(10_000))));
}

#[test]
fn a_missing_certificate_is_presented_before_the_data_come_again() {
    for reason in [Reason::BadCertificate, Reason::NotAuthorised] {
        let (mut world, seen) = with_one_sent();
        world.nack(&seen, reason);
        world.run_for(SECOND);
        let actions: Vec<_> = world.router.seen.iter().map(|it| it.header.action).collect();
        assert_eq!(actions, [Action::Data, Action::Advertise, Action::Data]);
        assert!(matches!(world.events[..], [Event::Renewed { .. }]));
    }
}

#[test]
fn many_missing_certificates_are_presented_once() {
    let mut world = World::joined();
    for _ in 0..50 {
        world.core.send(TO, 9, b"body", world.now).unwrap();
    }
    world.run_for(LATENCY);
    world.router.on_advertise = OnAdvertise::Silence;
    for seen in world.router.seen(Action::Data) {
        world.nack(&seen, Reason::NotAuthorised);
        world.run_for(LATENCY);
    }
    world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: true };
    world.run_for(SECOND);
    let advertised = world.router.seen(Action::Advertise);
    assert_eq!(advertised.len(), 2, "one that was lost, and again half a second later");
    assert_eq!(advertised[0].header.tag, advertised[1].header.tag);
    assert_eq!(data_seen(&world), 100);
}

#[test]
fn too_big_teaches_the_longest_body() {
    let mut world = World::joined();
    let most = world.core.max_body_len(TO, world.now);
    assert_eq!(most, 1452 - 28 - 76 - 4);
    let too_long = vec![0; most + 1];
    let refused = world.core.send(TO, 9, &too_long, world.now);
    assert_eq!(refused, Err(SendError::TooBig { len: most + 1, max: most }));
    world.core.send(TO, 9, &too_long[..most], world.now).unwrap();
    world.run_for(LATENCY);
    let seen = world.router.seen(Action::Data)[0].clone();
    world.nack(&seen, Reason::TooBig(1000));
    world.run_for(2 * LATENCY);
    assert_eq!(failure(&mut world), Some(SendFailure::Nacked(Reason::TooBig(1000))));
    assert_eq!(world.core.max_body_len(TO, world.now), 996);
    assert_eq!(world.core.max_body_len(Name([8; 32]), world.now), most);
    assert!(world.core.send(TO, 9, &too_long[..996], world.now).is_ok());
    assert!(world.core.send(TO, 9, &too_long[..997], world.now).is_err());
}

#[test]
fn too_many_hops_are_told() {
    let (mut world, seen) = with_one_sent();
    world.nack(&seen, Reason::TtlExceeded);
    world.run_for(2 * LATENCY);
    assert_eq!(failure(&mut world), Some(SendFailure::Nacked(Reason::TtlExceeded)));
}

#[test]
fn forged_nacks_change_nothing() {
    let (mut world, seen) = with_one_sent();
    let mut other_tag = seen.clone();
    other_tag.header.tag = seen.header.tag.wrapping_add(1);
    let mut other_destination = seen.clone();
    other_destination.header.destination = Name([8; 32]);
    let mut other_source = seen.clone();
    other_source.header.source = Name([9; 32]);
    for forged in [&other_tag, &other_destination, &other_source] {
        for reason in [Reason::NotYet(1), Reason::TooBig(100), Reason::Unreachable(60_000)] {
            world.nack(forged, reason);
        }
    }
    world.run_for(SECOND);
    assert_eq!(data_seen(&world), 1);
    assert!(world.events.is_empty());
    assert_eq!(world.core.drops().of(DropReason::UnknownNack), 6);
    assert_eq!(world.core.drops().of(DropReason::NotForUs), 3);
    assert_eq!(world.core.max_body_len(TO, world.now), 1344);
    assert_eq!(world.core.traffic().nacks, 0);
}

#[test]
fn a_nack_that_comes_too_late_changes_nothing() {
    let (mut world, seen) = with_one_sent();
    world.run_for(4 * SECOND);
    world.nack(&seen, Reason::NotYet(1));
    world.run_for(SECOND);
    assert_eq!(data_seen(&world), 1);
    assert_eq!(world.core.drops().of(DropReason::UnknownNack), 1);
}

#[test]
fn what_waits_is_bounded_in_number_and_in_bytes() {
    for (body_len, most) in [(1, 1024), (8000, (2 << 20) / (8000 + 80))] {
        let mut world = World::with(|config| config.max_datagram_len = 9000);
        world.cut = true;
        let body = vec![0; body_len];
        let taken = (0..5000).take_while(|_| world.core.send(TO, 9, &body, world.now).is_ok());
        assert_eq!(taken.count(), most);
        assert_eq!(world.core.send(TO, 9, &body, world.now), Err(SendError::NoRoom));
        assert!(!world.core.has_room(body_len));
    }
}

#[test]
fn copies_of_what_was_sent_make_room() {
    let mut world = World::joined();
    for _ in 0..5000 {
        world.core.send(TO, 9, &[0; 1000], world.now).unwrap();
        world.carry();
    }
    world.run_for(LATENCY);
    assert_eq!(data_seen(&world), 5000);
}

#[test]
fn what_finds_no_router_is_given_up_in_time() {
    let mut world = World::new();
    world.cut = true;
    world.core.send(TO, 9, b"body", world.now).unwrap();
    world.run_for(5 * SECOND - MS);
    assert_eq!(failure(&mut world), None);
    world.run_for(2 * MS);
    assert_eq!(failure(&mut world), Some(SendFailure::NotJoined));
}

#[test]
fn data_without_a_copy_leave_at_once_and_their_nacks_are_told() {
    let mut world = World::joined();
    let mut out = Batch::new();
    world.core.send_unkept(TO, b"payload", &mut out, world.now).unwrap();
    assert_eq!(out.len(), 1);
    world.put_on_wire(&out);
    world.run_for(LATENCY);
    let seen = world.router.seen(Action::Data)[0].clone();
    assert_eq!(seen.data, b"payload");
    let mut forged = seen.clone();
    forged.header.tag = seen.header.tag.wrapping_sub(1);
    world.nack(&forged, Reason::NotYet(1));
    world.nack(&seen, Reason::NotYet(7));
    world.nack(&seen, Reason::TooBig(900));
    world.run_for(SECOND);
    let told = |reason| Event::Nacked { to: TO, reason };
    assert_eq!(world.events, [told(Reason::NotYet(7)), told(Reason::TooBig(900))]);
    assert_eq!(data_seen(&world), 1, "nothing is sent again here");
    assert_eq!(world.core.max_body_len(TO, world.now), 896);
}

#[test]
fn data_without_a_copy_need_a_router() {
    let mut world = World::new();
    let mut out = Batch::new();
    let refused = world.core.send_unkept(TO, b"payload", &mut out, world.now);
    assert_eq!(refused, Err(SendError::NotJoined));
    assert!(out.is_empty());
}

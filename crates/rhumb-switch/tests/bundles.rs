//! Small PDUs that leave together share datagrams, and are each what they are alone: their order,
//! their next hops, their NACKs, and whatever is wrong with one.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use rhumb_switch::DropReason;
use rhumb_trust::Identity;
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Name, PduHeader, bundle};

use crate::world::{Stranger, World};

const SECOND: Duration = Duration::from_secs(1);
/// The first half byte of a bundle's datagram.
const BUNDLE: u8 = 0xE0;

/// Has a node send numbered messages in one go, to these in turns; returns how many to each.
fn send_in_one_go(world: &mut World, from: usize, to: &[usize]) -> usize {
    let rounds = 30;
    for number in 0..rounds {
        for to in to {
            let (now, to) = (world.now, world.name(*to));
            world.nodes[from].core.send(to, 7, &[number; 40], now).expect("there is room");
        }
    }
    world.settle();
    usize::from(rounds)
}

fn numbers_at(world: &World, node: usize, last: usize) -> Vec<u8> {
    let received = &world.nodes[node].received;
    received[received.len() - last..].iter().map(|(_, body)| body[0]).collect()
}

fn is_bundle(datagram: &[u8]) -> bool {
    datagram[0] & 0xF0 == BUNDLE && datagram.len() > 28
}

#[test]
fn what_is_sent_in_one_go_shares_datagrams_at_each_hop_and_keeps_its_order() {
    let mut world = World::new();
    world.line(3);
    let (a, bs) = (world.node(0), [world.node(2), world.node(2), world.node(1)]);
    for b in bs {
        world.warm_up(a, b);
    }
    let addresses = [world.nodes[a].address, world.nodes[bs[0]].address];
    let routers = [0, 1, 2].map(|router| world.routers[router].address);
    let hops = [(addresses[0], routers[0]), (routers[0], routers[1]), (routers[2], addresses[1])];
    let captures = hops.map(|(from, to)| world.network.capture(from, to));
    let sent = send_in_one_go(&mut world, a, &bs);
    for b in bs {
        assert!(numbers_at(&world, b, sent).into_iter().eq(0..sent as u8), "{b}");
    }
    // The last hop leads to one of the three.
    for (capture, pdus) in captures.iter().zip([3 * sent, 3 * sent, sent]) {
        let datagrams = capture.datagrams();
        let bundles = datagrams.iter().filter(|it| is_bundle(&it.bytes)).count();
        assert!(bundles > 0 && datagrams.len() < pdus / 5, "{bundles} of {}", datagrams.len());
    }
    let counters = world.counters(0);
    assert!(counters.bundled_pdus >= 3 * sent as u64 && counters.bundles > 0);
}

#[test]
fn who_takes_no_bundles_is_sent_none() {
    let mut world = World::new();
    world.line(1);
    let a = world.node(0);
    let (mut stranger, _) = joined(&mut world);
    world.send(a, a, b"so that it has joined");
    world.run(SECOND);
    let capture = world.network.capture(world.routers[0].address, stranger.address);
    let (now, to) = (world.now, stranger.name());
    for _ in 0..10 {
        world.nodes[a].core.send(to, 7, b"one by one", now).expect("there is room");
    }
    stranger.settle(&mut world);
    let arrived = stranger.inbox.iter().filter(|(header, _)| header.action == Action::Data);
    assert_eq!(arrived.count(), 10);
    let datagrams = capture.datagrams();
    assert!(!datagrams.iter().any(|it| is_bundle(&it.bytes)));
}

/// A stranger whose PDUs the router carries, and where it is.
fn joined(world: &mut World) -> (Stranger, Name) {
    let mut stranger = Stranger::new(world, 0, Role::Node);
    let via = world.routers[0].switch.name();
    let join = PduHeader::new(Action::Advertise, stranger.name(), via);
    let certificate = stranger.route(via, world);
    stranger.send(world, join, &[], &[certificate]);
    stranger.inbox.clear();
    (stranger, via)
}

fn data(from: Name, to: Name, tag: u32, body: &[u8]) -> Vec<u8> {
    let mut pdu = Vec::new();
    let header = PduHeader { tag, ..PduHeader::new(Action::Data, from, to) };
    header.emit(&[&[1, 0, 0, 1], body].concat(), &[], &mut pdu).unwrap();
    pdu
}

fn bundle_of(pdus: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    pdus.iter().for_each(|pdu| bundle::push(&mut bytes, pdu));
    bytes
}

#[test]
fn what_is_wrong_with_one_is_nothing_to_the_others_and_what_does_not_add_up_is_dropped() {
    let mut world = World::new();
    world.line(1);
    let node = world.node(0);
    world.run(SECOND);
    let (mut stranger, _) = joined(&mut world);
    let (from, to) = (stranger.name(), world.name(node));
    let good = |number: u8| data(from, to, 1, &[number]);
    let malformed = |world: &World| world.dropped(0, DropReason::MalformedPdu);
    let received = |world: &World| world.nodes[node].received.len();

    // One that is none, one that is a bundle itself, and one that somebody else would have to send.
    let nested = bundle_of(&[&good(8), &good(9)]);
    let elsewhere = data(to, from, 1, b"not mine");
    let mixed = [&good(0)[..], b"no PDU at all", &good(1), &nested, &elsewhere, &good(2)];
    stranger.send_bundle(&mut world, &bundle_of(&mixed));
    assert_eq!(numbers_at(&world, node, 3), [0, 1, 2]);
    assert_eq!((received(&world), malformed(&world)), (3, 2));

    let two = bundle_of(&[&good(3), &good(4)]);
    let truncated = &two[..two.len() - 1];
    let over_long = [&two[..], &[0xFF, 0xFF, 7]].concat();
    let with_nothing = [&two[..], &[0, 0]].concat();
    let too_many = bundle_of(&[&b"x"[..]; bundle::MAX_PDUS + 1]);
    for broken in [truncated, &over_long, &with_nothing, &too_many, &[1]] {
        let before = malformed(&world);
        stranger.send_bundle(&mut world, broken);
        assert_eq!((received(&world), malformed(&world)), (3, before + 1));
    }
    // An empty one is no PDU, and says that its sender takes bundles.
    stranger.send_bundle(&mut world, &[]);
    stranger.send_bundle(&mut world, &two);
    assert_eq!(numbers_at(&world, node, 2), [3, 4]);
}

#[test]
fn each_pdu_of_a_bundle_has_its_own_nack() {
    let mut world = World::new();
    world.line(1);
    let node = world.node(0);
    world.run(SECOND);
    let (mut stranger, _) = joined(&mut world);
    let from = stranger.name();
    let nobody = Identity::generate(Role::Node, 1).unwrap().name();
    let there = data(from, world.name(node), 1, b"arrives");
    let lost = [2, 3].map(|tag| data(from, nobody, tag, b"goes nowhere"));
    let loops = {
        let header = PduHeader { ttl: 1, tag: 4, ..PduHeader::new(Action::Data, from, nobody) };
        let mut pdu = Vec::new();
        header.emit(&[1, 0, 0, 1], &[], &mut pdu).unwrap();
        pdu
    };
    stranger.send_bundle(&mut world, &bundle_of(&[&lost[0], &there, &loops, &lost[1]]));
    assert_eq!(world.nodes[node].received.len(), 1);
    let nacks = stranger.inbox.iter().filter(|(header, _)| header.action == Action::Nack);
    let mut tags: Vec<u32> = nacks.map(|(header, _)| header.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, [2, 3, 4]);
    assert!(stranger.nacks().contains(&Reason::TtlExceeded));
}

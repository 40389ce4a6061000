//! Who has no right is refused: every way in which a session can
//! claim what is not its own, and what it is told.

use std::time::Duration;

use rhumb_switch::DropReason;
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::{Action, Certificate, Name, PduHeader, Scope, Statement};

use crate::world::{Stranger, World};

const DATA: &[u8] = &[7; 64];

/// A world of one router with a node, and a stranger at the router.
fn scene() -> (World, usize, Stranger) {
    let mut world = World::new();
    world.line(1);
    let node = world.node(0);
    let stranger = Stranger::new(&mut world, 0, Role::Node);
    (world, node, stranger)
}

fn router(world: &World) -> Name {
    world.routers[0].switch.name()
}

#[test]
fn without_a_certificate_nothing_is_carried() {
    let (mut world, node, mut stranger) = scene();
    let header = PduHeader::new(Action::Data, stranger.name(), world.name(node));
    stranger.send(&mut world, header, DATA, &[]);
    assert_eq!(stranger.nacks(), [Reason::NotAuthorised]);
    assert!(world.nodes[node].received.is_empty());
    assert_eq!(world.dropped(0, DropReason::NotAuthorised), 1);
}

#[test]
fn the_routers_own_name_as_source_with_no_chain_is_refused() {
    let (mut world, node, mut stranger) = scene();
    let header = PduHeader::new(Action::Data, router(&world), world.name(node));
    stranger.send(&mut world, header, DATA, &[]);
    assert_eq!(stranger.nacks(), [Reason::NotAuthorised]);
    assert!(world.nodes[node].received.is_empty());
}

#[test]
fn another_name_cannot_be_claimed() {
    let (mut world, node, mut stranger) = scene();
    let victim = world.name(node);
    // The victim's name, the stranger's signature: as an advertisement, and on data.
    let forged = Certificate { issuer: victim, ..stranger.route(router(&world), &world) };
    let header = PduHeader::new(Action::Advertise, victim, router(&world));
    stranger.send(&mut world, header, &[], std::slice::from_ref(&forged));
    assert_eq!(stranger.nacks(), [Reason::BadCertificate]);
    // A chain that ends with the stranger's own word for the router, but begins with the forgery.
    let statement = Statement::Route { via: stranger.name(), scope: Scope::Any };
    let own = stranger.route(router(&world), &world);
    let forged = Certificate { issuer: victim, statement, ..own.clone() };
    stranger.send(&mut world, header, &[], &[forged.clone(), own.clone()]);
    assert_eq!(stranger.nacks(), [Reason::BadCertificate]);
    let header = PduHeader::new(Action::Data, victim, world.name(node));
    stranger.send(&mut world, header, DATA, &[forged, own]);
    assert_eq!(stranger.nacks(), [Reason::BadCertificate]);
    assert!(world.nodes[node].received.is_empty());
    assert_eq!(world.dropped(0, DropReason::BadCertificate), 3);
    // The victim is still served.
    let other = world.node(0);
    world.send(other, node, b"still here");
    world.settle();
    assert_eq!(world.nodes[node].received.len(), 1);
}

#[test]
fn expired_early_and_looping_chains_are_refused() {
    let (mut world, node, mut stranger) = scene();
    let via = router(&world);
    let fresh = stranger.route(via, &world);
    let at = |start: u64, end: u64| {
        let window = rhumb_trust::Window { not_before_s: start, not_after_s: end };
        stranger.identity.certify(fresh.statement, 1, window).unwrap()
    };
    let now_s = world.now.unix_s();
    let to_self = stranger.route(stranger.name(), &world);
    let chains = [
        vec![at(now_s - 1000, now_s - 500)],
        vec![at(now_s + 500, now_s + 1000)],
        vec![to_self, fresh.clone()],
        vec![fresh.clone(), fresh.clone()],
        vec![
            stranger
                .identity
                .certify(Statement::Withdrawal, 2, rhumb_trust::Window::starting(now_s, 9))
                .unwrap(),
            fresh,
        ],
    ];
    for (index, chain) in chains.into_iter().enumerate() {
        let header = PduHeader::new(Action::Data, stranger.name(), world.name(node));
        stranger.send(&mut world, header, DATA, &chain);
        // What differs between clocks has reasons of its own.
        let reason = match index {
            0 => Reason::Expired,
            1 => Reason::NotYetValid,
            _ => Reason::BadCertificate,
        };
        assert_eq!(stranger.nacks(), [reason], "chain {index}");
    }
    for reason in [DropReason::Expired, DropReason::NotYetValid] {
        assert_eq!(world.dropped(0, reason), 1);
    }
    assert!(world.nodes[node].received.is_empty());
}

#[test]
fn a_scope_binds() {
    let (mut world, node, mut stranger) = scene();
    let other = world.node(0);
    let statement =
        Statement::Route { via: router(&world), scope: Scope::Destination(world.name(node)) };
    let window = rhumb_trust::Window::starting(world.now.unix_s(), 600);
    let certificate = stranger.identity.certify(statement, 5, window).unwrap();
    let join = PduHeader::new(Action::Advertise, stranger.name(), router(&world));
    stranger.send(&mut world, join, &[], &[certificate]);
    stranger.inbox.clear();
    let header = PduHeader::new(Action::Data, stranger.name(), world.name(node));
    stranger.send(&mut world, header, DATA, &[]);
    assert!(stranger.nacks().is_empty());
    let header = PduHeader::new(Action::Data, stranger.name(), world.name(other));
    stranger.send(&mut world, header, DATA, &[]);
    assert_eq!(stranger.nacks(), [Reason::NotAuthorised]);
    assert_eq!(world.nodes[other].received.len(), 0);
}

#[test]
fn a_forged_nack_and_a_forged_accept_are_dropped() {
    let mut world = World::new();
    world.line(3);
    let (a, b) = (world.node(0), world.node(2));
    world.send(a, b, DATA);
    world.run(Duration::from_secs(1));
    let mut stranger = Stranger::new(&mut world, 0, Role::Router);
    let mut data = Vec::new();
    Nack { reason: Reason::TooBig(9), reporter: None }.emit(&mut data);
    let header = PduHeader::new(Action::Nack, world.name(b), world.name(a));
    let before = world.nodes[a].core.max_body_len(world.name(b), world.now);
    stranger.send(&mut world, header, &data, &[]);
    assert_eq!(world.dropped(0, DropReason::UnexpectedAnswer), 1);
    assert_eq!(world.nodes[a].core.max_body_len(world.name(b), world.now), before);
    let mut data = Vec::new();
    rhumb_wire::accept::Accept { name: world.name(a), until_s: u64::MAX, published: true }
        .emit(&mut data);
    let header = PduHeader::new(Action::Accept, stranger.name(), router(&world));
    stranger.send(&mut world, header, &data, &[]);
    assert_eq!(world.dropped(0, DropReason::UnexpectedAnswer), 2);
    assert!(stranger.inbox.is_empty(), "an answer is never answered");
}

#[test]
fn no_nack_is_larger_than_its_cause() {
    let (mut world, node, mut stranger) = scene();
    let header = PduHeader::new(Action::Data, stranger.name(), world.name(node));
    for len in 0..60 {
        stranger.send(&mut world, header, &DATA[..len], &[]);
        for (nack, data) in std::mem::take(&mut stranger.inbox) {
            assert_eq!(nack.action, Action::Nack);
            assert!(data.len() <= len, "{} bytes about {len}", data.len());
            assert_eq!(data.len() == Nack::MAX_LEN, len >= Nack::MAX_LEN);
        }
    }
    assert_eq!(world.counters(0).nacks, 60 - Nack::MIN_LEN as u64);
}

#[test]
fn a_flood_of_bad_chains_costs_one_session_its_share_only() {
    let (mut world, node, mut stranger) = scene();
    let via = router(&world);
    // Every PDU another source, so that each chain is news to the router.
    let certificate = stranger.route(via, &world);
    for n in 0..200u8 {
        let mut chain = vec![certificate.clone()];
        chain[0].signature[0] ^= n | 1;
        let header = PduHeader {
            tag: n.into(),
            ..PduHeader::new(Action::Data, stranger.name(), world.name(node))
        };
        stranger.send(&mut world, header, DATA, &chain);
    }
    // Of two that are the same, the second one costs no more than to see that, and most are not
    // even read once it is clear whom they are of.
    let (refused, unread) =
        (world.counters(0).chains_refused, world.dropped(0, DropReason::Overloaded));
    assert!((4..=20).contains(&refused), "{refused}");
    assert_eq!(world.dropped(0, DropReason::BadCertificate) + unread, 200);
    let other = world.node(0);
    world.send(other, node, b"others are served");
    world.settle();
    assert_eq!(world.nodes[node].received.len(), 1);
}

#[test]
fn what_is_not_a_pdu_is_dropped_and_counted() {
    let (mut world, node, mut stranger) = scene();
    world.network.inject(stranger.address, world.routers[0].address, b"GET / HTTP/1.0\r\n\r\n");
    world.settle();
    assert_eq!(world.dropped(0, DropReason::ForeignDatagram), 1);
    for action in [Action::Pong, Action::RibRequest, Action::Data] {
        let header = PduHeader::new(action, stranger.name(), router(&world));
        stranger.send(&mut world, header, DATA, &[]);
    }
    assert_eq!(world.dropped(0, DropReason::NotForUs), 3);
    let header = PduHeader::new(Action::RibResponse, stranger.name(), router(&world));
    stranger.send(&mut world, header, DATA, &[]);
    assert_eq!(world.dropped(0, DropReason::UnexpectedRibAnswer), 1);
    assert!(stranger.inbox.is_empty());
    assert!(world.nodes[node].received.is_empty());
}

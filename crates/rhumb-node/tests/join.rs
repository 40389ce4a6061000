//! A node becomes a member of a router: it advertises until it is accepted, renews, and leaves.

use std::time::Duration;

use rhumb_link::LinkError;
use rhumb_node::Remote;
use rhumb_node::core::{Disconnection, DropReason, Event};
use rhumb_trust::verify_chain;
use rhumb_wire::accept::Accept;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Name, PduHeader, Scope, Statement};

use crate::world::{OnAdvertise, START_S, World, router_address};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_accepted_advertisement_joins() {
    let mut world = World::new();
    world.run_for(SECOND);
    let router = world.router.identity.name();
    assert_eq!(world.events, [Event::Joined { router, until_s: START_S + 600, published: true }]);
    let advertised = world.router.seen(Action::Advertise);
    assert_eq!(advertised.len(), 1, "an answered advertisement is not repeated");
    assert_eq!(advertised[0].header.source, world.core.name());
    assert_eq!(advertised[0].header.destination, router);
    let key = world.identity.metadata().key;
    let certificates = advertised[0].certificates.clone();
    let chain = verify_chain(world.core.name(), certificates, |_| Some(key), START_S).unwrap();
    assert_eq!(chain.last_router(), Some(router));
    assert_eq!((chain.scope(), chain.not_after_s()), (Scope::Any, START_S + 600));
}

#[test]
fn another_router_than_the_one_expected_is_refused() {
    let expected = Name([9; 32]);
    let mut world = World::with(|config| {
        config.router = Remote { address: router_address(), name: Some(expected) }.into();
    });
    world.run_for(SECOND);
    let actual = world.router.identity.name();
    let error = world.take_event(|event| match event {
        Event::Disconnected { reason: Disconnection::Connect { error, .. }, .. } => {
            Some(error.clone())
        }
        _ => None,
    });
    assert_eq!(error, Some(LinkError::UnexpectedName { expected, actual }));
    assert!(world.router.seen.is_empty(), "it learned nothing of us but the handshake");
}

#[test]
fn a_refusal_is_final() {
    for reason in [Reason::BadCertificate, Reason::NotAuthorised] {
        let mut world = World::new();
        world.router.on_advertise = OnAdvertise::Nack(reason);
        world.run_for(10 * SECOND);
        let router = world.router.identity.name();
        assert_eq!(world.events, [Event::Refused { router, reason }]);
        assert!(world.core.is_over());
        assert_eq!(world.router.seen.len(), 1);
        assert_eq!(world.core.poll_timeout(), None);
    }
}

#[test]
fn a_lost_advertisement_is_sent_again() {
    let mut world = World::new();
    world.router.lose_advertisements = 3;
    world.run_for(10 * SECOND);
    assert!(matches!(world.events[..], [Event::Joined { .. }]), "{:?}", world.events);
    let seen = world.router.seen(Action::Advertise);
    let waits: Vec<_> = seen
        .windows(2)
        .map(|pair| pair[1].at.instant.duration_since(pair[0].at.instant).as_millis())
        .collect();
    assert_eq!(waits, [500, 1000, 2000]);
    assert!(seen.iter().all(|it| it.header.tag == seen[0].header.tag));
    assert!(seen.iter().all(|it| it.certificates == seen[0].certificates));
}

#[test]
fn a_lost_accept_is_asked_for_again() {
    let mut world = World::new();
    world.router.on_advertise = OnAdvertise::Silence;
    world.run_for(SECOND / 10);
    // The answer of this one is lost: it never comes.
    assert_eq!(world.router.seen.len(), 1);
    world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: true };
    world.run_for(SECOND);
    assert!(world.core.is_joined());
    assert_eq!(world.router.seen.len(), 2);
}

#[test]
fn a_router_that_needs_time_gets_it() {
    let mut world = World::new();
    world.router.on_advertise = OnAdvertise::Nack(Reason::NotYet(200));
    world.run_for(Duration::from_millis(150));
    assert_eq!(world.router.seen.len(), 1);
    world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: true };
    world.run_for(Duration::from_millis(150));
    assert_eq!(world.router.seen.len(), 2);
    assert!(world.core.is_joined());
}

#[test]
fn an_accept_that_answers_nothing_is_dropped() {
    let mut world = World::new();
    world.router.on_advertise = OnAdvertise::Silence;
    world.run_for(SECOND / 10);
    let (name, tag) = (world.core.name(), world.router.seen[0].header.tag);
    let (router, other) = (world.router.identity.name(), Name([1; 32]));
    let accept = |name| {
        let mut data = Vec::new();
        Accept { name, until_s: START_S + 600, published: true }.emit(&mut data);
        data
    };
    let header = |from, to, tag| PduHeader { tag, ..PduHeader::new(Action::Accept, from, to) };
    let forged = [
        (header(router, name, tag.wrapping_add(1)), accept(name)),
        (header(other, name, tag), accept(name)),
        (header(router, name, tag), accept(other)),
        (header(router, other, tag), accept(other)),
    ];
    for (header, data) in forged {
        world.router.send(header, &data, world.now);
    }
    world.run_for(SECOND / 10);
    assert!(!world.core.is_joined());
    assert_eq!(world.core.drops().of(DropReason::UnknownAccept), 3);
    assert_eq!(world.core.drops().of(DropReason::NotForUs), 1);
    world.router.send(header(router, name, tag), &accept(name), world.now);
    world.run_for(SECOND / 10);
    assert!(world.core.is_joined(), "the true one counts");
}

#[test]
fn a_lease_is_renewed_at_half_life_with_a_higher_sequence() {
    let mut world = World::joined();
    world.run_for(290 * SECOND);
    assert!(world.router.seen(Action::Advertise).is_empty());
    world.run_for(20 * SECOND);
    let first_renewal = world.router.seen(Action::Advertise);
    assert_eq!(first_renewal.len(), 1);
    let renewed_at_s = first_renewal[0].at.unix_s();
    assert!((START_S + 299..START_S + 302).contains(&renewed_at_s));
    assert!(matches!(
        world.events[..],
        [Event::Renewed { until_s, published: true }] if until_s == renewed_at_s + 600
    ));
    world.run_for(300 * SECOND);
    let renewals = world.router.seen(Action::Advertise);
    let sequences: Vec<_> = renewals.iter().map(|it| it.certificates[0].sequence).collect();
    assert!(sequences.is_sorted_by(|a, b| a < b) && sequences.len() == 2, "{sequences:?}");
    assert_eq!(sequences[0] / 1000, renewed_at_s);
}

#[test]
fn a_renewal_that_is_never_answered_ends_the_connection_with_the_lease() {
    let mut world = World::joined();
    world.router.on_advertise = OnAdvertise::Silence;
    world.run_for(598 * SECOND);
    assert!(world.core.is_joined(), "half of a lease is left for further tries");
    assert!(world.router.seen(Action::Advertise).len() > 100);
    world.run_for(5 * SECOND);
    assert!(matches!(
        world.events[..],
        [Event::Disconnected { reason: Disconnection::LeaseEnded, .. }]
    ));
}

#[test]
fn a_router_that_answers_no_advertisement_is_left_and_sought_anew() {
    let mut world = World::new();
    world.router.on_advertise = OnAdvertise::Silence;
    world.run_for(12 * SECOND);
    assert!(matches!(
        world.events[..],
        [Event::Disconnected { reason: Disconnection::NoAccept, .. }]
    ));
    assert_eq!(world.router.sessions_seen, 2);
}

#[test]
fn a_name_that_is_not_published_yet_is_advertised_until_it_is() {
    let mut world = World::new();
    world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: false };
    world.run_for(8 * SECOND);
    assert!(matches!(world.events[0], Event::Joined { published: false, .. }));
    assert_eq!(world.router.seen.len(), 4, "after 1, 2 and 4 seconds");
    world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: true };
    world.run_for(10 * SECOND);
    assert!(matches!(world.events.last(), Some(Event::Renewed { published: true, .. })));
    let seen = world.router.seen.len();
    world.run_for(100 * SECOND);
    assert_eq!(world.router.seen.len(), seen);
}

#[test]
fn a_router_may_accept_first_and_publish_later() {
    let mut world = World::new();
    world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: false };
    world.run_for(SECOND / 10);
    let (name, tag) = (world.core.name(), world.router.seen[0].header.tag);
    world.router.accept(name, tag, START_S + 600, true, world.now);
    world.run_for(100 * SECOND);
    assert!(matches!(
        world.events[..],
        [Event::Joined { published: false, .. }, Event::Renewed { published: true, .. }]
    ));
    assert_eq!(world.router.seen.len(), 1);
}

#[test]
fn leaving_withdraws_the_name_and_closes_the_session() {
    let mut world = World::new();
    world.run_for(SECOND);
    let route = world.router.seen[0].certificates[0].clone();
    world.core.leave(world.now);
    world.run_for(SECOND);
    let withdrawal = world.router.seen.last().unwrap().certificates[0].clone();
    assert_eq!(withdrawal.statement, Statement::Withdrawal);
    assert!(withdrawal.sequence > route.sequence);
    assert_eq!(world.events.last(), Some(&Event::Left { published: true }));
    assert!(world.core.is_over());
    assert_eq!(world.router.session, None, "the router was told");
}

#[test]
fn leaving_does_not_wait_for_long() {
    let mut world = World::joined();
    world.router.on_advertise = OnAdvertise::Silence;
    world.core.leave(world.now);
    world.run_for(Duration::from_millis(999));
    assert_eq!(world.router.seen.len(), 2, "sent again once");
    assert!(world.events.is_empty());
    world.run_for(Duration::from_millis(2));
    assert_eq!(world.events, [Event::Left { published: false }]);
    assert!(world.core.is_over());
}

#[test]
fn leaving_without_a_router_is_immediate() {
    let mut world = World::new();
    world.cut = true;
    world.run_for(SECOND);
    world.core.leave(world.now);
    world.run_for(Duration::ZERO);
    assert_eq!(world.events.last(), Some(&Event::Left { published: false }));
    // An attempt that was under way brings nothing back.
    world.cut = false;
    world.run_for(20 * SECOND);
    assert!(world.core.is_over() && world.router.seen.is_empty());
}

//! A router that falls silent, restarts or changes its mind is sought again, ever less eagerly, and nothing that waits is
//! lost meanwhile.

mod world;

use std::time::Duration;

use rhumb_link::{CloseReason, LinkError};
use rhumb_node::core::{Disconnection, Event};
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Name};
use world::{LATENCY, OnAdvertise, World};

const TO: Name = Name([7; 32]);
const SECOND: Duration = Duration::from_secs(1);

fn disconnections(world: &World) -> Vec<Disconnection> {
    let reasons = world.events.iter().filter_map(|event| match event {
        Event::Disconnected { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    reasons.collect()
}

#[test]
fn a_silent_router_is_noticed_and_rejoined_when_it_is_back() {
    let mut world = World::joined();
    world.cut = true;
    world.run_for(19 * SECOND);
    assert!(world.core.is_joined());
    world.run_for(3 * SECOND);
    assert!(!world.core.is_joined());
    assert_eq!(disconnections(&world), [Disconnection::Closed(CloseReason::Silent)]);
    world.cut = false;
    // A handshake in progress repeats what was lost within a few seconds.
    world.run_for(15 * SECOND);
    assert!(world.core.is_joined());
    assert!(matches!(world.events.last(), Some(Event::Joined { .. })));
    assert_eq!(world.router.seen(Action::Advertise).len(), 1);
}

#[test]
fn a_router_that_lost_its_memory_is_joined_anew() {
    let mut world = World::joined();
    let first = world.core.router();
    world.replace_router();
    world.run_for(40 * SECOND);
    assert!(world.core.is_joined());
    assert_ne!(world.core.router(), first);
}

#[test]
fn data_that_wait_go_out_once_the_router_is_back() {
    let mut world = World::joined();
    let session = world.router.session.unwrap();
    world.router.endpoint.close(session, world.now.instant);
    world.run_for(2 * LATENCY);
    assert!(!world.core.is_joined());
    for _ in 0..10 {
        world.core.send(TO, 9, b"while away", world.now).unwrap();
    }
    world.run_for(SECOND);
    assert_eq!(disconnections(&world), [Disconnection::Closed(CloseReason::PeerClosed)]);
    assert!(world.core.is_joined());
    assert_eq!(world.router.seen(Action::Data).len(), 10);
}

#[test]
fn data_to_be_resent_survive_a_reconnection() {
    let mut world = World::joined();
    world.core.send(TO, 9, b"body", world.now).unwrap();
    world.run_for(LATENCY);
    let seen = world.router.seen(Action::Data)[0].clone();
    world.nack(&seen, Reason::NotYet(300));
    world.run_for(2 * LATENCY);
    let session = world.router.session.unwrap();
    world.router.endpoint.close(session, world.now.instant);
    world.run_for(SECOND);
    assert!(world.core.is_joined());
    assert_eq!(world.router.seen(Action::Data).len(), 2);
    assert!(world.router.sessions_seen == 2);
}

#[test]
fn each_failure_makes_the_next_try_later_up_to_a_bound() {
    let mut world = World::new();
    world.cut = true;
    world.run_for(200 * SECOND);
    let waits: Vec<_> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Disconnected {
                reason: Disconnection::Connect { error: LinkError::TimedOut, .. },
                retry_after,
            } => Some(*retry_after),
            _ => None,
        })
        .collect();
    assert!(waits.len() >= 8, "{waits:?}");
    let bounds = [100, 200, 400, 800, 1600, 3200, 5000, 5000];
    for (wait, bound) in waits.iter().zip(bounds) {
        let bound = Duration::from_millis(bound);
        assert!((bound / 2..=bound).contains(wait), "{wait:?} of {bound:?}");
    }
    assert!(waits.iter().all(|wait| *wait <= 5 * SECOND));
}

#[test]
fn a_success_makes_the_next_try_early_again() {
    let mut world = World::new();
    world.cut = true;
    world.run_for(60 * SECOND);
    world.cut = false;
    world.run_for(20 * SECOND);
    assert!(world.core.is_joined());
    world.events.clear();
    let session = world.router.session.unwrap();
    world.router.endpoint.close(session, world.now.instant);
    world.run_for(SECOND / 4);
    assert!(world.core.is_joined());
}

#[test]
fn a_refusal_after_an_acceptance_is_not_final() {
    let mut world = World::joined();
    world.router.on_advertise = OnAdvertise::Nack(Reason::BadCertificate);
    world.run_for(310 * SECOND);
    assert!(!world.core.is_joined() && !world.core.is_over());
    let refused = Disconnection::Refused(Reason::BadCertificate);
    assert!(disconnections(&world).iter().all(|reason| *reason == refused));
    world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: true };
    world.run_for(6 * SECOND);
    assert!(world.core.is_joined());
}

#[test]
fn sequences_grow_across_reconnections() {
    let mut world = World::joined();
    for _ in 0..3 {
        let session = world.router.session.unwrap();
        world.router.endpoint.close(session, world.now.instant);
        world.run_for(SECOND);
    }
    let seen = world.router.seen(Action::Advertise);
    assert_eq!(seen.len(), 3);
    assert!(seen.is_sorted_by(|a, b| a.certificates[0].sequence < b.certificates[0].sequence));
}

#[test]
fn new_keys_of_the_same_session_change_nothing() {
    let mut world = World::joined();
    // The link makes fresh keys every hour; leases are renewed every five minutes.
    world.run_for(2 * 3600 * SECOND + 60 * SECOND);
    assert!(disconnections(&world).is_empty(), "{:?}", world.events);
    assert!(world.router.sessions_seen >= 3, "{}", world.router.sessions_seen);
    let renewals = world.router.seen(Action::Advertise).len();
    assert!((23..=25).contains(&renewals), "{renewals}");
}

//! A router that falls silent, restarts or changes its mind is sought again, ever less eagerly, and
//! nothing that waits is lost meanwhile.

use std::time::Duration;

use rhumb_link::{CloseReason, KEEP_ALIVE, LinkError, PROBES, QUIET};
use rhumb_node::core::{Disconnection, Event, SendFailure};
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Name};

use crate::world::{LATENCY, OnAdvertise, World};

const TO: Name = Name([7; 32]);
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// What it takes to ask a router that does not answer, over a network as fast as this one.
const PROBING: Duration = Duration::from_millis(100 * PROBES as u64 + 50);

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
    world.run_for(SECOND);
    world.cut = true;
    // The last answer came within this second, so the next
    // question is due four to five seconds from now.
    world.run_for(4 * SECOND);
    assert!(world.core.is_joined());
    world.run_for(KEEP_ALIVE + PROBING - 4 * SECOND);
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
fn what_was_sent_to_a_silent_router_is_reported_and_nothing_else() {
    let mut world = World::joined();
    world.run_for(SECOND);
    let send_for = |world: &mut World, ticks: usize| -> Vec<u32> {
        (0..ticks)
            .map(|_| {
                let tag = world.core.send(TO, 9, b"body", world.now).unwrap();
                world.run_for(10 * MS);
                tag
            })
            .collect()
    };
    let before = send_for(&mut world, 100);
    world.cut = true;
    let after = send_for(&mut world, 40);
    world.run_for(QUIET + PROBING);
    assert!(!world.core.is_joined());
    let failed: Vec<u32> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::SendFailed { tag, reason: SendFailure::RouterLost, .. } => Some(*tag),
            _ => None,
        })
        .collect();
    assert!(after.iter().all(|tag| failed.contains(tag)), "every one that was in vain");
    // Of those before, only what was sent after the last question that was answered.
    let doubtful = before.iter().filter(|tag| failed.contains(tag)).count();
    assert!(doubtful <= 30, "{doubtful} of 100");
    assert_eq!(failed.len(), after.len() + doubtful);
}

#[test]
fn a_router_that_is_not_watched_is_noticed_by_its_silence() {
    let mut world = World::with(|config| config.watch_router = false);
    world.run_for(100 * MS);
    assert!(world.core.is_joined());
    world.cut = true;
    world.run_for(19 * SECOND);
    assert!(world.core.is_joined());
    world.run_for(3 * SECOND);
    assert_eq!(disconnections(&world), [Disconnection::Closed(CloseReason::Silent)]);
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

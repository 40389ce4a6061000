//! A node whose statements are older than its name's newest goes on from there, but only from what
//! its own key has signed; and it leaves the name to whoever claims it later.

use std::time::Duration;

use rhumb_node::core::{Disconnection, Event};
use rhumb_trust::{Identity, Window};
use rhumb_wire::metadata::Role;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Action, Certificate, Name, Scope, Statement};

use crate::world::{OnAdvertise, START_S, World};

const SECOND: Duration = Duration::from_secs(1);
const ELSEWHERE: Name = Name([8; 32]);

/// A route that the node's key signs, with a sequence `ahead_ms` beyond the clock.
fn own_word(world: &World, ahead_ms: u64) -> Certificate {
    route_of(&world.identity, ahead_ms)
}

fn route_of(identity: &Identity, ahead_ms: u64) -> Certificate {
    let statement = Statement::Route { via: ELSEWHERE, scope: Scope::Any };
    // In force long before or after: only the sequence is of interest.
    let window = Window { not_before_s: START_S + 9000, not_after_s: START_S + 9600 };
    identity.certify(statement, START_S * 1000 + ahead_ms, window).expect("a key that signs")
}

fn sequences(world: &World) -> Vec<u64> {
    let seen = world.router.seen(Action::Advertise);
    seen.iter().map(|seen| seen.certificates[0].sequence).collect()
}

#[test]
fn a_node_goes_on_from_its_own_newest_word() {
    let mut world = World::new();
    world.router.on_advertise = OnAdvertise::Superseded;
    world.router.shown = vec![own_word(&world, 3_600_000)];
    while world.router.seen(Action::Advertise).is_empty() {
        world.run_for(Duration::from_millis(1));
    }
    world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: true };
    world.run_for(5 * SECOND);
    assert!(world.core.is_joined());
    assert_eq!(sequences(&world)[1], START_S * 1000 + 3_600_001);
}

#[test]
fn nobody_else_can_push_a_nodes_sequence() {
    let cases: [fn(&World) -> Vec<Certificate>; 5] = [
        |_| vec![],
        |_| vec![foreign()],
        |world| vec![Certificate { issuer: world.identity.name(), ..foreign() }],
        // Its own word, with another number.
        |world| vec![Certificate { sequence: u64::MAX, ..own_word(world, 0) }],
        |world| vec![Certificate { sequence: START_S * 1000 + 1_000_000, ..own_word(world, 0) }],
    ];
    for shown in cases {
        let mut world = World::new();
        world.router.on_advertise = OnAdvertise::Superseded;
        world.router.shown = shown(&world);
        world.run_for(5 * SECOND);
        let router = world.router.identity.name();
        assert_eq!(world.events, [Event::Refused { router, reason: Reason::Superseded }]);
        assert_eq!(sequences(&world).len(), 1);
    }
}

/// A stranger's word, far ahead.
fn foreign() -> Certificate {
    route_of(&Identity::generate(Role::Node, START_S).expect("a key"), 1_000_000)
}

#[test]
fn a_name_that_was_published_is_left_to_a_later_claim_and_taken_back_from_a_withdrawal() {
    let mut world = World::new();
    world.run_for(SECOND);
    let about = world.router.seen(Action::Advertise)[0].header;
    // What is older than its own last word is no news.
    world.router.shown = vec![own_word(&world, 0)];
    world.router.supersede(about, world.now);
    world.run_for(SECOND);
    assert!(world.core.is_joined());
    // Another process left: that ends what this one said, too, but claims nothing.
    let window = Window::starting(START_S, 600);
    let withdrawal = world.identity.certify(Statement::Withdrawal, u64::MAX / 2, window).unwrap();
    world.router.shown = vec![withdrawal];
    world.router.supersede(about, world.now);
    world.run_for(SECOND);
    assert!(world.core.is_joined());
    assert_eq!(sequences(&world)[1..], [u64::MAX / 2 + 1]);
    let about = world.router.seen(Action::Advertise)[1].header;
    let statement = Statement::Route { via: ELSEWHERE, scope: Scope::Any };
    let claim = world.identity.certify(statement, u64::MAX / 2 + 5, window).unwrap();
    world.router.shown = vec![claim];
    world.router.supersede(about, world.now);
    world.run_for(SECOND);
    assert_eq!(world.events.last(), Some(&Event::Displaced { via: ELSEWHERE }));
    assert!(world.core.is_over());
    assert_eq!(sequences(&world).len(), 2);
}

#[test]
fn a_clock_that_is_wrong_has_its_own_reason_and_is_no_end() {
    for reason in [Reason::Expired, Reason::NotYetValid] {
        let mut world = World::joined();
        world.router.on_advertise = OnAdvertise::Nack(reason);
        world.run_for(310 * SECOND);
        let refused = |event: &Event| {
            let why = Disconnection::Refused(reason);
            matches!(event, Event::Disconnected { reason, .. } if *reason == why)
        };
        assert!(world.events.iter().any(refused) && !world.core.is_over());
        world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: true };
        world.run_for(6 * SECOND);
        assert!(world.core.is_joined());
    }
}

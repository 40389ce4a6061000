//! Several RIBs: statements go to all of them, questions to the one that answers soonest, and one
//! that is gone, late or lies costs no more than the hedge.

use std::time::Duration;

use rhumb_switch::Event;
use rhumb_trust::Window;
use rhumb_wire::metadata::Role;
use rhumb_wire::rib::{RibRequestBody, RibResponseBody};
use rhumb_wire::{Name, Statement};
use world::{Lie, World, router_address};

use crate::world;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// Answers take no time in this world, so the shortest hedge there is.
const HEDGE: Duration = Duration::from_millis(20);

fn router(world: &mut World, index: usize) -> usize {
    let identity = world.identity(Role::Router);
    let router = world.router(identity, router_address(index), None, Some(router_address(index)));
    world.run(SECOND);
    router
}

/// Two routers with a node each.
fn pair(world: &mut World) -> (usize, usize) {
    router(world, 0);
    router(world, 1);
    (world.node(0), world.node(1))
}

/// How long it takes the first router until it knows the way to a
/// node of which it knew nothing, asked by a PDU.
fn time_to_learn(world: &mut World, from: usize, to: usize) -> Duration {
    let known = |world: &World| world.routers[0].switch.status(world.now).routes;
    let (before, start) = (known(world), world.now.instant);
    world.send(from, to, b"how soon?");
    world.settle();
    while known(world) == before {
        world.run(MS);
        assert!(world.now.instant < start + 5 * SECOND, "it is not found");
    }
    world.now.instant - start
}

/// Whether a datagram arrives, now that time does not matter.
fn arrives(world: &mut World, from: usize, to: usize) -> bool {
    let before = world.nodes[to].received.len();
    world.send(from, to, b"does it?");
    world.run(SECOND);
    world.nodes[to].received.len() > before
}

type MakeLie = fn() -> Lie;

fn only_routes(
    mut lie: impl FnMut(Name, RibResponseBody) -> Option<RibResponseBody> + 'static,
) -> Lie {
    Box::new(move |question, truth| match question {
        RibRequestBody::LookUpRoute(name) => lie(*name, truth),
        _ => Some(truth),
    })
}

#[test]
fn statements_go_to_all_and_the_first_that_has_them_is_enough() {
    let mut world = World::new();
    let replica = world.replica();
    world.liar(Box::new(|_, _| None));
    let router = router(&mut world, 0);
    let node = world.node(0);
    world.run(SECOND);
    let name = world.name(node);
    let published = |world: &mut World| {
        let events = std::iter::from_fn(|| world.routers[router].switch.poll_event());
        events.filter(|event| *event == Event::Published { name }).count()
    };
    assert_eq!(published(&mut world), 1, "once, though two have it and one is silent");
    for rib in [world.rib.as_mut().unwrap(), &mut world.replicas[replica]] {
        assert_eq!(rib.server.stored_names().unwrap(), 2);
    }
    // The one that was silent gets them as soon as it listens.
    let heard = std::rc::Rc::new(std::cell::Cell::new(0));
    let counter = heard.clone();
    world.liars[0].lie = Box::new(move |question, truth| {
        counter
            .set(counter.get() + usize::from(matches!(question, RibRequestBody::Publish { .. })));
        Some(truth)
    });
    world.run(2 * SECOND);
    assert_eq!(heard.get(), 2);
    world.run(30 * SECOND);
    assert_eq!((heard.get(), published(&mut world)), (2, 0), "and not again");
}

#[test]
fn one_that_refuses_everything_denies_nothing() {
    let mut world = World::new();
    world.liar(Box::new(|question, truth| match question {
        RibRequestBody::Publish { .. } => {
            Some(RibResponseBody::Refused(rhumb_wire::rib::Refusal::Superseded))
        }
        _ => Some(truth),
    }));
    let (a, b) = pair(&mut world);
    assert!(world.nodes[a].core.lease().unwrap().published);
    assert!(arrives(&mut world, a, b));
}

#[test]
fn a_rib_that_is_gone_costs_the_hedge() {
    let mut world = World::new();
    world.replica();
    let (a, b) = pair(&mut world);
    let first = world.rib.take();
    assert!(first.is_some());
    drop(first);
    assert!(time_to_learn(&mut world, a, b) <= HEDGE);
    // Names still come and go, and after the session has ended nothing is even tried there.
    let late = world.node(1);
    assert!(time_to_learn(&mut world, a, late) <= HEDGE);
    world.run(30 * SECOND);
    let last = world.node(1);
    assert_eq!(time_to_learn(&mut world, a, last), Duration::ZERO);
    assert!(arrives(&mut world, a, last));
    assert!(world.nodes[last].core.lease().unwrap().published);
}

#[test]
fn a_rib_that_answers_late_is_not_asked_first_for_long() {
    let mut world = World::new();
    let liar = world.liar(Box::new(|_, truth| Some(truth)));
    let (a, _) = pair(&mut world);
    world.liars[liar].delay = 300 * MS;
    for count in 0..12 {
        let node = world.node(1);
        let time = time_to_learn(&mut world, a, node);
        assert!(time <= HEDGE, "{time:?} for look-up {count}");
        world.run(SECOND);
    }
    let asked = world.liars[liar].asked;
    for _ in 0..4 {
        let node = world.node(1);
        assert_eq!(time_to_learn(&mut world, a, node), Duration::ZERO);
    }
    assert_eq!(world.liars[liar].asked, asked);
    // Late answers are no offence.
    world.run(SECOND);
    assert_eq!(world.dropped(0, rhumb_switch::DropReason::UnexpectedRibAnswer), 0);
}

#[test]
fn lies_install_nothing_and_cost_no_more_than_the_hedge() {
    let lies: [(&str, MakeLie); 4] = [
        ("forged", || {
            only_routes(|_, mut truth| {
                if let RibResponseBody::Found { certificates, .. } = &mut truth {
                    for certificate in certificates {
                        certificate.sequence += 1_000_000;
                    }
                }
                Some(truth)
            })
        }),
        ("somebody else's", || {
            let mut last = None;
            only_routes(move |name, truth| {
                let other = last.replace(truth.clone());
                match other {
                    Some(RibResponseBody::Found { metadata, certificates, .. }) => {
                        Some(RibResponseBody::Found { name, level: 0, metadata, certificates })
                    }
                    _ => Some(truth),
                }
            })
        }),
        ("another question's", || only_routes(|_, _| Some(RibResponseBody::Stored))),
        ("nothing", || only_routes(|_, _| None)),
    ];
    for (kind, lie) in lies {
        let mut world = World::new();
        let liar = world.liar(lie());
        let (a, b) = pair(&mut world);
        for _ in 0..3 {
            let node = world.node(1);
            let time = time_to_learn(&mut world, a, node);
            assert!(time <= HEDGE, "{time:?}, the liar tells {kind}");
            assert!(arrives(&mut world, a, node), "the liar tells {kind}");
        }
        assert!(arrives(&mut world, a, b), "the liar tells {kind}");
        assert!(world.liars[liar].asked > 0);
    }
}

#[test]
fn one_that_denies_is_believed_only_when_nobody_knows_better() {
    let mut world = World::new();
    let liar = world.liar(Box::new(|_, truth| Some(truth)));
    let denier = world.liars[liar].identity.clone();
    world.liars[liar].lie = only_routes(move |name, _| {
        let window = Window::starting(world::START_S, 3600);
        let statement = Statement::Absence { subject: name };
        Some(RibResponseBody::Absent(denier.certify(statement, 1, window).unwrap()))
    });
    let (a, b) = pair(&mut world);
    assert_eq!(time_to_learn(&mut world, a, b), Duration::ZERO);
    // A name that no RIB knows is absent nevertheless.
    let nobody = Name([7; 32]);
    world.nodes[a].core.send(nobody, 1, b"anybody?", world.now).unwrap();
    world.run(SECOND);
    assert_eq!(world.routers[0].switch.status(world.now).absences, 1);
}

#[test]
fn an_old_route_from_a_replica_that_missed_the_move_is_not_used() {
    let mut world = World::new();
    // It answers with the first it heard of a name, for ever.
    let mut first = std::collections::HashMap::new();
    world.liar(only_routes(move |name, truth| {
        if matches!(truth, RibResponseBody::Found { .. }) {
            first.entry(name).or_insert_with(|| truth.clone());
        }
        Some(first.get(&name).cloned().unwrap_or(truth))
    }));
    let (a, _) = pair(&mut world);
    let third = router(&mut world, 2);
    let identity = world.identity(Role::Node);
    let old = world.node_of(identity.clone(), 1);
    world.run(SECOND);
    assert!(arrives(&mut world, a, old));
    let new = world.node_of(identity, third);
    world.run(SECOND);
    // The old process is gone, or it would claim the name again with its next renewal.
    let gone = world.nodes.remove(old);
    let new = new - 1;
    // Told of the move, the router does not go back, also when it asks again,
    // which it does before ten minutes are over.
    for _ in 0..10 {
        assert!(arrives(&mut world, a, new));
        world.run(60 * SECOND);
    }
    assert_eq!(gone.received.len(), 1);
    assert!(world.counters(0).rib_answers_refused > 0);
}

#[test]
fn a_rib_that_has_not_heard_yet_is_asked_again_at_once() {
    let mut world = World::new();
    // The only RIB answers as if nobody ever left, for the first 40 ms after somebody did.
    world.rib = None;
    let stale = std::rc::Rc::new(std::cell::Cell::new(false));
    let is_stale = stale.clone();
    let mut first = std::collections::HashMap::new();
    world.liar(only_routes(move |name, truth| {
        if matches!(truth, RibResponseBody::Found { .. }) {
            first.entry(name).or_insert_with(|| truth.clone());
        }
        let old = first.get(&name).cloned().filter(|_| is_stale.get());
        Some(old.unwrap_or(truth))
    }));
    let (a, b) = pair(&mut world);
    assert!(arrives(&mut world, a, b));
    stale.set(true);
    let gone = world.name(b);
    world.nodes[b].core.leave(world.now);
    world.run(10 * MS);
    world.nodes[a].core.send(gone, 7, b"gone already?", world.now).unwrap();
    world.run(40 * MS);
    let absences = |world: &World| world.routers[0].switch.status(world.now).absences;
    assert_eq!(absences(&world), 0);
    stale.set(false);
    world.run(100 * MS);
    assert_eq!(absences(&world), 1, "within what it takes the node to ask again");
}

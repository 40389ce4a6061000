//! Switches that share what they learn: one asks, the
//! others know, and what ends for one ends for all.

use std::sync::Arc;
use std::time::Duration;

use rhumb_switch::{Config, DropReason, Tables};
use rhumb_wire::Name;

use crate::world::{World, router_address};

const SECOND: Duration = Duration::from_secs(1);

/// Two routers that share their tables, with a node each, and a third
/// one that has its own, with a node to send to.
fn sharing() -> (World, [usize; 2], usize) {
    let mut world = World::new();
    let tables = Arc::new(Tables::new(&Config::default(), &[9; 32], world.now.instant));
    for index in 0..3 {
        world.tables = (index < 2).then(|| tables.clone());
        let identity = world.identity(rhumb_wire::Role::Router);
        world.router(identity, router_address(index), None, Some(router_address(index)));
    }
    world.run(SECOND);
    let nodes = [world.node(0), world.node(1)];
    let to = world.node(2);
    world.run(SECOND);
    (world, nodes, to)
}

fn send_until_it_arrives(world: &mut World, from: usize, to: usize) {
    let before = world.nodes[to].received.len();
    world.send(from, to, b"shared");
    world.run(SECOND);
    assert_eq!(world.nodes[to].received.len(), before + 1);
}

#[test]
fn what_one_learns_the_other_uses_without_asking() {
    let (mut world, [one, other], to) = sharing();
    let asked = |world: &World| [0, 1].map(|router| world.counters(router).rib_requests);
    let at_first = asked(&world);
    send_until_it_arrives(&mut world, one, to);
    let then = asked(&world);
    assert!(then[0] > at_first[0]);
    send_until_it_arrives(&mut world, other, to);
    assert_eq!(asked(&world), then, "the way is known, and who is on it");
    // A name that is nowhere, too.
    let nowhere = Name([5; 32]);
    world.nodes[one].core.send(nowhere, 7, b"hello?", world.now).expect("room");
    world.settle();
    let then = asked(&world);
    assert_eq!(world.routers[1].switch.status(world.now).absences, 1);
    world.nodes[other].core.send(nowhere, 7, b"hello?", world.now).expect("room");
    world.settle();
    assert_eq!(asked(&world), then);
    assert_eq!(world.dropped(1, DropReason::Unreachable), 1);
}

#[test]
fn a_withdrawal_taken_by_one_ends_the_flows_of_the_other() {
    let (mut world, [one, other], to) = sharing();
    for from in [one, other] {
        for _ in 0..3 {
            send_until_it_arrives(&mut world, from, to);
        }
    }
    let name = world.name(to);
    // Only the one that asked is told.
    world.nodes[to].core.leave(world.now);
    world.run(SECOND);
    assert_eq!([0, 1].map(|router| world.counters(router).rib_changes), [1, 0]);
    let forwarded = world.counters(1).forwarded_pdus;
    world.nodes[other].core.send(name, 7, b"still there?", world.now).expect("room");
    world.settle();
    assert_eq!(world.counters(1).forwarded_pdus, forwarded);
    assert_eq!(world.routers[1].switch.status(world.now).routes, 0);
}

//! A name that moves is found again: at another address, or at another router.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, StationId, World};

const SECOND: Duration = Duration::from_secs(1);

fn scene(seed: u64, routers: usize) -> (World, Vec<StationId>, StationId, StationId) {
    let mut world = World::new(seed, Conditions::LAN);
    world.add_rib();
    let line = world.add_line(routers);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[routers - 1]));
    world.run(5 * SECOND);
    world.send(a, b, 50).unwrap();
    world.send(b, a, 50).unwrap();
    world.run(SECOND);
    assert_eq!((world.received(a).len(), world.received(b).len()), (1, 1));
    (world, line, a, b)
}

/// Sends both ways every second until both ways work again; the seconds it took.
fn seconds_until_both_ways(world: &mut World, a: StationId, b: StationId) -> u64 {
    let before = (world.received(a).len(), world.received(b).len());
    for second in 0..90 {
        let _ = world.send(a, b, 50);
        let _ = world.send(b, a, 50);
        world.run(SECOND);
        if world.received(a).len() > before.0 && world.received(b).len() > before.1 {
            return second;
        }
    }
    world.give_up("they do not reach each other");
}

#[test]
fn to_another_address() {
    let (mut world, _, a, b) = scene(1, 3);
    for _ in 0..5 {
        world.apply(&Fault::MoveAddress(b));
        let took = seconds_until_both_ways(&mut world, a, b);
        assert!(took <= 1, "{took} s");
    }
}

#[test]
fn to_another_router_and_back() {
    for routers in [2, 3, 5] {
        let (mut world, line, a, b) = scene(2, routers);
        for router in [line[0], line[routers / 2], line[routers - 1], line[0]] {
            world.apply(&Fault::MoveRouter { node: b, router });
            let took = seconds_until_both_ways(&mut world, a, b);
            assert!(took <= 30, "{routers} routers, to {router:?}: {took} s\n{}", world.history());
        }
    }
}

#[test]
fn both_at_once() {
    let (mut world, line, a, b) = scene(3, 3);
    world.apply(&Fault::MoveRouter { node: a, router: line[2] });
    world.apply(&Fault::MoveRouter { node: b, router: line[0] });
    let took = seconds_until_both_ways(&mut world, a, b);
    assert!(took <= 30, "{took} s\n{}", world.history());
}

#[test]
fn a_process_that_restarts_under_its_name_is_the_same_to_others() {
    let (mut world, _, a, b) = scene(4, 3);
    for _ in 0..3 {
        world.apply(&Fault::Start(b));
        let took = seconds_until_both_ways(&mut world, a, b);
        assert!(took <= 25, "{took} s\n{}", world.history());
    }
}

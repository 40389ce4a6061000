//! A label stands for the names that it was given for, whatever happened to whoever gave it: no
//! message is taken for another's, and none goes to another.

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, StationId, World};

const SECOND: Duration = Duration::from_secs(1);

/// Five nodes at three routers, with labels for every pair of them.
fn scene(seed: u64) -> (World, Vec<StationId>, Vec<StationId>) {
    let mut world = World::new(seed, Conditions::LAN);
    world.add_rib();
    let line = world.add_line(3);
    let at = [0, 2, 0, 2, 1];
    let nodes: Vec<_> = at.iter().map(|router| world.add_node(line[*router])).collect();
    world.run(5 * SECOND);
    for _ in 0..3 {
        everybody_talks(&mut world, &nodes);
    }
    (world, line, nodes)
}

/// The witness ends the world when a message is taken for another's, or goes to another.
fn everybody_talks(world: &mut World, nodes: &[StationId]) {
    for from in nodes {
        for to in nodes.iter().filter(|to| *to != from) {
            let _ = world.send(*from, *to, 100);
        }
        world.run(Duration::from_millis(100));
    }
}

#[test]
fn they_do_not_outlive_a_node_that_restarts() {
    for seed in 0..5 {
        let (mut world, _, nodes) = scene(seed);
        let restarted = nodes[seed as usize];
        world.apply(&Fault::Start(restarted));
        assert!(world.run_until(5 * SECOND, |world| world.is_joined(restarted)));
        // In another order than before, so that it would give the same labels to others.
        let others: Vec<_> = nodes.iter().rev().copied().collect();
        for _ in 0..20 {
            everybody_talks(&mut world, &others);
        }
    }
}

#[test]
fn they_do_not_outlive_a_router_that_restarts() {
    for seed in 0..3 {
        let (mut world, line, nodes) = scene(seed);
        world.apply(&Fault::Start(line[seed as usize]));
        let others: Vec<_> = nodes.iter().rev().copied().collect();
        for _ in 0..60 {
            everybody_talks(&mut world, &others);
        }
    }
}

#[test]
fn they_do_not_follow_a_flow_to_another_next_hop() {
    for seed in 0..5 {
        let (mut world, line, nodes) = scene(seed);
        let moved = nodes[seed as usize];
        world.apply(&Fault::MoveRouter { node: moved, router: line[seed as usize % 3] });
        world.run(25 * SECOND);
        for _ in 0..30 {
            for from in nodes.iter().filter(|from| **from != moved) {
                // Too large to carry their chain along.
                let _ = world.send(*from, moved, 1300);
            }
            world.run(SECOND);
        }
        for from in nodes.iter().filter(|from| **from != moved) {
            let name = world.name(*from);
            let late = |d: &&rhumb_sim::Delivery| d.from == name && d.at > world.now() - 5 * SECOND;
            assert!(world.received(moved).iter().filter(late).count() >= 4, "{}", world.history());
        }
    }
}

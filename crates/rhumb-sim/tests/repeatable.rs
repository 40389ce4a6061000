//! A run is a function of its seed.

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, World};

/// A life with losses, of handshakes, too, a move, a pause and a short partition.
fn live(seed: u64) -> (u64, u64, usize) {
    let mut world = World::new(seed, Conditions::ROUGH);
    world.add_rib();
    let line = world.add_line(4);
    let nodes: Vec<_> = line.iter().map(|router| world.add_node(*router)).collect();
    world.run(Duration::from_secs(5));
    for (at, from, to) in (0..200u64).map(|n| (n * 97, n as usize % 4, n as usize * 7 % 4)) {
        world.schedule_message(Duration::from_millis(at), nodes[from], nodes[to], 100);
    }
    let second = Duration::from_secs;
    world.schedule(second(4), Fault::Freeze(line[1]));
    world.schedule(second(6), Fault::Thaw(line[1]));
    world.schedule(second(8), Fault::Part(vec![line[2], nodes[2]]));
    world.schedule(second(12), Fault::MendAll);
    world.schedule(second(14), Fault::MoveRouter { node: nodes[3], router: line[0] });
    world.run(second(60));
    let delivered = nodes.iter().map(|node| world.received(*node).len()).sum();
    (world.digest(), world.totals().events, delivered)
}

#[test]
fn the_same_seed_is_the_same_life_and_another_is_another() {
    let (digest, events, delivered) = live(1);
    assert!(delivered > 100, "{delivered} of 200");
    for _ in 0..3 {
        assert_eq!(live(1), (digest, events, delivered));
    }
    assert_ne!(live(2).0, digest);
}

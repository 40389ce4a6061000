//! Two processes that hold one key claim one name at two routers: the newest statement wins, and everybody agrees.

use std::time::Duration;

use rhumb_sim::{Conditions, World};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_newer_claim_gets_the_traffic_and_nothing_comes_twice() {
    for seed in 1..=5 {
        let mut world = World::new(seed, Conditions::LAN);
        world.add_rib();
        let line = world.add_line(3);
        let (a, first) = (world.add_node(line[1]), world.add_node(line[0]));
        world.run(5 * SECOND);
        world.send(a, first, 50).unwrap();
        world.run(SECOND);
        assert_eq!(world.received(first).len(), 1);
        let second = world.add_double(first, line[2]);
        assert!(world.run_until(5 * SECOND, |world| world.is_published(second)));
        // The old way is told to whoever used it by its router's refusals, or when its lease is renewed.
        world.run(10 * SECOND);
        let before = (world.received(first).len(), world.received(second).len());
        for _ in 0..60 {
            world.send(a, first, 50).unwrap();
            world.run(10 * SECOND);
        }
        let got = (world.received(first).len() - before.0, world.received(second).len() - before.1);
        assert!(got.0 + got.1 >= 55, "{got:?}: {}", world.history());
        // Both renew every five minutes, so each is the newest in turn.
        assert!(got.1 > 0, "the newer claim got nothing: {}", world.history());
    }
}

#[test]
fn when_the_older_one_goes_silent_the_newer_one_gets_everything() {
    let mut world = World::new(6, Conditions::LAN);
    world.add_rib();
    let line = world.add_line(3);
    let (a, first) = (world.add_node(line[1]), world.add_node(line[0]));
    world.run(5 * SECOND);
    world.send(a, first, 50).unwrap();
    world.run(SECOND);
    let second = world.add_double(first, line[2]);
    assert!(world.run_until(5 * SECOND, |world| world.is_published(second)));
    world.apply(&rhumb_sim::Fault::Crash(first));
    world.run(25 * SECOND);
    for _ in 0..20 {
        world.send(a, first, 50).unwrap();
        world.run(SECOND);
    }
    let got = world.received(second).len();
    assert!(got >= 18, "{got} of 20: {}", world.history());
}

//! Two processes that hold one key claim one name at two routers: the newest statement wins, and everybody agrees.

use std::time::Duration;

use rhumb_node::core::Event;
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
        world.run(SECOND);
        // Both are told: the one that it is in, the other one by its router that, and where, the name is now.
        let name = world.name(first);
        let moved = rhumb_switch::Event::Moved { name };
        assert!(world.router_events(line[0]).contains(&moved), "{}", world.history());
        let via = world.name(line[2]);
        let told = world.told(first).last().map(|(_, event)| event.clone());
        assert_eq!(told, Some(Event::Displaced { via }), "{}", world.history());
        let before = (world.received(first).len(), world.received(second).len());
        for _ in 0..60 {
            world.send(a, first, 50).unwrap();
            world.run(10 * SECOND);
        }
        let got = (world.received(first).len() - before.0, world.received(second).len() - before.1);
        assert_eq!(got, (0, 60), "{}", world.history());
        assert!(world.is_published(second));
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

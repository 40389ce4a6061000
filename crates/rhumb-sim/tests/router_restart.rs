//! A router that crashes and comes back takes its place again, whichever it is.

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, World};

const SECOND: Duration = Duration::from_secs(1);

/// Sends every second until one arrives after `since` messages; the seconds it took.
fn seconds_until_delivered(
    world: &mut World,
    a: rhumb_sim::StationId,
    b: rhumb_sim::StationId,
) -> u64 {
    let before = world.received(b).len();
    for second in 0..120 {
        // Refused while the node has no router and its buffer is full.
        let _ = world.send(a, b, 50);
        world.run(SECOND);
        if world.received(b).len() > before {
            return second;
        }
    }
    world.give_up("nothing arrives any more");
}

#[test]
fn any_router_of_the_path_may_restart() {
    for restarted in 0..3 {
        for down in [Duration::from_millis(1), 2 * SECOND, 60 * SECOND] {
            let mut world = World::new(restarted as u64, Conditions::LAN);
            world.add_rib();
            let line = world.add_line(3);
            let (a, b) = (world.add_node(line[0]), world.add_node(line[2]));
            world.run(5 * SECOND);
            seconds_until_delivered(&mut world, a, b);
            world.apply(&Fault::Crash(line[restarted]));
            world.run(down);
            world.apply(&Fault::Start(line[restarted]));
            let took = seconds_until_delivered(&mut world, a, b);
            // Whoever did not notice does so after 20 s of silence, and then makes a new session.
            assert!(took <= 45, "router {restarted}, down for {down:?}: {took} s");
            let back = seconds_until_delivered(&mut world, b, a);
            assert!(back <= 45, "router {restarted}, down for {down:?}: {back} s back");
        }
    }
}

#[test]
fn a_frozen_router_goes_on_where_it_stopped() {
    let mut world = World::new(9, Conditions::LAN);
    world.add_rib();
    let line = world.add_line(3);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[2]));
    world.run(5 * SECOND);
    seconds_until_delivered(&mut world, a, b);
    for frozen in [SECOND, 10 * SECOND, 60 * SECOND] {
        world.apply(&Fault::Freeze(line[1]));
        world.run(frozen);
        world.apply(&Fault::Thaw(line[1]));
        assert!(seconds_until_delivered(&mut world, a, b) <= 45, "after {frozen:?}");
    }
}

//! Nobody makes a station send more to a victim than is sent in the
//! victim's name, and old datagrams do nothing.

#![allow(clippy::unwrap_used)] // A test may.

use std::net::SocketAddr;
use std::time::Duration;

use rhumb_sim::{Conditions, Flight, World};

const SECOND: Duration = Duration::from_secs(1);

/// A world in which a node joins and talks, and all that was sent.
fn recorded() -> (World, [rhumb_sim::StationId; 2], Vec<(Duration, Flight)>) {
    let mut world = World::new(1, Conditions::LAN);
    world.tap();
    world.add_rib();
    let line = world.add_line(2);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[1]));
    world.run(3 * SECOND);
    world.send(a, b, 200).unwrap();
    world.run(3 * SECOND);
    assert_eq!(world.received(b).len(), 1);
    let seen = world.tap();
    assert!(seen.len() > 50);
    (world, [a, b], seen)
}

#[test]
fn whatever_is_replayed_from_a_victims_address_gains_nothing() {
    let (mut world, [a, b], seen) = recorded();
    let victim: SocketAddr = "203.0.113.9:9".parse().unwrap();
    // The witness counts what goes to the victim, and ends the
    // world when it is more than came from there.
    for round in 0..3 {
        for (_, flight) in &seen {
            world.inject(victim, flight.to, &flight.bytes);
            world.run(Duration::from_millis(2 + 400 * round));
        }
    }
    world.run(30 * SECOND);
    world.send(a, b, 200).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(b).len(), 2);
}

#[test]
fn whatever_is_replayed_from_its_own_address_is_not_delivered_again() {
    let (mut world, [a, b], seen) = recorded();
    for (_, flight) in &seen {
        world.inject(flight.from, flight.to, &flight.bytes);
        world.run(Duration::from_millis(3));
    }
    world.run(30 * SECOND);
    assert_eq!(world.received(b).len(), 1);
    world.send(a, b, 200).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(b).len(), 2, "{}", world.history());
}

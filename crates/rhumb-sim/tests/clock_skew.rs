//! Clocks that differ by half a minute make no difference; one that is an hour off is refused,
//! cleanly, and nobody else suffers.

use std::time::Duration;

use rhumb_node::core::{Disconnection, Event};
use rhumb_sim::{Conditions, Fault, StationId, World};
use rhumb_wire::nack::Reason;
use rhumb_wire::rib::Refusal;

const SECOND: Duration = Duration::from_secs(1);
const HOUR_MS: i64 = 3_600_000;

struct Scene {
    world: World,
    rib: StationId,
    line: Vec<StationId>,
    nodes: [StationId; 3],
}

/// Three routers and three nodes, some of whose clocks are off before anything happens.
fn scene(seed: u64, skew: impl Fn(&mut World, StationId, &[StationId])) -> Scene {
    let mut world = World::new(seed, Conditions::LAN);
    let rib = world.add_rib();
    let line = world.add_line(3);
    skew(&mut world, rib, &line);
    let nodes = [line[0], line[2], line[2]].map(|router| world.add_node(router));
    Scene { world, rib, line, nodes }
}

fn set(world: &mut World, station: StationId, ahead_ms: i64) {
    world.apply(&Fault::SetClock { station, ahead_ms });
}

#[test]
fn half_a_minute_either_way_is_nothing() {
    for (seed, sign) in [(1, 1), (2, -1)] {
        let Scene { mut world, nodes: [a, b, _], .. } = scene(seed, |world, rib, line| {
            set(world, rib, sign * 30_000);
            set(world, line[0], -sign * 30_000);
            set(world, line[1], sign * 30_000);
        });
        set(&mut world, b, -sign * 30_000);
        let published = |world: &World| world.is_published(a) && world.is_published(b);
        assert!(world.run_until(5 * SECOND, published), "{}", world.history());
        for minute in 0..45 {
            world.send(a, b, 50).unwrap();
            world.send(b, a, 50).unwrap();
            world.run(60 * SECOND);
            assert_eq!(world.received(b).len(), minute + 1, "{}", world.history());
            assert_eq!(world.received(a).len(), minute + 1, "{}", world.history());
        }
    }
}

/// What a router says of a statement by a clock that is so far ahead of its own.
fn verdict(ahead_ms: i64) -> Reason {
    if ahead_ms > 0 { Reason::NotYetValid } else { Reason::Expired }
}

#[test]
fn a_node_that_is_an_hour_off_is_refused_and_others_are_not() {
    for (seed, ahead_ms) in [(3, HOUR_MS), (4, -HOUR_MS)] {
        let Scene { mut world, line, nodes: [a, b, _], .. } = scene(seed, |_, _, _| ());
        let off = world.add_node(line[0]);
        set(&mut world, off, ahead_ms);
        world.run(30 * SECOND);
        assert!(!world.is_joined(off));
        let why = verdict(ahead_ms);
        let refused =
            |event: &Event| matches!(event, Event::Refused { reason, .. } if *reason == why);
        assert!(world.told(off).iter().any(|(_, event)| refused(event)), "{}", world.history());
        world.send(a, b, 50).unwrap();
        world.run(SECOND);
        assert_eq!(world.received(b).len(), 1);
        // A first refusal ends the process; the next one has the right time.
        set(&mut world, off, 0);
        world.apply(&Fault::Start(off));
        assert!(world.run_until(5 * SECOND, |world| world.is_published(off)));
        world.send(off, b, 50).unwrap();
        world.run(SECOND);
        assert_eq!(world.received(b).len(), 2, "{}", world.history());
    }
}

#[test]
fn a_node_whose_clock_jumps_by_an_hour_is_told_why_and_is_back_when_it_is_mended() {
    for (seed, ahead_ms) in [(10, HOUR_MS), (11, -HOUR_MS)] {
        let Scene { mut world, nodes: [a, b, _], .. } = scene(seed, |_, _, _| ());
        world.run(5 * SECOND);
        set(&mut world, b, ahead_ms);
        // Until it has to renew, nothing happens.
        world.run(200 * SECOND);
        assert!(world.is_joined(b));
        world.run(200 * SECOND);
        let why = Disconnection::Refused(verdict(ahead_ms));
        let told =
            |event: &Event| matches!(event, Event::Disconnected { reason, .. } if *reason == why);
        assert!(world.told(b).iter().any(|(_, event)| told(event)), "{}", world.history());
        set(&mut world, b, 0);
        assert!(world.run_until(15 * SECOND, |world| world.is_published(b)), "{}", world.history());
        world.send(a, b, 50).unwrap();
        world.run(5 * SECOND);
        assert_eq!(world.received(b).len(), 1, "{}", world.history());
    }
}

#[test]
fn a_rib_that_is_an_hour_off_stores_nothing_and_says_why() {
    for (seed, ahead_ms) in [(5, HOUR_MS), (6, -HOUR_MS)] {
        let Scene { mut world, rib, line, nodes: [a, b, c], .. } =
            scene(seed, |world, rib, _| set(world, rib, ahead_ms));
        world.run(30 * SECOND);
        assert!(![a, b, c].iter().any(|node| world.is_published(*node)), "{}", world.history());
        assert!(world.received(b).is_empty());
        // Of each name, a router's own included. Its clock ahead is ours behind.
        let why = if ahead_ms > 0 { Refusal::Expired } else { Refusal::NotYetValid };
        for name in [world.name(b), world.name(line[2])] {
            let refused = rhumb_switch::Event::PublishRefused { name, refusal: why };
            assert!(world.router_events(line[2]).contains(&refused));
        }
        // By the routers' clocks nothing is wrong: who is at the same one is served.
        world.send(b, c, 50).unwrap();
        world.run(SECOND);
        assert_eq!(world.received(c).len(), 1, "{}", world.history());
        // When its clock is right again, so is everything, and nobody has to start again.
        set(&mut world, rib, 0);
        let published = |world: &World| world.is_published(a) && world.is_published(b);
        assert!(world.run_until(60 * SECOND, published), "{}", world.history());
        world.send(a, b, 50).unwrap();
        world.run(5 * SECOND);
        assert_eq!(world.received(b).len(), 1, "{}", world.history());
    }
}

#[test]
fn a_router_that_is_an_hour_off_refuses_with_its_reason_and_serves_when_it_is_mended() {
    for (seed, ahead_ms) in [(12, HOUR_MS), (13, -HOUR_MS)] {
        let Scene { mut world, line, nodes: [a, b, _], .. } =
            scene(seed, |world, _, line| set(world, line[0], ahead_ms));
        world.run(30 * SECOND);
        assert!(!world.is_joined(a));
        let why = verdict(-ahead_ms);
        let refused =
            |event: &Event| matches!(event, Event::Refused { reason, .. } if *reason == why);
        assert!(world.told(a).iter().any(|(_, event)| refused(event)), "{}", world.history());
        assert!(world.is_published(b), "others have other routers");
        set(&mut world, line[0], 0);
        world.apply(&Fault::Start(a));
        assert!(world.run_until(30 * SECOND, |world| world.is_published(a)), "{}", world.history());
        world.run(15 * SECOND);
        world.send(a, b, 50).unwrap();
        world.run(5 * SECOND);
        assert_eq!(world.received(b).len(), 1, "{}", world.history());
    }
}

#[test]
fn a_router_whose_clock_jumps_by_an_hour_and_back_serves_again() {
    for (seed, ahead_ms) in [(7, HOUR_MS), (8, -HOUR_MS)] {
        let Scene { mut world, line, nodes: [a, b, _], .. } = scene(seed, |_, _, _| ());
        world.run(5 * SECOND);
        world.send(a, b, 50).unwrap();
        world.run(SECOND);
        set(&mut world, line[0], ahead_ms);
        world.run(400 * SECOND);
        set(&mut world, line[0], 0);
        world.run(60 * SECOND);
        let before = world.received(b).len();
        assert!(world.run_until(60 * SECOND, |world| world.is_joined(a)), "{}", world.history());
        world.send(a, b, 50).unwrap();
        world.run(5 * SECOND);
        assert_eq!(world.received(b).len(), before + 1, "{}", world.history());
    }
}

#[test]
fn a_clock_that_is_set_back_does_not_lock_its_node_out() {
    let Scene { mut world, nodes: [a, b, _], .. } = scene(9, |_, _, _| ());
    set(&mut world, b, 20_000);
    world.run(5 * SECOND);
    assert!(world.is_published(b));
    // It is corrected, and the process starts again: its
    // statements would be older than those it made before.
    set(&mut world, b, 0);
    world.apply(&Fault::Start(b));
    world.run(40 * SECOND);
    assert!(world.is_joined(b), "{}", world.history());
    world.send(a, b, 50).unwrap();
    world.run(5 * SECOND);
    assert_eq!(world.received(b).len(), 1, "{}", world.history());
}

#[test]
fn a_clock_that_is_set_back_does_not_lock_its_router_out() {
    let Scene { mut world, line, nodes: [a, b, _], .. } = scene(14, |_, _, _| ());
    // The one in the middle has an address; whoever starts later has to find it in the RIB.
    set(&mut world, line[1], 50_000);
    world.apply(&Fault::Start(line[1]));
    world.run(30 * SECOND);
    set(&mut world, line[1], 0);
    world.apply(&Fault::Start(line[1]));
    world.run(3 * SECOND);
    let name = world.name(line[1]);
    let told = world.router_events(line[1]);
    let refusal = Refusal::Superseded;
    assert!(told.contains(&rhumb_switch::Event::PublishRefused { name, refusal }), "{told:?}");
    assert!(told.contains(&rhumb_switch::Event::Published { name }), "{told:?}");
    world.run(30 * SECOND);
    world.send(a, b, 50).unwrap();
    world.run(5 * SECOND);
    assert_eq!(world.received(b).len(), 1, "{}", world.history());
}

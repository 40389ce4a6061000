//! A RIB can withhold, and that is all it can do: whatever it makes up, nothing goes where its name
//! is not, and when it tells the truth again, everything works again.

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, Lie, StationId, World};

const SECOND: Duration = Duration::from_secs(1);

struct Scene {
    world: World,
    rib: StationId,
    line: Vec<StationId>,
    a: StationId,
    b: StationId,
    c: StationId,
}

fn scene(seed: u64) -> Scene {
    let mut world = World::new(seed, Conditions::LAN);
    let rib = world.add_lying_rib();
    let line = world.add_line(3);
    let (a, b, c) = (world.add_node(line[0]), world.add_node(line[2]), world.add_node(line[1]));
    let all = |world: &World| [a, b, c].iter().all(|node| world.is_published(*node));
    assert!(world.run_until(5 * SECOND, all), "{}", world.history());
    Scene { world, rib, line, a, b, c }
}

fn refused(world: &World, line: &[StationId]) -> u64 {
    let switches = line.iter().filter_map(|router| world.switch(*router));
    switches.map(|switch| switch.counters().chains_refused).sum()
}

/// Sends until something arrives, for ten seconds.
fn reaches(world: &mut World, from: StationId, to: StationId) -> bool {
    let (before, name) = (world.received(to).len(), world.name(from));
    (0..10).any(|_| {
        let _ = world.send(from, to, 50);
        world.run(SECOND);
        world.received(to)[before..].iter().any(|message| message.from == name)
    })
}

#[test]
fn made_up_routes_are_refused_by_whoever_asks() {
    let Scene { mut world, rib, line, a, b, c } = scene(1);
    world.apply(&Fault::SetLie(rib, Lie::Forge { via: world.name(line[1]) }));
    assert!(!reaches(&mut world, a, b), "the forged way leads nowhere");
    assert!(refused(&world, &line) > 0);
    assert!(world.received(c).is_empty());
    world.apply(&Fault::SetLie(rib, Lie::None));
    assert!(reaches(&mut world, a, b), "{}", world.history());
}

#[test]
fn another_names_route_is_refused() {
    let Scene { mut world, rib, line, a, b, c } = scene(2);
    // So that it has heard of another name, by which it can answer.
    assert!(reaches(&mut world, a, c));
    world.apply(&Fault::SetLie(rib, Lie::ServeAnother));
    let before = world.received(c).len();
    assert!(!reaches(&mut world, a, b));
    assert!(refused(&world, &line) > 0);
    assert_eq!(world.received(c).len(), before, "nothing for one name goes to another");
    world.apply(&Fault::SetLie(rib, Lie::None));
    assert!(reaches(&mut world, a, b), "{}", world.history());
}

#[test]
fn an_old_route_leads_where_the_name_was_and_no_further() {
    let Scene { mut world, rib, line, a, b, .. } = scene(3);
    assert!(reaches(&mut world, a, b));
    world.apply(&Fault::SetLie(rib, Lie::ServeOld));
    world.apply(&Fault::MoveRouter { node: b, router: line[1] });
    world.run(25 * SECOND);
    let before = world.received(b).len();
    for _ in 0..10 {
        let _ = world.send(a, b, 50);
        world.run(SECOND);
    }
    // It was signed, and it is not yet over: whoever believes it is told
    // by the old place that the name is not there.
    let arrived = world.received(b).len() - before;
    assert!(arrived <= 10);
    world.apply(&Fault::SetLie(rib, Lie::None));
    world.run(5 * SECOND);
    assert!(reaches(&mut world, a, b), "{}", world.history());
}

#[test]
fn a_denial_is_believed_for_seconds_only() {
    let Scene { mut world, rib, a, b, .. } = scene(4);
    world.apply(&Fault::SetLie(rib, Lie::Deny));
    assert!(!reaches(&mut world, a, b), "it can withhold");
    world.apply(&Fault::SetLie(rib, Lie::None));
    assert!(reaches(&mut world, a, b), "{}", world.history());
}

#[test]
fn known_flows_do_not_hear_lies() {
    for (seed, lie) in [(5, Lie::Deny), (6, Lie::Withhold), (7, Lie::ServeAnother)] {
        let Scene { mut world, rib, a, b, c, .. } = scene(seed);
        assert!(reaches(&mut world, a, b) && reaches(&mut world, a, c));
        world.apply(&Fault::SetLie(rib, lie));
        let before = world.received(b).len();
        for sent in 0..60 {
            world.send(a, b, 50).unwrap();
            world.run(SECOND);
            assert_eq!(world.received(b).len(), before + sent + 1, "{lie:?}: {}", world.history());
        }
    }
}

#[test]
fn acknowledging_without_storing_is_withholding() {
    let mut world = World::new(8, Conditions::LAN);
    let rib = world.add_lying_rib();
    let line = world.add_line(3);
    world.run(2 * SECOND);
    world.apply(&Fault::SetLie(rib, Lie::Forget));
    let (a, b) = (world.add_node(line[0]), world.add_node(line[2]));
    world.run(3 * SECOND);
    assert!(!reaches(&mut world, a, b));
    world.apply(&Fault::SetLie(rib, Lie::None));
    // At half-life everybody publishes again.
    world.run(310 * SECOND);
    assert!(reaches(&mut world, a, b), "{}", world.history());
}

/// Moves a node from the last but one router of a line to the last, which is on nobody's way, while
/// another one goes on sending to it from the far end, for `limit` at most; how long nothing
/// arrived although the RIBs knew.
fn time_to_follow(world: &mut World, limit: Duration) -> Duration {
    let line = world.add_line(5);
    let (from, to) = (world.add_node(line[0]), world.add_node(line[3]));
    assert!(world.run_until(5 * SECOND, |world| world.is_published(to)), "{}", world.history());
    assert!(reaches(world, from, to), "{}", world.history());
    world.apply(&Fault::MoveRouter { node: to, router: line[4] });
    assert!(world.run_until(5 * SECOND, |world| world.is_published(to)), "{}", world.history());
    let (before, start) = (world.received(to).len(), world.now());
    while world.received(to).len() == before {
        assert!(world.now() < start + limit, "{}", world.history());
        let _ = world.send(from, to, 50);
        world.run(SECOND / 10);
    }
    world.now() - start
}

#[test]
fn a_change_that_no_rib_tells_is_found_when_the_old_place_notices() {
    // The lying one tells of no changes, even while it answers the truth. The old router
    // sees the old session fall silent in 20 s at most, says that the name is not there,
    // and the RIB is asked anew. Were that router to lie, too, the route would be asked
    // for again after three quarters of its lease.
    let mut world = World::new(9, Conditions::LAN);
    world.add_lying_rib();
    let took = time_to_follow(&mut world, 23 * SECOND);
    assert!(took > SECOND, "somebody told of it after {took:?}");
}

#[test]
fn one_honest_rib_among_several_brings_a_change_within_a_second() {
    for seed in 10..15 {
        let mut world = World::new(seed, Conditions::LAN);
        world.add_lying_rib();
        world.add_rib();
        let took = time_to_follow(&mut world, 2 * SECOND);
        assert!(took <= SECOND, "{took:?}");
    }
}

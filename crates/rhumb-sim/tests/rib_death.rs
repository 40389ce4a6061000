//! With the RIB dead, known flows live on and nothing storms; when
//! it is back, so is everything, from its store.

use std::time::Duration;

use rhumb_node::core::Event;
use rhumb_sim::{Conditions, Fault, StationId, World};
use rhumb_switch::DropReason;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn known_flows_live_and_new_ones_wait_for_the_rib() {
    let mut world = World::new(1, Conditions::LAN);
    let rib = world.add_rib();
    let line = world.add_line(3);
    let (a, b, c) = (world.add_node(line[0]), world.add_node(line[2]), world.add_node(line[2]));
    world.run(5 * SECOND);
    world.send(a, b, 50).unwrap();
    world.run(SECOND);
    world.apply(&Fault::Crash(rib));
    for second in 0..300 {
        world.send(a, b, 50).unwrap();
        world.run(SECOND);
        assert_eq!(world.received(b).len(), second + 2, "{}", world.history());
    }
    // Nobody has asked for it yet, and nobody can be asked.
    world.send(a, c, 50).unwrap();
    world.run(10 * SECOND);
    assert!(world.received(c).is_empty());
    let name = world.name(c);
    let given_up = |event: &Event| matches!(event, Event::SendFailed { to, .. } if *to == name);
    assert!(world.told(a).iter().any(|(_, event)| given_up(event)), "{}", world.history());
    world.apply(&Fault::Start(rib));
    world.run(10 * SECOND);
    world.send(a, c, 50).unwrap();
    world.run(5 * SECOND);
    assert_eq!(world.received(c).len(), 1, "{}", world.history());
}

#[test]
fn a_node_joins_unpublished_and_is_published_when_the_rib_is_back() {
    let mut world = World::new(2, Conditions::LAN);
    let rib = world.add_rib();
    let line = world.add_line(3);
    world.run(5 * SECOND);
    world.apply(&Fault::Crash(rib));
    world.run(30 * SECOND);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[0]));
    world.run(10 * SECOND);
    assert!(world.is_joined(a) && !world.is_published(a));
    world.send(a, b, 50).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(b).len(), 1, "one router needs no RIB");
    world.apply(&Fault::Start(rib));
    let published = |world: &World| world.is_published(a) && world.is_published(b);
    assert!(world.run_until(45 * SECOND, published), "{}", world.history());
}

#[test]
fn what_was_acknowledged_survives_the_crash() {
    let mut world = World::new(3, Conditions::LAN);
    let rib = world.add_rib();
    let line = world.add_line(3);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[2]));
    assert!(world.run_until(5 * SECOND, |w| w.is_published(a) && w.is_published(b)));
    world.apply(&Fault::Crash(rib));
    world.run(3 * SECOND);
    world.apply(&Fault::Start(rib));
    // The routers notice after 20 s of silence.
    world.run(25 * SECOND);
    world.send(a, b, 50).unwrap();
    world.run(2 * SECOND);
    assert_eq!(world.received(b).len(), 1, "{}", world.history());
}

#[test]
fn a_router_that_missed_a_withdrawal_hears_of_it_from_the_next_one() {
    let mut world = World::new(4, Conditions::LAN);
    let rib = world.add_rib();
    // From `a` to `b` it goes by the one in the middle, from `b` to `a` directly.
    let (first, middle) = (world.add_router(None), world.add_router(None));
    let last = world.add_router(Some(middle));
    let (a, b) = (world.add_node(first), world.add_node(last));
    world.run(5 * SECOND);
    // The one in the middle lets traffic of `a` in, by what `a` said then.
    assert!(reaches(&mut world, a, b));
    // The RIB starts again, and has forgotten whom to tell
    // of changes; only the last router asks again.
    world.apply(&Fault::Crash(rib));
    world.run(25 * SECOND);
    world.apply(&Fault::Leave(a));
    world.run(5 * SECOND);
    world.apply(&Fault::Cut(first, rib));
    world.apply(&Fault::Start(rib));
    world.run(10 * SECOND);
    assert!(!reaches(&mut world, b, a), "it has left");
    // Now `a` is withdrawn, and comes back.
    world.apply(&Fault::MendAll);
    world.run(10 * SECOND);
    world.apply(&Fault::Start(a));
    assert!(world.run_until(10 * SECOND, |world| world.is_published(a)), "{}", world.history());
    assert!(reaches(&mut world, b, a), "{}", world.history());
    assert!(reaches(&mut world, a, b), "{}", world.history());
    // The last one refused what the one in the middle still went by.
    let refused = world.switch(last).unwrap().counters().dropped(DropReason::Superseded);
    assert!((1..5).contains(&refused), "{refused} times");
}

/// Whether one of a few messages arrives.
fn reaches(world: &mut World, from: StationId, to: StationId) -> bool {
    let before = world.received(to).len();
    (0..5).any(|_| {
        let _ = world.send(from, to, 50);
        world.run(SECOND);
        world.received(to).len() > before
    })
}

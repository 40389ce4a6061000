//! A network that falls apart serves each part as far as it can, and grows together again.

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, World};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn each_part_serves_its_own_and_all_is_well_after() {
    for lasts in [5 * SECOND, 60 * SECOND, 900 * SECOND] {
        let mut world = World::new(1, Conditions::LAN);
        world.add_rib();
        let line = world.add_line(3);
        let (a, b) = (world.add_node(line[0]), world.add_node(line[2]));
        let c = world.add_node(line[2]);
        world.run(5 * SECOND);
        for (from, to) in [(a, b), (c, b)] {
            world.send(from, to, 50).unwrap();
        }
        world.run(SECOND);
        world.apply(&Fault::Part(vec![line[2], b, c]));
        world.run(lasts);
        let before = world.received(b).len();
        world.send(c, b, 50).unwrap();
        let _ = world.send(a, b, 50);
        world.run(SECOND);
        assert_eq!(world.received(b).len(), before + 1, "its own part reaches it");
        world.apply(&Fault::MendAll);
        let name = world.name(a);
        let mut reached = false;
        for _ in 0..60 {
            let _ = world.send(a, b, 50);
            world.run(SECOND);
            reached = world.received(b)[before..].iter().any(|message| message.from == name);
            if reached {
                break;
            }
        }
        assert!(reached, "after {lasts:?}: {}", world.history());
    }
}

#[test]
fn a_link_that_is_cut_one_way_is_noticed_by_both() {
    let mut world = World::new(2, Conditions::LAN);
    world.add_rib();
    let line = world.add_line(3);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[2]));
    world.run(5 * SECOND);
    world.apply(&Fault::CutOneWay(line[1], line[2]));
    world.run(30 * SECOND);
    let sessions = |world: &World, router| {
        let switch = world.switch(router).unwrap();
        switch.status(world.clock_of(router)).sessions.len()
    };
    assert_eq!(sessions(&world, line[2]), 2, "the RIB and its node");
    assert_eq!(sessions(&world, line[1]), 2, "the RIB and the other router");
    world.apply(&Fault::MendAll);
    world.run(30 * SECOND);
    world.send(a, b, 50).unwrap();
    world.run(5 * SECOND);
    assert_eq!(world.received(b).len(), 1, "{}", world.history());
}

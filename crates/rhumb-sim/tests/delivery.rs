//! Nodes join and reach each other over one to seven routers, on good links and bad ones.

use std::time::Duration;

use rhumb_sim::{Conditions, World};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn on_good_links_everything_arrives_soon() {
    for routers in 1..=7 {
        let mut world = World::new(routers, Conditions::LAN);
        world.add_rib();
        let line = world.add_line(routers as usize);
        let (a, b) = (world.add_node(line[0]), world.add_node(line[line.len() - 1]));
        let both = |world: &World| world.is_published(a) && world.is_published(b);
        assert!(world.run_until(3 * SECOND, both), "{routers} routers: {}", world.history());
        for _ in 0..100 {
            world.send(a, b, 100).unwrap();
            world.send(b, a, 1000).unwrap();
            world.run(Duration::from_millis(20));
        }
        world.run(2 * SECOND);
        assert_eq!(world.received(b).len(), 100, "over {routers} routers");
        assert_eq!(world.received(a).len(), 100, "back over {routers} routers");
        let (first, last) = (world.received(b)[0], world.received(b)[99]);
        let took =
            |number| world.message(number).delivered_at.unwrap() - world.message(number).sent_at;
        assert!(took(first.number) < SECOND, "the first took {:?}", took(first.number));
        // Each hop: 200 µs under way and 20 µs until it is read.
        let hops = u32::try_from(routers).unwrap() + 1;
        assert!(took(last.number) <= Duration::from_micros(220) * hops, "{:?}", took(last.number));
    }
}

#[test]
fn on_bad_links_nodes_join_and_most_arrives() {
    for routers in 1..=7 {
        let mut world = World::new(100 + routers, Conditions::ROUGH);
        world.add_rib();
        let line = world.add_line(routers as usize);
        let (a, b) = (world.add_node(line[0]), world.add_node(line[line.len() - 1]));
        let both = |world: &World| world.is_published(a) && world.is_published(b);
        assert!(world.run_until(40 * SECOND, both), "{routers} routers: {}", world.history());
        for _ in 0..200 {
            world.send(a, b, 100).unwrap();
            world.run(Duration::from_millis(50));
        }
        world.run(5 * SECOND);
        // Up to eight hops, each of which loses 3.5 %, keep three in
        // four; PDUs that wait for a path are resent.
        let arrived = world.received(b).len();
        assert!(arrived >= 130, "{arrived} of 200 over {routers} routers: {}", world.history());
    }
}

#[test]
fn a_narrow_link_delays_and_then_drops_and_nobody_minds() {
    let mut world = World::new(3, Conditions::LAN);
    world.add_rib();
    let line = world.add_line(3);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[2]));
    world.run(3 * SECOND);
    world.send(a, b, 100).unwrap();
    world.run(SECOND);
    let narrow =
        Conditions { bandwidth_bps: Some(1_000_000), queue_bytes: 20_000, ..Conditions::LAN };
    world.apply(&rhumb_sim::Fault::SetLink(line[1], line[2], narrow));
    for _ in 0..400 {
        world.send(a, b, 1000).unwrap();
        world.run(Duration::from_millis(2));
    }
    world.run(5 * SECOND);
    let arrived = world.received(b).len();
    // 4 Mbit/s are sent over 1 Mbit/s for 0.8 s.
    assert!((90..200).contains(&arrived), "{arrived} arrived");
    assert!(world.totals().datagrams.overflowed > 100);
    world.send(a, b, 1000).unwrap();
    world.run(SECOND);
    assert_eq!(world.received(b).len(), arrived + 1, "the queue is empty again");
}

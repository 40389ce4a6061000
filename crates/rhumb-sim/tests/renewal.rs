//! Sessions and leases are renewed for as long as it takes, and nothing is lost meanwhile.

use std::time::Duration;

use rhumb_node::core::Event;
use rhumb_sim::{Conditions, World};

#[test]
fn two_hours_of_traffic_lose_nothing_on_good_links() {
    let mut world = World::new(1, Conditions::LAN);
    world.add_rib();
    let line = world.add_line(3);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[2]));
    world.run(Duration::from_secs(5));
    for second in 0..7200 {
        world.send(a, b, 50).unwrap();
        world.run(Duration::from_secs(1));
        assert_eq!(world.received(b).len(), second + 1, "{}", world.history());
    }
    let told = |is: fn(&Event) -> bool| world.told(a).iter().filter(|(_, e)| is(e)).count();
    // Ten minutes, renewed at half-life, and each time told once more when it is published.
    assert!(told(|event| matches!(event, Event::Renewed { .. })) >= 24);
    assert_eq!(told(|event| matches!(event, Event::Disconnected { .. })), 0);
    assert_eq!(told(|event| matches!(event, Event::Joined { .. })), 1);
}

#[test]
fn an_hour_and_a_half_on_bad_links_ends_no_membership() {
    let mut world = World::new(2, Conditions { loss: 0.05, ..Conditions::ROUGH });
    world.add_rib();
    let line = world.add_line(3);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[2]));
    world.run(Duration::from_secs(60));
    for _ in 0..5400 / 5 {
        world.send(a, b, 50).unwrap();
        world.run(Duration::from_secs(5));
    }
    let lost =
        world.told(a).iter().filter(|(_, event)| matches!(event, Event::Disconnected { .. }));
    assert_eq!(lost.count(), 0, "{}", world.history());
    // Four hops that lose 5.5 % keep four in five.
    let arrived = world.received(b).len();
    assert!(arrived >= 780, "{arrived} of 1080");
}

//! A router that dies is noticed by the routers that hand traffic to it, and senders are told
//! instead of losing what they send.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use rhumb_link::{KEEP_ALIVE, PROBES, QUIET};
use rhumb_node::core::{Event, SendFailure};
use rhumb_sim::{Conditions, Fault, Flight, StationId, World};
use rhumb_wire::nack::Reason;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Until a router that is silent amid traffic is taken for gone.
const DETECTION: Duration = Duration::from_millis(250 + 100 * PROBES as u64);

/// Two routers that publish their addresses, and a node at each.
fn two_routers(seed: u64) -> (World, [StationId; 2], [StationId; 2]) {
    let mut world = World::new(seed, Conditions { delay: 5 * MS, ..Conditions::LAN });
    world.add_rib();
    let routers = [world.add_router(None), world.add_router(None)];
    let nodes = routers.map(|router| world.add_node(router));
    world.run(5 * SECOND);
    (world, routers, nodes)
}

/// The first sends to the second every 10 ms; the numbers of the messages, and when they were sent.
fn send_for(world: &mut World, nodes: [StationId; 2], duration: Duration) -> Vec<(u64, Duration)> {
    let end = world.now() + duration;
    let mut sent = Vec::new();
    while world.now() < end {
        if let Ok(number) = world.send(nodes[0], nodes[1], 50) {
            sent.push((number, world.now()));
        }
        world.run(10 * MS);
    }
    sent
}

#[test]
fn who_sends_by_way_of_a_dead_router_is_told_and_resends_when_it_is_back() {
    assert_eq!(DETECTION, QUIET + 100 * MS * PROBES as u32);
    for seed in 1..=3 {
        let (mut world, routers, nodes) = two_routers(seed);
        send_for(&mut world, nodes, SECOND);
        let nacks = |world: &World| world.core(nodes[0]).unwrap().traffic().nacks;
        let (died, before) = (world.now(), nacks(&world));
        world.apply(&Fault::Crash(routers[1]));
        // The last answer may have come as long before.
        let mut sent = send_for(&mut world, nodes, DETECTION - QUIET - 20 * MS);
        assert_eq!(nacks(&world), before, "nobody can know yet");
        sent.extend(send_for(&mut world, nodes, QUIET + 50 * MS));
        assert!(nacks(&world) > before, "{}", world.history());
        sent.extend(send_for(&mut world, nodes, SECOND));
        world.apply(&Fault::Start(routers[1]));
        sent.extend(send_for(&mut world, nodes, 5 * SECOND));
        world.run(5 * SECOND);
        let lost = sent.iter().filter(|(number, _)| world.message(*number).delivered_at.is_none());
        let last = lost.map(|(_, at)| *at).max().unwrap();
        // What was under way between the node and its router is still lost.
        assert!(last <= died + DETECTION + 10 * MS, "lost {:?} after", last - died);
    }
}

#[test]
fn who_is_nowhere_any_more_is_unreachable() {
    let (mut world, routers, nodes) = two_routers(4);
    send_for(&mut world, nodes, SECOND);
    world.apply(&Fault::Crash(routers[1]));
    send_for(&mut world, nodes, 10 * SECOND);
    world.run(5 * SECOND);
    let told = world.told(nodes[0]).iter().filter_map(|(_, event)| match event {
        Event::SendFailed { reason: SendFailure::Nacked(reason), .. } => Some(*reason),
        _ => None,
    });
    let told: Vec<Reason> = told.collect();
    assert!(told.len() > 300, "{} reported", told.len());
    let unreachable = told.iter().filter(|it| matches!(it, Reason::Unreachable(_))).count();
    assert_eq!(unreachable, told.len());
}

#[test]
fn routers_that_have_nothing_to_say_ask_in_place_of_keep_alives() {
    let (mut world, routers, nodes) = two_routers(5);
    send_for(&mut world, nodes, SECOND);
    world.run(60 * SECOND);
    let addresses = routers.map(|router| world.address(router));
    world.tap();
    world.run(600 * SECOND);
    let tapped = world.tap();
    let between = tapped
        .iter()
        .filter(|(_, flight)| addresses.contains(&flight.from) && addresses.contains(&flight.to));
    // A question and an answer each way.
    let most = 4 * 600 / KEEP_ALIVE.as_secs() as usize;
    let count = between.count();
    assert!((most / 2 - 4..=most + 4).contains(&count), "{count} of {most}");
}

#[test]
fn a_router_that_hears_of_nodes_only_now_and_then_does_not_ask_them() {
    let (mut world, routers, nodes) = two_routers(6);
    let (router, node) = (world.address(routers[1]), world.address(nodes[1]));
    send_for(&mut world, nodes, SECOND);
    world.tap();
    // The receiver has nothing to say.
    send_for(&mut world, nodes, 60 * SECOND);
    let tapped = world.tap();
    // Whether the path still carries large datagrams is asked all the same, by large ones.
    let asked = tapped.iter().filter(|(_, Flight { from, to, bytes, .. })| {
        (*from, *to, bytes[0] >> 4) == (router, node, 0xD) && bytes.len() < 1000
    });
    // Its answers to the node's own questions, which come in place of
    // keep-alives; of its own it would have four a second.
    let most = 60 / KEEP_ALIVE.as_secs() as usize + 2;
    let asked = asked.count();
    assert!(asked <= most, "{asked}");
}

//! What a flow loses when its node changes its address, or its router dies, in virtual time: gaps
//! with their bounds, and what became of every message.
//!
//! Run with `--nocapture` to see the figures.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use rhumb_link::{CloseReason, PROBES, QUIET};
use rhumb_node::RouterChoice;
use rhumb_node::core::{Disconnection, Event, SendFailure};
use rhumb_sim::{Conditions, Fault, StationId, World};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Of every link.
const DELAY: Duration = Duration::from_millis(10);
const ROUND_TRIP: Duration = Duration::from_millis(20);
/// Between two messages of a flow.
const INTERVAL: Duration = Duration::from_millis(10);
/// Hosts get to what arrived only after a moment, at every hop.
const READING: Duration = Duration::from_millis(1);

fn conditions() -> Conditions {
    Conditions { delay: DELAY, ..Conditions::LAN }
}

/// What became of the messages of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Account {
    sent: usize,
    lost: usize,
    /// More than two intervals later than an undisturbed one.
    late: usize,
    /// The longest time between two arrivals.
    gap: Duration,
    /// Lost ones were sent no earlier than this before the fault, and no later than this after it.
    lost_from: Duration,
    lost_until: Duration,
}

/// Which messages were sent, and when the flow was disturbed.
struct Flow {
    numbers: Vec<u64>,
    usual: Duration,
}

impl Flow {
    fn new(usual: Duration) -> Self {
        Self { numbers: Vec::new(), usual }
    }

    fn account(&self, world: &World, fault: Duration) -> Account {
        let messages = || self.numbers.iter().map(|number| world.message(*number));
        let mut arrivals: Vec<_> = messages().filter_map(|message| message.delivered_at).collect();
        arrivals.sort_unstable();
        let lost: Vec<_> = messages().filter(|message| message.delivered_at.is_none()).collect();
        let is_late = |message: &&rhumb_sim::Message| {
            message.delivered_at.is_some_and(|at| at - message.sent_at > self.usual + 2 * INTERVAL)
        };
        Account {
            sent: self.numbers.len(),
            lost: lost.len(),
            late: messages().filter(is_late).count(),
            gap: arrivals.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap(),
            lost_from: lost.first().map_or(Duration::ZERO, |m| fault.saturating_sub(m.sent_at)),
            lost_until: lost.last().map_or(Duration::ZERO, |m| m.sent_at.saturating_sub(fault)),
        }
    }
}

/// Lets each pair of `flows` send a message every interval, for `duration`.
fn flow(world: &mut World, flows: &mut [(StationId, StationId, &mut Flow)], duration: Duration) {
    let end = world.now() + duration;
    while world.now() < end {
        for (from, to, flow) in &mut *flows {
            flow.numbers.push(world.send(*from, *to, 50).expect("there is room"));
        }
        world.run(INTERVAL);
    }
}

/// Handshake datagrams that were sent to or from `station` since the last look.
fn handshakes(world: &mut World, station: StationId) -> usize {
    let address = world.address(station);
    let is_handshake = |first: u8| matches!(first, 20..=63 | 0x90 | 0xA0);
    let tapped = world.tap();
    let own = tapped.iter().filter(|(_, flight)| flight.from == address || flight.to == address);
    own.filter(|(_, flight)| is_handshake(flight.bytes[0])).count()
}

/// Two nodes at the ends of a line of two routers, that have talked.
fn two_nodes(seed: u64) -> (World, StationId, StationId) {
    let mut world = World::new(seed, conditions());
    world.add_rib();
    let line = world.add_line(2);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[1]));
    world.run(5 * SECOND);
    for (from, to) in [(a, b), (b, a)] {
        world.send(from, to, 50).unwrap();
    }
    world.run(SECOND);
    (world, a, b)
}

#[test]
fn a_node_that_changes_its_address_mid_flow_keeps_its_session() {
    for seed in 1..=5 {
        let (mut world, a, b) = two_nodes(seed);
        let (mut up, mut down) = (Flow::new(3 * DELAY), Flow::new(3 * DELAY));
        flow(&mut world, &mut [(a, b, &mut up), (b, a, &mut down)], SECOND);
        world.tap();
        let fault = world.now();
        world.apply(&Fault::MoveAddress(a));
        flow(&mut world, &mut [(a, b, &mut up), (b, a, &mut down)], 2 * SECOND);
        world.run(SECOND);
        assert_eq!(handshakes(&mut world, a), 0);
        let (up, down) = (up.account(&world, fault), down.account(&world, fault));
        println!("address changed, sending and receiving: up {up:?}, down {down:?}");
        assert_eq!((up.lost, up.late), (0, 0), "the session index tells whose records they are");
        // Detection: the next record from the new address. Then it, the
        // challenge, the answer, the first message there.
        let detection = INTERVAL;
        assert!(down.gap <= detection + 2 * ROUND_TRIP + INTERVAL + READING, "{down:?}");
        assert!(down.lost as u128 <= down.gap.as_nanos() / INTERVAL.as_nanos() + 1, "{down:?}");
        assert_eq!(down.late, 0);
        assert!(!world.told(a).iter().any(|(at, event)| *at > fault
            && matches!(event, Event::Disconnected { .. } | Event::Joined { .. })));
    }
}

#[test]
fn a_node_that_only_receives_and_changes_its_address_asks_when_nothing_comes() {
    let (mut world, a, b) = two_nodes(6);
    let mut down = Flow::new(3 * DELAY);
    flow(&mut world, &mut [(b, a, &mut down)], SECOND);
    world.tap();
    let fault = world.now();
    world.apply(&Fault::MoveAddress(a));
    flow(&mut world, &mut [(b, a, &mut down)], 2 * SECOND);
    world.run(SECOND);
    assert_eq!(handshakes(&mut world, a), 0);
    let down = down.account(&world, fault);
    println!("address changed, only receiving: {down:?}");
    assert!(down.gap <= QUIET + 2 * ROUND_TRIP + INTERVAL + READING, "{down:?}");
    assert_eq!(down.late, 0);
}

#[test]
fn an_address_that_changes_often_and_on_a_bad_network_costs_no_handshake() {
    let bad = Conditions { spares_handshakes: true, ..Conditions::ROUGH };
    let mut world = World::new(7, bad);
    world.add_rib();
    let line = world.add_line(2);
    let (a, b) = (world.add_node(line[0]), world.add_node(line[1]));
    world.run(10 * SECOND);
    let (mut up, mut down) = (Flow::new(SECOND), Flow::new(SECOND));
    flow(&mut world, &mut [(a, b, &mut up), (b, a, &mut down)], SECOND);
    let fault = world.now();
    world.tap();
    for _ in 0..20 {
        world.apply(&Fault::MoveAddress(a));
        flow(&mut world, &mut [(a, b, &mut up), (b, a, &mut down)], SECOND);
        assert_eq!(handshakes(&mut world, a), 0, "{}", world.history());
    }
    world.run(SECOND);
    let down = down.account(&world, fault);
    println!("address changed 20 times on a bad network: {down:?}");
    // 40 to 80 ms there and back, and now and then a
    // challenge or an answer is lost, which costs 100 ms.
    assert!(down.gap < 500 * MS, "{down:?}");
}

/// Three routers, a node that finds the first two nearby, and one at the third.
fn with_another_router_nearby(seed: u64) -> (World, [StationId; 3], StationId, StationId) {
    let mut world = World::new(seed, conditions());
    world.add_rib();
    let routers = [0; 3].map(|_| world.add_router(None));
    let b = world.add_node(routers[2]);
    let a = world.add_node_with(routers[0], |config| config.router = RouterChoice::discovered());
    world.put_nearby(a, &routers[..2]);
    world.run(5 * SECOND);
    (world, routers, a, b)
}

#[test]
fn a_router_that_dies_mid_flow_is_replaced_and_every_message_accounted_for() {
    for seed in 1..=5 {
        let (mut world, routers, a, b) = with_another_router_nearby(seed);
        let (mut up, mut down) = (Flow::new(3 * DELAY), Flow::new(3 * DELAY));
        flow(&mut world, &mut [(a, b, &mut up), (b, a, &mut down)], 3 * SECOND);
        let fault = world.now();
        let Some(of) = world.core(a).unwrap().router() else {
            world.give_up(&format!("the node has joined nobody: {:?}", world.told(a)));
        };
        let dies = *routers.iter().find(|router| world.name(**router) == of).unwrap();
        world.apply(&Fault::Crash(dies));
        flow(&mut world, &mut [(a, b, &mut up), (b, a, &mut down)], 5 * SECOND);
        world.run(5 * SECOND);

        let after = |is: &dyn Fn(&Event) -> bool| {
            world.told(a).iter().find(|(at, event)| *at > fault && is(event)).map(|(at, _)| *at)
        };
        let silent = Disconnection::Closed(CloseReason::Silent);
        let detected = after(
            &|event| matches!(event, Event::Disconnected { reason, .. } if *reason == silent),
        );
        let joined = after(&|event| matches!(event, Event::Joined { .. })).unwrap();
        let detection = detected.unwrap() - fault;
        let replacement = joined - detected.unwrap();
        let (up, down) = (up.account(&world, fault), down.account(&world, fault));
        let reported = world
            .told(a)
            .iter()
            .filter(|(_, event)| {
                matches!(event, Event::SendFailed { reason: SendFailure::RouterLost, .. })
            })
            .count();
        println!(
            "router died: detected after {detection:?}, replaced after another {replacement:?}; \
             up {up:?}, {reported} reported; down {down:?}"
        );
        // Traffic both ways showed that it was there until it died; the last was under way.
        let probing = 100 * MS * PROBES as u32;
        assert!(detection <= DELAY + QUIET + probing + READING, "{detection:?}");
        // Another router stands by: what is left is the
        // advertisement, which it verifies and accepts.
        assert!(replacement <= ROUND_TRIP + READING, "{replacement:?}");
        // Two round trips between the nodes and detection are asked for; one is enough. Up, there
        // remain the Accept, which is waited for, and the way: the new router has looked it up and
        // shaken hands with the router there.
        let nodes_round_trip = 3 * ROUND_TRIP;
        let gap = up.gap.saturating_sub(detection);
        assert!(gap <= nodes_round_trip, "{gap:?} over detection: {up:?}");
        // Down, advertisement, publication and change take one delay
        // each, then the next message has three to go.
        let gap = down.gap.saturating_sub(detection);
        assert!(gap <= nodes_round_trip + INTERVAL + READING, "{gap:?} over detection: {down:?}");

        assert!(up.lost <= reported, "{} lost, {reported} reported", up.lost);
        assert!(reported <= up.lost + (QUIET.as_millis() / INTERVAL.as_millis()) as usize + 10);
        assert!(up.late > 0 && up.lost + up.late < up.sent / 2, "{up:?}");
        assert!(up.lost_from <= DELAY + INTERVAL && up.lost_until <= detection, "{up:?}");
        assert!(down.lost as u128 <= down.gap.as_nanos() / INTERVAL.as_nanos() + 1, "{down:?}");
        assert_eq!(down.sent - down.lost, world.received(a).len());
    }
}

#[test]
fn a_fifth_lost_is_not_taken_for_silence() {
    let lossy = Conditions { loss: 0.2, spares_handshakes: true, ..conditions() };
    let mut world = World::new(8, lossy);
    world.add_rib();
    let line = world.add_line(2);
    let nodes: Vec<StationId> = (0..6).map(|n| world.add_node(line[n % 2])).collect();
    world.run(30 * SECOND);
    let joined: Vec<StationId> =
        nodes.iter().copied().filter(|node| world.is_joined(*node)).collect();
    assert_eq!(joined.len(), nodes.len());
    // Half of them send, one way, so that their routers have nothing to say; the others are idle.
    for _ in 0..6000 {
        for pair in nodes.chunks(2).take(2) {
            let _ = world.send(pair[0], pair[1], 50);
        }
        world.run(100 * MS);
    }
    for node in nodes {
        let lost = world.told(node).iter().find(|(_, e)| matches!(e, Event::Disconnected { .. }));
        assert_eq!(lost, None, "{node:?}");
    }
}

#[test]
fn after_a_minute_without_loss_a_dead_router_is_replaced_within_a_second() {
    for seed in 1..=3 {
        let (mut world, routers, a, b) = with_another_router_nearby(seed);
        let (mut up, mut down) = (Flow::new(3 * DELAY), Flow::new(3 * DELAY));
        flow(&mut world, &mut [(a, b, &mut up), (b, a, &mut down)], 60 * SECOND);
        let of = world.core(a).unwrap().router();
        let dies = *routers.iter().find(|router| Some(world.name(**router)) == of).unwrap();
        let fault = world.now();
        world.apply(&Fault::Crash(dies));
        flow(&mut world, &mut [(a, b, &mut up), (b, a, &mut down)], 3 * SECOND);
        world.run(SECOND);
        let (up, down) = (up.account(&world, fault), down.account(&world, fault));
        println!("router died after a minute: up {up:?}, down {down:?}");
        assert!(up.gap <= SECOND && down.gap <= SECOND, "{up:?}, {down:?}");
    }
}

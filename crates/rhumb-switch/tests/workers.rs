//! A switch with other workers forwards what it would have forwarded alone,
//! on their lanes, and nothing that it would not.

use std::time::Duration;

use rhumb_link::DropReason as LinkDrop;
use rhumb_switch::{DropReason, MAX_HAND_OVERS};
use rhumb_trust::Window;
use rhumb_wire::datagram::{Counter, LANES, RecordHeader, RecordKind, SessionIndex};
use rhumb_wire::metadata::Role;
use rhumb_wire::{Action, Batch, Name, PduHeader, Statement};

use crate::allocations::used_batch;
use crate::world::{Stranger, World, router_address};

const SECOND: Duration = Duration::from_secs(1);

/// A world with one router of so many workers.
fn world_of(workers: u8) -> World {
    let mut world = World::new();
    world.config.link.workers = workers;
    world.line(1);
    world
}

/// A node at the router that sends on this lane: the first byte of its name says so.
fn node_on(world: &mut World, lane: u8) -> usize {
    let identity = loop {
        let identity = world.identity(Role::Node);
        if identity.name().0[0] % LANES == lane {
            break identity;
        }
    };
    let node = world.node_of(identity, 0);
    world.run(SECOND);
    assert!(world.nodes[node].core.is_joined());
    node
}

/// Lets a flow have its labels, on both sides of the router, and a copy at its worker.
fn warm_up(world: &mut World, from: usize, to: usize) {
    for _ in 0..4 {
        world.send(from, to, b"warm up");
        world.run(SECOND);
    }
}

#[test]
fn bundles_are_taken_apart_and_put_together_where_their_lane_is() {
    let mut world = world_of(2);
    let (a, b) = (node_on(&mut world, 1), node_on(&mut world, 0));
    // The first go is of no known flow, and handed to the switch PDU by PDU.
    for _ in 0..5 {
        let (now, destination) = (world.now, world.name(b));
        for number in 0..40 {
            world.nodes[a].core.send(destination, 7, &[number; 40], now).expect("there is room");
        }
        world.run(SECOND);
    }
    let numbers: Vec<u8> = bodies(&world, b).iter().map(|(_, body)| body[0]).collect();
    assert_eq!(numbers.len(), 200);
    assert!(numbers[160..].iter().copied().eq(0..40), "{:?}", &numbers[160..]);
    let worker = world.routers[0].workers[0].counters();
    assert!(worker.bundled_pdus >= 100 && worker.bundles < 20, "{worker:?}");
}

fn bodies(world: &World, node: usize) -> Vec<(Name, Vec<u8>)> {
    world.nodes[node].received.clone()
}

/// What each worker has forwarded, the switch first.
/// Counts by themselves, not as of the last report.
fn forwarded(world: &World) -> Vec<u64> {
    let router = &world.routers[0];
    let others = router.workers.iter().map(|it| it.counters().forwarded_pdus);
    std::iter::once(router.switch.counters().forwarded_pdus).chain(others).collect()
}

#[test]
fn the_same_arrives_however_many_workers_there_are_and_each_forwards_its_lanes() {
    for (workers, steered) in [(1, true), (2, true), (4, true), (8, true), (2, false), (8, false)] {
        let mut world = world_of(workers);
        world.routers[0].steered = steered;
        let receiver = node_on(&mut world, 5);
        let senders: Vec<usize> = (0..LANES).map(|lane| node_on(&mut world, lane)).collect();
        let mut sent = Vec::new();
        for round in 0..20u8 {
            for &sender in &senders {
                let body = vec![round; 100 + usize::from(round) * 50];
                world.send(sender, receiver, &body);
                sent.push((world.name(sender), body));
            }
            world.run(SECOND / 2);
        }
        let mut received = bodies(&world, receiver);
        received.sort();
        sent.sort();
        assert_eq!(received, sent, "{workers} workers");
        let forwarded = forwarded(&world);
        assert_eq!(forwarded.len(), usize::from(workers));
        let share = 20 * u64::from(LANES / workers);
        for (worker, pdus) in forwarded.iter().enumerate() {
            assert!(*pdus >= share * 3 / 4, "worker {worker} of {forwarded:?}");
        }
        let status = world.routers[0].switch.status(world.now);
        assert_eq!(status.workers.len(), usize::from(workers));
    }
}

#[test]
fn a_batch_of_a_known_flow_is_forwarded_without_allocating() {
    let mut world = world_of(2);
    let (a, b) = (node_on(&mut world, 1), node_on(&mut world, 0));
    warm_up(&mut world, a, b);
    for len in [0, 64, 1000, 1300] {
        let (now, destination) = (world.now, world.name(b));
        let node = &mut world.nodes[a];
        for _ in 0..64 {
            node.core.send(destination, 7, &vec![7; len], now).expect("there is room");
        }
        let mut batch = used_batch();
        node.core.poll_transmit(&mut batch, now);
        for slot in 0..batch.len() {
            batch.redirect(slot, node.address);
        }
        let worker = &mut world.routers[0].workers[0];
        let before = worker.counters().forwarded_pdus;
        let info = allocation_counter::measure(|| worker.handle_batch(&mut batch, now));
        let went_on = worker.counters().forwarded_pdus - before;
        assert_eq!((info.count_total, went_on), (0, 64), "{len} bytes");
    }
}

#[test]
fn a_session_of_a_workers_lane_outlives_silence_and_renewal() {
    let mut world = world_of(2);
    let (a, b) = (node_on(&mut world, 3), node_on(&mut world, 1));
    warm_up(&mut world, a, b);
    // Idle for longer than the silence that ends a session: only the worker opens its keep-alives.
    world.run(60 * SECOND);
    world.send(a, b, b"still there");
    world.run(SECOND);
    // Sessions are renewed within the hour, and certificates many times before.
    let before = forwarded(&world);
    for _ in 0..390 {
        world.send(a, b, b"on and on");
        world.run(10 * SECOND);
    }
    assert_eq!(bodies(&world, b).len(), 4 + 1 + 390);
    let after = forwarded(&world);
    assert!(after[1] - before[1] > 300, "{before:?} {after:?}");
    let router = &world.routers[0];
    let status = router.switch.status(world.now);
    assert!(status.sessions.iter().filter(|it| it.role == Role::Node).all(|it| it.age_s > 3900));
    let silent = |reason| router.workers[0].dropped_datagrams().of(reason);
    assert_eq!((silent(LinkDrop::BadSeal), silent(LinkDrop::StaleSession)), (0, 0));
}

#[test]
fn a_session_that_ends_ends_the_flows_of_every_worker() {
    for workers in [2, 4] {
        let mut world = world_of(workers);
        let receiver = node_on(&mut world, 0);
        let senders: Vec<usize> = (1..workers).map(|lane| node_on(&mut world, lane)).collect();
        for &sender in &senders {
            warm_up(&mut world, sender, receiver);
        }
        let before = forwarded(&world);
        let now = world.now;
        world.nodes[receiver].core.leave(now);
        world.run(2 * SECOND);
        world.nodes[receiver].received.clear();
        for &sender in &senders {
            world.send(sender, receiver, b"to nobody");
        }
        world.run(2 * SECOND);
        assert!(bodies(&world, receiver).is_empty());
        assert_eq!(forwarded(&world)[1..], before[1..]);
        assert!(
            world.dropped(0, DropReason::Unreachable) + world.dropped(0, DropReason::RoutePending)
                > 0
        );
    }
}

#[test]
fn a_flow_that_changes_is_recalled_from_its_worker() {
    let mut world = world_of(2);
    let a = node_on(&mut world, 1);
    let identity = world.identity(Role::Node);
    let b = world.node_of(identity.clone(), 0);
    world.run(SECOND);
    warm_up(&mut world, a, b);
    // The destination begins anew: what it called the flow is
    // forgotten, and the copy would lead to nobody.
    world.nodes.remove(b);
    let b = world.node_of(identity, 0);
    world.run(2 * SECOND);
    for _ in 0..5 {
        world.send(a, b, b"again");
        world.run(SECOND);
    }
    assert_eq!(bodies(&world, b).len(), 5);
}

#[test]
fn workers_go_on_with_their_flows_after_another_name_has_left() {
    let mut world = world_of(2);
    let (a, b) = (node_on(&mut world, 1), node_on(&mut world, 0));
    let router = world.routers[0].switch.name();
    let mut leaving = Stranger::new(&mut world, 0, Role::Node);
    let header = PduHeader::new(Action::Advertise, leaving.name(), router);
    let route = leaving.route(router, &world);
    leaving.send(&mut world, header, &[], &[route]);
    warm_up(&mut world, a, b);
    let attached = |world: &World| world.routers[0].switch.status(world.now).attached.len();
    assert_eq!(attached(&world), 3);
    // It takes its name back, and stays: all flows end once, for the switch and for its worker.
    let window = Window::starting(world.now.unix_s(), 600);
    let withdrawal =
        leaving.identity.certify(Statement::Withdrawal, world.now.unix_ms + 1, window).unwrap();
    leaving.send(&mut world, header, &[], &[withdrawal]);
    assert_eq!(attached(&world), 2);
    for body in [&b"enters the flow anew"[..], b"goes by the switch, which lends a copy"] {
        world.send(a, b, body);
        world.run(SECOND / 10);
    }
    let before = forwarded(&world);
    for _ in 0..20 {
        world.send(a, b, b"on and on");
        world.run(SECOND / 10);
    }
    let after = forwarded(&world);
    assert_eq!(after[1] - before[1], 20, "{before:?} {after:?}");
}

#[test]
fn what_the_queue_has_no_room_for_is_counted() {
    let mut world = world_of(2);
    let now = world.now;
    let worker = &mut world.routers[0].workers[0];
    // Not a worker's business: all of it goes to the switch, as far as there is room.
    let mut batch = Batch::new();
    for _ in 0..MAX_HAND_OVERS + 5 {
        batch.push(router_address(9), &[22; 60]);
    }
    worker.handle_batch(&mut batch, now);
    assert!(batch.slots().iter().all(rhumb_wire::batch::Slot::is_empty));
    assert_eq!(worker.counters().dropped(DropReason::HandOverFull), 5);
    assert_eq!(worker.counters().handed_over, MAX_HAND_OVERS as u64);
    let mut handed = 0;
    while worker.poll_hand_over().is_some() {
        handed += 1;
    }
    assert_eq!(handed, MAX_HAND_OVERS);
}

#[test]
fn strangers_on_a_workers_lanes_crowd_nobody_out() {
    let mut world = world_of(2);
    let (a, b) = (node_on(&mut world, 1), node_on(&mut world, 0));
    warm_up(&mut world, a, b);
    let (now, worker) = (world.now, &mut world.routers[0].workers[0]);
    let mut batch = Batch::new();
    for place in 0..1000 {
        let index = SessionIndex::new(0x0F00_0000 + 8 * place).unwrap().with_lane(1);
        let header = RecordHeader { kind: RecordKind::Pdu, index, counter: Counter::new(0, 7) };
        batch.push(router_address(9), &[&header.emit()[..], &[7; 60]].concat());
    }
    worker.handle_batch(&mut batch, now);
    assert!(worker.counters().dropped(DropReason::HandOverFull) > 900);
    let before = bodies(&world, b).len();
    world.send(a, b, b"through");
    world.run(SECOND);
    assert_eq!(bodies(&world, b).len(), before + 1);
    // The switch was asked about a few, and knows none of them.
    let known = world.routers[0].switch.status(world.now).dropped_datagrams;
    let unknown = known.iter().find(|(why, _)| *why == "unknown_session").unwrap().1;
    assert!((1..20).contains(&unknown), "{unknown}");
}

#[test]
fn a_node_that_moves_is_followed_from_a_workers_lane() {
    let mut world = world_of(2);
    let (a, b) = (node_on(&mut world, 1), node_on(&mut world, 0));
    warm_up(&mut world, a, b);
    world.move_node(a);
    for _ in 0..4 {
        world.send(a, b, b"from elsewhere");
        world.send(b, a, b"to elsewhere");
        world.run(SECOND);
    }
    assert_eq!(bodies(&world, b).len(), 8);
    assert!(bodies(&world, a).len() >= 3, "{:?}", bodies(&world, a).len());
    assert_eq!(world.counters(0).sessions_moved, 1);
}

//! A PDU of a known flow costs no allocation: neither in the switch nor in the link below it.

use std::time::Duration;

use rhumb_switch::Switch;
use rhumb_trust::Now;
use rhumb_wire::Batch;

use crate::world::World;

const PDUS: usize = 64;

/// A batch that was used before.
pub(crate) fn used_batch() -> Batch {
    let mut batch = Batch::new();
    for _ in 0..4 * PDUS {
        batch.push(([192, 0, 2, 1], 1).into(), &[0; 2000]);
    }
    batch.clear();
    batch
}

/// A batch of fresh PDUs of a flow, as the router receives them: small ones in bundles.
fn received(world: &mut World, from: usize, to: usize, body: &[u8]) -> Batch {
    let (now, destination) = (world.now, world.name(to));
    let node = &mut world.nodes[from];
    for _ in 0..PDUS {
        node.core.send(destination, 7, body, now).expect("there is room");
    }
    let mut batch = used_batch();
    node.core.poll_transmit(&mut batch, now);
    let in_bundles = body.len() < 600;
    assert_eq!(batch.len() < PDUS / 4, in_bundles, "{}", batch.len());
    for slot in 0..batch.len() {
        batch.redirect(slot, node.address);
    }
    batch
}

/// Allocations while a batch is handled, and how many PDUs went on.
fn handle(switch: &mut Switch, batch: &mut Batch, now: Now) -> (u64, usize) {
    let before = switch.counters().forwarded_pdus;
    let info = allocation_counter::measure(|| switch.handle_batch(batch, now));
    (info.count_total, (switch.counters().forwarded_pdus - before) as usize)
}

#[test]
fn a_batch_of_a_known_flow_is_forwarded_without_one() {
    let mut world = World::new();
    world.line(1);
    let (a, b) = (world.node(0), world.node(0));
    for _ in 0..3 {
        world.send(a, b, b"warm up");
        world.run(Duration::from_secs(1));
    }
    for len in [0, 64, 1000, 1300] {
        let mut batch = received(&mut world, a, b, &vec![7; len]);
        let now = world.now;
        let switch = &mut world.routers[0].switch;
        assert_eq!(handle(switch, &mut batch, now), (0, PDUS), "{len} bytes");
    }
}

#[test]
fn the_counter_sees_what_a_new_flow_allocates() {
    let mut world = World::new();
    world.line(1);
    let (a, b) = (world.node(0), world.node(0));
    world.run(Duration::from_secs(1));
    let mut batch = received(&mut world, a, b, b"first");
    let now = world.now;
    let switch = &mut world.routers[0].switch;
    assert_ne!(handle(switch, &mut batch, now).0, 0);
}

//! When triples are made: what is more urgent does not wait behind many batches, and a burst is served from what was made before.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod world;

use rhumb_exchange::{Form, ServerConfig};
use world::{World, small};

/// Of the pair, party one.
const ONE: usize = 0;
const SILENT: u16 = 2;
/// Of each kind.
const POOL: u32 = 1024;
const BATCH: u64 = 128;

/// One shard with room for some batches.
fn config() -> ServerConfig {
    let mut config = small(3, Form::TopClass, 1);
    (config.engine.bit_words, config.engine.vector_words) = (POOL, POOL);
    config
}

/// How often party one makes some before it has heard of the other.
fn refills(world: &mut World) -> usize {
    let server = world.servers[ONE].as_mut().unwrap();
    (0..100).take_while(|_| server.refill()).count()
}

#[test]
fn triples_are_made_a_few_batches_at_a_time_and_not_while_members_rank() {
    let mut world = World::with(config(), 19);
    world.settle();
    // A batch of each kind, twice.
    while world.status(ONE).stock.bit_words + BATCH <= POOL.into() {
        assert_eq!(refills(&mut world), 2);
        world.settle();
    }
    assert_eq!(refills(&mut world), 0, "the pools are full");

    world.mute[usize::from(SILENT)] = true;
    world.announce(0, b"contested", &[1, 2], b"one");
    world.announce(1, b"contested", &[0, 2], b"other");
    world.settle();
    assert_eq!(world.status(ONE).rounds, 1, "one who is asked is silent");
    for number in 0..POOL / 4 {
        world.announce(0, &number.to_be_bytes(), &[1, 2], b"beside it");
    }
    world.settle();
    assert!(world.status(ONE).stock.vector_words + BATCH <= POOL.into(), "there is room");
    assert_eq!(refills(&mut world), 0, "the round may go on at any time");
    for number in POOL / 4..POOL * 5 / 8 {
        world.announce(0, &number.to_be_bytes(), &[1, 2], b"beside it");
    }
    world.settle();
    assert!(world.status(ONE).stock.vector_words < u64::from(POOL) / 2);
    assert_eq!(refills(&mut world), 1, "what is low is filled up all the same");
    world.settle();

    world.pass(world.config.ranking);
    world.settle();
    assert_eq!(world.status(ONE).rounds, 0);
    assert!(refills(&mut world) > 1, "nobody waits any more");
}

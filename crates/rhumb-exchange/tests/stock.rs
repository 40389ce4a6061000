//! When triples are made: what is more urgent does not wait behind many batches, and a burst is
//! served from what was made before.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use rhumb_exchange::{Form, ServerConfig};

use crate::world::{World, small};

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
    while world.status(ONE).stock.bit_words + 4 * BATCH <= POOL.into() {
        assert_eq!(refills(&mut world), 4);
        world.settle();
    }
    assert_eq!(refills(&mut world), 0, "the pools are full");

    // Of a round of two routes: 2 + 1 ANDs, of 64 lanes.
    let contested = |world: &mut World, numbers: std::ops::Range<u32>| {
        for number in numbers {
            world.announce(0, &number.to_be_bytes(), &[1, 2], b"one");
            world.announce(1, &number.to_be_bytes(), &[0, 2], b"other");
        }
        world.settle();
    };
    contested(&mut world, 1..1 + POOL / 12);
    assert_eq!(world.status(ONE).rounds, 0);
    world.mute[usize::from(SILENT)] = true;
    contested(&mut world, 0..1);
    assert_eq!(world.status(ONE).rounds, 1, "one who is asked is silent");
    let stock = world.status(ONE).stock.bit_words;
    assert!((u64::from(POOL) / 2..=u64::from(POOL) - BATCH).contains(&stock), "there is room");
    assert_eq!(refills(&mut world), 0, "the round may go on at any time");

    world.pass(world.config.ranking);
    world.mute[usize::from(SILENT)] = false;
    contested(&mut world, POOL..POOL + POOL / 6);
    assert_eq!(world.status(ONE).rounds, 0);
    world.mute[usize::from(SILENT)] = true;
    contested(&mut world, 0..1);
    assert_eq!(world.status(ONE).rounds, 1);
    assert!(world.status(ONE).stock.bit_words < u64::from(POOL) / 2);
    assert_eq!(refills(&mut world), 1, "what is low is filled up all the same");
    world.settle();

    world.pass(world.config.ranking);
    world.settle();
    assert_eq!(world.status(ONE).rounds, 0);
    assert!(refills(&mut world) > 1, "nobody waits any more");
    world.settle();
    assert_eq!(world.status(ONE).stock.vector_words, 0, "no other circuit has a use for them");
}

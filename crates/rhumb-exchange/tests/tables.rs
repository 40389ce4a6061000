//! Large tables: what waits for a member that reads slowly, and what
//! others see of a member that says all of it anew.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use rhumb_exchange::{Event, Form, MAX_ROUTE, REPLAY_AHEAD, ServerConfig};

use crate::world::{Way, World, small};

const ANNOUNCER: u16 = 0;
const LATE: u16 = 1;
const OTHER: u16 = 2;
/// Servers of the pair.
const ONE: usize = 0;
const TWO: usize = 2;

fn prefix(number: usize) -> Vec<u8> {
    (number as u32).to_be_bytes().to_vec()
}

/// One shard, so that its bound is the connection's.
fn config() -> ServerConfig {
    let mut config = small(3, Form::TopClass, 1);
    config.batch = 16;
    config
}

/// With a table of the longest routes, three times as many as may be
/// ahead of a member; the late member is not there.
fn with_table() -> (World, usize) {
    let mut world = World::with(config(), 7);
    world.settle();
    world.stop_member(LATE);
    let routes = 3 * REPLAY_AHEAD / MAX_ROUTE;
    for number in 0..routes {
        world.announce(ANNOUNCER, &prefix(number), &[LATE, OTHER], &[number as u8; MAX_ROUTE]);
    }
    world.settle();
    assert_eq!(world.offered(OTHER).len(), routes);
    (world, routes)
}

#[test]
fn a_member_that_reads_slowly_is_replayed_no_more_than_it_puts_together() {
    for slow in [ONE, TWO] {
        let (mut world, routes) = with_table();
        world.start_member(LATE, true);
        let way = |server| Way::ToMember { lane: LATE, server };
        // Until party one begins the first replay: the member has nothing of it from either.
        let replayed = |world: &World| world.status(ONE).counters.replayed;
        let before = replayed(&world);
        while replayed(&world) == before {
            assert!(world.step());
        }
        world.stalled = Some(way(slow));
        world.tap = Some(Vec::new());
        world.settle();
        let frames = world.tap.take().unwrap();
        let delivered = frames.iter().filter(|(_, to, _)| *to == way(ONE));
        let delivered: usize = delivered.map(|(.., frame)| frame.len()).sum();
        let waiting = world.ways.get(&way(slow));
        let waiting: usize = waiting.into_iter().flatten().map(Vec::len).sum();
        // One route beyond, and small messages.
        assert!(delivered + waiting < REPLAY_AHEAD + 4 * MAX_ROUTE, "{delivered} {waiting}");
        assert!(!world.events(LATE).contains(&Event::Synced));

        // Others notice nothing.
        world.announce(ANNOUNCER, &prefix(routes), &[LATE, OTHER], b"one more");
        world.settle();
        assert_eq!(world.offered(OTHER).len(), routes + 1);

        world.stalled = None;
        world.settle();
        assert!(world.events(LATE).contains(&Event::Synced));
        assert_eq!(world.offered(LATE).len(), routes + 1);
    }
}

#[test]
fn who_restarts_and_says_the_same_again_is_noticed_by_nobody() {
    let mut world = World::with(config(), 11);
    let routes = 100;
    let announce = |world: &mut World| {
        for number in 0..routes {
            world.announce(ANNOUNCER, &prefix(number), &[LATE, OTHER], b"the same");
        }
    };
    announce(&mut world);
    world.settle();
    let gone = prefix(routes);
    world.announce(ANNOUNCER, &gone, &[LATE, OTHER], b"not again");
    world.settle();
    let before = world.events(OTHER).len();
    world.start_member_without_end(ANNOUNCER, true);
    announce(&mut world);
    world.member(ANNOUNCER).end_of_table();
    world.settle();
    let events = &world.events(OTHER)[before..];
    let retracted: Vec<&[u8]> = events
        .iter()
        .filter_map(|event| match event {
            Event::Retracted { destination, .. } => Some(destination.as_bytes()),
            _ => None,
        })
        .collect();
    assert_eq!(retracted, [&gone[..]], "what it did not say again, and nothing else");
    let replaced =
        events.iter().filter(|event| matches!(event, Event::Offered { replaces: Some(_), .. }));
    assert_eq!(replaced.count(), routes);
    assert_eq!(world.offered(OTHER).len(), routes);
}

#[test]
fn a_table_that_is_taken_back_at_once_is_gone_everywhere() {
    let (mut world, routes) = with_table();
    // The same destination twice, of which the first word may be ordered with the second.
    world.withdraw(ANNOUNCER, &prefix(0));
    world.announce(ANNOUNCER, &prefix(0), &[OTHER], b"again");
    (0..routes).for_each(|number| world.withdraw(ANNOUNCER, &prefix(number)));
    world.announce(ANNOUNCER, &prefix(1), &[OTHER], b"and again");
    world.settle();
    let left: Vec<Vec<u8>> = world.offered(OTHER).into_iter().map(|(.., bytes)| bytes).collect();
    assert_eq!(left, [b"and again".to_vec()]);
}

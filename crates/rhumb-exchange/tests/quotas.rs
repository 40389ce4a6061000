//! A member that announces more than its quota harms itself alone: what fits stays, the rest is
//! refused by both parties, and the member knows.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;

use rhumb_exchange::{Form, Quota, Roster, ServerConfig};

use crate::world::{World, roster, small};

const ONE: usize = 0;
const TWO: usize = 2;
/// Of the smallest class, sealed.
const SEALED: u64 = 128 + 16;

/// Member 0 may announce so much, the others as much as any.
fn config(routes: u32, bytes: u64) -> ServerConfig {
    let mut config = small(4, Form::TopClass, 1);
    let quota = Quota { routes, bytes };
    config.common.roster = Arc::new(Roster::clone(&roster(4)).with_quotas([quota]));
    config
}

fn start(routes: u32, bytes: u64, seed: u64) -> World {
    let mut world = World::with(config(routes, bytes), seed);
    world.settle();
    world
}

fn texts(world: &World, lane: u16) -> Vec<String> {
    let offered = world.offered(lane).into_iter().map(|(.., bytes)| bytes);
    let mut texts: Vec<String> = offered.map(|bytes| String::from_utf8(bytes).unwrap()).collect();
    texts.sort();
    texts
}

/// Nobody was cut, and no pair has ended.
fn check_calm(world: &World) {
    assert_eq!(world.failed, []);
    assert_eq!([ONE, TWO].map(|server| world.status(server).counters.pairs_ended), [0, 0]);
}

#[test]
fn what_fits_stays_and_what_does_not_is_refused_and_said() {
    let mut world = start(4, 1 << 20, 41);
    for number in 0..7_u8 {
        world.announce(0, &[number], &[1], number.to_string().as_bytes());
        world.announce(2, &[number], &[1], b"of another");
    }
    world.settle();
    assert_eq!(
        texts(&world, 1),
        ["0", "1", "2", "3"].into_iter().chain(["of another"; 7]).collect::<Vec<_>>()
    );
    assert_eq!((world.member(0).status().refused, world.member(2).status().refused), (3, 0));
    assert_eq!([ONE, TWO].map(|server| world.status(server).held), [4 + 7; 2]);
    assert_eq!(world.status(ONE).counters.refused, 3);
    // What is refused may be taken back, and what takes the place of another is no more than that.
    world.withdraw(0, &[6]);
    world.announce(0, &[1], &[1], b"1 anew");
    world.settle();
    assert_eq!(texts(&world, 1)[..4], ["0", "1 anew", "2", "3"]);
    assert_eq!(world.member(0).status().refused, 2);
    // Room for one is used.
    world.withdraw(0, &[2]);
    world.settle();
    assert_eq!(texts(&world, 1)[..4], ["0", "1 anew", "3", "4"]);
    assert_eq!(world.member(0).status().refused, 1);
    check_calm(&world);
}

#[test]
fn bytes_are_counted_too_and_a_route_that_grows_too_large_is_gone() {
    let mut world = start(100, 3 * SEALED, 42);
    for number in 0..3_u8 {
        world.announce(0, &[number], &[1], number.to_string().as_bytes());
    }
    world.settle();
    assert_eq!(texts(&world, 1), ["0", "1", "2"]);
    world.announce(0, &[1], &[1], &[b'x'; 200]);
    world.settle();
    assert_eq!(texts(&world, 1), ["0", "2"], "nobody has what its announcer has no more");
    assert_eq!(world.member(0).status().refused, 1);
    world.announce(0, &[1], &[1], b"short again");
    world.settle();
    assert_eq!(texts(&world, 1), ["0", "2", "short again"]);
    assert_eq!(world.member(0).status().refused, 0);
    check_calm(&world);
}

#[test]
fn of_two_quotas_the_lower_counts() {
    for lower in [ONE, TWO] {
        let mut world = start(5, 1 << 20, 43);
        world.set_roster(lower, &Arc::new(config(2, 1 << 20)));
        for number in 0..7_u8 {
            world.announce(0, &[number], &[1], number.to_string().as_bytes());
            world.steps(7);
        }
        world.settle();
        assert_eq!(texts(&world, 1), ["0", "1"], "{lower}");
        assert_eq!(world.member(0).status().refused, 5);
        assert_eq!([ONE, TWO].map(|server| world.status(server).held), [2; 2]);
        check_calm(&world);
    }
}

#[test]
fn whoever_restarts_the_same_fits() {
    for lower in [ONE, TWO] {
        let mut world = start(4, 1 << 20, 44);
        world.set_roster(lower, &Arc::new(config(3, 1 << 20)));
        for number in 0..6_u8 {
            world.announce(0, &[number], &[1], number.to_string().as_bytes());
        }
        world.settle();
        let before = texts(&world, 1);
        assert_eq!(before, ["0", "1", "2"]);
        for server in [ONE, TWO] {
            world.stop_server(server);
            world.start_server(server);
            world.begin_pair(ONE, TWO);
            world.settle();
            // The one that started again has the other roster.
            assert!(texts(&world, 1).len() >= 3 && texts(&world, 1)[..3] == before, "{lower}");
        }
        // With the process of the member, which says all at once again.
        world.start_member_without_end(0, true);
        for number in 0..6_u8 {
            world.announce(0, &[number], &[1], number.to_string().as_bytes());
        }
        world.member(0).end_of_table();
        world.settle();
        assert_eq!(texts(&world, 1), ["0", "1", "2", "3"], "{lower}");
        assert_eq!(world.failed, []);
    }
}

#[test]
fn a_flood_beyond_the_quota_fills_neither_party_and_delays_nobody() {
    // Both have the same quota, or one of them a higher one.
    for higher in [None, Some(ONE), Some(TWO)] {
        let mut world = start(10, 1 << 20, 45);
        if let Some(server) = higher {
            world.set_roster(server, &Arc::new(config(100_000, 1 << 30)));
        }
        for number in 0..3000_u16 {
            world.announce(0, &number.to_le_bytes(), &[1], b"flood");
        }
        let mut held = [0; 2];
        for step in 0..4000 {
            if step == 500 {
                world.announce(2, b"honest", &[3], b"honest");
            }
            world.step();
            let now = [ONE, TWO].map(|server| world.status(server).held);
            held = [held[0].max(now[0]), held[1].max(now[1])];
        }
        let expected = [ONE, TWO].map(|server| if higher == Some(server) { 3001 } else { 11 });
        assert!(held[0] <= expected[0] && held[1] <= expected[1], "{higher:?}: {held:?}");
        assert_eq!(texts(&world, 3), ["honest"]);
        world.settle();
        assert_eq!((texts(&world, 1).len(), world.member(0).status().refused), (10, 2990));
        assert_eq!([ONE, TWO].map(|server| world.status(server).held), [11; 2]);
        check_calm(&world);
    }
}

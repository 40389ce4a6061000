//! The roster changes while the exchange runs: lanes are added at the
//! end, and sites go. Whoever stays loses nothing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;
use std::time::Duration;

use rhumb_exchange::{Event, ExchangeError, Form, Lane, LaneSet, Roster, ServerConfig};

use crate::world::{World, destination, roster, route, small};

/// As all are started, with another roster.
fn config(roster: Arc<Roster>) -> Arc<ServerConfig> {
    let mut config = small(66, Form::TopClass, 1);
    config.common.roster = roster;
    Arc::new(config)
}

/// Members 0 to 3 of a roster of 64, so that the next lane takes another word.
fn start() -> World {
    let mut world = World::empty(ServerConfig::clone(&config(roster(64))), 31);
    for server in [0, 2] {
        world.start_server(server);
    }
    (0..4).for_each(|lane| world.start_member(lane, true));
    world.begin_pair(0, 2);
    world.announce(0, b"a", &[1, 2, 3], b"a by 0");
    world.announce(1, b"a", &[2, 3], b"a by 1");
    world.announce(1, b"b", &[0, 2], b"b by 1");
    world.settle();
    world
}

/// What became of routes at a member.
fn changes(world: &World, lane: u16) -> [usize; 2] {
    let count = |is: fn(&&Event) -> bool| world.events(lane).iter().filter(is).count();
    [
        count(|event| matches!(event, Event::Offered { .. })),
        count(|event| matches!(event, Event::Retracted { .. })),
    ]
}

fn announce_with(world: &mut World, by: u16, to: &[u8], lanes: &[u16], bytes: &[u8]) {
    let policy = LaneSet::of(&roster(66), lanes.iter().map(|lane| Lane(*lane))).unwrap();
    world.member(by).announce(&destination(to), &policy, &route(bytes)).unwrap();
}

fn texts(world: &World, lane: u16) -> Vec<String> {
    let offered = world.offered(lane).into_iter();
    let texts = offered.map(|(.., bytes)| String::from_utf8(bytes).unwrap());
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts
}

#[test]
fn lanes_are_added_while_members_stay_connected() {
    let mut world = start();
    let before = [0, 1, 2, 3].map(|lane| changes(&world, lane));
    // A member has the new roster before the servers, and comes back with it.
    world.member(3).set_roster(roster(66)).unwrap();
    announce_with(&mut world, 3, b"early", &[65], b"early by 3");
    world.settle();
    world.connect(3, 0);
    world.settle();
    // The servers have it one after the other; there is no
    // pair meanwhile, and what is said is not lost.
    let longer = config(roster(66));
    world.set_roster(0, &longer);
    world.announce(2, b"c", &[3], b"c by 2");
    world.settle();
    world.set_roster(2, &longer);
    world.grow(longer);
    world.begin_pair(0, 2);
    world.settle();
    let after = [0, 1, 2].map(|lane| changes(&world, lane));
    assert_eq!(after, before[..3], "nothing was said again");
    assert_eq!(changes(&world, 3), [before[3][0] + 1, 0]);
    assert_eq!(texts(&world, 3), ["a by 0", "a by 1", "c by 2"]);
    // The newcomer has what was for it, and nothing of those who did not know it.
    world.start_member(65, true);
    world.settle();
    assert_eq!(texts(&world, 65), ["early by 3"]);
    // They get its routes, whatever roster they have.
    world.announce(65, b"n", &[0, 3], b"n by 65");
    world.settle();
    assert_eq!(texts(&world, 0), ["b by 1", "n by 65"]);
    // With the roster, members announce to it. Those who had the routes keep them.
    world.member(0).set_roster(roster(66)).unwrap();
    announce_with(&mut world, 0, b"a", &[1, 2, 3, 65], b"a by 0");
    world.settle();
    assert_eq!(texts(&world, 65), ["a by 0", "early by 3"]);
    assert!((0..4).all(|lane| changes(&world, lane)[1] == 0));
    let rounds = |lane: u16| world.selected(lane, b"a").flatten();
    assert!(rounds(2).is_some() && rounds(3).is_some());
}

#[test]
fn who_is_taken_out_goes_at_once_and_alone() {
    let mut world = start();
    let closed = config(Arc::new(Roster::clone(&roster(64)).without([Lane(1)])));
    let pairs = |world: &World, server: usize| world.status(server).counters.pairs_ended;
    for server in [0, 2] {
        world.set_roster(server, &closed);
    }
    world.stop_member(1);
    world.pass(Duration::ZERO);
    assert_eq!([pairs(&world, 0), pairs(&world, 2)], [0, 0]);
    assert_eq!([0, 2, 3].map(|lane| texts(&world, lane).join(", ")), ["", "a by 0", "a by 0"]);
    // After the loss of both servers nobody waits for it.
    world.grow(closed);
    for server in [0, 2] {
        world.stop_server(server);
        world.start_server(server);
    }
    world.begin_pair(0, 2);
    world.settle();
    assert_eq!(changes(&world, 2)[1], 2);
}

#[test]
fn a_roster_that_does_not_extend_the_former_is_refused() {
    let mut world = start();
    let now = world.now;
    let server = world.servers[0].as_mut().unwrap();
    let mut other = ServerConfig::clone(&config(roster(66)));
    other.common.roster = roster(63);
    assert_eq!(server.set_roster(&Arc::new(other.clone()), now), Err(ExchangeError::Roster));
    other.common = config(roster(66)).common.clone();
    other.engine.bit_words += 1;
    assert!(matches!(server.set_roster(&Arc::new(other), now), Err(ExchangeError::Unexpected(_))));
    assert_eq!(world.member(0).set_roster(roster(63)), Err(ExchangeError::Roster));
    world.announce(0, b"d", &[1], b"goes on");
    world.settle();
    assert_eq!(texts(&world, 1), ["a by 0", "goes on"]);
}

//! A principal always has a key, in virtual time: over rollovers, losses, dead and lying resolvers.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::collections::HashMap;

use domain::base::iana::Rcode;
use rhumb_keyserver::client::{Answered, KeyClient, LONGEST_PAUSE_MS, Query};
use rhumb_keyserver::server::{KeyServer, Outcome, Transport};

use crate::world::*;

const WINDOW_MS: u64 = 1_024_000;

/// A small generator: what is random in these tests has to come again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

struct World {
    server: KeyServer,
    client: KeyClient,
    random: Random,
    now_ms: u64,
    queries: u64,
}

impl World {
    fn new() -> Self {
        let client = KeyClient::new(principal_file(42));
        Self { server: server(), client, random: Random(7), now_ms: START_MS + 300_000, queries: 0 }
    }

    /// Runs until `end_ms`; `resolve` is the resolver between: an answer after 20 ms, or none.
    fn run(
        &mut self,
        end_ms: u64,
        mut resolve: impl FnMut(&mut KeyServer, &Query, u64) -> Option<Vec<u8>>,
    ) {
        while self.now_ms < end_ms {
            match self.client.poll_query(self.now_ms, || self.random.next()) {
                Some(query) => {
                    self.queries += 1;
                    if let Some(answer) = resolve(&mut self.server, &query, self.now_ms) {
                        self.now_ms += 20;
                        self.client.handle_answer(&answer, self.now_ms, || self.random.next());
                    }
                }
                None => {
                    let next = self.client.poll_timeout(self.now_ms);
                    self.now_ms = next.max(self.now_ms + 1).min(end_ms);
                }
            }
        }
    }

    fn has_keys(&self) -> bool {
        waypoints()
            .into_iter()
            .all(|waypoint| self.client.credential(waypoint, self.now_ms).is_some())
    }
}

fn honest(server: &mut KeyServer, query: &Query, now_ms: u64) -> Option<Vec<u8>> {
    match server.handle(&query.message, SOURCE, query.transport, now_ms) {
        Outcome::Answer(answer) => Some(answer),
        _ => None,
    }
}

#[test]
fn the_next_key_is_there_before_the_window_ends_and_none_is_asked_for_twice() {
    let mut world = World::new();
    world.run(START_MS + 301_000, honest);
    assert!(world.has_keys());
    for round in 1..20 {
        let end_ms = START_MS + round * WINDOW_MS;
        world.run(end_ms - WINDOW_MS / 8, honest);
        for waypoint in waypoints() {
            assert!(world.client.next_credential(waypoint, world.now_ms).is_some(), "{round}");
        }
        // Across the boundary in steps of a millisecond.
        world.run(end_ms - 3, honest);
        for _ in 0..6 {
            let window = clock().at(world.now_ms * 1000);
            for waypoint in waypoints() {
                let credential = world.client.credential(waypoint, world.now_ms).unwrap();
                assert_eq!(credential.capability().window, window);
            }
            world.run(world.now_ms + 1, honest);
        }
    }
    assert_eq!(world.queries, 2 * 20);
    assert_eq!(world.client.counters().keys, 2 * 20);
}

#[test]
fn prefetches_are_spread() {
    let mut times: Vec<u64> = (1..200)
        .map(|seed| {
            let mut world = World::new();
            world.random = Random(seed);
            let mut first = None;
            world.run(START_MS + WINDOW_MS, |server, query, now_ms| {
                if now_ms > START_MS + 301_000 {
                    first.get_or_insert(now_ms - START_MS);
                }
                honest(server, query, now_ms)
            });
            first.unwrap()
        })
        .collect();
    times.sort_unstable();
    assert!(times[0] >= WINDOW_MS / 2 && times[198] <= WINDOW_MS / 8 * 7);
    assert!(times[150] - times[50] > WINDOW_MS / 20, "{times:?}");
}

#[test]
fn most_answers_lost_cost_time_and_no_key() {
    let mut world = World::new();
    let mut loss = Random(3);
    world.run(START_MS + 600_000, |server, query, now_ms| {
        honest(server, query, now_ms).filter(|_| loss.next().is_multiple_of(4))
    });
    for _ in 0..5_000 {
        assert!(world.has_keys(), "at {}", world.now_ms - START_MS);
        world.run(world.now_ms + 1_000, |server, query, now_ms| {
            honest(server, query, now_ms).filter(|_| loss.next().is_multiple_of(4))
        });
    }
}

#[test]
fn a_dead_resolver_costs_nothing_while_keys_last_and_little_once_it_is_back() {
    let mut world = World::new();
    world.run(START_MS + WINDOW_MS / 8 * 7, honest);
    let asked = world.queries;
    // The keys of the next window are there; then nobody answers.
    let end_ms = START_MS + 2 * WINDOW_MS + u64::from(GRACE_MS);
    world.run(end_ms - 1, |_, _, _| None);
    assert!(world.has_keys());
    world.run(end_ms, |_, _, _| None);
    assert!(!world.has_keys());
    // Two names, each asked at most once a pause and patience.
    let tried = world.queries - asked;
    assert!((10..200).contains(&tried), "{tried}");
    world.run(end_ms + LONGEST_PAUSE_MS / 4 * 5 + 4_000, honest);
    assert!(world.has_keys());
}

#[test]
fn another_resolver_is_asked_when_one_is_dead() {
    let mut world = World::new();
    let mut by_resolver: HashMap<usize, u32> = HashMap::new();
    world.run(START_MS + 320_000, |server, query, now_ms| {
        *by_resolver.entry(query.resolver % 2).or_default() += 1;
        (query.resolver % 2 == 1).then(|| honest(server, query, now_ms)).flatten()
    });
    assert!(world.has_keys());
    assert_eq!(by_resolver, HashMap::from([(0, 2), (1, 2)]));
}

#[test]
fn old_caches_and_liars_are_waited_out() {
    let mut world = World::new();
    // A cache that still says "there is none", and one that has the
    // key of another window, and others' answers.
    let mut lies = 0;
    world.run(START_MS + 320_000, |server, query, now_ms| {
        let mut answer = honest(server, query, now_ms)?;
        lies += 1;
        match lies {
            1 | 2 => answer[3] |= Rcode::NXDOMAIN.to_int(),
            3 | 4 => answer[0] ^= 1,
            5 | 6 => *answer.iter_mut().rev().nth(11).unwrap() ^= 1,
            _ => {}
        }
        Some(answer)
    });
    assert!(world.has_keys());
    let counters = world.client.counters();
    assert_eq!((counters.absent, counters.ignored), (2, 4));
}

#[test]
fn a_forged_answer_does_not_end_the_wait_for_the_true_one() {
    let mut world = World::new();
    let query = world.client.poll_query(world.now_ms, || 9).unwrap();
    let answer = honest(&mut world.server, &query, world.now_ms).unwrap();
    let mut forged = answer.clone();
    *forged.iter_mut().rev().nth(11).unwrap() ^= 1;
    assert_eq!(world.client.handle_answer(&forged, world.now_ms, || 9), Answered::Ignored);
    let taken = world.client.handle_answer(&answer, world.now_ms, || 9);
    assert!(matches!(taken, Answered::Key(..)), "{taken:?}");
}

#[test]
fn a_truncated_answer_is_asked_for_over_tcp() {
    let mut world = World::new();
    let mut transports = Vec::new();
    world.run(START_MS + 301_000, |server, query, now_ms| {
        transports.push(query.transport);
        let mut answer = honest(server, query, now_ms)?;
        if query.transport == Transport::Datagram {
            answer[2] |= 2;
        }
        Some(answer)
    });
    assert!(world.has_keys());
    assert_eq!(transports.len(), 4);
    assert_eq!(transports.iter().filter(|by| **by == Transport::Stream).count(), 2);
}

#[test]
fn an_epoch_that_ends_costs_no_key() {
    let mut world = World::new();
    world.run(START_MS + 301_000, honest);
    for waypoint in waypoints() {
        world.server.set_epoch(waypoint, epoch_keys(2));
    }
    for _ in 0..3_000 {
        assert!(world.has_keys());
        world.run(world.now_ms + 1_000, honest);
    }
    let credential = world.client.credential(waypoints()[0], world.now_ms).unwrap();
    assert_eq!(credential.capability().epoch.0, 2);
}

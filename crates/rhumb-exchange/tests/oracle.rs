//! After any seeded schedule of announcements, losses and restarts, members
//! hold what the policies say, and nothing else.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::time::Duration;

use rhumb_exchange::{Form, RouteId};

use crate::world::{Random, World, destination, small};

/// What each member announces: by destination, whom to, and what.
#[derive(Default)]
struct Oracle {
    announced: BTreeMap<(u16, Vec<u8>), Announced>,
}

type Announced = (Vec<u16>, RouteId, Vec<u8>);

impl Oracle {
    fn announce(&mut self, world: &mut World, random: &mut Random, from: u16) {
        let to = vec![b'd', random.below(6) as u8];
        let lanes: Vec<u16> =
            (0..world.lanes()).filter(|lane| *lane != from && random.below(2) == 0).collect();
        let bytes = random.bytes()[..random.below(32)].to_vec();
        let id = world.announce(from, &to, &lanes, &bytes);
        self.announced.insert((from, to), (lanes, id, bytes));
    }

    fn withdraw(&mut self, world: &mut World, random: &mut Random, from: u16) {
        let mine: Vec<_> =
            self.announced.keys().filter(|(lane, _)| *lane == from).cloned().collect();
        if !mine.is_empty() {
            let key = mine[random.below(mine.len())].clone();
            world.withdraw(from, &key.1);
            self.announced.remove(&key);
        }
    }

    /// A member's process begins anew and announces the same, less what it leaves out.
    fn restart_member(&mut self, world: &mut World, random: &mut Random, lane: u16) {
        world.start_member_without_end(lane, true);
        let mine: Vec<_> =
            self.announced.keys().filter(|(from, _)| *from == lane).cloned().collect();
        for key in mine {
            if random.below(4) == 0 {
                self.announced.remove(&key);
                continue;
            }
            let entry = self.announced.get_mut(&key).unwrap();
            entry.1 = world.announce(lane, &key.1, &entry.0, &entry.2);
        }
        world.member(lane).end_of_table();
    }

    fn check(&self, world: &World) {
        for lane in 0..world.lanes() {
            let may_have = self.announced.iter().filter(|(_, (lanes, ..))| lanes.contains(&lane));
            let mut expected: Vec<_> = may_have
                .map(|((from, to), (_, id, bytes))| (destination(to), *from, *id, bytes.clone()))
                .collect();
            expected.sort();
            assert_eq!(world.offered(lane), expected, "lane {lane}");
        }
    }

    /// The last result of each contested destination is one of the best for the member.
    fn check_selected(&self, world: &World, preferences: &[u8]) {
        for lane in 0..world.lanes() {
            for to in (0..6).map(|to| vec![b'd', to]) {
                let all: Vec<_> =
                    self.announced.iter().filter(|((_, other), _)| *other == to).collect();
                let mine = all.iter().filter(|(_, (lanes, ..))| lanes.contains(&lane));
                let best = mine.min_by_key(|((from, _), _)| {
                    (std::cmp::Reverse(preferences[usize::from(*from)]), *from)
                });
                if let (Some((_, (_, id, _))), true) = (best, all.len() > 1) {
                    assert_eq!(world.selected(lane, &to), Some(Some(*id)), "lane {lane}, {to:?}");
                }
            }
        }
    }
}

fn config(form: Form) -> rhumb_exchange::ServerConfig {
    small(6, form, 2)
}

#[test]
fn announcements_and_withdrawals_in_any_order() {
    for seed in 0..6 {
        let mut world = World::with(config(Form::TopClass), seed);
        let preferences = [3, 1, 4, 1, 5, 9];
        world.prefer(&preferences);
        let (mut oracle, mut random) = (Oracle::default(), Random(!seed));
        for _ in 0..60 {
            let from = random.below(6) as u16;
            match random.below(4) {
                0 => oracle.withdraw(&mut world, &mut random, from),
                _ => oracle.announce(&mut world, &mut random, from),
            }
            let steps = random.below(60);
            world.steps(steps);
        }
        world.pass(Duration::from_secs(40));
        oracle.check(&world);
        oracle.check_selected(&world, &preferences);
    }
}

#[test]
fn connections_break_and_come_back() {
    for seed in 0..10 {
        let mut world = World::with(config(Form::TopClass), seed);
        let (mut oracle, mut random) = (Oracle::default(), Random(!seed));
        for _ in 0..60 {
            let from = random.below(6) as u16;
            match random.below(5) {
                0 => oracle.withdraw(&mut world, &mut random, from),
                1 => world.connect(from, [0, 2][random.below(2)]),
                _ => oracle.announce(&mut world, &mut random, from),
            }
            let steps = random.below(60);
            world.steps(steps);
        }
        world.pass(Duration::from_secs(40));
        oracle.check(&world);
        oracle.check_selected(&world, &[0; 6]);
    }
}

#[test]
fn members_begin_anew() {
    for seed in 0..10 {
        let mut world = World::with(config(Form::TopClass), seed);
        let (mut oracle, mut random) = (Oracle::default(), Random(!seed));
        for _ in 0..40 {
            let from = random.below(6) as u16;
            match random.below(6) {
                0 => oracle.withdraw(&mut world, &mut random, from),
                1 => oracle.restart_member(&mut world, &mut random, from),
                _ => oracle.announce(&mut world, &mut random, from),
            }
            let steps = random.below(80);
            world.steps(steps);
        }
        world.pass(Duration::from_secs(40));
        oracle.check(&world);
        oracle.check_selected(&world, &[0; 6]);
    }
}

/// Servers restart with nothing, pairs change between primaries and
/// standbys, connections break, members begin anew.
#[test]
fn everything_fails_at_times() {
    for seed in 0..10 {
        let mut world = World::with(small(6, Form::TopClass, 1), seed);
        [1, 3].into_iter().for_each(|server| world.start_server(server));
        let (mut oracle, mut random) = (Oracle::default(), Random(!seed));
        for _ in 0..60 {
            let from = random.below(6) as u16;
            match random.below(10) {
                0 => oracle.withdraw(&mut world, &mut random, from),
                1 => world.connect(from, random.below(4)),
                2 => {
                    let (one, two) = (random.below(2), 2 + random.below(2));
                    world.begin_pair(one, two);
                }
                3 => {
                    let server = random.below(4);
                    world.start_server(server);
                    let steps = random.below(60);
                    world.steps(steps);
                    if world.pair.is_none() {
                        let (one, two) = (random.below(2), 2 + random.below(2));
                        world.begin_pair(one, two);
                    }
                }
                4 => oracle.restart_member(&mut world, &mut random, from),
                _ => oracle.announce(&mut world, &mut random, from),
            }
            let steps = random.below(100);
            world.steps(steps);
        }
        world.pass(Duration::from_secs(70));
        oracle.check(&world);
        oracle.check_selected(&world, &[0; 6]);
    }
}

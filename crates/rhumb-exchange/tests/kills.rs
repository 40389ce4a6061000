//! Whatever is killed, alone or together, and begins anew a little later: then all hold what the
//! policies say, and who says that all is here, has all.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rhumb_exchange::Form;

use crate::world::{Random, World, destination, small};

const LANES: u16 = 9;
/// Few enough that all moments of a change are looked at.
const FEW: u16 = 3;
const SHARDS: u16 = 2;
/// Party one and two, without their standbys.
const PAIR: [usize; 2] = [0, 2];

/// What each member announces: whom to, and what.
type Announced = BTreeMap<(u16, u32), (Vec<u16>, Vec<u8>)>;

struct Rig {
    world: World,
    announced: Announced,
    random: Random,
    destinations: u32,
}

impl Rig {
    /// All have announced something, and all is quiet.
    fn new(lanes: u16, seed: u64, destinations: u32, servers: &[usize]) -> Self {
        let mut config = small(lanes.into(), Form::TopClass, SHARDS);
        config.batch = 16;
        let mut world = World::empty(config, seed);
        servers.iter().for_each(|server| world.start_server(*server));
        (0..lanes).for_each(|lane| world.start_member(lane, true));
        world.begin_pair(PAIR[0], PAIR[1]);
        let random = Random(!seed);
        let mut rig = Self { world, announced: Announced::new(), random, destinations };
        for _ in 0..destinations * 2 {
            rig.announce();
        }
        rig.world.pass(Duration::from_secs(30));
        rig.check("at first");
        rig
    }

    /// Somebody who is there announces something.
    fn announce(&mut self) {
        let from = self.random.below(self.world.members.len()) as u16;
        if self.world.members[usize::from(from)].is_none() {
            return;
        }
        let to = self.random.below(self.destinations as usize) as u32;
        let lanes = (0..self.world.lanes()).filter(|lane| *lane != from);
        let lanes: Vec<u16> = lanes.filter(|_| self.random.below(3) > 0).collect();
        let bytes = self.random.bytes()[..8].to_vec();
        self.world.announce(from, &to.to_be_bytes(), &lanes, &bytes);
        self.announced.insert((from, to), (lanes, bytes));
    }

    /// A member's process announces what the one before it did.
    fn start_member(&mut self, lane: u16) {
        self.world.start_member_without_end(lane, true);
        let mine = self.announced.iter().filter(|((from, _), _)| *from == lane);
        for ((_, to), (lanes, bytes)) in mine {
            self.world.announce(lane, &to.to_be_bytes(), lanes, bytes);
        }
        self.world.member(lane).end_of_table();
    }

    fn steps(&mut self, most: usize) {
        let steps = self.random.below(most);
        self.world.steps(steps);
    }

    /// What a member lacks of those who are there, and what it has besides.
    fn wrong(&self, lane: u16) -> [usize; 2] {
        let is_there = |from: u16| self.world.members[usize::from(from)].is_some();
        let may_have = self.announced.iter().filter(|(_, (lanes, _))| lanes.contains(&lane));
        let expected: BTreeSet<_> = may_have
            .map(|((from, to), (_, bytes))| (destination(&to.to_be_bytes()), *from, bytes.clone()))
            .collect();
        let offered = self.world.offered(lane).into_iter();
        let held: BTreeSet<_> = offered.map(|(to, from, _, bytes)| (to, from, bytes)).collect();
        let lacks = expected.difference(&held).filter(|(_, from, _)| is_there(*from)).count();
        [lacks, held.difference(&expected).count()]
    }

    /// Nothing was announced for a while: who says that all is here, has all.
    fn check_words(&mut self, when: &str) {
        for lane in 0..self.world.lanes() {
            if self.world.members[usize::from(lane)].is_some()
                && self.world.member(lane).status().synced_shards == usize::from(SHARDS)
            {
                assert_eq!(self.wrong(lane)[0], 0, "{when}: lane {lane} says that all is here");
            }
        }
    }

    fn check(&mut self, when: &str) {
        for lane in 0..self.world.lanes() {
            let status = self.world.member(lane).status();
            assert_eq!(self.wrong(lane), [0, 0], "{when}: lane {lane}, {status:?}");
            assert_eq!(status.synced_shards, usize::from(SHARDS), "{when}: lane {lane}");
            assert_eq!((status.unopened, status.inconsistent), (0, 0), "{when}: lane {lane}");
        }
    }

    /// Some of these, none of them twice.
    fn some(&mut self, of: &[usize], least: usize) -> Vec<usize> {
        let (count, mut of) = (least + self.random.below(of.len()), of.to_vec());
        let mut some = Vec::new();
        while some.len() < count && !of.is_empty() {
            some.push(of.swap_remove(self.random.below(of.len())));
        }
        some
    }
}

#[test]
fn a_party_and_some_members_are_killed_together_while_nothing_is_announced() {
    for seed in 0..5 {
        let mut rig = Rig::new(LANES, seed, 60, &PAIR);
        for round in 0..3 {
            let killed = PAIR[rig.random.below(2)];
            let lanes = rig.some(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 1);
            let when = format!("seed {seed}, round {round}, server {killed}, lanes {lanes:?}");
            rig.world.stop_server(killed);
            lanes.iter().for_each(|lane| rig.world.stop_member(*lane as u16));
            rig.world.pass(Duration::from_secs(3));
            let mut starts: Vec<Option<usize>> = lanes.iter().copied().map(Some).collect();
            starts.insert(rig.random.below(lanes.len() + 1), None);
            for start in starts {
                match start {
                    Some(lane) => rig.start_member(lane as u16),
                    None => {
                        rig.world.start_server(killed);
                        rig.steps(200);
                        rig.world.begin_pair(PAIR[0], PAIR[1]);
                    }
                }
                for _ in 0..8 {
                    rig.steps(50);
                    rig.check_words(&when);
                }
            }
            while rig.world.step() {
                rig.check_words(&when);
                rig.steps(200);
            }
            rig.world.pass(Duration::from_secs(30));
            rig.check(&when);
        }
    }
}

/// Servers with their standbys, any pair of them, members:
/// killed under updates, in any order and together.
#[test]
fn anything_is_killed_under_updates() {
    for seed in 100..105 {
        let mut rig = Rig::new(LANES, seed, 40, &[0, 1, 2, 3]);
        for round in 0..4 {
            let servers = rig.some(&[0, 1, 2, 3], 0);
            let lanes = rig.some(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 0);
            let when = format!("seed {seed}, round {round}, servers {servers:?}, lanes {lanes:?}");
            let busy = |rig: &mut Rig| {
                for _ in 0..rig.random.below(20) {
                    rig.announce();
                    rig.steps(40);
                }
            };
            busy(&mut rig);
            servers.iter().for_each(|server| rig.world.stop_server(*server));
            lanes.iter().for_each(|lane| rig.world.stop_member(*lane as u16));
            // Standbys may take over meanwhile.
            let one = [0, 1].into_iter().find(|server| !servers.contains(server));
            let two = [2, 3].into_iter().find(|server| !servers.contains(server));
            if let (Some(one), Some(two), true) = (one, two, rig.random.below(2) == 0) {
                rig.world.begin_pair(one, two);
            }
            busy(&mut rig);
            rig.world.pass(Duration::from_secs(3));
            for server in servers {
                rig.world.start_server(server);
                busy(&mut rig);
            }
            for lane in lanes {
                rig.start_member(lane as u16);
                busy(&mut rig);
            }
            let pair = [rig.random.below(2), 2 + rig.random.below(2)];
            rig.world.begin_pair(pair[0], pair[1]);
            busy(&mut rig);
            rig.world.pass(Duration::from_secs(30));
            rig.check(&when);
        }
    }
}

/// Every member, and every two of them, at each moment of a change and of what comes of it: after
/// its first message, its second, and so on until nobody has anything to say.
#[test]
fn members_are_killed_at_every_moment_of_a_change() {
    let mut rig = Rig::new(FEW, 7, 4, &PAIR);
    let mut looked_at = 0;
    for killed in [&[0][..], &[1], &[2], &[0, 1], &[1, 2], &[0, 2]] {
        looked_at += at_every_moment(&mut rig, 1, killed, &[]);
    }
    assert!(looked_at > 200, "{looked_at} moments");
}

/// Either party, with members and without, and both together. A pair that begins costs both much
/// computation, so each is killed at another one of so many moments.
#[test]
fn parties_are_killed_at_the_moments_of_a_change() {
    let mut rig = Rig::new(FEW, 8, 4, &PAIR);
    let mut looked_at = 0;
    for (members, servers) in
        [(&[][..], &[PAIR[0]][..]), (&[], &[PAIR[1]]), (&[0, 2], &[PAIR[1]]), (&[1], &PAIR)]
    {
        looked_at += at_every_moment(&mut rig, 23, members, servers);
    }
    assert!(looked_at > 10, "{looked_at} moments");
}

/// How many moments there were.
fn at_every_moment(rig: &mut Rig, apart: usize, members: &[u16], servers: &[usize]) -> usize {
    for at in 0.. {
        let when = format!("members {members:?}, servers {servers:?}, message {}", at * apart);
        rig.announce();
        rig.announce();
        if (0..at * apart).any(|_| !rig.world.step()) {
            return at;
        }
        servers.iter().for_each(|server| rig.world.stop_server(*server));
        members.iter().for_each(|lane| rig.world.stop_member(*lane));
        rig.steps(20);
        members.iter().for_each(|lane| rig.start_member(*lane));
        if !servers.is_empty() {
            servers.iter().for_each(|server| rig.world.start_server(*server));
            rig.steps(20);
            rig.world.begin_pair(PAIR[0], PAIR[1]);
        }
        rig.world.pass(Duration::from_secs(30));
        rig.check(&when);
    }
    unreachable!("a change comes to rest")
}

//! Domains that tell each other through a private exchange which domains they reach: real
//! directories, members and both servers, which hand out what they cannot read. What is reached
//! follows policies as between RIBs; what the servers see does not; nothing forged is taken, and
//! what is not said again goes.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rhumb_exchange::{
    Common, Connection, Hello, Lane, Output, Party, Roster, Server, ServerConfig, Site,
};
use rhumb_member::DomainMember;
use rhumb_mpc::{FieldBits, Parameters, Seed};
use rhumb_rib::{Neighbour, Relation, Tell};
use rhumb_wire::offer::Offered;
use rhumb_wire::{Name, Role};

use crate::beyond::Domain;
use crate::world::Holder;
use crate::world::net::Net;

const PARTIES: [Party; 2] = [Party::One, Party::Two];
const SLOTS: u8 = 8;
const NEAR: usize = 0;
const LEFT: usize = 1;
const RIGHT: usize = 2;
const HOME: usize = 3;
const FAR: usize = 4;

/// What came to a party of a member: of which, when in milliseconds, and what.
type Seen = (usize, u16, u64, Vec<u8>);

/// `near` and `home` are customers of `left`, and `home` of `right`, too; `left` has the peers
/// `right` and `far`.
struct World {
    net: Net,
    end: usize,
    domains: Vec<Domain>,
    neighbours: Vec<Vec<Neighbour>>,
    config: Arc<ServerConfig>,
    servers: Option<[Server; 2]>,
    members: Vec<Option<DomainMember>>,
    /// Whose hello each server has judged.
    is_met: BTreeSet<(usize, u16)>,
    seen: Vec<Seen>,
    /// Announcements to these are lost on their way.
    withheld: Option<Vec<u8>>,
    begun_ms: u64,
    /// How often servers were started.
    starts: u8,
}

impl World {
    fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// `change` may change how a domain treats its neighbours.
    fn with(change: impl Fn(usize, &mut Vec<Neighbour>)) -> Self {
        let mut net = Net::new();
        let end = net.add_end(Role::Router);
        let domains: Vec<Domain> = (0..5).map(|_| Domain::at(&mut net, end, None)).collect();
        let sites = (0..5).map(|lane| Site {
            id: format!("site-{lane}"),
            member: format!("member-{lane}"),
            asn: 64500 + lane,
            key: [lane as u8; 32],
        });
        let roster = Roster::new(sites.collect()).unwrap();
        let mut config = ServerConfig::new(Common::new(Arc::new(roster)));
        config.engine = Parameters { field: FieldBits::Two, bit_words: 4096, vector_words: 1024 };
        let begun_ms = net.now.unix_ms;
        let mut world = Self {
            net,
            end,
            domains,
            neighbours: vec![Vec::new(); 5],
            config: Arc::new(config),
            servers: None,
            members: (0..5).map(|_| None).collect(),
            is_met: BTreeSet::new(),
            seen: Vec::new(),
            withheld: None,
            begun_ms,
            starts: 0,
        };
        for (above, below) in [(LEFT, NEAR), (LEFT, HOME), (RIGHT, HOME)] {
            world.beside(above, below, Relation::Customer);
            world.beside(below, above, Relation::Provider);
        }
        for (one, other) in [(LEFT, RIGHT), (LEFT, FAR)] {
            world.beside(one, other, Relation::Peer);
            world.beside(other, one, Relation::Peer);
        }
        for at in 0..5 {
            change(at, &mut world.neighbours[at]);
            let neighbours = world.neighbours[at].clone();
            let rib = world.domains[at].rib;
            world.net.configure(rib, |config| {
                config.neighbours = neighbours;
                config.address = Some(Net::address(rib));
            });
        }
        world.start_servers();
        world
    }

    fn beside(&mut self, from: usize, to: usize, relation: Relation) {
        let name = self.name(to);
        let up_to = (relation != Relation::Provider).then_some(name);
        let mut neighbour = Neighbour::new(name, relation);
        let word = self.domains[from].holder.carriage(name, up_to, to as u64 + 1);
        neighbour.carriage = Some(word);
        self.neighbours[from].push(neighbour);
    }

    fn name(&self, at: usize) -> Name {
        self.domains[at].name()
    }

    fn number(&self, name: Name) -> usize {
        self.domains.iter().position(|it| it.name() == name).unwrap()
    }

    /// Both servers as new processes, to which members that there are connect again.
    fn start_servers(&mut self) {
        let now = self.net.now.instant;
        self.starts += 1;
        let mut servers = PARTIES.map(|party| Server::new(party, &self.config).unwrap());
        let hellos = self.hellos();
        let epoch = self.config.check_party(&hellos[0], &hellos[1]).unwrap();
        for (seed, server) in (3..).zip(&mut servers) {
            server.pair_begun(epoch, || Seed::new([seed; 32]), now).unwrap();
        }
        self.servers = Some(servers);
        self.is_met.clear();
        for lane in 0..5 {
            let Some(mut member) = self.members[usize::from(lane)].take() else {
                self.start_member(lane);
                continue;
            };
            for (connection, party) in (0..).map(Connection).zip(PARTIES) {
                member.seat.disconnected(connection);
                member.seat.connected(connection, party);
            }
            self.greet(lane, member);
        }
    }

    fn hellos(&self) -> [Hello; 2] {
        PARTIES.map(|party| self.config.hello(party, [party as u8 + 2 * self.starts; 32]))
    }

    fn start_member(&mut self, lane: u16) {
        let now = self.net.now;
        let roster = Arc::clone(&self.config.common.roster);
        let secret = [lane as u8 + 50; 32];
        let mut member = DomainMember::new(roster, Lane(lane), SLOTS, secret, now.instant);
        let neighbours = self.neighbours[usize::from(lane)].iter();
        member.listen_to(&neighbours.map(|it| self.lane_of(it.domain)).collect());
        self.greet(lane, member);
    }

    /// Both servers say hello to a member.
    fn greet(&mut self, lane: u16, mut member: DomainMember) {
        let now = self.net.now;
        let up: Vec<_> = (0..).map(Connection).zip(PARTIES).collect();
        for (number, hello) in self.hellos().iter().enumerate() {
            let fresh = || Ok((now.unix_ms, [lane as u8 + 70; 32]));
            let made = member.seat.handle(up[number].0, &hello.emit(), &up, fresh).unwrap();
            if made {
                member.core_begins(now.instant);
            }
        }
        self.members[usize::from(lane)] = Some(member);
    }

    /// Its process is no more.
    fn stop_member(&mut self, lane: u16) {
        self.members[usize::from(lane)] = None;
        let now = self.net.now.instant;
        for (number, server) in self.servers.iter_mut().flatten().enumerate() {
            server.member_left(Lane(lane), now);
            self.is_met.remove(&(number, lane));
        }
    }

    fn lane_of(&self, domain: Name) -> Lane {
        Lane(self.number(domain) as u16)
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(250) {
            self.net.run(250);
            self.tell();
            self.carry();
            self.hear();
        }
    }

    /// As the process does that has both: what is to be offered goes to the member.
    fn tell(&mut self) {
        let now = self.net.now;
        for at in 0..self.members.len() {
            let names: Vec<Name> = self.neighbours[at].iter().map(|it| it.domain).collect();
            let lanes: Vec<(Name, Lane)> =
                names.into_iter().map(|name| (name, self.lane_of(name))).collect();
            let Some(member) = &mut self.members[at] else { continue };
            let server = self.net.ribs[self.domains[at].rib].server.as_mut().unwrap();
            let offers: BTreeMap<Lane, Vec<Offered>> =
                lanes.iter().map(|(name, lane)| (*lane, server.offered_to(*name, now))).collect();
            member.set_offers(offers);
            member.handle_timeout(now.instant, now.unix_s()).unwrap();
        }
    }

    fn hear(&mut self) {
        let now = self.net.now;
        for at in 0..self.members.len() {
            let names: Vec<Name> = self.neighbours[at].iter().map(|it| it.domain).collect();
            for name in names {
                let lane = self.lane_of(name);
                let Some(member) = &mut self.members[at] else { continue };
                member.take_events(now.instant, now.unix_s());
                if let Some(heard) = member.heard().get(&lane) {
                    let server = self.net.ribs[self.domains[at].rib].server.as_mut().unwrap();
                    server.hear_offers(name, &heard.offers, heard.heard_at, now);
                }
            }
        }
    }

    /// Until nobody at the exchange has anything to say.
    fn carry(&mut self) {
        let now = self.net.now.instant;
        let at_ms = self.net.now.unix_ms - self.begun_ms;
        let Some(servers) = &mut self.servers else { return };
        for server in servers.iter_mut() {
            server.handle_timeout(now);
        }
        let mut is_quiet = false;
        while !std::mem::replace(&mut is_quiet, true) {
            for number in 0..2 {
                for (lane, member) in (0..).zip(&mut self.members) {
                    let Some(member) = member else { continue };
                    while let Some(message) = member.seat.poll_message(Connection(number as u32)) {
                        is_quiet = false;
                        if self.withheld.as_ref().is_some_and(|it| contains(&message, it)) {
                            continue;
                        }
                        if self.is_met.insert((number, lane)) {
                            let hello = Hello::parse(&message).unwrap();
                            let takes_part = self.config.check_member(&hello, Lane(lane)).unwrap();
                            servers[number].member_joined(Lane(lane), takes_part, now);
                        } else {
                            servers[number].member_message(Lane(lane), &message, now).unwrap();
                        }
                        self.seen.push((number, lane, at_ms, message));
                    }
                }
                while let Some(output) = servers[number].poll_output() {
                    is_quiet = false;
                    match output {
                        Output::Peer(message) => {
                            servers[1 - number].peer_message(&message, now).unwrap();
                        }
                        Output::Member { lane, message } => {
                            let connection = Connection(number as u32);
                            if let Some(member) = &mut self.members[usize::from(lane.0)] {
                                let none = || unreachable!("it has a core");
                                member.seat.handle(connection, &message, &[], none).unwrap();
                            }
                        }
                        Output::PairFailed(error) | Output::MemberFailed { error, .. } => {
                            panic!("{error}")
                        }
                    }
                }
            }
        }
    }

    /// The domains on the ways from one to another, the way that goes first first.
    fn ways(&self, from: usize, to: usize) -> Vec<Vec<usize>> {
        let server = self.net.rib(self.domains[from].rib);
        let ways = server.neighbours().unwrap().ways(self.name(to), self.net.now);
        ways.iter().map(|way| way.path.iter().map(|it| self.number(*it)).collect()).collect()
    }

    fn is_stale(&self, from: usize, to: usize) -> bool {
        let server = self.net.rib(self.domains[from].rib);
        let ways = server.neighbours().unwrap().ways(self.name(to), self.net.now);
        ways.iter().all(|it| it.is_stale)
    }

    fn not_taken(&self, at: usize, why: &str) -> u64 {
        let server = self.net.rib(self.domains[at].rib);
        let mut all = server.neighbours().unwrap().not_taken();
        all.find(|(reason, _)| *reason == why).unwrap().1
    }

    fn change(&mut self, at: usize, change: impl FnOnce(&mut Vec<Neighbour>)) {
        change(&mut self.neighbours[at]);
        let now = self.net.now;
        let server = self.net.ribs[self.domains[at].rib].server.as_mut().unwrap();
        server.set_neighbours(&self.neighbours[at], now);
    }
}

fn contains(message: &[u8], part: &[u8]) -> bool {
    message.windows(part.len()).any(|it| it == part)
}

const WHY: [&str; 3] = ["unverified", "shape", "loop"];
const NONE: [[usize; 0]; 0] = [];

#[test]
fn domains_reach_each_other_by_policy_through_an_exchange_that_is_told_no_policy() {
    let mut world = World::new();
    world.run(20_000);
    assert_eq!(world.ways(NEAR, HOME), [[HOME, LEFT]]);
    assert_eq!(world.ways(LEFT, HOME), [vec![HOME], vec![HOME, RIGHT]], "customers first");
    assert_eq!(world.ways(FAR, HOME), [[HOME, LEFT]]);
    assert_eq!(world.ways(FAR, RIGHT), NONE, "a peer is not told of a peer");
    assert_eq!(world.ways(RIGHT, FAR), NONE);
    assert_eq!(world.ways(NEAR, RIGHT), [[RIGHT, LEFT]], "customers are told of peers");
    assert_eq!(world.ways(FAR, NEAR), [[NEAR, LEFT]], "and peers of customers");
    let server = world.net.rib(world.domains[NEAR].rib);
    assert_eq!(server.acquaintances(), (4, 4), "their RIBs are there, to be asked for names");

    // A name of home is found there, and led to by left.
    let (node, router) = (Holder::of(Role::Node), Holder::new());
    let (end, home, rib) = (world.end, world.name(HOME), world.domains[HOME].rib);
    world.net.publish(end, rib, &router, router.locator(1));
    world.net.publish(end, rib, &node, node.route(router.name(), 1));
    world.net.publish(end, rib, &node, node.export(home, 2));
    world.run(1000);
    let found = world.net.look_up(end, world.domains[NEAR].rib, node.name()).expect("found");
    let issuers: Vec<Name> = found.1.iter().map(|it| it.issuer).collect();
    let border = world.domains[LEFT].border.name();
    assert_eq!(issuers, [node.name(), home, world.name(LEFT), border]);

    // Left offers home to near no longer; far has it still.
    let near = world.name(NEAR);
    world.change(LEFT, |all| {
        all.iter_mut().filter(|it| it.domain == near).for_each(|it| it.withhold = vec![home]);
    });
    world.run(8000);
    assert_eq!(world.ways(NEAR, HOME), NONE);
    assert_eq!(world.ways(FAR, HOME), [[HOME, LEFT]]);
    world.change(LEFT, |all| all.iter_mut().for_each(|it| it.withhold.clear()));
    world.run(8000);
    assert_eq!(world.ways(NEAR, HOME), [[HOME, LEFT]]);
}

/// Of all that comes to a party: of whom, when, which kind, for which destination, and how long it
/// is.
fn shape(world: &World) -> Vec<(usize, u16, u64, Vec<u8>, usize)> {
    let of = |(party, lane, at_ms, message): &Seen| {
        // Kind, shard, mark, and of an announcement nonce and destination, with its length.
        let head = match message[0] {
            1 | 2 => 1 + 2 + 16 + 16 + 2 + 4,
            _ => 1,
        };
        (*party, *lane, *at_ms, message[..head].to_vec(), message.len())
    };
    world.seen.iter().map(of).collect()
}

#[test]
fn what_a_party_sees_is_the_same_whatever_is_offered_to_whom_and_whoever_is_preferred() {
    // Keys of domains are drawn anew in each world, and whatever comes of that is no secret here.
    let run = |change: &dyn Fn(usize, &mut Vec<Neighbour>)| {
        let mut world = World::with(change);
        world.run(12_000);
        // At the same time in all: another policy, a change in who is heard.
        let home = world.name(HOME);
        world.change(LEFT, |all| all.iter_mut().for_each(|it| it.withhold.push(home)));
        world.run(12_000);
        world
    };
    let first = run(&|_, _| {});
    let announced = first.seen.iter().filter(|(.., message)| message[0] == 1).count();
    assert_eq!(
        announced,
        5 * usize::from(SLOTS) * 4,
        "five members, every five seconds, the first"
    );
    let is_silent = |at: usize, all: &mut Vec<Neighbour>| {
        if at != HOME {
            all.iter_mut().for_each(|it| it.tell = Tell::Nothing);
        }
    };
    let tells_one_less = |at: usize, all: &mut Vec<Neighbour>| {
        if at == LEFT {
            all[0].tell = Tell::Own;
        }
    };
    let likes_another = |at: usize, all: &mut Vec<Neighbour>| {
        all.iter_mut().rev().zip(0..).for_each(|(it, nth)| it.preference = nth * 50 + at as u16);
    };
    let has_none = |at: usize, all: &mut Vec<Neighbour>| {
        if at == NEAR {
            all.clear();
        }
    };
    let others = [run(&is_silent), run(&tells_one_less), run(&likes_another), run(&has_none)];
    for (nth, other) in others.into_iter().enumerate() {
        assert!(shape(&other) == shape(&first), "secrets {nth}");
        let offers = |world: &World| {
            let table = |at: usize| world.net.rib(world.domains[at].rib).neighbours();
            let reached = |at: usize| table(at).map_or(0, |table| table.domains().len());
            [NEAR, LEFT, RIGHT, HOME, FAR].map(reached)
        };
        let is_other = offers(&other) != offers(&first);
        assert!(is_other || nth == 2, "{nth}: policies make no difference to members");
    }
}

#[test]
fn a_member_can_offer_nothing_in_the_name_of_another_nor_what_is_not_signed_for_it() {
    let mut world = World::new();
    world.run(15_000);
    let left = Lane(LEFT as u16);
    let now = world.net.now;
    // What home tells right, in the mouth of right: home's word for right is no word for left.
    let server = world.net.ribs[world.domains[HOME].rib].server.as_mut().unwrap();
    let name = world.domains[RIGHT].name();
    let mut copied = server.offered_to(name, now);
    assert_eq!(copied.len(), 1);
    // And what near would have to sign for right, which it did not.
    let near = world.name(NEAR);
    let mut forged = copied[0].clone();
    forged.0 = near;
    forged.1.certificates = vec![world.domains[NEAR].holder.carriage(name, None, 9)];
    forged.1.metadata = vec![world.domains[NEAR].holder.metadata()];
    forged.1.certificates[0].signature[9] ^= 1;
    copied.push(forged);
    // A way to far by left itself, in words that far and left have signed.
    let mut looped = copied[0].clone();
    looped.0 = world.name(FAR);
    let by = |at: usize, to: Name| world.domains[at].holder.carriage(to, None, 9);
    looped.1.certificates = vec![by(FAR, world.name(LEFT)), by(LEFT, name)];
    looped.1.metadata = [FAR, LEFT].map(|at| world.domains[at].holder.metadata()).into();
    copied.push(looped);
    let [unverified, shape, loops] = WHY.map(|why| world.not_taken(LEFT, why));
    for _ in 0..4 {
        world.net.run(2500);
        // Right's process says what it likes.
        world.tell();
        let liar = world.members[RIGHT].as_mut().unwrap();
        liar.set_offers(BTreeMap::from([(left, copied.clone())]));
        let later = world.net.now.instant + Duration::from_secs(5);
        liar.handle_timeout(later, world.net.now.unix_s()).unwrap();
        world.carry();
        world.hear();
    }
    let refused = WHY.map(|why| world.not_taken(LEFT, why));
    assert!(refused[0] > unverified, "the signature");
    assert!(refused[1] > shape, "home's borders are no way by right");
    assert!(refused[2] > loops, "left is on the way already");
    assert_eq!(world.ways(LEFT, FAR), [[FAR]]);
    assert!(world.ways(LEFT, NEAR).iter().all(|way| *way == [NEAR]));
    assert!(world.ways(LEFT, HOME).contains(&vec![HOME]));

    // A slot of left's, announced by right, is nobody's; and far listens to left alone.
    let before = world.members[NEAR].as_ref().unwrap().counters;
    let route = rhumb_exchange::Route::new(&[1; 2023]).unwrap();
    let slot = rhumb_exchange::Destination::new(&[b'd', 0, LEFT as u8, 3]).unwrap();
    let to = [Lane(NEAR as u16), Lane(HOME as u16)];
    let liar = &mut world.members[RIGHT].as_mut().unwrap().seat;
    assert!(liar.announce(&slot, to, &route).unwrap());
    world.run(1000);
    let after = |world: &World, at: usize| world.members[at].as_ref().unwrap().counters;
    assert_eq!(after(&world, NEAR).malformed, before.malformed, "right is no neighbour of near");
    assert!(after(&world, HOME).malformed > 0, "it is one of home, and has no such slot");
    assert_eq!(world.ways(NEAR, HOME), [[HOME, LEFT]]);
}

#[test]
fn what_an_exchange_withholds_is_used_no_longer_when_the_rest_is_heard() {
    let mut world = World::new();
    world.run(15_000);
    assert_eq!(world.ways(NEAR, HOME), [[HOME, LEFT]]);

    // An exchange that withholds what left says in one slot after the other: one of them is home's.
    let slots = (0..SLOTS).map(|slot| vec![b'd', 0, LEFT as u8, slot]);
    let missed = slots.filter(|slot| {
        world.withheld = Some(slot.clone());
        world.run(22_000);
        let is_gone = world.ways(NEAR, HOME).is_empty();
        world.withheld = None;
        world.run(7000);
        assert_eq!(world.ways(NEAR, HOME), [[HOME, LEFT]], "it is back");
        is_gone
    });
    // Its own word to near is in another, without which nothing leads by it.
    assert_eq!(missed.count(), 2);
}

#[test]
fn a_member_that_dies_takes_its_ways_along_soon_and_an_exchange_after_a_while() {
    let mut world = World::new();
    world.run(15_000);
    assert_eq!(world.ways(NEAR, HOME), [[HOME, LEFT]]);
    // Left is no more, which the servers notice after 30 seconds; before, its ways go last.
    world.stop_member(LEFT as u16);
    world.run(12_000);
    assert!(world.is_stale(NEAR, HOME) && world.ways(NEAR, HOME).len() == 1);
    world.run(25_000);
    assert_eq!(world.ways(NEAR, HOME), NONE);
    world.start_member(LEFT as u16);
    world.run(12_000);
    assert_eq!(world.ways(NEAR, HOME), [[HOME, LEFT]]);

    // The exchange is no more: ways go last, and after five minutes there are none.
    let servers = world.servers.take();
    world.run(12_000);
    assert!(world.is_stale(NEAR, HOME) && world.ways(NEAR, HOME).len() == 1);
    world.run(295_000);
    assert_eq!(world.ways(NEAR, HOME), NONE);
    world.servers = servers;
    world.run(12_000);
    assert_eq!(world.ways(NEAR, HOME), [[HOME, LEFT]]);
}

#[test]
fn a_rib_that_is_started_again_is_not_missed_and_neither_are_servers() {
    let mut world = World::new();
    world.run(15_000);
    let by_left = |world: &World| [NEAR, FAR].map(|from| world.ways(from, HOME));
    let before = by_left(&world);
    assert_eq!(before, [[[HOME, LEFT]], [[HOME, LEFT]]]);
    // Left's RIB, which knows nothing of others when it begins, and they all go by it.
    world.stop_member(LEFT as u16);
    world.net.stop(world.domains[LEFT].rib);
    world.net.start(world.domains[LEFT].rib);
    assert_eq!(world.ways(LEFT, HOME), NONE);
    world.start_member(LEFT as u16);
    for step in 0..60 {
        world.run(250);
        assert_eq!(by_left(&world), before, "at step {step}");
    }
    assert!(!world.is_stale(NEAR, HOME));

    // Both servers, which have forgotten all.
    world.start_servers();
    for step in 0..60 {
        world.run(250);
        assert_eq!(by_left(&world), before, "at step {step}");
    }
    assert!(!world.is_stale(NEAR, HOME));
    // And what changes now is heard of.
    let near = world.name(NEAR);
    let home = world.name(HOME);
    world.change(LEFT, |all| {
        all.iter_mut().filter(|it| it.domain == near).for_each(|it| it.withhold = vec![home]);
    });
    world.run(8000);
    assert_eq!(world.ways(NEAR, HOME), NONE);
}

//! Processes of a private exchange, killed at random and together, a router among them, while
//! routers go on changing routes: once that is over, every router has what the
//! policies say, and who says that all is here, has all.
//!
//! `RHUMB_KILLS_SEED` is the first seed, `RHUMB_KILLS_ROUNDS` how often some are killed,
//! `RHUMB_KILLS_RATE` the updates per second meanwhile; each run prints all three.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::exchanging::bird::Bird;
use crate::exchanging::proxy::{self, Proxy, Settings};
use crate::exchanging::router::{EXCHANGE_AS, Router};
use crate::exchanging::{Exchange, Server, is_paired, peers};

const MEMBERS: u16 = 6;
const PREFIXES: usize = 30;
/// The last one's router is BIRD, where there is one.
const OF_BIRD: u16 = MEMBERS - 1;
/// Party one, which has no standby; party two, and its standby.
const SERVERS: [&str; 3] = ["one", "two", "two-b"];
const PARTY_ONE: usize = 0;
/// What is killed, by number: servers, proxies, and BIRD.
const ROUTER: usize = SERVERS.len() + MEMBERS as usize;

/// What a router announces: the path behind its own AS, and who may not have it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    tail: Vec<u32>,
    denied: Vec<u16>,
}

struct Rig<'a> {
    exchange: &'a Exchange,
    random: Random,
    /// Updates per second that are asked for.
    rate: u64,
    /// How many updates were made at that rate, and in what time.
    updates: (u64, Duration),
    servers: Vec<Option<Server>>,
    addresses: Vec<SocketAddr>,
    proxies: Vec<Option<Proxy<'a>>>,
    routers: Vec<Speaker<'a>>,
    announced: BTreeMap<(u16, usize), Route>,
}

/// A member's router.
enum Speaker<'a> {
    Small(Router),
    Bird(Bird<'a>),
}

impl<'a> Speaker<'a> {
    fn start(exchange: &'a Exchange, number: u16) -> Self {
        let bird = (number == OF_BIRD).then(|| Bird::start(exchange, number)).flatten();
        bird.map_or_else(|| Self::Small(Router::start(number)), Self::Bird)
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Small(router) => router.address,
            Self::Bird(bird) => bird.address,
        }
    }

    fn announce(&self, prefix: &str, tail: &[u32], large: &[(u32, u32, u32)]) {
        match self {
            Self::Small(router) => router.announce(prefix, tail, large),
            Self::Bird(bird) => bird.announce(prefix, tail, large),
        }
    }

    fn withdraw(&self, prefix: &str) {
        match self {
            Self::Small(router) => router.withdraw(prefix),
            Self::Bird(bird) => bird.withdraw(prefix),
        }
    }

    fn received(&self) -> BTreeMap<String, Vec<u32>> {
        match self {
            Self::Small(router) => router.received(),
            Self::Bird(bird) => bird.received(),
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % bound as u64) as usize
    }
}

fn prefix(number: usize) -> String {
    format!("10.20.{number}.0/24")
}

impl<'a> Rig<'a> {
    fn start(exchange: &'a Exchange, seed: u64, rate: u64) -> Self {
        let configure = |server: &str, more: &str| {
            exchange.configure(server, "127.0.0.1:0", more);
            patient(exchange, server);
            exchange.start(server)
        };
        let two = configure("two", &exchange.callers());
        let standby = configure("two-b", &exchange.callers());
        let one = configure("one", &peers(&[&two, &standby]));
        one.wait_for(exchange, "a pair", is_paired);
        let servers = [one, two, standby];
        let addresses = servers.each_ref().map(|server| server.address);
        let [one, two, standby] =
            servers.each_ref().map(|it| format!("{}@{}", it.name, it.address));
        let named = format!("exchange = [\"{one}\"]\nneutral = [\"{two}\", \"{standby}\"]\n");
        let routers: Vec<Speaker<'_>> =
            (0..MEMBERS).map(|number| Speaker::start(exchange, number)).collect();
        let start = |lane: u16| {
            // Some choose by themselves, and with some the exchange does.
            let member = format!("select_best = {}", lane.is_multiple_of(2));
            let router = Some(routers[usize::from(lane)].address());
            let settings =
                Settings { servers: &named, router, member: &member, ..Settings::default() };
            Some(proxy::start(exchange, lane, &settings))
        };
        let proxies = (0..MEMBERS).map(start).collect();
        let (servers, addresses) = (servers.map(Some).into(), addresses.into());
        let (random, updates, announced) = (Random(seed), (0, Duration::ZERO), BTreeMap::new());
        Self { exchange, random, rate, updates, servers, addresses, proxies, routers, announced }
    }

    /// Some router announces or withdraws something.
    fn update(&mut self) {
        let from = self.random.below(MEMBERS.into()) as u16;
        let number = self.random.below(PREFIXES);
        let router = &self.routers[usize::from(from)];
        if self.random.below(4) == 0 {
            router.withdraw(&prefix(number));
            self.announced.remove(&(from, number));
            return;
        }
        let tail: Vec<u32> =
            (0..=self.random.below(2)).map(|_| 65000 + self.random.below(400) as u32).collect();
        let denied = (0..MEMBERS).filter(|to| *to != from && self.random.below(4) == 0);
        let denied: Vec<u16> = denied.collect();
        let order = |to: &u16| (EXCHANGE_AS, 0, 64500 + u32::from(*to));
        let orders: Vec<_> = denied.iter().map(order).collect();
        router.announce(&prefix(number), &tail, &orders);
        self.announced.insert((from, number), Route { tail, denied });
    }

    /// Updates for a while, as many a second as are asked for: who is behind makes up for it.
    fn update_for(&mut self, time: Duration) {
        let begin = Instant::now();
        let mut made = 0;
        while begin.elapsed() < time {
            let due = begin.elapsed().as_millis() as u64 * self.rate / 1000 + 1;
            (made..due).for_each(|_| self.update());
            made = due;
            std::thread::sleep(Duration::from_millis(2));
        }
        self.updates.0 += made;
        self.updates.1 += begin.elapsed();
    }

    /// The paths that a router may have, by prefix: with the exchange's choice any
    /// of the shortest, without the first of them.
    fn expected(&self, to: u16) -> BTreeMap<String, BTreeSet<Vec<u32>>> {
        let mut expected: BTreeMap<String, Vec<Vec<u32>>> = BTreeMap::new();
        for ((from, number), route) in &self.announced {
            if *from != to && !route.denied.contains(&to) {
                let path = [&[64500 + u32::from(*from)][..], &route.tail].concat();
                expected.entry(prefix(*number)).or_default().push(path);
            }
        }
        let best = expected.into_iter().map(|(prefix, paths)| {
            let shortest = paths.iter().map(Vec::len).min().unwrap();
            let best = paths.into_iter().filter(|path| path.len() == shortest);
            let most = if to.is_multiple_of(2) { usize::MAX } else { 1 };
            (prefix, best.take(most).collect())
        });
        best.collect()
    }

    /// What routers lack, have besides, or have in another way.
    fn differences(&self) -> Vec<String> {
        let of = |to: u16| {
            let (has, should) = (self.routers[usize::from(to)].received(), self.expected(to));
            let all: BTreeSet<&String> = has.keys().chain(should.keys()).collect();
            let wrong =
                all.into_iter().filter(|prefix| match (has.get(*prefix), should.get(*prefix)) {
                    (Some(has), Some(should)) => !should.contains(has),
                    _ => true,
                });
            let text = |it: &String| {
                format!("{to}: {it}: {:?} instead of {:?}", has.get(it), should.get(it))
            };
            wrong.map(text).collect::<Vec<_>>()
        };
        (0..MEMBERS).flat_map(of).collect()
    }

    fn all_say_that_all_is_here(&self) -> bool {
        let says = |proxy: &Proxy<'_>| {
            let status = proxy.status();
            status["exchange"]["synced"] == true && status["router"]["state"] == "established"
        };
        self.proxies.iter().flatten().all(says)
    }

    /// Nothing changes any more: soon all is right, and not said to be before.
    #[track_caller]
    fn check(&self, when: &str) {
        let begin = Instant::now();
        let mut said = None;
        loop {
            let differences = self.differences();
            if differences.is_empty() && self.all_say_that_all_is_here() {
                println!("{when}: right after {:.1} s", begin.elapsed().as_secs_f32());
                return;
            }
            if differences.is_empty() || !self.all_say_that_all_is_here() {
                said = None;
            } else {
                said.get_or_insert_with(Instant::now);
            }
            let is_believed = said.is_some_and(|since: Instant| since.elapsed() > BELIEVED);
            let is_late = begin.elapsed() > DEADLINE;
            if is_believed || is_late {
                let why = if is_believed { "all say that all is here" } else { "too late" };
                panic!(
                    "{when}: {why}: {} wrong: {differences:#?}\n{}",
                    differences.len(),
                    self.logs()
                );
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn logs(&self) -> String {
        let servers = self.servers.iter().flatten().map(|it| {
            format!("--\n{}\n{:#}", it.running.errors_so_far(), it.status(self.exchange))
        });
        let proxies =
            self.proxies.iter().flatten().map(|it| {
                format!("-- {}\n{}\n{:#}", it.lane, it.running.errors_so_far(), it.status())
            });
        let routers = self.routers.iter().map(|it| match it {
            Speaker::Bird(bird) => format!("-- BIRD\n{}\n", bird.log()),
            Speaker::Small(_) => String::new(),
        });
        servers.chain(proxies).chain(routers).collect()
    }

    /// Some are killed together, this one in any case, and started again a
    /// little later, in any order, while routers go on.
    fn kill_some(&mut self, certainly: usize) -> String {
        let mut killed: Vec<usize> = Vec::new();
        let proxies = SERVERS.len()..ROUTER;
        let all = ROUTER + usize::from(matches!(self.routers.last(), Some(Speaker::Bird(_))));
        while killed.is_empty() {
            let (random, all) = (&mut self.random, 0..all);
            killed = all.filter(|it| random.below(3) == 0 || certainly == *it).collect();
        }
        for at in &killed {
            match self.routers.last_mut() {
                Some(Speaker::Bird(bird)) if *at == ROUTER => bird.kill(),
                _ if proxies.contains(at) => {
                    self.proxies[at - SERVERS.len()].take().unwrap().running.kill();
                }
                _ => self.servers[*at].take().unwrap().running.kill(),
            }
        }
        let names = format!("{killed:?}");
        let time = Duration::from_millis(1000 + self.random.below(2000) as u64);
        self.update_for(time);
        while !killed.is_empty() {
            let at = killed.swap_remove(self.random.below(killed.len()));
            match self.routers.last_mut() {
                Some(Speaker::Bird(bird)) if at == ROUTER => bird.start_again(),
                _ if proxies.contains(&at) => {
                    let lane = at - SERVERS.len();
                    self.proxies[lane] = Some(proxy::start_again(self.exchange, lane as u16));
                }
                _ => self.start_server(at),
            }
            let time = Duration::from_millis(self.random.below(300) as u64);
            self.update_for(time);
        }
        names
    }

    fn start_server(&mut self, at: usize) {
        let (server, address) = (SERVERS[at], self.addresses[at]);
        let more = match server {
            "one" => {
                let peer = |at: usize| {
                    format!("\"{}@{}\"", self.exchange.name(SERVERS[at]), self.addresses[at])
                };
                format!("peer = [{}, {}]", peer(1), peer(2))
            }
            _ => self.exchange.callers(),
        };
        self.exchange.configure(server, &address.to_string(), &more);
        patient(self.exchange, server);
        self.servers[at] = Some(self.exchange.start(server));
    }
}

/// Who is killed is back before its routes are given up, or just not.
fn patient(exchange: &Exchange, server: &str) {
    let file = format!("{server}.toml");
    let text = std::fs::read_to_string(exchange.place.path(&file)).unwrap();
    exchange.place.write(&file, &text.replace("stale_ms = 1500", "stale_ms = 3000"));
}

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn whatever_is_killed_together_routers_have_what_the_policies_say_soon_after() {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = from_environment("RHUMB_KILLS_SEED", time.as_secs() % 100_000);
    let rounds = from_environment("RHUMB_KILLS_ROUNDS", 4);
    let rate = from_environment("RHUMB_KILLS_RATE", 400);
    println!("RHUMB_KILLS_SEED={seed} RHUMB_KILLS_ROUNDS={rounds} RHUMB_KILLS_RATE={rate}");
    let exchange = Exchange::new(MEMBERS.into());
    let mut rig = Rig::start(&exchange, seed, rate);
    (0..200).for_each(|_| rig.update());
    rig.check("at first");
    for round in 0..rounds {
        rig.update_for(Duration::from_millis(500));
        // While party one is away there is nobody else to order anything.
        let certainly = if round % 2 == 1 { PARTY_ONE } else { ROUTER };
        let killed = rig.kill_some(certainly);
        rig.check(&format!("seed {seed}, round {round}, killed {killed}"));
    }
    let (updates, time) = rig.updates;
    println!("{:.0} updates per second", updates as f64 / time.as_secs_f64());
}

/// What a route takes from its router to another, on a busy machine.
const BELIEVED: Duration = Duration::from_secs(5);
/// Half of it is how long those who are away are waited for.
const DEADLINE: Duration = Duration::from_secs(30);

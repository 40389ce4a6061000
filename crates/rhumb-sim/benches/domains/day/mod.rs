//! A day in the life of many domains, compressed: names are looked up, change and move by
//! popularity, all of it more by day than by night, and at noon one domain goes away with its RIB
//! and all of its routers, and comes back.
//!
//! 1. RIBs have names in store, most of them without nodes; a [`Hand`](hand::Hand) at each RIB
//!    looks names up as a router does, nine in ten of the own domain and one in ten of those that
//!    others let be known, and publishes what holders say. Each answer is held against the
//!    [`Ledger`](ledger::Ledger).
//! 2. Nodes at the routers send each other messages, and move to other routers of their domain: the
//!    routers look them up, and what arrives elsewhere ends the run.
//! 3. Of n names the one of rank k is chosen in proportion to about 1/k: Zipf's law with the
//!    exponent 1. So are nodes.
//! 4. Rates follow a sine over the day: at midnight a fifth of the mean, at noon nine fifths.
#![allow(dead_code, reason = "tests and bench each take a part of it")]

mod hand;
pub(crate) mod ledger;

use std::f64::consts::TAU;
use std::time::Duration;

use rhumb_sim::{Fault, Random, START_S, StationId, World};
use rhumb_trust::{Export, Window};
use rhumb_wire::rib::RibRequestBody;
use rhumb_wire::{Name, Scope, Statement};

use crate::nest::{self, Domain, SETTLING};
use crate::stock::{EXPORTED_ONE_IN, Stock, fill};
use hand::{Account, Hand};
use ledger::{Ledger, Place, Said};

/// How much of everything there is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Domains in the outermost one, and domains in each of these.
    pub(crate) seas: usize,
    pub(crate) ports: usize,
    /// Routers inside of them; each has a border besides.
    pub(crate) routers_of_seas: usize,
    pub(crate) routers_of_ports: usize,
    pub(crate) nodes_a_domain: usize,
    pub(crate) names: usize,
    /// The first names of each domain: such as change.
    pub(crate) changing: usize,
    pub(crate) day: Duration,
    /// Means over the day, of all domains together, a second.
    pub(crate) look_ups_per_s: f64,
    pub(crate) changes_per_s: f64,
    pub(crate) messages_per_s: f64,
    pub(crate) moves_per_s: f64,
}

/// What was seen of a day.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) domains: usize,
    pub(crate) routers: usize,
    pub(crate) names: usize,
    pub(crate) account: Account,
    pub(crate) messages: u64,
    /// Such as did not arrive, though nobody had moved and nothing was away.
    pub(crate) missing: u64,
    pub(crate) moves: u64,
    /// From the return on: until its RIB answers, and until messages from another domain have come
    /// to each of its nodes.
    pub(crate) answers_after: Option<Duration>,
    pub(crate) found_after: Option<Duration>,
    /// Questions to a RIB of each level in a second, the outermost first: the mean over the day,
    /// and that of the hour, a 24th of the day, which had most.
    pub(crate) questions: [(f64, f64); LEVELS],
    /// Questions that RIBs handed on.
    pub(crate) climbs: u64,
}

struct Sent {
    number: u64,
    from: StationId,
    to: StationId,
    at: Duration,
}

/// The domain that goes away.
#[derive(Debug, Clone, Copy)]
struct Lost {
    domain: usize,
    left_at: Option<Duration>,
    back_at: Option<Duration>,
    /// From when on it has to be as if it had never been away.
    again_at: Option<Duration>,
}

/// A number of things that happen at a rate.
#[derive(Debug, Default)]
struct Due(f64);

pub(crate) struct Day {
    size: Size,
    world: World,
    random: Random,
    /// The outermost one first, then those in it, then those in these.
    domains: Vec<Domain>,
    /// Of each domain but the outermost, as all below.
    stocks: Vec<Stock>,
    routers: Vec<Vec<Name>>,
    nodes: Vec<Vec<StationId>>,
    hands: Vec<Hand>,
    ledger: Ledger,
    began: Duration,
    lost: Lost,
    sent: Vec<Sent>,
    /// Messages to nodes of the domain that is back, and those that none of them has reached.
    probes: Vec<(u64, StationId)>,
    moved: Vec<(StationId, Duration)>,
    asked_before: Vec<u64>,
    seen: Seen,
    due: [Due; 4],
}

impl Size {
    /// What the bench has: about a million names, a thousand routers and a hundred domains.
    pub(crate) const FULL: Self = Self {
        seas: 9,
        ports: 10,
        routers_of_seas: 10,
        routers_of_ports: 9,
        nodes_a_domain: 4,
        names: 1_000_000,
        changing: 1_000,
        day: Duration::from_secs(480),
        look_ups_per_s: 500.0,
        changes_per_s: 50.0,
        messages_per_s: 50.0,
        moves_per_s: 2.0,
    };
    /// What a test has: seconds.
    pub(crate) const SMALL: Self = Self {
        seas: 2,
        ports: 2,
        routers_of_seas: 1,
        routers_of_ports: 2,
        nodes_a_domain: 2,
        names: 1_800,
        changing: 100,
        day: Duration::from_secs(96),
        look_ups_per_s: 40.0,
        changes_per_s: 8.0,
        messages_per_s: 4.0,
        moves_per_s: 0.1,
    };
}

// How it begins.
impl Day {
    pub(crate) fn new(size: Size) -> Self {
        let mut world = nest::world(4);
        let mut stocks = Vec::new();
        let each = size.names.div_ceil(size.seas * (1 + size.ports));
        let mut add = |world: &mut World, parent: Option<&Domain>, interiors: usize| {
            Domain::add(world, parent, interiors, |config, domain, routers| {
                let wanted = if parent.is_some() { each } else { 0 };
                let (disk, stock) = fill(config, domain, routers, (wanted, size.changing));
                stocks.push(stock);
                disk
            })
        };
        let outermost = add(&mut world, None, 1);
        let mut domains = vec![outermost];
        for _ in 0..size.seas {
            let sea = add(&mut world, domains.first(), size.routers_of_seas);
            domains.push(sea);
        }
        for at in 0..size.seas * size.ports {
            let port = add(&mut world, domains.get(1 + at % size.seas), size.routers_of_ports);
            domains.push(port);
        }
        stocks.remove(0);
        let names_of =
            |domain: &Domain| domain.interiors.iter().map(|it| world.name(*it)).collect();
        let routers: Vec<Vec<Name>> = domains[1..].iter().map(names_of).collect();
        let ledger = Ledger::new(routers.clone(), START_S * 1000);
        let domain = stocks.len() - 1;
        Self {
            size,
            world,
            random: Random::new(4),
            asked_before: vec![0; domains.len()],
            domains,
            stocks,
            routers,
            nodes: Vec::new(),
            hands: Vec::new(),
            ledger,
            began: Duration::ZERO,
            lost: Lost { domain, left_at: None, back_at: None, again_at: None },
            sent: Vec::new(),
            probes: Vec::new(),
            moved: Vec::new(),
            seen: Seen::default(),
            due: Default::default(),
        }
    }

    /// RIBs pass up what is known outside, nodes join, hands connect.
    fn begin(&mut self) {
        self.world.run(WALKING);
        for own in 0..self.stocks.len() {
            let domain = &self.domains[1 + own];
            let nodes =
                (0..self.size.nodes_a_domain).map(|it| domain.add_node(&mut self.world, it));
            self.nodes.push(nodes.collect());
            let around = own.checked_sub(self.size.seas).map(|port| port % self.size.seas);
            self.hands.push(Hand::new(&mut self.world, domain, (own, around)));
        }
        self.world.run(SETTLING);
        let is_published = |node: &StationId| self.world.is_published(*node);
        assert!(self.nodes.iter().flatten().all(is_published), "a node is not published");
        self.began = self.world.now();
        self.count_questions();
        self.seen.domains = self.domains.len();
        let of = |it: &Domain| it.interiors.len() + usize::from(it.border.is_some());
        self.seen.routers = self.domains.iter().map(of).sum();
        self.seen.names = self.stocks.iter().map(|it| it.names.len()).sum();
    }
}

// How it goes on.
impl Day {
    /// Lets the day pass, and what is left of it come to an end.
    pub(crate) fn pass(mut self) -> Seen {
        self.begin();
        let hour = self.size.day / HOURS;
        for at in 1..=HOURS {
            while self.world.now() < self.began + hour * at {
                self.happen();
                self.step();
            }
            let before = self.count_questions();
            for (level, asked) in before.into_iter().enumerate() {
                let a_second = asked / hour.as_secs_f64();
                let (mean, most) = &mut self.seen.questions[level];
                *mean += a_second / f64::from(HOURS);
                *most = most.max(a_second);
            }
            match at {
                LEAVES_AT => self.leave(),
                COMES_BACK_AT => self.come_back(),
                _ => {}
            }
        }
        let end = self.world.now() + LATEST;
        while self.world.now() < end {
            self.step();
        }
        self.seen.missing = self.sent.iter().filter(|it| self.is_missing(it)).count() as u64;
        self.seen
    }

    fn step(&mut self) {
        self.world.run(TICK);
        let is_over = self.lost.again_at.is_some_and(|at| at + LATEST < self.world.now());
        let away = self.lost.left_at.filter(|_| !is_over).map(|_| self.lost.domain);
        for hand in &mut self.hands {
            hand.hear(&mut self.world, &mut self.ledger, away, &mut self.seen.account);
        }
        if let Some(back_at) = self.lost.back_at.filter(|_| self.lost.again_at.is_none()) {
            self.probe(back_at);
        }
    }

    /// What happens in a tenth of a second.
    fn happen(&mut self) {
        let of_day = (self.world.now() - self.began).as_secs_f64() / self.size.day.as_secs_f64();
        let busy = 1.0 - SWING * (TAU * of_day).cos();
        let Size { look_ups_per_s, changes_per_s, messages_per_s, moves_per_s, .. } = self.size;
        let rates = [look_ups_per_s, changes_per_s, messages_per_s, moves_per_s];
        let mut numbers = [0; 4];
        for (at, rate) in rates.into_iter().enumerate() {
            numbers[at] = self.due[at].take(rate * busy * TICK.as_secs_f64());
        }
        let [look_ups, changes, messages, moves] = numbers;
        (0..look_ups).for_each(|_| self.look_up());
        (0..changes).for_each(|_| self.change());
        (0..messages).for_each(|_| self.send());
        (0..moves).for_each(|_| self.move_node());
    }

    fn is_away(&self, domain: usize) -> bool {
        domain == self.lost.domain && self.lost.left_at.is_some() && self.lost.again_at.is_none()
    }

    fn look_up(&mut self) {
        let hand = self.random.below(self.hands.len());
        if self.is_away(hand) {
            return;
        }
        let place = match self.random.chance(ABROAD) {
            // All domains' known names are one list by popularity, in turn.
            true => {
                let domains = self.stocks.len();
                let each = self.stocks[0].names.len().div_ceil(EXPORTED_ONE_IN);
                let rank = zipf(&mut self.random, domains * each);
                (rank % domains, rank / domains * EXPORTED_ONE_IN)
            }
            false => (hand, zipf(&mut self.random, self.stocks[hand].names.len())),
        };
        let name = self.stocks[place.0].names[place.1];
        let account = &mut self.seen.account;
        self.hands[hand].look_up(&mut self.world, &self.ledger, (place, name), account);
    }

    /// A name goes to another router, or is taken back, or comes again.
    fn change(&mut self) {
        let domain = self.random.below(self.hands.len());
        let stock = &self.stocks[domain];
        let place: Place = (domain, zipf(&mut self.random, stock.keys.len()));
        if self.is_away(domain) || !self.ledger.rests(place, self.world.now()) {
            return;
        }
        let sequence = (START_S * 1000) + self.world.now().as_millis() as u64 + 10;
        let is_taken_back = self.ledger.said(place).via.is_some() && self.random.chance(TAKEN_BACK);
        let via = (!is_taken_back).then(|| *self.random.pick(&self.routers[domain]));
        let statement = match via {
            Some(via) => Statement::Route { via, scope: Scope::Any },
            None => Statement::Withdrawal,
        };
        let export = Export { domain: self.domains[1 + domain].name(), up_to: None }.statement();
        let is_known = via.is_some() && place.1.is_multiple_of(EXPORTED_ONE_IN);
        let words = [Some((statement, sequence)), is_known.then_some((export, sequence + 1))];
        let window = Window::starting(START_S + self.world.now().as_secs(), LEASE_S);
        let key = &stock.keys[place.1];
        let certificates = words
            .into_iter()
            .flatten()
            .map(|(statement, sequence)| key.certify(statement, sequence, window).expect("signed"));
        let certificates = certificates.collect();
        let metadata = vec![(**key.metadata()).clone()];
        self.ledger.order(place, Said { sequence, via });
        let body = RibRequestBody::Publish { metadata, certificates };
        self.hands[domain].publish(&mut self.world, place, body);
    }

    /// Any node that is joined sends to one by popularity.
    fn send(&mut self) {
        let (domains, each) = (self.nodes.len(), self.size.nodes_a_domain);
        let rank = zipf(&mut self.random, domains * each);
        let to = self.nodes[rank % domains][rank / domains];
        let from = self.nodes[self.random.below(domains)][self.random.below(each)];
        if from == to || !self.world.is_joined(from) {
            return;
        }
        let at = self.world.now();
        if let Ok(number) = self.world.send(from, to, BODY_LEN) {
            self.seen.messages += 1;
            self.sent.push(Sent { number, from, to, at });
        }
    }

    fn move_node(&mut self) {
        let domains = self.nodes.len();
        let rank = zipf(&mut self.random, domains * self.size.nodes_a_domain);
        let domain = rank % domains;
        let node = self.nodes[domain][rank / domains];
        if self.is_away(domain) || self.has_moved(node, self.world.now()) {
            return;
        }
        let router = *self.random.pick(&self.domains[1 + domain].interiors);
        self.world.apply(&Fault::MoveRouter { node, router });
        self.moved.push((node, self.world.now()));
        self.seen.moves += 1;
    }

    fn has_moved(&self, node: StationId, about: Duration) -> bool {
        let is_near = |at: Duration| at < about + LATEST && about < at + LATEST;
        self.moved.iter().rev().any(|(moved, at)| *moved == node && is_near(*at))
    }

    fn is_missing(&self, sent: &Sent) -> bool {
        let of_lost = |node| self.nodes[self.lost.domain].contains(&node);
        let is_away = self.lost.left_at.is_some_and(|at| at < sent.at + LATEST)
            && self.lost.again_at.is_none_or(|at| sent.at < at);
        let excused = [sent.from, sent.to]
            .into_iter()
            .any(|node| (is_away && of_lost(node)) || self.has_moved(node, sent.at));
        !excused && self.world.message(sent.number).delivered_at.is_none()
    }
}

// The domain that goes away.
impl Day {
    fn stations_of_lost(&self) -> Vec<StationId> {
        let domain = &self.domains[1 + self.lost.domain];
        [domain.rib].into_iter().chain(domain.border).chain(domain.interiors.clone()).collect()
    }

    fn leave(&mut self) {
        self.lost.left_at = Some(self.world.now());
        for station in self.stations_of_lost() {
            self.world.apply(&Fault::Crash(station));
        }
        self.asked_before[1 + self.lost.domain] = 0;
    }

    fn come_back(&mut self) {
        self.lost.back_at = Some(self.world.now());
        for station in self.stations_of_lost() {
            self.world.apply(&Fault::Start(station));
        }
        self.hands[self.lost.domain].connect(&mut self.world);
    }

    /// Whether its RIB answers, and its nodes are reached from another domain, each by now.
    fn probe(&mut self, back_at: Duration) {
        let (own, now) = (self.lost.domain, self.world.now());
        if self.seen.answers_after.is_none() {
            let asked = self.domains[1 + own].rib;
            let answered = self.world.rib_counters(asked).is_some_and(|it| it.lookups_found > 0);
            self.seen.answers_after = answered.then(|| now - back_at);
            let place = ((own, 0), self.stocks[own].names[0]);
            let hand = &mut self.hands[own];
            hand.look_up(&mut self.world, &self.ledger, place, &mut self.seen.account);
        }
        let came = |world: &World, number: u64| world.message(number).delivered_at;
        let reached = |node: &StationId| {
            self.probes.iter().filter(|(_, to)| to == node).find_map(|it| came(&self.world, it.0))
        };
        let reached: Vec<Option<Duration>> = self.nodes[own].iter().map(reached).collect();
        if let Some(last) = reached
            .iter()
            .copied()
            .collect::<Option<Vec<_>>>()
            .and_then(|all| all.into_iter().max())
        {
            self.lost.again_at = Some(now);
            self.seen.found_after = Some(last - back_at);
            return;
        }
        let elsewhere = self.nodes[0][0];
        for (node, reached) in self.nodes[own].clone().into_iter().zip(reached) {
            if reached.is_none()
                && let Ok(number) = self.world.send(elsewhere, node, BODY_LEN)
            {
                self.probes.push((number, node));
            }
        }
    }

    /// Questions to the RIBs of each level since it was last asked, a RIB.
    fn count_questions(&mut self) -> [f64; LEVELS] {
        let (mut asked, mut climbs) = ([0.0; LEVELS], 0);
        for (at, domain) in self.domains.iter().enumerate() {
            let Some(it) = self.world.rib_counters(domain.rib) else { continue };
            climbs += it.climbs;
            let now = it.lookups_found + it.lookups_absent + it.lookups_found_beyond;
            let before = std::mem::replace(&mut self.asked_before[at], now);
            let (level, ribs) = match at {
                0 => (0, 1),
                _ if at <= self.size.seas => (1, self.size.seas),
                _ => (2, self.size.seas * self.size.ports),
            };
            asked[level] += now.saturating_sub(before) as f64 / ribs as f64;
        }
        self.seen.climbs = climbs;
        asked
    }
}

impl Due {
    /// Adds to it, and takes the whole ones.
    fn take(&mut self, more: f64) -> usize {
        self.0 += more;
        let whole = self.0.floor();
        self.0 -= whole;
        whole as usize
    }
}

/// A rank below `n`, by Zipf's law with the exponent 1: the logarithm of the rank is even.
fn zipf(random: &mut Random, n: usize) -> usize {
    let place = ((n + 1) as f64).powf(random.fraction());
    (place as usize).clamp(1, n) - 1
}

/// The outermost domain, those in it, and those in these.
const LEVELS: usize = 3;
const HOURS: u32 = 24;
/// At noon, when most is asked of everybody; it is away for three hours.
const LEAVES_AT: u32 = 12;
const COMES_BACK_AT: u32 = 15;
const TICK: Duration = Duration::from_millis(100);
/// How far rates go up and down, of their mean.
const SWING: f64 = 0.8;
/// Of look-ups, those for names of other domains.
const ABROAD: f64 = 0.1;
/// Of changes, those by which a name is gone.
const TAKEN_BACK: f64 = 0.25;
/// Until RIBs have passed up what is known outside.
const WALKING: Duration = Duration::from_secs(30);
/// Longer than a node goes on with a message, and than a router takes a silent node for present.
const LATEST: Duration = Duration::from_secs(25);
/// Longer than the day.
const LEASE_S: u64 = 3600;
const BODY_LEN: usize = 100;

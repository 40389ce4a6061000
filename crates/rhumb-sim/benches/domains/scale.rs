//! A hundred domains on three levels, a thousand routers and a million names.
//!
//! 1. A million names are published at the RIBs of 99 domains, through the production directory and
//!    with real signatures, before the world begins: one in a hundred says that it is known
//!    everywhere. They are names without nodes.
//! 2. The world begins: RIBs walk their stores and pass up what is exported, routers meet.
//! 3. Nodes join, two in each inner domain, and are exported. From then on a publisher in each
//!    domain renews, takes back and adds names all the time: the churn.
//! 4. Amid the churn nodes of innermost domains send to those on the other side of the world: for
//!    the first time, to other names (cold), and to these again (warm); then to names that have no
//!    nodes: exported ones, which end at a router that has them not, and others, which nobody
//!    outside may find.
//!
//! The simulation's witness looks at every delivery: a message that comes to another name than it
//! was for, or twice, ends the run.

use std::time::Duration;

use rhumb_sim::{Fault, START_S, StationId, World};
use rhumb_trust::Window;
use rhumb_wire::rib::{RibResponse, RibResponseBody};
use rhumb_wire::{Action, PduHeader, Rights, Role, Scope, Statement};

use crate::figures::Figures;
use crate::nest::{self, Domain, SETTLING};
use crate::stock::{Stock, fill, publication};

struct Scene {
    world: World,
    /// The outermost one first, then those in it, then those in these.
    domains: Vec<Domain>,
    stocks: Vec<Stock>,
    publishers: Vec<StationId>,
    nodes: Vec<StationId>,
    /// The number of the latest statement.
    number: u64,
    published: u64,
}

pub(crate) fn measure(figures: &mut Figures) {
    let names = names_wanted();
    let before = memory_bytes();
    let mut filled = 0.0;
    let mut scene = Scene::new(names, &mut filled);
    let built = memory_bytes();
    figures.condition(
        "scale",
        format!(
            "real: every RIB with its store in memory, every switch, link, signature and message. Modelled: the names are \
             published before the world begins and have no nodes; {NODES_A_DOMAIN} nodes a domain send; stores are in memory, \
             not on disk; routers' tables hold 4,096 entries; one thread, virtual time"
        ),
    );
    scene.world.run(WALKING);
    let walked = memory_bytes();
    let passed: u64 = scene.counters(0..).map(|it| it.passed_up).sum();
    scene.join();
    figures.add("scale_domains", "trust domains, on three levels", scene.domains.len() as f64, "");
    figures.add("scale_routers", "routers, borders included", scene.routers() as f64, "");
    figures.add("scale_names", "names at RIBs of inner domains", scene.stocked() as f64, "");
    figures.add("scale_passed_up", "statements passed up before nodes joined", passed as f64, "");
    let per = |bytes: f64| bytes / names as f64;
    figures.add("scale_store_bytes", "memory of the stores, a name", per(filled), "B");
    let what = "what was added while sessions came up and all was passed up";
    figures.add("scale_walked_mb", what, (walked - built) / 1e6, "MB");
    let of_world = (built - before - filled) / scene.routers() as f64;
    figures.add(
        "scale_router_bytes",
        "memory of the world without stores, a router",
        of_world,
        "B",
    );

    let begin = (scene.world.now(), scene.published);
    let first = scene.send_all("first", 0, figures);
    let cold = scene.send_all("cold", NODES_A_DOMAIN, figures);
    let warm = scene.send_all("warm", NODES_A_DOMAIN, figures);
    let stray = scene.send_to_stock();
    let lasted = (scene.world.now() - begin.0).as_secs_f64();
    let churn = (scene.published - begin.1) as f64 / lasted;
    let what = "names renewed, taken back or added, a virtual second";
    figures.add("scale_churn_per_s", what, churn, "names/s");
    for (name, [own, around]) in [("cold", cold), ("warm", warm)] {
        let bound = if name == "cold" { (1.0, "one question a level") } else { (0.0, "none") };
        let what = "questions handed on by RIBs of the senders' own domains, a message";
        figures.hold(&format!("scale_{name}_questions_own"), what, (own, "questions"), bound);
        let what = "the same by RIBs of the domains around those";
        figures.hold(&format!("scale_{name}_questions_around"), what, (around, "questions"), bound);
    }
    let what = "the same for the first message of each, with the borders of the domains around";
    figures.add("scale_first_questions_own", what, first[0], "questions");
    figures.add("scale_first_questions_around", what, first[1], "questions");
    figures.hold(
        "scale_wrong_deliveries",
        "messages that came to a node whom they were not for",
        (stray as f64, "messages"),
        (0.0, "none"),
    );
    let memory = (memory_bytes() / 1e9, "GB");
    figures.hold("scale_memory_gb", "of the whole process", memory, (8.0, "a small machine"));
}

impl Scene {
    fn new(names: usize, filled: &mut f64) -> Self {
        let mut world = nest::world(3);
        let mut stocks = Vec::new();
        let each = names.div_ceil(SEAS * (1 + PORTS));
        let mut add = |world: &mut World, parent: Option<&Domain>, interiors: usize| {
            Domain::add(world, parent, interiors, |config, domain, routers| {
                let (wanted, before) = (if parent.is_some() { each } else { 0 }, memory_bytes());
                let (disk, stock) = fill(config, domain, routers, (wanted, KEYS_KEPT));
                *filled += memory_bytes() - before;
                stocks.push(stock);
                disk
            })
        };
        let outermost = add(&mut world, None, 1);
        let mut domains = vec![outermost];
        for _ in 0..SEAS {
            let sea = add(&mut world, domains.first(), ROUTERS_OF_SEAS);
            domains.push(sea);
        }
        for at in 0..SEAS * PORTS {
            let port = add(&mut world, domains.get(1 + at % SEAS), ROUTERS_OF_PORTS);
            domains.push(port);
        }
        let (publishers, nodes) = (Vec::new(), Vec::new());
        Self { world, domains, stocks, publishers, nodes, number: 2, published: 0 }
    }

    fn routers(&self) -> usize {
        self.domains.iter().map(|it| it.interiors.len() + usize::from(it.border.is_some())).sum()
    }

    fn stocked(&self) -> usize {
        self.stocks.iter().map(|it| it.names.len()).sum()
    }

    fn counters(
        &self,
        of: std::ops::RangeFrom<usize>,
    ) -> impl Iterator<Item = &rhumb_rib::Counters> {
        self.domains[of].iter().filter_map(|it| self.world.rib_counters(it.rib))
    }

    /// Questions handed on to the domain around, by RIBs of the domains of senders, and by those of
    /// the domains around these.
    fn climbs(&self) -> [u64; 2] {
        let climbs =
            |domain: &Domain| self.world.rib_counters(domain.rib).map_or(0, |it| it.climbs);
        let ports = self.domains[1 + SEAS..].iter().enumerate();
        let own = ports.filter(|(at, _)| sends(*at)).map(|(_, it)| climbs(it)).sum();
        [own, self.domains[1..=SENDING_SEAS].iter().map(climbs).sum()]
    }

    /// Nodes join, and publishers connect.
    fn join(&mut self) {
        for domain in &self.domains[1..] {
            for number in 0..NODES_A_DOMAIN {
                self.nodes.push(domain.add_node(&mut self.world, number));
            }
            let publisher = domain.member(Role::Router, Rights::PUBLISH);
            let publisher = self.world.add_outsider_as(publisher);
            let (address, name) = (self.world.address(domain.rib), self.world.name(domain.rib));
            self.world.with_outsider(publisher, |it, now| it.connect(address, Some(name), now));
            self.publishers.push(publisher);
        }
        self.world.run(SETTLING);
        let is_published = |node: &StationId| self.world.is_published(*node);
        assert!(self.nodes.iter().all(is_published), "a node is not published");
    }

    /// Lets time pass, with the churn in it.
    fn run(&mut self, duration: Duration) {
        let end = self.world.now() + duration;
        while self.world.now() < end {
            for at in 0..self.publishers.len() {
                self.churn(at);
            }
            self.world.run(CHURN_EVERY);
        }
    }

    /// One name of a domain is renewed, one taken back, one added.
    fn churn(&mut self, at: usize) {
        let domain = &self.domains[1 + at];
        let (rib, router) = (self.world.name(domain.rib), self.world.name(domain.interiors[0]));
        let stock = &self.stocks[1 + at];
        let turn = self.number as usize;
        self.number += 1;
        let half = stock.keys.len() / 2;
        let renewed = &stock.keys[turn % half];
        // Each is taken back once, and then said again.
        let other = &stock.keys[half + turn / 2 % half];
        let fresh = nest::key(Role::Node);
        let route = Statement::Route { via: router, scope: Scope::Any };
        let again = if turn.is_multiple_of(2) { Statement::Withdrawal } else { route };
        let words = [(renewed, route), (other, again), (&fresh, route)].map(|(key, statement)| {
            let unix_s = START_S + self.world.now().as_secs();
            let sequence = START_S * 1000 + self.number + 10;
            let word = key.certify(statement, sequence, Window::starting(unix_s, 600));
            publication(key, vec![word.expect("signed")], turn as u32)
        });
        self.world.with_outsider(self.publishers[at], |outsider, now| {
            let Some(session) = outsider.session_with(&rib) else { return };
            for data in words {
                let header = PduHeader::new(Action::RibRequest, outsider.name(), rib);
                outsider.send(session, header, &data, &[], now);
            }
            let answers =
                outsider.inbox.drain(..).filter_map(|it| RibResponse::parse(&it.data).ok());
            let stored = answers.filter(|it| it.body == RibResponseBody::Stored).count();
            self.published += stored as u64;
        });
    }

    /// Nodes of the innermost domains of some seas send one message each to nodes of those of the
    /// other seas, so many nodes further on: questions a message, by level.
    fn send_all(&mut self, name: &str, shift: usize, figures: &mut Figures) -> [f64; 2] {
        let of_ports = self.nodes[SEAS * NODES_A_DOMAIN..].to_vec();
        let is_sender = |(at, _): &(usize, &StationId)| sends(at / NODES_A_DOMAIN);
        let (senders, others): (Vec<_>, Vec<_>) = of_ports.iter().enumerate().partition(is_sender);
        let before = self.climbs();
        let mut sent = Vec::with_capacity(senders.len());
        for (at, (_, from)) in senders.iter().enumerate() {
            let to = *others[(at + shift) % others.len()].1;
            let number = self.world.send(**from, to, 100).expect("there is room");
            sent.push((number, to));
            if at.is_multiple_of(10) {
                self.run(CHURN_EVERY);
            }
        }
        self.run(PATIENCE);
        let mut took_ms: Vec<f64> = sent
            .iter()
            .filter_map(|(number, to)| {
                let arrived = self.world.received(*to).iter().find(|it| it.number == *number)?;
                let took = arrived.at - self.world.message(*number).sent_at;
                Some(took.as_secs_f64() * 1e3)
            })
            .collect();
        took_ms.sort_by(f64::total_cmp);
        for (quantile, at) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
            let last = took_ms.len().saturating_sub(1);
            let value = took_ms.get((last as f64 * at) as usize).copied().unwrap_or(f64::NAN);
            let what = "until a message to the other side of the world arrives";
            figures.add(&format!("scale_{name}_{quantile}_ms"), what, value, "ms");
        }
        let missing = (sent.len() - took_ms.len()) as f64;
        let what = "messages that did not arrive within ten seconds";
        figures.hold(&format!("scale_{name}_missing"), what, (missing, "messages"), (0.0, "none"));
        let after = self.climbs();
        [0, 1].map(|level| (after[level] - before[level]) as f64 / sent.len() as f64)
    }

    /// Every node sends to names that have no node: how many of these came to anybody.
    fn send_to_stock(&mut self) -> usize {
        let before: usize = self.nodes.iter().map(|it| self.world.received(*it).len()).sum();
        for at in 0..self.nodes.len() {
            let stock = &self.stocks[1 + (at + self.publishers.len() / 2) % self.publishers.len()];
            let names = [stock.exported(at), stock.kept_in(at)];
            for name in names.into_iter().flatten() {
                self.world.send_to_name(self.nodes[at], name, 100).expect("there is room");
            }
            if at.is_multiple_of(10) {
                self.run(CHURN_EVERY);
            }
        }
        // Some leave meanwhile.
        for node in self.nodes.iter().step_by(10).copied().collect::<Vec<_>>() {
            self.world.apply(&Fault::Leave(node));
        }
        self.run(PATIENCE);
        let after: usize = self.nodes.iter().map(|it| self.world.received(*it).len()).sum();
        after - before
    }
}

/// Whether the nodes of this innermost domain send, and do not receive.
fn sends(port: usize) -> bool {
    port % SEAS < SENDING_SEAS
}

/// What the process has in memory.
fn memory_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) * 1024.0
}

/// Fewer by `RHUMB_BENCH_NAMES`, for who works at this.
fn names_wanted() -> usize {
    let wanted = std::env::var("RHUMB_BENCH_NAMES").ok().and_then(|text| text.parse().ok());
    wanted.unwrap_or(NAMES)
}

const NAMES: usize = 1_000_000;
/// With the outermost domain: 1 + 9 + 90.
const SEAS: usize = 9;
const PORTS: usize = 10;
/// Of these, as many have senders, and the others receivers.
const SENDING_SEAS: usize = 4;
/// With a border each, and one router in the outermost domain: 1 + 9 * 11 + 90 * 10.
const ROUTERS_OF_SEAS: usize = 10;
const ROUTERS_OF_PORTS: usize = 9;
const NODES_A_DOMAIN: usize = 2;
/// Keys of a domain's names that are renewed and taken back.
const KEYS_KEPT: usize = 100;
const CHURN_EVERY: Duration = Duration::from_millis(100);
/// Until RIBs have passed up what is exported.
const WALKING: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(10);

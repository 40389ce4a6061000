//! What two RIBs over one cluster serve, next to one: look-ups of popular names, and two renewals
//! for three of them, which is what `docs/scale.md` comes to. Renewals come from all names alike:
//! a lease ends when it ends, however often its name is asked for.
//!
//! One RIB is asked in one half of a round, and both in the other half. Two RIBs hear of each
//! other's changes and read names again that they had in memory: that is what a second one costs,
//! and it shows in the time of the RIBs' processes for each request. So that nothing else does,
//! each RIB is asked as often where there are two as where there is one: three quarters of what two
//! answer as fast as they can, which the nodes of the store decide, since they have to share this
//! machine's cores. What is answered as fast as can be is told beside it: there the one RIB has
//! twice as many requests a second for what it does in any case.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rhumb_trust::{Identity, Window};
use rhumb_wire::certificate::Locator;
use rhumb_wire::rib::{RequestId, RibRequestBody, RibResponseBody};
use rhumb_wire::{Certificate, Name, Role, Scope, Statement};

use crate::cassandra::Cassandra;
use crate::client::Client;
use crate::harness::{Place, Running};
use crate::machine::median;
use crate::report::Report;
use crate::world::{Holder, now_s};

pub(crate) const ROUNDS: usize = 5;
/// Unless another number is given.
pub(crate) const NAMES: usize = 50_000;
const SLICE: Duration = Duration::from_secs(4);
/// Requests under way at each RIB.
const WINDOW: usize = 64;
/// While names are made.
const FILL_WINDOW: usize = 256;
const FILL_PATIENCE: Duration = Duration::from_secs(5);
/// At so many a second at the least.
const SLOWEST_FILL: usize = 200;

/// Two RIBs over one store, and names in it.
pub(crate) struct Ribs {
    pub(crate) place: Place,
    pub(crate) ribs: Vec<Rib>,
    /// Who asks and tells.
    pub(crate) router: Arc<Identity>,
    /// Who tells of moves: whoever tells something is not told of it.
    pub(crate) other: Arc<Identity>,
    pub(crate) holders: Vec<Holder>,
    sequence: u64,
    random: StdRng,
}

/// A RIB's process.
pub(crate) struct Rib {
    pub(crate) running: Running,
    pub(crate) at: (Name, SocketAddr),
}

impl Ribs {
    pub(crate) fn start(cluster: &Cassandra, names: usize) -> Self {
        let holders = (0..names).map(|_| Holder::new()).collect();
        let first = ["--create-schema", "3"];
        let routers = [(); 2].map(|()| Arc::new(Identity::generate(Role::Router, 0).unwrap()));
        let mut ribs = Self::over(cluster, "served", routers, holders, [&first, &[]], "");
        ribs.fill();
        ribs
    }

    /// Over a keyspace, with further words for each of them, and nothing told yet.
    pub(crate) fn over(
        cluster: &Cassandra,
        keyspace: &str,
        [router, other]: [Arc<Identity>; 2],
        holders: Vec<Holder>,
        further: [&[&str]; 2],
        settings: &str,
    ) -> Self {
        let place = Place::new();
        place.write("rhumb.toml", settings);
        let store = cluster.address(keyspace).to_string();
        let start = |key: &str, further: &[&str]| {
            place.keygen("rib", key);
            let [admit, admit_other] = [&router, &other].map(|it| it.name().to_string());
            let arguments = [
                "rib",
                "--listen",
                "127.0.0.1:0",
                "--key",
                key,
                "--store",
                &store,
                "--admit",
                &admit,
                "--admit",
                &admit_other,
            ];
            let mut running = place.start(&[&arguments[..], further].concat());
            let ready = running.next_object_within(Duration::from_secs(120));
            let [name, address] =
                ["name", "address"].map(|it| ready[it].as_str().unwrap().to_owned());
            Rib { running, at: (name.parse().unwrap(), address.parse().unwrap()) }
        };
        let ribs = vec![start("1.key", further[0]), start("2.key", further[1])];
        let random = StdRng::seed_from_u64(1);
        let sequence = now_s() * 1000;
        Self { place, ribs, router, other, holders, sequence, random }
    }

    pub(crate) fn connect(&self, rib: usize) -> Client {
        Client::connect(&self.router, self.ribs[rib].at)
    }

    /// For who tells of moves.
    pub(crate) fn connect_other(&self, rib: usize) -> Client {
        Client::connect(&self.other, self.ribs[rib].at)
    }

    /// A statement that is newer than all before, and says the same.
    pub(crate) fn order(&mut self, holder: usize) -> RibRequestBody {
        self.order_by(holder, self.router.name())
    }

    /// A name goes to the other router.
    pub(crate) fn move_away(&mut self, holder: usize) -> RibRequestBody {
        self.order_by(holder, self.other.name())
    }

    fn order_by(&mut self, holder: usize, via: Name) -> RibRequestBody {
        self.sequence += 1;
        let route = Statement::Route { via, scope: Scope::Any };
        order(&self.holders[holder].0, route, self.sequence)
    }

    /// A name is nowhere from now on.
    pub(crate) fn leave(&mut self, holder: usize) -> RibRequestBody {
        self.sequence += 1;
        order(&self.holders[holder].0, Statement::Withdrawal, self.sequence)
    }

    /// Publishes the router's address, and all names.
    fn fill(&mut self) {
        let mut client = self.connect(0);
        let locator = Locator::new("192.0.2.1:4000".parse().unwrap()).unwrap();
        let locator = order(&self.router, Statement::Locator(locator), self.sequence);
        let mut orders = vec![locator];
        let mut unsigned = 0..self.holders.len();
        let mut under_way: HashMap<RequestId, (Instant, RibRequestBody)> = HashMap::new();
        let began = Instant::now();
        let longest = Duration::from_secs(30 + (self.holders.len() / SLOWEST_FILL) as u64);
        while !(orders.is_empty() && unsigned.is_empty() && under_way.is_empty()) {
            while under_way.len() < FILL_WINDOW
                && let Some(order) =
                    orders.pop().or_else(|| unsigned.next().map(|holder| self.order(holder)))
            {
                under_way.insert(client.ask(order.clone()), (Instant::now(), order));
            }
            for answer in client.answers(Duration::from_millis(20)) {
                // Nothing has been asked for, so nothing is told.
                let Some((_, order)) = under_way.remove(&answer.id) else { continue };
                if answer.body != RibResponseBody::Stored {
                    orders.push(order);
                }
            }
            // What is too much at once is dropped.
            let lost = under_way.extract_if(|_, (sent, _)| sent.elapsed() > FILL_PATIENCE);
            orders.extend(lost.map(|(_, (_, order))| order));
            assert!(began.elapsed() < longest, "{} left", unsigned.len() + under_way.len());
        }
    }

    /// A name, the one of rank r as often as 1 / r.
    fn popular(&mut self) -> usize {
        let names = self.holders.len();
        let rank = (names as f64).powf(self.random.random::<f64>()) as usize;
        rank.min(names - 1)
    }

    /// Has these RIBs serve for a while, each asked so often a second; returns how much was
    /// answered.
    fn serve(&mut self, clients: &mut [Client], each_per_s: f64) -> usize {
        let mut under_way = vec![HashMap::<RequestId, Instant>::new(); clients.len()];
        let mut asked = vec![0usize; clients.len()];
        let (began, mut answered, mut turn) = (Instant::now(), 0, 0usize);
        while began.elapsed() < SLICE {
            for ((client, under_way), asked) in
                clients.iter_mut().zip(&mut under_way).zip(&mut asked)
            {
                while under_way.len() < WINDOW
                    && (*asked as f64) < each_per_s * began.elapsed().as_secs_f64()
                {
                    (turn, *asked) = (turn + 1, *asked + 1);
                    let body = match turn % 5 {
                        0 | 2 => {
                            let holder = self.random.random_range(0..self.holders.len());
                            self.order(holder)
                        }
                        _ => {
                            let holder = self.popular();
                            RibRequestBody::LookUpRoute(self.holders[holder].name())
                        }
                    };
                    under_way.insert(client.ask(body), Instant::now());
                }
                for answer in client.answers(Duration::from_millis(2)) {
                    // Its number is the RIB's own.
                    if matches!(answer.body, RibResponseBody::Changed { .. }) {
                        continue;
                    }
                    let is_served = matches!(
                        answer.body,
                        RibResponseBody::Found { .. }
                            | RibResponseBody::Stored
                            // Renewals of one name may overtake each other.
                            | RibResponseBody::Superseded(_)
                    );
                    if under_way.remove(&answer.id).is_some() {
                        assert!(is_served, "{:?}", answer.body);
                        answered += 1;
                    }
                }
                under_way.retain(|_, sent| sent.elapsed() < Duration::from_secs(5));
            }
        }
        answered
    }

    /// Has so many RIBs serve for a while. Returns what was answered in a second of their
    /// processors, and of the clock.
    fn served(&mut self, count: usize, each_per_s: f64) -> (f64, f64) {
        let mut clients: Vec<Client> = (0..count).map(|rib| self.connect(rib)).collect();
        let cpu_s = |ribs: &Self| {
            ribs.ribs[..count].iter().map(|rib| cpu_s(rib.running.child.id())).sum::<f64>()
        };
        let (before, began) = (cpu_s(self), Instant::now());
        let answered = self.serve(&mut clients, each_per_s) as f64;
        (answered / (cpu_s(self) - before), answered / began.elapsed().as_secs_f64())
    }
}

fn order(holder: &Identity, statement: Statement, sequence: u64) -> RibRequestBody {
    let window = Window::starting(now_s(), 3600);
    let said: Certificate = holder.certify(statement, sequence, window).unwrap();
    let metadata = vec![(**holder.metadata()).clone()];
    RibRequestBody::Publish { metadata, certificates: vec![said] }
}

pub(crate) fn measure(ribs: &mut Ribs, report: &mut Report) {
    let [fastest_one, fastest_of_two] = take_turns(ribs, f64::INFINITY);
    let each_per_s = 0.75 * fastest_of_two.1 / 2.0;
    let [one, of_two] = take_turns(ribs, each_per_s);
    report.figure("asked_of_each_per_wall_s", each_per_s);
    report.figure("served_per_cpu_s_by_one", one.0);
    report.figure("served_per_cpu_s_by_each_of_two", of_two.0);
    for (count, (cpu, wall)) in [("one", fastest_one), ("two", fastest_of_two)] {
        report.figure(&format!("served_per_cpu_s_at_most_by_{count}"), cpu);
        report.figure(&format!("served_per_wall_s_at_most_by_{count}"), wall);
    }
    report.at_least("two_ribs_to_one", 2.0 * of_two.0 / one.0, 1.7);
}

/// What one RIB serves and what both do, each asked so often a second, as [`Ribs::served`] says it.
fn take_turns(ribs: &mut Ribs, each_per_s: f64) -> [(f64, f64); 2] {
    let mut seen = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        for count in [1, 2] {
            let served = ribs.served(count, each_per_s);
            // The first round warms up.
            if round > 0 {
                seen[count - 1].push(served);
            }
        }
    }
    let of = |rates: &[(f64, f64)], which: fn(&(f64, f64)) -> f64| median(rates.iter().map(which));
    seen.map(|rates| (of(&rates, |it| it.0), of(&rates, |it| it.1)))
}

/// Of a process with all its threads. Source: proc_pid_schedstat(5).
pub(crate) fn cpu_s(process: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let of_thread = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    threads.flatten().filter_map(of_thread).sum::<f64>() / 1e9
}

//! What it costs a router and a RIB to keep 10,000 names of that router published for a day, by how
//! long their leases are. Beside it the least that a lease under one signature could cost: each
//! name's own word holds for a day, and every five minutes the router signs a list of all names
//! that are attached.
//!
//! Counted are the processor's time of one thread for each end and the bytes of UDP payload between
//! nodes, router and RIB. The router verifies what it is told and makes an order of it; the RIB
//! reads, verifies and stores 64 orders at a time in a file. What both do besides for each record
//! is left out, to the good of what is sent often. Of the list the RIB verifies one signature and
//! notes each name in a table in memory. Times are medians over the rounds; only ratios travel
//! between machines.
//!
//! Run by `cargo xtask bench rib refresh`; `--json` prints one object. Takes about 20 seconds.

#[path = "../../rhumb-io/benches/machine/mod.rs"]
mod machine;
#[path = "../../rhumb-io/benches/machine/thread_cpu.rs"]
mod thread_cpu;

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

use machine::median;
use rhumb_rib::store::Embedded;
use rhumb_rib::{Asker, Config, Outcome, Rib};
use rhumb_trust::{Identity, Window, verify_chain, verify_statement};
use rhumb_wire::accept::Accept;
use rhumb_wire::certificate::Locator;
use rhumb_wire::datagram::RECORD_OVERHEAD;
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponseBody};
use rhumb_wire::{Certificate, Name, PduHeader, Role, Scope, Statement};

const ROUNDS: usize = 5;
const NAMES: usize = 10_000;
const NOW_S: u64 = 1_000_000;
/// As a full batch of datagrams has.
const ORDERS_A_COMMIT: usize = 64;
const DAY_S: u64 = 86_400;
/// What a router says of itself is renewed so often, whatever its nodes do.
const OWN_RENEWALS: f64 = 288.0;
/// Header and overhead of a PDU in a record.
const AROUND: usize = PduHeader::LEN + RECORD_OVERHEAD;
/// What fits a datagram that crosses everything.
const DATA_LEN: usize = 1232 - AROUND;

/// Of one refresh, or of a day.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    router_s: f64,
    rib_s: f64,
    bytes: f64,
}

impl Cost {
    fn times(self, count: f64) -> Self {
        let Self { router_s, rib_s, bytes } = self;
        Self { router_s: router_s * count, rib_s: rib_s * count, bytes: bytes * count }
    }

    fn and(self, other: Self) -> Self {
        Self {
            router_s: self.router_s + other.router_s,
            rib_s: self.rib_s + other.rib_s,
            bytes: self.bytes + other.bytes,
        }
    }
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let mut bench = Bench::new();
    let rounds: Vec<[Cost; 3]> =
        (0..ROUNDS).map(|_| [bench.each_signs(NAMES), bench.each_signs(1), bench.list()]).collect();
    let middle = |at: usize| {
        let of = |figure: fn(&Cost) -> f64| median(rounds.iter().map(|it| figure(&it[at])));
        Cost { router_s: of(|it| it.router_s), rib_s: of(|it| it.rib_s), bytes: of(|it| it.bytes) }
    };
    let [all, own, list] = [0, 1, 2].map(middle);
    let by_lease = |lease_s: u64| {
        let renewals = DAY_S as f64 / (lease_s as f64 / 2.0);
        all.times(renewals).and(own.times(OWN_RENEWALS))
    };
    let days = [
        ("lease_10_min", by_lease(600)),
        ("lease_1_h", by_lease(3600)),
        ("lease_24_h", by_lease(DAY_S)),
        ("list", by_lease(DAY_S).and(list.times(OWN_RENEWALS))),
    ];
    if json { print_json(all, &days) } else { print_text(all, &days) }
}

struct Bench {
    _folder: tempfile::TempDir,
    router: Identity,
    nodes: Vec<Identity>,
    rib: Rib<Embedded>,
    sequence: u64,
    attached: HashMap<Name, u64>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the store");
        let generate = |role| Identity::generate(role, 0).expect("a key");
        let mut config = Config::default();
        config.signatures_per_admitted_per_s = u32::MAX;
        let store = Embedded::open(&folder.path().join("store")).expect("a store");
        let mut bench = Self {
            _folder: folder,
            router: generate(Role::Router),
            nodes: (0..NAMES).map(|_| generate(Role::Node)).collect(),
            rib: Rib::new(Arc::new(generate(Role::Rib)), store, config),
            sequence: 0,
            attached: HashMap::new(),
        };
        bench.each_signs(NAMES);
        bench
    }

    /// So many names renew their leases, each by a signature of its own.
    fn each_signs(&mut self, count: usize) -> Cost {
        self.sequence += 1;
        let statement = Statement::Route { via: self.router.name(), scope: Scope::Any };
        let window = Window::starting(NOW_S, 600);
        let said: Vec<Certificate> = self.nodes[..count]
            .iter()
            .map(|node| node.certify(statement, self.sequence, window).expect("signed"))
            .collect();
        let (router_s, orders) = timed(|| self.router_orders(&said));
        let (rib_s, answered) = timed(|| publish(&mut self.rib, &orders));
        let asked: usize = orders.iter().map(|order| order.len() + AROUND).sum();
        let mut advertised = Vec::new();
        Certificate::emit_list(&said[..1], &mut advertised);
        // The node's Advertise, and two Accepts: once it is verified, and once it is stored.
        let by_node = advertised.len() + AROUND + 2 * (Accept::LEN + AROUND);
        Cost { router_s, rib_s, bytes: (asked + answered + count * by_node) as f64 }
    }

    fn router_orders(&self, said: &[Certificate]) -> Vec<Vec<u8>> {
        let order = |(node, certificate): (&Identity, &Certificate)| {
            let key = |name: &Name| (*name == node.name()).then_some(node.metadata().key);
            let chain = vec![certificate.clone()];
            black_box(verify_chain(node.name(), chain, key, NOW_S)).expect("genuine");
            let metadata = vec![(**node.metadata()).clone()];
            encode(RibRequestBody::Publish { metadata, certificates: vec![certificate.clone()] })
        };
        self.nodes.iter().zip(said).map(order).collect()
    }

    /// The router says in one statement who is attached.
    fn list(&mut self) -> Cost {
        self.sequence += 1;
        let address = "192.0.2.1:4000".parse().expect("an address");
        let statement = Statement::Locator(Locator::new(address).expect("usable"));
        let window = Window::starting(NOW_S, 600);
        let (router_s, signed) =
            timed(|| self.router.certify(statement, self.sequence, window).expect("signed"));
        let (rib_s, ()) = timed(|| {
            let verified = verify_statement(&signed, self.router.metadata(), NOW_S);
            black_box(verified).expect("genuine");
            for node in &self.nodes {
                self.attached.insert(node.name(), self.sequence);
            }
        });
        let names_a_datagram = DATA_LEN / Name::LEN;
        let datagrams = NAMES.div_ceil(names_a_datagram);
        // Each is acknowledged.
        Cost { router_s, rib_s, bytes: (NAMES * Name::LEN + 2 * datagrams * AROUND) as f64 }
    }
}

/// How long the processor worked on it.
fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begin = thread_cpu::now();
    let done = work();
    ((thread_cpu::now() - begin).as_secs_f64(), done)
}

fn encode(body: RibRequestBody) -> Vec<u8> {
    let mut data = Vec::new();
    RibRequest { id: RequestId(1), body }.emit(&mut data);
    data
}

/// Stores orders, and says how many bytes the answers take.
fn publish(rib: &mut Rib<Embedded>, orders: &[Vec<u8>]) -> usize {
    let mut answered = 0;
    for orders in orders.chunks(ORDERS_A_COMMIT) {
        for order in orders {
            assert!(matches!(rib.handle_request(ASKER, order, NOW_S), Outcome::Staged(_)));
        }
        for answer in rib.commit() {
            assert_eq!(answer.body, RibResponseBody::Stored);
            let mut data = Vec::new();
            answer.emit(&mut data);
            answered += data.len() + AROUND;
        }
    }
    answered
}

/// What is compared with what, the ratio, and the least that it should be.
fn targets(days: &[(&str, Cost)]) -> [(&'static str, f64, f64); 3] {
    let of = |label: &str| days.iter().find(|it| it.0 == label).expect("it was measured").1;
    let (short, long, list) = (of("lease_10_min"), of("lease_24_h"), of("list"));
    [
        ("rib_s of lease_10_min to lease_24_h", short.rib_s / long.rib_s, 100.0),
        ("router_s of lease_10_min to lease_24_h", short.router_s / long.router_s, 100.0),
        ("bytes of list to lease_24_h", list.bytes / long.bytes, 5.0),
    ]
}

fn print_text(refresh: Cost, days: &[(&str, Cost)]) {
    println!("{NAMES} names of one router, medians of {ROUNDS} rounds, one refresh by each:");
    let Cost { router_s, rib_s, bytes } = refresh;
    println!("  router {router_s:.3} s, RIB {rib_s:.3} s, {:.2} MB", bytes / 1e6);
    println!("in a day:");
    for (label, Cost { router_s, rib_s, bytes }) in days {
        println!(
            "  {label:<14} router {router_s:>8.2} s, RIB {rib_s:>8.2} s, {:>8.1} MB",
            bytes / 1e6
        );
    }
    for (what, ratio, least) in targets(days) {
        let verdict = if ratio >= least { "met" } else { "MISSED" };
        println!("  {what}: {ratio:.1}, target {least:.0} {verdict}");
    }
}

fn print_json(refresh: Cost, days: &[(&str, Cost)]) {
    let targets = targets(days).map(|(what, ratio, least)| {
        let met = ratio >= least;
        format!(
            "{{\"name\": \"{what}\", \"value\": {ratio:.2}, \"target\": \"at least {least}\", \"met\": {met}}}"
        )
    });
    let figures = |it: &Cost| {
        let Cost { router_s, rib_s, bytes } = it;
        format!("{{\"router_s\": {router_s:.4}, \"rib_s\": {rib_s:.4}, \"bytes\": {bytes:.0}}}")
    };
    let days: Vec<String> =
        days.iter().map(|(label, cost)| format!("\"{label}\": {}", figures(cost))).collect();
    println!(
        "{{\"bench\": \"rib-refresh\", \"conditions\": {{\"names\": {NAMES}, \"rounds\": {ROUNDS}, \"threads\": 1}}, \
         \"refresh\": {}, \"a_day\": {{{}}}, \"targets\": [{}]}}",
        figures(&refresh),
        days.join(", "),
        targets.join(", ")
    );
}

const ASKER: Asker = Asker::admitted(Name([0xA5; 32]), 1300);

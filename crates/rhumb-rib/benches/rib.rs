//! What a directory over a file serves in a second: orders to publish by the size of a commit, and
//! look-ups by where the answer comes from. One thread, requests and answers as bytes, no network.
//!
//! Beside it, in the same rounds, what no directory can do without: the verification of one
//! signature. Rates are medians over the rounds, in wall time, because commits wait for the disk; a
//! ratio is the median of the ratios within a round. Only ratios travel between machines, and those
//! of small commits only between like disks.
//!
//! Run by `cargo xtask bench rib`; `--json` prints one object. Takes about 10 seconds.

#![expect(clippy::disallowed_methods, reason = "a bench owns its clock")]

#[path = "../../rhumb-io/benches/machine/mod.rs"]
mod machine;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use machine::median;
use rhumb_rib::store::Embedded;
use rhumb_rib::{Asker, Config, Outcome, Rib};
use rhumb_trust::{Identity, Window, verify_statement};
use rhumb_wire::certificate::Locator;
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponseBody};
use rhumb_wire::{Certificate, Name, Role, Scope, Statement};

const ROUNDS: usize = 5;
const SLICE: Duration = Duration::from_millis(250);
/// Names in the store: enough that the file's tree has its usual depth of three.
const NAMES: usize = 20_000;
const NOW_S: u64 = 1_000_000;
/// Orders per commit. A batch of datagrams is at most 64; more shows what a longer wait would gain.
const COMMITS: [usize; 4] = [1, 16, 64, 512];

/// What is compared with what, and the least ratio there should be.
const TARGETS: [(&str, &str, &str, f64); 4] = [
    ("publish_64", "publish_1", "a full batch shares its commit", 8.0),
    ("publish_512", "verify", "with long commits, signatures are what takes time", 0.5),
    ("look_up_hot", "look_up_stored", "entries in memory spare the file", 2.0),
    ("absent_again", "absent_new", "one signature serves many", 10.0),
];

/// A rate, once per round.
struct Series {
    label: String,
    per_s: Vec<f64>,
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let folder = tempfile::tempdir().expect("a folder for the stores");
    let mut bench = Bench::new(folder.path());
    let mut series: Vec<Series> = Vec::new();
    for _ in 0..ROUNDS {
        for (label, per_s) in bench.round() {
            match series.iter_mut().find(|series| series.label == label) {
                Some(series) => series.per_s.push(per_s),
                None => series.push(Series { label, per_s: vec![per_s] }),
            }
        }
    }
    if json { print_json(&series) } else { print_text(&series) }
}

struct Bench {
    holders: Vec<Identity>,
    hot: Rib<Embedded>,
    stored: Rib<Embedded>,
    sequence: u64,
    unknown: u64,
    at: usize,
}

impl Bench {
    fn new(folder: &Path) -> Self {
        let generate = |_| Identity::generate(Role::Node, 0).expect("a key");
        let holders: Vec<Identity> = (0..NAMES).map(generate).collect();
        let open = |file: &str, cached_entries: usize| {
            let mut config = Config::default();
            config.signatures_per_admitted_per_s = u32::MAX;
            config.absences_per_s = u32::MAX;
            config.cached_entries = cached_entries;
            let store = Embedded::open(&folder.join(file)).expect("a store");
            let identity = Arc::new(Identity::generate(Role::Rib, 0).expect("a key"));
            Rib::new(identity, store, config)
        };
        let mut bench = Self {
            holders,
            hot: open("hot", 2 * NAMES),
            stored: open("stored", 0),
            sequence: 0,
            unknown: 0,
            at: 0,
        };
        // Every name has a route to the one beside it, every
        // other one an address as well: chains of two.
        let orders: Vec<Vec<u8>> = (0..NAMES)
            .map(|at| bench.order(at, bench.route(at)))
            .chain((0..NAMES).step_by(2).map(|at| bench.order(at, bench.locator(at, 1))))
            .collect();
        for order in orders.chunks(512) {
            publish(&mut bench.hot, order);
            publish(&mut bench.stored, order);
        }
        bench
    }

    fn route(&self, at: usize) -> Certificate {
        let via = self.holders[at ^ 1].name();
        self.certify(at, Statement::Route { via, scope: Scope::Any }, 1)
    }

    fn locator(&self, at: usize, sequence: u64) -> Certificate {
        let address = "192.0.2.1:4000".parse().expect("an address");
        self.certify(at, Statement::Locator(Locator::new(address).expect("usable")), sequence)
    }

    fn certify(&self, at: usize, statement: Statement, sequence: u64) -> Certificate {
        let window = Window::starting(NOW_S, 600);
        self.holders[at].certify(statement, sequence, window).expect("signed")
    }

    /// As a router sends it: with the issuer's metadata.
    fn order(&self, at: usize, certificate: Certificate) -> Vec<u8> {
        let metadata = vec![(**self.holders[at].metadata()).clone()];
        encode(RibRequestBody::Publish { metadata, certificates: vec![certificate] })
    }

    fn round(&mut self) -> Vec<(String, f64)> {
        let mut rates = vec![("verify".to_owned(), self.verify())];
        for commit in COMMITS {
            rates.push((format!("publish_{commit}"), self.publish(commit)));
        }
        // Odd names: their chains have two certificates, a route and an address.
        let look_ups: Vec<Vec<u8>> = (0..NAMES / 2)
            .map(|pair| encode(RibRequestBody::LookUpRoute(self.holders[pair * 2 + 1].name())))
            .collect();
        for look_up in &look_ups {
            ask(&mut self.hot, look_up);
        }
        rates.push(("look_up_hot".to_owned(), rate(&look_ups, |one| ask(&mut self.hot, one))));
        rates
            .push(("look_up_stored".to_owned(), rate(&look_ups, |one| ask(&mut self.stored, one))));
        let unknown: Vec<Vec<u8>> = (0..NAMES).map(|_| self.unknown()).collect();
        rates.push(("absent_new".to_owned(), rate(&unknown, |one| ask(&mut self.hot, one))));
        let again = vec![self.unknown()];
        ask(&mut self.hot, &again[0]);
        rates.push(("absent_again".to_owned(), rate(&again, |one| ask(&mut self.hot, one))));
        rates
    }

    fn verify(&self) -> f64 {
        let locators: Vec<_> = (0..256).map(|at| (at, self.locator(at, 1))).collect();
        rate(&locators, |(at, certificate)| {
            let verified = verify_statement(certificate, self.holders[*at].metadata(), NOW_S);
            black_box(verified).expect("genuine");
        })
    }

    /// Orders made beforehand; each renews the locator of another name.
    fn publish(&mut self, commit: usize) -> f64 {
        self.sequence += 1;
        let count = if commit == 1 { 256 } else { 4096 };
        let orders: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                self.at = (self.at + 2) % NAMES;
                self.order(self.at, self.locator(self.at, NOW_S + self.sequence))
            })
            .collect();
        let begin = Instant::now();
        for orders in orders.chunks(commit) {
            publish(&mut self.stored, orders);
        }
        orders.len() as f64 / begin.elapsed().as_secs_f64()
    }

    fn unknown(&mut self) -> Vec<u8> {
        self.unknown += 1;
        let mut name = [0; Name::LEN];
        name[..8].copy_from_slice(&self.unknown.to_be_bytes());
        encode(RibRequestBody::LookUpRoute(Name(name)))
    }
}

/// How often `work` is done in a second, on one item after the other.
fn rate<T>(items: &[T], mut work: impl FnMut(&T)) -> f64 {
    let begin = Instant::now();
    let mut done = 0u32;
    while begin.elapsed() < SLICE {
        for item in items.iter().cycle().skip(done as usize % items.len()).take(64) {
            work(item);
            done += 1;
        }
    }
    f64::from(done) / begin.elapsed().as_secs_f64()
}

fn encode(body: RibRequestBody) -> Vec<u8> {
    let mut data = Vec::new();
    RibRequest { id: RequestId(1), body }.emit(&mut data);
    data
}

fn ask(rib: &mut Rib<Embedded>, request: &[u8]) {
    match rib.handle_request(ASKER, request, NOW_S) {
        Outcome::Answer(answer) => {
            let mut data = Vec::new();
            answer.emit(&mut data);
            assert!(!matches!(answer.body, RibResponseBody::Refused(_)), "{answer:?}");
            black_box(data);
        }
        outcome => panic!("{outcome:?}"),
    }
}

fn publish(rib: &mut Rib<Embedded>, orders: &[Vec<u8>]) {
    for order in orders {
        assert!(matches!(rib.handle_request(ASKER, order, NOW_S), Outcome::Staged(_)));
    }
    for answer in rib.commit() {
        assert_eq!(answer.body, RibResponseBody::Stored);
    }
}

/// Each target's ratio, as measured.
fn ratios(series: &[Series]) -> Vec<f64> {
    let of = |label: &str| series.iter().find(|s| s.label == label).expect("it was measured");
    TARGETS
        .iter()
        .map(|(above, below, ..)| {
            let pairs = of(above).per_s.iter().zip(&of(below).per_s);
            median(pairs.map(|(above, below)| above / below))
        })
        .collect()
}

fn print_text(series: &[Series]) {
    println!("{NAMES} names in a file, one thread, medians of {ROUNDS} rounds, per second:");
    for Series { label, per_s } in series {
        println!("  {label:<16}{:>12.0}", median(per_s.iter().copied()));
    }
    for ((above, below, what, least), ratio) in TARGETS.iter().zip(ratios(series)) {
        let verdict = if ratio >= *least { "met" } else { "MISSED" };
        println!("  {above} / {below}: {ratio:.1}, target {least:.1} {verdict} ({what})");
    }
}

fn print_json(series: &[Series]) {
    let rates: Vec<String> = series
        .iter()
        .map(|s| format!("\"{}\": {:.0}", s.label, median(s.per_s.iter().copied())))
        .collect();
    let targets: Vec<String> = TARGETS
        .iter()
        .zip(ratios(series))
        .map(|((above, below, _, least), ratio)| {
            let met = ratio >= *least;
            format!(
                "{{\"name\": \"{above}_to_{below}\", \"value\": {ratio:.2}, \
                 \"target\": \"at least {least}\", \"met\": {met}}}"
            )
        })
        .collect();
    println!(
        "{{\"bench\": \"rib\", \"conditions\": {{\"names\": {NAMES}, \"rounds\": {ROUNDS}, \"threads\": 1}}, \
         \"per_s\": {{{}}}, \"targets\": [{}]}}",
        rates.join(", "),
        targets.join(", ")
    );
}

const ASKER: Asker = Asker::admitted(Name([0xA5; 32]), 1300);

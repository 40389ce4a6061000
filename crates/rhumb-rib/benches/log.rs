//! What the log of a RIB costs: bytes of memory for each name, and of an answer with its proof; the
//! time of a look-up with and without one, of verifying it, and of the next head after changes.
//!
//! Beside it, in the same rounds, the same look-up as a RIB without a log answers it, and one
//! signature, which whoever asks verifies for each answer anyway. Times are medians over the
//! rounds, in wall time of one thread; ratios are medians of the ratios within a round. Only ratios
//! and bytes travel between machines.
//!
//! Run by `cargo xtask bench rib log`; `--json` prints one object. Takes about a minute;
//! `NAMES=10000000` measures another number of names.

#![expect(clippy::disallowed_methods, reason = "a bench owns its clock")]

#[path = "../../rhumb-io/benches/machine/mod.rs"]
mod machine;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use machine::median;
use rhumb_rib::log::{EPOCH_MS, Log};
use rhumb_rib::store::Memory;
use rhumb_rib::{Asker, Config, Outcome, Rib};
use rhumb_trust::log::{held_of, verify_head};
use rhumb_trust::{Identity, Window, verify_statement};
use rhumb_wire::log::Head;
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody};
use rhumb_wire::{Certificate, Name, Role, Scope, Statement};

const ROUNDS: usize = 5;
const NAMES: u64 = 1_000_000;
/// Of real holders, that are asked for.
const HOLDERS: usize = 1000;
/// Changed between two heads: what a RIB takes in a second that is told much.
const CHANGES: usize = 10_000;
const NOW_S: u64 = 1_000_000;
/// As routers put answers to another RIB, too.
const SAMPLED_ONE_IN: f64 = 64.0;

/// What is compared with what, and the most that there should be.
const TARGETS: [(&str, f64, &str); 4] = [
    ("memory_per_name_bytes", 80.0, "ten million names are thinkable"),
    ("proof_bytes", 1200.0, "a proof with its head is one answer"),
    ("sampled_to_plain_look_up", 1.25, "one look-up in 64 with its proof, by none"),
    ("check_to_signature", 1.0, "checking a way through the map, by one signature"),
];

/// One round's times in nanoseconds.
#[derive(Default)]
struct Round {
    plain: f64,
    proof: f64,
    check: f64,
    signature: f64,
    head: f64,
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let names = std::env::var("NAMES").ok().and_then(|it| it.parse().ok()).unwrap_or(NAMES);
    let mut bench = Bench::new(names);
    let rounds: Vec<Round> = (0..ROUNDS).map(|_| bench.round()).collect();
    let of = |what: fn(&Round) -> f64| median(rounds.iter().map(what));
    let (bytes, longest) = bench.proof_bytes();
    let values = [
        bench.log.map_bytes() as f64 / names as f64,
        longest as f64,
        of(|it| (it.plain + it.proof / SAMPLED_ONE_IN) / it.plain),
        of(|it| it.check / it.signature),
    ];
    let figures = [
        ("plain_look_up_ns", of(|it| it.plain)),
        ("proof_ns", of(|it| it.proof)),
        ("check_ns", of(|it| it.check)),
        ("signature_ns", of(|it| it.signature)),
        ("head_per_change_ns", of(|it| it.head)),
        ("proof_bytes_mean", bytes),
        ("proofs_cost_of_look_ups", of(|it| it.proof / it.plain)),
    ];
    if json { print_json(names, &figures, &values) } else { print_text(names, &figures, &values) }
}

struct Bench {
    rib: Rib<Memory>,
    identity: Arc<Identity>,
    log: Log,
    now_ms: u64,
    holders: Vec<(Identity, Certificate)>,
    requests: Vec<Vec<u8>>,
    names: u64,
    at: u64,
}

impl Bench {
    fn new(names: u64) -> Self {
        let identity = Arc::new(Identity::generate(Role::Rib, 0).expect("a key"));
        let now_ms = NOW_S * 1000;
        let log = Log::new(identity.clone(), now_ms);
        let mut config = Config::default();
        config.signatures_per_admitted_per_s = u32::MAX;
        let rib = Rib::new(identity.clone(), Memory::new(), config);
        let (holders, requests) = (Vec::new(), Vec::new());
        let mut bench = Self { rib, identity, log, now_ms, holders, requests, names, at: 0 };
        for _ in 0..HOLDERS {
            let holder = Identity::generate(Role::Node, 0).expect("a key");
            let statement = Statement::Route { via: Name([9; 32]), scope: Scope::Any };
            let window = Window::starting(NOW_S, 600);
            let route = holder.certify(statement, NOW_S, window).expect("a signature");
            bench.publish(&holder, &route);
            bench.log.note(holder.name(), [&route]);
            bench.requests.push(encode(RibRequestBody::LookUpRoute(holder.name())));
            bench.holders.push((holder, route));
        }
        // All others hold the same: what counts is where they are.
        for number in HOLDERS as u64..names {
            bench.change(number);
            if number % (1 << 20) == 0 {
                bench.advance();
            }
        }
        bench.advance();
        bench
    }

    fn publish(&mut self, holder: &Identity, route: &Certificate) {
        let metadata = vec![(**holder.metadata()).clone()];
        let order = RibRequestBody::Publish { metadata, certificates: vec![route.clone()] };
        let outcome = self.rib.handle_request(ASKER, &encode(order), NOW_S);
        assert!(matches!(outcome, Outcome::Staged(_)), "{outcome:?}");
        self.rib.commit();
    }

    fn change(&mut self, number: u64) {
        let mut name = [0x55; Name::LEN];
        name[..8].copy_from_slice(&number.to_be_bytes());
        let of = number as usize % HOLDERS;
        self.log.note(Name(name), [&self.holders[of].1]);
    }

    fn advance(&mut self) {
        self.now_ms += EPOCH_MS;
        self.log.advance(self.now_ms).expect("a signature");
    }

    fn round(&mut self) -> Round {
        let mut round = Round {
            plain: each(&self.requests, |request| {
                let Outcome::Answer(answer) = self.rib.handle_request(ASKER, request, NOW_S) else {
                    panic!("it answers");
                };
                let mut out = Vec::new();
                answer.emit(&mut out);
                black_box(out);
            }),
            ..Round::default()
        };
        let log = &self.log;
        round.proof = each(&self.holders, |(holder, route)| {
            let path = log.path(&holder.name(), [route]).expect("it is there");
            let head = log.head().expect("it was made");
            let mut out = Vec::new();
            head.emit(&mut out);
            path.emit(&mut out);
            black_box(out);
        });
        let head = log.head().copied().expect("there is one");
        let head = verify_head(head, self.identity.metadata(), u64::MAX).expect("it holds");
        let paths: Vec<_> = self
            .holders
            .iter()
            .filter_map(|(holder, route)| Some((holder.name(), log.path(&holder.name(), [route])?)))
            .collect();
        round.check = each(&paths, |(name, path)| {
            assert!(held_of(&head, name, path).is_some_and(|held| held.len() == 1));
        });
        round.signature = each(&self.holders, |(holder, route)| {
            verify_statement(route, holder.metadata(), NOW_S).expect("it holds");
        });
        for _ in 0..CHANGES {
            // Each time another one, anywhere in the map, back and forth between two words.
            self.at = (self.at + 7_368_787) % self.names.saturating_sub(HOLDERS as u64).max(1);
            let mut name = [0x55; Name::LEN];
            name[..8].copy_from_slice(&(HOLDERS as u64 + self.at).to_be_bytes());
            let of = (self.now_ms / EPOCH_MS) as usize % HOLDERS;
            self.log.note(Name(name), [&self.holders[of].1]);
        }
        let begin = Instant::now();
        self.advance();
        round.head = begin.elapsed().as_nanos() as f64 / CHANGES as f64;
        round
    }

    /// Bytes of a head and a way: on average, and at most.
    fn proof_bytes(&self) -> (f64, usize) {
        let path = |(holder, route): &(Identity, Certificate)| {
            self.log.path(&holder.name(), [route]).map(|path| Head::LEN + path.emitted_len())
        };
        let all: Vec<usize> = self.holders.iter().filter_map(path).collect();
        let sum: usize = all.iter().sum();
        (sum as f64 / all.len() as f64, all.into_iter().max().unwrap_or(0))
    }
}

/// Nanoseconds for each of these.
fn each<T>(items: &[T], mut work: impl FnMut(&T)) -> f64 {
    let begin = Instant::now();
    items.iter().for_each(&mut work);
    begin.elapsed().as_nanos() as f64 / items.len() as f64
}

fn encode(body: RibRequestBody) -> Vec<u8> {
    let mut data = Vec::new();
    RibRequest { id: RequestId(1), body }.emit(&mut data);
    data
}

fn print_text(names: u64, figures: &[(&str, f64)], values: &[f64]) {
    println!("the log of {names} names in memory, one thread, medians of {ROUNDS} rounds:");
    for (label, value) in figures {
        println!("  {label:<24}{value:>12.0}");
    }
    for ((name, most, what), value) in TARGETS.iter().zip(values) {
        let verdict = if value <= most { "met" } else { "MISSED" };
        println!("  {name}: {value:.2}, target at most {most:.1} {verdict} ({what})");
    }
}

fn print_json(names: u64, figures: &[(&str, f64)], values: &[f64]) {
    let mut conditions: Vec<String> = machine::conditions()
        .iter()
        .map(|(name, value)| format!("\"{name}\": \"{}\"", value.replace('"', "'")))
        .collect();
    conditions.push(format!("\"names\": {names}, \"rounds\": {ROUNDS}, \"threads\": 1"));
    let figures: Vec<String> =
        figures.iter().map(|(label, value)| format!("\"{label}\": {value:.0}")).collect();
    let targets: Vec<String> = TARGETS
        .iter()
        .zip(values)
        .map(|((name, most, _), value)| {
            let met = value <= most;
            format!(
                "{{\"name\": \"{name}\", \"value\": {value:.2}, \
                 \"target\": \"at most {most}\", \"met\": {met}}}"
            )
        })
        .collect();
    println!(
        "{{\"bench\": \"rib-log\", \"conditions\": {{{}}}, \"figures\": {{{}}}, \
         \"targets\": [{}]}}",
        conditions.join(", "),
        figures.join(", "),
        targets.join(", ")
    );
}

const ASKER: Asker = Asker::admitted(Name([0xA5; 32]), 1300);

//! What was measured, held against what it should be:
//! text for people, one JSON object for programs.

use serde_json::{Map, Value, json};

use crate::forwarder::Backend;
use crate::machine::{self, median};
use crate::memory;
use crate::path::load;
use crate::path::{BACKENDS, Kind, PACKETS, ROUNDS, Series, Slice, Task};
use crate::traffic::SIZES;

/// Of null forwarding, what forwarding with verification keeps, at least.
const KEPT: f64 = 0.9;
/// Of what the HMAC of SRv6 adds to a packet, what verification adds, at most.
const OF_HMAC: f64 = 0.25;

/// A figure, and what it should be.
pub(crate) struct Target {
    name: String,
    value: f64,
    bound: f64,
    is_least: bool,
}

impl Target {
    pub(crate) fn at_most(name: impl Into<String>, value: f64, bound: f64) -> Self {
        Self { name: name.into(), value, bound, is_least: false }
    }

    fn at_least(name: impl Into<String>, value: f64, bound: f64) -> Self {
        Self { name: name.into(), value, bound, is_least: true }
    }

    fn is_met(&self) -> bool {
        if self.is_least { self.value >= self.bound } else { self.value <= self.bound }
    }

    fn bound(&self) -> String {
        format!("at {} {}", if self.is_least { "least" } else { "most" }, self.bound)
    }
}

/// The whole run.
pub(crate) struct Report {
    pub(crate) conditions: Map<String, Value>,
    pub(crate) memory: Vec<memory::Series>,
    pub(crate) path: Vec<Series>,
}

/// Medians of one kind at one size.
struct Row {
    kind: Kind,
    bytes: usize,
    kpps: f64,
    kpps_of_cpu: f64,
    all_ns: f64,
    arrival_ns: f64,
    thread_ns: f64,
    handling_ns: f64,
    per_batch: f64,
    lost: usize,
}

impl Report {
    fn rows(&self) -> impl Iterator<Item = Row> {
        self.path.iter().map(|series| {
            let Series { kind, bytes, slices, .. } = series;
            let middle = |figure: fn(&Slice) -> f64| median(slices.iter().map(figure));
            Row {
                kind: *kind,
                bytes: *bytes,
                kpps: middle(Slice::kpps),
                kpps_of_cpu: 1e6 / middle(Slice::all_ns),
                all_ns: middle(Slice::all_ns),
                arrival_ns: middle(Slice::arrival_ns),
                thread_ns: middle(Slice::thread_ns),
                handling_ns: middle(Slice::handling_ns),
                per_batch: middle(|it| it.work.packets as f64 / it.work.batches.max(1) as f64),
                lost: slices.iter().map(|slice| slice.lost).sum(),
            }
        })
    }

    /// A figure of one kind at one size, round by round.
    fn rounds(&self, kind: Kind, size: usize, figure: fn(&Slice) -> f64) -> Vec<f64> {
        let found = self.path.iter().find(|series| (series.kind, series.size) == (kind, size));
        found.map(|series| series.slices.iter().map(figure).collect()).unwrap_or_default()
    }

    /// The median over the rounds of what one kind takes more than another in the same round.
    fn added(&self, size: usize, more: Kind, less: Kind, figure: fn(&Slice) -> f64) -> f64 {
        let [more, less] = [more, less].map(|kind| self.rounds(kind, size, figure));
        median(more.iter().zip(&less).map(|(more, less)| more - less))
    }

    /// What verification adds in the forwarder, by the clock around it.
    fn verification(&self, backend: Backend, size: usize) -> f64 {
        let kind = |task| Kind::Waypoint(backend, task);
        self.added(size, kind(Task::Verify), kind(Task::Null), Slice::handling_ns)
    }

    /// What checking the HMAC adds to a packet of segment routing, of all the router's CPU time.
    fn hmac(&self, size: usize) -> f64 {
        let kind = |checked| Kind::Srv6 { checked };
        self.added(size, kind(true), kind(false), Slice::all_ns)
    }

    fn targets(&self) -> Vec<Target> {
        let mut targets = memory::targets(&self.memory);
        if self.path.is_empty() {
            return targets;
        }
        for size in SIZES {
            for backend in BACKENDS {
                let name = backend.name();
                let rounds = |task| self.rounds(Kind::Waypoint(backend, task), size, Slice::all_ns);
                let (null, verify) = (rounds(Task::Null), rounds(Task::Verify));
                let kept = median(null.iter().zip(&verify).map(|(null, verify)| null / verify));
                targets.push(Target::at_least(format!("{name}_kept_{size}"), kept, KEPT));
                let of_hmac = self.verification(backend, size) / self.hmac(size);
                targets.push(Target::at_most(format!("{name}_of_hmac_{size}"), of_hmac, OF_HMAC));
            }
        }
        targets
    }

    pub(crate) fn print_text(&self) {
        for (name, value) in &self.conditions {
            println!("{name}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        if !self.memory.is_empty() {
            println!();
            memory::print_text(&self.memory);
        }
        if !self.path.is_empty() {
            println!("\nover veth: medians of {ROUNDS} rounds of {PACKETS} packets");
            println!(
                "router            bytes   kpps  kpps/CPU-s  all ns  arrival  thread  handling  batch  lost"
            );
        }
        for row in self.rows() {
            println!("{}", row.text());
        }
        for (name, ns) in self.differences() {
            println!("{name:<40} {ns:>7.0} ns");
        }
        println!();
        for target in self.targets() {
            let verdict = if target.is_met() { "met" } else { "MISSED" };
            println!("{:<24} {:>6.2}, {}: {verdict}", target.name, target.value, target.bound());
        }
    }

    /// What proofs add to a packet.
    fn differences(&self) -> Vec<(String, f64)> {
        let mut all = Vec::new();
        if self.path.is_empty() {
            return all;
        }
        for size in SIZES {
            all.push((format!("hmac_adds_{size}"), self.hmac(size)));
            for backend in BACKENDS {
                let name = backend.name();
                let verification = self.verification(backend, size);
                all.push((format!("{name}_verification_adds_{size}"), verification));
                let kind = |task| Kind::Waypoint(backend, task);
                let whole = self.added(size, kind(Task::Verify), kind(Task::Null), Slice::all_ns);
                all.push((format!("{name}_verification_adds_to_all_{size}"), whole));
            }
        }
        all
    }

    pub(crate) fn print_json(&self) {
        let targets: Vec<Value> = self
            .targets()
            .iter()
            .map(|target| {
                json!({
                    "name": target.name,
                    "value": rounded(target.value),
                    "target": target.bound(),
                    "met": target.is_met(),
                })
            })
            .collect();
        let added = self.differences().into_iter().map(|(name, ns)| (name, rounded(ns).into()));
        let object = json!({
            "bench": "platypus",
            "conditions": self.conditions,
            "memory": self.memory.iter().map(memory::Series::json).collect::<Vec<_>>(),
            "veth": self.rows().map(|row| row.json()).collect::<Vec<_>>(),
            "added_ns": added.collect::<Map<String, Value>>(),
            "targets": targets,
        });
        println!("{object}");
    }
}

impl Row {
    fn text(&self) -> String {
        format!(
            "{:<17} {:>5} {:>6.0} {:>11.0} {:>7.0} {:>8.0} {:>7.0} {:>9.0} {:>6.0} {:>5}",
            self.kind.name(),
            self.bytes,
            self.kpps,
            self.kpps_of_cpu,
            self.all_ns,
            self.arrival_ns,
            self.thread_ns,
            self.handling_ns,
            self.per_batch,
            self.lost,
        )
    }

    fn json(&self) -> Value {
        json!({
            "router": self.kind.name(),
            "bytes": self.bytes,
            "kpps": self.kpps.round(),
            "kpps_per_cpu_s": self.kpps_of_cpu.round(),
            "all_ns": self.all_ns.round(),
            "arrival_ns": self.arrival_ns.round(),
            "thread_ns": self.thread_ns.round(),
            "handling_ns": rounded(self.handling_ns),
            "packets_per_batch": self.per_batch.round(),
            "lost": self.lost,
        })
    }
}

/// What was measured for the paper's Figure 4.
pub(crate) fn print_load(
    measured: Result<Vec<load::Series>, &'static str>,
    mut conditions: Map<String, Value>,
    is_json: bool,
) {
    conditions.insert("load_average_after".to_owned(), machine::load_average().into());
    conditions.insert("path".to_owned(), load::PATH.into());
    match measured {
        Err(why) => println!("left out: {why}"),
        Ok(all) if is_json => {
            let rows: Vec<Value> = all.iter().map(load::Series::json).collect();
            println!("{}", json!({ "bench": "platypus", "conditions": conditions, "load": rows }));
        }
        Ok(all) => load::print_text(&all),
    }
}

/// What the figures depend on.
pub(crate) fn conditions() -> Map<String, Value> {
    let more: [(&str, Value); 2] = [
        ("cores", std::thread::available_parallelism().map_or(1, usize::from).into()),
        (
            "path",
            "two veth pairs between namespaces, MTU 1500; source, router (threaded NAPI included) \
             and sink on core 0, the sink's arrivals on core 1"
                .into(),
        ),
    ];
    let machine = machine::conditions().map(|(name, value)| (name, value.into()));
    machine.into_iter().chain(more).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// To two decimals.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

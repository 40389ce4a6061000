//! Tables for people, one JSON object for programs, and what the figures are held against.

use serde_json::{Map, Value, json};

use crate::member::Form;
use crate::{changes, fast_path, memory, misses, sockets};

/// All that one run showed.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) conditions: Map<String, Value>,
    pub(crate) memory: Vec<memory::Row>,
    pub(crate) misses: Vec<misses::Row>,
    pub(crate) changes: Vec<changes::Row>,
    pub(crate) fast_path: Option<fast_path::Results>,
    pub(crate) sockets: Option<sockets::Results>,
    /// Whether the path is one that the socket targets are about.
    pub(crate) is_fair: bool,
}

struct Target {
    name: String,
    value: f64,
    at_least: f64,
    /// The other way round: what is less is better.
    at_most: bool,
    unit: &'static str,
}

impl Target {
    fn met(&self) -> bool {
        if self.at_most { self.value <= self.at_least } else { self.value >= self.at_least }
    }

    fn text(&self) -> String {
        let bound = if self.at_most { "at most" } else { "at least" };
        format!("{bound} {}{}", self.at_least, self.unit)
    }
}

impl Report {
    /// What was measured, against what it should be; and what could not be shown, with the reason.
    fn targets(&self) -> (Vec<Target>, Map<String, Value>) {
        let mut targets: Vec<Target> = self.memory.iter().map(memory_target).collect();
        targets.extend(self.memory.iter().map(names_target));
        targets.extend(self.memory.iter().map(sessions_target));
        targets.extend(misses_targets(&self.misses));
        targets.extend(self.changes.iter().map(changes_target));
        targets.extend(self.fast_path.as_ref().map(workers_target));
        let mut left_out = Map::new();
        let Some(sockets) = &self.sockets else { return (targets, left_out) };
        for &(payload, value) in sockets.of_bare.iter().filter(|(payload, _)| *payload == SIZE) {
            let name = format!("udp_of_bare_{payload}");
            targets.push(Target {
                name,
                value,
                at_least: OF_BARE_SOCKETS,
                at_most: false,
                unit: "",
            });
        }
        if let Some(value) = sockets.bundled_to_single {
            let name = "udp_bundled_to_single_64".to_owned();
            targets.push(Target { name, value, at_least: OF_SINGLE, at_most: false, unit: "" });
        }
        let row = |row: &&sockets::Row| row.forwarder == sockets::SWITCH && row.payload == SIZE;
        let Some(row) = sockets.rows.iter().find(row) else { return (targets, left_out) };
        let [delivered, per_core] = ["udp_gbps_1000", "udp_gbps_per_core_1000"];
        let mut gbps = |name: &str, value| {
            let (name, at_least, unit) = (name.to_owned(), GBPS, " Gbit/s");
            targets.push(Target { name, value, at_least, at_most: false, unit });
        };
        if !self.is_fair {
            let reason = "loopback carries runs whole, which flatters";
            left_out.insert(delivered.to_owned(), reason.into());
            left_out.insert(per_core.to_owned(), reason.into());
            return (targets, left_out);
        }
        gbps(per_core, row.gbps_per_core);
        if row.busy >= SATURATED {
            gbps(delivered, row.gbps);
        } else {
            let reason = format!(
                "the forwarder was at work {:.0} % of the time: the load was the slower",
                row.busy * 100.0
            );
            left_out.insert(delivered.to_owned(), reason.into());
        }
        (targets, left_out)
    }

    pub(crate) fn print_json(&self) {
        let (targets, left_out) = self.targets();
        let mut conditions = self.conditions.clone();
        conditions.insert("left_out".to_owned(), left_out.into());
        let targets: Vec<Value> = targets
            .iter()
            .map(|target| {
                json!({
                    "name": target.name,
                    "value": rounded(target.value),
                    "target": target.text(),
                    "met": target.met(),
                })
            })
            .collect();
        let memory: Vec<Value> = self.memory.iter().map(memory_json).collect();
        let misses: Vec<Value> = self.misses.iter().map(misses::Row::json).collect();
        let changes: Vec<Value> = self.changes.iter().map(changes::Row::json).collect();
        let sockets: Vec<Value> =
            self.sockets.iter().flat_map(|sockets| &sockets.rows).map(socket_json).collect();
        let object = json!({
            "bench": "switch",
            "conditions": conditions,
            "memory_ns_per_datagram": memory,
            "misses": misses,
            "changes": changes,
            "workers": self.fast_path.as_ref().map(fast_path::Results::json),
            "udp": sockets,
            "targets": targets,
        });
        println!("{object}");
    }

    pub(crate) fn print_text(&self) {
        for (name, value) in &self.conditions {
            println!("{name}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        if !self.memory.is_empty() {
            print_memory(&self.memory);
        }
        if !self.misses.is_empty() {
            print_misses(&self.misses);
        }
        if !self.changes.is_empty() {
            println!("\nknown flows while routes of others change, Mpps of the worker");
            println!("payload     flows  still changing  kept  told/s in force us/change");
            self.changes.iter().for_each(changes::Row::print_text);
        }
        if let Some(fast_path) = &self.fast_path {
            fast_path.print_text();
        }
        if let Some(sockets) = &self.sockets {
            print_sockets(sockets);
        }
        let (targets, left_out) = self.targets();
        println!();
        for target in &targets {
            let verdict = if target.met() { "met" } else { "MISSED" };
            println!("{:<24} {:>5.2}, {}: {verdict}", target.name, target.value, target.text());
        }
        for (name, reason) in &left_out {
            println!("{name:<24} not shown: {}", reason.as_str().unwrap_or_default());
        }
    }
}

fn memory_target(row: &memory::Row) -> Target {
    let name = format!("memory_{}_{}", name_of(row.form), row.payload);
    let at_least = match (row.form, row.payload) {
        (Form::Labels, 64) => OF_BARE_64,
        (Form::Labels, 1000) => OF_BARE_1000,
        _ => OF_BARE_MEMORY,
    };
    Target { name, value: row.one.ratio, at_least, at_most: false, unit: "" }
}

/// A million names in the table against a thousand, between as many sessions.
fn names_target(row: &memory::Row) -> Target {
    let name = format!("million_names_{}_{}", name_of(row.form), row.payload);
    let (value, at_least) = (row.of_thousand, MILLION_NAMES);
    Target { name, value, at_least, at_most: true, unit: "" }
}

/// One of a million flows between 1,024 sessions.
fn sessions_target(row: &memory::Row) -> Target {
    let name = format!("sessions_{}_{}", name_of(row.form), row.payload);
    let (value, at_least) = (row.million.ratio, OF_BARE_SESSIONS);
    Target { name, value, at_least, at_most: false, unit: "" }
}

/// What is left for known names, at the share of misses that leaves least.
fn misses_targets(rows: &[misses::Row]) -> Vec<Target> {
    let mut payloads: Vec<usize> = rows.iter().map(|row| row.payload).collect();
    payloads.dedup();
    let target = |payload: usize, (kind, name): (usize, &str)| {
        let of_size = rows.iter().filter(|row| row.payload == payload && row.per_mille > 0);
        let value = of_size.map(|row| row.switch[kind].of_share).fold(f64::INFINITY, f64::min);
        let name = format!("misses_{name}_{payload}");
        Target { name, value, at_least: OF_SHARE, at_most: false, unit: "" }
    };
    let kinds = [(0, "new"), (1, "same")];
    payloads.iter().flat_map(|&payload| kinds.map(|kind| target(payload, kind))).collect()
}

fn changes_target(row: &changes::Row) -> Target {
    let name = format!("changes_{}_flows_{}", row.flows, row.payload);
    Target { name, value: row.kept, at_least: OF_STILL, at_most: false, unit: "" }
}

fn workers_target(results: &fast_path::Results) -> Target {
    let (name, value) = ("two_workers_cpu".to_owned(), results.two.ratio);
    Target { name, value, at_least: TWO_WORKERS_CPU, at_most: true, unit: "" }
}

fn name_of(form: Form) -> &'static str {
    match form {
        Form::Labels => "labels",
        Form::Names => "names",
    }
}

fn print_memory(rows: &[memory::Row]) {
    println!("\nin memory, ns per datagram; rates in terms of the bare loop's");
    println!(
        "                |    one flow, one entry           |   between 32 sessions  |  1,024 sessions, 1 M"
    );
    println!(
        "form    payload |  bare switch  rate  cipher off   | of 1 k of 1 M    ratio |  bare switch  rate"
    );
    for row in rows {
        let cipher_off = row.cipher_off.map_or("-".to_owned(), |ns| format!("{ns:.0}"));
        println!(
            "{:<7} {:>7} | {:>5.0} {:>6.0} {:>5.2} {cipher_off:>11}   | {:>6.0} {:>6.0} {:>8.2} | {:>5.0} {:>6.0} {:>5.2}",
            name_of(row.form),
            row.payload,
            row.one.bare,
            row.one.switch,
            row.one.ratio,
            row.thousand,
            row.million_names,
            row.of_thousand,
            row.million.bare,
            row.million.switch,
            row.million.ratio,
        );
    }
}

fn print_misses(rows: &[misses::Row]) {
    println!("\nknown names by the share of misses, in terms of their share of the full rate");
    println!("payload  share  new names  the same  bare loop");
    for row in rows {
        let [new, same] = row.switch;
        println!(
            "{:>7} {:>6.1} {:>10.2} {:>9.2} {:>10.2}",
            row.payload,
            row.per_mille as f64 / 1e3,
            new.of_share,
            same.of_share,
            row.bare.of_share,
        );
    }
}

fn print_sockets(results: &sockets::Results) {
    println!("\non sockets; Gbit/s of payload");
    println!("payload  forwarder             Gbit/s   Mpps  CPU s/GB  Gbit/s per core  busy  lost");
    for row in &results.rows {
        println!(
            "{:>7}  {:<20} {:>7.2} {:>6.3} {:>9.2} {:>16.2} {:>5.2} {:>5}",
            row.payload,
            row.forwarder,
            row.gbps,
            row.mpps,
            row.cpu_s_per_gb,
            row.gbps_per_core,
            row.busy,
            row.lost,
        );
    }
    for (payload, ratio) in &results.of_bare {
        println!("{payload:>7}  switch in terms of bare, open and seal: {ratio:.2}");
    }
}

fn memory_json(row: &memory::Row) -> Value {
    let pairing = |pairing: &memory::Pairing| {
        json!({
            "bare": rounded(pairing.bare),
            "switch": rounded(pairing.switch),
            "ratio": rounded(pairing.ratio),
        })
    };
    json!({
        "form": name_of(row.form),
        "payload": row.payload,
        "one_flow": pairing(&row.one),
        "one_flow_cipher_off": row.cipher_off.map(rounded),
        "thousand_flows": rounded(row.thousand),
        "million_flows": rounded(row.million_names),
        "million_of_thousand": rounded(row.of_thousand),
        "million_flows_1024_sessions": pairing(&row.million),
    })
}

fn socket_json(row: &sockets::Row) -> Value {
    json!({
        "forwarder": row.forwarder,
        "payload": row.payload,
        "gbps": rounded(row.gbps),
        "mpps": rounded(row.mpps),
        "cpu_s_per_gb": rounded(row.cpu_s_per_gb),
        "gbps_per_core": rounded(row.gbps_per_core),
        "busy": rounded(row.busy),
        "lost": row.lost,
    })
}

/// To three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The switch's rate in memory, one flow, in terms of the bare loop's, which works packet by
/// packet: at any size, and with labels at the two that a batch gains most and is used most at.
const OF_BARE_MEMORY: f64 = 0.95;
const OF_BARE_64: f64 = 2.0;
const OF_BARE_1000: f64 = 1.35;
/// The same with a million flows between 1,024 sessions.
const OF_BARE_SESSIONS: f64 = 0.9;
/// Time per datagram with a million names in the table, in terms of that with a thousand.
const MILLION_NAMES: f64 = 1.15;
/// The rate of known names beside misses, in terms of their share of the full rate.
const OF_SHARE: f64 = 0.95;
/// The rate of known flows beside ten thousand changes a second, in terms of that without.
const OF_STILL: f64 = 0.9;
/// CPU time per datagram of a worker beside another, in terms of the same worker's alone.
const TWO_WORKERS_CPU: f64 = 1.05;
/// The switch's rate on sockets, in terms of the forwarder's that opens and seals.
const OF_BARE_SOCKETS: f64 = 0.9;
/// Small PDUs that share datagrams, by CPU time, to those that do not.
const OF_SINGLE: f64 = 4.0;
/// Payload on sockets, in Gbit/s.
const GBPS: f64 = 6.0;
/// The size that the targets on sockets are about.
const SIZE: usize = 1000;
/// Below this share of its time at work, a forwarder was waiting for the load.
const SATURATED: f64 = 0.9;

//! Tables for people, one JSON object for programs, and what the figures are held against.

use serde_json::{Map, Value, json};

use crate::member::Form;
use crate::{fast_path, memory, sockets};

/// All that one run showed.
pub(crate) struct Report {
    pub(crate) conditions: Map<String, Value>,
    pub(crate) memory: Vec<memory::Row>,
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
        let sockets: Vec<Value> =
            self.sockets.iter().flat_map(|sockets| &sockets.rows).map(socket_json).collect();
        let object = json!({
            "bench": "switch",
            "conditions": conditions,
            "memory_ns_per_datagram": memory,
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
    Target { name, value: row.one.ratio, at_least: OF_BARE_MEMORY, at_most: false, unit: "" }
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
    println!("                |    one flow, one entry           |    one of a million");
    println!(
        "form    payload |  bare switch  rate  cipher off   |  bare switch  rate | of 1 k flows"
    );
    for row in rows {
        let cipher_off = row.cipher_off.map_or("-".to_owned(), |ns| format!("{ns:.0}"));
        println!(
            "{:<7} {:>7} | {:>5.0} {:>6.0} {:>5.2} {cipher_off:>11}   | {:>5.0} {:>6.0} {:>5.2} | {:>12.0}",
            name_of(row.form),
            row.payload,
            row.one.bare,
            row.one.switch,
            row.one.ratio,
            row.million.bare,
            row.million.switch,
            row.million.ratio,
            row.thousand,
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
        "million_flows": pairing(&row.million),
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

/// The switch's rate in memory, in terms of the bare loop's.
const OF_BARE_MEMORY: f64 = 0.85;
/// CPU time per datagram of a worker beside another, in terms of the same worker's alone.
const TWO_WORKERS_CPU: f64 = 1.05;
/// The switch's rate on sockets, in terms of the forwarder's that opens and seals.
const OF_BARE_SOCKETS: f64 = 0.9;
/// Payload on sockets, in Gbit/s.
const GBPS: f64 = 6.0;
/// The size that the targets on sockets are about.
const SIZE: usize = 1000;
/// Below this share of its time at work, a forwarder was waiting for the load.
const SATURATED: f64 = 0.9;

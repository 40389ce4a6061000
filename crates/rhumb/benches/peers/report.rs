//! Tables for people, one JSON object for programs, and what the figures are held against.

use serde_json::{Map, Value, json};

use crate::Extent;
use crate::contestants::{Contestant, OURS, OURS_OVER_TLS};
use crate::machine::{self, median};
use crate::place::MTU;
use crate::rounds::{PAYLOADS, SLICE, Sized, TOLERATED_LOSS, Turn};

/// All that one run showed.
pub(crate) struct Report {
    pub(crate) conditions: Map<String, Value>,
    /// By contestant, what was measured in each round; a round stands in the same place for all.
    pub(crate) contestants: Vec<(&'static str, Vec<Option<Turn>>)>,
    /// Who could not be measured, always or once, and why.
    pub(crate) left_out: Map<String, Value>,
}

/// What the figures depend on.
pub(crate) fn conditions(contestants: &[Contestant], extent: Extent) -> Map<String, Value> {
    let mut conditions = machine::conditions();
    let path = format!(
        "client, router and server in namespaces joined by two veth pairs, MTU {MTU}, runs cut in software, NAPI GRO on arrival; router on core 1, load and ends on core 0"
    );
    let load = format!(
        "closed loop of {} messages for {SLICE:?}, then open loop at half of its rate; every contestant started afresh in each round; medians",
        extent.window
    );
    let cpu = "of the router's process, and of the kernel while it runs there; what the kernel does for arrivals on core 0 belongs to nobody and is left out for all alike";
    let about = contestants.iter().map(|one| (one.name.to_owned(), one.about.as_str().into()));
    // Each contestant has its own, said in its description.
    conditions.remove("cipher");
    conditions.insert("contestants".to_owned(), Value::Object(about.collect()));
    conditions.insert("path".to_owned(), path.into());
    conditions.insert("load".to_owned(), load.into());
    conditions.insert("cpu".to_owned(), cpu.into());
    conditions.insert("io".to_owned(), if extent.xdp { "AF_XDP" } else { "sockets" }.into());
    conditions
}

/// Medians of one contestant with one size.
struct Row {
    contestant: &'static str,
    payload: usize,
    gbps: f64,
    per_s: f64,
    lost: f64,
    cpu_s_per_gb: Option<f64>,
    busy: Option<f64>,
    calls_per_datagram: Option<f64>,
    datagrams_per_message: Option<f64>,
    half_cpu_s_per_gb: Option<f64>,
    p50_us: f64,
    p99_us: f64,
}

/// A ratio of ours to another's figure, and how large it may be.
struct Target {
    name: &'static str,
    value: f64,
    at_most: f64,
}

/// What can be read from one contestant's turn with one size, if it has it.
type Figure = fn(&Sized) -> Option<f64>;

/// What was measured against what it should be; what is reported without a target; and what could
/// not be shown, with the reason.
struct Judgement {
    targets: Vec<Target>,
    figures: Vec<(&'static str, f64)>,
    left_out: Map<String, Value>,
}

impl Report {
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for payload in PAYLOADS {
            for (contestant, turns) in &self.contestants {
                let sized: Vec<&Sized> =
                    turns.iter().flatten().filter_map(|turn| turn.of(payload)).collect();
                if sized.is_empty() {
                    continue;
                }
                let middle =
                    |figure: fn(&Sized) -> f64| median(sized.iter().map(|one| figure(one)));
                let of_all = |figure: Figure| {
                    let all: Option<Vec<f64>> = sized.iter().map(|one| figure(one)).collect();
                    all.map(|all| median(all.into_iter()))
                };
                rows.push(Row {
                    contestant,
                    payload,
                    gbps: middle(|one| one.gbps),
                    per_s: middle(|one| one.per_s),
                    lost: middle(|one| one.lost),
                    cpu_s_per_gb: of_all(|one| one.cpu_s_per_gb),
                    busy: of_all(|one| one.busy),
                    calls_per_datagram: of_all(|one| one.calls_per_datagram),
                    datagrams_per_message: of_all(|one| one.datagrams_per_message),
                    half_cpu_s_per_gb: of_all(|one| one.half_cpu_s_per_gb),
                    p50_us: middle(|one| one.p50_us),
                    p99_us: middle(|one| one.p99_us),
                });
            }
        }
        rows
    }

    /// Small messages a second, by contestant.
    fn small_rates(&self) -> Vec<(&'static str, f64)> {
        let rates = self.contestants.iter().filter_map(|(name, turns)| {
            let mut measured =
                turns.iter().flatten().filter_map(|turn| turn.small_per_s).peekable();
            measured.peek()?;
            Some((*name, median(measured)))
        });
        rates.collect()
    }

    /// The median over the rounds of the figure of `ours` at the size of the
    /// targets, in terms of `other`'s in the same round.
    fn ratio(&self, ours: &str, other: &str, figure: Figure) -> Option<f64> {
        let turns_of = |wanted: &str| {
            self.contestants.iter().find(|(name, _)| *name == wanted).map(|(_, turns)| turns)
        };
        let figure_of = |turn: &Option<Turn>| turn.as_ref()?.of(SIZE).and_then(figure);
        let rounds = turns_of(ours)?.iter().zip(turns_of(other)?);
        let mut ratios = rounds
            .filter_map(|(ours, theirs)| Some(figure_of(ours)? / figure_of(theirs)?))
            .peekable();
        ratios.peek()?;
        Some(median(ratios))
    }

    fn judged(&self) -> Judgement {
        let (mut targets, mut figures, mut left_out) =
            (Vec::new(), Vec::new(), self.left_out.clone());
        let mut without = |name: &str, ours: &str, other: &str| {
            let reason = format!("{ours} and {other} were not both measured");
            left_out.insert(name.to_owned(), reason.into());
        };
        for (name, ours, other, at_most) in TARGETS {
            match self.ratio(ours, other, |sized| sized.cpu_s_per_gb) {
                Some(value) => targets.push(Target { name, value, at_most }),
                None => without(name, ours, other),
            }
        }
        let latencies: [(&str, Figure); 2] = [
            ("latency_p50_of_bare", |sized| Some(sized.p50_us)),
            ("latency_p99_of_bare", |sized| Some(sized.p99_us)),
        ];
        for (name, figure) in latencies {
            match self.ratio(OURS, BARE, figure) {
                Some(value) => figures.push((name, value)),
                None => without(name, OURS, BARE),
            }
        }
        Judgement { targets, figures, left_out }
    }

    pub(crate) fn print_json(&self) {
        let Judgement { targets, figures, left_out } = self.judged();
        let mut conditions = self.conditions.clone();
        conditions.insert("left_out".to_owned(), left_out.into());
        let targets: Vec<Value> = targets
            .iter()
            .map(|target| {
                json!({
                    "name": target.name,
                    "value": rounded(target.value),
                    "target": format!("at most {:.3}", target.at_most),
                    "met": target.value <= target.at_most,
                })
            })
            .collect();
        let figures =
            figures.into_iter().map(|(name, value)| (name.to_owned(), rounded(value).into()));
        let small = self.small_rates().into_iter();
        let small = small.map(|(name, per_s)| (name.to_owned(), per_s.round().into()));
        let object = json!({
            "bench": "peers",
            "conditions": conditions,
            "rows": self.rows().iter().map(Row::json).collect::<Vec<_>>(),
            "small_messages_per_s": Map::from_iter(small),
            "figures": Map::from_iter(figures),
            "targets": targets,
        });
        println!("{object}");
    }

    pub(crate) fn print_text(&self) {
        for (name, value) in &self.conditions {
            println!("{name}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        println!(
            "\nGbit/s of payload in a closed loop; of our router, system calls per datagram and datagrams per message sent; then CPU s/GB and latency in microseconds in an open loop at half of that rate"
        );
        println!(
            "payload  contestant        Gbit/s    k/s  CPU s/GB  busy  calls   run  s/GB     p50      p99   lost"
        );
        for row in self.rows() {
            println!("{}", row.text());
        }
        println!(
            "\nof 64 bytes, the highest rate in an open loop with less than {} % lost, k/s",
            TOLERATED_LOSS * 100.0
        );
        for (name, per_s) in self.small_rates() {
            println!("         {name:<14} {:>9.1}", per_s / 1e3);
        }
        let Judgement { targets, figures, left_out } = self.judged();
        println!();
        for target in &targets {
            let verdict = if target.value <= target.at_most { "met" } else { "MISSED" };
            println!(
                "{:<32} {:>5.2}, at most {:.3}: {verdict}",
                target.name, target.value, target.at_most
            );
        }
        for (name, value) in &figures {
            println!("{name:<32} {value:>5.2}");
        }
        for (name, reason) in &left_out {
            println!("{name:<32} left out: {}", reason.as_str().unwrap_or_default());
        }
    }
}

impl Turn {
    fn of(&self, payload: usize) -> Option<&Sized> {
        self.sizes.iter().find(|sized| sized.payload == payload)
    }
}

impl Row {
    fn text(&self) -> String {
        let or_none =
            |figure: Option<f64>| figure.map_or("-".to_owned(), |value| format!("{value:.2}"));
        format!(
            "{:>7}  {:<14} {:>9.3} {:>6.1} {:>9} {:>5} {:>6} {:>5} {:>5} {:>7.0} {:>8.0} {:>6.4}",
            self.payload,
            self.contestant,
            self.gbps,
            self.per_s / 1e3,
            or_none(self.cpu_s_per_gb),
            or_none(self.busy),
            or_none(self.calls_per_datagram),
            or_none(self.datagrams_per_message),
            or_none(self.half_cpu_s_per_gb),
            self.p50_us,
            self.p99_us,
            self.lost,
        )
    }

    fn json(&self) -> Value {
        json!({
            "contestant": self.contestant,
            "payload": self.payload,
            "gbps": rounded(self.gbps),
            "messages_per_s": self.per_s.round(),
            "lost": rounded(self.lost),
            "cpu_s_per_gb": self.cpu_s_per_gb.map(rounded),
            "busy": self.busy.map(rounded),
            "system_calls_per_datagram": self.calls_per_datagram.map(rounded),
            "datagrams_per_message": self.datagrams_per_message.map(rounded),
            "half_load_cpu_s_per_gb": self.half_cpu_s_per_gb.map(rounded),
            "half_load_p50_us": rounded(self.p50_us),
            "half_load_p99_us": rounded(self.p99_us),
        })
    }
}

/// To three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// CPU time of ours for a gigabyte, in terms of another's.
const TARGETS: [(&str, &str, &str, f64); 3] = [
    ("cpu_per_gb_of_zenoh_tls_1000", OURS, "zenohd-tls", 0.5),
    ("cpu_per_gb_over_tls_of_zenoh_tls_1000", OURS_OVER_TLS, "zenohd-tls", 0.35),
    ("cpu_per_gb_of_wireguard_go_1000", OURS, "wireguard-go", 1.0 / 3.0),
];
/// The size that the targets are about.
const SIZE: usize = 1000;
const BARE: &str = "bare";

//! `rhumb tun` and other programs that give a host an address which everything can use: client and
//! server in network namespaces of their own, point to point and with a router's between them, and
//! one TCP connection of iperf3 through each of them in turns, with the CPU time of all their
//! processes. Then what programs see of names without a device (`programs`).
//!
//! Run by `cargo xtask bench ends`, as root; `--json` prints one object. The first run installs the
//! peers into the target folder. `cargo bench -p rhumb --bench ends -- NAME..` measures those
//! alone, `programs` only what goes without a device; `--path=direct` and `--path=router` one of
//! both paths; `--rounds=N` that many times.
#![allow(clippy::disallowed_methods, reason = "a bench owns its clock and its threads")]
#![allow(
    dead_code,
    unused_imports,
    reason = "shared with the bench of peers, which uses all of it"
)]

mod calls;
#[path = "../../../rhumb-switch/benches/switch/chance.rs"]
mod chance;
mod contestants;
mod install;
mod leftovers;
mod load;
#[path = "../../../rhumb-switch/benches/switch/machine.rs"]
mod machine;
#[path = "../../../rhumb-switch/benches/switch/member.rs"]
mod member;
#[path = "../../../rhumb-switch/benches/switch/namespace.rs"]
mod namespace;
mod place;
mod process;
mod programs;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use contestants::{Contestant, Ground, Standing};
use install::Tools;
use machine::{Core, median};
use place::{NetworkPath, Place};
use process::{Process, output_of};
use programs::Programs;
use serde_json::{Map, Value, json};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// What our router is told of coalescing, if not its default.
    pub(crate) coalesce_us: Option<u64>,
    /// Whether our router goes past the kernel's network stack.
    pub(crate) xdp: bool,
}

/// What one contestant showed in one round.
#[derive(Debug, Clone, Copy)]
struct Turn {
    mbit_per_s: f64,
    /// CPU seconds of the router's process, and of those at both ends, for a gigabyte.
    router_cpu_s_per_gb: f64,
    ends_cpu_s_per_gb: f64,
    round_trip_ms: f64,
    repeated_segments: f64,
}

/// One of the figures of a turn.
type Figure = fn(&Turn) -> f64;

/// A path, and how it is spoken of.
struct PathTold {
    path: NetworkPath,
    /// Where it is chosen.
    word: &'static str,
    /// In a sentence.
    so: &'static str,
    /// What is on it.
    about: &'static str,
}

/// What contestants showed on one path, round by round; a round stands in the same place for all.
struct Turns {
    path: &'static PathTold,
    by_contestant: Vec<(&'static str, Vec<Option<Turn>>)>,
}

fn main() {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--bench")).collect();
    let is_json = words.iter().any(|word| word == "--json");
    match wanted(&words).and_then(|wanted| measure(&wanted)) {
        Ok(seen) => report(&seen, is_json),
        Err(problem) => {
            eprintln!("{problem}");
            std::process::exit(2);
        }
    }
}

/// What the words of the command line ask for.
struct Wanted<'a> {
    /// Everything, if none is named.
    names: Vec<&'a str>,
    paths: Vec<&'static PathTold>,
    rounds: usize,
}

impl Wanted<'_> {
    fn has(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.contains(&name)
    }
}

fn wanted(words: &[String]) -> Result<Wanted<'_>, String> {
    let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
    let named = option("--path=");
    let paths: Vec<_> =
        PATHS.iter().filter(|it| named.is_none_or(|word| word == it.word)).collect();
    if paths.is_empty() {
        return Err(format!("there are these paths: {}", PATHS.map(|it| it.word).join(", ")));
    }
    let names = words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    let rounds = option("--rounds=").and_then(|word| word.parse().ok()).unwrap_or(ROUNDS);
    Ok(Wanted { names, paths, rounds })
}

/// All that was seen.
struct Seen {
    conditions: Map<String, Value>,
    paths: Vec<Turns>,
    programs: Option<Programs>,
}

fn measure(wanted: &Wanted<'_>) -> Result<Seen, String> {
    leftovers::remove_at_signals()?;
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("peers");
    let folder = home.join("turn");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let all = contestants::tunnels().into_iter().filter(|one| wanted.has(one.name));
    let all: Vec<Contestant> = all.collect();
    let tools = Tools::install(&home, |name| all.iter().any(|one| one.name == name));
    let mut left_out: Map<String, Value> =
        tools.lacking.iter().map(|(name, why)| ((*name).to_owned(), why.as_str().into())).collect();
    let all: Vec<Contestant> = all.into_iter().filter(|one| !tools.lack(one.name)).collect();
    let ground = |told: &&PathTold| {
        let place = Place::new(told.path).map_err(|problem| {
            format!("tunnels are measured in network namespaces, as root: {problem}")
        })?;
        let (folder, tools) = (folder.clone(), tools.clone());
        Ok(Ground { place, folder, tools, extent: Extent { coalesce_us: None, xdp: false } })
    };
    let grounds = wanted.paths.iter().map(ground).collect::<Result<Vec<_>, String>>()?;
    let mut conditions = machine::conditions();
    conditions.remove("cipher");
    machine::pin(Core::Load);
    let paths = rounds(&all, &grounds, wanted, &mut left_out);
    let over_router = grounds.iter().find(|it| it.place.path == NetworkPath::Router);
    let programs = match over_router.filter(|_| wanted.has("programs")) {
        Some(ground) => Some(programs::measure(ground, &mut left_out)?),
        None => None,
    };
    let about = all.iter().map(|one| (one.name.to_owned(), one.about.as_str().into()));
    conditions.insert("contestants".to_owned(), Value::Object(about.collect()));
    let about = wanted.paths.iter().map(|told| (told.word.to_owned(), told.about.into()));
    conditions.insert("paths".to_owned(), Value::Object(about.collect()));
    conditions.insert("links".to_owned(), LINKS.into());
    conditions.insert("load".to_owned(), format!("one TCP connection of iperf3 for {SECONDS} s; {} rounds, every contestant started afresh in each; medians", wanted.rounds).into());
    conditions.insert("load_average_after".to_owned(), machine::load_average().into());
    left_out.insert("wireguard of the kernel".to_owned(), NO_PROCESS.into());
    conditions.insert("left_out".to_owned(), Value::Object(left_out));
    Ok(Seen { conditions, paths, programs })
}

/// Everybody's turns on every path, and in `left_out` what went wrong.
fn rounds(
    all: &[Contestant],
    grounds: &[Ground],
    wanted: &Wanted<'_>,
    left_out: &mut Map<String, Value>,
) -> Vec<Turns> {
    let none = |path: &&'static PathTold| {
        let by_contestant = all.iter().map(|one| (one.name, Vec::new())).collect();
        Turns { path, by_contestant }
    };
    let mut paths: Vec<Turns> = wanted.paths.iter().map(none).collect();
    for round in 1..=wanted.rounds {
        for (ground, seen) in grounds.iter().zip(&mut paths) {
            for (contestant, (name, turns)) in all.iter().zip(&mut seen.by_contestant) {
                let outcome = turn(contestant, ground);
                leftovers::remove();
                if let Err(problem) = &outcome {
                    let which = format!("{name}, {}, round {round}", seen.path.word);
                    eprintln!("{which}: {problem}");
                    left_out.insert(which, problem.as_str().into());
                }
                turns.push(outcome.ok());
            }
        }
    }
    paths
}

/// Sets a contestant up, measures it, and ends it.
fn turn(contestant: &Contestant, ground: &Ground) -> Result<Turn, String> {
    let place = &ground.place;
    place.set_forwarding(contestant.needs_forwarding)?;
    let mut standing = (contestant.start)(ground)?;
    let [_, server] = standing.tunnel.ok_or("it is no tunnel")?;
    let mut command = Command::new("iperf3");
    command.args(["-s", "-B", &server.to_string()]);
    let inside = (&place.server, place.core_of_server());
    let _listener = Process::start("iperf3", command, inside, &ground.folder)?;
    let outcome = iperf(&standing, server, ground);
    // What a process said before it ended explains more than that nothing arrives.
    let all = standing.router.iter_mut().chain(&mut standing.others);
    all.into_iter().try_for_each(Process::check)?;
    outcome
}

fn iperf(standing: &Standing, server: IpAddr, ground: &Ground) -> Result<Turn, String> {
    let client = |seconds: u64| {
        let mut command = Command::new("iperf3");
        let (seconds, server) = (seconds.to_string(), server.to_string());
        command.args(["--json", "--connect-timeout", "3000", "-t", &seconds, "-c", &server]);
        let text = output_of(command, &ground.place.client)?;
        let seen: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        // Its code does not always say so.
        match seen["error"].as_str() {
            Some(problem) => Err(format!("iperf3: {problem}")),
            None => Ok(seen),
        }
    };
    // The first finds the way, which may take a moment.
    let mut attempts = 0;
    while let Err(problem) = client(1) {
        attempts += 1;
        if attempts == ATTEMPTS {
            return Err(problem);
        }
        std::thread::sleep(AGAIN_AFTER);
    }
    // The server opens another socket after each test: who comes in between is turned away.
    std::thread::sleep(AGAIN_AFTER);
    let cpu = || -> [f64; 2] {
        let router = standing.router.as_ref().map_or(0.0, |it| it.cpu().as_secs_f64());
        [router, standing.others.iter().map(|it| it.cpu().as_secs_f64()).sum()]
    };
    let before = cpu();
    let seen = client(SECONDS)?;
    let after = cpu();
    let end = &seen["end"];
    let number = |value: &Value| value.as_f64().ok_or_else(|| format!("iperf3 says {end}"));
    let gigabytes = number(&end["sum_received"]["bytes"])? / 1e9;
    Ok(Turn {
        mbit_per_s: number(&end["sum_received"]["bits_per_second"])? / 1e6,
        router_cpu_s_per_gb: (after[0] - before[0]) / gigabytes,
        ends_cpu_s_per_gb: (after[1] - before[1]) / gigabytes,
        round_trip_ms: number(&end["streams"][0]["sender"]["mean_rtt"])? / 1e3,
        repeated_segments: number(&end["sum_sent"]["retransmits"])?,
    })
}

fn report(Seen { conditions, paths, programs }: &Seen, is_json: bool) {
    let row = |turns: &[Option<Turn>]| -> Map<String, Value> {
        let middle = |of: Figure| some_median(turns.iter().flatten().map(of).collect());
        FIGURES.iter().map(|(name, of)| ((*name).to_owned(), json!(middle(*of)))).collect()
    };
    let rows = |seen: &Turns| -> BTreeMap<&str, Map<String, Value>> {
        seen.by_contestant.iter().map(|(name, turns)| (*name, row(turns))).collect()
    };
    let rows: BTreeMap<&str, _> = paths.iter().map(|seen| (seen.path.word, rows(seen))).collect();
    let mut targets: Vec<Value> = paths.iter().flat_map(targets).collect();
    targets.extend(programs.iter().flat_map(|it| it.targets.clone()));
    let programs = programs.as_ref().map(|it| &it.figures);
    if is_json {
        let object = json!({
            "bench": "ends", "conditions": conditions, "rows": rows, "programs": programs,
            "targets": targets,
        });
        println!("{object}");
        return;
    }
    for (name, value) in conditions {
        println!("{name}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    for (path, rows) in &rows {
        for (name, row) in rows {
            println!("\n{name}, {path}");
            row.iter().for_each(|(figure, value)| println!("  {figure:<24}{value}"));
        }
    }
    for (name, value) in programs.into_iter().flatten() {
        println!("{name}: {value}");
    }
    println!();
    for target in &targets {
        let verdict = if target["met"] == json!(true) { "met" } else { "MISSED" };
        println!("{verdict:<8}{}: {}, {}", target["name"], target["value"], target["target"]);
    }
}

/// What issue and documents ask for, each in terms of the others' in the same round.
fn targets(seen: &Turns) -> Vec<Value> {
    let (ours, others): (Vec<_>, Vec<_>) =
        seen.by_contestant.iter().partition(|(name, _)| *name == OURS);
    let [(_, ours)] = ours[..] else { return Vec::new() };
    let so = seen.path.so;
    let rated = |others: &dyn Fn(usize) -> Option<f64>, of: Figure| {
        let ratios = ours.iter().enumerate();
        let ratios = ratios.filter_map(|(round, own)| Some(of(own.as_ref()?) / others(round)?));
        some_median(ratios.collect())
    };
    let rate: Figure = |it| it.mbit_per_s;
    let best = |round: usize| {
        let rates = others.iter().filter_map(|(_, turns)| turns[round].as_ref().map(rate));
        rates.max_by(f64::total_cmp)
    };
    let mut targets = Vec::new();
    if let Some(value) = rated(&best, rate) {
        let name = format!("throughput {so}, to that of the best other");
        targets.push(json!({
            "name": name, "value": value, "target": "at least 1.2", "met": value >= 1.2,
        }));
    }
    let cpu: Figure = |it| it.router_cpu_s_per_gb + it.ends_cpu_s_per_gb;
    for (name, turns) in others {
        if let Some(value) = rated(&|round| turns[round].as_ref().map(cpu), cpu) {
            let name = format!("CPU time per gigabyte of all processes {so}, to that of {name}");
            let met = value < 1.0;
            targets.push(json!({ "name": name, "value": value, "target": "below 1", "met": met }));
        }
    }
    targets
}

fn some_median(values: Vec<f64>) -> Option<f64> {
    (!values.is_empty()).then(|| (median(values.into_iter()) * 1000.0).round() / 1000.0)
}

const FIGURES: [(&str, Figure); 5] = [
    ("mbit_per_s", |it| it.mbit_per_s),
    ("router_cpu_s_per_gb", |it| it.router_cpu_s_per_gb),
    ("ends_cpu_s_per_gb", |it| it.ends_cpu_s_per_gb),
    ("round_trip_ms", |it| it.round_trip_ms),
    ("repeated_segments", |it| it.repeated_segments),
];
const OURS: &str = "rhumb-tun";
const NO_PROCESS: &str = "its CPU time belongs to no process, and not every kernel has it";
const ROUNDS: usize = 5;
const SECONDS: u64 = 4;
const ATTEMPTS: usize = 8;
const AGAIN_AFTER: Duration = Duration::from_millis(500);
const LINKS: &str = "veth pairs, MTU 1500, runs cut in software, NAPI GRO on arrival";
const PATHS: [PathTold; 2] = [
    PathTold {
        path: NetworkPath::Direct,
        word: "direct",
        so: "point to point",
        about: "client and server in namespaces joined by one veth pair; the client's tunnel and iperf3 on core 0, all of the server's host on core 1. wireguard-go, nebula, yggdrasil: one peer to the other; rhumb: a router and a RIB beside the server's tunnel, of which all CPU time counts",
    },
    PathTold {
        path: NetworkPath::Router,
        word: "router",
        so: "over one router",
        about: "client, router and server in namespaces joined by two veth pairs; router on core 1, ends and iperf3 on core 0. wireguard-go: the router is a hub; nebula: a relay; yggdrasil: a node on the way; rhumb: a router",
    },
];

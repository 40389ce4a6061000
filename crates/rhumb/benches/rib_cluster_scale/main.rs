//! What names cost over a cluster of three Cassandra nodes on this machine when they are ten
//! million, next to a hundred thousand: files that the nodes start with, as the store would have
//! written them, then two RIBs that are asked and told.
//!
//! | part | what is measured |
//! |---|---|
//! | [`load`] | files of all tables, made in minutes where the driver takes an hour |
//! | [`tables`] | whether what was loaded is what the store writes and reads |
//! | [`look_ups`] | look-ups by popularity, cold and warm, of one RIB and of two |
//! | [`publishing`] | new routes, renewals, new names, durable at a quorum |
//! | [`changes`] | how soon a move through one RIB is told by the other |
//! | [`day`] | changes by day and night: nothing acknowledged is lost, no look-up answered wrongly |
//!
//! The nodes have the machine's cores with everybody else, so what is answered in a second is
//! theirs to say; of RIBs the time of their own processes is counted.
//!
//! Run by `cargo xtask bench rib cluster-scale`; `--json` prints one object, `--names=N` puts
//! another number in the place of ten million, and a hundredth of it in that of a hundred thousand.
//! Where Java or Maven is missing it says so, and measures nothing. All files are below one folder
//! in that for temporary ones, and go with the nodes when this program ends, however it does.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a bench owns its clock and its threads, and ends where its set-up fails"
)]

#[allow(dead_code, reason = "tests do more to nodes than benches")]
#[path = "../../../rhumb-cql/tests/cassandra/mod.rs"]
mod cassandra;
#[path = "../rib_cluster/changes.rs"]
mod changes;
#[allow(dead_code, reason = "others ask by a client that routers have")]
#[path = "../rib_cluster/client.rs"]
mod client;
mod day;
#[path = "../../tests/harness/mod.rs"]
mod harness;
mod load;
mod look_ups;
#[path = "../../../rhumb-io/benches/machine/mod.rs"]
mod machine;
mod machines;
mod names;
#[path = "../../tests/namespaces/mod.rs"]
mod namespaces;
mod publishing;
#[path = "../rib_cluster/report.rs"]
mod report;
mod rows;
#[allow(dead_code, reason = "what two serve next to one is another bench's")]
#[path = "../rib_cluster/servers.rs"]
mod servers;
mod tables;
mod talk;
#[path = "../../../rhumb-rib/benches/unsigned/mod.rs"]
mod unsigned;
#[allow(dead_code, reason = "what holders say")]
#[path = "../../../rhumb-cql/tests/world/mod.rs"]
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rhumb_rib::cells::Written;
use tokio::runtime::Runtime;

use cassandra::{Cassandra, NODES, Purpose};
use load::Loader;
use names::Names;
use report::Report;
use rows::Tables;
use servers::Ribs;

const MANY: usize = 10_000_000;
/// Of many, this part are few.
const FEW: usize = 100;

/// A keyspace with so many names.
struct Loaded {
    names: Names,
    tables: Tables,
    suffix: &'static str,
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let json = words.iter().any(|word| word == "--json");
    let many = words.iter().find_map(|word| word.strip_prefix("--names="));
    let many = many.map_or(MANY, |it| it.parse().expect("--names=N, a number"));
    let mut conditions: Vec<(&str, String)> = machine::conditions().into();
    let mut cluster = match cassandra::cluster(Purpose::Programs) {
        Ok(cluster) => cluster,
        Err(reason) => {
            conditions.push(("skipped", reason));
            return print(json, &Report::new(BENCH, conditions));
        }
    };
    conditions.extend([
        ("nodes", "3 of Cassandra 5.0.9, each row at all of them".to_owned()),
        ("names", format!("{} and {many}", many / FEW)),
    ]);
    let mut report = Report::new(BENCH, conditions);
    let loaded = load_all(&mut cluster, [(many / FEW, "_of_few"), (many, "_of_many")], &mut report);
    for Loaded { mut names, tables, suffix } in loaded {
        report.suffix(suffix);
        say("checking what was loaded");
        let stored = runtime().block_on(tables::check(&cluster, &tables, &names));
        run(&cluster, &tables, &mut names, stored, &mut report);
        report.figure("load_average_after", machine::load_average().parse().unwrap_or(0.0));
    }
    print(json, &report);
}

/// Makes the tables of all, ends the nodes, and has them start with all names.
fn load_all(
    cluster: &mut Cassandra,
    all: [(usize, &'static str); 2],
    report: &mut Report,
) -> Vec<Loaded> {
    let made = all.map(|(count, suffix)| {
        let keyspace = format!("names_{count}");
        (count, suffix, runtime().block_on(tables::make(cluster, &keyspace)))
    });
    (0..NODES).for_each(|node| cluster.kill(node));
    let mut loader = Loader::start(cluster);
    let loaded = made.map(|(count, suffix, (tables, described))| {
        say(&format!("loading {count} names"));
        let began = Instant::now();
        let names = Names::new(count, now());
        loader.write(cluster, &tables, &described, &names);
        report.suffix(suffix);
        report.figure("loading_s", began.elapsed().as_secs_f64());
        Loaded { names, tables, suffix }
    });
    loader.end();
    for Loaded { names, tables, suffix } in &loaded {
        report.suffix(suffix);
        for (table, bytes) in load::link_all(cluster, tables) {
            let each = bytes as f64 / names.names.len() as f64;
            report.figure(&format!("bytes_a_name_in_{table}"), each);
        }
    }
    say("starting the nodes with what was loaded");
    let began = Instant::now();
    (0..NODES).for_each(|node| cluster.start_node(node));
    cluster.settle();
    report.suffix("");
    report.figure("starting_nodes_s", began.elapsed().as_secs_f64());
    loaded.into()
}

fn now() -> Written {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Written { now_s: since.as_secs(), now_us: since.as_micros() as i64 }
}

fn run(
    cluster: &Cassandra,
    tables: &Tables,
    names: &mut Names,
    stored: usize,
    report: &mut Report,
) {
    let holders = std::mem::take(&mut names.holders);
    let [first, second] = [0, 1].map(machines::admin);
    let further = [["--admin", &first], ["--admin", &second]];
    // At 1 kB of disk for each, and as much again.
    let settings = format!("[rib]\ndisk_mib = {}\n", (names.entries() >> 9).max(1024));
    let [first, second] = &further;
    let (keyspace, routers) = (&tables.keyspace, names.tellers.clone());
    let mut ribs = Ribs::over(cluster, keyspace, routers, holders, [first, second], &settings);
    part(report, "counting", |report| machines::count(&ribs, stored, report));
    part(report, "look_ups", |report| look_ups::measure(cluster, &ribs, names, report));
    let mut stored_per_s = 0.0;
    part(report, "publishing", |report| {
        stored_per_s = publishing::measure(cluster, &mut ribs, report);
    });
    part(report, "moves", |report| changes::measure(&mut ribs, report));
    part(report, "days", |report| day::measure(&mut ribs, names, stored_per_s, report));
    part(report, "machines", |report| machines::measure(cluster, &ribs, report));
}

/// One that fails is told of, and leaves what was measured before and what follows.
fn part(report: &mut Report, what: &str, measure: impl FnOnce(&mut Report)) {
    say(what);
    let done = catch_unwind(AssertUnwindSafe(|| measure(&mut *report)));
    if done.is_err() {
        report
            .note(&format!("{what}_failed"), "it did not come to its end; standard error has why");
    }
    eprint!("{}", report.news());
}

fn runtime() -> Runtime {
    Runtime::new().expect("a runtime")
}

/// It takes long: whoever waits hears how far it is.
fn say(what: &str) {
    eprintln!("{what}");
}

fn print(json: bool, report: &Report) {
    if json { println!("{}", report.json()) } else { print!("{}", report.text()) }
}

const BENCH: &str = "rib-cluster-scale";

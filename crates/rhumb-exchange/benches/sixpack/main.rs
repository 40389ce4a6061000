//! What the private exchange costs: Table 1 of the paper
//! (CoNEXT 2017), then whole servers and members.
//!
//! `cargo bench -p rhumb-exchange --bench sixpack -- [PART..] [--shards=N] [--json]`; parts are
//! `table` (Table 1), `replay`, `stress` and `full`. Each takes less than a minute. `cargo xtask
//! bench sixpack` runs all of them.

mod announce;
mod channel;
mod exchange;
#[path = "../../../rhumb-io/benches/machine/mod.rs"]
mod machine;
mod report;
mod table;

use serde_json::json;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let shards = arguments.iter().find_map(|argument| argument.strip_prefix("--shards="));
    let shards = shards.and_then(|shards| shards.parse().ok()).unwrap_or(SHARDS);
    let named: Vec<&String> = arguments.iter().filter(|name| !name.starts_with("--")).collect();
    for name in named.iter().filter(|name| !PARTS.contains(&name.as_str())) {
        eprintln!("no part {name}; there are {}", PARTS.join(", "));
    }
    let wants = |part: &str| named.is_empty() || named.iter().any(|name| *name == part);
    let load = machine::load_average().parse::<f64>().ok();
    let stolen_before = machine::stolen();
    let rows = if wants("table") { table::measure() } else { Vec::new() };
    let replayed = if wants("replay") { announce::replay(shards) } else { Vec::new() };
    let stressed = if wants("stress") { announce::stress(shards) } else { Vec::new() };
    let full = wants("full").then(|| announce::full_table(shards));
    let mut targets = table::targets(&rows);
    targets.extend(replayed.iter().flat_map(announce::Replayed::targets));
    targets.extend(stressed.iter().filter_map(announce::Stressed::target));
    targets.extend(full.iter().flat_map(announce::Tabled::targets));
    if json {
        let object = json!({
            "bench": "sixpack",
            "conditions": {
                "load_average_before": load,
                "seconds_stolen_by_other_machines": stolen_before.zip(machine::stolen()).map(|(before, after)| after - before),
                "members": table::MEMBERS,
                "connected_members": announce::CONNECTED,
                "connected_members_full": announce::TABLE_CONNECTED,
                "shards": shards,
                "waiting": format!("in the table a party spins {} us before it sleeps; servers sleep at once", table::SPIN.as_micros()),
                "servers": "a thread each, loopback TCP, records of 16 KiB under AES-128-GCM",
                "added_delay": "messages carry their time of sending, and the receiver spins until it is due",
                "members_side": "one thread, queues in memory; TLS to members is left out",
            },
            "table": rows.iter().map(table::Row::json).collect::<Vec<_>>(),
            "replay": replayed.iter().map(announce::Replayed::json).collect::<Vec<_>>(),
            "stress": stressed.iter().map(announce::Stressed::json).collect::<Vec<_>>(),
            "full": full.as_ref().map(announce::Tabled::json),
            "targets": targets.iter().map(report::Target::json).collect::<Vec<_>>(),
        });
        println!("{object}");
        return;
    }
    let load = load.map_or(String::new(), |load| format!(", load average before {load}"));
    println!("{} members, {shards} shards, both parties on this machine{load}", table::MEMBERS);
    rows.iter().for_each(|row| println!("{}", row.text()));
    replayed.iter().for_each(|trace| println!("{}", trace.text()));
    stressed.iter().for_each(|stressed| println!("{}", stressed.text()));
    full.iter().for_each(|full| println!("{}", full.text()));
    targets.iter().for_each(|target| println!("{}", target.text()));
}

/// Computations side by side at each server, all on one thread here: while one waits for the other
/// server, others go on, but fewer routes are handed out together.
const SHARDS: u16 = 1;
const PARTS: [&str; 4] = ["table", "replay", "stress", "full"];

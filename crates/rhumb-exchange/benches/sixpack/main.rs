//! What the private exchange costs: Table 1 of the paper (CoNEXT 2017), then whole servers and members.
//!
//! `cargo bench -p rhumb-exchange --bench sixpack -- [PART..] [--json]`; parts are `table` (Table 1), `replay`, `stress` and `full`. Each
//! takes less than a minute. `cargo xtask bench sixpack` runs all of them.

mod announce;
mod channel;
mod exchange;
mod report;
mod table;

use serde_json::json;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let named: Vec<&String> = arguments.iter().filter(|name| !name.starts_with("--")).collect();
    for name in named.iter().filter(|name| !PARTS.contains(&name.as_str())) {
        eprintln!("no part {name}; there are {}", PARTS.join(", "));
    }
    let wants = |part: &str| named.is_empty() || named.iter().any(|name| *name == part);
    let rows = if wants("table") { table::measure() } else { Vec::new() };
    let replayed = if wants("replay") { announce::replay() } else { Vec::new() };
    let stressed = if wants("stress") { announce::stress() } else { Vec::new() };
    let full = wants("full").then(announce::full_table);
    let mut targets = table::targets(&rows);
    targets.extend(replayed.iter().flat_map(announce::Replayed::targets));
    targets.extend(stressed.iter().filter_map(announce::Stressed::target));
    targets.extend(full.iter().flat_map(announce::Tabled::targets));
    if json {
        let object = json!({
            "bench": "sixpack",
            "members": table::MEMBERS,
            "table": rows.iter().map(table::Row::json).collect::<Vec<_>>(),
            "replay": replayed.iter().map(announce::Replayed::json).collect::<Vec<_>>(),
            "stress": stressed.iter().map(announce::Stressed::json).collect::<Vec<_>>(),
            "full": full.as_ref().map(announce::Tabled::json),
            "targets": targets.iter().map(report::Target::json).collect::<Vec<_>>(),
        });
        println!("{object}");
        return;
    }
    println!("{} members, both parties on this machine", table::MEMBERS);
    rows.iter().for_each(|row| println!("{}", row.text()));
    replayed.iter().for_each(|trace| println!("{}", trace.text()));
    stressed.iter().for_each(|stressed| println!("{}", stressed.text()));
    full.iter().for_each(|full| println!("{}", full.text()));
    targets.iter().for_each(|target| println!("{}", target.text()));
}

const PARTS: [&str; 4] = ["table", "replay", "stress", "full"];

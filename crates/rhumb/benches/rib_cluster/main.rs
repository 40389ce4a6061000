//! What names cost over a cluster of three Cassandra nodes on this machine.
//!
//! | part | what is measured |
//! |---|---|
//! | `store` | a publication and a look-up of the store next to a bare write and a bare read |
//! | `servers` | what two RIBs over one cluster serve for a second of their processors, next to one |
//! | `changes` | how soon a change through one RIB is told by another |
//! | `death` | how long look-ups take when the RIB dies that is asked |
//!
//! Rounds take turns, and a ratio is that of medians over the rounds. Of two RIBs the time of their
//! own processes is counted, not that of the store or of who asks, since all share the same cores.
//! Only ratios travel between machines.
//!
//! Run by `cargo xtask bench rib cluster`; `--json` prints one object, `--names=N` puts another
//! number in the place of 50,000. Takes some nine minutes, one of them for the nodes to start and
//! four for names to be told. Where Java or Maven is missing it says so, and measures nothing.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a bench owns its clock and its threads, and ends where its set-up fails"
)]

#[allow(dead_code, reason = "tests do more to nodes than benches")]
#[path = "../../../rhumb-cql/tests/cassandra/mod.rs"]
mod cassandra;
mod changes;
mod client;
mod death;
#[path = "../../tests/harness/mod.rs"]
mod harness;
#[path = "../../../rhumb-io/benches/machine/mod.rs"]
mod machine;
#[path = "../../tests/namespaces/mod.rs"]
mod namespaces;
#[allow(dead_code, reason = "another bench tells more")]
mod report;
#[allow(dead_code, reason = "another bench asks more of them")]
mod servers;
mod store;
#[allow(dead_code, reason = "what holders say")]
#[path = "../../../rhumb-cql/tests/world/mod.rs"]
mod world;

use cassandra::Purpose;
use report::Report;
use servers::Ribs;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let json = words.iter().any(|word| word == "--json");
    let names = words.iter().find_map(|word| word.strip_prefix("--names="));
    let names = names.map_or(servers::NAMES, |it| it.parse().expect("--names=N, a number"));
    let mut conditions: Vec<(&str, String)> = machine::conditions().into();
    let cluster = match cassandra::cluster(Purpose::Programs) {
        Ok(cluster) => cluster,
        Err(reason) if json => {
            println!(
                "{{\"bench\": \"rib-cluster\", \"conditions\": {{\"skipped\": \"{reason}\"}}, \
                 \"targets\": []}}"
            );
            return;
        }
        Err(reason) => return println!("skipped: {reason}"),
    };
    conditions.extend([
        ("nodes", "3 of Cassandra 5.0.9, each row at all of them".to_owned()),
        ("rounds", format!("{} of the store, {} of servers", store::ROUNDS, servers::ROUNDS)),
        ("operations", format!("{}, {} at once", store::OPERATIONS, store::AT_ONCE)),
        ("names", names.to_string()),
    ]);
    let mut report = Report::new("rib-cluster", conditions);
    store::measure(&cluster, &mut report);
    let mut ribs = Ribs::start(&cluster, names);
    servers::measure(&mut ribs, &mut report);
    changes::measure(&mut ribs, &mut report);
    death::measure(ribs, &mut report);
    if json { println!("{}", report.json()) } else { print!("{}", report.text()) }
}

//! What a file gets of a path, beside what others get of the same: `loopback`, what it costs where
//! nothing but processors bounds it; `links`, which share it has of lines that are long and lose;
//! `fairness`, what it leaves to TCP beside it.
//!
//! Lines are a wire of our own between two network namespaces ([`wire`]), which needs root; without
//! it these parts are left out, and the conditions say so. The transfer that files had before they
//! went over connections (decision 0081) is not in the code any more, and so is not compared.
//!
//! Run by `cargo xtask bench transfer [PART] [--json]`; directly, `--rounds=N` and
//! `--cell=MS,PERCENT` choose how often, and one line.

mod fairness;
mod file;
mod flows;
#[path = "../../../rhumb-io/tests/wire/mod.rs"]
mod hosts;
mod links;
mod loopback;
#[path = "../../../rhumb-io/benches/machine/mod.rs"]
mod machine;
mod place;
mod quic;
mod report;
mod router;
mod wire;

use report::Report;

/// What the command line asks for.
struct Asked {
    parts: Vec<String>,
    rounds: usize,
    cells: Vec<(u64, f64)>,
    is_json: bool,
}

fn main() {
    let asked = Asked::read(std::env::args().skip(1)).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(2);
    });
    let mut report = Report::new(asked.is_json);
    for (name, value) in machine::conditions() {
        report.condition(name, value);
    }
    report
        .condition("rounds", format!("{} of links and fairness, in turns; medians", asked.rounds));
    report.condition("former_transfer", "left the code with decision 0081, and is not compared");
    report.condition("plain_quic", PLAIN_QUIC);
    if asked.has("loopback") {
        loopback::run(&mut report);
    }
    for (part, line) in [("links", LINE), ("fairness", LINE)] {
        if !asked.has(part) {
            continue;
        }
        report.condition(part, line);
        let outcome = match part {
            "links" => links::run(&asked.cells, asked.rounds, &mut report),
            _ => fairness::run(asked.rounds, &mut report),
        };
        if let Err(reason) = outcome {
            report.condition(&format!("{part}_left_out"), format!("needs root: {reason}"));
        }
    }
    report.finish();
}

impl Asked {
    fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self {
            parts: Vec::new(),
            rounds: ROUNDS,
            cells: links::CELLS.to_vec(),
            is_json: false,
        };
        for word in words {
            match word.split_once('=') {
                // Cargo adds the first.
                None if word == "--bench" => {}
                None if word == "--json" => asked.is_json = true,
                None if PARTS.contains(&word.as_str()) => asked.parts.push(word),
                Some(("--rounds", rounds)) => {
                    let rounds = rounds.parse().ok().filter(|it| *it > 0);
                    asked.rounds = rounds.ok_or("--rounds=N takes a number from 1")?;
                }
                Some(("--cell", cell)) => {
                    let cell = cell.split_once(',').and_then(|(round_trip_ms, percent)| {
                        let percent: f64 = percent.parse().ok()?;
                        Some((round_trip_ms.parse().ok()?, percent / 100.0))
                    });
                    asked.cells = vec![cell.ok_or("--cell=MS,PERCENT takes two numbers")?];
                }
                _ => return Err(format!("`{word}` is none of the parts {}", PARTS.join(", "))),
            }
        }
        Ok(asked)
    }

    fn has(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|it| it == part)
    }
}

const PARTS: [&str; 3] = ["loopback", "links", "fairness"];
/// Two minutes of links, and one of fairness.
const ROUNDS: usize = 1;
const PLAIN_QUIC: &str = "quinn as it comes, but for windows of 32 MiB and the congestion control in its \
                          name: one stream, end to end, without router, names, or a hash of the whole";
const LINE: &str = "100 Mbit/s each way between two namespaces, by two TUN devices and two threads; a \
                    queue of one bandwidth-delay product, 20 ms at the least, that drops what finds it \
                    full; half of the round trip as delay each way; chance losses towards the receiver \
                    alone; TCP buffers of 32 MiB; files over one router beside the receiver, who knows \
                    the sender by name; shares are of payload, from the first byte to the last";

//! Our router and other routers, set up the same way and measured in the same run:
//! client, router and server in network namespaces of their own, the same messages, the
//! same load, one contestant at a time, in turns.
//!
//! Run by `cargo xtask bench peers`, as root; `--json` prints one object. The first run installs
//! the peers into the target folder, which takes long; then it takes some minutes. `cargo bench -p
//! rhumb --bench peers -- NAME..` measures those contestants alone; with `--window=N` so many
//! messages are under way, with `--rounds=N` there are so many rounds, with `--payload=N` messages
//! are of one size, and with `--coalesce-us=N` or `--io=xdp` our router is given that option.
#![allow(clippy::disallowed_methods, reason = "a bench owns its clock and its threads")]

mod calls;
#[path = "../../../rhumb-switch/benches/switch/chance.rs"]
#[allow(dead_code, reason = "shared with the bench of the switch, which uses all of it")]
mod chance;
mod contestants;
mod install;
mod leftovers;
mod load;
#[path = "../../../rhumb-switch/benches/switch/machine.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "shared with the bench of the switch, which uses all of it"
)]
mod machine;
#[path = "../../../rhumb-switch/benches/switch/member.rs"]
#[allow(dead_code, reason = "shared with the bench of the switch, which uses all of it")]
mod member;
#[path = "../../../rhumb-switch/benches/switch/namespace.rs"]
mod namespace;
mod place;
mod process;
mod report;
mod rounds;

use std::path::Path;
use std::time::{Duration, Instant};

use contestants::{Contestant, Ground};
use install::Tools;
use machine::Core;
use place::{NetworkPath, Place};
use report::Report;
use rounds::Turn;
use serde_json::{Map, Value};

fn main() {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--bench")).collect();
    if let [word, to] = &words[..]
        && word == contestants::FORWARD
    {
        if let Err(problem) = contestants::forward(to) {
            eprintln!("{problem}");
        }
        return;
    }
    let is_json = words.iter().any(|word| word == "--json");
    let only: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    let number = |option: &str| -> Option<u64> {
        words.iter().find_map(|word| word.strip_prefix(option)?.strip_prefix('=')?.parse().ok())
    };
    let extent = Extent {
        window: number("--window").unwrap_or(load::WINDOW),
        rounds: number("--rounds").unwrap_or(ROUNDS),
        payload: number("--payload"),
        coalesce_us: number("--coalesce-us"),
        xdp: words.iter().any(|word| word == "--io=xdp"),
    };
    match measure(&only, extent) {
        Ok(report) if is_json => report.print_json(),
        Ok(report) => report.print_text(),
        Err(problem) => {
            eprintln!("{problem}");
            std::process::exit(2);
        }
    }
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Messages under way in a closed loop.
    pub(crate) window: u64,
    pub(crate) rounds: u64,
    /// The one size of messages, if not all.
    pub(crate) payload: Option<u64>,
    /// What our router is told of coalescing, if not its default.
    pub(crate) coalesce_us: Option<u64>,
    /// Whether our router goes past the kernel's network stack.
    pub(crate) xdp: bool,
}

fn measure(only: &[&str], extent: Extent) -> Result<Report, String> {
    leftovers::remove_at_signals()?;
    let place = Place::new(NetworkPath::Router).map_err(|problem| {
        format!("peers are measured in network namespaces, as root: {problem}")
    })?;
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    let folder = home.join("turn");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let all = contestants::all();
    let known = |word: &&str| all.iter().any(|contestant| contestant.name == *word);
    if let Some(unknown) = only.iter().find(|word| !known(word)) {
        let names: Vec<&str> = all.iter().map(|contestant| contestant.name).collect();
        return Err(format!("no contestant `{unknown}`; there are: {}", names.join(", ")));
    }
    let wanted = |name: &str| only.is_empty() || only.contains(&name);
    let tools = Tools::install(&home, wanted);
    let takes_part = |one: &Contestant| wanted(one.name) && !tools.lack(one.name);
    let contestants: Vec<Contestant> = all.into_iter().filter(takes_part).collect();

    let mut left_out: Map<String, Value> =
        tools.lacking.iter().map(|(name, why)| ((*name).to_owned(), why.as_str().into())).collect();
    left_out.insert("click".to_owned(), NO_CLICK.into());
    let ground = Ground { place, folder, tools, extent };
    machine::pin(Core::Load);
    let mut conditions = report::conditions(&contestants, extent);
    let (turns, problems) = rounds(&contestants, &ground);
    left_out.extend(problems);
    conditions.insert("load_average_after".to_owned(), machine::load_average().into());
    Ok(Report { conditions, contestants: turns, left_out })
}

type Turns = Vec<(&'static str, Vec<Option<Turn>>)>;

/// Everybody's turns, as many rounds as time allows, and what went wrong.
fn rounds(contestants: &[Contestant], ground: &Ground) -> (Turns, Map<String, Value>) {
    let mut turns: Turns = contestants.iter().map(|one| (one.name, Vec::new())).collect();
    let mut problems = Map::new();
    let begin = Instant::now();
    for round in 1..=ground.extent.rounds {
        for (contestant, (name, turns)) in contestants.iter().zip(&mut turns) {
            let outcome = rounds::turn(contestant, ground);
            leftovers::remove();
            if let Err(problem) = &outcome {
                eprintln!("{name}, round {round}: {problem}");
                problems.insert(format!("{name}, round {round}"), problem.as_str().into());
            }
            turns.push(outcome.ok());
        }
        let a_round = begin.elapsed().div_f64(round as f64);
        if begin.elapsed() + a_round > TIME {
            break;
        }
    }
    (turns, problems)
}

const ROUNDS: u64 = 5;
/// No further round is begun that would not be over by then.
const TIME: Duration = Duration::from_secs(540);
const NO_CLICK: &str = "cannot be installed: no registry has the modular router; Debian's package of that name is another program";

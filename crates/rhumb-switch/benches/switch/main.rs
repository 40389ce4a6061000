//! What forwarding costs: the production switch against the least it could cost, measured in one
//! run, so that only ratios have to travel between machines.
//!
//! 1. In memory: batches through [`Switch::handle_batch`](rhumb_switch::Switch::handle_batch)
//!    against open, look-up, seal.
//! 2. A worker that is not the switch, alone and beside another on a thread of its own.
//! 3. On sockets: between two ends over veth pairs, beside forwarders that do less.
//! 4. Known names beside a flood of absent ones, in memory.
//! 5. Known flows beside routes of others that change, in memory.
//! 6. 1 and 3 again with the cipher off: a build for measurement, made on the first run.
//!
//! Run by `cargo xtask bench switch`; `--json` prints one object; `memory` or `udp` does half of
//! it; `fast_path` does 2 alone, `misses` and `changes` do 4 and 5, `million` 1 at the least size
//! or at `--payload=N`; `figures` prints the series behind the paper's figures instead.
//! Takes about two minutes, builds excluded, and two gigabytes of memory for twice a million flows.
//! The paths over veth pairs need root.
#![allow(clippy::disallowed_methods, reason = "a bench owns its clock and its threads")]

mod bare;
mod chance;
mod changes;
mod cipher_off;
mod fast_path;
mod figures;
mod forwarder;
mod load;
mod machine;
mod member;
mod memory;
mod misses;
mod namespace;
mod path;
mod report;
mod scene;
mod sockets;
mod worker;
mod workers;

use cipher_off::CipherOff;
use machine::Core;
use report::Report;
use serde_json::{Map, Value};

/// As in the program, which so has huge pages for large tables without being asked.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let said = |word: &str| words.iter().any(|other| other == word);
    if said(cipher_off::CHILD) {
        return cipher_off::measure_on_demand();
    }
    if said("fast_path") {
        return fast_path::measure().print_text();
    }
    if said("misses") || said("changes") || said("million") {
        return measure_part(&words);
    }
    if said("workers") {
        return figures::print_workers();
    }
    if cipher_off::IS_OFF {
        eprintln!("this build has no cipher: it measures on demand only");
        std::process::exit(2);
    }
    let (memory, udp) = (said("memory") || !said("udp"), said("udp") || !said("memory"));

    let (mut cipher_off, problem) = match CipherOff::start() {
        Ok(build) => (Some(build), None),
        Err(problem) => (None, Some(problem)),
    };
    let mut conditions = machine::conditions();
    if let Some(problem) = problem {
        conditions.insert("cipher_off_left_out".to_owned(), problem.into());
    }
    if said(figures::SERIES) {
        return figures::print(&mut cipher_off, conditions);
    }
    let fast_path = memory.then(fast_path::measure);
    let memory = if memory {
        measure_memory(&mut conditions, &mut cipher_off, &memory::PAYLOADS)
    } else {
        Vec::new()
    };
    let misses = if memory.is_empty() { Vec::new() } else { measure_misses() };
    let changes = if memory.is_empty() { Vec::new() } else { measure_changes() };
    let (sockets, is_fair) = match udp {
        true => measure_sockets(&mut conditions, &mut cipher_off),
        false => (None, false),
    };
    conditions.insert("load_average_after".to_owned(), machine::load_average().into());
    let report = Report { conditions, memory, misses, changes, fast_path, sockets, is_fair };
    if said("--json") { report.print_json() } else { report.print_text() }
}

/// What is quickly measured, while one works at it.
fn measure_part(words: &[String]) {
    let said = |word: &str| words.iter().any(|other| other == word);
    let mut report = Report { conditions: machine::conditions(), ..Report::default() };
    if said("misses") {
        report.misses = measure_misses();
    }
    if said("changes") {
        report.changes = measure_changes();
    }
    if said("million") {
        let asked = words.iter().find_map(|word| word.strip_prefix("--payload="));
        let payload = asked.map(|it| it.parse().expect("--payload=N, bytes"));
        let payloads = [payload.unwrap_or(memory::PAYLOADS[0])];
        report.memory = measure_memory(&mut report.conditions, &mut None, &payloads);
    }
    if said("--json") { report.print_json() } else { report.print_text() }
}

fn measure_memory(
    conditions: &mut Map<String, Value>,
    cipher_off: &mut Option<CipherOff>,
    payloads: &[usize],
) -> Vec<memory::Row> {
    let text = format!(
        "one thread, batches of {}, {} rounds of {} batches each, interleaved; medians",
        scene::BATCH_DATAGRAMS,
        memory::ROUNDS,
        memory::BATCHES_A_SLICE
    );
    conditions.insert("memory".to_owned(), text.into());
    machine::pin(Core::Measured);
    memory::measure(cipher_off, payloads)
}

fn measure_misses() -> Vec<misses::Row> {
    machine::pin(Core::Measured);
    misses::PAYLOADS.into_iter().flat_map(misses::measure).collect()
}

fn measure_changes() -> Vec<changes::Row> {
    machine::pin(Core::Measured);
    changes::measure()
}

fn measure_sockets(
    conditions: &mut Map<String, Value>,
    cipher_off: &mut Option<CipherOff>,
) -> (Option<sockets::Results>, bool) {
    let path = path::Path::new();
    let cores = match machine::cores() {
        1 => "load and forwarder on the only core",
        _ => "load on core 0, forwarder on core 1",
    };
    let text = format!(
        "{}; {cores}; {} rounds of {} datagrams each, interleaved; medians",
        path.describe(),
        sockets::ROUNDS,
        load::SLICE_DATAGRAMS
    );
    conditions.insert("udp".to_owned(), text.into());
    let results = sockets::measure(&path, cipher_off, &sockets::PAYLOADS, sockets::ROUNDS);
    (Some(results), path.is_fair())
}

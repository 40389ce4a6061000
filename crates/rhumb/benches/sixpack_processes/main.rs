//! The private exchange as its operators run it, with a large table: both servers, a proxy for each
//! member and a BIRD behind each, every one a process on a host of its own, a network namespace.
//!
//! `cargo xtask bench sixpack processes`, as root; `cargo bench -p rhumb --bench
//! sixpack-processes -- [--routes=N] [--shards=N] [--json]`. It needs BIRD (Debian package `bird2`)
//! and skips itself without. Member 0 announces the table and member 1 a tenth of it, too, which
//! the exchange chooses from; member 2 receives.
//!
//! 1. `table`: the routers get their routes, until the last receiver has all.
//! 2. `late`: member 3 starts its proxy, until its router has the table.
//! 3. `restart`: the proxy of member 0 is killed and starts again, until all is exported anew.
//!    Receivers should notice nothing.
//! 4. `withdraw`: member 0's router takes all back, until the last receiver has none of it.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a bench owns its clock and its threads, and ends where its set-up fails"
)]

#[path = "../../tests/harness/mod.rs"]
mod harness;
#[path = "../../tests/members/lan.rs"]
mod lan;
#[path = "../../../rhumb-io/benches/machine/mod.rs"]
mod machine;
mod report;
mod rig;
mod router;
mod usage;
#[path = "../../../rhumb-io/tests/wire/mod.rs"]
mod wire;

use std::time::{Duration, Instant};

use report::{Phase, Report};
use rig::{ANNOUNCER, LATE, RIVAL, Rig};

fn main() {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--bench")).collect();
    let is_json = words.iter().any(|word| word == "--json");
    let number = |option: &str| -> Option<usize> {
        words.iter().find_map(|word| word.strip_prefix(option)?.strip_prefix('=')?.parse().ok())
    };
    let routes = number("--routes").unwrap_or(ROUTES);
    let shards = number("--shards").unwrap_or(SHARDS);
    let load = machine::load_average().parse::<f64>().ok();
    let report = match Rig::new(routes, shards) {
        Err(why) => Report::skipped(&why),
        Ok(rig) => measure(rig, load),
    };
    if is_json { println!("{}", report.json()) } else { println!("{}", report.text()) }
}

/// Does a phase; of how many routes.
type Work = fn(&mut Rig) -> usize;

fn measure(mut rig: Rig, load: Option<f64>) -> Report {
    let mut report = Report::new(&rig, load);
    let phases: [(&'static str, Work); 4] =
        [("table", table), ("late", late), ("restart", restart), ("withdraw", withdraw)];
    for (name, work) in phases {
        let before = rig.state();
        let begun = Instant::now();
        let routes = work(&mut rig);
        let seconds = begun.elapsed().as_secs_f64();
        // What follows from it, such as rounds of Select-Best, is this phase's work, too.
        rig.rest();
        report.phases.push(Phase { name, routes, seconds, before, after: rig.state() });
        eprintln!("{name}: {seconds:.1} s");
    }
    report
}

/// Routes that came to the receivers.
fn table(rig: &mut Rig) -> usize {
    let (routes, contested) = (rig.routes, rig.contested);
    rig.routers[RIVAL].enable(true);
    rig.routers[ANNOUNCER].enable(true);
    rig.wait("the table", |rig| {
        let receivers = rig.routers.iter().filter(|it| it.index != LATE && it.index != ANNOUNCER);
        receivers.clone().all(|it| it.received() == routes)
            && rig.routers[ANNOUNCER].received() == contested
    });
    routes
}

fn late(rig: &mut Rig) -> usize {
    let routes = rig.routes;
    rig.start_proxy(LATE);
    rig.wait("the late member's table", |rig| rig.routers[LATE].received() == routes);
    routes
}

fn restart(rig: &mut Rig) -> usize {
    let (routes, contested) = (rig.routes, rig.contested);
    let before = rig.exported();
    rig.kill_proxy(ANNOUNCER);
    rig.start_proxy(ANNOUNCER);
    rig.wait("all exported anew", |rig| {
        rig.routers[ANNOUNCER].received() == contested && rig.exported() >= before + routes as u64
    });
    routes
}

fn withdraw(rig: &mut Rig) -> usize {
    let (routes, contested) = (rig.routes, rig.contested);
    rig.routers[ANNOUNCER].enable(false);
    rig.wait("all withdrawn", |rig| {
        let left = |index: usize| if index == RIVAL { 0 } else { contested };
        rig.routers.iter().all(|router| router.received() == left(router.index))
    });
    routes
}

/// How often routers and servers are asked.
const PERIOD: Duration = Duration::from_millis(100);
/// For each phase: what a machine that is busy takes, and more.
const PATIENCE: Duration = Duration::from_secs(60);
/// And as much again for each route.
const PATIENCE_A_ROUTE: Duration = Duration::from_millis(4);
/// As many as a large network announces.
const ROUTES: usize = 50_000;
/// As a server of two cores has.
const SHARDS: usize = 2;

//! Random worlds: each lives through faults, breaks no rule, and recovers.
//!
//! `RHUMB_SIM_SEED=n` lives one world; `SEEDS=n` lives so many, from `RHUMB_SIM_FIRST` on.

use std::env;
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use rhumb_sim::scenario;

#[test]
fn random_worlds_break_no_rule_and_recover() {
    if let Some(seed) = number("RHUMB_SIM_SEED") {
        println!("seed {seed}: {:#?}", scenario::live(seed));
        return;
    }
    let first = number("RHUMB_SIM_FIRST").unwrap_or(1);
    let seeds = number("SEEDS").unwrap_or(DEFAULT_SEEDS);
    #[expect(clippy::disallowed_methods, reason = "how long it took is for people")]
    let began = Instant::now();
    let (mut lived, mut events, mut faults, mut delivered) = (Duration::ZERO, 0, 0, 0);
    let mut worlds = 0;
    let mut failed = Vec::new();
    while worlds < seeds {
        let seed = first + worlds;
        worlds += 1;
        match catch_unwind(|| scenario::live(seed)) {
            Ok(totals) => {
                lived += totals.lived;
                events += totals.events;
                faults += totals.faults;
                delivered += totals.delivered;
            }
            Err(_) => failed.push(seed),
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "seeds {first} to {}: {:.1} virtual hours, {events} events ({:.0} a second), {faults} faults, \
         {delivered} messages delivered, in {seconds:.1} s",
        first + worlds - 1,
        lived.as_secs_f64() / 3600.0,
        events as f64 / seconds,
    );
    assert!(failed.is_empty(), "worlds failed; replay each with RHUMB_SIM_SEED=n: {failed:?}");
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

/// What every run of all tests can afford: some ten seconds.
const DEFAULT_SEEDS: u64 = 40;

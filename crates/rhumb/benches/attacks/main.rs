//! What honest traffic gets amid attacks: `rhumb router` and `rhumb rib` as processes
//! on loopback, attackers with sockets of their own, the same ones that
//! `tests/attacks.rs` has, and quiet turns in between.
//!
//! `cargo xtask bench attacks [PART]`, `cargo bench -p rhumb --bench
//! attacks -- [PART..] [--json]`. Parts, by the attack:
//!
//! | part | attack | honest |
//! |---|---|---|
//! | `fill` | 13 identities fill a small RIB | joins by routers that it admits, names that were there |
//! | `routes` | unsigned certificates, a low TTL | a flow over two routers |
//! | `pings` | pings to random names | joins |
//! | `chains` | bad chains at a router, bad signatures at a RIB, sessions without end | joins, publications, a flow |
//! | `foreign` | spoofed hellos of DTLS | OpenSSL's handshakes |
//! | `hellos` | proven hellos in turns, from one address and from many | a flow at the router's full rate |
//! | `endings` | sessions that end; a renewed handshake with many flows | a labelled flow at full rate |
//!
//! A flow at full rate has as many messages under way as its window allows, router and everything
//! else on a core each. In quiet turns attackers send the same to a socket that nobody reads, where
//! what is asked is what the router does about it.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a bench owns its clock and its threads, and ends where its set-up fails"
)]

#[path = "../../tests/attackers/mod.rs"]
mod attackers;
mod chains;
#[path = "../../../rhumb-switch/benches/switch/chance.rs"]
#[allow(dead_code, reason = "shared with the bench of the switch, which uses all of it")]
mod chance;
mod endings;
mod fill;
mod foreign;
mod full_rate;
mod ground;
#[path = "../../tests/harness/mod.rs"]
mod harness;
mod hellos;
#[path = "../peers/load.rs"]
#[allow(dead_code, reason = "shared with the bench of the peers, which uses all of it")]
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
mod pings;
mod report;
mod routes;

use report::Report;

fn main() {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--bench")).collect();
    let is_json = words.iter().any(|word| word == "--json");
    let wanted: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    if let Some(unknown) = wanted.iter().find(|word| !PARTS.iter().any(|(name, _)| *name == **word))
    {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        eprintln!("no part `{unknown}`; there are: {}", names.join(", "));
        std::process::exit(2);
    }
    let mut report = Report::new();
    machine::pin(machine::Core::Load);
    for (name, measure) in PARTS {
        if wanted.is_empty() || wanted.contains(name) {
            report.begin(name);
            measure(&mut report);
        }
    }
    if is_json { println!("{}", report.json()) } else { println!("{}", report.text()) }
}

type Measure = fn(&mut Report);

/// Each with what measures it.
const PARTS: &[(&str, Measure)] = &[
    ("fill", fill::measure),
    ("routes", routes::measure),
    ("pings", pings::measure),
    ("chains", chains::measure),
    ("foreign", foreign::measure),
    ("hellos", hellos::measure),
    ("endings", endings::measure),
];

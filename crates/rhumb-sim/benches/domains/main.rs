//! What trust domains cost, and how soon what they say is in force.
//!
//! | part | what is measured |
//! |---|---|
//! | `look_up` | questions at each level, and time, of a look-up from a domain within a domain to the other side |
//! | `border` | a PDU of a known flow at a border, against one inside of a domain: time and instructions |
//! | `removal` | a domain takes back what it gave: until when does it count at each of 1,000 routers? |
//! | `anycast` | three servers answer for a name, and the nearest dies: for how long nobody answers |
//! | `multicast` | one PDU to 1,000 members behind a router, against one to each of them: time |
//! | `scale` | 100 domains, 1,000 routers and a million names, with churn: memory, questions, times, deliveries |
//! | `day` | the same with look-ups, changes and moves by popularity, more by day than by night, and a domain that goes away and comes back |
//!
//! All stations are production cores in the simulated world of this crate. Times are of its virtual
//! clock, but for those of `border` and `multicast`; links take 5 ms each way and lose nothing, but
//! in `removal` and `anycast`.
//!
//! Run by `cargo xtask bench domains [PART]`; `--json` prints one object. `scale` and `day`
//! take some minutes, and the memory that the former reports.
#![allow(clippy::disallowed_methods, reason = "a bench owns its clock and its processes")]

mod anycast;
mod border;
mod day;
mod day_figures;
mod figures;
mod look_up;
#[path = "../../../rhumb-io/benches/machine/mod.rs"]
mod machine;
mod multicast;
mod nest;
mod removal;
mod scale;
#[path = "../../tests/anycast/scene.rs"]
mod scene;
mod stock;

use figures::Figures;

/// A word that chooses it, and what it does.
type Part = (&'static str, fn(&mut Figures));

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let said = |word: &str| words.iter().any(|other| other == word);
    if let Some(at) = words.iter().position(|word| word == border::CHILD) {
        return border::work(&words[at + 1..]);
    }
    let mut figures = Figures::default();
    for (name, value) in machine::conditions() {
        figures.condition(name, value);
    }
    figures.condition("delay_ms", nest::DELAY.as_millis() as u64);
    figures.condition("verifier_us", rhumb_sim::VERIFIER_TIME.as_micros() as u64);
    let parts: [Part; 7] = [
        ("look_up", look_up::measure),
        ("border", border::measure),
        ("removal", removal::measure),
        ("anycast", anycast::measure),
        ("multicast", multicast::measure),
        ("scale", scale::measure),
        ("day", day_figures::measure),
    ];
    let chosen = parts.iter().any(|(name, _)| said(name));
    for (name, measure) in parts {
        if !chosen || said(name) {
            measure(&mut figures);
        }
    }
    figures.condition("load_average_after", machine::load_average());
    figures.print(said("--json"));
}

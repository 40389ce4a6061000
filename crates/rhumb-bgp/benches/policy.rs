//! What policies cost: look-ups in lists of prefixes and in validated payloads beside a
//! sorted array, which is what one would write otherwise; expressions over paths; a whole
//! policy; and what a change of the RPKI costs.
//!
//! Within a round all kinds take turns, so that a noisy machine disturbs
//! all alike; figures are medians over the rounds.
//!
//! `cargo bench -p rhumb-bgp --bench policy`; `-- --json`
//! prints one object. Takes about 20 seconds.

#![expect(clippy::disallowed_methods, reason = "a bench owns its clock")]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use rhumb_bgp::policy::prefix::{covers, prefix_of};
use rhumb_bgp::policy::{
    Conditions, Edits, Member, PathPattern, Policy, PrefixRange, PrefixSet, Route, RpkiValidation,
    Rule, Verdict, Vrp, Vrps,
};
use rhumb_bgp::wire::{AsPath, AsPathSegment, Origin, PathAttribute, Prefix};

const ROUNDS: usize = 9;
/// Look-ups of one kind in a round.
const LOOKUPS: usize = 20_000;
/// Of a list.
const ENTRIES: usize = 100_000;
/// As many as the RPKI has today.
const PAYLOADS: usize = 500_000;
/// Of these, so many change.
const CHANGED: usize = 1_000;

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let mut random = Random(7);
    let prefixes: Vec<Prefix> = (0..PAYLOADS).map(|_| random.prefix()).collect();
    let tried: Vec<Prefix> = (0..LOOKUPS).map(|_| random.prefix()).collect();
    let list: PrefixSet =
        prefixes[..ENTRIES].iter().map(|prefix| PrefixRange::or_longer(*prefix)).collect();
    let sorted = Sorted::new(&prefixes[..ENTRIES]);
    let payloads = |part: &[Prefix]| -> BTreeSet<Vrp> {
        part.iter()
            .filter_map(|prefix| Vrp::new(*prefix, 24, 64_500 + u32::from(prefix.prefix_len())))
            .collect()
    };
    let before = payloads(&prefixes[CHANGED..]);
    let small = Vrps::new(&payloads(&prefixes[..ENTRIES]));
    let (old, new) = (Vrps::new(&before), Vrps::new(&payloads(&prefixes)));
    let expressions = expressions();
    let path =
        AsPath { segments: vec![AsPathSegment::AsSequence(vec![64_500, 3356, 1299, 174, 64_496])] };
    let attributes = [PathAttribute::Origin(Origin::Igp), PathAttribute::AsPath(path.clone())];
    let policy = policy();
    let mut figures: Vec<(&str, &str, Vec<f64>)> = Vec::new();
    let mut note = |name, unit, value| match figures.iter_mut().find(|(known, ..)| *known == name) {
        Some((.., values)) => values.push(value),
        None => figures.push((name, unit, vec![value])),
    };
    for _ in 0..ROUNDS {
        let each = |work: &mut dyn FnMut(Prefix)| {
            1e9 * timed(|| tried.iter().for_each(|prefix| work(*prefix))) / LOOKUPS as f64
        };
        let hashed = each(&mut |prefix| ignore(&list.contains(prefix)));
        let searched = each(&mut |prefix| ignore(&sorted.contains(prefix)));
        note("list of 100,000, a look for each length", "ns", hashed);
        note("list of 100,000, sorted with covers", "ns", searched);
        note("sorted / looks", "", searched / hashed);
        note(
            "validate, 100,000 payloads",
            "ns",
            each(&mut |prefix| ignore(&small.validate(prefix, Some(64_524)))),
        );
        note(
            "validate, 500,000 payloads",
            "ns",
            each(&mut |prefix| ignore(&new.validate(prefix, Some(64_524)))),
        );
        let text = rhumb_bgp::policy::path::path_text(&path);
        let one = each(&mut |_| {
            for expression in &expressions {
                black_box(expression.matches_text(black_box(&text)));
            }
        });
        note("one path expression", "ns", one / expressions.len() as f64);
        let whole = each(&mut |prefix| {
            let route = Route {
                prefix,
                attributes: &attributes,
                next_hop: None,
                announcer: Member(0),
                announcer_asn: 64_500,
                validity: RpkiValidation::NotFound,
            };
            black_box(policy.decide(&route));
        });
        note("policy of 100 path rules, none of which fits", "ns", whole);
        note("index of 500,000 payloads", "ms", 1e3 * timed(|| ignore(&Vrps::new(&before))));
        let routes = || prefixes.iter().map(|prefix| (*prefix, Some(64_524), ()));
        let count = || ignore(&new.changes(&old, routes()).count());
        note("500,000 routes after 1,000 payloads changed", "ms", 1e3 * timed(count));
    }
    print(figures, json);
}

fn print(mut figures: Vec<(&str, &str, Vec<f64>)>, json: bool) {
    for (_, _, values) in &mut figures {
        values.sort_by(f64::total_cmp);
    }
    if json {
        let fields = figures
            .iter()
            .map(|(name, unit, values)| format!("\"{name} {unit}\":{:.3}", values[ROUNDS / 2]));
        println!("{{{}}}", fields.collect::<Vec<_>>().join(","));
    } else {
        for (name, unit, values) in &figures {
            println!("{name:<46}{:>10.1} {unit}", values[ROUNDS / 2]);
        }
    }
}

/// Lets the compiler believe that somebody wants it.
fn ignore<T>(result: &T) {
    black_box(result);
}

/// Seconds.
fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn expressions() -> Vec<PathPattern> {
    ["_65000_", "^(64500|64501)_", "[64512-65534]", "^64500 (.* )?64999$"]
        .iter()
        .map(|text| text.parse().expect("an expression"))
        .collect()
}

fn policy() -> Policy {
    let rule = |asn: u32| Rule {
        when: Conditions {
            paths: vec![format!("_{asn}_").parse().expect("an expression")],
            ..Conditions::default()
        },
        verdict: Verdict::Reject,
        edits: Edits::default(),
    };
    Policy::new((0..100).map(|at| rule(65_000 + at)).collect(), Verdict::Accept)
        .expect("within the bounds")
}

/// A sorted array, in which every entry knows the nearest before it that
/// covers it: one search, and a walk over covers.
struct Sorted(Vec<(Prefix, Option<usize>)>);

impl Sorted {
    fn new(prefixes: &[Prefix]) -> Self {
        let mut sorted: Vec<Prefix> = prefixes.to_vec();
        sorted.sort();
        let mut entries: Vec<(Prefix, Option<usize>)> = Vec::with_capacity(sorted.len());
        for prefix in sorted {
            let mut cover = entries.len().checked_sub(1);
            while let Some(at) = cover.filter(|at| !covers(entries[*at].0, prefix)) {
                cover = entries[at].1;
            }
            entries.push((prefix, cover));
        }
        Self(entries)
    }

    fn contains(&self, prefix: Prefix) -> bool {
        let mut at = self.0.partition_point(|(entry, _)| *entry <= prefix).checked_sub(1);
        while let Some(here) = at.filter(|at| !covers(self.0[*at].0, prefix)) {
            at = self.0[here].1;
        }
        at.is_some()
    }
}

/// xorshift: the same prefixes in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Lengths as on the Internet: most are /24, few are shorter than /16.
    fn prefix(&mut self) -> Prefix {
        let len = match self.next() % 100 {
            0..60 => 24,
            60..90 => 19 + (self.next() % 5) as u8,
            90..99 => 13 + (self.next() % 6) as u8,
            _ => 8 + (self.next() % 5) as u8,
        };
        let address = Ipv4Addr::from((self.next() >> 20) as u32);
        prefix_of(address.into(), len).expect("an IPv4 prefix")
    }
}

//! What trust domains cost, and how soon what they say is in force, in the simulator's virtual time
//! over production cores.
//!
//! | part | what is asked |
//! |---|---|
//! | `removal` | a domain takes back what it gave: until when does it count at each of 1,000 routers? |
//!
//! Run by `cargo xtask bench domains [PART]`; `--json` prints one object, with `conditions` and
//! `targets`.

#[path = "domains/removal.rs"]
mod removal;

use serde_json::{Value, json};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |part: &str| {
        let named = arguments.iter().find(|argument| !argument.starts_with("--"));
        named.is_none_or(|named| named == part)
    };
    let (mut conditions, mut figures) = (Vec::new(), Vec::new());
    for (part, measure) in PARTS {
        if is_wanted(part) {
            conditions.push(measure(&mut figures));
        }
    }
    match arguments.iter().any(|argument| argument == "--json") {
        true => print_json(&conditions, &figures),
        false => print_text(&conditions, &figures),
    }
}

/// Each part adds its figures, and says under which conditions they came about.
const PARTS: [(&str, Measure); 1] = [("removal", removal::measure)];
type Measure = fn(&mut Vec<Figure>) -> Value;

/// One measured thing, and what it should be.
struct Figure {
    name: &'static str,
    value: f64,
    unit: &'static str,
    /// The bound, with its reason.
    at_most: Option<(f64, &'static str)>,
}

fn print_json(conditions: &[Value], figures: &[Figure]) {
    let (mut targets, mut others) = (Vec::new(), Vec::new());
    for Figure { name, value, unit, at_most } in figures {
        let value = (value * 10.0).round() / 10.0;
        match at_most {
            Some((bound, reason)) => targets.push(json!({
                "name": name,
                "value": value,
                "target": format!("at most {bound} {unit}: {reason}"),
                "met": value <= *bound,
            })),
            None => others.push(json!({ "name": name, "value": value, "unit": unit })),
        }
    }
    println!("{}", json!({ "conditions": conditions, "targets": targets, "others": others }));
}

fn print_text(conditions: &[Value], figures: &[Figure]) {
    conditions.iter().for_each(|it| println!("{it}"));
    for Figure { name, value, unit, at_most } in figures {
        let verdict = match at_most {
            Some((bound, reason)) if value <= bound => format!("met: at most {bound}, {reason}"),
            Some((bound, reason)) => format!("MISSED: at most {bound}, {reason}"),
            None => String::new(),
        };
        println!("{name:<36}{value:>10.1} {unit:<12}{verdict}");
    }
}

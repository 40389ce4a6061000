//! What was measured, for people and for programs, and what it is held against.

use serde_json::{Map, Value, json};

/// One measured thing, and what it should be.
pub(crate) struct Figure {
    name: String,
    what: String,
    value: f64,
    unit: &'static str,
    /// The bound, with its reason.
    at_most: Option<(f64, &'static str)>,
}

/// All of one run.
#[derive(Default)]
pub(crate) struct Figures {
    conditions: Map<String, Value>,
    list: Vec<Figure>,
}

impl Figures {
    /// What the figures depend on.
    pub(crate) fn condition(&mut self, name: &str, value: impl Into<Value>) {
        self.conditions.insert(name.to_owned(), value.into());
    }

    /// Something that is only told.
    pub(crate) fn add(&mut self, name: &str, what: &str, value: f64, unit: &'static str) {
        let (name, what) = (name.to_owned(), what.to_owned());
        self.list.push(Figure { name, what, value, unit, at_most: None });
    }

    /// Something that has a bound.
    pub(crate) fn hold(
        &mut self,
        name: &str,
        what: &str,
        (value, unit): (f64, &'static str),
        at_most: (f64, &'static str),
    ) {
        self.add(name, what, value, unit);
        self.list.iter_mut().rev().take(1).for_each(|figure| figure.at_most = Some(at_most));
    }

    pub(crate) fn print(&self, json: bool) {
        if json { self.print_json() } else { self.print_text() }
    }

    fn print_text(&self) {
        for (name, value) in &self.conditions {
            println!("{name}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        for Figure { name, what, value, unit, at_most } in &self.list {
            println!("{name:<30} {value:>12.1} {unit:<10} {what}");
            if let Some((bound, reason)) = at_most {
                let verdict = if value <= bound { "met" } else { "MISSED" };
                println!("{:30} {:>12} at most {bound} ({reason}): {verdict}", "", "");
            }
        }
    }

    fn print_json(&self) {
        let (mut targets, mut others) = (Vec::new(), Vec::new());
        for Figure { name, what, value, unit, at_most } in &self.list {
            let rounded = (value * 10.0).round() / 10.0;
            match at_most {
                Some((bound, reason)) => targets.push(json!({
                    "name": name,
                    "value": rounded,
                    "target": format!("at most {bound} {unit}: {reason}"),
                    "met": value <= bound,
                })),
                None => others
                    .push(json!({ "name": name, "what": what, "value": rounded, "unit": unit })),
            }
        }
        let conditions = &self.conditions;
        let object = json!({ "bench": "domains", "conditions": conditions, "figures": others, "targets": targets });
        println!("{object}");
    }
}

//! What was seen, against what is asked.

use std::net::SocketAddr;
use std::time::Instant;

use rhumb_wire::Name;
use serde_json::{Map, Value, json};

use crate::attackers::{Joined, PATIENCE, joins};
use crate::machine;

pub(crate) struct Report {
    conditions: Map<String, Value>,
    part: &'static str,
    begun: Instant,
    figures: Vec<Figure>,
}

/// One value, and what is asked of it, if anything is.
struct Figure {
    part: &'static str,
    name: String,
    value: f64,
    bound: Option<Bound>,
}

/// What is asked of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!("at least {least}"),
            Self::AtMost(most) => format!("at most {most}"),
        }
    }
}

impl Report {
    pub(crate) fn new() -> Self {
        let conditions = machine::conditions();
        Self { conditions, part: "", begun: Instant::now(), figures: Vec::new() }
    }

    /// What follows is of this part.
    pub(crate) fn begin(&mut self, part: &'static str) {
        self.part = part;
        eprintln!(
            "{part}, after {:.0} s, load average {}",
            self.seconds(),
            machine::load_average()
        );
    }

    /// A condition that a figure depends on.
    pub(crate) fn condition(&mut self, name: &str, value: impl Into<Value>) {
        self.conditions.insert(format!("{}_{name}", self.part), value.into());
    }

    /// A value of which nothing is asked.
    pub(crate) fn figure(&mut self, name: impl Into<String>, value: f64) {
        self.push(name.into(), value, None);
    }

    /// A value with a bound.
    pub(crate) fn target(&mut self, name: impl Into<String>, value: f64, bound: Bound) {
        self.push(name.into(), value, Some(bound));
    }

    /// Joins amid an attack, beside quiet ones.
    pub(crate) fn joins(&mut self, prefix: &str, quiet: &Joins, amid: &Joins) {
        self.condition(&format!("{prefix}joins"), amid.tried);
        self.figure(format!("{prefix}quiet_joins_published"), quiet.share());
        self.target(format!("{prefix}joins_published"), amid.share(), Bound::AtLeast(1.0));
        self.quantiles(&format!("{prefix}joins_"), &mut quiet.seconds(), &mut amid.seconds());
    }

    /// The middle, and what 99 in 100 do not exceed, of times in quiet turns and amid an attack.
    pub(crate) fn quantiles(&mut self, prefix: &str, quiet: &mut [f64], amid: &mut [f64]) {
        for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
            let (quiet, amid) = (quantile(quiet, part), quantile(amid, part));
            self.figure(format!("{prefix}{name}_quiet_ms"), quiet * 1e3);
            self.figure(format!("{prefix}{name}_amid_ms"), amid * 1e3);
            self.figure(format!("{prefix}{name}_of_quiet"), amid / quiet);
        }
    }

    fn push(&mut self, name: String, value: f64, bound: Option<Bound>) {
        let figure = Figure { part: self.part, name, value, bound };
        eprintln!("  {}", figure.text());
        self.figures.push(figure);
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    pub(crate) fn json(mut self) -> Value {
        let seconds = self.seconds();
        self.conditions.insert("load_average_after".to_owned(), machine::load_average().into());
        self.conditions.insert("seconds".to_owned(), seconds.into());
        let values =
            self.figures.iter().map(|figure| (figure.full_name(), Value::from(figure.value)));
        let values: Map<String, Value> = values.collect();
        let targets: Vec<Value> = self.figures.iter().filter_map(Figure::target).collect();
        json!({
            "bench": "attacks",
            "conditions": self.conditions,
            "figures": values,
            "targets": targets,
        })
    }

    pub(crate) fn text(self) -> String {
        let conditions = Value::from(self.conditions.clone()).to_string();
        let lines = self.figures.iter().map(|figure| format!("{}: {}", figure.part, figure.text()));
        std::iter::once(conditions).chain(lines).collect::<Vec<_>>().join("\n")
    }
}

/// Joins that were tried, one after the other.
#[derive(Default)]
pub(crate) struct Joins {
    tried: usize,
    published: Vec<Joined>,
}

impl Joins {
    pub(crate) fn try_some(&mut self, router: SocketAddr, count: u8) {
        self.tried += usize::from(count);
        self.published.extend(joins(router, count, PATIENCE));
    }

    /// Of those who were published.
    pub(crate) fn names(&self) -> impl Iterator<Item = Name> {
        self.published.iter().map(|joined| joined.name)
    }

    /// How many were published.
    pub(crate) fn share(&self) -> f64 {
        self.published.len() as f64 / self.tried as f64
    }

    pub(crate) fn p99_ms(&self) -> f64 {
        quantile(&mut self.seconds(), 0.99) * 1e3
    }

    fn seconds(&self) -> Vec<f64> {
        self.published.iter().map(|joined| joined.took.as_secs_f64()).collect()
    }
}

/// What this part of the values does not exceed.
pub(crate) fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    values.get((last * part).ceil() as usize).copied().unwrap_or(f64::NAN)
}

impl Figure {
    fn full_name(&self) -> String {
        format!("{}_{}", self.part, self.name)
    }

    fn target(&self) -> Option<Value> {
        let (name, value, bound) = (self.full_name(), self.value, self.bound?);
        let (target, met) = (bound.text(), bound.is_met(value));
        Some(json!({ "name": name, "value": value, "target": target, "met": met }))
    }

    fn text(&self) -> String {
        let text = format!("{} = {:.4}", self.name, self.value);
        match self.bound {
            Some(bound) => {
                let verdict = if bound.is_met(self.value) { "met" } else { "MISSED" };
                format!("{text} ({}: {verdict})", bound.text())
            }
            None => text,
        }
    }
}

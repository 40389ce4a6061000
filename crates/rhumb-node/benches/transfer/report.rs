//! What a run has shown: rows of figures and targets, as text or as one JSON object.

use std::fmt::Write;

/// Collects what the parts find.
pub(crate) struct Report {
    is_json: bool,
    /// What the figures depend on.
    conditions: Vec<(String, String)>,
    rows: Vec<Row>,
    targets: Vec<Target>,
}

/// A named figure.
type Figure = (&'static str, f64);

struct Row {
    part: &'static str,
    name: String,
    figures: Vec<Figure>,
}

/// A figure, and what it should be.
pub(crate) struct Target {
    name: String,
    value: f64,
    target: f64,
    is_least: bool,
}

impl Target {
    pub(crate) fn at_least(name: String, value: f64, target: f64) -> Self {
        Self { name, value, target, is_least: true }
    }

    pub(crate) fn at_most(name: String, value: f64, target: f64) -> Self {
        Self { name, value, target, is_least: false }
    }

    fn is_met(&self) -> bool {
        if self.is_least { self.value >= self.target } else { self.value <= self.target }
    }

    fn bound(&self) -> String {
        format!("at {} {}", if self.is_least { "least" } else { "most" }, self.target)
    }
}

impl Report {
    pub(crate) fn new(is_json: bool) -> Self {
        Self { is_json, conditions: Vec::new(), rows: Vec::new(), targets: Vec::new() }
    }

    /// Says something on the way, where that disturbs nobody.
    pub(crate) fn progress(&self, what: &str) {
        if !self.is_json {
            eprintln!("  {what}");
        }
    }

    pub(crate) fn condition(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        if !self.is_json {
            println!("{name}: {value}");
        }
        self.conditions.push((name.to_owned(), value));
    }

    pub(crate) fn row(&mut self, part: &'static str, name: &str, figures: &[Figure]) {
        if !self.is_json {
            let figures = figures.iter().map(|(name, value)| format!("{name} {value:.3}"));
            println!("{part} {name}: {}", figures.collect::<Vec<_>>().join(", "));
        }
        self.rows.push(Row { part, name: name.to_owned(), figures: figures.to_vec() });
    }

    pub(crate) fn target(&mut self, target: Target) {
        if !self.is_json {
            let verdict = if target.is_met() { "met" } else { "MISSED" };
            println!("  {}: {:.3}, {}: {verdict}", target.name, target.value, target.bound());
        }
        self.targets.push(target);
    }

    /// Prints the object, if that was asked for.
    pub(crate) fn finish(self) {
        if !self.is_json {
            return;
        }
        let conditions = self.conditions.iter().map(|(name, value)| format!("{name:?}:{value:?}"));
        let mut json =
            format!("{{\"bench\":\"transfer\",\"conditions\":{{{}}}", joined(conditions));
        for part in ["loopback", "links", "fairness"] {
            let rows = self.rows.iter().filter(|row| row.part == part).map(|row| {
                let figures = row.figures.iter().map(|(name, it)| format!("{name:?}:{it:.3}"));
                format!("{:?}:{{{}}}", row.name, joined(figures))
            });
            let _ = write!(json, ",{part:?}:{{{}}}", joined(rows));
        }
        let targets = self.targets.iter().map(|it| {
            let (name, value, bound, met) = (&it.name, it.value, it.bound(), it.is_met());
            format!("{{\"name\":{name:?},\"value\":{value:.3},\"target\":{bound:?},\"met\":{met}}}")
        });
        println!("{json},\"targets\":[{}]}}", joined(targets));
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

//! What was seen: figures, and what was asked for.

use std::fmt::Write as _;

/// Figures and targets of one run.
pub(crate) struct Report {
    conditions: Vec<(&'static str, String)>,
    figures: Vec<(String, f64)>,
    targets: Vec<Target>,
}

struct Target {
    name: &'static str,
    value: f64,
    target: String,
    met: bool,
}

impl Report {
    pub(crate) fn new(conditions: Vec<(&'static str, String)>) -> Self {
        Self { conditions, figures: Vec::new(), targets: Vec::new() }
    }

    pub(crate) fn figure(&mut self, name: &str, value: f64) {
        self.figures.push((name.to_owned(), value));
    }

    pub(crate) fn at_most(&mut self, name: &'static str, value: f64, most: f64) {
        let target = format!("at most {most}");
        self.targets.push(Target { name, value, target, met: value <= most });
    }

    pub(crate) fn at_least(&mut self, name: &'static str, value: f64, least: f64) {
        let target = format!("at least {least}");
        self.targets.push(Target { name, value, target, met: value >= least });
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.conditions {
            let _ = writeln!(text, "{name}: {value}");
        }
        for (name, value) in &self.figures {
            let _ = writeln!(text, "  {name:<40}{value:>12.3}");
        }
        for Target { name, value, target, met } in &self.targets {
            let verdict = if *met { "met" } else { "MISSED" };
            let _ = writeln!(text, "  {name:<40}{value:>12.3}  {target}: {verdict}");
        }
        text
    }

    pub(crate) fn json(&self) -> String {
        let conditions =
            self.conditions.iter().map(|(name, value)| format!("\"{name}\": \"{value}\""));
        let figures = self.figures.iter().map(|(name, value)| format!("\"{name}\": {value:.4}"));
        let targets = self.targets.iter().map(|it| {
            let Target { name, value, target, met } = it;
            format!(
                "{{\"name\": \"{name}\", \"value\": {value:.3}, \"target\": \"{target}\", \
                 \"met\": {met}}}"
            )
        });
        let join = |parts: &mut dyn Iterator<Item = String>| parts.collect::<Vec<_>>().join(", ");
        format!(
            "{{\"bench\": \"rib-cluster\", \"conditions\": {{{}}}, \"figures\": {{{}}}, \
             \"targets\": [{}]}}",
            join(&mut conditions.into_iter()),
            join(&mut figures.into_iter()),
            join(&mut targets.into_iter()),
        )
    }
}

//! What was seen: figures, and what was asked for.

use std::fmt::Write as _;

/// Figures and targets of one run.
pub(crate) struct Report {
    bench: &'static str,
    conditions: Vec<(String, String)>,
    suffix: String,
    figures: Vec<(String, f64)>,
    /// How many of the figures.
    told: usize,
    targets: Vec<Target>,
}

struct Target {
    name: String,
    value: f64,
    target: String,
    met: bool,
}

impl Report {
    pub(crate) fn new(bench: &'static str, conditions: Vec<(&'static str, String)>) -> Self {
        let conditions = conditions.into_iter().map(|(name, value)| (name.to_owned(), value));
        let conditions = conditions.collect();
        let (suffix, figures, targets) = (String::new(), Vec::new(), Vec::new());
        Self { bench, conditions, suffix, figures, told: 0, targets }
    }

    /// What every name ends in from now on.
    pub(crate) fn suffix(&mut self, suffix: &str) {
        suffix.clone_into(&mut self.suffix);
    }

    /// Something in words.
    pub(crate) fn note(&mut self, name: &str, text: &str) {
        self.conditions.push((format!("{name}{}", self.suffix), text.replace('"', "'")));
    }

    pub(crate) fn figure(&mut self, name: &str, value: f64) {
        self.figures.push((format!("{name}{}", self.suffix), value));
    }

    pub(crate) fn at_most(&mut self, name: &str, value: f64, most: f64) {
        let target = format!("at most {most}");
        let name = format!("{name}{}", self.suffix);
        self.targets.push(Target { name, value, target, met: value <= most });
    }

    pub(crate) fn at_least(&mut self, name: &str, value: f64, least: f64) {
        let target = format!("at least {least}");
        let name = format!("{name}{}", self.suffix);
        self.targets.push(Target { name, value, target, met: value >= least });
    }

    /// Figures that came since this was asked last.
    pub(crate) fn news(&mut self) -> String {
        let news = self.figures[self.told..].iter();
        self.told = self.figures.len();
        news.map(|(name, value)| format!("  {name:<40}{value:>12.3}\n")).collect()
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
            "{{\"bench\": \"{}\", \"conditions\": {{{}}}, \"figures\": {{{}}}, \
             \"targets\": [{}]}}",
            self.bench,
            join(&mut conditions.into_iter()),
            join(&mut figures.into_iter()),
            join(&mut targets.into_iter()),
        )
    }
}

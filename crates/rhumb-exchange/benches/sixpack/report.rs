//! Targets, and medians.

use serde_json::{Value, json};

/// What the figure should be.
pub(crate) struct Target {
    name: String,
    value: f64,
    bound: f64,
    is_lower: bool,
}

impl Target {
    pub(crate) fn at_least(name: impl Into<String>, value: f64, bound: f64) -> Self {
        Self { name: name.into(), value, bound, is_lower: true }
    }

    pub(crate) fn at_most(name: impl Into<String>, value: f64, bound: f64) -> Self {
        Self { name: name.into(), value, bound, is_lower: false }
    }

    fn is_met(&self) -> bool {
        if self.is_lower { self.value >= self.bound } else { self.value <= self.bound }
    }

    fn target(&self) -> String {
        format!("{} {}", if self.is_lower { "at least" } else { "at most" }, self.bound)
    }

    pub(crate) fn text(&self) -> String {
        let verdict = if self.is_met() { "met" } else { "MISSED" };
        format!("{:<40} {:>9.2}, {}: {verdict}", self.name, self.value, self.target())
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "value": self.value,
            "target": self.target(),
            "met": self.is_met(),
        })
    }
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// Sorts them; zero if there are none.
pub(crate) fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * part) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

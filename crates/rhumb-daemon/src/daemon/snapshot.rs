//! What a daemon tells about itself at one moment, and its text form for Prometheus.
//!
//! Names follow `rhumb_<crate>_<noun>_<unit>_total`; what can fall is a gauge and has no `_total`.
//! Datagrams and PDUs dropped are one metric per crate, labelled by reason.
//!
//! Each figure is named once: in JSON as the field that counts it, and as a metric in a constant,
//! whose doc says how to read it.

use std::borrow::Cow;
use std::fmt::Write;

use serde_json::Value;

/// A moment of a daemon.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// For `rhumb status` and `/status`.
    pub status: Value,
    /// For `/metrics`.
    pub metrics: Vec<Reading>,
}

/// What a metric is called, what it says, and whether it only grows: a constant of its daemon.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: &'static str,
}

/// A metric with its values of one moment.
#[derive(Debug, Clone)]
pub struct Reading {
    pub(super) metric: Metric,
    /// What the labels tell apart; `None` when there is one value, without a label.
    pub(super) key: Option<&'static str>,
    /// Labels are constants and numbers of ours, so nothing in them needs escaping. Of a histogram
    /// the last one is the sum, in milliseconds.
    pub(super) values: Vec<(Cow<'static, str>, u64)>,
}

impl Metric {
    /// A metric that only grows.
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: "counter" }
    }

    /// A metric that can fall.
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: "gauge" }
    }

    /// A metric of how often something took how long.
    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: "histogram" }
    }

    /// The metric with how many took less than each of these many milliseconds and no less than the
    /// one before, the last of them whatever they took, and the milliseconds of all together.
    pub fn of_waits(self, below_ms: &[u64], sum_ms: u64) -> Reading {
        let bounds = (0..below_ms.len()).map(|step| match step + 1 < below_ms.len() {
            true => format!("{}", (1u64 << step) as f64 / 1e3),
            false => "+Inf".to_owned(),
        });
        let mut all = 0;
        let so_far = below_ms.iter().map(|count| {
            all += count;
            all
        });
        let mut values: Vec<(Cow<'static, str>, u64)> = bounds.map(Cow::from).zip(so_far).collect();
        values.push(("sum".into(), sum_ms));
        Reading { metric: self, key: Some("le"), values }
    }

    /// The metric with its only value.
    pub fn is(self, value: impl TryInto<u64>) -> Reading {
        Reading { metric: self, key: None, values: vec![("".into(), number(value))] }
    }

    /// The metric with a value for each label of this key.
    pub fn by<L: Into<Cow<'static, str>>>(
        self,
        key: &'static str,
        values: impl IntoIterator<Item = (L, impl TryInto<u64>)>,
    ) -> Reading {
        let values = values.into_iter().map(|(label, value)| (label.into(), number(value)));
        Reading { metric: self, key: Some(key), values: values.collect() }
    }

    /// The metric with how often each reason came up.
    pub fn by_reason(
        self,
        counts: impl IntoIterator<Item = (impl Into<&'static str>, u64)>,
    ) -> Reading {
        self.by("reason", counts.into_iter().map(|(reason, count)| (reason.into(), count)))
    }
}

/// Reasons, each with how often it came up, as they stand in a status.
pub fn by_reason(counts: impl IntoIterator<Item = (impl Into<&'static str>, u64)>) -> Value {
    counts.into_iter().map(|(reason, count)| (reason.into(), count)).collect()
}

fn number(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(u64::MAX)
}

impl Snapshot {
    /// The text exposition format of Prometheus, version 0.0.4.
    pub(crate) fn prometheus_text(&self) -> String {
        let mut text = String::new();
        for Reading { metric: Metric { name, help, kind }, key, values } in &self.metrics {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            if *kind == "histogram" {
                let _ = write_histogram(&mut text, name, values);
                continue;
            }
            for (label, value) in values {
                let _ = match key {
                    Some(key) => writeln!(text, "{name}{{{key}=\"{label}\"}} {value}"),
                    None => writeln!(text, "{name} {value}"),
                };
            }
        }
        text
    }
}

/// Buckets, their sum in seconds, and how many there were: as the format wants histograms.
fn write_histogram(
    text: &mut String,
    name: &str,
    values: &[(Cow<'static, str>, u64)],
) -> std::fmt::Result {
    let Some(((_, sum_ms), buckets)) = values.split_last() else { return Ok(()) };
    for (bound, count) in buckets {
        writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}")?;
    }
    writeln!(text, "{name}_sum {}", *sum_ms as f64 / 1e3)?;
    writeln!(text, "{name}_count {}", buckets.last().map_or(0, |(_, count)| *count))
}

/// Of all of the suite, which is released as one.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        const DROPPED: Metric = Metric::counter("rhumb_x_dropped_pdus_total", "Dropped.");
        const FILL: Metric = Metric::gauge("rhumb_x_fill", "Fill.");
        const WAITS: Metric = Metric::histogram("rhumb_x_wait_seconds", "Waits.");
        let metrics = vec![
            DROPPED.by_reason([("too_big", 3)]),
            FILL.is(4_usize),
            WAITS.of_waits(&[5, 1, 2], 2500),
        ];
        let snapshot = Snapshot { status: Value::Null, metrics };
        assert_eq!(
            snapshot.prometheus_text(),
            "# HELP rhumb_x_dropped_pdus_total Dropped.\n# TYPE rhumb_x_dropped_pdus_total counter\n\
             rhumb_x_dropped_pdus_total{reason=\"too_big\"} 3\n\
             # HELP rhumb_x_fill Fill.\n# TYPE rhumb_x_fill gauge\nrhumb_x_fill 4\n\
             # HELP rhumb_x_wait_seconds Waits.\n# TYPE rhumb_x_wait_seconds histogram\n\
             rhumb_x_wait_seconds_bucket{le=\"0.001\"} 5\n\
             rhumb_x_wait_seconds_bucket{le=\"0.002\"} 6\n\
             rhumb_x_wait_seconds_bucket{le=\"+Inf\"} 8\n\
             rhumb_x_wait_seconds_sum 2.5\nrhumb_x_wait_seconds_count 8\n"
        );
    }
}

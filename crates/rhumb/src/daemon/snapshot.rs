//! What a daemon tells about itself at one moment, and its text form for Prometheus.
//!
//! Names follow `rhumb_<crate>_<noun>_<unit>_total`; what can fall is a gauge and has no `_total`.
//! Datagrams and PDUs dropped are one metric per crate, labelled by reason.

use std::borrow::Cow;
use std::fmt::Write;

use serde_json::Value;

/// A moment of a daemon.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// For `rhumb status` and `/status`.
    pub(crate) status: Value,
    /// For `/metrics`.
    pub(crate) metrics: Vec<Metric>,
}

/// One metric and its samples.
#[derive(Debug, Clone)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) kind: Kind,
    pub(crate) samples: Vec<Sample>,
}

/// Whether a metric only grows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Counter,
    Gauge,
}

/// One value, perhaps with a label. Labels are constants and
/// numbers of ours, so nothing in them needs escaping.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    label: Option<(&'static str, Cow<'static, str>)>,
    value: u64,
}

impl Sample {
    /// A value without a label.
    pub(crate) fn plain(value: u64) -> Self {
        Self { label: None, value }
    }

    /// A value with a label.
    pub(crate) fn labelled(
        key: &'static str,
        label: impl Into<Cow<'static, str>>,
        value: u64,
    ) -> Self {
        Self { label: Some((key, label.into())), value }
    }
}

impl Snapshot {
    /// The text exposition format of Prometheus, version 0.0.4.
    pub(crate) fn prometheus_text(&self) -> String {
        let mut text = String::new();
        for metric in &self.metrics {
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            let name = metric.name;
            let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help);
            for Sample { label, value } in &metric.samples {
                let _ = match label {
                    Some((key, label)) => writeln!(text, "{name}{{{key}=\"{label}\"}} {value}"),
                    None => writeln!(text, "{name} {value}"),
                };
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let snapshot = Snapshot {
            status: Value::Null,
            metrics: vec![Metric {
                name: "rhumb_x_dropped_pdus_total",
                help: "Dropped.",
                kind: Kind::Counter,
                samples: vec![Sample::labelled("reason", "too_big", 3), Sample::plain(4)],
            }],
        };
        assert_eq!(
            snapshot.prometheus_text(),
            "# HELP rhumb_x_dropped_pdus_total Dropped.\n# TYPE rhumb_x_dropped_pdus_total counter\n\
             rhumb_x_dropped_pdus_total{reason=\"too_big\"} 3\nrhumb_x_dropped_pdus_total 4\n"
        );
    }
}

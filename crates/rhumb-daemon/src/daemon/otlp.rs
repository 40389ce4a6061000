//! What a daemon counts as OpenTelemetry has it: the request of OTLP 1.x for metrics, in its JSON
//! form. Names, labels and values are those that Prometheus is given, and there are no others.
//!
//! All counts are sums since the daemon started ("cumulative"), so a request that is lost is made
//! up for by the next one.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::snapshot::{Reading, Snapshot, VERSION};

/// Of whom a request tells.
#[derive(Debug)]
pub(super) struct Source {
    /// What it is: `rhumb-router`.
    pub(super) service: String,
    /// Which one it is, among others of its kind.
    pub(super) instance: String,
    /// Since when it counts, in nanoseconds of Unix time.
    pub(super) start_ns: u64,
}

/// `ExportMetricsServiceRequest`, of this moment.
pub(super) fn request(source: &Source, snapshot: &Snapshot, now_ns: u64) -> Value {
    let times = json!({
        // Numbers of 64 bits are texts in the JSON form.
        "startTimeUnixNano": source.start_ns.to_string(),
        "timeUnixNano": now_ns.to_string(),
    });
    let metrics: Vec<Value> = snapshot.metrics.iter().map(|it| metric(it, &times)).collect();
    let resource = [
        attribute("service.name", &source.service),
        attribute("service.instance.id", &source.instance),
        attribute("service.version", VERSION),
    ];
    json!({
        "resourceMetrics": [{
            "resource": { "attributes": resource },
            "scopeMetrics": [{
                "scope": { "name": "rhumb", "version": VERSION },
                "metrics": metrics,
            }],
        }],
    })
}

fn metric(reading: &Reading, times: &Value) -> Value {
    let Reading { metric, key, values } = reading;
    let mut told = json!({ "name": metric.name, "description": metric.help });
    let (kind, data) = match metric.kind {
        "histogram" => {
            let points = histogram(values, times).into_iter().collect::<Vec<_>>();
            ("histogram", json!({ "aggregationTemporality": CUMULATIVE, "dataPoints": points }))
        }
        kind => {
            let points: Vec<Value> =
                values.iter().map(|(label, value)| point(*key, label, *value, times)).collect();
            match kind {
                "counter" => (
                    "sum",
                    json!({
                        "aggregationTemporality": CUMULATIVE,
                        "isMonotonic": true,
                        "dataPoints": points,
                    }),
                ),
                _ => ("gauge", json!({ "dataPoints": points })),
            }
        }
    };
    told[kind] = data;
    told
}

fn point(key: Option<&str>, label: &str, value: u64, times: &Value) -> Value {
    let mut point = times.clone();
    // Numbers are signed there; nothing counts as far as that matters.
    point["asInt"] = json!(i64::try_from(value).unwrap_or(i64::MAX).to_string());
    if let Some(key) = key {
        point["attributes"] = json!([attribute(key, label)]);
    }
    point
}

/// Prometheus counts what is below each bound, OpenTelemetry what is between two.
fn histogram(values: &[(Cow<'static, str>, u64)], times: &Value) -> Option<Value> {
    let ((_, sum_ms), buckets) = values.split_last()?;
    let mut below = 0;
    let between = buckets.iter().map(|(_, count)| {
        let own = count.saturating_sub(below);
        below = *count;
        own.to_string()
    });
    let mut point = times.clone();
    point["bucketCounts"] = json!(between.collect::<Vec<_>>());
    // The last one has no bound.
    let bounds = buckets.iter().filter_map(|(bound, _)| bound.parse::<f64>().ok());
    point["explicitBounds"] = json!(bounds.filter(|it| it.is_finite()).collect::<Vec<_>>());
    point["count"] = json!(below.to_string());
    point["sum"] = json!(*sum_ms as f64 / 1e3);
    Some(point)
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::super::snapshot::Metric;
    use super::*;

    #[test]
    fn each_kind_is_told_as_its_own() {
        const DROPPED: Metric = Metric::counter("rhumb_x_dropped_pdus_total", "Dropped.");
        const FILL: Metric = Metric::gauge("rhumb_x_fill", "Fill.");
        const WAITS: Metric = Metric::histogram("rhumb_x_wait_seconds", "Waits.");
        let metrics = vec![
            DROPPED.by_reason([("too_big", u64::MAX), ("late", 2)]),
            FILL.is(4_usize),
            WAITS.of_waits(&[5, 1, 2], 2500),
        ];
        let source = Source { service: "rhumb-x".into(), instance: "one".into(), start_ns: 7 };
        let snapshot = Snapshot { status: Value::Null, metrics };
        let told = request(&source, &snapshot, 9);
        let of = &told["resourceMetrics"][0];
        assert_eq!(of["resource"]["attributes"][0], attribute("service.name", "rhumb-x"));
        let metrics = &of["scopeMetrics"][0]["metrics"];
        let dropped = &metrics[0]["sum"];
        assert_eq!(dropped["isMonotonic"], true);
        assert_eq!(dropped["dataPoints"][0]["asInt"], "9223372036854775807");
        assert_eq!(
            dropped["dataPoints"][1],
            json!({
                "startTimeUnixNano": "7", "timeUnixNano": "9", "asInt": "2",
                "attributes": [{ "key": "reason", "value": { "stringValue": "late" } }],
            })
        );
        assert_eq!(
            metrics[1]["gauge"]["dataPoints"],
            json!([{ "startTimeUnixNano": "7", "timeUnixNano": "9", "asInt": "4" }])
        );
        assert_eq!(
            metrics[2]["histogram"]["dataPoints"][0],
            json!({
                "startTimeUnixNano": "7", "timeUnixNano": "9", "count": "8", "sum": 2.5,
                "bucketCounts": ["5", "1", "2"], "explicitBounds": [0.001, 0.002],
            })
        );
    }
}

//! What `rhumb status` and `/metrics` tell of a receiver.

use std::time::Duration;

use rhumb_node::Status;
use serde_json::{Map, Value, json};

use crate::daemon::{Kind, Metric, Sample, Snapshot};

/// Status and metrics of this moment; `refused` is who was refused last.
pub(super) fn snapshot(status: &Status, refused: &Value, uptime: Duration) -> Snapshot {
    let drops: Map<String, Value> = status
        .drops
        .iter()
        .map(|(reason, count)| (reason.as_str().to_owned(), json!(count)))
        .collect();
    let served: Vec<Value> = status
        .serving
        .iter()
        .map(|it| json!({ "name": it.name.to_string(), "published": it.published }))
        .collect();
    let told = json!({
        "role": "node",
        "name": status.name.to_string(),
        "address": status.local_address.to_string(),
        "uptime_s": uptime.as_secs(),
        "router": status.router.map(|name| name.to_string()),
        "router_address": status.router_address.map(|address| address.to_string()),
        "joined": status.joined,
        "published": status.published,
        "serving": served,
        "refused": refused,
        "traffic": { "sent": status.traffic.sent, "received": status.traffic.received },
        "drops": drops,
    });
    let samples = status.drops.iter();
    let samples =
        samples.map(|(reason, count)| Sample::labelled("reason", reason.as_str(), count)).collect();
    let help = "PDUs that the node dropped, by reason.";
    let metrics = vec![Metric { name: DROPPED, help, kind: Kind::Counter, samples }];
    Snapshot { status: told, metrics }
}

/// `sender_refused` grows when the rules refuse somebody; status says whom.
const DROPPED: &str = "rhumb_node_dropped_pdus_total";

//! What `rhumb status` and `/metrics` tell of a receiver.

use std::time::Duration;

use rhumb_node::Status;
use serde_json::{Value, json};

use crate::daemon::{Metric, Snapshot, by_reason};

/// Status and metrics of this moment; `refused` is who was refused last.
pub(super) fn snapshot(status: &Status, refused: &Value, uptime: Duration) -> Snapshot {
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
        "drops": by_reason(status.drops.iter()),
    });
    Snapshot { status: told, metrics: vec![DROPPED.by_reason(status.drops.iter())] }
}

/// `sender_refused` grows when the rules refuse somebody; status says whom.
const DROPPED: Metric =
    Metric::counter("rhumb_node_dropped_pdus_total", "PDUs that the node dropped, by reason.");

//! What `rhumb status` and `/metrics` tell of a receiver.

use std::time::Duration;

use rhumb_daemon::daemon::{Metric, Snapshot};
use rhumb_daemon::node_status::told;
use rhumb_node::Status;
use serde_json::{Value, json};

/// Status and metrics of this moment; `refused` is who was refused last.
pub(super) fn snapshot(status: &Status, refused: &Value, uptime: Duration) -> Snapshot {
    let mut told = told(status, uptime);
    told["refused"] = json!(refused);
    Snapshot { status: told, metrics: vec![DROPPED.by_reason(status.drops.iter())] }
}

/// `sender_refused` grows when the rules refuse somebody; status says whom.
const DROPPED: Metric =
    Metric::counter("rhumb_node_dropped_pdus_total", "PDUs that the node dropped, by reason.");

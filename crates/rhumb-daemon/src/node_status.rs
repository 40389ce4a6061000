//! How a node is, for those who ask: what `rhumb status` shows of commands that run one for long.

use std::sync::Arc;
use std::time::Duration;

use rhumb_node::{Node, Status};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::belonging::Belonging;
use crate::clock;
use crate::daemon::{self, Control, Metric, Snapshot, by_reason};
use crate::failure::Outcome;

/// Answers `rhumb status` until the node is closed. `add` puts in what the command has to say.
///
/// # Errors
/// When nothing wakes it.
pub fn answer_status(
    control: Control,
    node: Node,
    belonging: Belonging,
    add: impl Fn(&mut Snapshot),
) -> Outcome<impl Future<Output = ()>> {
    let woken = Arc::new(Notify::new());
    daemon::notify_by(control.wake().clone(), Arc::clone(&woken))?;
    Ok(answer_each(control, woken, node, belonging, add))
}

/// What a node's status says, whatever command runs it.
pub fn told(status: &Status, uptime: Duration) -> Value {
    let mut told = json!(status);
    told["role"] = json!("node");
    told["uptime_s"] = json!(uptime.as_secs());
    told["lease_expires_in_s"] = json!(status.lease_left.map(|left| left.as_secs()));
    told["io"] = json!({
        "received_datagrams": status.io.received_datagrams,
        "sent_datagrams": status.io.sent_datagrams,
        "received_bytes": status.io.received_bytes,
        "sent_bytes": status.io.sent_bytes,
    });
    told["dropped_datagrams"] = by_reason(status.link_drops.iter());
    told
}

async fn answer_each(
    control: Control,
    woken: Arc<Notify>,
    node: Node,
    belonging: Belonging,
    add: impl Fn(&mut Snapshot),
) {
    let started = clock::now().instant;
    loop {
        woken.notified().await;
        let Ok(status) = node.status().await else { return };
        let uptime = clock::now().instant - started;
        control.answer(|| {
            let told = told(&status, uptime);
            let metrics = vec![
                DROPPED_PDUS.by_reason(status.drops.iter()),
                DROPPED.by_reason(status.ends.iter()),
                CONNECTIONS.is(status.connections.len()),
            ];
            let mut snapshot = Snapshot { status: told, metrics };
            belonging.report(&mut snapshot);
            add(&mut snapshot);
            snapshot
        });
    }
}

const DROPPED_PDUS: Metric =
    Metric::counter("rhumb_node_dropped_pdus_total", "PDUs that the node dropped, by reason.");
const DROPPED: Metric = Metric::counter(
    "rhumb_end_dropped_payloads_total",
    "Payloads for connections that were dropped, by reason.",
);
const CONNECTIONS: Metric =
    Metric::gauge("rhumb_end_connections", "Connections with other names, now.");

//! What a waypoint tells about itself: status and metrics.

use std::net::IpAddr;
use std::time::Duration;

use rhumb_daemon::admin::Admin;
use rhumb_daemon::daemon::{Metric, Reading, Snapshot, by_reason};
use rhumb_daemon::waypoint::report::{Followed, accounts, by_principal};
use rhumb_waypoint::{Book, Totals};
use serde::Serialize;
use serde_json::{Value, json};

/// The one line that says: packets are forwarded from now on.
pub(super) struct Ready {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) io: String,
    pub(super) admin: Option<Admin>,
}

impl std::fmt::Display for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "waypoint ready: {} ({})", joined(&self.addresses), self.io)?;
        match &self.admin {
            Some(admin) => write!(f, " (status: rhumb status --admin {admin})"),
            None => Ok(()),
        }
    }
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": "waypoint",
            "addresses": self.addresses,
            "io": self.io,
            "admin": self.admin,
        })
        .serialize(serializer)
    }
}

/// All that status and metrics are made of.
pub(super) struct Facts<'a> {
    pub(super) addresses: &'a [IpAddr],
    pub(super) io: &'a str,
    pub(super) uptime: Duration,
    pub(super) workers: usize,
    pub(super) totals: &'a Totals,
    pub(super) book: &'a Book,
    /// `None` when no key server is followed.
    pub(super) followed: Option<Followed>,
    pub(super) save_failures: u64,
}

/// Status and metrics of this moment.
pub(super) fn snapshot(facts: &Facts<'_>) -> Snapshot {
    Snapshot { status: status(facts), metrics: metrics(facts) }
}

fn status(facts: &Facts<'_>) -> Value {
    let Facts { totals, book, .. } = facts;
    let epochs: Vec<u8> = totals.epochs.iter().map(|epoch| epoch.0).collect();
    let accounts = accounts(totals);
    json!({
        "role": "waypoint",
        "name": facts.io,
        "address": joined(facts.addresses),
        "uptime_s": facts.uptime.as_secs(),
        "workers": facts.workers,
        "epochs": epochs,
        "period": book.period,
        "counters": {
            "forwarded_packets": totals.total.packets,
            "forwarded_bytes": totals.total.bytes,
            "dropped_packets": totals.drops.total(),
            "handed_over_in_vain": totals.overflows,
            "accounts_not_written": facts.save_failures,
        },
        "revocations": facts.followed,
        "accounts": accounts,
        "dropped_by_reason": by_reason(totals.drops()),
        "icmp_sent": by_reason(totals.icmp.all_sent()),
        "icmp_dropped": by_reason(totals.icmp.all_dropped()),
        "io": {
            "backend": facts.io,
            "received_packets": totals.io.received_datagrams,
            "sent_packets": totals.io.sent_datagrams,
            "xdp_received_packets": totals.io.xdp_received_datagrams,
            "xdp_sent_packets": totals.io.xdp_sent_datagrams,
        },
    })
}

fn metrics(facts: &Facts<'_>) -> Vec<Reading> {
    let Facts { totals, save_failures, .. } = facts;
    let mut metrics = vec![
        FORWARDED.is(totals.total.packets),
        FORWARDED_BYTES.is(totals.total.bytes),
        DROPPED.by_reason(totals.drops()),
        ICMP_SENT.by("kind", totals.icmp.all_sent().map(|(what, count)| (what.name(), count))),
        ICMP_DROPPED.by_reason(totals.icmp.all_dropped()),
        HANDED_OVER.is(totals.overflows),
        SAVE_FAILURES.is(*save_failures),
        EPOCHS.by("epoch", totals.epochs.iter().map(|epoch| (epoch.0.to_string(), 1))),
    ];
    metrics.extend(by_principal(totals));
    metrics.extend(facts.followed.iter().flat_map(Followed::metrics));
    metrics.extend([
        IO_RECEIVED.is(totals.io.received_datagrams),
        IO_SENT.is(totals.io.sent_datagrams),
        IO_DROPPED.by_reason(totals.io.drops()),
    ]);
    metrics
}

fn joined(addresses: &[IpAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    texts.join(", ")
}

/// Load. What was forwarded is on its principal's account.
const FORWARDED: Metric =
    Metric::counter("rhumb_waypoint_forwarded_packets_total", "Packets forwarded.");
/// Divide by [`FORWARDED`]: the mean size.
const FORWARDED_BYTES: Metric = Metric::counter(
    "rhumb_waypoint_forwarded_bytes_total",
    "Their bytes, as IP packets before they were stamped.",
);
/// The reasons are those of `rhumb_capability::DropReason`.
const DROPPED: Metric =
    Metric::counter("rhumb_waypoint_dropped_packets_total", "Packets dropped, by reason.");
/// `translated` and `too_big` grow where paths are narrower
/// than stampers think, `time_exceeded` with loops.
const ICMP_SENT: Metric =
    Metric::counter("rhumb_waypoint_sent_icmp_total", "ICMP messages sent, by kind.");
/// `forged` is an attack; `rate_limited` much trouble at once.
const ICMP_DROPPED: Metric =
    Metric::counter("rhumb_waypoint_dropped_icmp_total", "ICMP messages not sent, by reason.");
/// A worker does not keep up.
const HANDED_OVER: Metric = Metric::counter(
    "rhumb_waypoint_dropped_hand_overs_total",
    "Packets that found the queue to their worker full.",
);
/// Anything but zero needs a look at disk and log: what is not written is lost with the process.
const SAVE_FAILURES: Metric = Metric::counter(
    "rhumb_waypoint_accounts_write_failures_total",
    "Attempts to write accounts that failed.",
);
/// Two while epochs change, else one.
const EPOCHS: Metric =
    Metric::gauge("rhumb_waypoint_live_epochs", "Epochs whose capabilities are taken.");
/// Load of packet I/O.
const IO_RECEIVED: Metric =
    Metric::counter("rhumb_io_received_packets_total", "IP packets received.");
/// As [`IO_RECEIVED`].
const IO_SENT: Metric =
    Metric::counter("rhumb_io_sent_packets_total", "IP packets sent, ICMP included.");
/// `receive_queue_full` grows when worker 0 is too slow, `send_busy` when the link is.
const IO_DROPPED: Metric = Metric::counter(
    "rhumb_io_dropped_packets_total",
    "IP packets that packet I/O did not pass on, by reason.",
);

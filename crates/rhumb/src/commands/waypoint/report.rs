//! What a waypoint tells about itself: status and metrics.

use std::net::IpAddr;
use std::time::Duration;

use rhumb_capability::{IcmpDrop, IcmpSent};
use rhumb_io::Counters;
use rhumb_waypoint::{Book, Totals};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::admin::Admin;
use crate::daemon::{Kind, Metric, Sample, Snapshot};
use crate::waypoint::report::{Followed, accounts, by_principal};

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
        "revocations": facts.followed.as_ref().map(Followed::status),
        "accounts": accounts,
        "dropped_by_reason": map(totals.drops().map(|(why, count)| (why.name(), count))),
        "icmp_sent": map(totals.icmp.all_sent().map(|(what, count)| (IcmpSent::name(what), count))),
        "icmp_dropped":
            map(totals.icmp.all_dropped().map(|(why, count)| (IcmpDrop::name(why), count))),
        "io": {
            "backend": facts.io,
            "received_packets": totals.io.received_datagrams,
            "sent_packets": totals.io.sent_datagrams,
            "xdp_received_packets": totals.io.xdp_received_datagrams,
            "xdp_sent_packets": totals.io.xdp_sent_datagrams,
        },
    })
}

fn metrics(facts: &Facts<'_>) -> Vec<Metric> {
    let totals = facts.totals;
    let metric = |name, help, kind, samples| Metric { name, help, kind, samples };
    let plain = |value| vec![Sample::plain(value)];
    let drops = totals.drops().map(|(why, count)| Sample::labelled("reason", why.name(), count));
    let sent =
        totals.icmp.all_sent().map(|(what, count)| Sample::labelled("kind", what.name(), count));
    let icmp_drops =
        totals.icmp.all_dropped().map(|(why, count)| Sample::labelled("reason", why.name(), count));
    let epochs = totals.epochs.iter();
    let epochs = epochs.map(|epoch| Sample::labelled("epoch", epoch.0.to_string(), 1));
    let counter = Kind::Counter;
    let mut metrics = vec![
        metric(FORWARDED, "Packets forwarded.", counter, plain(totals.total.packets)),
        metric(
            FORWARDED_BYTES,
            "Their bytes, as IP packets before they were stamped.",
            counter,
            plain(totals.total.bytes),
        ),
        metric(DROPPED, "Packets dropped, by reason.", counter, drops.collect()),
        metric(ICMP_SENT, "ICMP messages sent, by kind.", counter, sent.collect()),
        metric(ICMP_DROPPED, "ICMP messages not sent, by reason.", counter, icmp_drops.collect()),
        metric(
            HANDED_OVER,
            "Packets that found the queue to their worker full.",
            counter,
            plain(totals.overflows),
        ),
        metric(
            SAVE_FAILURES,
            "Attempts to write accounts that failed.",
            counter,
            plain(facts.save_failures),
        ),
        metric(EPOCHS, "Epochs whose capabilities are taken.", Kind::Gauge, epochs.collect()),
    ];
    metrics.extend(by_principal(totals));
    metrics.extend(facts.followed.iter().flat_map(Followed::metrics));
    metrics.extend(io_metrics(&totals.io));
    metrics
}

fn io_metrics(io: &Counters) -> [Metric; 3] {
    let plain = |name, help, value| Metric {
        name,
        help,
        kind: Kind::Counter,
        samples: vec![Sample::plain(value)],
    };
    let dropped = |reason: &'static str, value| Sample::labelled("reason", reason, value);
    [
        plain(IO_RECEIVED, "IP packets received.", io.received_datagrams),
        plain(IO_SENT, "IP packets sent, ICMP included.", io.sent_datagrams),
        Metric {
            name: IO_DROPPED,
            help: "IP packets that packet I/O did not pass on, by reason.",
            kind: Kind::Counter,
            samples: vec![
                dropped("send_busy", io.send_dropped_busy),
                dropped("send_too_big", io.send_dropped_too_big),
                dropped("send_unreachable", io.send_dropped_unreachable),
                dropped("receive_malformed", io.receive_malformed),
                dropped("receive_queue_full", io.receive_queue_overflows),
            ],
        },
    ]
}

fn joined(addresses: &[IpAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    texts.join(", ")
}

fn map(pairs: impl Iterator<Item = (&'static str, u64)>) -> Value {
    let map: Map<String, Value> =
        pairs.map(|(reason, count)| (reason.to_owned(), json!(count))).collect();
    Value::Object(map)
}

/// Load. What was forwarded is on its principal's account.
const FORWARDED: &str = "rhumb_waypoint_forwarded_packets_total";
/// Divide by [`FORWARDED`]: the mean size.
const FORWARDED_BYTES: &str = "rhumb_waypoint_forwarded_bytes_total";
/// The reasons are those of `rhumb_capability::DropReason`.
const DROPPED: &str = "rhumb_waypoint_dropped_packets_total";
/// `translated` and `too_big` grow where paths are narrower
/// than stampers think, `time_exceeded` with loops.
const ICMP_SENT: &str = "rhumb_waypoint_sent_icmp_total";
/// `forged` is an attack; `rate_limited` much trouble at once.
const ICMP_DROPPED: &str = "rhumb_waypoint_dropped_icmp_total";
/// A worker does not keep up.
const HANDED_OVER: &str = "rhumb_waypoint_dropped_hand_overs_total";
/// Anything but zero needs a look at disk and log: what is not written is lost with the process.
const SAVE_FAILURES: &str = "rhumb_waypoint_accounts_write_failures_total";
/// Two while epochs change, else one.
const EPOCHS: &str = "rhumb_waypoint_live_epochs";
/// Load of packet I/O.
const IO_RECEIVED: &str = "rhumb_io_received_packets_total";
/// As [`IO_RECEIVED`].
const IO_SENT: &str = "rhumb_io_sent_packets_total";
/// `receive_queue_full` grows when worker 0 is too slow, `send_busy` when the link is.
const IO_DROPPED: &str = "rhumb_io_dropped_packets_total";

//! What `rhumb stamp status` and `/metrics` tell of a stamper.

use std::sync::atomic::Ordering;
use std::time::Instant;

use rhumb_daemon::clock;
use rhumb_daemon::daemon::{Metric, Reading, Snapshot, by_reason};
use rhumb_keyserver::client::ClientCounters;
use rhumb_waypoint::stamping::DropReason;
use serde_json::{Value, json};

use super::Stamping;
use super::lane::Departure;
use super::way::Way;

/// Status and metrics. `policies` are as people read them.
pub(super) fn snapshot(stamping: &Stamping, policies: &[String]) -> Snapshot {
    let now_s = clock::now().unix_ms / 1000;
    let ways: Vec<Value> =
        stamping.instance.ways().map(|(_, way)| way_status(way, now_s)).collect();
    let choices: Vec<Value> = stamping.instance.ways().flat_map(|(_, way)| choices(way)).collect();
    let totals = Totals::of(stamping);
    let status = json!({
        "role": "stamper",
        "name": format!("stamp{}", stamping.instance.number()),
        "address": "this host",
        "uptime_s": stamping.started.elapsed().as_secs(),
        "counters": {
            "stamped_packets": totals.stamped_packets,
            "stamped_bytes": totals.stamped_bytes,
            "plain_packets": totals.plain_packets,
            "refused_requests": stamping.refused,
        },
        "drops": by_reason(totals.drops()),
        "refusals": stamping.refusals.lines(Instant::now()),
        "ways": ways,
        "choices": choices,
        "policies": policies,
        "key_server": key_server(stamping),
    });
    Snapshot { status, metrics: metrics(stamping, &totals, now_s) }
}

fn way_status(way: &Way, now_s: u64) -> Value {
    let counts = way.counts();
    let (mut keys, mut udp) = (Vec::new(), Vec::new());
    for is_v6 in [false, true] {
        for chosen in way.chosen(is_v6) {
            match chosen {
                Ok(chosen) => keys.extend(chosen.iter().map(|choice| {
                    let left_s = choice.not_after_s.saturating_sub(now_s);
                    let (window, epoch) = (choice.window.0, choice.epoch);
                    format!("{} window {window} epoch {epoch}, {left_s} s left", choice.waypoint)
                })),
                Err(waypoint) => keys.push(format!("{waypoint} has no valid key")),
            }
        }
        let carried = way.departures(is_v6).iter().flatten().filter_map(Departure::udp);
        udp.extend(carried.map(|to| to.to_string()));
    }
    json!({
        "via": way.via().to_string(),
        "device": way.device(),
        "mtu": way.mtu(),
        "udp": if udp.is_empty() { Value::Null } else { udp.join(", ").into() },
        "stamped_packets": counts.stamped_packets.load(Ordering::Relaxed),
        "stamped_bytes": counts.stamped_bytes.load(Ordering::Relaxed),
        "plain_packets": counts.plain_packets.load(Ordering::Relaxed),
        "dropped_packets": DropReason::ALL.iter().map(|it| counts.dropped(*it)).sum::<u64>(),
        "keys": keys.join("; "),
    })
}

/// The lists of waypoints among which a way chooses, the preferred one of each family first.
fn choices(way: &Way) -> Vec<Value> {
    let mut all = Vec::new();
    for is_v6 in [false, true] {
        let Some(choice) = way.choice(is_v6) else { continue };
        for (number, (list, health)) in way.via().of(is_v6).iter().zip(choice.ways()).enumerate() {
            let via: Vec<String> = list.iter().map(ToString::to_string).collect();
            let round_trip = health.round_trip().map(|it| it.as_micros() as f64 / 1000.0);
            all.push(json!({
                "via": via.join(","),
                "device": way.device(),
                "state": health.standing().as_str(),
                "round_trip_ms": round_trip,
                "is_in_use": number == choice.current(),
            }));
        }
    }
    all
}

/// Sums over all ways that there are.
#[derive(Default)]
struct Totals {
    stamped_packets: u64,
    stamped_bytes: u64,
    plain_packets: u64,
    dropped: [u64; DropReason::ALL.len()],
    ways: u64,
    without_key: u64,
    changes: u64,
}

impl Totals {
    fn of(stamping: &Stamping) -> Self {
        let mut totals = Self::default();
        for (_, way) in stamping.instance.ways() {
            let counts = way.counts();
            totals.ways += 1;
            totals.changes += way.changes();
            totals.without_key += u64::from(!way.is_ready());
            totals.stamped_packets += counts.stamped_packets.load(Ordering::Relaxed);
            totals.stamped_bytes += counts.stamped_bytes.load(Ordering::Relaxed);
            totals.plain_packets += counts.plain_packets.load(Ordering::Relaxed);
            for (total, reason) in totals.dropped.iter_mut().zip(DropReason::ALL.iter().copied()) {
                *total += counts.dropped(reason);
            }
        }
        totals
    }

    fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().copied().zip(self.dropped)
    }
}

/// What all clients of key servers have counted.
fn key_server(stamping: &Stamping) -> ClientCounters {
    let mut sum = ClientCounters::default();
    stamping.keys.clients().iter().for_each(|client| sum.add(&client.counters()));
    sum
}

/// Seconds until the first of the keys in use ends.
fn least_left_s(stamping: &Stamping, now_s: u64) -> u64 {
    let families = |way| [false, true].into_iter().flat_map(move |is_v6| Way::chosen(way, is_v6));
    let chosen = stamping.instance.ways().flat_map(|(_, way)| families(way));
    let ends = chosen.map(|chosen| match chosen {
        Ok(chosen) => chosen.iter().map(|it| it.not_after_s).min().unwrap_or(0),
        Err(_) => 0,
    });
    ends.min().map_or(0, |end_s| end_s.saturating_sub(now_s))
}

fn metrics(stamping: &Stamping, totals: &Totals, now_s: u64) -> Vec<Reading> {
    vec![
        STAMPED.is(totals.stamped_packets),
        STAMPED_BYTES.is(totals.stamped_bytes),
        PLAIN.is(totals.plain_packets),
        DROPPED.by_reason(totals.drops()),
        REFUSALS.is(stamping.refusals.messages()),
        WAYS.is(totals.ways),
        CHANGES.is(totals.changes),
        WITHOUT_KEY.is(totals.without_key),
        LEFT.is(least_left_s(stamping, now_s)),
    ]
}

/// Load; of the ways that are in use now.
const STAMPED: Metric = Metric::counter("rhumb_stamp_stamped_packets_total", "Packets stamped.");
/// As they were before: the payload of the stamped way.
const STAMPED_BYTES: Metric =
    Metric::counter("rhumb_stamp_stamped_bytes_total", "Bytes of packets stamped.");
/// Above 0 only with `--fallback plain`: these took the usual way.
const PLAIN: Metric =
    Metric::counter("rhumb_stamp_plain_packets_total", "Packets sent without a stamp.");
/// `no_key` is the one to be woken for. `path_too_narrow` is
/// a few whenever a path takes less than before.
const DROPPED: Metric = Metric::counter(
    "rhumb_stamp_dropped_packets_total",
    "Packets that were to be stamped and not sent, by reason.",
);
/// Above 0: the status says which waypoint refuses. Ask whom the capability is from.
const REFUSALS: Metric = Metric::counter(
    "rhumb_stamp_refusals_total",
    "Words of waypoints that a capability was revoked.",
);
/// Each has a device and a thread.
const WAYS: Metric = Metric::gauge("rhumb_stamp_ways", "Ways through waypoints in use.");
/// A way fell silent, was refused, or is well again. What each is, the status says under `choices`.
const CHANGES: Metric =
    Metric::counter("rhumb_stamp_way_changes_total", "Times that packets took another way.");
/// Nothing is stamped on these.
const WITHOUT_KEY: Metric =
    Metric::gauge("rhumb_stamp_ways_without_key", "Ways without a valid key.");
/// The next window's key should be there before this is 0.
const LEFT: Metric =
    Metric::gauge("rhumb_stamp_key_left_seconds", "Until the first key in use ends.");

//! What a RIB tells about itself: status and metrics.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rhumb_link::Source;
use rhumb_rib::store::Store;
use rhumb_rib::{Fill, Held, RefusedAsker, Server};
use rhumb_trust::Now;
use serde_json::{Map, Value, json};

use super::fullness::percent;
use crate::daemon::{Kind, Metric, Sample, Snapshot};

/// Status and metrics of this moment.
pub(super) fn snapshot<S: Store>(
    server: &mut Server<S>,
    address: SocketAddr,
    uptime: Duration,
    now: Now,
) -> Snapshot {
    // A store that cannot be read is logged where it is used; here its size is just not known.
    let stored_names = server.stored_names().ok();
    let fill = server.fill().ok();
    let mut metrics = metrics(server, stored_names);
    metrics.extend(fill.iter().flat_map(shares));
    Snapshot { status: status(server, stored_names, fill, address, uptime, now), metrics }
}

fn status<S: Store>(
    server: &Server<S>,
    stored_names: Option<u64>,
    fill: Option<Fill>,
    address: SocketAddr,
    uptime: Duration,
    now: Now,
) -> Value {
    let counters = server.counters();
    let sessions: Vec<Value> = server
        .endpoint()
        .sessions()
        .map(|(_, peer)| {
            json!({
                "peer": peer.name.to_string(),
                "role": peer.metadata.role.as_str(),
                "address": peer.address,
                "age_s": now.instant.saturating_duration_since(peer.established_at).as_secs(),
                "largest_datagram": peer.max_datagram_len,
            })
        })
        .collect();
    json!({
        "role": "rib",
        "name": server.name().to_string(),
        "address": address,
        "uptime_s": uptime.as_secs(),
        "stored_names": stored_names,
        "store": fill.as_ref().map(store),
        "sessions": sessions,
        "refused": server.refused().map(|it| refused(&it, now)).collect::<Vec<_>>(),
        "counters": {
            "lookups_found": counters.lookups_found,
            "lookups_absent": counters.lookups_absent,
            "absences_signed": counters.absences_signed,
            "publishes_stored": counters.publishes_stored,
            "statements_stored": counters.statements_stored,
            "commits": counters.commits,
            "store_failures": counters.store_failures,
            "entries_swept": counters.entries_swept,
            "sweeps_refused": counters.sweeps_refused,
            "changes_sent": counters.changes_sent,
            "changes_acknowledged": counters.changes_acknowledged,
            "changes_given_up": counters.changes_given_up,
        },
        "subscriptions": server.subscriptions(),
        "tables": {
            "names": {"used": stored_names, "bound": server.config().max_names},
            "subscriptions":
                {"used": server.subscriptions(), "bound": server.config().max_subscriptions},
            "sessions": {"used": sessions.len(), "bound": server.endpoint().limits().sessions},
        },
        "refused_requests": map(counters.refusals().map(|(why, count)| (why.as_str(), count))),
        "dropped_requests": map(counters.drops().map(|(why, count)| (why.as_str(), count))),
        "dropped_datagrams":
            map(server.endpoint().drops().iter().map(|(why, count)| (why.as_str(), count))),
    })
}

/// An address, or the part of one that tells sites apart.
fn source_text(source: Source) -> String {
    match source {
        Source::V4(bytes) => Ipv4Addr::from(bytes).to_string(),
        Source::V6(site) => {
            let mut bytes = [0; 16];
            bytes[..6].copy_from_slice(&site);
            format!("{}/48", Ipv6Addr::from(bytes))
        }
    }
}

/// Whom the rules refuse: the last name from each source.
fn refused(refused: &RefusedAsker, now: Now) -> Value {
    json!({
        "name": refused.name.to_string(),
        "wanted": "publish or ask",
        "source": source_text(refused.source),
        "age_s": now.unix_s().saturating_sub(refused.last_s),
        "times": refused.count,
    })
}

fn metrics<S: Store>(server: &Server<S>, stored_names: Option<u64>) -> Vec<Metric> {
    let counters = server.counters();
    let metric = |name, help, kind, samples| Metric { name, help, kind, samples };
    let plain = |value| vec![Sample::plain(value)];
    let reasons = |samples: &mut dyn Iterator<Item = (&'static str, u64)>| {
        samples.map(|(reason, count)| Sample::labelled("reason", reason, count)).collect()
    };
    let lookups = vec![
        Sample::labelled("answer", "found", counters.lookups_found),
        Sample::labelled("answer", "absent", counters.lookups_absent),
    ];
    let changes = vec![
        Sample::labelled("fate", "acknowledged", counters.changes_acknowledged),
        Sample::labelled("fate", "given_up", counters.changes_given_up),
    ];
    let mut metrics = vec![
        metric(LOOKUPS, "Look-ups answered, by answer.", Kind::Counter, lookups),
        metric(
            PUBLISHES,
            "Orders to publish that were acknowledged.",
            Kind::Counter,
            plain(counters.publishes_stored),
        ),
        metric(COMMITS, "Transactions written.", Kind::Counter, plain(counters.commits)),
        metric(
            STORE_FAILURES,
            "Failures of the store.",
            Kind::Counter,
            plain(counters.store_failures),
        ),
        metric(CHANGES, "Changes told to subscribers, by fate.", Kind::Counter, changes),
        metric(
            SUBSCRIPTIONS,
            "Subscriptions to changes.",
            Kind::Gauge,
            plain(server.subscriptions() as u64),
        ),
        metric(
            REFUSED,
            "Requests refused, by reason.",
            Kind::Counter,
            reasons(&mut counters.refusals().map(|(why, count)| (why.as_str(), count))),
        ),
        metric(
            DROPPED_REQUESTS,
            "What came in and got no answer, by reason.",
            Kind::Counter,
            reasons(&mut counters.drops().map(|(why, count)| (why.as_str(), count))),
        ),
        metric(
            DROPPED_DATAGRAMS,
            "Datagrams dropped by the links, by reason.",
            Kind::Counter,
            reasons(
                &mut server.endpoint().drops().iter().map(|(why, count)| (why.as_str(), count)),
            ),
        ),
        metric(
            SESSIONS,
            "Secure sessions.",
            Kind::Gauge,
            plain(server.endpoint().sessions().count() as u64),
        ),
    ];
    metrics.push(metric(BOUNDS, "The most entries of each table.", Kind::Gauge, bounds(server)));
    metrics.extend(
        stored_names.map(|names| metric(NAMES, "Names with an entry.", Kind::Gauge, plain(names))),
    );
    metrics
}

/// Who fills the store, and how far.
fn store(fill: &Fill) -> Value {
    let held = |held: Held| json!({"names": held.names, "bytes": held.bytes});
    let Fill { admitted, strangers, bound, strangers_bound } = *fill;
    let all =
        Held { names: admitted.names + strangers.names, bytes: admitted.bytes + strangers.bytes };
    json!({
        "bound": held(bound),
        "full_percent": percent(all, bound),
        "admitted": held(admitted),
        "strangers": {
            "names": strangers.names,
            "bytes": strangers.bytes,
            "bound": held(strangers_bound),
            "full_percent": percent(strangers, strangers_bound),
        },
    })
}

/// The same as metrics.
fn shares(fill: &Fill) -> [Metric; 3] {
    let shares = [("admitted", fill.admitted), ("strangers", fill.strangers)];
    let bounds = [("all", fill.bound.bytes), ("strangers", fill.strangers_bound.bytes)];
    let of = |value: fn(Held) -> u64| {
        shares.map(|(share, held)| Sample::labelled("share", share, value(held))).to_vec()
    };
    let bounds = bounds.map(|(share, bytes)| Sample::labelled("share", share, bytes)).to_vec();
    let gauge = |name, help, samples| Metric { name, help, kind: Kind::Gauge, samples };
    [
        gauge(SHARE_NAMES, "Names with an entry, by whose share they count on.", of(|it| it.names)),
        gauge(SHARE_BYTES, "About the bytes on disk that entries take.", of(|it| it.bytes)),
        gauge(SHARE_BOUNDS, "About the most bytes on disk that entries take.", bounds),
    ]
}

/// The most entries of each table.
fn bounds<S: Store>(server: &Server<S>) -> Vec<Sample> {
    let config = server.config();
    let bounds = [
        ("names", config.max_names),
        ("subscriptions", config.max_subscriptions as u64),
        ("sessions", server.endpoint().limits().sessions as u64),
    ];
    bounds.map(|(table, bound)| Sample::labelled("table", table, bound)).to_vec()
}

fn map<'a>(pairs: impl Iterator<Item = (&'a str, u64)>) -> Value {
    let map: Map<String, Value> =
        pairs.map(|(reason, count)| (reason.to_owned(), json!(count))).collect();
    Value::Object(map)
}

/// What [`NAMES`], [`SUBSCRIPTIONS`] and [`SESSIONS`] are bounded by.
const BOUNDS: &str = "rhumb_rib_table_bound_entries";
/// Load; many `absent` are names that were mistyped, have left, or are probed.
const LOOKUPS: &str = "rhumb_rib_answered_lookups_total";
/// Renewals of leases, mostly: names divided by half a lease is the rate to expect.
const PUBLISHES: &str = "rhumb_rib_stored_publishes_total";
/// Divide [`PUBLISHES`] by this: orders that share a commit.
const COMMITS: &str = "rhumb_rib_commits_total";
/// `given_up` grows when routers are gone without a
/// word, or the network loses most of what is sent.
const CHANGES: &str = "rhumb_rib_told_changes_total";
/// Names that routers use now, times the routers that use them.
const SUBSCRIPTIONS: &str = "rhumb_rib_subscriptions";
/// Anything but zero needs a look at disk and log.
const STORE_FAILURES: &str = "rhumb_rib_store_failures_total";
/// `bad_signature` is an attack or a bug; `superseded` two
/// holders of one key, or a clock that went back.
const REFUSED: &str = "rhumb_rib_refused_requests_total";
/// The reasons are those of `rhumb_rib::DropReason`.
const DROPPED_REQUESTS: &str = "rhumb_rib_dropped_requests_total";
/// The reasons are those of `rhumb_link::DropReason`.
const DROPPED_DATAGRAMS: &str = "rhumb_link_dropped_datagrams_total";
/// Routers and tools that are connected.
const SESSIONS: &str = "rhumb_link_sessions";
/// Many of strangers: routers that no rule names, or an attack.
const SHARE_NAMES: &str = "rhumb_rib_share_names";
/// Compare with [`SHARE_BOUNDS`].
const SHARE_BYTES: &str = "rhumb_rib_share_bytes";
/// Set by `disk_mib` and `strangers_percent`.
const SHARE_BOUNDS: &str = "rhumb_rib_share_bound_bytes";
/// Compare with the store's bound.
const NAMES: &str = "rhumb_rib_stored_names";

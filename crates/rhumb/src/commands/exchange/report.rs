//! What a server of the exchange tells: its ready line, status and metrics.
//!
//! Nothing in it tells a route, a policy or a ranking: those are
//! shares, and only shares of others could open them.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rhumb_daemon::admin::Admin;
use rhumb_daemon::daemon::{Metric, Reading, Snapshot};
use rhumb_exchange::{Lane, Latencies, Status};
use rhumb_mpc::Party;
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::hub::Hub;
use super::members::site_of;
use super::plain::Plain;
use super::shard::Report;

/// What does not come from connections or shards.
pub(super) struct Facts<'a> {
    pub(super) name: Name,
    pub(super) address: SocketAddr,
    pub(super) started: Instant,
    pub(super) is_standby: bool,
    /// What came to the door, by outcome.
    pub(super) door: HashMap<&'static str, u64>,
    pub(super) plain: Option<&'a Plain>,
}

/// Status and metrics of this moment.
pub(super) fn snapshot(facts: &Facts<'_>, hub: &Hub, shards: &[Report]) -> Snapshot {
    Snapshot { status: status(facts, hub, shards), metrics: metrics(facts, hub, shards) }
}

fn status(facts: &Facts<'_>, hub: &Hub, shards: &[Report]) -> Value {
    let mut members: Vec<_> = hub
        .members()
        .iter()
        .map(|(lane, member)| {
            let value = json!({
                "site": site_of(hub, *lane),
                "address": member.address,
                "participates": member.participates,
                "connected_s": member.since.elapsed().as_secs(),
                "unsent_bytes": member.line.outbox.waiting(),
                "refused_routes": refused(shards, *lane),
            });
            (*lane, value)
        })
        .collect();
    members.sort_by_key(|(lane, _)| *lane);
    let members: Vec<Value> = members.into_iter().map(|(_, member)| member).collect();
    let pair = hub.pair().as_ref().map(|pair| {
        json!({
            "name": pair.name.to_string(),
            "address": pair.address,
            "epoch": format!("{:016x}", pair.epoch),
            "connected_s": pair.since.elapsed().as_secs(),
            "unsent_bytes": pair.line.outbox.waiting(),
        })
    });
    let queues: Vec<Value> = shards.iter().enumerate().map(shard_status).collect();
    let sum = |of: fn(&Status) -> u64| total(shards, of);
    json!({
        "role": "exchange",
        "name": facts.name.to_string(),
        "address": facts.address,
        "uptime_s": facts.started.elapsed().as_secs(),
        "party": hub.party as u8,
        "is_standby": facts.is_standby,
        "sites": sites(hub),
        "members": members,
        "pair": pair,
        "routes": {
            "held": sum(|status| status.held as u64),
            "current": sum(|status| status.current as u64),
            "waiting": sum(|status| status.waiting as u64),
            "exported": sum(|status| status.counters.exported),
            "replayed": sum(|status| status.counters.replayed),
            "refused": sum(|status| status.counters.refused),
        },
        "rounds": {
            "under_way": sum(|status| status.rounds as u64),
            "selected": sum(|status| status.counters.selected),
            "late_rankings": sum(|status| status.counters.late_rankings),
            "missed": sum(|status| status.counters.missed),
        },
        "triples": {
            "bits_in_stock": sum(|status| status.stock.bit_words * 64),
            "bits_used": sum(|status| status.stock.bit_words_used * 64),
            "vectors_in_stock": sum(|status| status.stock.vector_words * 64),
            "vectors_used": sum(|status| status.stock.vector_words_used * 64),
        },
        "export_latency_us": latency(&all(shards, |report| &report.exports)),
        "round_latency_us": latency(&all(shards, |report| &report.rounds)),
        "shards": queues,
        "connections": {
            "refused": hub.counters.refused.load(Ordering::Relaxed),
            "replaced": hub.counters.replaced.load(Ordering::Relaxed),
            "cut": cut(hub, shards),
            "pairs": hub.counters.pairs.load(Ordering::Relaxed),
        },
        "door": door(facts),
        "plain": facts.plain.map(Plain::status),
    })
}

/// Routes of a site that were refused, beyond its quota.
fn refused(shards: &[Report], lane: Lane) -> u64 {
    let all = shards.iter().flat_map(|report| &report.refused);
    all.filter(|(other, _)| *other == lane).map(|(_, refused)| refused).sum()
}

/// Those that are not gone.
fn sites(hub: &Hub) -> usize {
    let roster = &hub.config().common.roster;
    roster.sites().filter(|(lane, _)| !roster.is_closed(*lane)).count()
}

fn shard_status((number, report): (usize, &Report)) -> Value {
    json!({
        "shard": number,
        "computes": report.status.paired,
        "waiting": report.status.waiting,
        "current": report.status.current,
        "handled": report.handled,
        "bit_words": report.status.stock.bit_words,
        "vector_words": report.status.stock.vector_words,
    })
}

fn latency(latencies: &Latencies) -> Value {
    json!({ "p50": latencies.at(500), "p99": latencies.at(990) })
}

fn all(shards: &[Report], of: fn(&Report) -> &Latencies) -> Latencies {
    let mut all = Latencies::default();
    shards.iter().for_each(|report| all.merge(of(report)));
    all
}

fn quantiles(metric: Metric, latencies: &Latencies) -> Reading {
    let quantile = |(name, permille)| latencies.at(permille).map(|us| (name, us));
    metric.by("quantile", [("0.5", 500), ("0.99", 990)].into_iter().filter_map(quantile))
}

fn total(shards: &[Report], of: fn(&Status) -> u64) -> u64 {
    shards.iter().map(|report| of(&report.status)).sum()
}

fn cut(hub: &Hub, shards: &[Report]) -> u64 {
    let by_shards: u64 = shards.iter().map(|report| report.cut).sum();
    by_shards + hub.counters.cut.load(Ordering::Relaxed)
}

fn door(facts: &Facts<'_>) -> Map<String, Value> {
    facts.door.iter().map(|(outcome, count)| ((*outcome).to_owned(), json!(count))).collect()
}

fn metrics(facts: &Facts<'_>, hub: &Hub, shards: &[Report]) -> Vec<Reading> {
    [work_metrics(shards), connection_metrics(facts, hub, shards)].concat()
}

/// What the shards do.
fn work_metrics(shards: &[Report]) -> Vec<Reading> {
    let sum = |of: fn(&Status) -> u64| total(shards, of);
    let triples = |bits: fn(&Status) -> u64, vectors: fn(&Status) -> u64| {
        [("bit", sum(bits) * 64), ("vector", sum(vectors) * 64)]
    };
    vec![
        PAIRED.is(sum(|it| u64::from(it.paired))),
        ROUTES.is(sum(|it| it.current as u64)),
        WAITING.is(sum(|it| it.waiting as u64)),
        EXPORTED.is(sum(|it| it.counters.exported)),
        REPLAYED.is(sum(|it| it.counters.replayed)),
        REFUSED.is(sum(|it| it.counters.refused)),
        SELECTED.is(sum(|it| it.counters.selected)),
        MISSED.is(sum(|it| it.counters.missed)),
        STOCK.by("kind", triples(|it| it.stock.bit_words, |it| it.stock.vector_words)),
        USED.by("kind", triples(|it| it.stock.bit_words_used, |it| it.stock.vector_words_used)),
        quantiles(EXPORT_LATENCY, &all(shards, |report| &report.exports)),
        quantiles(ROUND_LATENCY, &all(shards, |report| &report.rounds)),
    ]
}

/// Who is connected, and who was not let in.
fn connection_metrics(facts: &Facts<'_>, hub: &Hub, shards: &[Report]) -> Vec<Reading> {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut outcomes: Vec<_> = facts.door.iter().collect();
    outcomes.sort_unstable();
    let (plain_up, plain_routes) = facts.plain.map(Plain::totals).unwrap_or_default();
    let dropped = [
        ("hello", load(&hub.counters.refused)),
        ("message", cut(hub, shards)),
        ("replaced", load(&hub.counters.replaced)),
    ];
    vec![
        MEMBERS.is(hub.members().len()),
        DOOR.by("outcome", outcomes.into_iter().map(|(name, count)| (*name, *count))),
        DROPPED.by_reason(dropped),
        PAIRS.is(load(&hub.counters.pairs)),
        PLAIN_SESSIONS.is(plain_up),
        PLAIN_ROUTES.is(plain_routes),
    ]
}

/// The one line a server prints when others may connect.
pub(super) struct Ready {
    pub(super) name: Name,
    pub(super) party: Party,
    pub(super) is_standby: bool,
    pub(super) address: SocketAddr,
    pub(super) admin: Option<Admin>,
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let standby = if self.is_standby { ", standby," } else { "" };
        write!(
            f,
            "exchange ready: party {}{standby} {}@{}",
            self.party as u8, self.name, self.address
        )?;
        match &self.admin {
            Some(admin) => write!(f, " (status: rhumb exchange status --admin {admin})"),
            None => Ok(()),
        }
    }
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": "exchange",
            "party": self.party as u8,
            "is_standby": self.is_standby,
            "name": self.name.to_string(),
            "address": self.address,
            "admin": self.admin,
        })
        .serialize(serializer)
    }
}

/// What `--check` found in order.
pub(super) struct Checked {
    pub(super) name: Name,
    pub(super) party: Party,
    pub(super) sites: usize,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let party = self.party as u8;
        write!(f, "in order: party {party}, {}, {} sites in the roster", self.name, self.sites)
    }
}

impl Serialize for Checked {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = self.name.to_string();
        json!({ "checked": true, "party": self.party as u8, "name": name, "sites": self.sites })
            .serialize(serializer)
    }
}

const PLAIN_SESSIONS: Metric = Metric::gauge(
    "rhumb_exchange_plain_sessions",
    "Clients of the plain route server whose sessions are up.",
);
const PLAIN_ROUTES: Metric = Metric::gauge(
    "rhumb_exchange_plain_routes",
    "Routes that clients of the plain route server announce.",
);
/// Below the number of sites, somebody is missing.
const MEMBERS: Metric =
    Metric::gauge("rhumb_exchange_connected_members", "Sites that are connected.");
/// Zero for longer than a takeover takes: nothing is
/// exchanged. A standby has zero while its primary works.
const PAIRED: Metric =
    Metric::gauge("rhumb_exchange_paired_shards", "Shards that compute with the other party.");
const ROUTES: Metric = Metric::gauge("rhumb_exchange_current_routes", "Routes that are current.");
/// Grows when more is announced than computed.
const WAITING: Metric =
    Metric::gauge("rhumb_exchange_waiting_announcements", "Announcements that wait.");
const EXPORTED: Metric =
    Metric::counter("rhumb_exchange_exported_routes_total", "Routes exported.");
/// Grows by the whole table when a member joins that held nothing.
const REPLAYED: Metric =
    Metric::counter("rhumb_exchange_replayed_routes_total", "Routes replayed.");
/// Grows while a site announces more than the roster lets it: the status and the log name it.
const REFUSED: Metric = Metric::counter(
    "rhumb_exchange_refused_routes_total",
    "Routes refused, beyond their site's quota.",
);
const SELECTED: Metric =
    Metric::counter("rhumb_exchange_selected_rounds_total", "Rounds with results.");
/// A member that is missed often ranks too slowly: it gets routes, not the exchange's choice.
const MISSED: Metric =
    Metric::counter("rhumb_exchange_missed_members_total", "Members that a round went on without.");
/// Low for long: more is computed than triples are made.
const STOCK: Metric = Metric::gauge("rhumb_exchange_stock_triples", "Triples in stock.");
/// Begins anew with each pair, and so with each session of the computation.
const USED: Metric =
    Metric::gauge("rhumb_exchange_used_triples", "Triples used in the pair that is in force.");
const EXPORT_LATENCY: Metric = Metric::gauge(
    "rhumb_exchange_export_latency_us",
    "From an announcement to its shares, in microseconds, since the start.",
);
/// With the members' own time for ranking: one that is slow shows here.
const ROUND_LATENCY: Metric = Metric::gauge(
    "rhumb_exchange_round_latency_us",
    "From a round's question to its result, in microseconds, since the start.",
);
/// `stranger` is a key that is not in the roster; `other_protocol` a version;
/// `late` and `crowded` an attack, or a broken host.
const DOOR: Metric =
    Metric::counter("rhumb_exchange_door_connections_total", "Connections, by outcome.");
/// `hello` is another roster or other parameters: the log names them.
const DROPPED: Metric = Metric::counter(
    "rhumb_exchange_dropped_connections_total",
    "Connections ended by this server, by reason.",
);
/// More than one means that something broke: the log says what.
const PAIRS: Metric =
    Metric::counter("rhumb_exchange_begun_pairs_total", "Pairs with the other party that began.");

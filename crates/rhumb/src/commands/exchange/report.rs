//! What a server of the exchange tells: its ready line, status and metrics.
//!
//! Nothing in it tells a route, a policy or a ranking: those are
//! shares, and only shares of others could open them.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rhumb_exchange::{Lane, Latencies, Status};
use rhumb_mpc::Party;
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::hub::Hub;
use super::members::site_of;
use super::plain::Plain;
use super::shard::Report;
use crate::admin::Admin;
use crate::daemon::{Kind, Metric, Sample, Snapshot};

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

fn quantiles(latencies: &Latencies) -> Vec<Sample> {
    let quantile =
        |(name, permille)| latencies.at(permille).map(|us| Sample::labelled("quantile", name, us));
    [("0.5", 500), ("0.99", 990)].into_iter().filter_map(quantile).collect()
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

fn metrics(facts: &Facts<'_>, hub: &Hub, shards: &[Report]) -> Vec<Metric> {
    [work_metrics(shards), connection_metrics(facts, hub, shards)].concat()
}

fn metric(name: &'static str, help: &'static str, kind: Kind, samples: Vec<Sample>) -> Metric {
    Metric { name, help, kind, samples }
}

/// What the shards do.
fn work_metrics(shards: &[Report]) -> Vec<Metric> {
    let sum = |of: fn(&Status) -> u64| vec![Sample::plain(total(shards, of))];
    let triples = |bits: fn(&Status) -> u64, vectors: fn(&Status) -> u64| {
        let kind = |kind, of| Sample::labelled("kind", kind, total(shards, of) * 64);
        vec![kind("bit", bits), kind("vector", vectors)]
    };
    vec![
        metric(
            PAIRED,
            "Shards that compute with the other party.",
            Kind::Gauge,
            sum(|it| u64::from(it.paired)),
        ),
        metric(ROUTES, "Routes that are current.", Kind::Gauge, sum(|it| it.current as u64)),
        metric(WAITING, "Announcements that wait.", Kind::Gauge, sum(|it| it.waiting as u64)),
        metric(EXPORTED, "Routes exported.", Kind::Counter, sum(|it| it.counters.exported)),
        metric(REPLAYED, "Routes replayed.", Kind::Counter, sum(|it| it.counters.replayed)),
        metric(
            REFUSED,
            "Routes refused, beyond their site's quota.",
            Kind::Counter,
            sum(|it| it.counters.refused),
        ),
        metric(SELECTED, "Rounds with results.", Kind::Counter, sum(|it| it.counters.selected)),
        metric(
            MISSED,
            "Members that a round went on without.",
            Kind::Counter,
            sum(|it| it.counters.missed),
        ),
        metric(
            STOCK,
            "Triples in stock.",
            Kind::Gauge,
            triples(|it| it.stock.bit_words, |it| it.stock.vector_words),
        ),
        metric(
            USED,
            "Triples used in the pair that is in force.",
            Kind::Gauge,
            triples(|it| it.stock.bit_words_used, |it| it.stock.vector_words_used),
        ),
        metric(
            EXPORT_LATENCY,
            "From an announcement to its shares, in microseconds, since the start.",
            Kind::Gauge,
            quantiles(&all(shards, |report| &report.exports)),
        ),
        metric(
            ROUND_LATENCY,
            "From a round's question to its result, in microseconds, since the start.",
            Kind::Gauge,
            quantiles(&all(shards, |report| &report.rounds)),
        ),
    ]
}

/// Who is connected, and who was not let in.
fn connection_metrics(facts: &Facts<'_>, hub: &Hub, shards: &[Report]) -> Vec<Metric> {
    let plain = |value| vec![Sample::plain(value)];
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut outcomes: Vec<_> = facts.door.iter().collect();
    outcomes.sort_unstable();
    let outcomes = outcomes.into_iter();
    let (plain_up, plain_routes) = facts.plain.map(Plain::totals).unwrap_or_default();
    vec![
        metric(
            MEMBERS,
            "Sites that are connected.",
            Kind::Gauge,
            plain(hub.members().len() as u64),
        ),
        metric(
            DOOR,
            "Connections, by outcome.",
            Kind::Counter,
            outcomes.map(|(name, count)| Sample::labelled("outcome", *name, *count)).collect(),
        ),
        metric(
            DROPPED,
            "Connections ended by this server, by reason.",
            Kind::Counter,
            vec![
                Sample::labelled("reason", "hello", load(&hub.counters.refused)),
                Sample::labelled("reason", "message", cut(hub, shards)),
                Sample::labelled("reason", "replaced", load(&hub.counters.replaced)),
            ],
        ),
        metric(
            PAIRS,
            "Pairs with the other party that began.",
            Kind::Counter,
            plain(load(&hub.counters.pairs)),
        ),
        metric(
            PLAIN_SESSIONS,
            "Clients of the plain route server whose sessions are up.",
            Kind::Gauge,
            plain(plain_up),
        ),
        metric(
            PLAIN_ROUTES,
            "Routes that clients of the plain route server announce.",
            Kind::Gauge,
            plain(plain_routes),
        ),
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

const PLAIN_SESSIONS: &str = "rhumb_exchange_plain_sessions";
const PLAIN_ROUTES: &str = "rhumb_exchange_plain_routes";
/// Below the number of sites, somebody is missing.
const MEMBERS: &str = "rhumb_exchange_connected_members";
/// Zero for longer than a takeover takes: nothing is
/// exchanged. A standby has zero while its primary works.
const PAIRED: &str = "rhumb_exchange_paired_shards";
const ROUTES: &str = "rhumb_exchange_current_routes";
/// Grows when more is announced than computed.
const WAITING: &str = "rhumb_exchange_waiting_announcements";
const EXPORTED: &str = "rhumb_exchange_exported_routes_total";
/// Grows by the whole table when a member joins that held nothing.
const REPLAYED: &str = "rhumb_exchange_replayed_routes_total";
/// Grows while a site announces more than the roster lets it: the status and the log name it.
const REFUSED: &str = "rhumb_exchange_refused_routes_total";
const SELECTED: &str = "rhumb_exchange_selected_rounds_total";
/// A member that is missed often ranks too slowly: it gets routes, not the exchange's choice.
const MISSED: &str = "rhumb_exchange_missed_members_total";
/// Low for long: more is computed than triples are made.
const STOCK: &str = "rhumb_exchange_stock_triples";
/// Begins anew with each pair, and so with each session of the computation.
const USED: &str = "rhumb_exchange_used_triples";
const EXPORT_LATENCY: &str = "rhumb_exchange_export_latency_us";
/// With the members' own time for ranking: one that is slow shows here.
const ROUND_LATENCY: &str = "rhumb_exchange_round_latency_us";
/// `stranger` is a key that is not in the roster; `other_protocol` a version;
/// `late` and `crowded` an attack, or a broken host.
const DOOR: &str = "rhumb_exchange_door_connections_total";
/// `hello` is another roster or other parameters: the log names them.
const DROPPED: &str = "rhumb_exchange_dropped_connections_total";
/// More than one means that something broke: the log says what.
const PAIRS: &str = "rhumb_exchange_begun_pairs_total";

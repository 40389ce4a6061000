//! What a RIB tells about itself: status and metrics.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rhumb_daemon::daemon::{Metric, Reading, Snapshot, by_reason};
use rhumb_link::Source;
use rhumb_rib::store::Store;
use rhumb_rib::{
    Conduct, Fault, Fill, Held, LogState, Neighbour, Neighbours, RefusedAsker, Server, Way,
};
use rhumb_trust::Now;
use rhumb_wire::Name;
use serde_json::{Value, json};

use super::fullness::percent;

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
        .map(|(session, peer)| {
            let round_trip = server.endpoint().round_trip(session);
            json!({
                "peer": peer.name,
                "role": peer.metadata.role,
                "address": peer.at,
                "age_s": now.instant.saturating_duration_since(peer.established_at).as_secs(),
                "transport": peer.transport().as_str(),
                "largest_datagram": peer.max_datagram_len,
                "round_trip_ms": round_trip.map(|it| (it.as_secs_f64() * 1e6).round() / 1e3),
                "sent_datagrams": server.endpoint().sealed(session),
            })
        })
        .collect();
    let parents: Vec<Value> = server
        .parents(now.instant)
        .zip(server.parents_conduct())
        .map(|((address, name, silent), conduct)| {
            let suspicion = conduct.suspicion(now.instant);
            json!({
                "address": address,
                "name": name,
                "silent_s": silent.map(|it| it.as_secs()),
                "suspected_of": suspicion.map(|it| it.fault.as_str()),
                "last_fault_s": suspicion.map(|it| it.ago.as_secs()),
                "suspected_for_s": suspicion.map(|it| it.left.as_secs()),
                "faults": by_reason(faults(conduct)),
                "behind": conduct.behind(),
                "unanswered": conduct.unanswered(),
            })
        })
        .collect();
    json!({
        "role": "rib",
        "name": server.name(),
        "address": address,
        "uptime_s": uptime.as_secs(),
        "stored_names": stored_names,
        "removals": server.removals(),
        "log": server.log_state().map(log),
        "store": fill.as_ref().map(store),
        "sessions": sessions,
        "domain": server.config().domain,
        "parents": parents,
        "neighbours": neighbours(server),
        "reached": reached(server, now),
        "refused": server.refused().map(|it| refused(&it, now)).collect::<Vec<_>>(),
        "counters": counters,
        "subscriptions": server.subscriptions(),
        "tables": {
            "names": {"used": stored_names, "bound": server.config().max_names},
            "subscriptions":
                {"used": server.subscriptions(), "bound": server.config().max_subscriptions},
            "sessions": {"used": sessions.len(), "bound": server.endpoint().limits().sessions},
        },
        "refused_requests": by_reason(refusals(server)),
        "dropped_requests": by_reason(counters.drops()),
        "dropped_datagrams": by_reason(server.endpoint().drops().iter()),
    })
}

/// What it signs heads of.
fn log(state: LogState) -> Value {
    json!({ "epoch": state.epoch, "names": state.names, "memory_bytes": state.bytes })
}

/// The domains beside, what each is told, and how many it offers.
fn neighbours<S: Store>(server: &Server<S>) -> Vec<Value> {
    let table = server.neighbours();
    let all = table.into_iter().flat_map(|table| table.rules().map(move |it| (table, it)));
    let one = |(table, it): (&Neighbours, &Neighbour)| {
        json!({
            "domain": it.domain,
            "relation": it.relation.as_str(),
            "preference": it.preference,
            "cost": it.cost,
            "tell": it.tell.as_str(),
            "through": through(it),
            "may_carry": it.carriage.as_ref().map(|word| word.not_after_s),
            "there": server.is_there(it.domain),
            "offers": table.offered_by(it.domain),
        })
    };
    all.map(one).collect()
}

/// How a neighbour is told, and heard.
fn through(neighbour: &Neighbour) -> &'static str {
    if neighbour.ribs.is_empty() { "exchange" } else { "ribs" }
}

/// The domains that neighbours lead to, and by which ways, the first one first; nothing where there
/// are no neighbours.
fn reached<S: Store>(server: &Server<S>, now: Now) -> Option<Vec<Value>> {
    let table = server.neighbours()?;
    let way = |way: &Way| {
        let by = table.rules().find(|it| it.domain == way.neighbour);
        json!({
            "by": way.neighbour,
            "through": by.map(through),
            "relation": way.relation.as_str(),
            "preference": way.preference,
            "cost": way.cost,
            "stale": way.is_stale,
            "path": way.path,
        })
    };
    let one = |domain: Name| {
        let ways: Vec<Value> = table.ways(domain, now).iter().map(way).collect();
        json!({ "domain": domain, "ways": ways })
    };
    Some(table.domains().into_iter().map(one).collect())
}

/// The same as metrics, and what came of looking for names there.
fn outside<S: Store>(server: &Server<S>) -> Vec<Reading> {
    let Some(table) = server.neighbours() else { return Vec::new() };
    let counters = server.counters();
    let (there, known) = server.acquaintances();
    vec![
        REACHED.is(table.domains().len()),
        NEIGHBOURS.is(table.rules().count()),
        NOT_TAKEN.by_reason(table.not_taken()),
        SOUGHT.is(counters.sought),
        DOMAINS_TOLD.is(counters.domains_told),
        OUTSIDE_RIBS.by("state", [("there", there as u64), ("away", (known - there) as u64)]),
    ]
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

/// Whom the rules refuse, or what their domain leaves them: the last name from each source.
fn refused(refused: &RefusedAsker, now: Now) -> Value {
    json!({
        "name": refused.name,
        "wanted": "publish or ask",
        "why": refused.why.as_str(),
        "source": source_text(refused.source),
        "age_s": now.unix_s().saturating_sub(refused.last_s),
        "times": refused.count,
    })
}

fn metrics<S: Store>(server: &Server<S>, stored_names: Option<u64>) -> Vec<Reading> {
    let counters = server.counters();
    let lookups = [
        ("found", counters.lookups_found - counters.lookups_found_beyond),
        ("found_beyond", counters.lookups_found_beyond),
        ("absent", counters.lookups_absent),
    ];
    let passed = [("sent", counters.passed_up), ("refused", counters.passed_up_refused)];
    let changes =
        [("acknowledged", counters.changes_acknowledged), ("given_up", counters.changes_given_up)];
    let bounds = [
        ("names", server.config().max_names),
        ("subscriptions", server.config().max_subscriptions as u64),
        ("sessions", server.endpoint().limits().sessions as u64),
    ];
    let mut metrics = vec![
        LOOKUPS.by("answer", lookups),
        PUBLISHES.is(counters.publishes_stored),
        LISTS.by("fate", [("stored", counters.lists_stored), ("told", counters.lists_told)]),
        CLIMBS.is(counters.climbs),
        PASSED_UP.by("fate", passed),
        PARENT_FAULTS.by("fault", parent_faults(server)),
        REMOVALS.is(server.removals()),
        COMMITS.is(counters.commits),
        STORE_FAILURES.is(counters.store_failures),
        HEADS.is(counters.heads_made),
        PROOFS.is(counters.proofs_shown),
        CHANGES.by("fate", changes),
        SUBSCRIPTIONS.is(server.subscriptions()),
        ENTRIES
            .by("from", [("memory", counters.entries_at_hand), ("store", counters.entries_read)]),
        LOOK_UP_WAITS.of_waits(&counters.look_ups_waited.below_ms, counters.look_ups_waited.sum_ms),
        ORDER_WAITS.of_waits(&counters.orders_waited.below_ms, counters.orders_waited.sum_ms),
        REFUSED.by_reason(refusals(server)),
        DROPPED_REQUESTS.by_reason(counters.drops()),
        DROPPED_DATAGRAMS.by_reason(server.endpoint().drops().iter()),
        SESSIONS.is(server.endpoint().sessions().count()),
        BOUNDS.by("table", bounds),
    ];
    metrics.extend(outside(server));
    metrics.extend(stored_names.map(|names| NAMES.is(names)));
    metrics
}

/// How often each kind of fault was proven against a RIB of the domain around.
fn faults(conduct: &Conduct) -> [(&'static str, u64); Fault::ALL.len()] {
    Fault::ALL.map(|fault| (fault.as_str(), conduct.times(fault)))
}

/// The same, of all of them.
fn parent_faults<S: Store>(server: &Server<S>) -> [(&'static str, u64); Fault::ALL.len()] {
    let all = server.parents_conduct();
    Fault::ALL.map(|fault| (fault.as_str(), all.iter().map(|it| it.times(fault)).sum()))
}

fn refusals<S: Store>(server: &Server<S>) -> impl Iterator<Item = (&'static str, u64)> {
    server.counters().refusals().map(|(why, count)| (why.as_str(), count))
}

/// Who fills the store, and how far.
fn store(fill: &Fill) -> Value {
    let Fill { admitted, strangers, bound, strangers_bound } = *fill;
    let all =
        Held { names: admitted.names + strangers.names, bytes: admitted.bytes + strangers.bytes };
    json!({
        "bound": bound,
        "full_percent": percent(all, bound),
        "admitted": admitted,
        "strangers": {
            "names": strangers.names,
            "bytes": strangers.bytes,
            "bound": strangers_bound,
            "full_percent": percent(strangers, strangers_bound),
        },
    })
}

/// The same as metrics.
fn shares(fill: &Fill) -> [Reading; 3] {
    let shares = [("admitted", fill.admitted), ("strangers", fill.strangers)];
    let bounds = [("all", fill.bound.bytes), ("strangers", fill.strangers_bound.bytes)];
    [
        SHARE_NAMES.by("share", shares.map(|(share, held)| (share, held.names))),
        SHARE_BYTES.by("share", shares.map(|(share, held)| (share, held.bytes))),
        SHARE_BOUNDS.by("share", bounds),
    ]
}

/// What [`NAMES`], [`SUBSCRIPTIONS`] and [`SESSIONS`] are bounded by.
const BOUNDS: Metric =
    Metric::gauge("rhumb_rib_table_bound_entries", "The most entries of each table.");
/// Load; many `absent` are names that were mistyped, have left, or are probed.
const LOOKUPS: Metric =
    Metric::counter("rhumb_rib_answered_lookups_total", "Look-ups answered, by answer.");
/// Renewals of leases, mostly: names divided by half a lease is the rate to expect.
const PUBLISHES: Metric = Metric::counter(
    "rhumb_rib_stored_publishes_total",
    "Orders to publish that were acknowledged.",
);
/// `told` grows by one each five seconds for each program that goes by a published name. Many
/// `stored`: an owner publishes more often than once in half a month.
const LISTS: Metric = Metric::counter(
    "rhumb_rib_published_lists_total",
    "Lists of names that owners publish: stored as the newest, and told to who asked.",
);
/// The same at all RIBs of a domain; one that has fewer was not told, and withholds them.
const REMOVALS: Metric =
    Metric::gauge("rhumb_rib_known_removals", "Removals of members that count here.");
/// Compare with look-ups that were `found_beyond`: how much is remembered.
const CLIMBS: Metric = Metric::counter(
    "rhumb_rib_asked_beyond_total",
    "Questions asked of the RIBs of the domain around.",
);
/// None where there should be some: no neighbour is there, or their offers are not taken.
const REACHED: Metric =
    Metric::gauge("rhumb_rib_reached_domains", "Domains that neighbours lead to.");
/// Those of the settings, there or not.
const NEIGHBOURS: Metric = Metric::gauge("rhumb_rib_known_neighbours", "Neighbour domains.");
/// `unverified` and `loop` are for the neighbour's operator; `rule` and `full` for this one's.
const NOT_TAKEN: Metric = Metric::counter(
    "rhumb_rib_refused_offers_total",
    "Offers of neighbours that were not taken, by why.",
);
/// Each is a question to the RIBs of all domains that neighbours lead to.
const SOUGHT: Metric = Metric::counter(
    "rhumb_rib_sought_names_total",
    "Look-ups that went to domains that neighbours lead to.",
);
/// Neighbours ask once a second.
const DOMAINS_TOLD: Metric = Metric::counter(
    "rhumb_rib_told_domains_total",
    "Answers to neighbours about which domains are offered to them.",
);
/// Names of a domain whose RIBs are all `away` are not found.
const OUTSIDE_RIBS: Metric =
    Metric::gauge("rhumb_rib_outside_ribs", "RIBs of other domains, by whether they are there.");
/// `refused` needs a look at the rules of the RIBs of the domain around.
const PASSED_UP: Metric = Metric::counter(
    "rhumb_rib_passed_up_statements_total",
    "Statements handed on to the RIBs of the domain around, and those that were refused there.",
);
/// Zero while the RIBs of the domain around are honest, however slow or far behind they are.
const PARENT_FAULTS: Metric = Metric::counter(
    "rhumb_rib_parent_faults_total",
    "Faults that were proven against RIBs of the domain around, by kind.",
);
/// One in a second at most; none while nothing changes, and where no log is kept.
const HEADS: Metric = Metric::counter("rhumb_rib_log_heads_total", "Heads of the log made.");
/// One in 64 look-ups of routers that leave `check_rib_answers` as it is.
const PROOFS: Metric =
    Metric::counter("rhumb_rib_log_proofs_total", "Proofs shown of what the log says.");
/// Divide [`PUBLISHES`] by this: orders that share a commit.
const COMMITS: Metric = Metric::counter("rhumb_rib_commits_total", "Transactions written.");
/// `given_up` grows when routers are gone without a
/// word, or the network loses most of what is sent.
const CHANGES: Metric =
    Metric::counter("rhumb_rib_told_changes_total", "Changes told to subscribers, by fate.");
/// Names that routers use now, times the routers that use them.
const SUBSCRIPTIONS: Metric = Metric::gauge("rhumb_rib_subscriptions", "Subscriptions to changes.");
/// Many from the `store` and few from `memory`: more names are in use than `memory_mib` has room
/// for.
const ENTRIES: Metric = Metric::counter(
    "rhumb_rib_used_entries_total",
    "Entries that answers needed, by where they were.",
);
/// Beyond the first step are those that waited for the domain around, or for a cluster.
const LOOK_UP_WAITS: Metric = Metric::histogram(
    "rhumb_rib_look_up_wait_seconds",
    "How long look-ups were waited for that were answered.",
);
/// A commit's time, and that of the signatures before it.
const ORDER_WAITS: Metric = Metric::histogram(
    "rhumb_rib_order_wait_seconds",
    "How long orders to publish were waited for that were stored.",
);
/// Anything but zero needs a look at disk and log.
const STORE_FAILURES: Metric =
    Metric::counter("rhumb_rib_store_failures_total", "Failures of the store.");
/// `bad_signature` is an attack or a bug; `superseded` two
/// holders of one key, or a clock that went back.
const REFUSED: Metric =
    Metric::counter("rhumb_rib_refused_requests_total", "Requests refused, by reason.");
/// The reasons are those of `rhumb_rib::DropReason`.
const DROPPED_REQUESTS: Metric = Metric::counter(
    "rhumb_rib_dropped_requests_total",
    "What came in and got no answer, by reason.",
);
/// The reasons are those of `rhumb_link::DropReason`.
const DROPPED_DATAGRAMS: Metric = Metric::counter(
    "rhumb_link_dropped_datagrams_total",
    "Datagrams dropped by the links, by reason.",
);
/// Routers and tools that are connected.
const SESSIONS: Metric = Metric::gauge("rhumb_link_sessions", "Secure sessions.");
/// Many of strangers: routers that no rule names, or an attack.
const SHARE_NAMES: Metric =
    Metric::gauge("rhumb_rib_share_names", "Names with an entry, by whose share they count on.");
/// Compare with [`SHARE_BOUNDS`].
const SHARE_BYTES: Metric =
    Metric::gauge("rhumb_rib_share_bytes", "About the bytes on disk that entries take.");
/// Set by `disk_mib` and `strangers_percent`.
const SHARE_BOUNDS: Metric =
    Metric::gauge("rhumb_rib_share_bound_bytes", "About the most bytes on disk that entries take.");
/// Compare with the store's bound.
const NAMES: Metric = Metric::gauge("rhumb_rib_stored_names", "Names with an entry.");

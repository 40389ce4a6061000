//! What a router tells about itself: log lines for events, status and metrics for the rest.
//!
//! Names of others are not logged above `debug`: who talks where is nobody's business but theirs.

use std::net::SocketAddr;
use std::time::Duration;

use rhumb_daemon::daemon::{Metric, Reading, Snapshot, by_reason};
use rhumb_link::LinkError;
use rhumb_node::discovery::BeaconCounters;
use rhumb_switch::{Event, Fault, RibStatus, Status};
use serde_json::json;

/// One line for an event.
pub(super) fn log(event: &Event) {
    match event {
        Event::RibReady { name } => {
            tracing::info!("RIB session up");
            tracing::debug!(%name, "RIB session up");
        }
        Event::RibLost { address, error } => tracing::warn!(
            %address,
            cause = cause(error.as_ref()),
            "RIB lost; trying again"
        ),
        Event::RibSilent { address } => {
            tracing::warn!(%address, "the RIB answers nothing; asking others, and it again");
        }
        Event::RibFault { address, fault } => tracing::warn!(
            %address,
            fault = fault.as_str(),
            "a RIB is not to be trusted: {fault}. It is asked last for a while; ask whoever runs it, \
             and take it out of `rib` if nobody can say why"
        ),
        Event::UpstreamReady { name } => {
            tracing::info!("upstream session up");
            tracing::debug!(%name, "upstream session up");
        }
        Event::UpstreamUsed { name } => {
            tracing::info!("reached through another upstream");
            tracing::debug!(%name, "reached through this upstream");
        }
        Event::UpstreamLost { address, error } => tracing::warn!(
            %address,
            cause = cause(error.as_ref()),
            "upstream lost; trying again"
        ),
        Event::Joined { name } => tracing::debug!(%name, "joined"),
        Event::Left { name } => tracing::debug!(%name, "left"),
        Event::Published { name } => tracing::debug!(%name, "published"),
        Event::PublishRefused { name, refusal } => {
            tracing::debug!(%name, %refusal, "publishing refused");
        }
        Event::TwoProcesses { name } => {
            tracing::warn!(
                "two processes with one key have joined here; the later claim counts, and the other one is told to end"
            );
            tracing::debug!(%name, "two processes have this key");
        }
        Event::CapabilityRefused { peer, fault } => {
            tracing::warn!(
                "a peer demands capabilities: {fault}; see [[border.stamp]] and `rhumb status`"
            );
            tracing::debug!(%peer, %fault, "a peer demands capabilities");
        }
        other => tracing::debug!(event = ?other, "event"),
    }
}

/// Why a session is not there, without the names that the error holds.
fn cause(error: Option<&LinkError>) -> String {
    match error {
        None => "the session ended".to_owned(),
        Some(LinkError::UnexpectedName { .. }) => "another name answers there".to_owned(),
        Some(error) => error.to_string(),
    }
}

/// Status and metrics of this moment. `found` is there when the router can be found.
pub(super) fn snapshot(
    status: &Status,
    address: SocketAddr,
    uptime: Duration,
    found: Option<&BeaconCounters>,
) -> Snapshot {
    let mut snapshot = Snapshot { status: json!(status), metrics: metrics(status) };
    snapshot.status["role"] = json!("router");
    snapshot.status["address"] = json!(address);
    snapshot.status["uptime_s"] = json!(uptime.as_secs());
    if let Some(found) = found {
        snapshot.status["discovery"] = json!({
            "answered_queries": found.answered,
            "dropped_queries": by_reason(found.drops()),
        });
        snapshot.metrics.push(ANSWERED_QUERIES.is(found.answered));
        snapshot.metrics.push(DROPPED_QUERIES.by_reason(found.drops()));
    }
    snapshot
}

fn metrics(status: &Status) -> Vec<Reading> {
    let counters = &status.counters;
    let chains = [("accepted", counters.chains_accepted), ("refused", counters.chains_refused)];
    let tables = || status.tables.iter();
    let workers = || WORKER_LABELS.into_iter().zip(&status.workers);
    let mut metrics = vec![
        FORWARDED_PDUS.is(counters.forwarded_pdus),
        FORWARDED_BYTES.is(counters.forwarded_bytes),
        BUNDLED_PDUS.is(counters.bundled_pdus),
        BUNDLES.is(counters.bundles),
        NACKS.is(counters.nacks),
        RIB_REQUESTS.is(counters.rib_requests),
        RIB_ANSWERS_REFUSED.is(counters.rib_answers_refused),
        RIB_CHANGES.is(counters.rib_changes),
        RIB_FAULTS.by("fault", rib_faults(status)),
        RIBS_SUSPECTED.is(status.ribs.iter().filter(|rib| rib.suspected_of.is_some()).count()),
        RIB_PROOFS.by("outcome", rib_proofs(status)),
        REMOVALS.is(status.removals),
        MEMBERS_REMOVED.is(counters.members_removed),
        GROUP_MEMBERS.is(status.group_members),
        COPIES.is(counters.copies),
        CHAINS.by("verdict", chains),
        DROPPED_PDUS.by_reason(status.dropped_pdus.iter().copied()),
        DROPPED_DATAGRAMS.by_reason(status.dropped_datagrams.iter().copied()),
        SESSIONS_MOVED.is(counters.sessions_moved),
        PATHS_NARROWED.is(counters.paths_narrowed),
        SESSIONS.is(status.sessions.len()),
        ATTACHED.is(status.attached.len()),
        FLOWS.is(status.flows),
        ROUTES.is(status.routes),
        TABLE_ENTRIES.by("table", tables().map(|table| (table.name, table.used))),
        TABLE_BOUNDS.by("table", tables().map(|table| (table.name, table.bound))),
        WORKER_FORWARDED_PDUS.by("worker", workers().map(|(label, it)| (label, it.forwarded_pdus))),
        WORKER_HANDED_OVER.by("worker", workers().map(|(label, it)| (label, it.handed_over))),
    ];
    let border = status.domain.as_ref().and_then(|domain| domain.border_expires_in_s);
    metrics.extend(border.map(|left| BORDER.is(left)));
    metrics.extend(status.own_statement.map(|own| OWN_STATEMENT.is(own.expires_in_s)));
    metrics
}

/// Of all RIBs together: which one it was, `rhumb status` shows.
fn rib_faults(status: &Status) -> [(&'static str, u64); Fault::ALL.len()] {
    let times = |fault: Fault| status.ribs.iter().map(|rib| rib.faults[fault as usize].1).sum();
    Fault::ALL.map(|fault| (fault.as_str(), times(fault)))
}

/// Of all RIBs together, too.
fn rib_proofs(status: &Status) -> [(&'static str, u64); 2] {
    let sum = |of: fn(&RibStatus) -> u64| status.ribs.iter().map(of).sum();
    [("proven", sum(|rib| rib.proven)), ("unproven", sum(|rib| rib.unproven))]
}

/// Load by packets; its rate is what a router is sized by.
const FORWARDED_PDUS: Metric =
    Metric::counter("rhumb_switch_forwarded_pdus_total", "PDUs forwarded.");
/// Should grow alike; a worker far ahead of the others has a neighbour that sends on few lanes.
const WORKER_FORWARDED_PDUS: Metric =
    Metric::counter("rhumb_switch_worker_forwarded_pdus_total", "PDUs forwarded, by worker.");
/// Grows with new flows and control traffic. Where it grows as fast as [`WORKER_FORWARDED_PDUS`],
/// peers send names in place of labels, or datagrams are not steered.
const WORKER_HANDED_OVER: Metric = Metric::counter(
    "rhumb_switch_worker_handed_over_datagrams_total",
    "Datagrams handed to another worker.",
);
/// As many as there can be workers.
const WORKER_LABELS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
/// Load by bytes.
const FORWARDED_BYTES: Metric =
    Metric::counter("rhumb_switch_forwarded_bytes_total", "Bytes forwarded.");
/// Of all PDUs those that were small, and had company.
const BUNDLED_PDUS: Metric = Metric::counter(
    "rhumb_switch_bundled_pdus_total",
    "PDUs forwarded in one datagram with others.",
);
/// [`BUNDLED_PDUS`] by this is how many went together.
const BUNDLES: Metric =
    Metric::counter("rhumb_switch_bundles_total", "Datagrams with several PDUs.");
/// Grows with new flows; a steady high rate is a misconfigured sender, a lost route or an attack.
const NACKS: Metric = Metric::counter("rhumb_switch_sent_nacks_total", "NACKs made here.");
/// Grows with names asked for the first time; compare with
/// [`FORWARDED_PDUS`] for the hit rate of the caches.
const RIB_REQUESTS: Metric =
    Metric::counter("rhumb_switch_sent_rib_requests_total", "Requests sent to RIBs.");
/// Zero while RIBs are honest and of one mind; a RIB that
/// restored a back-up, or was taken over, shows here.
const RIB_ANSWERS_REFUSED: Metric = Metric::counter(
    "rhumb_switch_refused_rib_answers_total",
    "Answers of RIBs that are not believed.",
);
/// Zero while RIBs are honest, however slow or far behind they are.
const RIB_FAULTS: Metric = Metric::counter(
    "rhumb_switch_rib_faults_total",
    "Faults that were proven against RIBs, by kind.",
);
/// Unproven ones are few: a RIB that never proves anything hides something, or is far too busy.
const RIB_PROOFS: Metric = Metric::counter(
    "rhumb_switch_rib_proofs_total",
    "Answers that RIBs' logs were asked for, by outcome.",
);
/// One or more: look at `ribs` in `rhumb status`.
const RIBS_SUSPECTED: Metric =
    Metric::gauge("rhumb_switch_suspected_ribs", "RIBs that are asked last for what they did.");
/// Names that moved, left or came, of those in use here.
const RIB_CHANGES: Metric =
    Metric::counter("rhumb_switch_taken_changes_total", "Changes that RIBs told of.");
/// The same at all routers of a domain, a second after it removed somebody.
const REMOVALS: Metric =
    Metric::gauge("rhumb_switch_known_removals", "Removals of members that count here.");
/// Grows when a domain removes somebody who is here.
const MEMBERS_REMOVED: Metric = Metric::counter(
    "rhumb_switch_removed_members_total",
    "Sessions that ended because their peer's membership was taken back.",
);
const GROUP_MEMBERS: Metric = Metric::gauge(
    "rhumb_switch_group_members",
    "Members of groups that are known here, by the sessions that brought them.",
);
/// Compare with [`FORWARDED_PDUS`]: how much of what is sent goes to groups.
const COPIES: Metric = Metric::counter(
    "rhumb_switch_sent_copies_total",
    "Copies of PDUs to groups, but for the first of each.",
);
/// `refused` is zero while everybody is honest and clocks agree.
const CHAINS: Metric = Metric::counter(
    "rhumb_switch_verified_chains_total",
    "Certificate chains verified, by verdict.",
);
/// The reasons are those of `rhumb_switch::DropReason`.
const DROPPED_PDUS: Metric =
    Metric::counter("rhumb_switch_dropped_pdus_total", "PDUs dropped by the switch, by reason.");
/// The reasons are those of `rhumb_link::DropReason`; `replayed`
/// and `bad_seal` are attacks or a broken network.
const DROPPED_DATAGRAMS: Metric = Metric::counter(
    "rhumb_link_dropped_datagrams_total",
    "Datagrams dropped by the links, by reason.",
);
/// Grows when nodes nearby look for a router.
const ANSWERED_QUERIES: Metric =
    Metric::counter("rhumb_io_answered_queries_total", "Discovery queries answered.");
/// `off_link`: somebody from elsewhere asks; `rate_limited`: somebody nearby asks far too often.
const DROPPED_QUERIES: Metric =
    Metric::counter("rhumb_io_dropped_queries_total", "Discovery datagrams dropped, by reason.");
/// Grows as nodes change networks; a node for which it grows all the time has two ways out, or
/// somebody passes its datagrams on.
const SESSIONS_MOVED: Metric = Metric::counter(
    "rhumb_link_moved_sessions_total",
    "Sessions that followed their peer to another address.",
);
/// Many: a path that changes, or that loses large datagrams now and then. Which one `status` shows,
/// by the largest datagram of each session.
const PATHS_NARROWED: Metric = Metric::counter(
    "rhumb_link_narrowed_paths_total",
    "Times that a session's largest datagram became smaller.",
);
/// Neighbours: nodes, routers and RIBs.
const SESSIONS: Metric = Metric::gauge("rhumb_link_sessions", "Secure sessions.");
/// Names that this router is responsible for.
const ATTACHED: Metric = Metric::gauge("rhumb_switch_attached_names", "Names attached here.");
/// Approaching the table's bound, old flows make room for new ones.
const FLOWS: Metric = Metric::gauge("rhumb_switch_flows", "Entries in the flow table.");
/// Names whose way is known from a RIB.
const ROUTES: Metric = Metric::gauge("rhumb_switch_cached_routes", "Routes cached.");
/// Divide by [`TABLE_BOUNDS`]; a full table forgets what it needs again soon.
const TABLE_ENTRIES: Metric = Metric::gauge("rhumb_switch_table_entries", "Entries of each table.");
/// What each table is bounded by.
const TABLE_BOUNDS: Metric =
    Metric::gauge("rhumb_switch_table_bound_entries", "The most entries of each table.");
/// At the border of a trust domain. Have the domain make another border file before it is 0.
const BORDER: Metric = Metric::gauge(
    "rhumb_switch_border_left_seconds",
    "Until the domain's word for this border router ends.",
);
/// Never below half a lease while RIBs can be reached and clocks go right.
const OWN_STATEMENT: Metric =
    Metric::gauge("rhumb_switch_own_statement_left_seconds", "Until our own statement ends.");

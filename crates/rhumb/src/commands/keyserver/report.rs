//! What a key server tells about itself: status and metrics.

use rhumb_daemon::clock;
use rhumb_daemon::daemon::{Metric, Reading, Snapshot, by_reason};
use rhumb_keyserver::server::KeyServer;
use serde_json::{Value, json};

use super::Shared;

/// Status and metrics of this moment.
pub(super) fn snapshot(shared: &Shared) -> Snapshot {
    let server = shared.server.borrow();
    Snapshot { status: status(shared, &server), metrics: metrics(&server) }
}

fn status(shared: &Shared, server: &KeyServer) -> Value {
    let now_ms = clock::now().unix_ms;
    let counters = server.counters();
    let followers: Vec<Value> = server
        .followers()
        .iter()
        .map(|follower| {
            json!({
                "waypoint": follower.address,
                "serial": follower.serial,
                "seen_s": follower.seen_ms.map(|seen_ms| now_ms.saturating_sub(seen_ms) / 1000),
            })
        })
        .collect();
    let waypoints: Vec<Value> = server
        .waypoints()
        .iter()
        .map(|waypoint| {
            json!({
                "address": waypoint.address,
                "epoch": waypoint.keys.epoch().0,
                "window": waypoint.clock.at(now_ms * 1000).0,
                "suite": waypoint.suite.name(),
            })
        })
        .collect();
    json!({
        "role": "keyserver",
        "name": server.zone().text(),
        "address": shared.addresses.first(),
        "uptime_s": shared.started.elapsed().as_secs(),
        "principals": server.principals(),
        "revocations": server.book().len(),
        "serial": server.book().last_serial(),
        "waypoints": waypoints,
        "followers": followers,
        "counters": counters,
        "refused": by_reason(counters.refusals()),
        "dropped": by_reason(counters.drops()),
    })
}

fn metrics(server: &KeyServer) -> Vec<Reading> {
    let counters = server.counters();
    let last_serial = server.book().last_serial();
    let behind = server.followers().iter().filter(|it| it.serial < Some(last_serial));
    let answers = [
        ("key", counters.keys),
        ("zone", counters.zone),
        ("negative", counters.negative),
        ("told", counters.told),
    ];
    vec![
        ANSWERS.by("kind", answers),
        TRUNCATED.is(counters.truncated),
        UPDATES.is(counters.updates),
        STORE_FAILURES.is(counters.store_failures),
        REFUSED.by_reason(counters.refusals()),
        DROPPED.by_reason(counters.drops()),
        PRINCIPALS.is(server.principals()),
        REVOCATIONS.is(server.book().len()),
        SERIAL.is(last_serial),
        BEHIND.is(behind.count()),
    ]
}

/// Two `key` a window and principal are to be expected;
/// many `negative` are numbers that were guessed.
const ANSWERS: Metric =
    Metric::counter("rhumb_keyserver_answered_questions_total", "Questions answered, by kind.");
/// Questions about the zone itself are short, so their answers often are too long for a datagram.
const TRUNCATED: Metric = Metric::counter(
    "rhumb_keyserver_truncated_answers_total",
    "Answers in datagrams that said to ask over TCP.",
);
/// Each is an act of an operator.
const UPDATES: Metric = Metric::counter("rhumb_keyserver_stored_updates_total", "Updates stored.");
/// Anything but zero needs a look at disk and log.
const STORE_FAILURES: Metric =
    Metric::counter("rhumb_keyserver_store_failures_total", "Updates that could not be stored.");
/// `bad_signature` and `not_allowed` are attacks or keys that were
/// exchanged; `bad_time` is a clock; `stale` a serial.
const REFUSED: Metric = Metric::counter(
    "rhumb_keyserver_refused_messages_total",
    "Messages answered with an error, by reason.",
);
/// `rate_limited` is a flood, or a resolver with very many
/// principals behind it: then raise `rate_per_s`.
const DROPPED: Metric = Metric::counter(
    "rhumb_keyserver_dropped_messages_total",
    "Messages without an answer, by reason.",
);
const PRINCIPALS: Metric =
    Metric::gauge("rhumb_keyserver_principals", "Principals that are given keys.");
const REVOCATIONS: Metric =
    Metric::gauge("rhumb_keyserver_revocations", "Words about revocations that are kept.");
const SERIAL: Metric =
    Metric::gauge("rhumb_keyserver_serial", "The serial of the newest revocation.");
/// Should be zero but for a moment after a revocation: a waypoint that stays behind does not hear.
const BEHIND: Metric = Metric::gauge(
    "rhumb_keyserver_behind_waypoints",
    "Waypoints that have not said that they have the newest revocation.",
);

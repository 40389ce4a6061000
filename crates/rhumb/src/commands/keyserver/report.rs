//! What a key server tells about itself: status and metrics.

use rhumb_keyserver::server::KeyServer;
use serde_json::{Map, Value, json};

use super::Shared;
use crate::clock;
use crate::daemon::{Kind, Metric, Sample, Snapshot};

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
        "counters": {
            "keys": counters.keys,
            "zone": counters.zone,
            "negative": counters.negative,
            "truncated": counters.truncated,
            "told": counters.told,
            "updates": counters.updates,
            "store_failures": counters.store_failures,
        },
        "refused": map(counters.refusals().map(|(why, count)| (why.as_str(), count))),
        "dropped": map(counters.drops().map(|(why, count)| (why.as_str(), count))),
    })
}

fn metrics(server: &KeyServer) -> Vec<Metric> {
    let counters = server.counters();
    let metric = |name, help, kind, samples| Metric { name, help, kind, samples };
    let plain = |value| vec![Sample::plain(value)];
    let behind = server
        .followers()
        .iter()
        .filter(|follower| follower.serial < Some(server.book().last_serial()));
    let answers = [
        ("key", counters.keys),
        ("zone", counters.zone),
        ("negative", counters.negative),
        ("told", counters.told),
    ];
    let answers = answers.map(|(kind, count)| Sample::labelled("kind", kind, count)).to_vec();
    let reason = |reason, count| Sample::labelled("reason", reason, count);
    let refused = counters.refusals().map(|(why, count)| reason(why.as_str(), count)).collect();
    let dropped = counters.drops().map(|(why, count)| reason(why.as_str(), count)).collect();
    vec![
        metric(ANSWERS, "Questions answered, by kind.", Kind::Counter, answers),
        metric(
            TRUNCATED,
            "Answers in datagrams that said to ask over TCP.",
            Kind::Counter,
            plain(counters.truncated),
        ),
        metric(UPDATES, "Updates stored.", Kind::Counter, plain(counters.updates)),
        metric(
            STORE_FAILURES,
            "Updates that could not be stored.",
            Kind::Counter,
            plain(counters.store_failures),
        ),
        metric(REFUSED, "Messages answered with an error, by reason.", Kind::Counter, refused),
        metric(DROPPED, "Messages without an answer, by reason.", Kind::Counter, dropped),
        metric(
            PRINCIPALS,
            "Principals that are given keys.",
            Kind::Gauge,
            plain(server.principals() as u64),
        ),
        metric(
            REVOCATIONS,
            "Words about revocations that are kept.",
            Kind::Gauge,
            plain(server.book().len() as u64),
        ),
        metric(
            SERIAL,
            "The serial of the newest revocation.",
            Kind::Gauge,
            plain(server.book().last_serial().into()),
        ),
        metric(
            BEHIND,
            "Waypoints that have not said that they have the newest revocation.",
            Kind::Gauge,
            plain(behind.count() as u64),
        ),
    ]
}

fn map<'a>(pairs: impl Iterator<Item = (&'a str, u64)>) -> Value {
    let map: Map<String, Value> =
        pairs.map(|(reason, count)| (reason.to_owned(), json!(count))).collect();
    Value::Object(map)
}

/// Two `key` a window and principal are to be expected;
/// many `negative` are numbers that were guessed.
const ANSWERS: &str = "rhumb_keyserver_answered_questions_total";
/// Questions about the zone itself are short, so their answers often are too long for a datagram.
const TRUNCATED: &str = "rhumb_keyserver_truncated_answers_total";
/// Each is an act of an operator.
const UPDATES: &str = "rhumb_keyserver_stored_updates_total";
/// Anything but zero needs a look at disk and log.
const STORE_FAILURES: &str = "rhumb_keyserver_store_failures_total";
/// `bad_signature` and `not_allowed` are attacks or keys that were
/// exchanged; `bad_time` is a clock; `stale` a serial.
const REFUSED: &str = "rhumb_keyserver_refused_messages_total";
/// `rate_limited` is a flood, or a resolver with very many
/// principals behind it: then raise `rate_per_s`.
const DROPPED: &str = "rhumb_keyserver_dropped_messages_total";
const PRINCIPALS: &str = "rhumb_keyserver_principals";
const REVOCATIONS: &str = "rhumb_keyserver_revocations";
const SERIAL: &str = "rhumb_keyserver_serial";
/// Should be zero but for a moment after a revocation: a waypoint that stays behind does not hear.
const BEHIND: &str = "rhumb_keyserver_behind_waypoints";

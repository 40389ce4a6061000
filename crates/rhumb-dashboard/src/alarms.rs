//! What is to be worried about, from the status of a daemon and how its figures grew: each with
//! what to do.
//!
//! Drops are no alarm as such: routers drop what they must. Those whose reason says that somebody
//! attacks, or that a key or a clock is wrong, are one when they come faster than by chance.

use rhumb_daemon::warnings;
use serde::Serialize;
use serde_json::Value;

use crate::history::History;

/// One thing to be worried about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alarm {
    /// How much.
    pub level: Level,
    /// What is the matter.
    pub found: String,
    /// What to do about it.
    pub advice: String,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something does not work, or somebody attacks.
    Problem,
    /// Something will not work soon, or not well.
    Warning,
}

impl Alarm {
    pub(crate) fn problem(found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Problem, found: found.into(), advice: advice.into() }
    }

    fn warning(found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Warning, found: found.into(), advice: advice.into() }
    }
}

/// All alarms of a daemon at `now_ms`, the worst first.
pub fn alarms(status: &Value, history: &History, now_ms: u64) -> Vec<Alarm> {
    let told = warnings::of(status);
    let mut all: Vec<Alarm> =
        told.into_iter().map(|it| Alarm::warning(it.found, it.advice)).collect();
    all.extend(absent(status));
    all.extend(attacks(history, now_ms));
    all.sort_by_key(|alarm| alarm.level);
    all
}

/// Domains beside this one that should be there.
fn absent(status: &Value) -> Vec<Alarm> {
    let neighbours = status["neighbours"].as_array().into_iter().flatten();
    let absent = neighbours.filter(|it| !it["may_carry"].is_null() && it["there"] == false);
    let told = absent.map(|it| {
        let domain = it["domain"].as_str().unwrap_or("?");
        let found = format!("the neighbour {} is not there", domain.get(..10).unwrap_or(domain));
        Alarm::warning(found, "do its RIBs run, and are they reached?")
    });
    told.collect()
}

/// Drops of the last minute whose reason says that somebody attacks.
fn attacks(history: &History, now_ms: u64) -> Vec<Alarm> {
    let since_ms = now_ms.saturating_sub(WATCHED_MS);
    let mut all = Vec::new();
    for place in DROP_PLACES {
        for reason in history.below(place) {
            let Some((_, least, advice)) = ATTACKS.iter().find(|it| it.0 == reason) else {
                continue;
            };
            let grown = history.growth(&format!("{place}.{reason}"), since_ms);
            if grown >= *least {
                let found = format!("{grown:.0} dropped in a minute: {}", reason.replace('_', " "));
                all.push(Alarm::problem(found, *advice));
            }
        }
    }
    all
}

/// A minute.
const WATCHED_MS: u64 = 60_000;
/// Where daemons count what they drop.
const DROP_PLACES: [&str; 9] = [
    "dropped_pdus",
    "dropped_datagrams",
    "dropped_requests",
    "refused_requests",
    "refused_capabilities",
    "dropped_by_reason",
    "drops",
    "ends",
    "refused",
];
/// Reasons that are an attack, how often they come at least in a minute before they are one, and
/// what it is about. Where nobody but an attacker or a broken network brings one about, few will
/// do; what a name that leaves while others talk to it causes has to be much.
const ATTACKS: [(&str, f64, &str); 20] = [
    ("bad_certificate", FEW, "somebody shows certificates that do not hold"),
    ("not_authorised", MANY, "somebody sends without a right to"),
    ("access_refused", FEW, REFUSED),
    (
        "locator_refused",
        FEW,
        "somebody has the router send to addresses that are not public: see locators in [router]",
    ),
    ("too_many_misses", FEW, "a flood for names that nobody has"),
    ("replayed", FEW, "somebody repeats datagrams, or the network does"),
    ("bad_seal", FEW, "somebody forges datagrams, or the network damages them"),
    ("malformed", FEW, FOREIGN),
    ("foreign", FEW, FOREIGN),
    ("foreign_datagram", FEW, FOREIGN),
    ("bad_token", FEW, HELLOS),
    ("half_open_limit", FEW, HELLOS),
    ("source_limit", FEW, HELLOS),
    ("handshake_rate", FEW, HELLOS),
    ("source_session_limit", FEW, "names without end from one address, or a large site behind it"),
    ("too_many_handshakes", FEW, "a flood of strangers who begin connections"),
    ("sender_refused", FEW, REFUSED),
    ("bad_signature", FEW, "somebody forges statements"),
    ("binding", FEW, "somebody forges capabilities, or a key server is an epoch behind"),
    ("replay", FEW, "somebody repeats packets, or a link does"),
];
const FEW: f64 = 10.0;
const MANY: f64 = 600.0;
const REFUSED: &str = "somebody whom the rules refuse goes on: rhumb status names him";
const FOREIGN: &str = "somebody sends what is none of the protocol's";
const HELLOS: &str = "a flood of handshakes";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_status_warns_of_and_what_grows_are_told_the_worst_first() {
        let well = json!({"role": "router", "ribs": [{"address": "a", "connected": true}]});
        assert_eq!(alarms(&well, &History::default(), 0), []);
        let ill = json!({
            "ribs": [{"address": "a", "connected": false}],
            "neighbours": [
                {"domain": "abcdefghijklm", "may_carry": 9, "there": false},
                {"domain": "nopqrstuvwxyz", "may_carry": 9, "there": true},
            ],
            "drops": {"foreign": 12},
        });
        let mut history = History::default();
        history.record(0, &json!({"drops": {"foreign": 0}}));
        history.record(2000, &ill);
        let all = alarms(&ill, &history, 2000);
        let found: Vec<&str> = all.iter().map(|alarm| alarm.found.as_str()).collect();
        assert_eq!(
            found,
            [
                "12 dropped in a minute: foreign",
                "it has no session with its RIB at a",
                "the neighbour abcdefghij is not there"
            ]
        );
        assert_eq!((all[0].level, all[1].level), (Level::Problem, Level::Warning));
        assert!(all.iter().all(|alarm| !alarm.advice.is_empty()));
    }

    #[test]
    fn drops_that_are_attacks_are_told_while_they_grow_and_no_others() {
        let mut history = History::default();
        let status =
            |bad: u64| json!({"dropped_datagrams": {"bad_seal": bad, "unknown_session": bad}});
        history.record(0, &status(0));
        history.record(30_000, &status(9));
        assert!(attacks(&history, 30_000).is_empty());
        history.record(32_000, &status(10));
        let all = attacks(&history, 32_000);
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(all[0].found, "10 dropped in a minute: bad seal");
        history.record(100_000, &status(10));
        assert!(attacks(&history, 100_000).is_empty());
    }
}

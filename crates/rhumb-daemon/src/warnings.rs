//! What a daemon's status warns of, before it is trouble or once it is, and what to do: for
//! `rhumb doctor`, `rhumb top` and the dashboard.
//!
//! Only what the status says is looked at, so it is the same for whoever asks.

use serde_json::Value;

/// Something that a status warns of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// What it is.
    pub found: String,
    /// What to do.
    pub advice: &'static str,
}

/// All that a status warns of.
pub fn of(status: &Value) -> Vec<Warning> {
    let mut all = Vec::new();
    of_itself(status, &mut all);
    of_its_ribs(status, &mut all);
    of_tables(status, &mut all);
    of_what_it_keeps(status, &mut all);
    of_a_node(status, &mut all);
    of_an_exchange(status, &mut all);
    all
}

fn warn(all: &mut Vec<Warning>, found: impl Into<String>, advice: &'static str) {
    all.push(Warning { found: found.into(), advice });
}

/// Its membership, its clock and its own words.
fn of_itself(status: &Value, all: &mut Vec<Warning>) {
    if let Some(warning) = status["membership"]["warning"].as_str() {
        warn(
            all,
            format!("its membership: {warning}"),
            "a node of a network asks its keeper by itself; of another domain, ask whoever admits there",
        );
    }
    if let Some(clock) = status["clock"].as_str() {
        warn(all, clock, "set this machine's clock, by a time service if there is one");
    }
    if let Some(left_s) = number(status, "/own_statement/expires_in_s").filter(|it| *it < SHORT_S) {
        warn(
            all,
            format!("its own statement ends in {left_s} s, and was not renewed"),
            "no RIB takes it, or a clock jumped: look at its RIBs, and at its clock",
        );
    }
    if let Some(left_s) = number(status, "/domain/border_expires_in_s").filter(|it| *it < BORDER_S)
    {
        warn(
            all,
            format!("the domain's word for this border ends in {} h", left_s / 3600),
            "have the domain make another: rhumb domain delegate",
        );
    }
}

fn of_its_ribs(status: &Value, all: &mut Vec<Warning>) {
    for rib in list(status, "ribs") {
        let at = rib["address"].as_str().unwrap_or("?");
        if rib["connected"] == false {
            let advice = "does it run, is its UDP port let in, is it the name it was given by?";
            warn(all, format!("it has no session with its RIB at {at}"), advice);
        }
        if let Some(since_s) = rib["no_answer_since_s"].as_u64() {
            let advice = "is the RIB's machine alive, and its disk?";
            warn(all, format!("its RIB at {at} answers nothing since {since_s} s"), advice);
        }
    }
    for (list_of, what) in [("ribs", "its RIB"), ("parents", "the parent RIB")] {
        for rib in list(status, list_of) {
            let at = rib["address"].as_str().unwrap_or("?");
            if let Some(suspected) = rib["suspected_of"].as_str() {
                let advice =
                    "ask whoever runs it, and take it out of the settings if nobody can say why";
                warn(all, format!("{what} at {at} is suspected: {suspected}"), advice);
            }
        }
    }
}

/// Those that refuse when they are full; the others forget what is not used.
fn of_tables(status: &Value, all: &mut Vec<Warning>) {
    for (table, what, advice) in REFUSING_TABLES {
        let fill = &status["tables"][table];
        let (used, bound) = (fill["used"].as_u64(), fill["bound"].as_u64());
        let (Some(used), Some(bound)) = (used, bound) else { continue };
        if bound > 0 && used.saturating_mul(100) / bound >= NEARLY_FULL {
            warn(all, format!("{what} fill {} % of their table", used * 100 / bound), advice);
        }
    }
    if let Some(percent) = number(status, "/store/full_percent").filter(|it| *it >= NEARLY_FULL) {
        warn(
            all,
            format!("its store is full to {percent} %"),
            "give it more: disk_mib in [rib]; or let fewer strangers in",
        );
    }
}

/// What it writes to disk.
fn of_what_it_keeps(status: &Value, all: &mut Vec<Warning>) {
    for (place, what) in FAILURES {
        if let Some(times) = number(status, place).filter(|it| *it > 0) {
            let advice = "look at its log, its disk, and who owns the file";
            warn(all, format!("{what} could not be written, {times} times"), advice);
        }
    }
    if status["revocations"]["is_current"] == false {
        let advice = "does the key server answer this host? Revocations do not reach it";
        warn(all, "it does not follow its key server now", advice);
    }
    if status["revocations"]["is_kept"] == false {
        let advice = "look at the file's folder and disk: a restart would forget the newest";
        warn(all, "its revocations are not in their file", advice);
    }
}

fn of_a_node(status: &Value, all: &mut Vec<Warning>) {
    if status["joined"] == false {
        let advice = "it tries again by itself; rhumb doctor looks at its router";
        warn(all, "it is not joined to a router now", advice);
    } else if status["published"] == false {
        let advice = "its router's RIB does not answer: only names at the same router reach it";
        warn(all, "its name is not published", advice);
    }
    let refused = list(status, "refused_publications").count();
    if refused > 0 {
        let found = format!("its RIB refused to publish {refused} names lately");
        warn(all, found, "rhumb status has them with the reasons: refused publications");
    }
}

/// One of its two servers, or a member's proxy.
fn of_an_exchange(status: &Value, all: &mut Vec<Warning>) {
    if status["role"] == "exchange" && status["is_standby"] == false && status["pair"].is_null() {
        let advice = "does the other server run, and is it reached? Nothing is computed without it";
        warn(all, "it has no connection with the other server", advice);
    }
    if let Some(problem) = status["router"]["problem"].as_str() {
        let advice = "look at the settings of BGP here and at the router";
        warn(all, format!("its router: {problem}"), advice);
    }
    if let Some(apart_s) = number(status, "/exchange/apart_s") {
        let advice = "are both servers reached? Routes are used for five minutes more";
        warn(all, format!("it has been apart from the exchange for {apart_s} s"), advice);
    }
}

fn number(status: &Value, place: &str) -> Option<u64> {
    status.pointer(place)?.as_u64()
}

fn list<'a>(status: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    status[key].as_array().into_iter().flatten()
}

/// Tables that refuse once they are full, what they hold, and what to do.
const REFUSING_TABLES: [(&str, &str, &str); 2] = [
    (
        "attached",
        "names that are attached",
        "names that want to join are told to come back: run another router",
    ),
    (
        "names",
        "names that are stored",
        "nothing new is stored then: run RIBs for parts of the domain",
    ),
];
const FAILURES: [(&str, &str); 3] = [
    ("/counters/store_failures", "its store"),
    ("/counters/accounts_not_written", "its accounts"),
    ("/border/accounts_not_written", "its accounts"),
];
/// A statement is renewed at half its lease, and no lease is under a minute.
const SHORT_S: u64 = 25;
const BORDER_S: u64 = 2 * 86_400;
const NEARLY_FULL: u64 = 90;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(status: &Value) -> Vec<String> {
        of(status).into_iter().map(|it| it.found).collect()
    }

    #[test]
    fn what_is_well_is_not_warned_of() {
        let well = json!({
            "role": "router",
            "ribs": [{"address": "a", "connected": true}],
            "tables": {"attached": {"used": 89, "bound": 100}, "flows": {"used": 10, "bound": 10}},
            "own_statement": {"expires_in_s": 300},
            "counters": {"store_failures": 0},
        });
        assert_eq!(found(&well), [""; 0]);
        assert_eq!(found(&Value::Null), [""; 0]);
    }

    #[test]
    fn what_a_status_warns_of_is_told_with_what_to_do() {
        let ill = json!({
            "membership": {"warning": "it is over: ask the domain for another"},
            "clock": "this machine's clock is behind",
            "ribs": [
                {"address": "b", "connected": false},
                {"address": "c", "connected": true, "no_answer_since_s": 9},
                {"address": "d", "connected": true, "suspected_of": "forgery"},
            ],
        });
        let told = found(&ill);
        assert_eq!(told.len(), 5, "{told:?}");
        assert!(told[2].ends_with("RIB at b") && told[3].ends_with("since 9 s"), "{told:?}");
        assert!(of(&ill).iter().all(|it| !it.advice.is_empty()));
    }

    #[test]
    fn trouble_that_comes_is_told_before_it_is_there() {
        let full = json!({
            "own_statement": {"expires_in_s": 20},
            "domain": {"border_expires_in_s": 3600},
            "tables": {"attached": {"used": 90, "bound": 100}, "names": {"used": 0, "bound": 0}},
            "store": {"full_percent": 95},
            "counters": {"store_failures": 2, "accounts_not_written": 1},
            "revocations": {"is_current": false, "is_kept": false},
        });
        let told = found(&full).join("; ");
        for part in
            ["ends in 20 s", "ends in 1 h", "fill 90 %", "full to 95 %", "2 times", "1 times"]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(told.contains("does not follow") && told.contains("not in their file"), "{told}");
    }

    #[test]
    fn nodes_and_exchanges_say_what_they_lack() {
        assert_eq!(found(&json!({"joined": false, "published": false})).len(), 1);
        assert_eq!(found(&json!({"joined": true, "published": false})).len(), 1);
        let alone = json!({"role": "exchange", "is_standby": false, "pair": null});
        assert_eq!(found(&alone), ["it has no connection with the other server"]);
        let member = json!({"router": {"problem": "no password"}, "exchange": {"apart_s": 7}});
        assert_eq!(found(&member).len(), 2);
    }
}

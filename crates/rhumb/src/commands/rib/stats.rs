//! `rhumb rib stats`: how busy a RIB is, from two looks at what it tells of itself.

use std::fmt;
use std::thread::sleep;
use std::time::Duration;

use rhumb_daemon::admin::Admin;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::Form;
use rhumb_daemon::status;
use serde::Serialize;
use serde_json::Value;

/// Runs the command.
pub(crate) fn run(admin: Option<Admin>, seconds: u64, file: &ConfigFile, form: Form) -> Outcome {
    let before = status::of(admin.clone(), file)?;
    if before["role"] != "rib" {
        let role = before["role"].as_str().unwrap_or("something else");
        return Err(Failure::setup_text(format!(
            "what answers there is a {role}, no RIB; name one with --admin"
        )));
    }
    sleep(Duration::from_secs(seconds));
    form.print(&Stats::between(&before, &status::of(admin, file)?, seconds));
    Ok(())
}

/// What a RIB did in some seconds, and how it is.
#[derive(Debug, Serialize)]
struct Stats {
    name: String,
    seconds: u64,
    stored_names: Option<u64>,
    full_percent: Option<u64>,
    sessions: usize,
    subscriptions: u64,
    found_per_s: f64,
    absent_per_s: f64,
    stored_per_s: f64,
    refused_per_s: f64,
    dropped_per_s: f64,
    changes_told_per_s: f64,
    store_failures: u64,
    /// Of entries that were needed, how many were in memory.
    at_hand_percent: Option<f64>,
    look_ups: Option<Waited>,
    orders: Option<Waited>,
}

/// How long so many of a hundred were waited for at the most, in milliseconds; a bound that is
/// twice too high at worst.
#[derive(Debug, Serialize)]
struct Waited {
    p50_below_ms: u64,
    p99_below_ms: u64,
}

impl Stats {
    fn between(before: &Value, after: &Value, seconds: u64) -> Self {
        let grown = |path: &str| number(after, path).saturating_sub(number(before, path));
        let sum = |of: &Value| -> u64 {
            of.as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
        };
        let all_grown = |key: &str| sum(&after[key]).saturating_sub(sum(&before[key]));
        let per_s = |count: u64| count as f64 / seconds as f64;
        let (at_hand, read) = (grown("/counters/entries_at_hand"), grown("/counters/entries_read"));
        let used = at_hand + read;
        Self {
            name: after["name"].as_str().unwrap_or_default().to_owned(),
            seconds,
            stored_names: after["stored_names"].as_u64(),
            full_percent: after["store"]["full_percent"].as_u64(),
            sessions: after["sessions"].as_array().map_or(0, Vec::len),
            subscriptions: number(after, "/subscriptions"),
            found_per_s: per_s(grown("/counters/lookups_found")),
            absent_per_s: per_s(grown("/counters/lookups_absent")),
            stored_per_s: per_s(grown("/counters/publishes_stored")),
            refused_per_s: per_s(all_grown("refused_requests")),
            dropped_per_s: per_s(all_grown("dropped_requests")),
            changes_told_per_s: per_s(grown("/counters/changes_sent")),
            store_failures: grown("/counters/store_failures"),
            at_hand_percent: (used > 0).then(|| 100.0 * at_hand as f64 / used as f64),
            look_ups: Waited::between(before, after, "/counters/look_ups_waited/below_ms"),
            orders: Waited::between(before, after, "/counters/orders_waited/below_ms"),
        }
    }
}

impl Waited {
    fn between(before: &Value, after: &Value, path: &str) -> Option<Self> {
        let steps = |of: &Value| -> Vec<u64> {
            let all = of.pointer(path).and_then(Value::as_array);
            all.into_iter().flatten().map(|count| count.as_u64().unwrap_or(0)).collect()
        };
        let (before, after) = (steps(before), steps(after));
        let counts: Vec<u64> =
            after.iter().zip(before).map(|(after, before)| after.saturating_sub(before)).collect();
        let all: u64 = counts.iter().sum();
        let below_ms = |percent: u64| {
            let mut left = all * percent;
            let step = counts.iter().position(|count| {
                let is_here = left <= count * 100;
                left = left.saturating_sub(count * 100);
                is_here
            });
            1 << step.unwrap_or(0)
        };
        (all > 0).then(|| Self { p50_below_ms: below_ms(50), p99_below_ms: below_ms(99) })
    }
}

fn number(of: &Value, path: &str) -> u64 {
    of.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |value: Option<u64>| value.map_or("?".to_owned(), |value| value.to_string());
        let waited = |of: &Option<Waited>| match of {
            Some(Waited { p50_below_ms, p99_below_ms }) => {
                format!("half within {p50_below_ms} ms, 99 of 100 within {p99_below_ms} ms")
            }
            None => "none".to_owned(),
        };
        writeln!(f, "rib {}, {} s", self.name, self.seconds)?;
        let (names, full) = (of(self.stored_names), of(self.full_percent));
        writeln!(f, "names       {names}, the store is {full} % full")?;
        writeln!(f, "sessions    {}, subscriptions {}", self.sessions, self.subscriptions)?;
        let (found, absent) = (self.found_per_s, self.absent_per_s);
        writeln!(f, "look-ups    {found:.0} /s found, {absent:.0} /s absent")?;
        writeln!(f, "            {}", waited(&self.look_ups))?;
        if let Some(percent) = self.at_hand_percent {
            writeln!(f, "            {percent:.0} % of what they needed was in memory")?;
        }
        writeln!(f, "orders      {:.0} /s stored", self.stored_per_s)?;
        writeln!(f, "            {}", waited(&self.orders))?;
        writeln!(f, "changes     {:.0} /s told", self.changes_told_per_s)?;
        let (refused, dropped) = (self.refused_per_s, self.dropped_per_s);
        write!(f, "trouble     {refused:.0} /s refused, {dropped:.0} /s dropped, ")?;
        write!(f, "{} failures of the store", self.store_failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rates_are_of_what_has_grown_and_waits_of_those_meanwhile() {
        let status = |found: u64, below_ms: [u64; 4], at_hand: u64| {
            json!({
                "name": "n", "role": "rib", "stored_names": 7, "subscriptions": 3,
                "refused_requests": {"quota_exceeded": found},
                "counters": {
                    "lookups_found": found, "entries_at_hand": at_hand, "entries_read": 10,
                    "look_ups_waited": {"below_ms": below_ms},
                },
            })
        };
        let (before, after) = (status(100, [9, 1, 0, 5], 5), status(300, [109, 1, 98, 7], 35));
        let stats = Stats::between(&before, &after, 2);
        assert_eq!((stats.found_per_s, stats.refused_per_s), (100.0, 100.0));
        assert_eq!((stats.stored_names, stats.at_hand_percent), (Some(7), Some(100.0)));
        let waited = stats.look_ups.as_ref().expect("some");
        assert_eq!((waited.p50_below_ms, waited.p99_below_ms), (1, 4));
        assert!(stats.orders.is_none());
        assert!(stats.to_string().contains("100 /s found"), "{stats}");
    }
}

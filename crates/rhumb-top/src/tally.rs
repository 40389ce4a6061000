//! The numbers of a status by their places in it, and how fast they grow.
//!
//! A status is an object of objects, numbers and lists. Its numbers are called by the keys that
//! lead to them, with dots between: `counters.forwarded_pdus`. Items of a few lists are called by
//! what tells them apart, so that each is compared with itself: `accounts.7.bytes`.

use std::collections::BTreeMap;

use serde_json::Value;

/// Numbers by their places.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// All numbers of a status, but for those in lists of no interest; [`MOST`] at most.
    pub(crate) fn of(status: &Value) -> Self {
        let mut all = Self::default();
        if let Value::Object(object) = status {
            for (key, value) in object {
                match value {
                    Value::Array(items) => all.add_list(key, items),
                    _ => all.add(key, value),
                }
            }
        }
        all
    }

    /// The number at a place.
    pub(crate) fn at(&self, place: &str) -> Option<u64> {
        self.0.get(place).copied()
    }

    /// All of them, by place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(place, value)| (place.as_str(), *value))
    }

    /// How much each has grown in a second since `before`. Nothing of a process that began anew,
    /// whose numbers are smaller; nor of what was not there.
    pub(crate) fn rates_since(&self, before: &Self, seconds: f64) -> BTreeMap<String, f64> {
        let began_anew = self.at(UPTIME) < before.at(UPTIME);
        if seconds < LEAST_SECONDS || began_anew {
            return BTreeMap::new();
        }
        let rate = |(place, now): (&str, u64)| {
            let grown = now.checked_sub(before.at(place)?)?;
            Some((place.to_owned(), grown as f64 / seconds))
        };
        self.iter().filter_map(rate).collect()
    }

    fn add_list(&mut self, list: &str, items: &[Value]) {
        let Some((_, keys)) = LISTS.iter().find(|(name, _)| *name == list) else { return };
        for (number, item) in items.iter().enumerate() {
            let place = place_of(list, keys, number, item);
            // Two of one name are told apart by their order.
            let place = if self.has_below(&place) { format!("{place}#{number}") } else { place };
            self.add(&place, item);
        }
    }

    fn has_below(&self, place: &str) -> bool {
        let begin = format!("{place}.");
        let next = self.0.range(begin.clone()..).next();
        next.is_some_and(|(place, _)| place.starts_with(&begin))
    }

    fn add(&mut self, place: &str, value: &Value) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    self.add(&format!("{place}.{key}"), value);
                }
            }
            Value::Number(number) if self.0.len() < MOST => {
                if let Some(number) = number.as_u64() {
                    self.0.insert(place.to_owned(), number);
                }
            }
            _ => {}
        }
    }
}

/// How an item of a list is called.
pub(crate) fn item_place(list: &str, number: usize, item: &Value) -> Option<String> {
    let (_, keys) = LISTS.iter().find(|(name, _)| *name == list)?;
    Some(place_of(list, keys, number, item))
}

fn place_of(list: &str, keys: &[&str], number: usize, item: &Value) -> String {
    let parts: Vec<String> = keys
        .iter()
        .map(|key| match &item[*key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect();
    let called = if parts.is_empty() { number.to_string() } else { parts.join("+") };
    format!("{list}.{called}")
}

/// Lists whose items are counted, and what tells them apart; none: their order.
const LISTS: [(&str, &[&str]); 7] = [
    ("accounts", &["principal"]),
    ("connections", &["local", "peer", "is_ours"]),
    ("members", &["site"]),
    ("ribs", &["address"]),
    ("shards", &["shard"]),
    ("ways", &["via"]),
    ("workers", &[]),
];
const UPTIME: &str = "uptime_s";
/// A rate over less is noise.
const LEAST_SECONDS: f64 = 0.05;
/// A status with very many accounts has its first ones counted.
const MOST: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(uptime_s: u64, pdus: u64, bytes: u64) -> Tally {
        Tally::of(&json!({
            "uptime_s": uptime_s,
            "counters": {"pdus": pdus, "note": "x"},
            "accounts": [{"principal": 7, "bytes": bytes}],
            "sessions": [{"age_s": 3}],
        }))
    }

    #[test]
    fn rates_are_differences_by_place() {
        let rates = of(12, 300, 50).rates_since(&of(10, 100, 10), 2.0);
        assert_eq!(rates.get("counters.pdus"), Some(&100.0));
        assert_eq!(rates.get("accounts.7.bytes"), Some(&20.0));
        assert!(!rates.keys().any(|place| place.starts_with("sessions")));
    }

    #[test]
    fn a_process_that_began_anew_has_no_rates_yet() {
        assert!(of(1, 500, 50).rates_since(&of(10, 100, 10), 2.0).is_empty());
        // What fell is no counter.
        let rates = of(12, 90, 50).rates_since(&of(10, 100, 10), 2.0);
        assert_eq!(rates.get("counters.pdus"), None);
        assert!(of(12, 90, 50).rates_since(&of(10, 100, 10), 0.0).is_empty());
    }

    #[test]
    fn a_status_without_end_is_bounded() {
        let accounts: Vec<Value> =
            (0..20_000).map(|principal| json!({"principal": principal, "bytes": 1})).collect();
        let tally = Tally::of(&json!({ "accounts": accounts }));
        assert_eq!(tally.iter().count(), MOST);
    }
}

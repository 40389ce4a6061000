//! Ten minutes of every figure in a daemon's status, for the page's charts.
//!
//! A figure is a number in an object, called as the way there: `counters.forwarded_pdus`. Figures
//! of lists are left out, but for the round trips of connections and sessions, which are called
//! after their peers. Nothing here knows what a figure means, so a daemon that learns to count
//! something else has it here without a change.
//!
//! Invariant: at most [`MOST_FIGURES`] figures of [`MOST_SAMPLES`] moments each.

use std::collections::{BTreeMap, VecDeque};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// What one daemon counted, moment by moment.
#[derive(Debug, Default)]
pub struct History {
    moments_ms: VecDeque<u64>,
    figures: BTreeMap<String, VecDeque<Option<f64>>>,
}

impl History {
    /// Enters the figures of a moment. What has not been there before was not counted.
    pub fn record(&mut self, at_ms: u64, status: &Value) {
        let mut seen = BTreeMap::new();
        walk(status, "", DEPTH, &mut seen);
        round_trips(status, &mut seen);
        let before = self.moments_ms.len();
        for (figure, value) in seen {
            if let Some(values) = self.figures.get_mut(&figure) {
                values.push_back(Some(value));
            } else if self.figures.len() < MOST_FIGURES {
                let mut values: VecDeque<Option<f64>> = std::iter::repeat_n(None, before).collect();
                values.push_back(Some(value));
                self.figures.insert(figure, values);
            }
        }
        self.moments_ms.push_back(at_ms);
        let is_over = self.moments_ms.len() > MOST_SAMPLES;
        if is_over {
            self.moments_ms.pop_front();
        }
        for values in self.figures.values_mut() {
            if values.len() < before + 1 {
                values.push_back(None);
            }
            if is_over {
                values.pop_front();
            }
        }
        // What ended long ago makes room for what is new.
        self.figures.retain(|_, values| values.iter().any(Option::is_some));
    }

    /// How much a counter has grown since `since_ms`, or since the first moment that is known. A
    /// counter that fell began anew, with its daemon.
    pub fn growth(&self, figure: &str, since_ms: u64) -> f64 {
        let Some(values) = self.figures.get(figure) else { return 0.0 };
        let from = self.moments_ms.iter().position(|at| *at >= since_ms).unwrap_or(0);
        let mut known = values.iter().skip(from).flatten().copied();
        let Some(mut last) = known.next() else { return 0.0 };
        let mut grown = 0.0;
        for value in known {
            grown += if value >= last { value - last } else { value };
            last = value;
        }
        grown
    }

    /// The figures directly below a place, by their last words.
    pub fn below<'a>(&'a self, place: &'a str) -> impl Iterator<Item = &'a str> {
        let names = self.figures.keys();
        names.filter_map(move |name| name.strip_prefix(place)?.strip_prefix('.'))
    }

    /// How many moments are known.
    pub fn len(&self) -> usize {
        self.moments_ms.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.moments_ms.is_empty()
    }
}

impl Serialize for History {
    /// A figure that never changed is one number in place of a list.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("moments_ms", &self.moments_ms)?;
        map.serialize_entry("figures", &Figures(self))?;
        map.end()
    }
}

struct Figures<'a>(&'a History);

impl Serialize for Figures<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let figures = &self.0.figures;
        let mut map = serializer.serialize_map(Some(figures.len()))?;
        for (name, values) in figures {
            match values.front().copied().flatten() {
                Some(first) if values.iter().all(|value| *value == Some(first)) => {
                    map.serialize_entry(name, &first)?;
                }
                _ => map.serialize_entry(name, values)?,
            }
        }
        map.end()
    }
}

fn walk(value: &Value, place: &str, depth: usize, seen: &mut BTreeMap<String, f64>) {
    let Value::Object(object) = value else { return };
    for (key, value) in object {
        if seen.len() >= MOST_FIGURES || key.len() > LONGEST_KEY {
            continue;
        }
        let name = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
        match value {
            Value::Number(number) => {
                seen.extend(number.as_f64().map(|number| (name, number)));
            }
            Value::Object(_) if depth > 1 => walk(value, &name, depth - 1, seen),
            _ => {}
        }
    }
}

/// Round trips are the one figure of lists that is wanted as a chart.
fn round_trips(status: &Value, seen: &mut BTreeMap<String, f64>) {
    let listed = |key: &str| status[key].as_array().into_iter().flatten();
    for connection in listed("connections").chain(listed("sessions")).take(CHARTED_CONNECTIONS) {
        let peer = connection["peer"].as_str().unwrap_or_default();
        if let (Some(ms), Some(peer)) = (connection["round_trip_ms"].as_f64(), peer.get(..10)) {
            seen.insert(format!("round_trips.{peer}"), ms);
        }
    }
}

/// Ten minutes of a look every two seconds.
pub const MOST_SAMPLES: usize = 300;
/// A router has about 160: 600 kB, full.
pub const MOST_FIGURES: usize = 256;
/// `counters.look_ups_waited.sum_ms` is three.
const DEPTH: usize = 3;
/// Keys are the program's own words; nobody else's are taken for some.
const LONGEST_KEY: usize = 64;
const CHARTED_CONNECTIONS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn figures(history: &History) -> Value {
        serde_json::to_value(history).unwrap()["figures"].clone()
    }

    #[test]
    fn figures_are_called_as_the_way_to_them() {
        let mut history = History::default();
        let status = json!({
            "uptime_s": 1, "name": "x", "tables": {"flows": {"used": 3, "bound": 9}},
            "sessions": [{"age_s": 4}],
            "connections": [{"peer": "abcdefghijklm", "round_trip_ms": 0.25}],
        });
        history.record(5, &status);
        let expected = json!({
            "uptime_s": 1.0, "tables.flows.used": 3.0, "tables.flows.bound": 9.0,
            "round_trips.abcdefghij": 0.25,
        });
        assert_eq!(figures(&history), expected);
    }

    #[test]
    fn what_comes_and_goes_has_gaps_and_is_forgotten_in_the_end() {
        let mut history = History::default();
        for (at, status) in (0..).zip([json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 3})]) {
            history.record(at, &status);
        }
        assert_eq!(figures(&history), json!({"a": [1.0, null, 1.0], "b": [null, 2.0, 3.0]}));
        for at in 0..MOST_SAMPLES as u64 {
            history.record(9 + at, &json!({"b": 3}));
        }
        assert_eq!(history.len(), MOST_SAMPLES);
        assert_eq!(figures(&history), json!({"b": 3.0}));
    }

    #[test]
    fn no_status_makes_more_than_the_bound() {
        let mut history = History::default();
        for round in 0..3 {
            let many: serde_json::Map<String, Value> = (0..MOST_FIGURES * 2)
                .map(|number| (format!("n{round}-{number}"), json!(number)))
                .collect();
            history.record(round, &Value::Object(many));
        }
        assert_eq!(history.figures.len(), MOST_FIGURES);
        assert!(history.figures.values().all(|values| values.len() == 3));
        history.record(4, &json!({"x".repeat(65): 1}));
        assert!(history.figures.keys().all(|key| key.len() < 64));
    }

    #[test]
    fn growth_is_over_a_time_and_a_restart_is_no_fall() {
        let mut history = History::default();
        for (at, value) in [(0, 5), (10, 8), (20, 2), (30, 4)] {
            history.record(at, &json!({"drops": {"bad": value}}));
        }
        assert_eq!(history.growth("drops.bad", 0), 3.0 + 2.0 + 2.0);
        assert_eq!(history.growth("drops.bad", 20), 2.0);
        assert_eq!(history.growth("drops.other", 0), 0.0);
        assert_eq!(history.below("drops").collect::<Vec<_>>(), ["bad"]);
    }
}

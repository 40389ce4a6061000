//! One daemon as it is seen: what it said last, how fast its numbers grow, and since when it says
//! nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::load::Load;
use crate::tally::Tally;
use crate::text::shown;

/// What came of asking a daemon once.
#[derive(Debug, Clone)]
pub struct Look {
    /// Where it was asked: what tells it from others.
    pub place: String,
    /// When, since the view began.
    pub at: Duration,
    /// Its status, or why there is none.
    pub told: Result<Value, String>,
    /// What its status warns of.
    pub warnings: Vec<Warning>,
}

/// Something that a status warns of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// What it is.
    pub found: String,
    /// What to do.
    pub advice: String,
}

/// A daemon, as far as it was seen.
#[derive(Debug, Clone)]
pub(crate) struct Daemon {
    place: String,
    status: Value,
    tally: Tally,
    rates: BTreeMap<String, f64>,
    warnings: Vec<Warning>,
    told_at: Option<Duration>,
    /// Why it says nothing, and since when.
    silence: Option<(String, Duration)>,
}

impl Daemon {
    /// One of which nothing is known yet.
    pub(crate) fn at(place: &str) -> Self {
        Self {
            place: place.to_owned(),
            status: Value::Null,
            tally: Tally::default(),
            rates: BTreeMap::new(),
            warnings: Vec::new(),
            told_at: None,
            silence: None,
        }
    }

    /// Takes what it said, or that it said nothing.
    pub(crate) fn take(&mut self, look: Look) {
        match look.told {
            Ok(status) => {
                let tally = Tally::of(&status);
                self.rates = match self.told_at {
                    Some(before) => {
                        let passed = look.at.saturating_sub(before).as_secs_f64();
                        tally.rates_since(&self.tally, passed)
                    }
                    None => BTreeMap::new(),
                };
                (self.status, self.tally) = (status, tally);
                (self.told_at, self.silence) = (Some(look.at), None);
                self.warnings = look.warnings;
            }
            Err(why) => {
                let since = self.silence.take().map_or(look.at, |(_, since)| since);
                self.silence = Some((why, since));
                self.rates.clear();
            }
        }
    }

    /// Where it is asked.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// What it said last; nothing, if it never did.
    pub(crate) fn status(&self) -> &Value {
        &self.status
    }

    /// What it is: the word that it has for itself.
    pub(crate) fn role(&self) -> String {
        self.text("role").unwrap_or_else(|| "?".to_owned())
    }

    /// A text of its status, as may be shown.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.status[key].as_str().map(shown)
    }

    /// A list of its status.
    pub(crate) fn list(&self, key: &str) -> &[Value] {
        self.status[key].as_array().map_or(&[], Vec::as_slice)
    }

    /// A number of its status.
    pub(crate) fn number(&self, place: &str) -> Option<u64> {
        self.tally.at(place)
    }

    /// All its numbers, by place.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (&str, u64)> {
        self.tally.iter()
    }

    /// How much a number grows in a second, if that is known.
    pub(crate) fn rate(&self, place: &str) -> Option<f64> {
        self.rates.get(place).copied()
    }

    /// How much these grow together, if it is known of any.
    pub(crate) fn rate_of_all(&self, places: &[&str]) -> Option<f64> {
        places.iter().filter_map(|place| self.rate(place)).reduce(|sum, rate| sum + rate)
    }

    /// What it does most of.
    pub(crate) fn load(&self) -> Load {
        Load::of(&self.role())
    }

    /// What its last status warns of, and that it says nothing any more.
    pub(crate) fn warnings(&self, now: Duration) -> Vec<Warning> {
        let silent = self.silence.as_ref().map(|(why, since)| Warning {
            found: format!(
                "says nothing for {}: {}",
                crate::amounts::span(now.saturating_sub(*since).as_secs()),
                shown(why)
            ),
            advice: "if it should run, look at its log; start it again".to_owned(),
        });
        silent.into_iter().chain(self.warnings.iter().cloned()).collect()
    }

    /// For how long it has said nothing.
    pub(crate) fn silent_for(&self, now: Duration) -> Option<Duration> {
        self.silence.as_ref().map(|(_, since)| now.saturating_sub(*since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn look(at_s: u64, told: Result<Value, String>) -> Look {
        let at = Duration::from_secs(at_s);
        Look { place: "a".to_owned(), at, told, warnings: Vec::new() }
    }

    #[test]
    fn one_that_falls_silent_keeps_what_it_said_and_loses_its_rates() {
        let mut daemon = Daemon::at("a");
        for (at_s, pdus) in [(1, 10), (3, 30)] {
            let status = json!({"role": "router", "counters": {"pdus": pdus}, "uptime_s": at_s});
            daemon.take(look(at_s, Ok(status)));
        }
        assert_eq!(daemon.rate("counters.pdus"), Some(10.0));
        daemon.take(look(5, Err("gone\u{1b}[0m".to_owned())));
        daemon.take(look(9, Err("gone\u{1b}[0m".to_owned())));
        assert_eq!(daemon.rate("counters.pdus"), None);
        assert_eq!(daemon.role(), "router");
        let now = Duration::from_secs(65);
        assert_eq!(daemon.silent_for(now), Some(Duration::from_secs(60)));
        let warning = &daemon.warnings(now)[0];
        assert_eq!(warning.found, "says nothing for 1m 00s: gone\\u{1b}[0m");
    }
}

//! What RIBs say of the statements that this router publishes:
//! which were refused, and whose clock is wrong.
//!
//! A refusal is repeated each second, because the statement is. So a line about it is said at once
//! and then seldom; status shows the last ones with their names.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use rhumb_switch::Event;
use rhumb_trust::Now;
use rhumb_wire::Name;
use rhumb_wire::rib::Refusal;
use serde_json::{Value, json};

use crate::clock::date_and_time;

/// What became of the statements published.
#[derive(Debug)]
pub(super) struct Publishing {
    own: Name,
    state: OwnState,
    /// Since when the RIB's clock and this one differ.
    clock: Option<ClockDoubt>,
    refused: VecDeque<RefusedName>,
    said: HashMap<&'static str, Instant>,
}

/// Whether this router's own statement is at a RIB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnState {
    Unknown,
    Published,
    Refused,
}

/// Which way this machine's clock is off, if the RIB's is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockDoubt {
    Ahead,
    Behind,
}

#[derive(Debug)]
struct RefusedName {
    name: Name,
    refusal: Refusal,
    times: u64,
    at_s: u64,
}

impl Publishing {
    pub(super) fn new(own: Name) -> Self {
        let (refused, said) = (VecDeque::new(), HashMap::new());
        Self { own, state: OwnState::Unknown, clock: None, refused, said }
    }

    /// Whether a RIB has answered about this router's own statement.
    pub(super) fn is_answered(&self) -> bool {
        self.state != OwnState::Unknown
    }

    /// Takes what happened, and returns the line to say about it.
    pub(super) fn observe(&mut self, event: &Event, now: Now) -> Option<String> {
        match event {
            Event::Published { name } if *name == self.own => {
                self.state = OwnState::Published;
                self.said.remove(CLOCK);
                let was_wrong = self.clock.take().is_some();
                was_wrong.then(|| "the clocks of this machine and the RIB agree again".to_owned())
            }
            Event::PublishRefused { name, refusal } => self.note(*name, *refusal, now),
            _ => None,
        }
    }

    fn note(&mut self, name: Name, refusal: Refusal, now: Now) -> Option<String> {
        self.remember(name, refusal, now.unix_s());
        if name != self.own {
            return self.may_say(refusal_word(refusal), now.instant).then(|| {
                format!(
                    "the RIB refused to publish a name attached here: {refusal}; `rhumb status` says which"
                )
            });
        }
        self.state = OwnState::Refused;
        self.clock = match refusal {
            Refusal::NotYetValid => Some(ClockDoubt::Ahead),
            Refusal::Expired => Some(ClockDoubt::Behind),
            _ => None,
        };
        match self.clock {
            Some(doubt) => self.may_say(CLOCK, now.instant).then(|| doubt.line(now.unix_s())),
            None => self.may_say(OWN, now.instant).then(|| {
                format!("the RIB refused to publish this router itself: {refusal}; nobody finds it")
            }),
        }
    }

    fn remember(&mut self, name: Name, refusal: Refusal, at_s: u64) {
        let before = self.refused.iter().position(|it| it.name == name && it.refusal == refusal);
        let before = before.and_then(|at| self.refused.remove(at));
        let times = before.map_or(0, |it| it.times) + 1;
        self.refused.truncate(REMEMBERED - 1);
        self.refused.push_front(RefusedName { name, refusal, times, at_s });
    }

    /// Whether a line of this kind may be said now: it is not said again soon.
    fn may_say(&mut self, kind: &'static str, now: Instant) -> bool {
        let is_due = self.said.get(kind).is_none_or(|said| *said + SAY_AGAIN_AFTER <= now);
        if is_due {
            self.said.insert(kind, now);
        }
        is_due
    }

    /// Adds what people have to know to a status.
    pub(super) fn report(&self, status: &mut Value, now_s: u64) {
        if let Some(doubt) = self.clock {
            status["clock"] = json!(doubt.line(now_s));
        }
        let refused = self.refused.iter().map(|it| {
            json!({
                "name": it.name.to_string(),
                "reason": it.refusal.to_string(),
                "times": it.times,
                "age_s": now_s.saturating_sub(it.at_s),
            })
        });
        status["refused_publications"] = refused.collect();
    }
}

impl ClockDoubt {
    fn line(self, now_s: u64) -> String {
        let (how, verdict) = match self {
            Self::Ahead => ("ahead of", "not yet valid"),
            Self::Behind => ("behind", "expired"),
        };
        format!(
            "this machine's clock is {how} the RIB's: here it is {} UTC, and the RIB finds what this router says {verdict}; \
             nobody finds it, nor the names attached, until one of the clocks is put right",
            date_and_time(now_s)
        )
    }
}

fn refusal_word(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Expired | Refusal::NotYetValid => "clock of a name",
        Refusal::QuotaExceeded => "quota",
        Refusal::StoreFailed => "store",
        Refusal::Superseded => "superseded",
        _ => "bad",
    }
}

const CLOCK: &str = "clock";
const OWN: &str = "own";
/// Long enough to be read once, short enough to stand in the last page of any log.
const SAY_AGAIN_AFTER: Duration = Duration::from_secs(600);
/// Names that status shows.
const REMEMBERED: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const OWN_NAME: Name = Name([1; 32]);

    fn at(start: Instant, s: u64) -> Now {
        let instant = start + Duration::from_secs(s);
        Now { instant, unix_ms: (1_800_000_000 + s) * 1000 }
    }

    #[test]
    fn a_clock_is_named_once_and_then_seldom_until_it_is_right() {
        let start = Instant::now();
        let mut publishing = Publishing::new(OWN_NAME);
        let refused = |refusal| Event::PublishRefused { name: OWN_NAME, refusal };
        assert!(!publishing.is_answered());
        let lines: Vec<String> = (0..1200)
            .filter_map(|s| publishing.observe(&refused(Refusal::NotYetValid), at(start, s)))
            .collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("clock is ahead of the RIB's: here it is 2027-01-15 08:00:00"));
        assert!(publishing.is_answered());
        let mut status = json!({});
        publishing.report(&mut status, 1_800_001_200);
        assert!(status["clock"].as_str().unwrap().contains("ahead"), "{status}");
        assert_eq!(status["refused_publications"][0]["times"], 1200);
        let good = publishing.observe(&Event::Published { name: OWN_NAME }, at(start, 1201));
        assert!(good.unwrap().contains("agree again"));
        let mut status = json!({});
        publishing.report(&mut status, 1_800_001_201);
        assert_eq!(status["clock"], Value::Null);
        let line = publishing.observe(&refused(Refusal::Expired), at(start, 1202));
        assert!(line.unwrap().contains("clock is behind the RIB's"));
    }

    #[test]
    fn refused_names_are_shown_and_do_not_flood_the_log() {
        let start = Instant::now();
        let mut publishing = Publishing::new(OWN_NAME);
        let lines = (0..100u8).filter_map(|n| {
            let name = Name([n + 2; 32]);
            let refused = Event::PublishRefused { name, refusal: Refusal::QuotaExceeded };
            publishing.observe(&refused, at(start, 0))
        });
        assert_eq!(lines.count(), 1);
        let mut status = json!({});
        publishing.report(&mut status, 1_800_000_005);
        let shown = status["refused_publications"].as_array().unwrap();
        assert_eq!(shown.len(), REMEMBERED);
        assert_eq!(shown[0]["name"], Name([101; 32]).to_string());
        assert_eq!(shown[0]["age_s"], 5);
        assert!(!publishing.is_answered());
    }
}

//! What RIBs say of the statements that this router publishes:
//! which were refused, and whose clock is wrong.
//!
//! A refusal is repeated each second, because the statement is. So a line about it is said at once
//! and then seldom; status shows the last ones with their names.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use rhumb_daemon::clock::{date_and_time, span};
use rhumb_switch::Event;
use rhumb_trust::{Now, StatementError};
use rhumb_wire::Name;
use rhumb_wire::rib::Refusal;
use serde_json::{Value, json};

/// What became of the statements published.
#[derive(Debug)]
pub(super) struct Publishing {
    own: Name,
    state: OwnState,
    /// How the RIB's clock and this one differ.
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

/// How this machine's clock is off, if the RIB's is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockDoubt {
    way: Way,
    /// By how many seconds at least, once the RIB has told its time.
    least_s: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
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
            Event::RibClockDiffers { why } => self.note_difference(*why, now),
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
        let way = match refusal {
            Refusal::NotYetValid => Some(Way::Ahead),
            Refusal::Expired => Some(Way::Behind),
            _ => None,
        };
        let before = self.clock.filter(|before| Some(before.way) == way);
        self.clock = before.or(way.map(|way| ClockDoubt { way, least_s: None }));
        match self.clock {
            // The RIB's time comes a moment later, if it comes: the next refusal does not wait.
            Some(_) if before.is_none() => None,
            Some(doubt) => self.may_say(CLOCK, now.instant).then(|| doubt.line(now.unix_s())),
            None => self.may_say(OWN, now.instant).then(|| {
                format!("the RIB refused to publish this router itself: {refusal}; nobody finds it")
            }),
        }
    }

    /// Takes how far apart the clocks are. Only a RIB of this router's own tells, and only the line
    /// and status rest on it.
    fn note_difference(&mut self, why: StatementError, now: Now) -> Option<String> {
        let (way, least_s) = match why {
            StatementError::Expired { ended_ago_s } => (Way::Ahead, ended_ago_s),
            StatementError::NotYetValid { starts_in_s } => (Way::Behind, starts_in_s),
            _ => return None,
        };
        let doubt = self.clock.as_mut().filter(|doubt| doubt.way == way)?;
        doubt.least_s = Some(least_s);
        let line = doubt.line(now.unix_s());
        self.may_say(CLOCK, now.instant).then_some(line)
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
        let (how, verdict) = match self.way {
            Way::Ahead => ("ahead of", "not yet valid"),
            Way::Behind => ("behind", "expired"),
        };
        let amount = self.least_s.map(|s| format!(" by at least {}", span(s))).unwrap_or_default();
        format!(
            "this machine's clock is {how} the RIB's{amount}: here it is {} UTC, and the RIB finds what this router says {verdict}; \
             nobody finds it, nor the names attached, until one of the clocks is put right",
            date_and_time(now_s)
        )
    }
}

fn refusal_word(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Expired | Refusal::NotYetValid => "clock of a name",
        Refusal::QuotaExceeded => "quota",
        Refusal::StoreFailed | Refusal::Overloaded => "store",
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
        assert!(lines[0].contains("clock is ahead of the RIB's: here it is 2027-01-15 08:00:01"));
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
        assert_eq!(publishing.observe(&refused(Refusal::Expired), at(start, 1202)), None);
        let line = publishing.observe(&refused(Refusal::Expired), at(start, 1203));
        assert!(line.unwrap().contains("clock is behind the RIB's: here"));
    }

    #[test]
    fn the_first_line_about_a_clock_says_by_how_much_where_the_rib_tells_its_time() {
        let start = Instant::now();
        let mut publishing = Publishing::new(OWN_NAME);
        let refused = Event::PublishRefused { name: OWN_NAME, refusal: Refusal::NotYetValid };
        let differs = |why| Event::RibClockDiffers { why };
        let ended = differs(StatementError::Expired { ended_ago_s: 86_398 });
        // Nobody's clock is doubted because of that alone.
        assert_eq!(publishing.observe(&ended, at(start, 0)), None);
        let mut status = json!({});
        publishing.report(&mut status, 1_800_000_000);
        assert_eq!(status["clock"], Value::Null);
        assert_eq!(publishing.observe(&refused, at(start, 0)), None);
        let other_way = differs(StatementError::NotYetValid { starts_in_s: 999_999 });
        assert_eq!(publishing.observe(&other_way, at(start, 0)), None);
        let line = publishing.observe(&ended, at(start, 0)).unwrap();
        assert!(line.contains("is ahead of the RIB's by at least 23 h: here"), "{line}");
        for s in 1..SAY_AGAIN_AFTER.as_secs() {
            assert_eq!(publishing.observe(&refused, at(start, s)), None);
            assert_eq!(publishing.observe(&ended, at(start, s)), None);
        }
        publishing.report(&mut status, 1_800_000_600);
        assert!(status["clock"].as_str().unwrap().contains("by at least 23 h"), "{status}");
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

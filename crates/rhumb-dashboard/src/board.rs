//! What is known of the daemons now: the latest status of each, where it stands, its alarms, and
//! its history; and the two answers that browsers are given of it.
//!
//! Invariant: at most [`MOST_DAEMONS`] daemons, and of each list in a status the first
//! [`MOST_ITEMS`] items: `left_out` says how many there are besides. Statuses are kept as they were
//! told otherwise.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rhumb_daemon::admin::Admin;
use rhumb_daemon::daemon::VERSION;
use rhumb_daemon::names::Book;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::alarms::{Alarm, alarms};
use crate::history::History;

/// All daemons that are known.
#[derive(Debug, Default)]
pub struct Board {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    daemons: BTreeMap<String, Daemon>,
    labels: BTreeMap<String, String>,
    /// Daemons that there was no room for.
    beyond: usize,
}

/// One daemon, by the place where it is asked.
#[derive(Debug, Default)]
struct Daemon {
    admin: Option<Admin>,
    standing: Standing,
    problem: Option<String>,
    answered_at_ms: Option<u64>,
    took_ms: f64,
    status: Value,
    left_out: Map<String, Value>,
    alarms: Vec<Alarm>,
    history: History,
}

/// How it is with a daemon.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// It was found, and has not answered yet.
    #[default]
    Asked,
    /// It answers.
    Up,
    /// It is there, and does not answer in time, or not as a daemon does.
    Silent,
    /// It answers its own user alone.
    Refused,
    /// Nobody is there.
    Gone,
}

/// What came of asking a daemon.
#[derive(Debug)]
pub enum Told {
    /// Its status, and how many milliseconds that took.
    Status(Value, f64),
    /// Why there is none.
    Nothing(Standing, String),
}

impl Board {
    /// Makes room for a daemon, which is asked what it stores, too. Whether there is some.
    pub fn enter_at(&self, admin: &Admin) -> bool {
        let place = admin.to_string();
        let is_there = self.enter(&place);
        if let Some(daemon) = self.lock().daemons.get_mut(&place) {
            daemon.admin = Some(admin.clone());
        }
        is_there
    }

    /// Where to ask the RIB on the board whose place this is.
    pub(crate) fn rib_at(&self, place: &str) -> Option<Admin> {
        let known = self.lock();
        let daemon = known.daemons.get(place)?;
        daemon.admin.clone().filter(|_| daemon.status["role"] == "rib")
    }

    /// Makes room for a daemon that is asked at `place`. Whether there is some.
    pub fn enter(&self, place: &str) -> bool {
        let mut known = self.lock();
        if !known.daemons.contains_key(place) && known.daemons.len() >= MOST_DAEMONS {
            return false;
        }
        known.daemons.entry(place.to_owned()).or_default();
        true
    }

    /// Says how many there was no room for.
    pub fn leave_out(&self, beyond: usize) {
        self.lock().beyond = beyond;
    }

    /// Takes a daemon off.
    pub fn remove(&self, place: &str) {
        self.lock().daemons.remove(place);
    }

    /// Whether a daemon has been away for so long that nobody asks what became of it.
    pub fn is_forgotten(&self, place: &str, now_ms: u64) -> bool {
        let known = self.lock();
        let Some(daemon) = known.daemons.get(place) else { return true };
        let since_ms = now_ms.saturating_sub(daemon.answered_at_ms.unwrap_or(0));
        daemon.standing == Standing::Gone && since_ms > REMEMBERED_MS
    }

    /// Enters what a daemon told.
    pub fn tell(&self, place: &str, told: Told, now_ms: u64) {
        let mut known = self.lock();
        let Some(daemon) = known.daemons.get_mut(place) else { return };
        match told {
            Told::Status(mut status, took_ms) => {
                daemon.left_out = shorten(&mut status);
                status["answered_in_ms"] = took_ms.into();
                daemon.history.record(now_ms, &status);
                daemon.alarms = alarms(&status, &daemon.history, now_ms);
                daemon.status = status;
                daemon.took_ms = took_ms;
                daemon.answered_at_ms = Some(now_ms);
                daemon.standing = Standing::Up;
                daemon.problem = None;
            }
            Told::Nothing(standing, problem) => {
                daemon.standing = standing;
                daemon.alarms = away(standing, &problem).into_iter().collect();
                daemon.problem = Some(problem);
            }
        }
    }

    /// Takes over what names are called on this machine.
    pub fn call(&self, book: &Book) {
        let entries = book.entries().take(MOST_LABELS);
        let labels = entries.map(|it| (it.name.to_string(), it.label.to_string())).collect();
        self.lock().labels = labels;
    }

    /// All daemons as they are, as JSON.
    pub fn state(&self, now_ms: u64) -> Vec<u8> {
        let known = self.lock();
        let daemons =
            known.daemons.iter().filter(|(_, it)| it.is_shown()).map(|(place, it)| Shown {
                place,
                standing: it.standing,
                problem: it.problem.as_deref(),
                answered_at_ms: it.answered_at_ms,
                took_ms: it.took_ms,
                alarms: &it.alarms,
                left_out: &it.left_out,
                status: &it.status,
            });
        let state = State {
            now_ms,
            version: VERSION,
            beyond: known.beyond,
            labels: &known.labels,
            daemons: daemons.collect(),
        };
        json(&state)
    }

    /// Ten minutes of all their figures, as JSON.
    pub fn history(&self) -> Vec<u8> {
        let known = self.lock();
        let all: BTreeMap<&String, &History> =
            known.daemons.iter().map(|(place, it)| (place, &it.history)).collect();
        json(&all)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Daemon {
    /// A socket that a killed daemon left behind, long ago, is nobody.
    fn is_shown(&self) -> bool {
        self.standing != Standing::Gone || self.answered_at_ms.is_some()
    }
}

#[derive(Serialize)]
struct State<'a> {
    now_ms: u64,
    version: &'static str,
    beyond: usize,
    labels: &'a BTreeMap<String, String>,
    daemons: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    place: &'a str,
    standing: Standing,
    problem: Option<&'a str>,
    answered_at_ms: Option<u64>,
    took_ms: f64,
    alarms: &'a [Alarm],
    left_out: &'a Map<String, Value>,
    status: &'a Value,
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("invariant: what is shown has string keys")
}

fn away(standing: Standing, problem: &str) -> Option<Alarm> {
    match standing {
        Standing::Asked | Standing::Up => None,
        Standing::Silent => {
            let advice = "one that hangs is started again; its log may say why";
            Some(Alarm::problem(format!("it does not answer: {problem}"), advice))
        }
        Standing::Refused => {
            let advice = "run the dashboard as the daemon's user, or as root";
            Some(Alarm::problem(format!("it may not be asked: {problem}"), advice))
        }
        Standing::Gone => Some(Alarm::problem("it has ended", "its log may say why")),
    }
}

/// Cuts the lists of a status; says what each was longer by.
fn shorten(status: &mut Value) -> Map<String, Value> {
    let mut left_out = Map::new();
    let Some(object) = status.as_object_mut() else { return left_out };
    for (key, value) in object {
        if let Some(items) = value.as_array_mut().filter(|items| items.len() > MOST_ITEMS) {
            left_out.insert(key.clone(), (items.len() - MOST_ITEMS).into());
            items.truncate(MOST_ITEMS);
        }
    }
    left_out
}

/// Those of one host, and some by tunnels.
pub const MOST_DAEMONS: usize = 64;
/// More than anybody reads, and little enough for a phone.
pub const MOST_ITEMS: usize = 250;
/// Of the book of names.
const MOST_LABELS: usize = 2000;
/// As long as the charts go back.
const REMEMBERED_MS: u64 = 600_000;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state(board: &Board) -> Value {
        serde_json::from_slice(&board.state(5000)).unwrap()
    }

    #[test]
    fn a_daemon_comes_is_told_of_and_goes() {
        let board = Board::default();
        assert!(board.enter("a.sock"));
        assert_eq!(state(&board)["daemons"][0]["standing"], "asked");
        board.tell("a.sock", Told::Status(json!({"role": "rib"}), 0.5), 1000);
        let shown = state(&board)["daemons"][0].clone();
        assert_eq!((&shown["standing"], &shown["status"]["role"]), (&json!("up"), &json!("rib")));
        board.tell("a.sock", Told::Nothing(Standing::Silent, "no answer in time".into()), 3000);
        let shown = state(&board)["daemons"][0].clone();
        assert_eq!(shown["alarms"][0]["found"], "it does not answer: no answer in time");
        assert_eq!(shown["answered_at_ms"], 1000);
        board.tell("a.sock", Told::Nothing(Standing::Gone, "no such file".into()), 4000);
        assert_eq!(state(&board)["daemons"][0]["alarms"][0]["found"], "it has ended");
        assert!(!board.is_forgotten("a.sock", 601_000) && board.is_forgotten("a.sock", 601_001));
        board.remove("a.sock");
        assert_eq!(state(&board)["daemons"], json!([]));
    }

    #[test]
    fn what_a_killed_daemon_left_behind_is_not_shown() {
        let board = Board::default();
        board.enter("old.sock");
        board.tell("old.sock", Told::Nothing(Standing::Gone, "refused".into()), 1);
        assert_eq!(state(&board)["daemons"], json!([]));
        assert!(board.is_forgotten("old.sock", 700_000));
    }

    #[test]
    fn long_lists_are_cut_and_daemons_are_bounded() {
        let board = Board::default();
        for number in 0..=MOST_DAEMONS {
            assert_eq!(board.enter(&format!("{number}")), number < MOST_DAEMONS);
            assert!(board.enter("0"));
        }
        let peers = vec![json!({"peer": "x"}); MOST_ITEMS + 3];
        board.tell("0", Told::Status(json!({"sessions": peers, "ribs": [1]}), 0.0), 1);
        board.leave_out(1);
        let state = state(&board);
        assert_eq!(state["daemons"].as_array().unwrap().len(), MOST_DAEMONS);
        assert_eq!(state["beyond"], 1);
        let first = &state["daemons"][0];
        assert_eq!(first["status"]["sessions"].as_array().unwrap().len(), MOST_ITEMS);
        assert_eq!(first["left_out"], json!({"sessions": 3}));
    }

    #[test]
    fn how_long_answers_took_is_a_figure_too() {
        let board = Board::default();
        board.enter("a");
        board.tell("a", Told::Status(json!({}), 1.5), 7);
        let history: Value = serde_json::from_slice(&board.history()).unwrap();
        let expected = json!({"a": {"moments_ms": [7], "figures": {"answered_in_ms": 1.5}}});
        assert_eq!(history, expected);
    }
}

//! The screens: what each shows of all daemons, as a sheet.

mod certificates;
mod drops;
mod flows;
mod overview;
mod sessions;
mod warnings;
mod work;

use std::time::Duration;

use serde_json::Value;

use crate::daemon::Daemon;
use crate::names::Labels;
use crate::sheet::{Cell, Order, Sheet, Tone};
use crate::text::shown;

/// What there is to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Screen {
    /// Each daemon in one row.
    Overview,
    /// With whom they talk.
    Sessions,
    /// Who sends to whom.
    Flows,
    /// What was dropped, and why.
    Drops,
    /// What ends when.
    Certificates,
    /// All that they count.
    Work,
    /// What is wrong, and what to do.
    Warnings,
}

/// All that sheets are made of.
pub(crate) struct Seen<'a> {
    pub(crate) daemons: &'a [&'a Daemon],
    pub(crate) labels: &'a Labels,
    pub(crate) now: Duration,
}

impl Screen {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Overview,
        Self::Sessions,
        Self::Flows,
        Self::Drops,
        Self::Certificates,
        Self::Work,
        Self::Warnings,
    ];

    /// What it is called.
    pub fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Sessions => "Sessions",
            Self::Flows => "Flows",
            Self::Drops => "Drops",
            Self::Certificates => "Certificates",
            Self::Work => "Work",
            Self::Warnings => "Warnings",
        }
    }

    /// The one that somebody means by a word.
    pub fn called(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.title().eq_ignore_ascii_case(word))
    }

    /// So many further, around the end.
    pub(crate) fn beside(self, by: isize) -> Self {
        let number = (self as isize + by).rem_euclid(Self::ALL.len() as isize);
        Self::ALL[number.unsigned_abs()]
    }

    /// What it is sorted by until somebody says otherwise.
    pub(crate) fn order(self) -> Order {
        let column = match self {
            Self::Drops => drops::RATE,
            Self::Certificates => certificates::LEFT,
            Self::Flows => flows::RATE,
            _ => 0,
        };
        // What ends first is looked for, not what lasts.
        Order { column, is_reversed: self == Self::Certificates }
    }

    /// What it shows, in no order.
    pub(crate) fn sheet(self, seen: &Seen<'_>) -> Sheet {
        match self {
            Self::Overview => overview::sheet(seen),
            Self::Sessions => sessions::sheet(seen),
            Self::Flows => flows::sheet(seen),
            Self::Drops => drops::sheet(seen),
            Self::Certificates => certificates::sheet(seen),
            Self::Work => work::sheet(seen),
            Self::Warnings => warnings::sheet(seen),
        }
    }
}

impl Seen<'_> {
    /// A daemon in one word: what it is called, or what it is.
    pub(crate) fn called(&self, daemon: &Daemon) -> String {
        match daemon.status()["name"].as_str() {
            Some(name) => self.labels.short(name),
            // Of one that has said nothing yet it is known where it was asked.
            None => daemon.text("network").unwrap_or_else(|| last_part(daemon.place())),
        }
    }

    /// The cell that says whose row it is.
    pub(crate) fn owner(&self, daemon: &Daemon) -> Cell {
        let tone = if daemon.silent_for(self.now).is_some() { Tone::Bad } else { Tone::Quiet };
        Cell::words(self.called(daemon)).toned(tone)
    }

    /// The name at a key of an item, short; unknown if there is none.
    pub(crate) fn name(&self, item: &Value, key: &str) -> Cell {
        match item[key].as_str() {
            Some(name) => Cell::words(self.labels.short(name)),
            None => Cell::words(crate::amounts::UNKNOWN).toned(Tone::Quiet),
        }
    }

    /// All that an item says, for whoever asks.
    pub(crate) fn details(&self, item: &Value) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        self.add_details("", item, &mut lines);
        lines
    }

    fn add_details(&self, place: &str, value: &Value, lines: &mut Vec<(String, String)>) {
        if lines.len() >= MOST_DETAILS {
            return;
        }
        let below = |key: &str| match place {
            "" => key.replace('_', " "),
            place => format!("{place}, {}", key.replace('_', " ")),
        };
        match value {
            Value::Object(object) => {
                object.iter().for_each(|(key, value)| self.add_details(&below(key), value, lines));
            }
            Value::Array(items) => {
                for (number, item) in items.iter().enumerate() {
                    self.add_details(&below(&(number + 1).to_string()), item, lines);
                }
            }
            Value::Null => {}
            Value::String(text) if place == CLAIM => {
                lines.push((place.to_owned(), format!("\"{}\" (its own word)", shown(text))));
            }
            Value::String(text) => lines.push((shown(place), self.labels.full(text))),
            other => lines.push((shown(place), other.to_string())),
        }
    }
}

/// A socket's own name, or an address.
fn last_part(place: &str) -> String {
    shown(place.rsplit('/').next().unwrap_or(place))
}

/// Words, as may be shown.
pub(crate) fn words(item: &Value, key: &str) -> Cell {
    match item[key].as_str() {
        Some(text) => Cell::words(shown(text)),
        None => Cell::words(crate::amounts::UNKNOWN).toned(Tone::Quiet),
    }
}

/// A label in somebody's metadata.
const CLAIM: &str = "calls itself";
/// A status may list very many sessions.
const MOST_DETAILS: usize = 4096;

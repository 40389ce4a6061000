//! What ends when: certificates, leases and memberships, with the time that they have left.

use serde_json::Value;

use super::Seen;
use crate::amounts::span;
use crate::daemon::Daemon;
use crate::sheet::{Cell, Column, Row, Sheet, Tone};
use crate::text::shown;

pub(super) fn sheet(seen: &Seen<'_>) -> Sheet {
    let mut rows = Vec::new();
    for daemon in seen.daemons {
        let status = daemon.status();
        let mut add = |kind: &Kind, about: &Value, left: &Value| {
            if let Some(left_s) = left.as_u64() {
                rows.push(row(seen, daemon, kind, about, left_s));
            }
        };
        add(&OWN_STATEMENT, &status["own_statement"]["says"], &status["own_statement"][LEFT_KEY]);
        add(&LEASE, &status["router"], &status["lease_expires_in_s"]);
        let published = &status["published_names"];
        add(&PUBLISHED, &published["labels"], &published[LEFT_KEY]);
        add(&BORDER, &status["domain"]["name"], &status["domain"]["border_expires_in_s"]);
        let membership = &status["membership"];
        add(&MEMBERSHIP, &membership["domain"], &membership[LEFT_KEY]);
        for (list, kind, about) in LISTS {
            for item in daemon.list(list) {
                add(&kind, &item[about], &item[LEFT_KEY]);
            }
        }
        for session in daemon.list("sessions") {
            add(&SHOWN, &session["peer"], &session["membership"][LEFT_KEY]);
        }
    }
    Sheet::of(&COLUMNS, rows, "No certificates.")
}

fn row(seen: &Seen<'_>, daemon: &Daemon, kind: &Kind, about: &Value, left_s: u64) -> Row {
    let tone = match left_s {
        0 => Tone::Bad,
        _ if left_s < kind.soon_s / 3 => Tone::Bad,
        _ if left_s < kind.soon_s => Tone::Warning,
        _ => Tone::Good,
    };
    let [short, full] = match about {
        Value::String(text) => [seen.labels.short(text), seen.labels.full(text)],
        Value::Array(items) => {
            let all: Vec<String> = items.iter().filter_map(Value::as_str).map(shown).collect();
            [all.join(", "), all.join(", ")]
        }
        _ => [String::new(), String::new()],
    };
    let left = if left_s == 0 { "ended".to_owned() } else { span(left_s) };
    Row {
        key: format!("{} {} {full}", daemon.place(), kind.title),
        cells: vec![
            seen.owner(daemon),
            Cell::words(kind.title),
            Cell::words(short),
            Cell::amount(Some(left_s as f64), |_| left).toned(tone),
            Cell::words(kind.renewed).toned(Tone::Quiet),
        ],
        details: vec![
            ("what".to_owned(), kind.title.to_owned()),
            ("about".to_owned(), full),
            ("ends in".to_owned(), format!("{left_s} s")),
            ("renewed".to_owned(), kind.renewed.to_owned()),
        ],
    }
}

/// Something that ends.
#[derive(Clone, Copy)]
struct Kind {
    title: &'static str,
    renewed: &'static str,
    /// Where it should have been renewed by then.
    soon_s: u64,
}

const OWN_STATEMENT: Kind =
    Kind { title: "own statement", renewed: "by itself, at half its time", soon_s: 120 };
const LEASE: Kind = Kind { title: "lease", renewed: "by itself, at half its time", soon_s: 30 };
const PUBLISHED: Kind =
    Kind { title: "published names", renewed: "by itself, long before", soon_s: 86_400 };
const BORDER: Kind =
    Kind { title: "border", renewed: "by the domain: rhumb domain border", soon_s: 7 * 86_400 };
const MEMBERSHIP: Kind =
    Kind { title: "membership", renewed: "by its keeper, or rhumb domain renew", soon_s: 2 * 3600 };
const SHOWN: Kind = Kind { title: "peer's membership", renewed: "by the peer", soon_s: 600 };
/// Lists of what ends, what each item is, and what it is about.
const LISTS: [(&str, Kind, &str); 4] = [
    ("attached", Kind { title: "attached name", renewed: "by its node", soon_s: 30 }, "name"),
    ("delegations", Kind { title: "delegation", renewed: "by itself", soon_s: 120 }, "says"),
    ("some_grants", Kind { title: "grant", renewed: "by its holder", soon_s: 30 }, "name"),
    ("stamps", Kind { title: "capability", renewed: "by itself", soon_s: 60 }, "peer"),
];
const LEFT_KEY: &str = "expires_in_s";
/// The column of the time left.
pub(super) const LEFT: usize = 3;
const COLUMNS: [Column; 5] = [
    Column::words("AT", 6, 16, 0),
    Column::words("WHAT", 10, 17, 0),
    Column::words("ABOUT", 10, 52, 0),
    Column::amount("LEFT", 7, 0),
    Column::words("RENEWED", 11, 40, 1),
];

//! With whom daemons talk: secure sessions of routers and RIBs, connections of nodes, members of an
//! exchange, followers of a key server.

use serde_json::Value;

use super::{Seen, words};
use crate::amounts::{UNKNOWN, milliseconds, rate, span};
use crate::daemon::Daemon;
use crate::sheet::{Cell, Column, Row, Sheet, Tone};
use crate::tally::item_place;

pub(super) fn sheet(seen: &Seen<'_>) -> Sheet {
    let mut rows = Vec::new();
    for daemon in seen.daemons {
        for (list, read) in LISTS {
            for (number, item) in daemon.list(list).iter().enumerate() {
                // The members of a network are a number, and those of an exchange a list.
                rows.push(read(&Item { seen, daemon, list, number, item }));
            }
        }
        if let Some(router) = daemon.status()["router_address"].as_str() {
            rows.push(to_router(seen, daemon, router));
        }
    }
    Sheet::of(&COLUMNS, rows, "No sessions.")
}

/// One item of a list, and whose it is.
struct Item<'a> {
    seen: &'a Seen<'a>,
    daemon: &'a Daemon,
    list: &'static str,
    number: usize,
    item: &'a Value,
}

impl Item<'_> {
    fn row(&self, cells: [Cell; 7]) -> Row {
        let mut all = vec![self.seen.owner(self.daemon)];
        all.extend(cells);
        // Sessions come and go; what stays is who is at the other end.
        let who =
            ["peer", "site", "waypoint", "address"].iter().find_map(|key| self.item[*key].as_str());
        let key = match who {
            Some(who) => {
                format!("{} {} {who} {}", self.daemon.place(), self.list, self.item["address"])
            }
            None => format!("{} {} {}", self.daemon.place(), self.list, self.number),
        };
        Row { key, cells: all, details: self.seen.details(self.item) }
    }

    /// How much a number of the item grows in a second.
    fn rate(&self, number: &str) -> Option<f64> {
        let place = item_place(self.list, self.number, self.item)?;
        self.daemon.rate(&format!("{place}.{number}"))
    }
}

fn session(it: &Item<'_>) -> Row {
    let standing = match it.item["standing"].as_str() {
        Some("refused") => words(it.item, "standing").toned(Tone::Bad),
        Some("stranger") => words(it.item, "standing").toned(Tone::Warning),
        _ => words(it.item, "standing").toned(Tone::Quiet),
    };
    it.row([
        it.seen.name(it.item, "peer"),
        words(it.item, "role"),
        words(it.item, "address"),
        words(it.item, "transport"),
        round_trip(it.item),
        age(it.item, "age_s"),
        match it.item["standing"].is_string() {
            true => Cell::words(format!("{}, {} B", standing.text, it.item["largest_datagram"]))
                .toned(standing.tone),
            false => Cell::words(format!("{} B", it.item["largest_datagram"])).toned(Tone::Quiet),
        },
    ])
}

/// A connection between two names, with a node at its other end.
fn connection(it: &Item<'_>) -> Row {
    let lost = it.rate("lost_packets");
    let sent = it.rate("sent_packets");
    let tone = if lost > Some(0.0) { Tone::Warning } else { Tone::Quiet };
    it.row([
        it.seen.name(it.item, "peer"),
        Cell::words("node"),
        nothing(),
        Cell::words("end").toned(Tone::Quiet),
        round_trip(it.item),
        nothing(),
        Cell::words(match (sent, lost) {
            (Some(sent), Some(lost)) => format!("{} sent/s, {} lost/s", rate(sent), rate(lost)),
            _ => format!("{} streams", it.item["streams"]),
        })
        .toned(tone),
    ])
}

/// A member of an exchange, or its proxy's server.
fn member(it: &Item<'_>) -> Row {
    let waits = it.item["unsent_bytes"].as_u64().unwrap_or(0);
    let refused = it.item["refused_routes"].as_u64().unwrap_or(0);
    let tone = if refused > 0 { Tone::Warning } else { Tone::Quiet };
    it.row([
        it.seen.name(it.item, "site"),
        Cell::words("member"),
        words(it.item, "address"),
        Cell::words("channel").toned(Tone::Quiet),
        nothing(),
        age(it.item, "connected_s"),
        Cell::words(format!("{waits} B wait, {refused} routes refused")).toned(tone),
    ])
}

/// A waypoint that hears of revocations.
fn follower(it: &Item<'_>) -> Row {
    let serial = it.item["serial"].as_u64();
    let is_behind = serial < it.daemon.number("serial");
    let tone = if is_behind { Tone::Warning } else { Tone::Quiet };
    let at = serial.map_or("has heard nothing".to_owned(), |serial| format!("at serial {serial}"));
    it.row([
        words(it.item, "waypoint"),
        Cell::words("waypoint"),
        words(it.item, "waypoint"),
        Cell::words("dns").toned(Tone::Quiet),
        nothing(),
        age(it.item, "seen_s"),
        Cell::words(at).toned(tone),
    ])
}

/// A node's session with its router.
fn to_router(seen: &Seen<'_>, daemon: &Daemon, address: &str) -> Row {
    let status = daemon.status();
    let standing = match (status["joined"].as_bool(), status["published"].as_bool()) {
        (Some(false), _) => Cell::words("not joined").toned(Tone::Bad),
        (_, Some(false)) => Cell::words("not published").toned(Tone::Warning),
        _ => Cell::words("joined").toned(Tone::Quiet),
    };
    Row {
        key: format!("{} router", daemon.place()),
        cells: vec![
            seen.owner(daemon),
            seen.name(status, "router"),
            Cell::words("router"),
            Cell::words(crate::text::shown(address)),
            words(status, "router_transport"),
            nothing(),
            nothing(),
            standing,
        ],
        details: seen.details(&TO_ROUTER.iter().map(|key| (*key, status[*key].clone())).collect()),
    }
}

fn round_trip(item: &Value) -> Cell {
    Cell::amount(item["round_trip_ms"].as_f64(), milliseconds)
}

fn age(item: &Value, key: &str) -> Cell {
    Cell::amount(item[key].as_u64().map(|it| it as f64), |it| span(it as u64))
}

fn nothing() -> Cell {
    Cell::words(UNKNOWN).toned(Tone::Quiet)
}

/// What a node's status says of its router.
const TO_ROUTER: [&str; 6] =
    ["router", "router_address", "router_transport", "joined", "published", "lease_expires_in_s"];

type Read = fn(&Item<'_>) -> Row;

/// Which lists there are, and what their items are.
const LISTS: [(&str, Read); 4] = [
    ("sessions", session),
    ("connections", connection),
    ("members", member),
    ("followers", follower),
];
const COLUMNS: [Column; 8] = [
    Column::words("AT", 6, 16, 0),
    Column::words("PEER", 8, 24, 0),
    Column::words("IS", 6, 9, 3),
    Column::words("ADDRESS", 15, 47, 2),
    Column::words("OVER", 4, 7, 5),
    Column::amount("TRIP", 8, 1),
    Column::amount("FOR", 7, 4),
    Column::words("STANDS", 8, 40, 6),
];

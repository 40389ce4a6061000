//! Each daemon in one row: what it is, with how many it talks, how much it does and drops, and
//! whether something is wrong.

use super::Seen;
use crate::amounts::{bits, count, rate, span};
use crate::daemon::Daemon;
use crate::load::Drops;
use crate::sheet::{Cell, Column, Row, Sheet, Tone};

pub(super) fn sheet(seen: &Seen<'_>) -> Sheet {
    let rows = seen.daemons.iter().map(|daemon| row(seen, daemon)).collect();
    Sheet::of(&COLUMNS, rows, EMPTY)
}

fn row(seen: &Seen<'_>, daemon: &Daemon) -> Row {
    let load = daemon.load();
    let peers = match &daemon.status()[load.peers] {
        list if list.is_array() => Some(daemon.list(load.peers).len() as f64),
        other => other.as_f64(),
    };
    let silent = daemon.silent_for(seen.now);
    let peers = peers.filter(|_| silent.is_none());
    let does = daemon.rate_of_all(load.counted);
    let dropped = dropped(daemon);
    let warnings = daemon.warnings(seen.now);
    let warns = match &warnings[..] {
        [] => Cell::words("none").toned(Tone::Quiet),
        [one] => Cell::words(one.found.clone()).toned(Tone::Warning),
        [first, rest @ ..] => {
            Cell::words(format!("{}, and {} more", first.found, rest.len())).toned(Tone::Warning)
        }
    };
    let tone = if silent.is_some() { Tone::Bad } else { Tone::Good };
    let uptime = daemon.number("uptime_s").filter(|_| silent.is_none());
    let mut details = vec![("asked at".to_owned(), crate::text::shown(daemon.place()))];
    details.extend(warnings.iter().flat_map(|it| {
        [("warning".to_owned(), it.found.clone()), ("what to do".to_owned(), it.advice.clone())]
    }));
    details.extend(seen.details(daemon.status()));
    Row {
        key: daemon.place().to_owned(),
        cells: vec![
            Cell::words(daemon.role()).toned(tone),
            Cell::words(seen.called(daemon)),
            Cell::amount(uptime.map(|it| it as f64), |it| span(it as u64)),
            Cell::amount(peers, |it| count(it as u64)),
            Cell::amount(does, |it| format!("{} {}", rate(it), load.unit)),
            Cell::amount(daemon.rate_of_all(load.bytes), bits),
            Cell::amount(dropped, rate).toned(match dropped {
                Some(dropped) if dropped > 0.0 => Tone::Warning,
                _ => Tone::Quiet,
            }),
            warns.toned(if silent.is_some() { Tone::Bad } else { warning_tone(&warnings) }),
        ],
        details,
    }
}

fn warning_tone(warnings: &[crate::daemon::Warning]) -> Tone {
    if warnings.is_empty() { Tone::Quiet } else { Tone::Warning }
}

/// What is dropped in a second, of all kinds.
fn dropped(daemon: &Daemon) -> Option<f64> {
    let role = daemon.role();
    let places = Drops::of(&role).flat_map(|drops| {
        let begin = format!("{}.", drops.place);
        daemon.numbers().filter(move |(place, _)| place.starts_with(&begin))
    });
    places.filter_map(|(place, _)| daemon.rate(place)).reduce(|sum, rate| sum + rate)
}

const COLUMNS: [Column; 8] = [
    Column::words("WHAT", 9, 9, 0),
    Column::words("NAME", 10, 24, 0),
    Column::amount("UP", 7, 5),
    Column::amount("PEERS", 5, 4),
    Column::amount("DOES", 16, 1),
    Column::amount("BIT/S", 6, 3),
    Column::amount("DROP/S", 6, 2),
    Column::words("WARNINGS", 8, 200, 6),
];
const EMPTY: &str =
    "No daemon of this user answers. Start one with --admin, or say which: rhumb top --admin PATH";

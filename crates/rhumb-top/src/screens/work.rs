//! All that daemons count: what a RIB answers, how full tables are, an exchange's rounds, what a
//! waypoint forwards. Zeros are left out: people look for what is there.

use super::Seen;
use crate::amounts::{UNKNOWN, count, rate};
use crate::daemon::Daemon;
use crate::load::Drops;
use crate::sheet::{Cell, Column, Row, Sheet, Tone};
use crate::text::shown;

pub(super) fn sheet(seen: &Seen<'_>) -> Sheet {
    let mut rows = Vec::new();
    for daemon in seen.daemons {
        let role = daemon.role();
        let drops: Vec<&Drops> = Drops::of(&role).collect();
        for (place, value) in daemon.numbers() {
            let is_told_elsewhere = place.ends_with("_in_s")
                || LEFT_OUT.contains(&place)
                || drops.iter().any(|it| is_below(place, it.place));
            let is_of_an_item = ELSEWHERE.iter().any(|list| is_below(place, list))
                && place.matches('.').count() > 1;
            // What a number is bounded by is told beside it, or does not change.
            let is_bound = place.ends_with(BOUND) || place.contains(BOUNDS);
            if value > 0 && !is_told_elsewhere && !is_of_an_item && !is_bound {
                rows.push(row(seen, daemon, place, value));
            }
        }
    }
    Sheet::of(&COLUMNS, rows, "Nothing is counted.")
}

fn row(seen: &Seen<'_>, daemon: &Daemon, place: &str, value: u64) -> Row {
    let (group, what) = place.rsplit_once('.').unwrap_or(("", place));
    let bound = daemon.number(&format!("{group}{BOUND}")).filter(|_| what == USED);
    let grows = daemon.rate(place).filter(|rate| *rate > 0.0);
    // A table's entries are called by the table.
    let (group, what) = match what == USED {
        true => group.rsplit_once('.').unwrap_or(("", group)),
        false => (group, what),
    };
    let [group, what] = [group, what].map(|it| shown(&it.replace(['_', '.'], " ")));
    let (of, tone) = match bound {
        Some(bound) => {
            let percent = value as f64 * 100.0 / bound.max(1) as f64;
            let tone = if percent >= NEARLY_FULL { Tone::Warning } else { Tone::Quiet };
            (format!("{percent:.0} % of {}", count(bound)), tone)
        }
        None => (UNKNOWN.to_owned(), Tone::Quiet),
    };
    let is_trouble = TROUBLE.iter().any(|word| place.contains(word));
    Row {
        key: format!("{} {place}", daemon.place()),
        cells: vec![
            seen.owner(daemon),
            Cell::words(group).toned(Tone::Quiet),
            Cell::words(what).toned(if is_trouble { Tone::Bad } else { Tone::Plain }),
            Cell::amount(Some(value as f64), |it| count(it as u64)),
            Cell::amount(grows, rate),
            Cell::words(of).toned(tone),
        ],
        details: vec![
            ("called".to_owned(), shown(place)),
            ("is".to_owned(), value.to_string()),
            ("grows in a second".to_owned(), grows.map_or(UNKNOWN.to_owned(), rate)),
        ],
    }
}

fn is_below(place: &str, group: &str) -> bool {
    place.strip_prefix(group).is_some_and(|rest| rest.starts_with('.'))
}

/// What other screens show.
const LEFT_OUT: [&str; 1] = ["uptime_s"];
/// Lists whose items other screens show.
const ELSEWHERE: [&str; 5] = ["accounts", "connections", "members", "ribs", "ways"];
const USED: &str = "used";
const BOUND: &str = ".bound";
const BOUNDS: &str = ".bound.";
/// Numbers that are 0 where all is well.
const TROUBLE: [&str; 5] =
    ["store_failures", "accounts_not_written", "inconsistent", ".forged", ".forked"];
/// Of a table that refuses when it is full, or of one that forgets then.
const NEARLY_FULL: f64 = 90.0;
const COLUMNS: [Column; 6] = [
    Column::words("AT", 6, 16, 0),
    Column::words("OF", 6, 20, 2),
    Column::words("WHAT", 14, 36, 0),
    Column::amount("IS", 6, 0),
    Column::amount("PER S", 6, 0),
    Column::words("FULL", 8, 16, 1),
];

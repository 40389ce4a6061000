//! What was dropped, by reason: how fast, how often in all, and what it means.

use super::Seen;
use crate::amounts::{count, rate};
use crate::load::Drops;
use crate::meanings;
use crate::sheet::{Cell, Column, Row, Sheet, Tone};
use crate::text::shown;

pub(super) fn sheet(seen: &Seen<'_>) -> Sheet {
    let mut rows = Vec::new();
    for daemon in seen.daemons {
        let role = daemon.role();
        for drops in Drops::of(&role) {
            let begin = format!("{}.", drops.place);
            let counted = daemon.numbers().filter(|(_, times)| *times > 0);
            for (place, times) in counted {
                let Some(reason) = place.strip_prefix(&begin) else { continue };
                let meaning = meanings::of(drops.explained_at, reason).unwrap_or_default();
                let grows = daemon.rate(place);
                let tone = match grows {
                    _ if meanings::is_usual(meaning) => Tone::Quiet,
                    Some(grows) if grows > 0.0 => Tone::Warning,
                    _ => Tone::Plain,
                };
                let first = meaning.split_inclusive(". ").next().unwrap_or_default().trim_end();
                rows.push(Row {
                    key: format!("{} {place}", daemon.place()),
                    cells: vec![
                        seen.owner(daemon),
                        Cell::words(shown(reason)).toned(tone),
                        Cell::amount(grows, rate),
                        Cell::amount(Some(times as f64), |it| count(it as u64)),
                        Cell::words(drops.what).toned(Tone::Quiet),
                        Cell::words(first.replace('`', "")).toned(Tone::Quiet),
                    ],
                    details: vec![
                        ("reason".to_owned(), shown(reason)),
                        ("dropped".to_owned(), format!("{times} {}", drops.what)),
                        ("meaning".to_owned(), meaning.replace('`', "")),
                        ("metric".to_owned(), drops.explained_at.to_owned()),
                    ],
                });
            }
        }
    }
    Sheet::of(&COLUMNS, rows, "Nothing was dropped.")
}

/// The column of drops a second.
pub(super) const RATE: usize = 2;
const COLUMNS: [Column; 6] = [
    Column::words("AT", 6, 16, 0),
    Column::words("REASON", 14, 26, 0),
    Column::amount("PER S", 6, 0),
    Column::amount("IN ALL", 6, 1),
    Column::words("OF", 9, 9, 3),
    Column::words("MEANS", 20, 200, 2),
];

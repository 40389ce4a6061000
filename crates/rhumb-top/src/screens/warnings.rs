//! What is wrong, and what to do.

use super::Seen;
use crate::sheet::{Cell, Column, Row, Sheet, Tone};
use crate::text::shown;

pub(super) fn sheet(seen: &Seen<'_>) -> Sheet {
    let mut rows = Vec::new();
    for daemon in seen.daemons {
        for (number, warning) in daemon.warnings(seen.now).into_iter().enumerate() {
            let [found, advice] = [warning.found, warning.advice].map(|it| shown(&it));
            rows.push(Row {
                key: format!("{} {number}", daemon.place()),
                cells: vec![
                    seen.owner(daemon),
                    Cell::words(found.clone()).toned(Tone::Warning),
                    Cell::words(advice.clone()),
                ],
                details: vec![
                    ("asked at".to_owned(), shown(daemon.place())),
                    ("found".to_owned(), found),
                    ("what to do".to_owned(), advice),
                ],
            });
        }
    }
    Sheet::of(&COLUMNS, rows, "Nothing to warn of.")
}

const COLUMNS: [Column; 3] = [
    Column::words("AT", 6, 16, 0),
    Column::words("FOUND", 30, 200, 0),
    Column::words("WHAT TO DO", 20, 200, 1),
];

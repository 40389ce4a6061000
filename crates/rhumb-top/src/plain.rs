//! A screen as text, for terminals that can do no more, for files and for programs.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::screens::Screen;
use crate::sheet::{GAP, Sheet};
use crate::text::fitted;

/// A heading, the titles of columns, and a line for each row.
pub(crate) fn table(sheet: &Sheet, screen: Screen, daemons: usize, columns: usize) -> String {
    let mut lines = vec![format!("{}, {}", screen.title(), of_daemons(daemons))];
    if sheet.rows.is_empty() {
        lines.push(sheet.empty.to_owned());
        return lines.join("\n");
    }
    let widths = sheet.widths(columns);
    let shown =
        || sheet.columns.iter().zip(&widths).filter_map(|(it, width)| Some((it, (*width)?)));
    let gap = " ".repeat(GAP);
    let line = |texts: Vec<String>| texts.join(&gap).trim_end().to_owned();
    lines.push(line(shown().map(|(it, width)| fitted(it.title, width, it.is_right)).collect()));
    for row in &sheet.rows {
        let cells = row.cells.iter().zip(sheet.columns).zip(&widths);
        let texts = cells.filter_map(|((cell, column), width)| {
            Some(fitted(&cell.text, (*width)?, column.is_right))
        });
        lines.push(line(texts.collect()));
    }
    lines.join("\n")
}

/// The same as an object: a list of rows, each by the titles of columns; amounts as numbers.
pub(crate) fn object(sheet: &Sheet, screen: Screen, now: Duration) -> Value {
    let row = |row: &crate::sheet::Row| {
        let cells = sheet.columns.iter().zip(&row.cells);
        let of = |(column, cell): (&crate::sheet::Column, &crate::sheet::Cell)| {
            let key = column.title.to_lowercase().replace([' ', '/'], "_");
            let value = match (column.is_right, cell.number()) {
                (true, Some(number)) => json!(number),
                (true, None) => Value::Null,
                (false, _) => json!(cell.text),
            };
            (key, value)
        };
        Value::Object(cells.map(of).collect::<Map<String, Value>>())
    };
    json!({
        "screen": screen.title().to_lowercase(),
        "at_s": now.as_secs_f64(),
        "rows": sheet.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

/// How many daemons there are, in words.
pub(crate) fn of_daemons(daemons: usize) -> String {
    match daemons {
        0 => "no daemon".to_owned(),
        1 => "1 daemon".to_owned(),
        _ => format!("{daemons} daemons"),
    }
}

//! What the reader of configuration files says about a value of the
//! wrong kind, in words and with the key's name.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::value::{Fault, line_at};

/// What is wrong with a text that is not read as what it should be.
pub(super) fn fault(text: &str, error: &toml::de::Error) -> Fault {
    let span = error.span();
    let key = span.as_ref().and_then(|span| key_at(text, span.start));
    Fault { line: line_at(text, span.as_ref()), problem: in_words(error.message(), key.as_ref()) }
}

/// A key, and the table it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    table: String,
    key: Option<String>,
}

impl Place {
    fn shown(&self) -> String {
        match (&self.key, self.table.as_str()) {
            (Some(key), "") => format!("`{key}`"),
            (Some(key), table) => format!("`{key}` in [{table}]"),
            (None, table) => format!("[{table}]"),
        }
    }
}

/// Says it again: `message` is the reader's.
fn in_words(message: &str, place: Option<&Place>) -> String {
    if let Some(field) = message.strip_prefix("missing field `").and_then(|it| it.split('`').next())
    {
        let place = place.map_or(String::new(), |place| format!(" in [{}]", place.whole()));
        return format!("`{field}` is missing{place}");
    }
    let Some(place) = place else { return message.to_owned() };
    if message.starts_with("data did not match any variant") {
        return format!("{} is neither a number nor text in quotes", place.shown());
    }
    let rest = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|rest| rest.split_once(", expected "));
    let Some((found, expected)) = rest else { return message.to_owned() };
    match (found, expected.trim()) {
        ("map", "a sequence") => format!(
            "[{}] may be there several times; write it in double brackets, [[{}]]",
            place.whole(),
            place.whole()
        ),
        (found, expected) => {
            format!("{} is {}; give {}", place.shown(), found_word(found), wanted_word(expected))
        }
    }
}

impl Place {
    /// The key with the tables that it is in.
    fn whole(&self) -> String {
        match (&self.key, self.table.as_str()) {
            (Some(key), "") => key.clone(),
            (Some(key), table) => format!("{table}.{key}"),
            (None, table) => table.to_owned(),
        }
    }
}

fn found_word(found: &str) -> String {
    match found.split_once(' ') {
        Some(("string", text)) => format!("the text {text}"),
        Some(("integer", number)) => format!("the number {}", number.trim_matches('`')),
        Some(("floating", rest)) => {
            format!("the number {}", rest.trim_start_matches("point ").trim_matches('`'))
        }
        Some(("boolean", value)) => value.trim_matches('`').to_owned(),
        _ => match found {
            "map" => "a table".to_owned(),
            "sequence" => "a list".to_owned(),
            other => other.to_owned(),
        },
    }
}

fn wanted_word(expected: &str) -> String {
    let most = match expected {
        "u8" => Some(u64::from(u8::MAX)),
        "u16" => Some(u64::from(u16::MAX)),
        "u32" => Some(u64::from(u32::MAX)),
        "u64" | "usize" => Some(i64::MAX as u64),
        _ => None,
    };
    match (most, expected) {
        (Some(most), _) => format!("a whole number from 0 to {most}, without quotes"),
        (None, "a sequence") => "a list in brackets, as [\"this\", \"that\"]".to_owned(),
        (None, "a string" | "path string") => "text in quotes".to_owned(),
        (None, "a boolean") => "true or false, without quotes".to_owned(),
        (None, "a map") => "a table".to_owned(),
        (None, other) if other.starts_with("struct ") => "a table of keys and values".to_owned(),
        (None, other) => other.to_owned(),
    }
}

/// The innermost key whose value holds the byte `at`.
fn key_at(text: &str, at: usize) -> Option<Place> {
    let root = DeTable::parse(text).ok()?;
    let mut place = Place { table: String::new(), key: None };
    descend(root.get_ref(), at, &mut place);
    (place != Place { table: String::new(), key: None }).then_some(place)
}

fn descend(table: &DeTable<'_>, at: usize, place: &mut Place) {
    for (key, value) in table {
        let (found, span) = (value.get_ref(), value.span());
        let tables = tables_of(found);
        // A table written in several places has the span of its first
        // header, so what is inside is asked as well.
        let inside = tables.iter().any(|table| holds(table, at));
        if !(inside || covers(&span, at)) {
            continue;
        }
        if let Some(before) = place.key.take() {
            place.table = join(&place.table, &before);
        }
        place.key = Some(key.get_ref().to_string());
        match tables.into_iter().find(|table| holds(table, at)) {
            Some(table) => return descend(table, at, place),
            None => return,
        }
    }
}

/// Whether a value's text holds a byte; an empty one holds the byte that it stands before.
fn covers(span: &Range<usize>, at: usize) -> bool {
    span.start <= at && at < span.end.max(span.start + 1)
}

fn join(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

fn tables_of<'a, 'b>(value: &'a DeValue<'b>) -> Vec<&'a DeTable<'b>> {
    match value {
        DeValue::Table(table) => vec![table],
        DeValue::Array(items) => items
            .iter()
            .filter_map(|item: &Spanned<DeValue<'_>>| item.get_ref().as_table())
            .collect(),
        _ => Vec::new(),
    }
}

fn holds(table: &DeTable<'_>, at: usize) -> bool {
    table.values().any(|value| {
        let span = value.span();
        let is_nested = matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_));
        covers(&span, at)
            || (is_nested && tables_of(value.get_ref()).iter().any(|table| holds(table, at)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::raw::parse;

    #[test]
    fn a_value_of_the_wrong_kind_is_named_and_what_is_wanted_is_said() {
        let cases = [
            (
                "[router]\ncoalesce_us = \"long\"",
                2,
                "`coalesce_us` in [router] is the text \"long\"; give a whole number from 0 to 65535, without quotes",
            ),
            (
                "[router]\nlease_s = -1",
                2,
                "`lease_s` in [router] is the number -1; give a whole number from 0 to 4294967295, without quotes",
            ),
            (
                "[router]\nrib = \"x\"",
                2,
                "`rib` in [router] is the text \"x\"; give a list in brackets, as [\"this\", \"that\"]",
            ),
            ("[rib]\nkey = 5", 2, "`key` in [rib] is the number 5; give text in quotes"),
            ("log = 1.5", 1, "`log` is the number 1.5; give text in quotes"),
            (
                "[router]\npin = \"yes\"",
                2,
                "`pin` in [router] is the text \"yes\"; give true or false, without quotes",
            ),
            (
                "[router]\nworkers = true",
                2,
                "`workers` in [router] is neither a number nor text in quotes",
            ),
            (
                "[router.access]\nname = \"x\"",
                1,
                "[router.access] may be there several times; write it in double brackets, [[router.access]]",
            ),
            ("rib = 5", 1, "`rib` is the number 5; give a table of keys and values"),
            (
                "[[keyserver.waypoint]]\nmaster = \"m\"",
                1,
                "`address` is missing in [keyserver.waypoint]",
            ),
        ];
        for (text, line, problem) in cases {
            let fault = parse(text).unwrap_err();
            assert_eq!((fault.line, fault.problem.as_str()), (line, problem), "{text}");
        }
    }
}

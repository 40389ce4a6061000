//! `rhumb rib list`: the names that a running RIB stores, a page at a time.
//!
//! The RIB is asked over its admin socket, and reads one page of its store for it. What is called
//! something in this machine's book is shown so; a holder's own word for itself is shown as that.

use std::fmt;
use std::io::Read;
use std::time::Duration;

use rhumb_daemon::admin::{self, Admin};
use rhumb_daemon::clock::span;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::names::{self, Book};
use rhumb_daemon::output::Form;
use rhumb_daemon::status;
use rhumb_daemon::stored_names::{Wanted, question_for};
use rhumb_rib::store::Beginning;
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::Value;

/// Runs the command: for names that begin or are called so, behind that one, and at most so many.
pub(crate) fn run(
    (begins, after, limit): (Option<&str>, Option<Name>, usize),
    admin: Option<Admin>,
    file: &ConfigFile,
    form: Form,
) -> Outcome {
    let beginning = begins.map(beginning).transpose()?.unwrap_or_default();
    let wanted = Wanted { beginning, after, limit };
    let admin = status::endpoint(admin, file)?;
    let Admin::Socket(socket) = &admin else {
        return Err(Failure::setup_text(format!(
            "names say who is where, so a RIB lists them by a Unix socket only, and {admin} is none; \
             start the RIB with --admin alone, or with a path"
        )));
    };
    let question = question_for(&wanted);
    let (head, mut stream) = admin::open(socket, &question, DEADLINE)
        .map_err(|error| status::not_answered(&admin, &error))?;
    if !head.contains(" 200 ") {
        let mut problem = String::new();
        let _ = stream.take(MAX_PROBLEM_LEN).read_to_string(&mut problem);
        let problem = problem.trim_end();
        return Err(Failure::setup_text(format!("no names are listed at {admin}: {problem}")));
    }
    let mut text = String::new();
    let read = stream.by_ref().take(MAX_PAGE_LEN).read_to_string(&mut text);
    read.map_err(|error| status::not_answered(&admin, &error))?;
    let page = serde_json::from_str(&text).map_err(|_| {
        Failure::operation_text(format!("what answers at {admin} breaks off, or is no RIB"))
    })?;
    form.print(&Listed { page, begins: begins.unwrap_or_default().to_owned() });
    Ok(())
}

/// What the book calls so, or else how names begin.
fn beginning(text: &str) -> Outcome<Beginning> {
    let book = Book::read()?;
    let mut called = book.entries().filter(|it| it.label.as_str() == text).map(|it| it.name);
    match (called.next(), called.next()) {
        (Some(one), None) => Ok(one.to_string().parse().expect("invariant: a name begins so")),
        (Some(_), Some(_)) => Err(Failure::setup_text(format!(
            "{text} stands for several names here (rhumb name list shows them): give one of them"
        ))),
        (None, _) => text.parse().map_err(|problem| {
            Failure::setup_text(format!("{text} is not called so here, and {problem}"))
        }),
    }
}

/// A page, as it was told.
#[derive(Serialize)]
#[serde(transparent)]
struct Listed {
    page: Value,
    #[serde(skip)]
    begins: String,
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.page["names"].as_array().map_or(&[][..], Vec::as_slice);
        if names.is_empty() {
            write!(f, "no such name is stored")?;
        }
        for (at, name) in names.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write_name(f, name)?;
        }
        if let Some(next) = self.page["next"].as_str() {
            let begins = &self.begins;
            let of = if begins.is_empty() { String::new() } else { format!("{begins} ") };
            write!(f, "\nmore: rhumb rib list {of}--after {next}")?;
        }
        Ok(())
    }
}

fn write_name(f: &mut fmt::Formatter<'_>, told: &Value) -> fmt::Result {
    write!(f, "{}", names::with_labels(text(&told["name"])))?;
    if told["is_damaged"] == true {
        return write!(f, "\n  cannot be read back: have it published again");
    }
    write!(f, " {}", text(&told["role"]))?;
    if let Some(label) = told["calls_itself"].as_str() {
        write!(f, ", {}", names::said(label))?;
    }
    write!(f, ", by {}", names::with_labels(text(&told["published_by"])))?;
    if told["of_a_stranger"] == true {
        write!(f, ", a stranger")?;
    }
    let statements = told["statements"].as_array().map_or(&[][..], Vec::as_slice);
    for said in statements {
        write!(f, "\n  {}", text(&said["kind"]))?;
        for (key, word) in [("via", "via"), ("with", "with"), ("up_to", "up to"), ("address", "at")]
        {
            if let Some(value) = said[key].as_str() {
                write!(f, " {word} {}", names::with_labels(value))?;
            }
        }
        if let Some(count) = said["names"].as_u64() {
            write!(f, " ({count} called something under it)")?;
        }
        let left = span(said["ends_in_s"].as_u64().unwrap_or(0));
        write!(f, ", number {}, for {left} more", said["sequence"])?;
    }
    if statements.is_empty() {
        let left = span(told["remembered_for_s"].as_u64().unwrap_or(0));
        write!(f, "\n  nothing holds; its numbers are remembered for {left} more")?;
    }
    Ok(())
}

/// What a RIB told, without what a terminal would obey.
fn text(value: &Value) -> &str {
    let text = value.as_str().unwrap_or("?");
    if text.contains(char::is_control) { "?" } else { text }
}

/// A RIB answers within two seconds, or says that it is busy.
const DEADLINE: Duration = Duration::from_secs(5);
/// A hundred names with eleven statements each.
const MAX_PAGE_LEN: u64 = 4 << 20;
/// A sentence or two.
const MAX_PROBLEM_LEN: u64 = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn people_read_who_says_what_and_where_to_go_on() {
        let (one, by) = (Name([1; 32]).to_string(), Name([2; 32]).to_string());
        let page = json!({"names": [
            {"name": one, "role": "node", "calls_itself": "a\u{1b}[2J", "published_by": by,
             "of_a_stranger": true, "remembered_for_s": 900, "statements": [
                {"kind": "route", "via": by, "sequence": 7, "ends_in_s": 60},
                {"kind": "locator", "address": "192.0.2.1:7460", "sequence": 8, "ends_in_s": 60}]},
            {"name": by, "is_damaged": true},
            {"name": by, "role": "node", "published_by": by, "remembered_for_s": 9, "statements": []},
        ], "next": by});
        let shown = Listed { page, begins: "ae".to_owned() }.to_string();
        for said in [
            &format!("{one} node, calls itself \"a\\u{{1b}}[2J\", by {by}, a stranger"),
            &format!("  route via {by}, number 7, for "),
            "  locator at 192.0.2.1:7460, number 8",
            "cannot be read back",
            "nothing holds",
            &format!("more: rhumb rib list ae --after {by}"),
        ] {
            assert!(shown.contains(said), "{said}: {shown}");
        }
        assert!(!shown.contains('\u{1b}'));
        let none = Listed { page: json!({"names": [], "next": null}), begins: String::new() };
        assert_eq!(none.to_string(), "no such name is stored");
    }
}

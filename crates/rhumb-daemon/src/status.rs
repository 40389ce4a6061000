//! Asks a running daemon over its admin endpoint what it is doing, and shows it.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::admin::Admin;
use crate::config::ConfigFile;
use crate::failure::{Failure, Outcome};
use crate::names;
use crate::output::Form;

/// Shows what the daemon at `admin` is doing, or else the one that the file or the usual place
/// names.
pub fn ask(admin: Option<Admin>, with_flows: bool, file: &ConfigFile, form: Form) -> Outcome {
    form.print(&Report { status: of(admin, file)?, with_flows });
    Ok(())
}

/// What the daemon at `admin` tells, or else the one that the file or the usual place names.
pub fn of(admin: Option<Admin>, file: &ConfigFile) -> Outcome<Value> {
    let admin = endpoint(admin, file)?;
    fetch(&admin).map_err(|error| not_answered(&admin, &error))
}

/// The endpoint that was given, or else the one that the file or the usual place names.
pub fn endpoint(admin: Option<Admin>, file: &ConfigFile) -> Outcome<Admin> {
    match admin {
        Some(Admin::Usual) => Admin::find(),
        Some(admin) => Ok(admin.asked()),
        None => match file.any_admin()? {
            Some(admin) => Ok(admin),
            None => Admin::find(),
        },
    }
}

/// The one daemon of this user that has a socket at the usual place.
pub fn found() -> Outcome<Admin> {
    Admin::find()
}

/// Why nothing came from an endpoint, and what to do.
pub fn not_answered(admin: &Admin, error: &std::io::Error) -> Failure {
    Failure::setup_text(match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            format!("admin socket {admin} answers its own user and root only ({error})")
        }
        _ => format!(
            "nothing answers at admin {} ({error}); was it started with --admin?",
            kind(admin)
        ),
    })
}

/// Prints a status that was had in another way.
pub fn show(status: Value, form: Form) {
    form.print(&Report { status, with_flows: false });
}

/// An endpoint with what it is.
fn kind(admin: &Admin) -> String {
    match admin {
        Admin::Address(_) => format!("address {admin}"),
        _ => format!("socket {admin}"),
    }
}

/// The status that the daemon at `admin` tells.
pub fn fetch(admin: &Admin) -> std::io::Result<Value> {
    let answer = admin.ask("/status", DEADLINE)?;
    read(answer.as_bytes()).map_err(|why| match why {
        NoStatus::Refused => std::io::ErrorKind::PermissionDenied.into(),
        NoStatus::Busy | NoStatus::Foreign => {
            std::io::Error::new(std::io::ErrorKind::InvalidData, "it does not speak to us")
        }
    })
}

/// The status in all that a daemon answered.
pub fn read(answer: &[u8]) -> Result<Value, NoStatus> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or(NoStatus::Foreign)?;
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    match head.get(..13) {
        Some(b"HTTP/1.1 200 ") => serde_json::from_slice(body).map_err(|_| NoStatus::Foreign),
        Some(b"HTTP/1.1 403 ") => Err(NoStatus::Refused),
        Some(b"HTTP/1.1 503 ") => Err(NoStatus::Busy),
        _ => Err(NoStatus::Foreign),
    }
}

/// Why there is no status in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoStatus {
    /// It is for its own user and root only.
    Refused,
    /// It has too many who ask.
    Busy,
    /// No daemon answers so.
    Foreign,
}

/// What a daemon told.
#[derive(Serialize)]
#[serde(transparent)]
struct Report {
    status: Value,
    /// Whether people see the flows; programs always do.
    #[serde(skip)]
    with_flows: bool,
}

impl fmt::Display for Report {
    /// Who it is first, then everything else.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |key: &str| self.status[key].as_str().unwrap_or("?");
        let name = names::with_labels(text("name"));
        write!(f, "{} {name} at {}", text("role"), text("address"))?;
        if let Some(uptime_s) = self.status["uptime_s"].as_u64() {
            write!(f, ", up for {uptime_s} s")?;
        }
        let mut rest = self.status.clone();
        if let Value::Object(object) = &mut rest {
            // The tables tell the sizes again, together with what they are bounded by.
            let tables = object.get("tables").cloned().unwrap_or_default();
            object.retain(|key, value| {
                let is_told_again = value.is_number() && tables.get(key).is_some();
                let is_for_others = key == "newest_flows" && !self.with_flows;
                !(HEAD.contains(&key.as_str()) || is_told_again || is_for_others)
            });
        }
        let mut text = String::new();
        outline(&rest, 0, &mut text);
        write!(f, "\n{}", text.trim_end())
    }
}

/// Entries of a table and the most that there may be.
fn fill(value: &Value) -> Option<(u64, u64)> {
    Some((value.get("used")?.as_u64()?, value.get("bound")?.as_u64()?))
}

/// An indented outline. What is zero or empty is left out: people look for what is there.
fn outline(value: &Value, depth: usize, out: &mut String) {
    let Value::Object(object) = value else { return };
    let indent = "  ".repeat(depth);
    for (key, value) in object {
        let title = key.replace('_', " ");
        match value {
            Value::Null => {}
            Value::Number(number) if number.as_u64() == Some(0) => {}
            Value::Object(inner) if inner.values().all(|value| value.as_u64() == Some(0)) => {}
            value if fill(value).is_some() => {
                let (used, bound) = fill(value).unwrap_or_default();
                if used > 0 {
                    out.push_str(&format!("{indent}{title}: {used} of {bound}\n"));
                }
            }
            Value::Object(_) if ON_ONE_LINE.contains(&key.as_str()) => {
                out.push_str(&format!("{indent}{title}: {}\n", line(value)));
            }
            Value::Object(_) => {
                out.push_str(&format!("{indent}{title}:\n"));
                outline(value, depth + 1, out);
            }
            Value::Array(items) if items.is_empty() => {}
            Value::Array(items) => {
                out.push_str(&format!("{indent}{title}:\n"));
                for item in items {
                    out.push_str(&format!("{indent}  {}\n", line(item)));
                }
            }
            value => out.push_str(&format!("{indent}{title}: {}\n", line(value))),
        }
    }
}

/// One item of a list, on one line.
fn line(value: &Value) -> String {
    match value {
        Value::String(text) => names::with_labels(text),
        Value::Object(object) => {
            let shown = object.iter().filter(|(_, value)| !value.is_null());
            let parts: Vec<String> = shown
                .map(|(key, value)| match key.strip_suffix("_s") {
                    _ if key == CLAIM => names::said(value.as_str().unwrap_or_default()),
                    Some(key) => format!("{} {} s", key.replace('_', " "), line(value)),
                    None => format!("{} {}", key.replace('_', " "), line(value)),
                })
                .collect();
            parts.join(", ")
        }
        other => other.to_string(),
    }
}

/// A label in somebody's metadata: shown as that holder's own word.
const CLAIM: &str = "calls_itself";
/// Objects that read best as one line.
const ON_ONE_LINE: [&str; 2] = ["own_statement", "membership"];
/// What stands in the first line.
const HEAD: [&str; 4] = ["role", "name", "address", "uptime_s"];
/// A worker answers within milliseconds.
const DEADLINE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_there_is_shown_and_zeros_are_not() {
        let status = json!({
            "role": "router",
            "name": "xyz",
            "address": "127.0.0.1:9",
            "uptime_s": 7,
            "flows": 0,
            "drops": {"replayed": 0},
            "counters": {"forwarded_pdus": 5, "nacks": 0},
            "sessions": [{"peer": "abc", "age_s": 3, "note": null}],
            "attached": [],
            "grants": 2,
            "tables": {"grants": {"used": 2, "bound": 9}, "routes": {"used": 0, "bound": 9}},
            "own_statement": {"says": "at 192.0.2.1:1", "expires_in_s": 9},
            "newest_flows": [{"source": "abc", "destination": "def", "expires_in_s": 4}],
        });
        let shown = |with_flows| Report { status: status.clone(), with_flows }.to_string();
        assert!(
            shown(true).contains("newest flows:\n  destination def, expires in 4 s, source abc")
        );
        let text = shown(false);
        let (head, rest) = text.split_once('\n').unwrap();
        assert_eq!(head, "router xyz at 127.0.0.1:9, up for 7 s");
        let mut lines: Vec<&str> = rest.lines().collect();
        lines.sort_unstable();
        let expected = [
            "  age 3 s, peer abc",
            "  forwarded pdus: 5",
            "  grants: 2 of 9",
            "counters:",
            "own statement: expires in 9 s, says at 192.0.2.1:1",
            "sessions:",
            "tables:",
        ];
        assert_eq!(lines, expected);
    }
}

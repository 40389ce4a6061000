//! `rhumb status`: asks a running RIB or router over its admin endpoint what it is doing.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::config::ConfigFile;
use crate::failure::{Failure, Outcome};
use crate::output::Form;

/// Runs the command.
pub(crate) fn run(admin: Option<SocketAddr>, file: &ConfigFile, form: Form) -> Outcome {
    let admin = match admin {
        Some(admin) => admin,
        None => file.any_admin()?.ok_or_else(|| {
            Failure::setup_text(
                "no admin address; give --admin ADDR, the one the RIB or router was started with",
            )
        })?,
    };
    let status = fetch(admin).map_err(|error| {
        Failure::setup_text(format!(
            "nothing answers at admin address {admin} ({error}); was it started with --admin?"
        ))
    })?;
    form.print(&Report(status));
    Ok(())
}

/// The status that the daemon at `admin` tells.
pub(crate) fn fetch(admin: SocketAddr) -> std::io::Result<Value> {
    let mut stream = TcpStream::connect_timeout(&admin, DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    write!(stream, "GET /status HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER_LEN).read_to_string(&mut answer)?;
    let bad = || std::io::Error::new(std::io::ErrorKind::InvalidData, "it does not speak to us");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(bad)?;
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(bad());
    }
    serde_json::from_str(body).map_err(|_| bad())
}

#[derive(Serialize)]
struct Report(Value);

impl fmt::Display for Report {
    /// Who it is first, then everything else.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |key: &str| self.0[key].as_str().unwrap_or("?");
        write!(f, "{} {} at {}", text("role"), text("name"), text("address"))?;
        if let Some(uptime_s) = self.0["uptime_s"].as_u64() {
            write!(f, ", up for {uptime_s} s")?;
        }
        let mut rest = self.0.clone();
        if let Value::Object(object) = &mut rest {
            object.retain(|key, _| !HEAD.contains(&key.as_str()));
        }
        let mut text = String::new();
        outline(&rest, 0, &mut text);
        write!(f, "\n{}", text.trim_end())
    }
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
        Value::String(text) => text.clone(),
        Value::Object(object) => {
            let shown = object.iter().filter(|(_, value)| !value.is_null());
            let parts: Vec<String> = shown
                .map(|(key, value)| match key.strip_suffix("_s") {
                    Some(key) => format!("{} {} s", key.replace('_', " "), line(value)),
                    None => format!("{} {}", key.replace('_', " "), line(value)),
                })
                .collect();
            parts.join(", ")
        }
        other => other.to_string(),
    }
}

/// What stands in the first line.
const HEAD: [&str; 4] = ["role", "name", "address", "uptime_s"];
/// A worker answers within milliseconds.
const DEADLINE: Duration = Duration::from_secs(3);
/// A router with very many sessions lists them all.
const MAX_ANSWER_LEN: u64 = 64 << 20;

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
        });
        let text = Report(status).to_string();
        let (head, rest) = text.split_once('\n').unwrap();
        assert_eq!(head, "router xyz at 127.0.0.1:9, up for 7 s");
        let mut lines: Vec<&str> = rest.lines().collect();
        lines.sort_unstable();
        let expected = ["  age 3 s, peer abc", "  forwarded pdus: 5", "counters:", "sessions:"];
        assert_eq!(lines, expected);
    }
}

//! What commands print: one line or table for people, or one JSON object a line for programs.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

/// In which form a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Form {
    /// By the flag `--json`.
    pub fn from_flag(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }

    /// Prints `report` on standard output, at once: who waits for a daemon's line reads a pipe.
    pub fn print<R: Serialize + fmt::Display>(self, report: &R) {
        print_line(&self.text(report));
    }

    /// The same on standard error, where standard output is for something else.
    pub fn print_beside<R: Serialize + fmt::Display>(self, report: &R) {
        remark(format_args!("{}", self.text(report)));
    }

    fn text<R: Serialize + fmt::Display>(self, report: &R) -> String {
        match self {
            Self::Text => report.to_string(),
            Self::Json => serde_json::to_string(report)
                .expect("invariant: reports have string keys and finite numbers"),
        }
    }

    /// Prints a line for people; nothing for programs.
    pub fn say(self, line: &str) {
        if self == Self::Text {
            print_line(line);
        }
    }
}

/// A closed pipe is no reason to panic: whoever read our output has seen enough.
fn print_line(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// A line for people beside what a command prints: on standard error, so
/// that who reads its output need not know of it. A closed pipe is no reason to panic here, either.
pub fn remark(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// `bytes` for people, in decimal units.
pub fn bytes_text(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// How much of a file was there from before, behind its size; nothing if none was.
pub fn resumed_text(from: u64) -> String {
    match from {
        0 => String::new(),
        from => format!(", of which {} were there", bytes_text(from)),
    }
}

/// `bytes` in `elapsed` for people.
pub fn rate_text(bytes: u64, elapsed: Duration) -> String {
    let mbit_s = bytes as f64 * 8e-6 / elapsed.as_secs_f64().max(1e-9);
    format!("{mbit_s:.0} Mbit/s")
}

/// A round trip for people.
pub fn round_trip_text(round_trip: Duration) -> String {
    format!("{:.3} ms", round_trip.as_secs_f64() * 1e3)
}

const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        assert_eq!(bytes_text(999), "999 B");
        assert_eq!(bytes_text(1000), "1.0 kB");
        assert_eq!(bytes_text(67_108_864), "67.1 MB");
        assert_eq!(rate_text(125_000, Duration::from_millis(1)), "1000 Mbit/s");
        assert_eq!(resumed_text(0), "");
        assert_eq!(resumed_text(1_500), ", of which 1.5 kB were there");
        assert_eq!(round_trip_text(Duration::from_micros(1_234)), "1.234 ms");
        assert_eq!(bytes_text(u64::MAX), "18446744.1 TB");
    }
}

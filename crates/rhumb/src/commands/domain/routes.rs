//! `rhumb domain routes`: which domains a running RIB reaches by which neighbours. It is all in the
//! RIB's status; this says it in lines, the way that is taken first, and why.

use std::fmt;

use rhumb_daemon::cli::RoutesArguments;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::Form;
use rhumb_daemon::{names, status};
use serde::Serialize;
use serde_json::Value;

pub(super) fn run(arguments: &RoutesArguments, file: &ConfigFile, form: Form) -> Outcome {
    let mut status = status::of(arguments.admin.clone(), file)?;
    let Value::Array(mut reached) = status["reached"].take() else {
        return Err(Failure::setup_text("this is no RIB with neighbours: it knows no such routes"));
    };
    if let Some(domain) = arguments.domain {
        reached.retain(|it| it["domain"] == domain.to_string());
    }
    form.print(&Report(reached));
    Ok(())
}

#[derive(Serialize)]
#[serde(transparent)]
struct Report(Vec<Value>);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        for reached in &self.0 {
            lines.push(known(&reached["domain"]));
            let ways: Vec<&Value> = reached["ways"].as_array().into_iter().flatten().collect();
            for (at, way) in ways.iter().enumerate() {
                lines.push(line(way, at.checked_sub(1).map(|before| ways[before])));
            }
            if ways.is_empty() {
                lines.push("  by nobody now".to_owned());
            }
        }
        match lines.is_empty() {
            true => f.write_str("no neighbour leads anywhere"),
            false => f.write_str(&lines.join("\n")),
        }
    }
}

/// One way, and what puts it behind the one before it.
fn line(way: &Value, before: Option<&Value>) -> String {
    let mark = if before.is_none() { ">" } else { " " };
    let path: Vec<String> = way["path"].as_array().into_iter().flatten().map(known).collect();
    // From the neighbour, whom the line begins with, to the domain that it is about.
    let through = match &path[..] {
        [_, between @ .., _] if !between.is_empty() => {
            let between: Vec<&str> = between.iter().rev().map(String::as_str).collect();
            format!(", through {}", between.join(", "))
        }
        _ => String::new(),
    };
    let why = before.map_or(String::new(), |before| format!(": {}", behind(way, before)));
    let relation = way["relation"].as_str().unwrap_or("?");
    let (preference, cost) = (&way["preference"], &way["cost"]);
    let told = if way["through"] == "exchange" { ", told through the exchange" } else { "" };
    format!(
        "{mark} by {} ({relation}{told}), preference {preference}, cost {cost}{through}{why}",
        known(&way["by"])
    )
}

fn behind(way: &Value, before: &Value) -> &'static str {
    let len = |way: &Value| way["path"].as_array().map_or(0, Vec::len);
    if way["stale"] != before["stale"] {
        match way["through"] == "exchange" {
            true => "it is not heard through the exchange",
            false => "its RIBs are away",
        }
    } else if way["preference"] != before["preference"] {
        "it is liked less"
    } else if way["cost"] != before["cost"] {
        "it costs more"
    } else if len(way) != len(before) {
        "it leads through more domains"
    } else {
        "it is as good, and comes later by name"
    }
}

/// A name with what the book of names calls it.
fn known(name: &Value) -> String {
    names::with_labels(name.as_str().unwrap_or("?"))
}

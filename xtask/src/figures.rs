//! `cargo xtask figures`: measures the series behind the papers' figures, writes the raw numbers to
//! `docs/figures` and draws them. The measuring is that of benches, which print one JSON object:
//! the switch's, and Platypus's.

mod chart;
mod platypus;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::arguments::{Figures, FiguresOptions};
use crate::metadata::cargo;
use crate::process::{self, Echo};
use chart::{Axis, Chart, Line, Scale};

/// Writes all files; true when everything could be measured.
pub(crate) fn run(root: &Path, options: &FiguresOptions) -> bool {
    match try_run(root, options) {
        Ok(()) => true,
        Err(problem) => {
            eprintln!("figures: {problem}");
            false
        }
    }
}

fn try_run(root: &Path, options: &FiguresOptions) -> Result<(), String> {
    let commit = commit(root)?;
    if options.of != Some(Figures::Platypus) {
        write_switch(root, &options.date, &commit)?;
    }
    if options.of != Some(Figures::Switch) {
        platypus::write(root, &options.date, &commit)?;
    }
    Ok(())
}

fn write_switch(root: &Path, date: &str, commit: &str) -> Result<(), String> {
    let measured = measure(root, &["-p", "rhumb-switch", "--bench", "switch", "--", "figures"])?;
    let folder = Folder::new(root, "docs/figures")?;
    for (series, columns) in TABLES {
        folder.write(&format!("{series}.csv"), csv(&measured[series], columns)?)?;
    }
    for (name, chart) in charts(&measured) {
        folder.write(&format!("{name}.svg"), chart.svg())?;
    }
    folder.write("README.md", readme(README_HEAD, &measured["conditions"], date, commit))
}

/// Where files go.
struct Folder(PathBuf);

impl Folder {
    fn new(root: &Path, name: &str) -> Result<Self, String> {
        let path = root.join(name);
        std::fs::create_dir_all(&path).map_err(|error| format!("{name}: {error}"))?;
        Ok(Self(path))
    }

    fn write(&self, name: &str, text: String) -> Result<(), String> {
        std::fs::write(self.0.join(name), text).map_err(|error| format!("{name}: {error}"))
    }
}

/// Runs a bench; the object it prints.
fn measure(root: &Path, words: &[&str]) -> Result<Value, String> {
    let mut bench = Command::new(cargo());
    bench.current_dir(root).args(["bench", "--quiet"]).args(words);
    let finished = process::run(&mut bench, DEADLINE, Echo::ErrorsShown)?;
    if !finished.succeeded() {
        return Err(format!("the bench {}", finished.end));
    }
    let mut objects = finished.output.lines().filter_map(|line| serde_json::from_str(line).ok());
    objects.next().ok_or_else(|| "the bench printed no object".to_owned())
}

/// The commit that is measured, and whether the code was as it says.
fn commit(root: &Path) -> Result<String, String> {
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(root).args(words);
        let finished = process::run(&mut command, GIT_DEADLINE, Echo::Kept)?;
        let said = finished.output.trim().to_owned();
        if finished.succeeded() { Ok(said) } else { Err(format!("git: {said}")) }
    };
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--", "crates", "Cargo.toml", "Cargo.lock"])?;
    Ok(if changes.is_empty() { head } else { format!("{head}, with changes") })
}

/// One line for each row, in the order measured.
fn csv(rows: &Value, columns: &[&str]) -> Result<String, String> {
    let rows = rows.as_array().filter(|rows| !rows.is_empty()).ok_or("a series is missing")?;
    let mut out = columns.join(",") + "\n";
    for row in rows {
        let cells = columns.iter().map(|column| match &row[column] {
            Value::String(text) => Ok(text.replace(',', ";")),
            Value::Number(number) => Ok(number.to_string()),
            other => Err(format!("{column} is {other}")),
        });
        let cells: Vec<String> = cells.collect::<Result<_, _>>()?;
        out += &(cells.join(",") + "\n");
    }
    Ok(out)
}

fn charts(measured: &Value) -> Vec<(&'static str, Chart)> {
    // Without the cipher nothing touches the payload in memory: no throughput worth a line.
    let encrypted: Value = measured["memory"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|row| !row["forwarder"].as_str().is_some_and(|who| who.ends_with("cipher off")))
        .cloned()
        .collect();
    let sizes = |y: &'static str, scale, title: &str, rows, column| Chart {
        title: title.to_owned(),
        x: Axis { label: "payload, bytes", scale: Scale::Log, ticks: SIZES.to_vec() },
        y: Axis { label: y, scale, ticks: Vec::new() },
        lines: lines_by(rows, "forwarder", "payload", column),
    };
    let (sockets, memory) = (&measured["sockets"], &measured["memory"]);
    vec![
        (
            "figure-3-forwarding-rate",
            sizes(
                "Mpps per CPU second of the forwarder",
                Scale::Linear,
                "Forwarding rate by payload, on sockets",
                sockets,
                "mpps_per_core",
            ),
        ),
        (
            "figure-4-throughput",
            sizes(
                "Gbit per CPU second of the forwarder",
                Scale::Linear,
                "Throughput by payload, on sockets",
                sockets,
                "gbps_per_core",
            ),
        ),
        (
            "figure-3-in-memory",
            sizes(
                "Mpps, one core",
                Scale::Log,
                "Forwarding rate by payload, in memory",
                memory,
                "mpps",
            ),
        ),
        (
            "figure-4-in-memory",
            sizes(
                "Gbit/s, one core",
                Scale::Linear,
                "Throughput by payload, in memory",
                &encrypted,
                "gbps",
            ),
        ),
        ("figure-5-workers", workers(&measured["workers"])),
        ("figure-6-misses", misses(&measured["misses"], 1000.0)),
        ("figure-6-misses-64", misses(&measured["misses"], 64.0)),
    ]
}

/// Rates by the number of workers, and what they would be if each added what the first does.
fn workers(rows: &Value) -> Chart {
    let mut lines = Vec::new();
    for payload in distinct(rows, "payload") {
        let of_size = |row: &&Value| row["payload"].as_f64() == Some(payload);
        let rows: Vec<&Value> = rows.as_array().into_iter().flatten().filter(of_size).collect();
        let points = |column: &str| {
            rows.iter().filter_map(|row| point(row, "workers", column)).collect::<Vec<_>>()
        };
        let switch = points("switch_mpps");
        let first = switch.first().map_or(0.0, |point| point.1);
        let linear = switch.iter().map(|point| (point.0, point.0 * first)).collect();
        let line = |name: String, points, is_reckoned| Line { name, points, is_reckoned };
        lines.push(line(format!("switch, {payload} B"), switch, false));
        lines.push(line(format!("bare, {payload} B"), points("bare_mpps"), false));
        lines.push(line(format!("linear, {payload} B"), linear, true));
    }
    Chart {
        title: "Forwarding rate by workers, in memory, a core each".to_owned(),
        x: Axis {
            label: "workers",
            scale: Scale::Linear,
            ticks: distinct(rows, "workers").into_iter().collect(),
        },
        y: Axis { label: "Mpps, together", scale: Scale::Linear, ticks: Vec::new() },
        lines,
    }
}

/// Rates of known names by the share of misses, and what the share alone would leave.
fn misses(rows: &Value, payload: f64) -> Chart {
    let of_size = |row: &&Value| row["payload"].as_f64() == Some(payload);
    let rows: Vec<&Value> = rows.as_array().into_iter().flatten().filter(of_size).collect();
    let points = |column: &str| {
        rows.iter().filter_map(|row| point(row, "share", column)).collect::<Vec<_>>()
    };
    let few = points("few_mpps");
    let full = few.first().map_or(0.0, |point| point.1);
    let expected = few.iter().map(|point| (point.0, (1.0 - point.0) * full)).collect();
    let line =
        |name: &str, points, is_reckoned| Line { name: name.to_owned(), points, is_reckoned };
    Chart {
        title: format!("Known names by the share of misses, {payload} B, in memory"),
        x: Axis {
            label: "share of datagrams for names that are absent",
            scale: Scale::Linear,
            ticks: (0..10).map(|tenth| f64::from(tenth) / 10.0).collect(),
        },
        y: Axis { label: "Mpps to known names, one core", scale: Scale::Linear, ticks: Vec::new() },
        lines: vec![
            line("expected: share x full rate", expected, true),
            line("absent names, the same 256", few, false),
            line("absent names, always new", points("fresh_mpps"), false),
            line("bare loop, which drops them", points("bare_mpps"), false),
        ],
    }
}

/// A line for each value of `by`, in the order in which they first appear.
fn lines_by(rows: &Value, by: &str, x: &str, y: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows.as_array().into_iter().flatten() {
        let (Some(name), Some(point)) = (row[by].as_str(), point(row, x, y)) else { continue };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => {
                lines.push(Line { name: name.to_owned(), points: vec![point], is_reckoned: false });
            }
        }
    }
    lines
}

fn point(row: &Value, x: &str, y: &str) -> Option<(f64, f64)> {
    Some((row[x].as_f64()?, row[y].as_f64()?))
}

/// The whole numbers that a column has, in order.
fn distinct(rows: &Value, column: &str) -> Vec<f64> {
    let values = rows.as_array().into_iter().flatten().filter_map(|row| row[column].as_u64());
    let values: BTreeSet<u32> = values.filter_map(|value| u32::try_from(value).ok()).collect();
    values.into_iter().map(f64::from).collect()
}

fn readme(head: &str, conditions: &Value, date: &str, commit: &str) -> String {
    let mut out = head.replace("DATE", date).replace("COMMIT", commit);
    for (name, value) in conditions.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = writeln!(out, "| {} | {value} |", name.replace('_', " "));
    }
    out
}

const README_HEAD: &str = "\
# The paper's figures, of this switch

Made by `cargo xtask figures --date DATE switch` from commit COMMIT; do not edit. What they show, and what to make of it, is in
[benchmarks.md](../benchmarks.md). Those of Platypus have [a folder of their own](platypus/README.md). The raw numbers stand beside the pictures.

| figure | raw numbers | what |
|---|---|---|
| [3](figure-3-forwarding-rate.svg), [4](figure-4-throughput.svg) | [sockets.csv](sockets.csv) | by payload, on sockets, with the cipher and without, beside forwarders that do no more than open and seal, or change the address. Drawn for each second of the forwarding thread's CPU time: where `busy` is below 1, the load was the slower, and `mpps` and `gbps` show the load |
| [3](figure-3-in-memory.svg), [4](figure-4-in-memory.svg) in memory | [memory.csv](memory.csv) | the switch against the bare loop, both with the cipher and without. Without it no byte of the payload is touched, so `gbps` is no throughput there, and not drawn |
| [5](figure-5-workers.svg) | [workers.csv](workers.csv) | by workers, on a core each |
| [6](figure-6-misses.svg), [6 at 64 bytes](figure-6-misses-64.svg) | [misses.csv](misses.csv) | known names by the share of datagrams for names of which the RIB says that they are absent; `of_share` is the rate in terms of the known names' share of the full rate |

| condition | |
|---|---|
";

/// The columns of each file, after the series it has.
const TABLES: [(&str, &[&str]); 4] = [
    (
        "sockets",
        &["forwarder", "payload", "mpps_per_core", "gbps_per_core", "mpps", "gbps", "busy", "lost"],
    ),
    ("memory", &["forwarder", "payload", "ns", "mpps", "gbps"]),
    ("workers", &["workers", "payload", "switch_mpps", "bare_mpps"]),
    (
        "misses",
        &[
            "payload",
            "share",
            "fresh_mpps",
            "few_mpps",
            "bare_mpps",
            "fresh_of_share",
            "few_of_share",
            "bare_of_share",
        ],
    ),
];
/// Where the axis of payloads has numbers.
const SIZES: [f64; 8] = [64.0, 128.0, 256.0, 512.0, 1000.0, 1766.0, 3000.0, 8900.0];
/// Two builds, and some minutes of measuring.
const DEADLINE: Duration = Duration::from_secs(45 * 60);
const GIT_DEADLINE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_become_lines_of_text_and_of_charts() {
        let rows = json!([
            {"forwarder": "bare, a", "payload": 64, "mpps": 0.5},
            {"forwarder": "switch", "payload": 64, "mpps": 0.25},
            {"forwarder": "bare, a", "payload": 128, "mpps": 0.75},
        ]);
        let columns = ["forwarder", "payload", "mpps"];
        let text = "forwarder,payload,mpps\nbare; a,64,0.5\nswitch,64,0.25\nbare; a,128,0.75\n";
        assert_eq!(csv(&rows, &columns).as_deref(), Ok(text));
        assert!(csv(&rows, &["gbps"]).is_err() && csv(&json!([]), &columns).is_err());
        let lines = lines_by(&rows, "forwarder", "payload", "mpps");
        assert_eq!(lines[0].points, [(64.0, 0.5), (128.0, 0.75)]);
        assert_eq!((lines.len(), lines[1].name.as_str()), (2, "switch"));
    }

    #[test]
    fn what_is_expected_goes_down_with_the_share_and_up_with_the_workers() {
        let row = |share: f64, few: f64| json!({"payload": 64, "share": share, "few_mpps": few, "fresh_mpps": few, "bare_mpps": few});
        let chart = misses(&json!([row(0.0, 4.0), row(0.5, 1.5)]), 64.0);
        assert_eq!(chart.lines[0].points, [(0.0, 4.0), (0.5, 2.0)]);
        assert_eq!(chart.lines[1].points, [(0.0, 4.0), (0.5, 1.5)]);
        let row = |workers: u32, rate: f64| json!({"payload": 64, "workers": workers, "switch_mpps": rate, "bare_mpps": rate});
        let chart = workers(&json!([row(1, 4.0), row(2, 7.5)]));
        assert_eq!(chart.lines[0].points, [(1.0, 4.0), (2.0, 7.5)]);
        assert_eq!(chart.lines[2].points, [(1.0, 4.0), (2.0, 8.0)]);
    }
}

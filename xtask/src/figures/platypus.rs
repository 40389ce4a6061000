//! Figure 4 of the Platypus paper: what a waypoint forwards of the load that it is offered.

use std::path::Path;

use serde_json::Value;

use super::chart::{Axis, Chart, Line, Scale};
use super::{Folder, csv, lines_by, measure, readme};

/// Measures, and writes all files.
pub(super) fn write(root: &Path, date: &str, commit: &str) -> Result<(), String> {
    let words = ["-p", "rhumb-capability", "--bench", "platypus", "--", "load", "--json"];
    let measured = measure(root, &words)?;
    let folder = Folder::new(root, "docs/figures/platypus")?;
    folder.write("load.csv", csv(&measured["load"], &COLUMNS)?)?;
    folder.write("figure-4.svg", chart(&measured["load"]).svg())?;
    folder.write("README.md", readme(README_HEAD, &measured["conditions"], date, commit))
}

fn chart(rows: &Value) -> Chart {
    let mut lines = lines_by(rows, COLUMNS[0], COLUMNS[1], COLUMNS[2]);
    for line in &mut lines {
        // The source may not reach what it aims at, so loads are not
        // in the order in which they were asked for.
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let offered = lines.iter().flat_map(|line| &line.points).map(|point| point.0);
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
    let most = offered.fold(0.0, f64::max).min(most);
    let points = vec![(0.0, 0.0), (most, most)];
    lines.push(Line { name: "all that is offered".to_owned(), points, is_reckoned: true });
    let axis = |label| Axis { label, scale: Scale::Linear, ticks: Vec::new() };
    Chart {
        title: "Platypus: forwarded of the load offered, 68 bytes".to_owned(),
        x: axis("offered, thousands of packets a second"),
        y: axis("forwarded, thousands of packets a second"),
        lines,
    }
}

const COLUMNS: [&str; 3] = ["router", "offered_kpps", "forwarded_kpps"];

const README_HEAD: &str = "\
# Figure 4 of the Platypus paper, of this waypoint

Made by `cargo xtask figures --date DATE platypus` from commit COMMIT; do not edit. What it shows, and what to make of it, is in
[benchmarks.md](../../benchmarks.md). The paper's x axis is the load offered to its router in packets of 68 bytes, its y axis what
that forwards; it has lines for Linux, null forwarding, verification and stamping. So has [this figure](figure-4.svg), drawn from
[load.csv](load.csv), and one for raw sockets.

| condition | |
|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn loads_are_in_order_and_what_is_offered_goes_as_far_as_what_is_forwarded() {
        let row = |offered: f64, forwarded: f64| json!({"router": "a", "offered_kpps": offered, "forwarded_kpps": forwarded});
        let chart = chart(&json!([row(100.0, 99.0), row(300.0, 150.0), row(200.0, 160.0)]));
        assert_eq!(chart.lines[0].points, [(100.0, 99.0), (200.0, 160.0), (300.0, 150.0)]);
        assert_eq!(chart.lines[1].points, [(0.0, 0.0), (160.0, 160.0)]);
    }
}

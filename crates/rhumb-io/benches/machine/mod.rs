//! What benches ask of the machine, whatever they measure: what it is, who else is at work on it,
//! and the middle of what was seen. Shared by benches, also of other crates.

#![allow(dead_code, reason = "each bench takes a part")]

/// What figures depend on: name and value of each.
pub(crate) fn conditions() -> [(&'static str, String); 3] {
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    [
        ("cpu", model.trim_start_matches([' ', '\t', ':']).to_owned()),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
        ("load_average_before", load_average()),
    ]
}

/// Of the last minute: above 1 before a bench starts, others were at work.
pub(crate) fn load_average() -> String {
    read("/proc/loadavg").split(' ').next().unwrap_or("unknown").to_owned()
}

/// Seconds for which its processors were at others' work, if it is a
/// virtual one. Source: proc_stat(5).
pub(crate) fn stolen() -> Option<f64> {
    let stat = read("/proc/stat");
    let hundredths: f64 = stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(hundredths / 100.0)
}

/// The middle of `values`; 0 when there are none.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

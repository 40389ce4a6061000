//! The demo, end to end: runs it by the binary that the tests have built, which saves the minutes
//! of a release build; checks what it reports and that it cleans up. Then once more as people see
//! it: the recording in the README says the same, but for numbers and names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::pictures;
use crate::process::{self, Echo};
use crate::report::Outcome;

pub(crate) fn run(root: &Path, target_directory: &Path) -> Outcome {
    match try_run(root, target_directory) {
        Ok(()) => Outcome::passed(1),
        Err(problem) => Outcome::failed(format!("demo: {problem}")),
    }
}

fn try_run(root: &Path, target_directory: &Path) -> Result<(), String> {
    // As the kernel names it, with links followed.
    let binary = target_directory.join("debug/rhumb").canonicalize();
    let binary = binary.map_err(|error| format!("debug/rhumb, built for the tests: {error}"))?;
    let before = running(&binary);
    let mut demo = Command::new(&binary);
    demo.current_dir(root).args(["demo", "--json"]);
    let start = Instant::now();
    let finished = process::run(&mut demo, DEMO_DEADLINE, Echo::Shown)?;
    let elapsed = start.elapsed();
    if !finished.succeeded() {
        return Err(finished.end.to_string());
    }
    let facts: Value = serde_json::from_str(&finished.output)
        .map_err(|error| format!("its output is not one JSON object: {error}"))?;
    check(&facts)?;
    if elapsed > PROMISED_TIME {
        let (took, promised) = (elapsed.as_secs(), PROMISED_TIME.as_secs());
        return Err(format!("took {took} s, promised are {promised}"));
    }
    let left: Vec<u32> = running(&binary).difference(&before).copied().collect();
    if !left.is_empty() {
        return Err(format!("left processes running: {left:?}"));
    }
    let mut demo = Command::new(&binary);
    demo.current_dir(root).arg("demo");
    let finished = process::run(&mut demo, DEMO_DEADLINE, Echo::Kept)?;
    let recording = pictures::recording(root)?;
    // A recording may begin with the command.
    let recorded = recording.lines().skip_while(|line| line.starts_with("$ "));
    compare(recorded, finished.output.lines())
}

/// Whether a recording is of a demo that says this.
fn compare<'a>(
    recorded: impl Iterator<Item = &'a str>,
    said: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    let (recorded, said) = (shapes(recorded), shapes(said));
    let len = recorded.len().max(said.len());
    match (0..len).find(|at| recorded.get(*at) != said.get(*at)) {
        None => Ok(()),
        Some(at) => Err(format!(
            "the recording in docs/pictures is of another demo: it says {:?}, the demo {:?}; \
             record it anew",
            recorded.get(at),
            said.get(at)
        )),
    }
}

fn shapes<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    lines.map(shape).filter(|line| !line.is_empty()).collect()
}

/// What stays of a line from run to run: its words, without numbers and names.
fn shape(line: &str) -> String {
    let varies = |word: &str| word.ends_with("..") || word.contains(|c: char| c.is_ascii_digit());
    let words = line.split_whitespace().map(|word| if varies(word) { "#" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Checks every fact that the demo promises to report.
fn check(facts: &Value) -> Result<(), String> {
    if facts["sha256_ok"] != true {
        return Err("sha256_ok is not true".to_owned());
    }
    for key in ["bytes", "seconds", "rtt_us"] {
        if facts[key].as_f64().is_none_or(|number| number <= 0.0) {
            return Err(format!("{key} is not a positive number: {}", facts[key]));
        }
    }
    for (key, least) in [("path", LEAST_PATH), ("chain", 1), ("attacks", LEAST_ATTACKS)] {
        let len = facts[key].as_array().map_or(0, Vec::len);
        if len < least {
            return Err(format!("{key} has {len} entries, expected are {least} or more"));
        }
    }
    for attack in facts["attacks"].as_array().into_iter().flatten() {
        let has_reason = attack["reason"].as_str().is_some_and(|reason| !reason.is_empty());
        if attack["refused"] != true || !has_reason {
            return Err(format!("an attack was not refused with a reason: {attack}"));
        }
    }
    Ok(())
}

/// Ids of the processes that run `binary`, as far as we may see them.
fn running(binary: &Path) -> BTreeSet<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeSet::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let link: PathBuf = format!("/proc/{id}/exe").into();
        std::fs::read_link(link).is_ok_and(|program| program == binary)
    })
    .collect()
}

const PROMISED_TIME: Duration = Duration::from_secs(30);
/// Beyond what is promised, so that a demo that is merely slow still reports.
const DEMO_DEADLINE: Duration = Duration::from_secs(60);
/// Sender, three routers, receiver; some reports leave out the ends.
const LEAST_PATH: usize = 3;
/// A forged certificate, a replayed datagram, a claimed name.
const LEAST_ATTACKS: usize = 3;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn good() -> Value {
        let attack = json!({"name": "replay", "refused": true, "reason": "replayed"});
        json!({
            "sha256_ok": true, "bytes": 10, "seconds": 0.5, "rtt_us": 90,
            "path": ["a", "b", "c"], "chain": ["x"], "attacks": [attack, attack, attack],
        })
    }

    #[test]
    fn a_recording_is_compared_but_for_numbers_and_names() {
        let recorded = "A  yoldyykaat..  sends\nIt took 0.67 s: 807 Mbit/s.\n\nAll is well";
        let same = "A  b7ldyykaat..  sends\n\nIt took 1 s: 9 Mbit/s.\nAll is well";
        assert_eq!(compare(recorded.lines(), same.lines()), Ok(()));
        for other in ["A  yoldyykaat..  sends", "A  yoldyykaat..  sends\nIt took 1 min: 9 Mbit/s."]
        {
            let problem = compare(recorded.lines(), other.lines()).unwrap_err();
            assert!(problem.contains("record it anew"), "{problem}");
        }
    }

    #[test]
    fn a_full_report_passes() {
        assert_eq!(check(&good()), Ok(()));
    }

    #[test]
    fn each_missing_or_wrong_fact_is_refused() {
        for key in ["sha256_ok", "bytes", "seconds", "path", "chain", "attacks", "rtt_us"] {
            let mut facts = good();
            facts[key] = Value::Null;
            assert!(check(&facts).is_err_and(|problem| problem.contains(key)), "{key}");
        }
        let mut facts = good();
        facts["attacks"][1]["refused"] = json!(false);
        assert!(check(&facts).is_err());
        let mut facts = good();
        facts["attacks"][2]["reason"] = json!("");
        assert!(check(&facts).is_err());
        let mut facts = good();
        facts["rtt_us"] = json!(0);
        assert!(check(&facts).is_err());
    }
}

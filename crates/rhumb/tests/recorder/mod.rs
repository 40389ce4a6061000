//! Recordings for the documentation, made by running what they show: lines as they came, but for
//! empty ones, each behind the machine that said it.
//!
//! Where somebody asks for pictures (`RHUMB_PICTURES=docs/pictures`), a recording is written, as
//! `cargo xtask pictures` draws it; everywhere else it is compared with the one that is there, but
//! for numbers and names. So none is older than what it shows.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use crate::harness::Place;
use crate::terminal::Terminal;

/// Whether recordings are written.
pub(crate) fn is_wanted() -> bool {
    std::env::var_os(PICTURES).is_some()
}

/// A recording that goes on.
pub(crate) struct Recorder {
    name: &'static str,
    title: &'static str,
    /// Homes of the machines, each of which is `~` to whoever sits there.
    homes: Vec<String>,
    begun: Instant,
    /// Seconds of pauses that nobody wants to see.
    cut_s: f64,
    lines: Vec<(f64, String)>,
    /// By machine, how many lines of its terminal are in here.
    seen: BTreeMap<&'static str, usize>,
}

impl Recorder {
    /// Of machines with these homes.
    pub(crate) fn begin(name: &'static str, title: &'static str, homes: [&Place; 2]) -> Self {
        let homes = homes.map(|it| it.folder().display().to_string()).to_vec();
        let (begun, cut_s) = (Instant::now(), 0.0);
        Self { name, title, homes, begun, cut_s, lines: Vec::new(), seen: BTreeMap::new() }
    }

    /// Somebody typed this, or a machine said it, now.
    pub(crate) fn add(&mut self, who: &str, text: &str) {
        let before = self.lines.last().map_or(0.0, |(at, _)| *at);
        let now = self.begun.elapsed().as_secs_f64() - self.cut_s;
        self.cut_s += (now - before - LONGEST_PAUSE_S).max(0.0);
        let at = now.min(before + LONGEST_PAUSE_S);
        let text = self.homes.iter().fold(text.to_owned(), |text, home| text.replace(home, "~"));
        let lines = text.lines().map(|line| format!("{who:<8}| {line}").trim_end().to_owned());
        self.lines.extend(lines.map(|line| (at, line)));
    }

    /// What has come on a machine's terminal since the last look, but for the line that is typed.
    pub(crate) fn look(&mut self, who: &'static str, terminal: &Terminal) {
        // Lines above the cursor are whole, whatever comes meanwhile.
        let whole = terminal.rows_above_the_cursor();
        let text = terminal.text();
        let seen = self.seen.insert(who, whole).unwrap_or(0);
        let prompt = format!("{who} $");
        for line in text.lines().take(whole).skip(seen) {
            self.add(who, &line.replacen(&prompt, "$", 1));
        }
    }

    /// Keeps it where pictures are wanted; otherwise it must be as the one that is there.
    #[track_caller]
    pub(crate) fn end(self) {
        let file = format!("{}.cast", self.name);
        if let Some(folder) = std::env::var_os(PICTURES).map(PathBuf::from) {
            std::fs::write(folder.join(file), self.cast()).unwrap();
            return;
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures").join(&file);
        let there = std::fs::read_to_string(&path).unwrap();
        let recorded = there.lines().skip(1).map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            record[2].as_str().unwrap().trim_end().to_owned()
        });
        let said = self.lines.iter().map(|(_, line)| line.clone());
        let advice = "docs/pictures has a recording of something else: record it anew, with \
                      RHUMB_PICTURES=docs/pictures, and draw it by cargo xtask pictures";
        assert_eq!(shapes(said), shapes(recorded), "{file}: {advice}");
    }

    fn cast(&self) -> String {
        let height = self.lines.len();
        let header = json!({"version": 2, "width": 110, "height": height, "title": self.title});
        let mut text = format!("{header}\n");
        for (at, line) in &self.lines {
            let at = (at * 100.0).round() / 100.0;
            text += &format!("{}\n", json!([at, "o", format!("{line}\r\n")]));
        }
        text
    }
}

/// What stays from run to run, machine by machine: which of two came first may differ.
fn shapes(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut shapes: Vec<String> = lines.map(|line| shape(&line)).collect();
    shapes.sort_by_key(|line| line.split('|').next().map(str::to_owned));
    shapes
}

/// A line without its numbers, names and fingerprints.
fn shape(line: &str) -> String {
    let mut before = "";
    let words = line.split_whitespace().map(|word| {
        let varies = word.contains(|it: char| it.is_ascii_digit()) || before == "(fingerprint";
        before = word;
        if varies { "#" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Where pictures are wanted, if they are.
const PICTURES: &str = "RHUMB_PICTURES";
/// As recorders do: whoever waits for a machine that thinks sees nothing new.
const LONGEST_PAUSE_S: f64 = 0.5;

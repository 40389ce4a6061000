//! What the demo of trust domains found out, in words for people and as one object for programs.

use std::fmt;
use std::time::{Duration, Instant};

use rhumb_daemon::failure::{Failure, Outcome};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::nest::Nest;

/// What was tried, and what came of it.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    /// In a few words.
    name: &'static str,
    /// What exactly was done.
    tried: String,
    /// Whether what came of it is what has to.
    as_expected: bool,
    /// What was seen, by the word of those concerned, a sentence each.
    seen: Vec<String>,
    seconds: f64,
    /// What programs want to know besides.
    #[serde(flatten)]
    facts: Map<String, Value>,
    #[serde(skip)]
    begin: Instant,
}

impl Step {
    /// Begins now.
    pub(super) fn begin(name: &'static str, tried: String) -> Self {
        let (seen, facts) = (Vec::new(), Map::new());
        Self { name, tried, as_expected: true, seen, seconds: 0.0, facts, begin: Instant::now() }
    }

    /// Something was seen, which may be as it has to be or not.
    pub(super) fn saw(&mut self, is_expected: bool, sentence: impl Into<String>) {
        self.as_expected &= is_expected;
        let sentence = sentence.into();
        self.seen.push(if is_expected { sentence } else { format!("NOT AS EXPECTED: {sentence}") });
    }

    /// A fact for programs.
    pub(super) fn note(&mut self, key: &str, fact: impl Into<Value>) {
        self.facts.insert(key.to_owned(), fact.into());
    }

    /// Ends now.
    pub(super) fn end(mut self) -> Self {
        self.seconds = self.begin.elapsed().as_secs_f64();
        self
    }

    /// In words.
    pub(super) fn told(&self, number: usize) -> String {
        let mut text = format!("\n{number}. {} ({:.1} s)", self.tried, self.seconds);
        self.seen.iter().for_each(|sentence| text.extend(["\n   ", sentence]));
        text
    }
}

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Story {
    domains: Vec<Value>,
    processes: usize,
    start_seconds: f64,
    steps: Vec<Step>,
    seconds: f64,
    as_expected: bool,
    #[serde(skip)]
    tree: String,
}

impl Story {
    /// The network runs since now; it took so long to start.
    pub(super) fn begin(nest: &Nest<'_>, elapsed: Duration) -> Self {
        let named = nest.domains().map(|it| {
            let around = it.around.iter().map(ToString::to_string);
            json!({
                "label": it.holder.label,
                "name": it.holder.name().to_string(),
                "around": around.collect::<Vec<_>>(),
            })
        });
        let [world, sea, land, port, farm] =
            nest.domains().map(|it| format!("{} {}..", it.holder.label, it.holder.name().short()));
        let tree = format!(
            "  {world} -+- {sea}  --- {port}: A\n{:1$}+- {land} --- {farm}: B and C",
            "",
            world.len() + 4
        );
        Self {
            domains: named.to_vec(),
            processes: nest.processes(),
            start_seconds: elapsed.as_secs_f64(),
            steps: Vec::new(),
            seconds: 0.0,
            as_expected: true,
            tree,
        }
    }

    /// Who takes part.
    pub(super) fn introduction(&self) -> String {
        let Self { processes, start_seconds, tree, .. } = self;
        format!(
            "Five trust domains on three levels, each with a RIB of its own, and a border router where it\n\
             lies in another one; {processes} processes talk over UDP on this machine ({start_seconds:.1} s to start).\n\
             Who belongs to a domain was admitted by its key; the rest is shut out, or outside:\n\n{tree}"
        )
    }

    /// A step has been taken.
    pub(super) fn add(&mut self, step: Step) {
        self.as_expected &= step.as_expected;
        self.steps.push(step);
    }

    /// All processes have ended.
    pub(super) fn end(&mut self, elapsed: Duration) {
        self.seconds = elapsed.as_secs_f64();
    }

    /// Whether everything was as it should be.
    pub(super) fn verdict(&self) -> Outcome {
        match self.steps.iter().find(|step| !step.as_expected) {
            Some(step) => Err(Failure::operation_text(format!("not as expected: {}", step.name))),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.verdict() {
            Ok(()) => write!(
                f,
                "\nAll as it should be, in {:.1} s; all processes have ended. docs/operators.md shows how to run your own.",
                self.seconds
            ),
            Err(failure) => write!(f, "\nNot as it should be: {failure}."),
        }
    }
}

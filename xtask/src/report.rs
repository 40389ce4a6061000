//! The account of a test run: steps, their times, what failed, what was skipped and why.
//!
//! Invariant: the totals are the sums over the steps, and a step
//! that went wrong counts as at least one failure.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::metadata::{self, Metadata};
use crate::process;

/// What one step came to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    /// One line or more per failure.
    pub(crate) failures: Vec<String>,
    /// One line each: what was skipped, and why.
    pub(crate) skips: Vec<String>,
}

impl Outcome {
    pub(crate) fn passed(count: usize) -> Self {
        Self { passed: count, ..Self::default() }
    }

    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self { failures: vec![why.into()], ..Self::default() }
    }

    pub(crate) fn skipped(what_and_why: impl Into<String>) -> Self {
        Self { skips: vec![what_and_why.into()], ..Self::default() }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
        self.skips.extend(other.skips);
    }

    fn counts(&self) -> String {
        let (failed, skipped) = (self.failures.len(), self.skips.len());
        format!("{} passed, {failed} failed, {skipped} skipped", self.passed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    name: &'static str,
    elapsed: Duration,
    /// Time of processors: what two of them compute for 60 s is twice that.
    cpu: Duration,
    outcome: Outcome,
}

impl Report {
    /// Runs one step of `cargo xtask test` by itself, and says what it came to. Whether all went
    /// well.
    pub(crate) fn of_one(
        root: &Path,
        name: &'static str,
        step: fn(&Path, &Path) -> Outcome,
    ) -> bool {
        let mut report = Self::default();
        report.step(name, || {
            let loaded = metadata::host_triple().and_then(|host| Metadata::load(root, &[host]));
            match loaded {
                Ok(metadata) => step(root, &metadata.target_directory),
                Err(problem) => Outcome::failed(problem),
            }
        });
        println!("{}", report.summary());
        report.succeeded()
    }

    /// Runs a step, announces it and keeps what it came to. Later steps run whatever it came to.
    pub(crate) fn step(&mut self, name: &'static str, work: impl FnOnce() -> Outcome) {
        println!("\n==> {name}");
        let (start, cpu_before) = (Instant::now(), process::own_cpu());
        let outcome = work();
        let (elapsed, cpu) = (start.elapsed(), process::own_cpu().saturating_sub(cpu_before));
        let step = Step { name, elapsed, cpu, outcome };
        println!("<== {name}: {}, {}", step.outcome.counts(), step.times());
        self.steps.push(step);
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.steps.iter().all(|step| step.outcome.failures.is_empty())
    }

    /// The summary; its last line is the totals alone.
    pub(crate) fn summary(&self) -> String {
        let mut total = Outcome::default();
        let mut out = String::from("\n==> summary\n");
        for step in &self.steps {
            let Step { name, outcome, .. } = step;
            let word = if outcome.failures.is_empty() { "ok" } else { "FAILED" };
            out += &format!("{word:<7}{name:<14}{:>32}  {}\n", step.times(), outcome.counts());
            total.add(outcome.clone());
        }
        for skip in &total.skips {
            out += &format!("skipped: {skip}\n");
        }
        for failure in &total.failures {
            out += &format!("failed: {failure}\n");
        }
        out + &total.counts()
    }
}

impl Step {
    fn times(&self) -> String {
        let [elapsed, cpu] = [self.elapsed, self.cpu].map(|it| it.as_secs_f64());
        format!("{elapsed:.1} s ({cpu:.0} s of processors)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_the_last_line_and_failures_are_named() {
        let mut report = Report::default();
        report.step("one", || Outcome::passed(3));
        assert!(report.succeeded());
        report.step("two", || Outcome::failed("two: broke"));
        report.step("three", || Outcome::skipped("three: no tool"));
        report.step("four", || Outcome::passed(1));
        assert!(!report.succeeded());
        let summary = report.summary();
        assert_eq!(summary.lines().last(), Some("4 passed, 1 failed, 1 skipped"));
        assert!(summary.contains("failed: two: broke\n"));
        assert!(summary.contains("skipped: three: no tool\n"));
    }
}

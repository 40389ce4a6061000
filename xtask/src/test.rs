//! `cargo xtask test`: the one test command.
//!
//! Flow: 1. packages that tests use; 2. tidy; 3. unit, behaviour and
//! doc tests; 4. documentation without warnings;
//! 5. every fuzz target; 6. the demo, end to end; 7. pictures; 8. the instructions that forwarding
//!    takes. A failed step does not keep the later ones from running.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::arguments::TestOptions;
use crate::metadata::{self, Metadata, cargo};
use crate::process::{self, Echo};
use crate::report::{Outcome, Report};
use crate::{demo, fuzz, instructions, packages, pictures, test_output, tidy};

pub(crate) fn run(root: &Path, options: &TestOptions) -> bool {
    let loaded = metadata::host_triple().and_then(|host| Metadata::load(root, &[host]));
    let target_directory = match loaded {
        Ok(metadata) => metadata.target_directory,
        Err(problem) => {
            println!("failed: {problem}\n0 passed, 1 failed, 0 skipped");
            return false;
        }
    };
    packages::prepare(options.install);

    let mut report = Report::default();
    report.step("tidy", || tidy::step(root));
    report.step("tests", || cargo_test(root));
    report.step("documentation", || documentation(root));
    if options.fast {
        report.step("fuzz", || Outcome::skipped("fuzz: --fast"));
        report.step("demo", || Outcome::skipped("demo: --fast"));
        report.step("pictures", || Outcome::skipped("pictures: --fast"));
        report.step("instructions", || Outcome::skipped("instructions: --fast"));
    } else {
        report.step("fuzz", || fuzz::run(root, &target_directory, options.fuzz_time));
        report.step("demo", || demo::run(root, &target_directory));
        report.step("pictures", || pictures::step(root, &target_directory));
        report.step("instructions", || instructions::run(root));
    }
    println!("{}", report.summary());
    report.succeeded()
}

fn cargo_test(root: &Path) -> Outcome {
    let mut command = Command::new(cargo());
    command.current_dir(root).args(["test", "--workspace", "--no-fail-fast"]);
    // So that a test that skips itself can say why.
    command.args(["--", "--show-output"]);
    if std::env::var_os(THREADS).is_none() {
        command.env(THREADS, threads().to_string());
    }
    let finished = match process::run(&mut command, TESTS_DEADLINE, Echo::Shown) {
        Ok(finished) => finished,
        Err(problem) => return Outcome::failed(format!("tests: {problem}")),
    };
    let mut outcome = test_output::read(&finished.output);
    // A crash or a build that fails names no failed test.
    if !finished.succeeded()
        && (outcome.failures.is_empty() || finished.end == process::End::TimedOut)
    {
        outcome.failures.push(format!("tests: cargo test {}", finished.end));
    }
    if outcome.passed == 0 && outcome.failures.is_empty() {
        outcome.failures.push("tests: not one was run".to_owned());
    }
    if outcome.failures.len() <= MOST_TRIED_AGAIN {
        let failures = std::mem::take(&mut outcome.failures);
        for failure in failures {
            match failure.strip_prefix("test ") {
                Some(name) if passes_alone(root, name) => {
                    println!("passed alone, after it had failed beside others: {name}");
                    outcome.passed += 1;
                }
                _ => outcome.failures.push(failure),
            }
        }
    }
    outcome
}

/// Tries one test again while nothing else runs: tests of processes may lack a processor beside
/// others. What it says is shown if it fails again.
fn passes_alone(root: &Path, name: &str) -> bool {
    let mut command = Command::new(cargo());
    command.current_dir(root).args(["test", "--workspace", "--no-fail-fast"]);
    command.args(["--", "--exact", name, "--show-output"]);
    let finished = process::run(&mut command, ALONE_DEADLINE, Echo::Kept);
    finished.is_ok_and(|finished| {
        let outcome = test_output::read(&finished.output);
        let passes = finished.succeeded() && outcome.passed > 0 && outcome.failures.is_empty();
        if !passes {
            println!("{}", finished.output);
        }
        passes
    })
}

/// Two for each processor: most tests of processes wait, for timers and for each other.
fn threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

fn documentation(root: &Path) -> Outcome {
    let mut command = Command::new(cargo());
    command.current_dir(root).args(["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    match process::run(&mut command, DOCUMENTATION_DEADLINE, Echo::Shown) {
        Ok(finished) if finished.succeeded() => Outcome::passed(1),
        Ok(finished) => Outcome::failed(format!("documentation: cargo doc {}", finished.end)),
        Err(problem) => Outcome::failed(format!("documentation: {problem}")),
    }
}

/// How many tests of a program run side by side.
const THREADS: &str = "RUST_TEST_THREADS";
/// With a build from nothing on two slow cores, which takes half of it.
const TESTS_DEADLINE: Duration = Duration::from_secs(45 * 60);
/// More that fail are no accident.
const MOST_TRIED_AGAIN: usize = 3;
const ALONE_DEADLINE: Duration = Duration::from_secs(5 * 60);
const DOCUMENTATION_DEADLINE: Duration = Duration::from_secs(5 * 60);

//! `cargo xtask upgrade REVISION`: an earlier version beside the present one.
//!
//! Flow: 1. a work tree of the revision in the target folder; 2. its `rhumb`, built there, with a
//! target folder of its own; 3. the tests of the present version that are told where that program
//! is. They are ignored otherwise.
//!
//! Invariant: what is built and run is the commit that is printed, whatever the work tree held.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::metadata::{self, Metadata, cargo};
use crate::process::{self, Echo};
use crate::report::{Outcome, Report};
use crate::test_output;

/// Whether all went well.
pub(crate) fn run(root: &Path, revision: &str) -> bool {
    let mut report = Report::default();
    let mut earlier = Err("it was not built".to_owned());
    report.step("earlier version", || {
        earlier = build(root, revision);
        match &earlier {
            Ok(_) => Outcome::passed(1),
            Err(problem) => Outcome::failed(format!("{revision}: {problem}")),
        }
    });
    if let Ok(program) = &earlier {
        report.step("side by side", || test(root, program));
    }
    println!("{}", report.summary());
    report.succeeded()
}

/// The program of the revision.
fn build(root: &Path, revision: &str) -> Result<PathBuf, String> {
    let metadata = Metadata::load(root, &[metadata::host_triple()?])?;
    let folder = metadata.target_directory.join("upgrade");
    let (tree, target) = (folder.join("tree"), folder.join("target"));
    let commit = format!("{revision}^{{commit}}");
    let commit = git(root, &["rev-parse", "--verify", "--quiet", "--end-of-options", &commit])
        .map_err(|_| "git knows no such commit".to_owned())?;
    let place = tree.to_str().ok_or("the target folder has a name that is no text")?;
    // One tree for all revisions, so that the next one need not build what it shares with this.
    if tree.join(".git").exists() {
        git(&tree, &["checkout", "--quiet", "--force", "--detach", &commit])?;
    } else {
        git(root, &["worktree", "add", "--quiet", "--force", "--detach", place, &commit])?;
    }
    println!("{}", git(&tree, &["log", "-1", "--format=%H %ad %s", "--date=short"])?);
    let mut command = Command::new(cargo());
    command.current_dir(&tree).env("CARGO_TARGET_DIR", &target);
    command.args(["build", "--locked", "--package", "rhumb", "--bin", "rhumb"]);
    let finished = process::run(&mut command, BUILD_DEADLINE, Echo::ErrorsShown)?;
    match finished.succeeded() {
        true => Ok(target.join("debug/rhumb")),
        false => Err(format!("cargo build {}", finished.end)),
    }
}

fn test(root: &Path, program: &Path) -> Outcome {
    let mut command = Command::new(cargo());
    command.current_dir(root).env(EARLIER_PROGRAM, program);
    command.args(["test", "--package", "rhumb", "--test", "clusters", TESTS]);
    command.args(["--", "--include-ignored", "--show-output"]);
    match process::run(&mut command, TEST_DEADLINE, Echo::Shown) {
        Ok(finished) => {
            let mut outcome = test_output::read(&finished.output);
            let counted = outcome.passed + outcome.failures.len() + outcome.skips.len();
            if counted == 0 || (!finished.succeeded() && outcome.failures.is_empty()) {
                outcome.failures.push(format!("cargo test {}", finished.end));
            }
            outcome
        }
        Err(problem) => Outcome::failed(problem),
    }
}

/// What git says.
fn git(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command.current_dir(folder).args(arguments);
    let finished = process::run(&mut command, GIT_DEADLINE, Echo::Kept)?;
    match finished.succeeded() {
        true => Ok(finished.output.trim().to_owned()),
        false => Err(format!("git {}: {}", arguments.join(" "), finished.output.trim())),
    }
}

/// Tells the tests where the earlier program is.
const EARLIER_PROGRAM: &str = "RHUMB_EARLIER_PROGRAM";
/// How the names of these tests begin.
const TESTS: &str = "upgrade::";
const GIT_DEADLINE: Duration = Duration::from_secs(5 * 60);
/// For a build from nothing, on two slow cores.
const BUILD_DEADLINE: Duration = Duration::from_secs(30 * 60);
const TEST_DEADLINE: Duration = Duration::from_secs(45 * 60);

//! Holds the instructions that forwarding takes, counted by callgrind, against a recorded budget.
//!
//! What is held is the difference between the switch and the bare loop of `cargo xtask bench
//! switch`: the cipher cancels out, which takes other instructions on other processors. What is
//! left is our own code, the same everywhere to a few per cent. A change that exceeds the budget
//! has to get cheaper, or raise the budget and say why.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::metadata::cargo;
use crate::process::{self, Echo};
use crate::report::Outcome;

pub(crate) fn run(root: &Path) -> Outcome {
    if !process::is_installed("valgrind") {
        return Outcome::skipped("instructions: no `valgrind`");
    }
    let program = match build(root) {
        Ok(program) => program,
        Err(problem) => return Outcome::failed(format!("instructions: {problem}")),
    };
    let mut outcome = Outcome::default();
    for (form, budget) in BUDGETS {
        match overhead(&program, form) {
            Ok(instructions) => {
                println!(
                    "{form}: {instructions} instructions a datagram over the bare loop, budget {budget}"
                );
                if instructions <= budget {
                    outcome.passed += 1;
                } else {
                    outcome.failures.push(format!(
                        "instructions: a datagram with {form} takes {instructions} over the bare loop, budget {budget}"
                    ));
                }
            }
            Err(problem) => outcome.failures.push(format!("instructions: {form}: {problem}")),
        }
    }
    outcome
}

/// The program that is counted, as a release has the code of the switch.
fn build(root: &Path) -> Result<PathBuf, String> {
    let mut build = Command::new(cargo());
    build.current_dir(root).args(["build", "--quiet", "--profile", "counted", "--locked"]);
    build.args(["--package", PROGRAM, "--message-format=json"]);
    let finished = process::run(&mut build, BUILD_DEADLINE, Echo::ErrorsShown)?;
    if !finished.succeeded() {
        return Err(format!("the build {}", finished.end));
    }
    executable_in(&finished.output).ok_or_else(|| "the build made no program".to_owned())
}

/// The last program that cargo's messages name.
fn executable_in(messages: &str) -> Option<PathBuf> {
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    parsed.filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?))).next_back()
}

/// What the switch takes over the bare loop, in instructions a datagram.
fn overhead(program: &Path, form: &str) -> Result<i64, String> {
    Ok((count(program, "switch", form)? - count(program, "bare", form)?) / DATAGRAMS)
}

/// Instructions in which a contestant forwards all datagrams.
fn count(program: &Path, contestant: &str, form: &str) -> Result<i64, String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", COUNTED]);
    command.arg(program).args([contestant, form, PAYLOAD]);
    let finished = process::run(&mut command, RUN_DEADLINE, Echo::Kept)?;
    // Where the function is not found, nothing is collected.
    let collected = collected_in(&finished.output).filter(|it| *it > 0 && finished.succeeded());
    collected.ok_or_else(|| format!("callgrind {}\n{}", finished.end, finished.tail(5)))
}

/// `==123== Collected : 456` is callgrind's last word.
fn collected_in(output: &str) -> Option<i64> {
    let (_, rest) = output.rsplit_once("Collected :")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// By the form in which PDUs travel. Measured: 520 with labels, 527 with names, of which 13 and 18
/// are for having aws-lc behind `rhumb-aead`, 43 and 47 for asking of each datagram whether it
/// came on a stream or is a bundle, 83 and 80 for what is asked of a group before it is opened
/// or sealed, which pays where our own cipher computes, as do 15 that no copy is waited for
/// (docs/decisions/0137); a thirtieth is left for other compilers.
///
/// Before the crates of the hot path, and the program, were built in one piece each, changes
/// that touched none of its code moved it between 385 and 398, and by 60.
const BUDGETS: [(&str, i64); 2] = [("labels", 537), ("names", 547)];
const PROGRAM: &str = "rhumb-switch-instructions";
/// Collects within the program's function of this name alone.
const COUNTED: &str = "--toggle-collect=*instructions*counted*";
/// Bytes: the difference is the same at every size.
const PAYLOAD: &str = "64";
/// In one run: 1,000 batches of 64.
const DATAGRAMS: i64 = 1000 * 64;
const BUILD_DEADLINE: Duration = Duration::from_secs(15 * 60);
const RUN_DEADLINE: Duration = Duration::from_secs(3 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_programs_are_found_in_what_tools_print() {
        assert_eq!(
            collected_in("==1== Events    : Ir\n==1== Collected : 747921153\n"),
            Some(747_921_153)
        );
        assert_eq!(collected_in("==1== Collected : many"), None);
        let messages =
            "{\"executable\":null}\n{\"executable\":\"/t/switch-1\"}\nnoise\n{\"reason\":\"done\"}";
        assert_eq!(executable_in(messages), Some(PathBuf::from("/t/switch-1")));
        assert_eq!(executable_in("noise"), None);
    }
}

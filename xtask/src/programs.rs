//! The test programs of the workspace: cargo builds them, and they are run here.
//!
//! Flow: 1. build, and learn which programs there are; 2. leave out those that passed and are
//! unchanged since; 3. run what tries a cluster's nodes, then what starts processes, which mostly
//! wait, beside what has RIBs over a cluster, which waits more; and meanwhile, with what is left of
//! the processors, all others and then the tests of documentation; 4. run by themselves those that
//! measure time.
//!
//! Invariant: a program is remembered as passed only if none of its tests failed or skipped itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::metadata::cargo;
use crate::passed::Passed;
use crate::process::{self, Echo, End, Finished};
use crate::report::Outcome;
use crate::test_output;

/// One program that cargo made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its crate and its target: `rhumb-switch all`.
    pub(crate) name: String,
    /// The crate's folder, where its tests expect to run.
    pub(crate) folder: PathBuf,
    pub(crate) executable: PathBuf,
    /// Programs of the same crate, which its tests may start.
    pub(crate) starts: Vec<PathBuf>,
}

impl Program {
    /// Whether nothing may run beside it.
    fn is_alone(&self) -> bool {
        self.name.ends_with(" alone")
    }

    /// Whether it does to a cluster's nodes whatever happens to them. They give each other up where
    /// they get no processor.
    fn tries_a_cluster(&self) -> bool {
        self.name == "rhumb-cql all"
    }

    /// Whether its processes use a cluster, one test after the other.
    fn uses_a_cluster(&self) -> bool {
        self.name == "rhumb clusters"
    }

    fn command(&self, way: Way) -> Command {
        let mut command = match way {
            Way::WithWhatIsLeft => in_the_background(&self.executable),
            Way::Shown | Way::Beside => Command::new(&self.executable),
        };
        self.prepare(&mut command);
        if std::env::var_os(THREADS).is_none() {
            let threads = match way {
                Way::Beside => 1,
                Way::WithWhatIsLeft => processors(),
                Way::Shown if self.tries_a_cluster() => processors(),
                // Most tests of processes wait, for timers and for each other.
                Way::Shown => 2 * processors(),
            };
            command.env(THREADS, threads.to_string());
        }
        command
    }

    /// Has a command that runs it do so where its tests expect to, and tell all.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        // So that a test that skips itself can say why.
        command.arg("--show-output");
    }

    /// What a run of it came to.
    pub(crate) fn outcome_of(&self, finished: Result<Finished, String>) -> Outcome {
        let finished = match finished {
            Ok(finished) => finished,
            Err(problem) => return Outcome::failed(format!("tests: {}: {problem}", self.name)),
        };
        let mut outcome = test_output::read(&finished.output);
        // A crash names no failed test.
        if !finished.succeeded() && (outcome.failures.is_empty() || finished.end == End::TimedOut) {
            outcome.failures.push(format!("tests: {} {}", self.name, finished.end));
        }
        outcome
    }
}

/// How a program runs among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// What it says is seen at once.
    Shown,
    /// One test at a time; what it says is seen once it is over.
    Beside,
    /// At a lower priority, on all processors; what it says is seen once it is over.
    WithWhatIsLeft,
}

/// Builds and runs all programs; with `again` also those that passed and are unchanged since.
pub(crate) fn run(root: &Path, target_directory: &Path, again: bool) -> Outcome {
    let mut passed = Passed::load(root, target_directory);
    let mut of_all = Command::new(cargo());
    of_all.current_dir(root).args(["test", "--workspace"]);
    let programs = match build(&mut of_all) {
        Ok(programs) => programs,
        Err(problem) => return Outcome::failed(format!("tests: {problem}")),
    };
    let mut outcome = Outcome::default();
    let mut programs_to_run = Vec::new();
    for program in programs {
        match passed.tests_of(&program).filter(|_| !again) {
            Some(tests) => {
                println!("{}: unchanged since its {tests} tests passed", program.name);
                outcome.passed += tests;
            }
            None => programs_to_run.push(program),
        }
    }
    let (alone, beside): (Vec<_>, Vec<_>) =
        programs_to_run.into_iter().partition(Program::is_alone);
    let (on_trial, beside): (Vec<_>, Vec<_>) =
        beside.into_iter().partition(Program::tries_a_cluster);
    let (over_a_cluster, beside): (Vec<_>, Vec<_>) =
        beside.into_iter().partition(Program::uses_a_cluster);
    let (of_processes, others): (Vec<_>, Vec<_>) =
        beside.into_iter().partition(|program| !program.starts.is_empty());
    let mut ran = std::thread::scope(|scope| {
        let background =
            scope.spawn(|| (run_all(&others, Way::WithWhatIsLeft), documentation(root)));
        // First, and before the other one begins: nodes of two clusters are too much at once.
        let mut ran = run_all(&on_trial, Way::Shown);
        let clusters = scope.spawn(|| run_all(&over_a_cluster, Way::Beside));
        ran.extend(run_all(&of_processes, Way::Shown));
        ran.extend(clusters.join().expect(DOES_NOT_PANIC));
        let (rest, of_documentation) = background.join().expect(DOES_NOT_PANIC);
        outcome.add(of_documentation);
        ran.extend(rest);
        ran
    });
    ran.extend(run_all(&alone, Way::Shown));

    // Tests of processes may lack a processor beside others.
    let failures: usize = ran.iter().map(|(_, outcome)| outcome.failures.len()).sum();
    for (program, mut came_to) in ran {
        if failures <= MOST_TRIED_AGAIN {
            try_again(&program, &mut came_to);
        }
        // What is always ignored would be so again; what skipped itself may run another time.
        let ran_all = came_to.skips.iter().all(|skip| skip.contains(": ignored"));
        if came_to.failures.is_empty() && ran_all {
            passed.remember(&program, came_to.passed);
        }
        outcome.add(came_to);
    }
    if let Err(problem) = passed.save() {
        println!("what passed will be run again next time: {problem}");
    }
    outcome
}

/// Runs one after the other.
fn run_all(programs: &[Program], way: Way) -> Vec<(Program, Outcome)> {
    let run = |program: &Program| {
        let echo = if way == Way::Shown { Echo::Shown } else { Echo::Kept };
        println!("\n-- {}", program.name);
        let start = Instant::now();
        let finished = process::run(&mut program.command(way), DEADLINE, echo);
        let elapsed = start.elapsed().as_secs_f64();
        if let (Echo::Kept, Ok(finished)) = (echo, &finished) {
            let _one_at_a_time = SHOWN.lock();
            println!("\n-- {}:\n{}", program.name, finished.output);
        }
        if let Ok(finished) = &finished {
            let cpu = finished.cpu.as_secs_f64();
            println!("-- {}: {elapsed:.0} s ({cpu:.0} s of processors)", program.name);
        }
        program.outcome_of(finished)
    };
    programs.iter().map(|program| (program.clone(), run(program))).collect()
}

/// Tries each test that failed again while nothing else runs. What it says is shown if it fails
/// again.
fn try_again(program: &Program, outcome: &mut Outcome) {
    for failure in std::mem::take(&mut outcome.failures) {
        match failure.strip_prefix("test ") {
            Some(name) if passes_alone(program, name) => {
                println!("passed alone, after it had failed beside others: {name}");
                outcome.passed += 1;
            }
            _ => outcome.failures.push(failure),
        }
    }
}

fn passes_alone(program: &Program, name: &str) -> bool {
    let mut command = program.command(Way::Shown);
    command.args(["--exact", name]);
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

/// Has cargo build the test programs that the command, a `cargo test`, would run.
pub(crate) fn build(command: &mut Command) -> Result<Vec<Program>, String> {
    command.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let finished = process::run(command, DEADLINE, Echo::ErrorsShown)?;
    if !finished.succeeded() {
        return Err(format!("cargo test --no-run {}", finished.end));
    }
    let programs = programs_in(&finished.output);
    if programs.is_empty() { Err("not one was built".to_owned()) } else { Ok(programs) }
}

/// The test programs that cargo's messages name, in their order.
fn programs_in(messages: &str) -> Vec<Program> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let made: Vec<(bool, Program)> = messages.filter_map(|message| program_in(&message)).collect();
    let tests = made.iter().filter(|(is_test, _)| *is_test);
    let with_starts = tests.map(|(_, test)| {
        let own = made.iter().filter(|(is_test, it)| !is_test && it.folder == test.folder);
        let starts = own.map(|(_, it)| it.executable.clone()).collect();
        Program { starts, ..test.clone() }
    });
    with_starts.collect()
}

/// The program that a message of cargo's names, if it does, and whether it is one of tests.
fn program_in(message: &Value) -> Option<(bool, Program)> {
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let target = message["target"]["name"].as_str()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let of_code = message["target"]["kind"].as_array()?.iter().any(|kind| kind != "test");
    let name = if of_code { package } else { format!("{package} {target}") };
    Some((is_test, Program { name, folder, executable, starts: Vec::new() }))
}

/// Beside programs that run, so at a lower priority.
fn documentation(root: &Path) -> Outcome {
    let mut command = in_the_background(cargo().as_ref());
    command.current_dir(root).args(["test", "--workspace", "--doc", "--no-fail-fast"]);
    match process::run(&mut command, DEADLINE, Echo::Kept) {
        Ok(finished) => {
            println!("\n-- documentation:\n{}", finished.output);
            let mut outcome = test_output::read(&finished.output);
            if !finished.succeeded() && outcome.failures.is_empty() {
                outcome.failures.push(format!("tests: cargo test --doc {}", finished.end));
            }
            outcome
        }
        Err(problem) => Outcome::failed(format!("tests: {problem}")),
    }
}

/// The program, so that it takes what others leave of the processors.
fn in_the_background(program: &Path) -> Command {
    if !process::is_installed("nice") {
        return Command::new(program);
    }
    let mut command = Command::new("nice");
    command.args(["-n", "5"]).arg(program);
    command
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

const DOES_NOT_PANIC: &str = "invariant: running programs does not panic";
/// How many tests of a program run side by side.
const THREADS: &str = "RUST_TEST_THREADS";
/// For a build from nothing, or one program, on two slow cores.
const DEADLINE: Duration = Duration::from_secs(30 * 60);
/// More that fail are no accident.
const MOST_TRIED_AGAIN: usize = 5;
const ALONE_DEADLINE: Duration = Duration::from_secs(5 * 60);
/// Keeps the outputs of two programs apart.
static SHOWN: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"
{"reason":"compiler-artifact","manifest_path":"/p/crates/a/Cargo.toml","target":{"kind":["lib"],"name":"a"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/p/crates/a/Cargo.toml","target":{"kind":["lib"],"name":"a"},"profile":{"test":true},"executable":"/t/a-1"}
{"reason":"compiler-artifact","manifest_path":"/p/crates/b/Cargo.toml","target":{"kind":["test"],"name":"alone"},"profile":{"test":true},"executable":"/t/alone-2"}
{"reason":"compiler-artifact","manifest_path":"/p/crates/b/Cargo.toml","target":{"kind":["bin"],"name":"b"},"profile":{"test":false},"executable":"/t/b"}
{"reason":"build-finished","success":true}
"#;

    #[test]
    fn programs_are_read_from_cargos_messages_with_what_they_start() {
        let program = |name: &str, folder: &str, executable: &str, starts: &[&str]| Program {
            name: name.to_owned(),
            folder: folder.into(),
            executable: executable.into(),
            starts: starts.iter().map(PathBuf::from).collect(),
        };
        let programs = programs_in(MESSAGES);
        assert_eq!(
            programs,
            [
                program("a", "/p/crates/a", "/t/a-1", &[]),
                program("b alone", "/p/crates/b", "/t/alone-2", &["/t/b"]),
            ]
        );
        assert!(programs[1].is_alone() && !programs[0].is_alone());
    }
}

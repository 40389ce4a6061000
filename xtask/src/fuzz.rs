//! Builds and runs the fuzz targets with the stable toolchain alone.
//!
//! Flow: 1. read the target list from `fuzz/Cargo.toml`; 2. build all, crates of the workspace with
//! coverage counters (`fuzz/rustc`), all others as the tests have had them built; 3. write valid
//! examples to start from; 4. run the targets side by side, each on its own corpus, and read how
//! much each did.
//!
//! Invariant: a target that ran without coverage counters or
//! without a single run is a failure, not a pass.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use crate::metadata::cargo;
use crate::process::{self, Echo, Finished};
use crate::report::Outcome;

/// Where things are, for one run of all targets.
struct Workshop {
    root: PathBuf,
    /// What cargo builds.
    programs: PathBuf,
    /// Corpora and crashing inputs.
    folder: PathBuf,
}

/// Runs each target for `time`.
pub(crate) fn run(root: &Path, target_directory: &Path, time: Duration) -> Outcome {
    match try_run(root, target_directory, time) {
        Ok(outcome) => outcome,
        Err(problem) => Outcome::failed(format!("fuzz: {problem}")),
    }
}

/// The names of all targets, in the order of the manifest.
///
/// # Errors
/// When the manifest cannot be read.
pub(crate) fn target_names(root: &Path) -> Result<Vec<String>, String> {
    let path = root.join(MANIFEST);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{MANIFEST}: {error}"))?;
    names_in_manifest(&text)
}

pub(crate) fn names_in_manifest(text: &str) -> Result<Vec<String>, String> {
    let table: toml::Table = text.parse().map_err(|error| format!("{MANIFEST}: {error}"))?;
    let bins = table.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
    Ok(bins.filter_map(|bin| bin.get("name")?.as_str().map(str::to_owned)).collect())
}

fn try_run(root: &Path, target_directory: &Path, time: Duration) -> Result<Outcome, String> {
    let names = target_names(root)?;
    if !process::is_installed("c++") {
        let skips = names.iter().map(|name| format!("fuzz {name}: no C++ compiler `c++`"));
        return Ok(Outcome { skips: skips.collect(), ..Outcome::default() });
    }
    let workshop = Workshop {
        root: root.to_owned(),
        programs: target_directory.join("debug"),
        folder: target_directory.join("fuzz"),
    };
    workshop.build(&names)?;
    workshop.write_seeds()?;

    let total = Mutex::new(Outcome::default());
    let queue = Mutex::new(names.iter());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(name) = next(&queue) {
                    let outcome = workshop.run_target(name, time);
                    total.lock().expect("invariant: no worker panics").add(outcome);
                }
            });
        }
    });
    Ok(total.into_inner().expect("invariant: no worker panics"))
}

fn next<'a>(queue: &Mutex<std::slice::Iter<'a, String>>) -> Option<&'a String> {
    queue.lock().expect("invariant: no worker panics").next()
}

impl Workshop {
    /// Programs of these names. All members of the workspace are named, and an example beside them,
    /// since what they depend on is there then, as tests have had it built.
    fn cargo_build(&self, names: &[&str]) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.root).args(["build", "--quiet", "--locked", "--workspace"]);
        command.args(["--example", AS_IN_TESTS]);
        command.args(names.iter().flat_map(|name| ["--bin", name]));
        command
    }

    fn build(&self, names: &[String]) -> Result<(), String> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut command = self.cargo_build(&names);
        command.args(["--features", FEATURE]);
        command.env("RUSTC_WORKSPACE_WRAPPER", self.root.join(COMPILER));
        let finished = process::run(&mut command, BUILD_DEADLINE, Echo::Shown)?;
        finished.succeeded().then_some(()).ok_or(format!("the build {}", finished.end))
    }

    /// Valid examples, so that a few seconds are not spent on finding the magic numbers.
    fn write_seeds(&self) -> Result<(), String> {
        let finished = process::run(&mut self.cargo_build(&[SEEDS]), BUILD_DEADLINE, Echo::Shown)?;
        if !finished.succeeded() {
            return Err(format!("the build of {SEEDS} {}", finished.end));
        }
        let mut command = Command::new(self.programs.join(SEEDS));
        command.arg(self.folder.join("seeds"));
        let finished = process::run(&mut command, BUILD_DEADLINE, Echo::Shown)?;
        finished.succeeded().then_some(()).ok_or(format!("writing examples {}", finished.end))
    }

    fn run_target(&self, name: &str, time: Duration) -> Outcome {
        let binary = self.programs.join(name);
        let crashes = self.folder.join("crashes").join(name);
        let corpus = self.folder.join("corpus").join(name);
        let seeds = self.folder.join("seeds").join(name);
        for folder in [&crashes, &corpus, &seeds] {
            if let Err(error) = std::fs::create_dir_all(folder) {
                return Outcome::failed(format!("fuzz {name}: {}: {error}", folder.display()));
            }
        }
        let mut command = Command::new(&binary);
        // Without a backtrace the tail of the output still shows which assertion broke.
        command.args([corpus, seeds]).args(LIMITS).env("RUST_BACKTRACE", "0");
        command.arg(format!("-max_total_time={}", time.as_secs()));
        command.arg(format!("-artifact_prefix={}/", crashes.display()));
        let finished = match process::run(&mut command, time + GRACE, Echo::Kept) {
            Ok(finished) => finished,
            Err(problem) => return Outcome::failed(format!("fuzz {name}: {problem}")),
        };
        match verdict(&finished) {
            Ok(did) => {
                println!("fuzz {name}: {did}");
                Outcome::passed(1)
            }
            Err(problem) => {
                let again = format!("to repeat: {} INPUT", binary.display());
                println!("fuzz {name}: {problem}\n{}\n{again}", finished.tail(40));
                Outcome::failed(format!("fuzz {name}: {problem}"))
            }
        }
    }
}

/// How much a target did, or what is wrong with it.
fn verdict(finished: &Finished) -> Result<String, String> {
    let output = &finished.output;
    if !finished.succeeded() {
        let input = output.lines().find_map(|line| line.split_once("Test unit written to "));
        let mut problem = finished.end.to_string();
        if let Some((_, path)) = input {
            let _ = write!(problem, ", on the input {path}");
        }
        return Err(problem);
    }
    if !output.contains("inline 8-bit counters)") {
        return Err("was built without coverage counters".to_owned());
    }
    let runs = number_after(output, "stat::number_of_executed_units:").unwrap_or(0);
    if runs == 0 {
        return Err("did not run once".to_owned());
    }
    let coverage = output.lines().rev().find_map(|line| number_after(line, " cov: "));
    let per_second = number_after(output, "stat::average_exec_per_sec:").unwrap_or(0);
    Ok(format!("{runs} runs, {per_second} a second, {} edges", coverage.unwrap_or(0)))
}

fn number_after(text: &str, label: &str) -> Option<u64> {
    let (_, rest) = text.split_once(label)?;
    rest.split_whitespace().next()?.parse().ok()
}

const MANIFEST: &str = "fuzz/Cargo.toml";
/// Which program writes examples.
const SEEDS: &str = "rhumb-fuzz-seeds";
const AS_IN_TESTS: &str = "as_in_tests";
/// Builds with libFuzzer, which is C++.
const FEATURE: &str = "rhumb-fuzz/libfuzzer";
/// What cargo has compile the crates of the workspace.
const COMPILER: &str = "fuzz/rustc";
/// A single input may take 5 s and all of them 1 GB: more than that is an attack that works.
const LIMITS: [&str; 3] = ["-timeout=5", "-rss_limit_mb=1024", "-print_final_stats=1"];
const BUILD_DEADLINE: Duration = Duration::from_secs(10 * 60);
/// Replaying a large corpus may take longer than the time for fuzzing.
const GRACE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::End;

    const GOOD: &str = "INFO: Loaded 1 modules   (9519 inline 8-bit counters): 9519
#2 INITED cov: 55 ft: 56 corp: 1/1b exec/s: 0 rss: 28Mb
#9 DONE   cov: 91 ft: 99 corp: 4/9b lim: 4096 exec/s: 3 rss: 28Mb
stat::number_of_executed_units: 34
stat::average_exec_per_sec:     3
";

    fn finished(output: &str, end: End) -> Finished {
        Finished { output: output.to_owned(), end, cpu: Duration::ZERO }
    }

    #[test]
    fn a_good_run_tells_what_it_did() {
        let did = verdict(&finished(GOOD, End::Success));
        assert_eq!(did, Ok("34 runs, 3 a second, 91 edges".to_owned()));
    }

    #[test]
    fn a_run_that_tests_nothing_is_refused() {
        let blind = GOOD.replace("8-bit counters", "");
        assert!(verdict(&finished(&blind, End::Success)).unwrap_err().contains("coverage"));
        let idle = GOOD.replace("units: 34", "units: 0");
        assert!(verdict(&finished(&idle, End::Success)).is_err());
        assert!(verdict(&finished(GOOD, End::TimedOut)).is_err());
    }

    #[test]
    fn a_crash_names_its_input() {
        let output =
            format!("{GOOD}artifact_prefix='x/'; Test unit written to x/crash-1\nBase64: Zg==\n");
        let problem = verdict(&finished(&output, End::Failure(77))).unwrap_err();
        assert_eq!(problem, "ended with code 77, on the input x/crash-1");
    }

    #[test]
    fn the_manifest_lists_the_targets() {
        let text = "[[bin]]\nname = \"a\"\n[[bin]]\nname = \"b\"\n";
        assert_eq!(names_in_manifest(text).unwrap(), ["a", "b"]);
        assert!(names_in_manifest("[[bin").is_err());
    }
}

//! The Python package as its users have it: a wheel that maturin builds, in an environment of its
//! own. (The C library is tested with its crate.)
//!
//! Flow: 1. an environment for tools, kept in the target folder; 2. the wheel, of the profile that
//! all tests are of, in the target folder that they share; 3. a fresh environment, and the wheel in
//! it; 4. the package's tests, in a network of the binary that the tests have built; 5. its types,
//! and those of its examples: mypy, and stubtest for the native half.
//!
//! Invariant: nothing is installed outside of the target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{self, Echo};
use crate::report::{Outcome, Report};

/// By itself. Whether all went well.
pub(crate) fn run(root: &Path) -> bool {
    Report::of_one(root, "bindings", step)
}

/// As a part of all tests.
pub(crate) fn step(root: &Path, target_directory: &Path) -> Outcome {
    let bench = Bench {
        package: root.join("crates/rhumb-python"),
        folder: target_directory.join("bindings"),
        target: target_directory.to_owned(),
    };
    if let Err(reason) = bench.prepare() {
        return Outcome::skipped(format!("bindings: {reason}"));
    }
    let installed = bench.build().and_then(|wheel| bench.install(&wheel).map(|()| wheel));
    match installed {
        Ok(wheel) => {
            let mut outcome = bench.test(&wheel);
            outcome.add(bench.check_types());
            outcome
        }
        Err(problem) => Outcome::failed(format!("bindings: {problem}")),
    }
}

/// Where the package is built and tried.
struct Bench {
    package: PathBuf,
    /// Environments and wheels.
    folder: PathBuf,
    /// Where cargo builds.
    target: PathBuf,
}

impl Bench {
    /// Makes the environment for tools.
    ///
    /// # Errors
    /// With what is missing.
    fn prepare(&self) -> Result<(), String> {
        let is_recent = format!("import sys; sys.exit(sys.version_info < {LEAST_PYTHON})");
        said(Command::new(PYTHON).args(["-c", &is_recent]), ASK_DEADLINE)
            .map_err(|_| format!("no `{PYTHON}` of version {LEAST_PYTHON} or later"))?;
        let tools = self.folder.join(TOOLS);
        if self.tool("maturin").is_file() && self.tool("mypy").is_file() {
            return Ok(());
        }
        self.make_environment(TOOLS)?;
        let mut pip = Command::new(tools.join("bin/python"));
        pip.args(["-m", "pip", "install"]).args(PIP_OPTIONS).args([
            "maturin>=1.9.4,<2",
            "mypy",
            "pytest",
        ]);
        said(&mut pip, INSTALL_DEADLINE)
            .map(drop)
            .map_err(|problem| format!("its tools: {problem}"))
    }

    /// The wheel, newly built.
    fn build(&self) -> Result<PathBuf, String> {
        let wheels = self.folder.join("wheels");
        remove(&wheels)?;
        let mut maturin = Command::new(self.tool("maturin"));
        maturin.current_dir(&self.package).env("CARGO_TARGET_DIR", &self.target);
        maturin.args(["build", "--profile", "dev", "--locked", "--interpreter", PYTHON, "--out"]);
        said(maturin.arg(&wheels), BUILD_DEADLINE)?;
        let files =
            fs::read_dir(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
        let mut files = files.flatten().map(|file| file.path());
        let wheel = files.find(|path| path.extension().is_some_and(|it| it == "whl"));
        wheel.ok_or_else(|| "maturin has made no wheel".to_owned())
    }

    /// Installs it where nothing else is, and what tests use beside it.
    fn install(&self, wheel: &Path) -> Result<(), String> {
        remove(&self.folder.join(FRESH))?;
        self.make_environment(FRESH)?;
        let mut pip = Command::new(self.folder.join(FRESH).join("bin/python"));
        pip.args(["-m", "pip", "install"]).args(PIP_OPTIONS).arg(wheel).args(BESIDE);
        said(&mut pip, INSTALL_DEADLINE).map(drop)
    }

    /// The package's own tests.
    fn test(&self, wheel: &Path) -> Outcome {
        let binary = self.target.join("debug/rhumb");
        let mut pytest = Command::new(self.folder.join(FRESH).join("bin/python"));
        pytest.current_dir(&self.package).args(["-m", "pytest", "-q", "-rA", "--tb=short"]);
        pytest.args(["-p", "no:cacheprovider"]).env("PYTHONDONTWRITEBYTECODE", "1");
        pytest.env("RHUMB_BINARY", binary).env("RHUMB_WHEEL", wheel);
        match process::run(&mut pytest, TEST_DEADLINE, Echo::Shown) {
            Ok(finished) => {
                let mut outcome = outcome_of(&finished.output);
                if !finished.succeeded() && outcome.failures.is_empty() {
                    outcome.failures.push(format!("bindings: pytest {}", finished.end));
                }
                outcome
            }
            Err(problem) => Outcome::failed(format!("bindings: {problem}")),
        }
    }

    /// What programs are told of types is so.
    fn check_types(&self) -> Outcome {
        let python = self.folder.join(FRESH).join("bin/python");
        let mut mypy = Command::new(self.tool("mypy"));
        mypy.current_dir(&self.package).arg("--python-executable").arg(&python);
        mypy.args(["--cache-dir"]).arg(self.folder.join("mypy"));
        mypy.args(["python/rhumb", "examples", "tests"]);
        let mut outcome = of("mypy", &said(&mut mypy, TEST_DEADLINE));
        let mut stubtest = Command::new(self.tool("stubtest"));
        // What it imports is what is installed.
        let site = said(Command::new(&python).args(["-c", SITE_PACKAGES]), ASK_DEADLINE);
        stubtest.current_dir(&self.folder).env("PYTHONPATH", site.unwrap_or_default());
        stubtest.env("MYPY_CACHE_DIR", self.folder.join("mypy"));
        let checked = said(stubtest.arg("rhumb._native"), TEST_DEADLINE);
        outcome.add(of("stubtest", &checked));
        outcome
    }

    fn make_environment(&self, name: &str) -> Result<(), String> {
        let folder = self.folder.join(name);
        let made = said(Command::new(PYTHON).args(["-m", "venv"]).arg(&folder), INSTALL_DEADLINE);
        made.map(drop).map_err(|problem| format!("no environment for Python: {problem}"))
    }

    fn tool(&self, name: &str) -> PathBuf {
        self.folder.join(TOOLS).join("bin").join(name)
    }
}

/// What pytest's summary (`-rA`) says.
fn outcome_of(output: &str) -> Outcome {
    let mut outcome = Outcome::default();
    for line in output.lines() {
        match line.split_once(' ') {
            Some(("PASSED", _)) => outcome.passed += 1,
            Some(("FAILED" | "ERROR", test)) if test.contains(".py") => {
                outcome.failures.push(format!("bindings: {test}"));
            }
            Some(("SKIPPED", why)) => outcome.skips.push(format!("bindings: {why}")),
            _ => {}
        }
    }
    outcome
}

fn of(what: &str, result: &Result<String, String>) -> Outcome {
    match result {
        Ok(_) => Outcome::passed(1),
        Err(problem) => Outcome::failed(format!("bindings: {what}: {problem}")),
    }
}

/// What a command prints, if it ends well.
fn said(command: &mut Command, deadline: Duration) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let finished = process::run(command, deadline, Echo::Kept)?;
    match finished.succeeded() {
        true => Ok(finished.output.trim_end().to_owned()),
        false => Err(format!("{program} {}: {}", finished.end, finished.tail(20))),
    }
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

const PYTHON: &str = "python3";
/// As in the package's settings.
const LEAST_PYTHON: &str = "(3, 9)";
/// The environment of maturin and mypy.
const TOOLS: &str = "tools";
/// The environment of the wheel.
const FRESH: &str = "fresh";
const PIP_OPTIONS: [&str; 3] = ["--quiet", "--disable-pip-version-check", "--no-input"];
/// The other is what the collectors of OpenTelemetry read by, which daemons push to.
const BESIDE: [&str; 2] = ["pytest", "opentelemetry-proto"];
const SITE_PACKAGES: &str = "import sysconfig; print(sysconfig.get_path('platlib'))";
const ASK_DEADLINE: Duration = Duration::from_secs(30);
const INSTALL_DEADLINE: Duration = Duration::from_secs(3 * 60);
/// If dependencies have to be compiled once more, on two slow cores.
const BUILD_DEADLINE: Duration = Duration::from_secs(20 * 60);
const TEST_DEADLINE: Duration = Duration::from_secs(10 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pytest_says_is_counted() {
        let output = "\
..s [100%]
=== short test summary info ===
PASSED tests/test_keys.py::test_a
PASSED tests/test_keys.py::test_b
SKIPPED [1] tests/test_package.py:20: no wheel
FAILED tests/test_streams.py::test_c - assert 1 == 2
1 failed, 2 passed, 1 skipped in 0.10s";
        let outcome = outcome_of(output);
        assert_eq!(outcome.passed, 2);
        assert_eq!(outcome.failures, ["bindings: tests/test_streams.py::test_c - assert 1 == 2"]);
        assert_eq!(outcome.skips, ["bindings: [1] tests/test_package.py:20: no wheel"]);
    }
}

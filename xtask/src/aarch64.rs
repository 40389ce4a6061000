//! Tests on aarch64, by an emulator of processors: of what is there for such processors alone, and
//! of what others must understand.
//!
//! Flow: 1. find a Rust compiler that has the standard library for aarch64, a C compiler, and
//! `qemu-aarch64`; 2. build test programs, in a target folder of their own; 3. run those that
//! have changed since they passed. `cargo xtask aarch64` does it for more crates than
//! `cargo xtask test`, and tries the program itself.
//!
//! Invariant: nothing is measured here. An emulator's time is no processor's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::arguments::TestOptions;
use crate::metadata::{self, Metadata, cargo};
use crate::packages;
use crate::passed::Passed;
use crate::process::{self, Echo};
use crate::programs::{self, Program};
use crate::report::{Outcome, Report};

/// As a part of all tests: the crates whose code has something of its own for such processors.
pub(crate) fn step(root: &Path, target_directory: &Path, options: &TestOptions) -> Outcome {
    match Workshop::prepare(root, target_directory, options.install) {
        Ok(workshop) => workshop.test_own(options.again),
        Err(problem) => Outcome::skipped(format!("aarch64: {problem}")),
    }
}

/// By itself: what takes longer. Whether all went well.
pub(crate) fn run(root: &Path, again: bool) -> bool {
    let mut report = Report::default();
    let metadata = metadata::host_triple().and_then(|host| Metadata::load(root, &[host]));
    match metadata.and_then(|it| Workshop::prepare(root, &it.target_directory, true)) {
        Ok(workshop) => {
            report.step("own code", || workshop.test_own(again));
            report.step("tests", || workshop.test(&OTHERS, again));
            report.step("program", || workshop.try_program());
        }
        Err(problem) => report.step("tests", || Outcome::failed(problem)),
    }
    println!("{}", report.summary());
    report.succeeded()
}

/// What it takes to build for aarch64 and to run that.
struct Workshop {
    root: PathBuf,
    /// What has passed, and what is tried.
    folder: PathBuf,
    /// Where cargo builds.
    build: PathBuf,
    compiler: &'static str,
}

impl Workshop {
    /// Installs what is missing if it may.
    ///
    /// # Errors
    /// With what is missing still.
    fn prepare(root: &Path, target_directory: &Path, may_install: bool) -> Result<Self, String> {
        if cfg!(target_arch = "aarch64") {
            return Err("this processor is one, so the other tests are these".to_owned());
        }
        packages::prepare_standard_libraries(&[TRIPLE], may_install);
        Self::find(root, target_directory).or_else(|_| {
            let needs_compiler = !packages::has_standard_library(RUSTC, TRIPLE);
            packages::prepare_for_aarch64(needs_compiler, may_install);
            Self::find(root, target_directory)
        })
    }

    /// # Errors
    /// With what is missing.
    fn find(root: &Path, target_directory: &Path) -> Result<Self, String> {
        for (program, package) in [(LINKER, "gcc-aarch64-linux-gnu"), (EMULATOR, "qemu-user")] {
            if !process::is_installed(program) {
                return Err(format!("no `{program}` (Debian package {package})"));
            }
        }
        if !Path::new(LIBRARIES).join("include/stdio.h").is_file() {
            return Err("no C library (Debian package libc6-dev-arm64-cross)".to_owned());
        }
        let compilers = [RUSTC, packages::COMPILER_OF_DEBIAN];
        let compiler = compilers.into_iter().find(|it| is_for_aarch64(it)).ok_or(NO_COMPILER)?;
        let folder = target_directory.join("aarch64");
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        // What runs while cargo builds is what the tests have had built, by the same compiler.
        let build = if compiler == RUSTC { target_directory } else { &folder }.to_owned();
        Ok(Self { root: root.to_owned(), folder, build, compiler })
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.root).args(arguments).args(["--locked", "--target", TRIPLE]);
        command.args(["--config", C_AS_IT_IS]).env("CARGO_TARGET_DIR", &self.build);
        if self.compiler != RUSTC {
            command.env("RUSTC", self.compiler);
        }
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
        command
    }

    /// A program under the emulator.
    fn emulated(executable: &Path) -> Command {
        let mut command = Self::emulator();
        command.arg(executable);
        command
    }

    /// The emulator, with the libraries that programs were linked with: the loader would find those
    /// of the system otherwise, which may be others than its own.
    fn emulator() -> Command {
        let mut command = Command::new(EMULATOR);
        command.args(["-L", LIBRARIES, "-E", &format!("LD_LIBRARY_PATH={LIBRARIES}/lib")]);
        command
    }

    /// What there is for such processors alone.
    fn test_own(&self, again: bool) -> Outcome {
        let mut outcome = self.test(&[OF_ITS_OWN], again);
        outcome.add(match self.compare_paths() {
            Ok(()) => Outcome::passed(1),
            Err(problem) => Outcome::failed(format!("aarch64: {EXAMPLE}: {problem}")),
        });
        outcome
    }

    /// Whether what is executed is the same whatever the keys, plaintexts and tags; and whether it
    /// would be noticed if it were not.
    fn compare_paths(&self) -> Result<(), String> {
        let mut build = self.cargo(&["build", "--package", OF_ITS_OWN, "--example", EXAMPLE]);
        let built = process::run(&mut build, BUILD_DEADLINE, Echo::Shown)?;
        if !built.succeeded() {
            return Err(format!("cargo build {}", built.end));
        }
        let [one, other] = [self.path(&["1"])?, self.path(&["2"])?];
        let [leaking, other_leaking] = [self.path(&["1", "leak"])?, self.path(&["2", "leak"])?];
        println!(
            "{} pieces of code are executed for one seed, {} for another",
            one.len(),
            other.len()
        );
        if one.len() < LEAST_PATH {
            return Err("too little of the path was seen".to_owned());
        }
        if leaking == other_leaking {
            return Err("a branch that depends on a secret is not noticed".to_owned());
        }
        match one.iter().zip(&other).find(|(one, other)| one != other) {
            Some((one, other)) => Err(format!("a secret decides between {one} and {other}")),
            None if one.len() != other.len() => Err("a secret decides what comes last".to_owned()),
            None => Ok(()),
        }
    }

    /// The pieces of our own code that the example executes, in their order.
    fn path(&self, arguments: &[&str]) -> Result<Vec<String>, String> {
        let log = self.folder.join("path.log");
        let executable = self.build.join(TRIPLE).join("debug/examples").join(EXAMPLE);
        let mut command = Self::emulator();
        command.args(["-d", "exec,nochain", "-D"]).arg(&log);
        let finished =
            process::run(command.arg(executable).args(arguments), TEST_DEADLINE, Echo::Kept)?;
        if !finished.succeeded() {
            return Err(format!("{} {}\n{}", arguments.join(" "), finished.end, finished.tail(5)));
        }
        let text = std::fs::read_to_string(&log).map_err(|error| error.to_string())?;
        let _ = std::fs::remove_file(&log);
        Ok(text.lines().filter_map(piece_in).collect())
    }

    /// Builds and runs the test programs of these packages; with `again` also those that passed
    /// and are unchanged since.
    fn test(&self, packages: &[&str], again: bool) -> Outcome {
        let mut passed = Passed::load(&self.root, &self.folder);
        let mut build = self.cargo(&["test", "--lib", "--tests"]);
        build.args(packages.iter().flat_map(|it| ["--package", it]));
        let programs = match programs::build(&mut build) {
            Ok(programs) => programs,
            Err(problem) => return Outcome::failed(format!("aarch64: {problem}")),
        };
        let mut outcome = Outcome::default();
        for program in programs {
            if let Some(tests) = passed.tests_of(&program).filter(|_| !again) {
                println!("{}: unchanged since its {tests} tests passed", program.name);
                outcome.passed += tests;
                continue;
            }
            let came_to = self.test_by(&program);
            if came_to.failures.is_empty() && came_to.skips.is_empty() {
                passed.remember(&program, came_to.passed);
            }
            outcome.add(came_to);
        }
        if let Err(problem) = passed.save() {
            println!("what passed will be run again next time: {problem}");
        }
        outcome
    }

    fn test_by(&self, program: &Program) -> Outcome {
        println!("\n-- {}, on aarch64", program.name);
        let mut command = Self::emulated(&program.executable);
        program.prepare(&mut command);
        program.outcome_of(process::run(&mut command, TEST_DEADLINE, Echo::Shown))
    }

    /// Whether `rhumb` itself runs there.
    fn try_program(&self) -> Outcome {
        match self.program_runs() {
            Ok(()) => Outcome::passed(1),
            Err(problem) => Outcome::failed(format!("aarch64: rhumb: {problem}")),
        }
    }

    /// It starts, understands arguments, draws random numbers, makes keys and names, signs and
    /// verifies, writes and reads files.
    fn program_runs(&self) -> Result<(), String> {
        let mut build = self.cargo(&["build", "--package", "rhumb", "--bin", "rhumb"]);
        let built = process::run(&mut build, BUILD_DEADLINE, Echo::Shown)?;
        if !built.succeeded() {
            return Err(format!("cargo build {}", built.end));
        }
        let place = self.folder.join("place");
        // Of an earlier run: commands replace no key.
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        let executable = self.build.join(TRIPLE).join("debug/rhumb");
        let rhumb = |arguments: &[&str]| {
            let mut command = Self::emulated(&executable);
            command.current_dir(&place).args(arguments);
            let finished = process::run(&mut command, COMMAND_DEADLINE, Echo::Kept)?;
            println!("rhumb {}: {}", arguments.join(" "), finished.output.trim());
            match finished.succeeded() {
                true => Ok(finished.output),
                false => Err(format!("{} {}", arguments.join(" "), finished.end)),
            }
        };
        rhumb(&["--version"])?;
        let made: Value = serde_json::from_str(&rhumb(&["--json", "keygen"])?)
            .map_err(|error| format!("keygen: {error}"))?;
        let name = made["name"].as_str().ok_or("keygen tells no name")?;
        rhumb(&["keygen", "--role", "capsule"])?;
        rhumb(&["--cipher", "own", "certify", "--server", name])?;
        let says = rhumb(&["inspect", "capsule.adcert"])?;
        says.contains(name).then_some(()).ok_or_else(|| format!("inspect does not tell {name}"))
    }
}

/// Whether a compiler builds this project, and has the standard library for aarch64.
fn is_for_aarch64(compiler: &str) -> bool {
    let says = process::run(Command::new(compiler).arg("-vV"), ASK_DEADLINE, Echo::Kept);
    says.is_ok_and(|says| is_recent(&says.output, env!("CARGO_PKG_RUST_VERSION")))
        && packages::has_standard_library(compiler, TRIPLE)
}

/// Whether a compiler that says this of itself is of the least version that is needed, or later.
fn is_recent(says: &str, least: &str) -> bool {
    let release = says.lines().find_map(|line| line.strip_prefix("release: "));
    release.is_some_and(|release| version(release) >= version(least))
}

/// The first two numbers.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map_while(|it| it.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// Which piece of code a line of the emulator's log says was executed: address and function, if it
/// is one of ours. A line is `Trace 0: 0x7f01 [00000000/00000055008a3b40/00100001/ff000000] NAME`.
fn piece_in(line: &str) -> Option<String> {
    let (numbers, function) = line.strip_prefix("Trace ")?.split_once("] ")?;
    let address = numbers.split('/').nth(1)?;
    let is_ours = function.contains("rhumb_aead") || function.contains(EXAMPLE);
    is_ours.then(|| format!("{address} {function}"))
}

/// The crate with code for such processors.
const OF_ITS_OWN: &str = "rhumb-aead";
/// Of that crate: what it executes must not depend on its argument.
const EXAMPLE: &str = "same_path";
/// Fewer pieces cannot be all.
const LEAST_PATH: usize = 10_000;
/// Those whose code is the same everywhere, but whose bytes others must understand.
const OTHERS: [&str; 2] = ["rhumb-wire", "rhumb-link"];
const TRIPLE: &str = "aarch64-unknown-linux-gnu";
const RUSTC: &str = "rustc";
/// An emulator is slow in any case, and optimising C takes three times as long to build it.
const C_AS_IT_IS: &str = "profile.dev.package.aws-lc-sys.opt-level=0";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// Where Debian has the C library for it.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
const NO_COMPILER: &str = "no Rust compiler of this version has the standard library for it (Debian packages \
     rustc-web and libstd-rust-web-dev:arm64, or rustup target add aarch64-unknown-linux-gnu)";
const ASK_DEADLINE: Duration = Duration::from_secs(30);
/// For a build from nothing, on two slow cores.
const BUILD_DEADLINE: Duration = Duration::from_secs(40 * 60);
const TEST_DEADLINE: Duration = Duration::from_secs(20 * 60);
const COMMAND_DEADLINE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_that_are_too_old_are_not_taken() {
        for (release, is_taken) in
            [("1.95.0", true), ("1.96.0-nightly", true), ("2.0.0", true), ("1.94.1", false)]
        {
            let says = format!("rustc {release}\nbinary: rustc\nrelease: {release}\n");
            assert_eq!(is_recent(&says, "1.95"), is_taken, "{release}");
        }
        assert!(!is_recent("rustc", "1.95"));
    }

    #[test]
    fn pieces_of_our_own_code_are_found_in_the_log() {
        let line = |name: &str| {
            format!("Trace 0: 0x7f01 [00000000/00000055008a3b40/00100001/ff000000] {name}")
        };
        let ours = "_ZN10rhumb_aead12side_by_side4neon4seal17h0E";
        assert_eq!(piece_in(&line(ours)), Some(format!("00000055008a3b40 {ours}")));
        assert_eq!(piece_in(&line("memcpy")), None);
        assert_eq!(piece_in("Linking TBs"), None);
    }
}

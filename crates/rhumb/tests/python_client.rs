//! The independent client in `tests/python`, written from the specification alone: its own tests,
//! and those of it in one network with this binary. Each Python module is one test here.
//!
//! It needs Python 3.9 and the package `cryptography`. Where the package is missing and this is a
//! machine for tests (`CI` is set, or the user is root), it is installed into a virtual environment
//! below the build folder; otherwise the tests skip themselves.
//!
//! One module uses a foreign QUIC stack, too: `tests/quic-go`, which takes Go 1.25, and gets its
//! modules on a machine for tests. It skips itself where these are missing.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

#[test]
fn encodings() {
    run("test_encodings");
}

#[test]
fn vectors() {
    run("test_vectors");
}

#[test]
fn platypus() {
    run("test_platypus");
}

#[test]
fn keys() {
    run("test_keys");
}

#[test]
fn dtls_pieces() {
    run("test_dtls_pieces");
}

#[test]
fn handshakes() {
    run("test_handshakes_with_the_binary");
}

#[test]
fn dtls_against_openssl() {
    run("test_dtls_against_openssl");
}

#[test]
fn python_and_rust_reach_each_other() {
    run("test_with_the_binary");
}

#[test]
fn python_belongs_to_a_domain() {
    run("test_in_a_domain");
}

#[test]
fn what_python_forges_is_refused() {
    run("test_attacks_on_the_binary");
}

#[test]
fn an_end_of_another_make() {
    match foreign_end() {
        Ok(path) => run_with("test_ends_of_quic_go", &[("RHUMB_FOREIGN_END", &path)]),
        Err(reason) => println!("skipped: {reason}"),
    }
}

/// Runs one module of Python tests.
#[track_caller]
fn run(module: &str) {
    run_with(module, &[]);
}

/// Runs it with these paths in its environment.
#[track_caller]
fn run_with(module: &str, paths: &[(&str, &Path)]) {
    let python = match interpreter() {
        Ok(python) => python,
        Err(reason) => {
            println!("skipped: {reason}");
            return;
        }
    };
    let mut command = Command::new(python);
    command
        .args(["-m", "unittest", "--verbose", module])
        .current_dir(tests_folder())
        .env("RHUMB_BINARY", env!("CARGO_BIN_EXE_rhumb"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(paths.iter().copied());
    let (succeeded, output) = finish(&mut command, MODULE_DEADLINE);
    assert!(succeeded, "{output}");
    // Where a program is missing, a whole module skips itself, and unittest's last line says so.
    if output.lines().last().is_some_and(|line| line.starts_with("OK (skipped=")) {
        println!("skipped: {module} skips itself: {output}");
    }
}

/// A Python that has what the client needs, found once.
fn interpreter() -> &'static Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(find_interpreter)
}

fn find_interpreter() -> Result<PathBuf, String> {
    let python = PathBuf::from("python3");
    if !says_yes(&python, "import sys; sys.exit(sys.version_info < (3, 9))") {
        return Err("no Python 3.9 or later".to_owned());
    }
    if has_package(&python) {
        return Ok(python);
    }
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python_client");
    let python = environment.join("bin").join("python3");
    if has_package(&python) {
        return Ok(python);
    }
    if !may_install() {
        return Err("no Python package `cryptography`".to_owned());
    }
    let mut create = Command::new("python3");
    create.args(["-m", "venv", "--clear"]).arg(&environment);
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]);
    for command in [&mut create, &mut install] {
        let (succeeded, output) = finish(command, INSTALL_DEADLINE);
        if !succeeded {
            let why = output.lines().last().unwrap_or_default();
            return Err(format!("the Python package `cryptography` cannot be installed: {why}"));
        }
    }
    match has_package(&python) {
        true => Ok(python),
        false => Err("the Python package `cryptography` is too old".to_owned()),
    }
}

/// Whether all that the client imports of the package is there; old releases lack some of it.
fn has_package(python: &Path) -> bool {
    says_yes(python, "import rhumb.node")
}

fn says_yes(python: &Path, program: &str) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", program]).current_dir(tests_folder()).env("PYTHONDONTWRITEBYTECODE", "1");
    finish(&mut command, QUESTION_DEADLINE).0
}

/// The end in `tests/quic-go`, built.
fn foreign_end() -> Result<PathBuf, String> {
    let go = |words: &[&str], deadline| {
        let mut command = Command::new("go");
        command.args(words).current_dir(tests_folder().join("../quic-go"));
        // What is there is not replaced: neither Go, nor the versions of modules.
        command.envs([("GOTOOLCHAIN", "local"), ("GOFLAGS", "-mod=readonly"), ("GOWORK", "off")]);
        if !may_install() {
            command.env("GOPROXY", "off");
        }
        finish(&mut command, deadline)
    };
    let last_line = |output: &str| output.lines().last().unwrap_or_default().to_owned();
    let (_, version) = go(&["env", "GOVERSION"], QUESTION_DEADLINE);
    let minor = version.trim().strip_prefix("go1.").and_then(|it| it.split('.').next());
    if minor.and_then(|it| it.parse::<u32>().ok()).is_none_or(|it| it < 25) {
        return Err(format!("no Go 1.25 or later: {}", last_line(&version)));
    }
    let (has_modules, output) = go(&["mod", "download"], INSTALL_DEADLINE);
    if !has_modules {
        return Err(format!("no module of quic-go: {}", last_line(&output)));
    }
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign_end");
    let to = built.to_str().ok_or("the build folder's path is no text")?;
    let build = ["build", "-buildvcs=false", "-ldflags=-s -w", "-o", to, "."];
    let (succeeded, output) = go(&build, BUILD_DEADLINE);
    assert!(succeeded, "{output}");
    Ok(built)
}

/// Whether this is a machine for tests.
fn may_install() -> bool {
    std::env::var_os("CI").is_some() || is_root()
}

fn is_root() -> bool {
    let (succeeded, output) = finish(Command::new("id").arg("-u"), QUESTION_DEADLINE);
    succeeded && output.trim() == "0"
}

fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python")
}

/// Runs to the end, or to the deadline. Returns whether it succeeded, and all that it printed.
fn finish(command: &mut Command, deadline: Duration) -> (bool, String) {
    let (mut reader, writer) = std::io::pipe().unwrap();
    command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return (false, error.to_string()),
    };
    // The pipe ends with its last writer, and the command still holds two.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let printed = std::thread::spawn(move || {
        let mut output = Vec::new();
        reader.read_to_end(&mut output).unwrap();
        String::from_utf8_lossy(&output).into_owned()
    });
    let end = Instant::now() + deadline;
    let succeeded = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status.success(),
            None if Instant::now() > end => {
                // What it started ends too: its standard input does.
                child.kill().unwrap();
                child.wait().unwrap();
                break false;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    (succeeded, printed.join().unwrap())
}

/// The oldest release that the client is known to work with.
const PACKAGE: &str = "cryptography>=42";
/// Loopback takes seconds; a loaded machine may take longer.
const MODULE_DEADLINE: Duration = Duration::from_secs(180);
const INSTALL_DEADLINE: Duration = Duration::from_secs(120);
/// The first time Go's library is built, too.
const BUILD_DEADLINE: Duration = Duration::from_secs(240);
const QUESTION_DEADLINE: Duration = Duration::from_secs(20);

//! Whether a node's library compiles for systems that it is not tested on: macOS, Windows, and
//! Linux with musl in place of the usual C library, as a part of all tests. And by `cargo xtask
//! portable` whether the program, built with musl, needs no library and plays the demo.
//!
//! Rustup brings the standard library of these, and then programs that run while cargo builds are
//! those that the tests have had built. Where it cannot, a compiler that comes with the library's
//! sources checks them, too: Debian's, which is one and the same for all targets. Checking links
//! nothing, so what C there is below is not compiled: in place of a C compiler stands a program
//! that makes empty objects, and in place of `dlltool`, of Windows, one that makes empty libraries.
//!
//! Invariant: a check runs nothing, so what it shows is that the types fit and no more.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::demo;
use crate::metadata::{self, Metadata, cargo};
use crate::packages::{self, MUSL_COMPILER};
use crate::process::{self, Echo};
use crate::report::{Outcome, Report};

/// As a part of all tests.
pub(crate) fn step(root: &Path, target_directory: &Path, may_install: bool) -> Outcome {
    let mut outcome = Outcome::default();
    match Workshop::prepare(root, target_directory, may_install) {
        Ok(workshop) => TESTED.iter().for_each(|target| outcome.add(workshop.check(target))),
        Err(problem) => outcome.add(Outcome::failed(format!("portable: {problem}"))),
    }
    outcome
}

/// By itself, with the program that needs no library. Whether all is well: a target that cannot be
/// checked is not.
pub(crate) fn run(root: &Path) -> bool {
    let mut report = Report::default();
    let checked = metadata::host_triple()
        .and_then(|host| Metadata::load(root, &[host]))
        .and_then(|metadata| check_all(root, &metadata.target_directory, &mut report));
    if let Err(problem) = checked {
        report.step("targets", || Outcome::failed(problem));
    }
    println!("{}", report.summary());
    report.succeeded()
}

fn check_all(root: &Path, target_directory: &Path, report: &mut Report) -> Result<(), String> {
    let workshop = Workshop::prepare(root, target_directory, true)?;
    for target in TESTED {
        report.step(target, || match workshop.check(target) {
            Outcome { skips, .. } if !skips.is_empty() => Outcome::failed(skips.join("; ")),
            outcome => outcome,
        });
    }
    report.step("demo with musl", || match build_without_libraries(root, target_directory) {
        Ok(target_directory) => demo::run(root, &target_directory),
        Err(problem) => Outcome::failed(format!("{MUSL}: {problem}")),
    });
    Ok(())
}

/// Builds the program with musl, which needs no library: the target folder that has it.
fn build_without_libraries(root: &Path, target_directory: &Path) -> Result<PathBuf, String> {
    packages::prepare_for_musl(true);
    if !Path::new(MUSL_COMPILER).exists() {
        return Err(format!("no `{MUSL_COMPILER}` (Debian package musl-tools)"));
    }
    let mut build = Command::new(cargo());
    build.current_dir(root).args(["build", "--locked", "--package", "rhumb", "--bin", "rhumb"]);
    build.args(["--target", MUSL]).env("CARGO_TARGET_DIR", target_directory);
    let finished = process::run(&mut build, DEADLINE, Echo::Shown)?;
    if !finished.succeeded() {
        return Err(format!("cargo build {}", finished.end));
    }
    let target_directory = target_directory.join(MUSL);
    needs_no_library(&target_directory.join("debug/rhumb"))?;
    Ok(target_directory)
}

/// Whether the system's loader has nothing to bring for a program.
fn needs_no_library(program: &Path) -> Result<(), String> {
    let says = process::run(Command::new("ldd").arg(program), ASK_DEADLINE, Echo::Kept)?.output;
    let is_static = says.contains("statically linked") || says.contains("not a dynamic executable");
    is_static.then_some(()).ok_or_else(|| format!("it needs {}", says.trim()))
}

struct Workshop {
    root: PathBuf,
    /// Of what Debian's compiler makes, and of what stands in place of other programs.
    folder: PathBuf,
    /// In place of a C compiler.
    no_compiler: PathBuf,
}

impl Workshop {
    /// Installs what is missing if it may.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn prepare(root: &Path, target_directory: &Path, may_install: bool) -> Result<Self, String> {
        packages::prepare_standard_libraries(&TESTED, may_install);
        if !TESTED.iter().all(|target| packages::has_standard_library(RUSTC, target)) {
            packages::prepare_for_targets(may_install);
        }
        let folder = target_directory.join("portable");
        let no_compiler = folder.join("no-compiler");
        for (tool, text) in [(&no_compiler, NO_COMPILER), (&folder.join(DLLTOOL), NO_DLLTOOL)] {
            std::fs::create_dir_all(&folder)
                .and_then(|()| std::fs::write(tool, text))
                .and_then(|()| std::fs::set_permissions(tool, Permissions::from_mode(0o755)))
                .map_err(|error| format!("{}: {error}", tool.display()))?;
        }
        Ok(Self { root: root.to_owned(), folder, no_compiler })
    }

    fn check(&self, target: &str) -> Outcome {
        let mut check = Command::new(cargo());
        check.current_dir(&self.root).args(["check", "--locked", "--package", PACKAGE]);
        check.args(["--target", target]);
        if !packages::has_standard_library(RUSTC, target) {
            if !Path::new(SOURCES).is_dir() {
                return Outcome::skipped(format!(
                    "portable: no standard library for {target} (rustup target add {target}, or \
                     Debian packages rustc-web, rust-web-src)"
                ));
            }
            check.args(["-Zbuild-std=std,panic_abort"]).env("CARGO_TARGET_DIR", &self.folder);
            // What checks the sources of its own standard library needs leave to do so.
            check.env("RUSTC", packages::COMPILER_OF_DEBIAN).env("RUSTC_BOOTSTRAP", "1");
        }
        let variable = target.replace('-', "_");
        for tool in ["CC", "CXX"] {
            check.env(format!("{tool}_{variable}"), &self.no_compiler);
        }
        check.env(format!("AR_{variable}"), "true");
        // Windows has objects of an assembler that come with the sources.
        check.env("AWS_LC_SYS_PREBUILT_NASM", "1");
        let path = std::env::var("PATH").unwrap_or_default();
        check.env("PATH", format!("{}:{path}", self.folder.display()));
        match process::run(&mut check, DEADLINE, Echo::Shown) {
            Ok(finished) if finished.succeeded() => Outcome::passed(1),
            Ok(finished) => Outcome::failed(format!("{target}: cargo check {}", finished.end)),
            Err(problem) => Outcome::failed(format!("{target}: {problem}")),
        }
    }
}

const PACKAGE: &str = "rhumb-node";
const TESTED: [&str; 3] = ["aarch64-apple-darwin", "x86_64-pc-windows-gnu", MUSL];
const MUSL: &str = "x86_64-unknown-linux-musl";
const ASK_DEADLINE: Duration = Duration::from_secs(30);
const RUSTC: &str = "rustc";
const SOURCES: &str = "/usr/lib/rustlib/src/rust/library/std";
/// Makes the object that is asked for, empty; what the preprocessor would say is asked of the
/// system's.
const NO_COMPILER: &str = r#"#!/bin/sh
out=
for word; do
  case "$word" in -E) exec cc "$@";; esac
done
while [ $# -gt 0 ]; do
  case "$1" in -o) out="$2"; shift;; esac
  shift
done
if [ -n "$out" ]; then : > "$out"; fi
"#;
const DLLTOOL: &str = "x86_64-w64-mingw32-dlltool";
/// Makes the library that is asked for, empty.
const NO_DLLTOOL: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in -l) printf '!<arch>\n' > "$2"; shift;; esac
  shift
done
"#;
/// A standard library and a hundred crates, on two busy cores.
const DEADLINE: Duration = Duration::from_secs(15 * 60);

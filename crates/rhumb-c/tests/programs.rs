//! C programs against both libraries, in a network of real daemons.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::network::{Network, Running, built};

/// How a program is linked.
#[derive(Clone, Copy)]
enum Linked {
    Static,
    Shared,
}

#[test]
fn the_example_runs_with_the_shared_library() {
    two_programs_reach_each_other(Linked::Shared, &[]);
}

#[test]
fn the_example_runs_with_the_static_library() {
    two_programs_reach_each_other(Linked::Static, &[]);
}

#[test]
fn the_example_leaks_nothing_and_touches_nothing_that_is_not_its_own() {
    if !is_there("valgrind") {
        println!("skipped: no `valgrind`");
        return;
    }
    let valgrind = ["valgrind", "--error-exitcode=9", "--leak-check=full"];
    // Optimised code of safe Rust looks at values that it then makes nothing of, which it may.
    let kinds = [
        "--errors-for-leak-kinds=definite",
        "--show-leak-kinds=definite",
        "--undef-value-errors=no",
        "--quiet",
    ];
    two_programs_reach_each_other(Linked::Shared, &[&valgrind[..], &kinds].concat());
}

#[test]
fn what_a_program_does_wrong_is_told_and_harms_nothing() {
    let Some(network) = network() else { return };
    let program = compile(&network, "tests/wrong.c", Linked::Shared);
    let mut command = Command::new(program);
    command.arg(&network.router).arg(network.folder());
    let (is_well, said) = Running::spawn(&mut command).end();
    assert!(is_well, "{}", said.join("\n"));
    assert_eq!(said.last().map(String::as_str), Some("and the parent goes on: 0 "));
}

#[test]
fn the_header_is_also_one_for_cpp() {
    if !is_there("c++") {
        println!("skipped: no `c++`");
        return;
    }
    let header = folder().join("include/rhumb.h");
    let mut command = Command::new("c++");
    command.args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"]);
    assert!(command.arg(header).status().unwrap().success());
}

/// One answers, the other one asks.
#[track_caller]
fn two_programs_reach_each_other(linked: Linked, under: &[&str]) {
    let Some(network) = network() else { return };
    let program = compile(&network, "examples/ping.c", linked);
    let command = |words: &[&str]| {
        let mut whole = under.iter().map(Path::new).chain([program.as_path()]);
        let mut command = Command::new(whole.next().unwrap());
        command.args(whole).arg(&network.router).args(words).current_dir(network.folder());
        Running::spawn(&mut command)
    };
    let answering = command(&[]);
    let name = answering.next_line();
    let (is_well, said) = command(&["to", &name]).end();
    assert!(is_well, "{}", said.join("\n"));
    assert!(said[0].starts_with(&format!("{name} answers after ")), "{said:?}");
    assert_eq!(said[1], "a datagram comes back: hello");
    assert_eq!(said[2], format!("a stream with {name} gives back 6 bytes: hello"));
    let (is_well, said) = answering.end();
    assert!(is_well, "{}", said.join("\n"));
    assert!(said[0].starts_with("a datagram of 6 bytes from "), "{said:?}");
    assert!(said[1].starts_with("a stream from "), "{said:?}");
}

/// None where the test cannot be, which it says.
fn network() -> Option<Network> {
    if !is_there("cc") {
        println!("skipped: no C compiler");
        return None;
    }
    let started = Network::start();
    started.inspect_err(|reason| println!("skipped: {reason}")).ok()
}

/// The program of a C file.
fn compile(network: &Network, source: &str, linked: Linked) -> PathBuf {
    let program = network.folder().join("program");
    let mut command = Command::new("cc");
    command.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-pedantic"]);
    command.args(["-Wall", "-Wextra", "-Werror", "-g"]);
    // Less than what is waited for its lines.
    command.arg("-DPATIENCE_MS=100000");
    command.arg("-I").arg(folder().join("include")).arg(folder().join(source));
    match linked {
        Linked::Static => {
            command.arg(library("a")).args(["-lpthread", "-ldl", "-lm"]);
        }
        Linked::Shared => {
            let library = library("so");
            command
                .arg(&library)
                .arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()));
        }
    }
    let compiled = command.arg("-o").arg(&program).output().unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success() && said.is_empty(), "{command:?}: {said}");
    program
}

/// The library that was built with this test: the latest, where there are several.
fn library(extension: &str) -> PathBuf {
    let folders = [built(), built().join("deps")];
    let files = folders.iter().flat_map(|it| std::fs::read_dir(it).unwrap()).flatten();
    let is_one = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_named = name == "librhumb_c" || name.starts_with("librhumb_c-");
        is_named && path.extension().is_some_and(|it| it == extension)
    };
    let found = files.map(|file| file.path()).filter(is_one);
    let age = |path: &PathBuf| path.metadata().and_then(|it| it.modified()).ok();
    let latest = found.max_by_key(|path| age(path).unwrap_or(SystemTime::UNIX_EPOCH));
    latest.expect("cargo builds the library with its tests")
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

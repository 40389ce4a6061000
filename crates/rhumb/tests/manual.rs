//! What is made of the command line besides its help, by the programs that read it: completion by
//! shells, and manual pages.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::harness::Place;

#[test]
fn bash_completes_commands_and_options() {
    let place = Place::new();
    let script = place.run(&["completions", "bash"]);
    assert_eq!(script.code, 0, "{}", script.errors);
    place.write("rhumb.bash", &script.output);
    for (line, expected, absent) in [
        ("rhumb net", &["network"][..], "name"),
        ("rhumb network ", &["create", "run", "invite", "list"], "keep"),
        ("rhumb rib --cre", &["--create-schema"], "--listen"),
        ("rhumb --wi", &[], "--with-parent"),
    ] {
        let words = bash_completes(&place, line);
        for word in expected {
            assert!(words.iter().any(|it| it == word), "{line}: {word} is not in {words:?}");
        }
        assert!(!words.iter().any(|it| it == absent), "{line}: {absent} is in {words:?}");
    }
}

/// What bash would offer behind a line, as at its prompt: it calls the function that the script
/// names.
fn bash_completes(place: &Place, line: &str) -> Vec<String> {
    let ask = r#"
        set -eu -o pipefail
        source ./rhumb.bash
        function_of() { local words; read -r -a words < <(complete -p rhumb); local at
            for at in "${!words[@]}"; do
                if [ "${words[$at]}" = -F ]; then echo "${words[$((at + 1))]}"; fi
            done; }
        COMP_LINE=$1; COMP_POINT=${#1}
        read -r -a COMP_WORDS <<<"$1"
        case $1 in *' ') COMP_WORDS+=("");; esac
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        set +eu
        "$(function_of)" rhumb "${COMP_WORDS[$COMP_CWORD]}" "${COMP_WORDS[$((COMP_CWORD - 1))]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = Command::new("bash");
    bash.current_dir(place.folder()).args(["--norc", "-c", ask, "bash", line]);
    let output = bash.stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{line}: {errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn other_shells_accept_their_scripts() {
    let place = Place::new();
    for (shell, file) in [("zsh", "_rhumb"), ("fish", "rhumb.fish")] {
        let script = place.run(&["completions", shell]);
        assert_eq!(script.code, 0, "{}", script.errors);
        place.write(file, &script.output);
        let checked = Command::new(shell).arg("-n").arg(place.path(file)).output();
        let Ok(checked) = checked else {
            println!("skipped: without {shell} (Debian package {shell})");
            continue;
        };
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
    place.run(&["completions", "cmd"]).refused_by_the_command_line("possible values: bash");
}

#[test]
fn manual_pages_are_read_without_a_warning() {
    let place = Place::new();
    // One of an earlier version is replaced; what else is there stays.
    std::fs::create_dir(place.path("pages")).unwrap();
    place.write("pages/rhumb.1", "earlier");
    place.write("pages/other.1", "not ours");
    let run = place.run(&["--json", "man", "pages"]);
    assert_eq!(run.code, 0, "{}", run.errors);
    let written = pages(&place.path("pages"));
    assert_eq!(run.object()["pages"], written.len() - 1);
    assert_eq!(std::fs::read_to_string(place.path("pages/other.1")).unwrap(), "not ours");
    for page in written.iter().filter(|page| !page.ends_with("other.1")) {
        let Ok(read) = troff(page) else {
            return println!("skipped: without groff (Debian package groff-base)");
        };
        let (text, warnings) = (text_of(&read.stdout), text_of(&read.stderr));
        assert!(read.status.success() && warnings.is_empty(), "{}: {warnings}", page.display());
        for heading in ["NAME", "SYNOPSIS", "OPTIONS"] {
            assert!(text.contains(heading), "{}: no {heading}", page.display());
        }
    }
    let router = troff(&place.path("pages/rhumb-router.1")).unwrap();
    let router = text_of(&router.stdout);
    assert!(router.contains("--tls-listen") && router.contains("[default: 0.0.0.0:7460]"));

    place.write("file", "");
    place.run(&["man", "file"]).is_refused_with(&["file", "give another folder"]);
}

fn troff(page: &Path) -> std::io::Result<Output> {
    Command::new("groff").args(["-man", "-Tascii", "-ww", "-P-cbou"]).arg(page).output()
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

//! Pages of the documentation, played as they stand: commands are taken out of the page and given
//! to a shell.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::Place;

/// A page of the repository.
pub(crate) fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The commands on a page between two of its lines: each is a block of a shell.
pub(crate) fn commands<'a>(page: &'a str, from: &str, until: &str) -> Vec<&'a str> {
    let begin = page.find(from).unwrap_or_else(|| panic!("no `{from}`"));
    let end = page[begin..].find(until).unwrap_or_else(|| panic!("no `{until}`")) + begin;
    let parts = page[begin..end].split("```sh\n").skip(1);
    parts.map(|part| part.split_once("```").unwrap().0).collect()
}

/// A folder that looks like the repository after a build, and
/// where the rest of the machine is out of sight.
pub(crate) fn built(place: &Place) {
    std::fs::create_dir_all(place.path("target/release")).unwrap();
    let binary = env!("CARGO_BIN_EXE_rhumb");
    std::os::unix::fs::symlink(binary, place.path("target/release/rhumb")).unwrap();
    place.write("README.md", &page("README.md"));
}

/// Runs a script of bash in namespaces of its own, for some minutes at most, and returns all that
/// it printed. `None`, and why, without root.
pub(crate) fn play(place: &Place, script: &str, needs: &[&str]) -> Option<String> {
    let script = format!(
        "set -u\nexec 2>&1\nmount --bind . /mnt && cd /mnt && export HOME=/mnt || exit 77\n\
         mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /run && mkdir /run/netns || exit 77\n\
         ip link set lo up || exit 77\n{script}"
    );
    place.write("tour.sh", &script);
    let found = |tool: &&&str| {
        let probe = format!("command -v {tool}");
        Command::new("sh").args(["-c", &probe]).stdout(Stdio::null()).status().unwrap().success()
    };
    if let Some(tool) = [&["unshare", "ip"], needs].concat().iter().find(|tool| !found(tool)) {
        println!("skipped: without {tool}");
        return None;
    }
    let output = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["timeout", "-k", "5", "240", "bash", "tour.sh"])
        .current_dir(place.folder())
        .env("HOME", place.folder())
        .env_remove("XDG_DATA_HOME")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    match output.status.code() {
        Some(0) => Some(text),
        Some(1) if text.contains("Operation not permitted") => {
            println!("skipped: namespaces need root");
            None
        }
        Some(77) => {
            println!("skipped: no mounts or devices in namespaces here");
            None
        }
        code => panic!("ended with {code:?}: {text}"),
    }
}

/// What follows the command that begins so, up to the next command.
#[track_caller]
pub(crate) fn after<'a>(played: &'a str, command: &str) -> &'a str {
    let begin = format!("$ {command}");
    let from = played.find(&begin).unwrap_or_else(|| panic!("no `{begin}` in: {played}"));
    let rest = &played[from + 1..];
    rest.split("\n$ ").next().unwrap()
}

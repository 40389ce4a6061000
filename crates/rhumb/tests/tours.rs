//! The tours of the documentation, played as they stand: commands
//! are taken out of the page and given to a shell.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::Place;

/// A page of the repository.
fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The commands on a page between two of its lines: each is a block of a shell.
fn commands<'a>(page: &'a str, from: &str, until: &str) -> Vec<&'a str> {
    let begin = page.find(from).unwrap_or_else(|| panic!("no `{from}`"));
    let end = page[begin..].find(until).unwrap_or_else(|| panic!("no `{until}`")) + begin;
    let parts = page[begin..end].split("```sh\n").skip(1);
    parts.map(|part| part.split_once("```").unwrap().0).collect()
}

/// A folder that looks like the repository after a build, and
/// where the rest of the machine is out of sight.
fn built(place: &Place) {
    std::fs::create_dir_all(place.path("target/release")).unwrap();
    let binary = env!("CARGO_BIN_EXE_rhumb");
    std::os::unix::fs::symlink(binary, place.path("target/release/rhumb")).unwrap();
    place.write("README.md", &page("README.md"));
}

/// Runs a script of bash in namespaces of its own, for some minutes at most, and returns all that
/// it printed. `None`, and why, without root.
fn play(place: &Place, script: &str, needs: &[&str]) -> Option<String> {
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
fn after<'a>(played: &'a str, command: &str) -> &'a str {
    let begin = format!("$ {command}");
    let from = played.find(&begin).unwrap_or_else(|| panic!("no `{begin}` in: {played}"));
    let rest = &played[from + 1..];
    rest.split("\n$ ").next().unwrap()
}

/// What runs until it is ended gets a terminal of its own: as a job,
/// waited for until it has said that it is ready.
const TERMINALS: &str = r#"
terminal() {
  local file="terminal.$((++terminals))"
  bash -c "$1" > "$file" 2>&1 &
  for i in $(seq 600); do
    test -s "$file" && break
    kill -0 $! || break
    sleep 0.1
  done
  head -20 "$file"
  test -s "$file" || exit 1
}
terminals=0
say() { printf '\n$ %s\n' "$1"; }
"#;

/// A block of the README, line by line; a line that fails ends it all.
fn by_line(block: &str) -> String {
    let runs_on = |line: &str| {
        ["rhumb rib ", "rhumb router ", "rhumb receive "].iter().any(|it| line.starts_with(it))
    };
    let mut script = String::new();
    for line in block.lines().filter(|line| !line.is_empty()) {
        let quoted = line.replace('\'', r"'\''");
        script += &format!("say '{quoted}'\n");
        script += &match line {
            // The one command that cannot run here. Its result was put in place.
            "cargo build --release" => "test -x target/release/rhumb || exit 1\n".to_owned(),
            line if runs_on(line) => format!("terminal '{quoted}'\n"),
            line => format!("{line}\ncode=$?; test $code = 0 || exit $code\n"),
        };
    }
    script
}

#[test]
fn the_five_minutes_of_the_readme_work_as_they_stand() {
    let place = Place::new();
    built(&place);
    let readme = page("README.md");
    let all = commands(&readme, "## Your own network", "### Packets that prove");
    // Bob is not ended before his next start, as the page says that he should
    // be: then the later one goes on all the same.
    let script: String = all.iter().map(|block| by_line(block)).collect();
    // The process that gave its name up says so some seconds later.
    let told =
        "for i in $(seq 300); do grep -q 'another process' terminal.3 && break; sleep 0.1; done\n";
    let Some(played) = play(&place, &format!("{TERMINALS}{script}{told}"), &[]) else { return };
    assert!(after(&played, "rhumb send").contains("sent README.md"), "{played}");
    assert!(after(&played, "rhumb ping bob").contains("5: "), "{played}");
    let trace = after(&played, "rhumb trace bob");
    for what in ["(this node)", "(router)", "(bob)", "this node says: router may carry"] {
        assert!(trace.contains(what), "`{what}`: {played}");
    }
    let status = after(&played, "rhumb status");
    assert!(status.contains("(bob)") && status.contains("(rib)"), "{played}");
    let received = place.folder().join("terminal.3");
    let bob = std::fs::read_to_string(received).unwrap();
    assert!(bob.contains("README.md"), "{played}");
    assert!(bob.contains("another process has joined with this key"), "{bob}");
    assert!(after(&played, "rhumb send README.md --to capsule").contains("sent README.md"));
    let capsule = std::fs::read_to_string(place.folder().join("terminal.4")).unwrap();
    assert!(capsule.contains("README.md") && !capsule.contains("no longer served"), "{capsule}");
}

/// All blocks of the tour one after the other, each with a
/// line before it by which its output is found.
#[test]
fn the_platypus_tour_works_as_it_stands() {
    let place = Place::new();
    built(&place);
    let tour = page("docs/platypus-tour.md");
    let all = commands(&tour, "# Platypus", "At the end:");
    let mut script = "export PATH=\"$PWD/target/release:$PATH\"\n".to_owned();
    for (number, block) in all.iter().enumerate() {
        // What was begun in the background is given the time that reading takes.
        script += &format!("sleep 2; echo; echo '$ block {number}'\n{block}");
    }
    script += "\nexit 0\n";
    let Some(played) = play(&place, &script, &["curl", "python3", "jq"]) else { return };
    let block = |words: &str| {
        let number = all.iter().position(|block| block.contains(words)).unwrap();
        after(&played, &format!("block {number}\n"))
    };
    assert!(
        block("keyserver --check").contains("in order: _k.example.net, 2 waypoints"),
        "{played}"
    );
    let unstamped = block("exec alice curl");
    assert!(unstamped.contains("curl: (7)") && !unstamped.contains("hello"), "{played}");
    assert!(block("--resolver 10.0.1.1:53 --via").contains("hello from bob"), "{played}");
    let customer = block("rhumb capability inspect");
    assert!(customer.contains("to 10.0.3.0/24 as 7"), "{played}");
    assert!(customer.contains("hello from bob"), "{played}");
    assert!(block("--accounts accounts-w1\n").contains("by 7"), "{played}");
    assert!(block("jq -r").contains("42 owes"), "{played}");
    assert!(block("capability revoke").contains("in force at all 2 waypoints"), "{played}");
    let revoked = block("-- \\\n  curl -sS");
    assert!(revoked.contains("the capability was revoked"), "{played}");
    assert!(revoked.contains("curl: (7)") && !revoked.contains("hello"), "{played}");
}

//! The tour of the README, played as it stands.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use crate::harness::Place;
use crate::pages::{after, built, commands, page, play};

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
    let all = commands(&readme, "## The same by hand", "### Packets that prove");
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

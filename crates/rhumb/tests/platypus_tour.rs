//! The tour of Platypus, played as it stands.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use crate::harness::Place;
use crate::pages::{after, built, commands, page, play};

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

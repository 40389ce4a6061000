//! The demo: moves a real file, has three attacks refused, or crosses trust domains, and leaves
//! nothing behind, however it ends.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::time::{Duration, Instant};

use crate::harness::{Place, Running};

/// A place whose `tmp` is the demo's folder for temporary files.
fn place() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("tmp")).unwrap();
    place
}

fn start(place: &Place, arguments: &[&str]) -> Running {
    let tmp = place.path("tmp");
    place.start_with(arguments, |command| {
        command.env("TMPDIR", &tmp);
    })
}

fn nothing_is_left(place: &Place) {
    assert_eq!(place.processes_left(), Vec::<u32>::new());
}

fn temporary_files(place: &Place) -> usize {
    std::fs::read_dir(place.path("tmp")).unwrap().count()
}

#[test]
fn a_given_file_is_moved_and_three_attacks_are_refused() {
    let place = place();
    let bytes: Vec<u8> =
        (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(place.path("file"), &bytes).unwrap();
    let begin = Instant::now();
    let mut demo = start(&place, &["demo", "file"]);
    let facts = demo.next_object();
    let (code, errors) = demo.end();
    assert!(begin.elapsed() < Duration::from_secs(30));
    assert_eq!(code, 0, "{errors}");

    assert_eq!(facts["sha256_ok"], true);
    assert_eq!(facts["bytes"], 300_000);
    assert_eq!(facts["file"], "file");
    assert!(facts["seconds"].as_f64().unwrap() > 0.0);
    assert!(facts["rtt_us"].as_f64().unwrap() > 0.0);
    assert_eq!(facts["path"], serde_json::json!(["A", "R1", "R2", "R3", "B"]));
    let words: Vec<&str> =
        facts["chain"].as_array().unwrap().iter().map(|c| c["words"].as_str().unwrap()).collect();
    assert_eq!(words.len(), 3);
    assert!(words[0].starts_with("B says: R3 may carry my traffic to and from anyone, until "));
    assert!(words[1].starts_with("R3 says: R2 may carry my traffic to and from anyone, until "));
    assert!(words[2].starts_with("R2 says: I am reached at 127.0.0.1:"));
    let back = facts["chain_back"][0]["words"].as_str().unwrap();
    assert!(back.starts_with("R1 says: R2 may carry my traffic to and from anyone, until "));
    let attacks = facts["attacks"].as_array().unwrap();
    let reasons = ["a signature does not verify", "as replayed", "the session is not B's"];
    assert_eq!(attacks.len(), reasons.len());
    for (attack, reason) in attacks.iter().zip(reasons) {
        assert_eq!(attack["refused"], true, "{attack}");
        assert!(attack["reason"].as_str().unwrap().contains(reason), "{attack}");
    }
    nothing_is_left(&place);
    assert_eq!(temporary_files(&place), 0);
}

#[test]
fn without_json_it_is_told_in_words_and_an_empty_file_is_moved_too() {
    let place = place();
    place.write("empty", "");
    let output =
        place.command(&["demo", "empty"]).env("TMPDIR", place.path("tmp")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for words in ["A - R1 - R2 - R3 - B", "the same at both ends", "All as it should be"] {
        assert!(text.contains(words), "`{words}` is not in: {text}");
    }
    assert!(!text.contains("NOT REFUSED"));
    nothing_is_left(&place);
    assert_eq!(temporary_files(&place), 0);
}

#[test]
fn with_domains_a_file_crosses_three_levels_and_the_rest_stays_where_it_is() {
    let place = place();
    place.write("file", &"from port to farm\n".repeat(20_000));
    let mut demo = start(&place, &["demo", "--domains", "file"]);
    let story = demo.next_object_within(Duration::from_secs(60));
    let (code, errors) = demo.end();
    assert_eq!(code, 0, "{errors}");

    assert_eq!(story["as_expected"], true, "{story}");
    let domains = story["domains"].as_array().unwrap();
    let depths: Vec<_> = domains.iter().map(|it| it["around"].as_array().unwrap().len()).collect();
    assert_eq!(depths, [0, 1, 1, 2, 2]);
    let steps = story["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let expected =
        ["file", "trace", "evidence", "uninvited", "not exported", "multicast", "border dies"];
    assert_eq!(names, expected);
    let [file, trace, evidence, uninvited, not_exported, multicast, border_dies] = &steps[..]
    else {
        panic!("{story}")
    };
    assert_eq!(file["sha256_ok"], true);
    assert_eq!(file["bytes"], 360_000);
    let hidden = "(inside of land: hidden)";
    let way = [
        "port's router",
        "port's border (at the border of port)",
        "sea's border (at the border of sea)",
        "land's border (at the border of land)",
        hidden,
        hidden,
        "B",
    ];
    assert_eq!(trace["way"], serde_json::json!(way));
    assert_eq!(trace["exported_by"], serde_json::json!(["farm", "land"]));
    let chain: Vec<&str> =
        evidence["chain"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(chain.len(), 4, "{chain:?}");
    assert!(chain[0].starts_with("B says: I am known outside by farm, until "));
    assert!(chain[1].starts_with("farm says: I am known outside by land, until "));
    let border = "land says: land's border may carry my traffic, as one of several, until ";
    assert!(chain[2].starts_with(border), "{}", chain[2]);
    assert!(chain[3].starts_with("land's border says: I am reached at 127.0.0.1:"));
    assert_eq!(evidence["inside_known"], serde_json::json!([]));
    assert_eq!(uninvited["reason"], "it has shown no membership of port");
    assert_eq!(not_exported["found_from_outside"], false);
    assert_eq!(not_exported["found_from_inside"], true);
    assert_eq!(multicast["multicast_heard"], serde_json::json!(["E", "F", "G", "H"]));
    assert_eq!(border_dies["died_on_its_way"], true);
    assert_eq!(border_dies["second_sha256_ok"], true);
    nothing_is_left(&place);
    assert_eq!(temporary_files(&place), 0);
}

#[test]
fn the_story_of_the_domains_is_told_in_words() {
    let place = place();
    place.write("empty", "");
    let output = place
        .command(&["demo", "--domains", "empty"])
        .env("TMPDIR", place.path("tmp"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for words in [
        "Five trust domains on three levels",
        "The SHA-256 is the same at both ends",
        "farm says: I am known outside by land",
        "Refused. The router's reason: it has shown no membership of port.",
        "A is told that there is no way to that name.",
        "The file went on by the other one",
        "All as it should be",
    ] {
        assert!(text.contains(words), "`{words}` is not in: {text}");
    }
    assert!(!text.contains("NOT AS EXPECTED"));
    nothing_is_left(&place);
    assert_eq!(temporary_files(&place), 0);
}

#[test]
fn a_demo_that_is_told_to_stop_cleans_up() {
    for (signal, arguments) in
        [("TERM", &["demo"][..]), ("INT", &["demo"]), ("TERM", &["demo", "--domains"])]
    {
        let place = place();
        let demo = start(&place, arguments);
        wait_for_processes(&place, 4);
        assert_eq!(demo.signal(signal), 1);
        nothing_is_left(&place);
        assert_eq!(temporary_files(&place), 0);
    }
}

#[test]
fn processes_end_even_when_the_demo_is_killed() {
    let place = place();
    let demo = start(&place, &["demo"]);
    wait_for_processes(&place, 4);
    demo.kill();
    nothing_is_left(&place);
}

/// Waits until the demo and some of its processes run.
fn wait_for_processes(place: &Place, count: usize) {
    let start = Instant::now();
    while place.processes().len() < count {
        assert!(start.elapsed() < Duration::from_secs(20), "they never ran");
        std::thread::sleep(Duration::from_millis(2));
    }
}

//! Folders that are sent: whole, in order, under names that others cannot choose for them, and from
//! where they were when the receiver was killed.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::Running;
use crate::inbox::Inbox;

/// What is below a folder: paths, whether it is a folder, what may be executed, and content.
fn below(folder: &Path) -> BTreeMap<String, (bool, bool, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![String::new()];
    while let Some(path) = folders.pop() {
        for entry in fs::read_dir(folder.join(&path)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            let metadata = fs::symlink_metadata(folder.join(&path)).unwrap();
            let (is_folder, runs) = (metadata.is_dir(), metadata.mode() & 0o100 != 0);
            let content =
                if is_folder { Vec::new() } else { fs::read(folder.join(&path)).unwrap() };
            found.insert(path.clone(), (is_folder, runs, content));
            if is_folder {
                folders.push(path);
            }
        }
    }
    found
}

#[test]
fn a_folder_arrives_as_it_is_and_another_one_gets_a_number() {
    let inbox = Inbox::new();
    let (place, router, receiver_name) = (&inbox.place, inbox.network.router(), &inbox.receiver);
    let tree = place.path("my photos");
    for folder in ["2024/Ünïcode 文件", "empty", "a", "a-b"] {
        fs::create_dir_all(tree.join(folder)).unwrap();
    }
    for (path, content) in [
        ("2024/Ünïcode 文件/käse & more.txt", "cheese"),
        ("2024/...", "three dots"),
        ("a/ spaces ", ""),
        ("a-b/-rf", "no option"),
        (".hidden", "seen"),
        ("$(run)", "#!/bin/sh"),
    ] {
        fs::write(tree.join(path), content).unwrap();
    }
    fs::set_permissions(tree.join("$(run)"), PermissionsExt::from_mode(0o700)).unwrap();
    let expected = below(&tree);
    symlink("/etc/passwd", tree.join("a/link")).unwrap();
    let mut receiver = inbox.receive(&[]);
    for name in ["my photos", "my photos.1"] {
        let sent = ["--json", "send", "my photos", "--to", receiver_name, "--router", &router];
        let sent = place.run(&sent);
        assert_eq!(sent.code, 0, "{}", sent.errors);
        let sent = sent.object();
        assert_eq!((&sent["is_folder"], &sent["left_out"]), (&json!(true), &json!(["a/link"])));
        let received = receiver.next_object();
        assert_eq!(received["received"], format!("inbox/{name}"));
        assert_eq!((&received["is_folder"], &received["bytes"]), (&json!(true), &sent["bytes"]));
        assert_eq!(below(&place.path("inbox").join(name)), expected);
        // The first is somebody's by now: it stays what he makes of it.
        fs::write(place.path("inbox/my photos/a/own"), "own").unwrap();
    }
    assert_eq!(fs::read_dir(place.path("inbox")).unwrap().count(), 2, "nothing else is left");
    assert_eq!(fs::read_to_string(place.path("inbox/my photos/a/own")).unwrap(), "own");
    fs::write(tree.join("a\\b"), "").unwrap();
    place
        .run(&["send", "my photos", "--to", receiver_name, "--router", &router])
        .is_refused_with(&["a\\b: its name cannot travel"]);
}

/// Sends a folder of a hundred files and a large one, which both ends leave; sends it again when
/// one of the files was changed, to a receiver that `receive` starts.
fn change_one(inbox: &Inbox, send: &[&str], receive: &dyn Fn() -> Running) {
    let place = &inbox.place;
    let tree = place.path("tree");
    fs::create_dir(&tree).unwrap();
    let content = |number: u8| vec![number; 200_000 + usize::from(number)];
    for number in 0..100_u8 {
        fs::write(tree.join(format!("{number:02}")), content(number)).unwrap();
    }
    fs::write(tree.join("last"), vec![200; 64 << 20]).unwrap();
    let receiver = receive();
    let sender = place.start(send);
    let (begin, of_others) = (Instant::now(), 100 * 200_000 + 99 * 50);
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(30), "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    let part_len = || Some(fs::metadata(inbox.part()?).ok()?.len());
    until("the last one begins", &|| part_len().is_some_and(|len| len > of_others + 1_000_000));
    // It leaves, and what has come by then counts.
    sender.end();
    until("that counts", &|| inbox.marked().is_some_and(|there| there > of_others));
    let there = inbox.marked().unwrap();
    receiver.kill();
    fs::write(tree.join("50"), vec![250; 200_050]).unwrap();
    let mut receiver = receive();
    let sent = place.run(&[&["--json"], send].concat());
    assert_eq!(sent.code, 0, "{}", sent.errors);
    let sent = sent.object();
    let [bytes, resumed, sent_bytes] =
        ["bytes", "resumed_from", "sent_bytes"].map(|field| sent[field].as_u64().unwrap());
    let list = bytes - of_others - (64 << 20);
    // More may have counted by the time that it was killed.
    assert!(resumed >= there - list - 200_050, "{sent} {there}");
    assert_eq!(sent_bytes, bytes - resumed, "the list, what changed, and what had not arrived");
    assert_eq!(receiver.next_object()["resumed_from"], resumed);
    assert!(below(&place.path("inbox/tree")) == below(&tree), "the very same");
}

#[test]
fn of_a_folder_in_which_a_file_was_changed_only_that_is_sent_again() {
    let inbox = Inbox::new();
    let (router, receiver_name) = (inbox.network.router(), &inbox.receiver);
    inbox.place.keygen("node", "sender.key");
    let send = ["send", "tree", "--to", receiver_name, "--router", &router];
    let send = [&send[..], &["--key", "sender.key"]].concat();
    change_one(&inbox, &send, &|| inbox.receive(&[]));
}

#[test]
fn the_node_that_runs_receives_a_changed_folder_so_too() {
    let inbox = Inbox::new();
    let (place, router, own) = (&inbox.place, inbox.network.router(), &inbox.receiver);
    let sender = place.keygen("node", "sender.key");
    place.write("up.toml", "[node]\nkey = \"receiver.key\"\n[up]\nproxy = \"off\"\n");
    let up = ["--config", "up.toml", "up", "--router", &router, "--admin", "127.0.0.1:0"];
    let mut up = place.start(&up);
    up.next_object();
    let send = ["send", "tree", "--to", own, "--router", &router, "--key", "sender.key"];
    change_one(&inbox, &send, &|| {
        let mut receiver = place.start(&["receive", "--dir", "inbox", "--from", &sender]);
        assert_eq!(receiver.next_object()["name"], json!(own));
        receiver
    });
}

#[test]
fn a_folder_goes_on_where_it_was_and_a_running_node_sends_it() {
    let inbox = Inbox::new();
    let (place, router, receiver_name) = (&inbox.place, inbox.network.router(), &inbox.receiver);
    let tree = place.path("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..20_u8 {
        fs::write(tree.join(format!("{number}")), vec![number; 8 << 20]).unwrap();
    }
    place.keygen("node", "up.key");
    place.write("up.toml", "[node]\nkey = \"up.key\"\n[up]\nproxy = \"off\"\n");
    let up = ["--config", "up.toml", "up", "--router", &router, "--admin", "127.0.0.1:0"];
    let mut up = place.start(&up);
    up.next_object();
    let receiver = inbox.receive(&[]);
    let sender = place.start(&["send", "tree", "--to", receiver_name]);
    let begin = Instant::now();
    while inbox.marked().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(30), "nothing counts");
        std::thread::sleep(Duration::from_millis(10));
    }
    receiver.kill();
    sender.kill();
    let marked = inbox.marked().unwrap();
    let mut receiver = inbox.receive(&[]);
    let sent = place.run(&["--json", "send", "tree", "--to", receiver_name]);
    assert_eq!(sent.code, 0, "{}", sent.errors);
    let sent = sent.object();
    let [bytes, resumed] = ["bytes", "resumed_from"].map(|field| sent[field].as_u64().unwrap());
    // The list is counted and is told again.
    assert_eq!(resumed, marked - (bytes - (20 * (8 << 20))), "{sent}");
    assert_eq!(sent["sent_bytes"], bytes - resumed, "what was there is not sent again");
    assert_eq!(receiver.next_object()["resumed_from"], resumed);
    assert!(below(&place.path("inbox/tree")) == below(&tree), "the very same");
}

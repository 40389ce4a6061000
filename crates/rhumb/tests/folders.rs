//! Folders that are sent: whole, in order, under names that others cannot choose for them, and from
//! where they were when the receiver was killed.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Place, Running};
use crate::network::Network;

fn receive(place: &Place, router: &str) -> Running {
    let arguments = ["receive", "--key", "receiver.key", "--dir", "inbox", "--router", router];
    let mut receiver = place.start(&arguments);
    assert_eq!(receiver.next_object()["ready"], true);
    receiver
}

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
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let receiver_name = place.keygen("node", "receiver.key");
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
    fs::create_dir(place.path("inbox")).unwrap();
    let mut receiver = receive(&place, &router);
    for name in ["my photos", "my photos.1"] {
        let sent = ["--json", "send", "my photos", "--to", &receiver_name, "--router", &router];
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
        .run(&["send", "my photos", "--to", &receiver_name, "--router", &router])
        .is_refused_with(&["a\\b: its name cannot travel"]);
}

#[test]
fn a_folder_goes_on_where_it_was_and_a_running_node_sends_it() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let receiver_name = place.keygen("node", "receiver.key");
    let tree = place.path("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..20_u8 {
        fs::write(tree.join(format!("{number}")), vec![number; 8 << 20]).unwrap();
    }
    fs::create_dir(place.path("inbox")).unwrap();
    place.keygen("node", "up.key");
    place.write("up.toml", "[node]\nkey = \"up.key\"\n[up]\nproxy = \"off\"\n");
    let up = ["--config", "up.toml", "up", "--router", &router, "--admin", "127.0.0.1:0"];
    let mut up = place.start(&up);
    up.next_object();
    let receiver = receive(&place, &router);
    let sender = place.start(&["send", "tree", "--to", &receiver_name]);
    let begin = Instant::now();
    let marked = || {
        let parts = fs::read_dir(place.path("inbox/.rhumb-parts")).into_iter().flatten();
        let mut paths = parts.map(|entry| entry.unwrap().path());
        let mark = fs::read(paths.find(|path| path.to_string_lossy().ends_with(".mark"))?).ok()?;
        Some(u64::from_be_bytes(mark.get(..8)?.try_into().unwrap()))
    };
    while marked().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(30), "nothing counts");
        std::thread::sleep(Duration::from_millis(10));
    }
    receiver.kill();
    sender.kill();
    let marked = marked().unwrap();
    let mut receiver = receive(&place, &router);
    let sent = place.run(&["--json", "send", "tree", "--to", &receiver_name]);
    assert_eq!(sent.code, 0, "{}", sent.errors);
    let sent = sent.object();
    assert_eq!(sent["resumed_from"], marked);
    let bytes = sent["bytes"].as_u64().unwrap();
    assert_eq!(sent["sent_bytes"], bytes - marked, "what was there is not sent again");
    assert_eq!(receiver.next_object()["resumed_from"], marked);
    assert!(below(&place.path("inbox/tree")) == below(&tree), "the very same");
}

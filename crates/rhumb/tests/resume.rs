//! Files that go on after either end was killed, and what others can do to parts of them.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use serde_json::Value;

use crate::harness::{Run, Running};
use crate::inbox::Inbox;

/// An inbox, and a large file to be sent to it.
fn with_large() -> Inbox {
    let inbox = Inbox::new();
    inbox.place.keygen("node", "sender.key");
    let mut large = File::create(inbox.place.path("large")).unwrap();
    let line: Vec<u8> = (0..=250).collect();
    let block = line.repeat(4096);
    (0..LENGTH / block.len()).for_each(|_| large.write_all(&block).unwrap());
    large.set_len(LENGTH as u64).unwrap();
    inbox
}

impl Inbox {
    fn arguments(&self, file: &str, key: &str) -> Vec<String> {
        let router = self.network.router();
        let arguments = ["send", file, "--to", &self.receiver, "--key", key, "--router", &router];
        arguments.map(str::to_owned).to_vec()
    }

    fn start_sending(&self, file: &str) -> Running {
        let arguments = self.arguments(file, "sender.key");
        self.place.start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn send_file(&self, file: &str, key: &str) -> Value {
        let arguments = [vec!["--json".to_owned()], self.arguments(file, key)].concat();
        let run: Run = self.place.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(run.code, 0, "{}", run.errors);
        run.object()
    }

    /// The one part, and how much of it counts, once that is something.
    fn counted(&self) -> (PathBuf, u64) {
        let begin = Instant::now();
        loop {
            match self.part().zip(self.marked()) {
                Some(found) => return found,
                None if begin.elapsed() > Duration::from_secs(30) => panic!("no part"),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Begins with the large file, kills the receiver in the middle of it and then the sender, and
    /// says what is left.
    fn broken(&self) -> (PathBuf, u64) {
        let receiver = self.receive(&[]);
        let sender = self.start_sending("large");
        self.counted();
        receiver.kill();
        sender.kill();
        let (part, marked) = self.counted();
        assert!(0 < marked && marked < LENGTH as u64, "{marked}");
        (part, marked)
    }

    fn is_there(&self, name: &str) {
        let there = std::fs::read(self.path().join(name)).unwrap();
        assert!(there == std::fs::read(self.place.path("large")).unwrap(), "the very same bytes");
        let left = std::fs::read_dir(self.path()).unwrap();
        let left = left.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
    }
}

/// Which of it was there already, as JSON has it.
fn resumed_from(report: &Value) -> u64 {
    report["resumed_from"].as_u64().unwrap()
}

#[test]
fn both_ends_are_killed_and_what_counted_is_not_sent_again() {
    let rig = with_large();
    let (part, marked) = rig.broken();
    assert_eq!(std::fs::metadata(&part).unwrap().mode() & 0o777, 0o600);
    let mut receiver = rig.receive(&[]);
    let sent = rig.send_file("large", "sender.key");
    assert_eq!(resumed_from(&sent), marked);
    assert_eq!(sent["sent_bytes"], LENGTH as u64 - marked, "{sent}");
    let received = receiver.next_object();
    assert_eq!(resumed_from(&received), marked, "{received}");
    rig.is_there("large");
}

#[test]
fn a_sender_outlives_its_receiver_and_goes_on_with_the_next_one() {
    let rig = with_large();
    let receiver = rig.receive(&[]);
    let mut sender = rig.start_sending("large");
    rig.counted();
    receiver.kill();
    let (_, marked) = rig.counted();
    let mut receiver = rig.receive(&[]);
    let received = receiver.next_object_within(Duration::from_secs(60));
    assert_eq!(resumed_from(&received), marked, "{received}");
    let sent = sender.next_object();
    assert!(sent["restarts"].as_u64().unwrap() >= 1, "{sent}");
    rig.is_there("large");
}

#[test]
fn a_sender_that_was_killed_goes_on_under_another_name_of_the_file() {
    let rig = with_large();
    let mut receiver = rig.receive(&[]);
    let sender = rig.start_sending("large");
    let (_, marked) = rig.counted();
    sender.kill();
    std::fs::copy(rig.place.path("large"), rig.place.path("renamed")).unwrap();
    let sent = rig.send_file("renamed", "sender.key");
    assert!(resumed_from(&sent) >= marked, "{sent}");
    let rest = LENGTH as u64 - resumed_from(&sent);
    assert_eq!(sent["sent_bytes"], rest, "{sent}");
    assert!(receiver.next_object()["received"].as_str().unwrap().ends_with("renamed"));
    rig.is_there("renamed");
}

#[test]
fn another_sender_learns_nothing_of_a_part_and_does_not_go_on_with_it() {
    let rig = with_large();
    let (part, marked) = rig.broken();
    let before = std::fs::read(&part).unwrap();
    let _receiver = rig.receive(&[]);
    rig.place.keygen("node", "other.key");
    let sent = rig.send_file("large", "other.key");
    assert_eq!((resumed_from(&sent), &sent["sent_bytes"]), (0, &LENGTH.into()), "{sent}");
    assert!(std::fs::read(&part).unwrap() == before, "nobody touched it");
    assert_eq!(resumed_from(&rig.send_file("large", "sender.key")), marked);
    rig.is_there("large.1");
}

#[test]
fn links_in_the_place_of_a_part_are_not_followed() {
    let rig = with_large();
    let (part, _) = rig.broken();
    rig.place.write("victim", "precious");
    let replace = |with: &dyn Fn(&Path)| {
        std::fs::remove_file(&part).unwrap();
        with(&part);
    };
    let victim = rig.place.path("victim");
    replace(&|part| symlink(&victim, part).unwrap());
    let _receiver = rig.receive(&[]);
    let sent = rig.send_file("large", "sender.key");
    assert_eq!(resumed_from(&sent), 0);
    rig.is_there("large");
    // A second name of a file of ours is no better, and neither is another folder for all parts.
    let folder = part.parent().unwrap();
    std::fs::create_dir(folder).unwrap();
    std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::hard_link(&victim, &part).unwrap();
    assert_eq!(resumed_from(&rig.send_file("large", "sender.key")), 0);
    rig.is_there("large.1");
    std::fs::create_dir(rig.place.path("elsewhere")).unwrap();
    symlink(rig.place.path("elsewhere"), folder).unwrap();
    assert_eq!(resumed_from(&rig.send_file("large", "sender.key")), 0);
    std::fs::remove_file(folder).unwrap();
    rig.is_there("large.2");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(std::fs::read_dir(rig.place.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn a_part_that_is_no_good_is_thrown_away_and_all_of_it_comes_again() {
    let rig = with_large();
    // Its bytes are not those that the mark is about: it does not count.
    let (part, _) = rig.broken();
    let part = File::options().write(true).open(part).unwrap();
    part.write_all_at(b"x", 1000).unwrap();
    let receiver = rig.receive(&[]);
    let sent = rig.send_file("large", "sender.key");
    assert_eq!((resumed_from(&sent), &sent["restarts"]), (0, &0.into()), "{sent}");
    rig.is_there("large");
    receiver.kill();
    // And here is a mark that agrees with them.
    let (path, marked) = rig.broken();
    let part = File::options().write(true).open(&path).unwrap();
    part.write_all_at(b"x", 1000).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let sha256 = digest::digest(&digest::SHA256, &bytes[..marked as usize]);
    let mark = [&marked.to_be_bytes()[..], sha256.as_ref()].concat();
    std::fs::write(path.with_extension("mark"), mark).unwrap();
    let _receiver = rig.receive(&[]);
    let sent = rig.send_file("large", "sender.key");
    assert_eq!((resumed_from(&sent), &sent["restarts"]), (0, &1.into()), "{sent}");
    assert_eq!(sent["sent_bytes"], 2 * LENGTH as u64 - marked, "{sent}");
    rig.is_there("large.1");
}

/// So long that it is still under way when it is first settled.
const LENGTH: usize = 128 << 20;

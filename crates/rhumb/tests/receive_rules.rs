//! Who may send to `rhumb receive`, and how much.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use harness::{Place, Run};

use crate::harness;
use crate::network::Network;

struct Rig {
    place: Place,
    network: Network,
    alice: String,
    bob: String,
}

impl Rig {
    fn new() -> Self {
        let place = Place::new();
        let network = Network::start(&place);
        let alice = place.keygen("node", "alice.key");
        let bob = place.keygen("node", "bob.key");
        place.write("small", "a few bytes");
        place.write("large", &"x".repeat(10_000));
        std::fs::create_dir(place.path("inbox")).unwrap();
        Self { place, network, alice, bob }
    }

    fn receive(&self, more: &[&str]) -> harness::Running {
        let router = self.network.router();
        let mut arguments =
            vec!["receive", "--key", "bob.key", "--dir", "inbox", "--router", &router];
        arguments.extend(more);
        let mut receiver = self.place.start(&arguments);
        assert_eq!(receiver.next_object()["ready"], true);
        receiver
    }

    fn send(&self, file: &str, key: &[&str]) -> Run {
        let router = self.network.router();
        let mut arguments = vec!["--quiet", "send", file, "--to", &self.bob, "--router", &router];
        arguments.extend(key);
        self.place.run(&arguments)
    }

    fn inbox(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.place.path("inbox")).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    }
}

#[test]
fn files_come_from_whom_it_names_and_from_nobody_else() {
    let rig = Rig::new();
    let mut receiver = rig.receive(&["--from", &rig.alice]);
    let refused = rig.send("small", &[]);
    assert_eq!(refused.code, 1, "{}", refused.errors);
    let told = "takes no connections from this name";
    assert!(refused.errors.contains(told), "{}", refused.errors);
    let line = receiver.next_object();
    assert_eq!(line["refused"], "connection", "{line}");
    assert_eq!(line["reason"], "this name may not send here");
    assert!(line["from"].is_string(), "{line}");
    assert!(rig.inbox().is_empty());
    let taken = rig.send("small", &["--key", "alice.key"]);
    assert_eq!(taken.code, 0, "{}", taken.errors);
    assert_eq!(receiver.next_object()["from"], rig.alice.as_str());
    assert_eq!(rig.inbox(), ["small"]);
    // Pings of strangers are not answered, and a friend's are.
    let router = rig.network.router();
    let ping = ["ping", &rig.bob, "--count", "1", "--router", &router];
    assert_eq!(rig.place.run(&ping).code, 1);
    let friend = [&ping[..], &["--key", "alice.key"]].concat();
    assert_eq!(rig.place.run(&friend).code, 0);
}

#[test]
fn who_was_refused_is_told_once_and_stands_in_status() {
    let rig = Rig::new();
    let router = rig.network.router();
    let mut receiver = rig.place.start(&[
        "receive",
        "--key",
        "bob.key",
        "--dir",
        "inbox",
        "--admin",
        "127.0.0.1:0",
        "--from",
        &rig.alice,
        "--router",
        &router,
    ]);
    let ready = receiver.next_object();
    let eve = rig.place.keygen("node", "eve.key");
    let pinged =
        rig.place.run(&["ping", &rig.bob, "--count", "3", "--key", "eve.key", "--router", &router]);
    assert_eq!(pinged.code, 1, "{}", pinged.errors);
    let line = receiver.next_object();
    assert_eq!((&line["from"], &line["wanted"]), (&eve.as_str().into(), &"ping".into()), "{line}");
    let admin = ready["admin"].as_str().unwrap();
    let status = rig.place.run(&["--json", "status", "--admin", admin]).object();
    assert_eq!((&status["role"], &status["joined"]), (&"node".into(), &true.into()), "{status}");
    let [shown] = &status["refused"].as_array().unwrap()[..] else { panic!("{status}") };
    assert_eq!((&shown["name"], &shown["wanted"]), (&eve.as_str().into(), &"ping".into()));
    assert!(shown["times"].as_u64().unwrap() >= 3, "{status}");
    assert!(status["drops"]["sender_refused"].as_u64().unwrap() >= 3, "{status}");
    let people = rig.place.run(&["status", "--admin", admin]).output;
    assert!(people.contains(&eve), "{people}");
    // One line for three pings: the next is about another one.
    assert_eq!(rig.send("small", &["--key", "alice.key"]).code, 0);
    let line = receiver.next_object();
    assert_eq!(line["received"].as_str().map(|it| it.ends_with("small")), Some(true), "{line}");
}

#[test]
fn a_file_that_is_too_large_is_refused_and_told_of() {
    let rig = Rig::new();
    let mut receiver = rig.receive(&["--max-size", "9.9kB"]);
    let refused = rig.send("large", &["--key", "alice.key"]);
    assert_eq!(refused.code, 1, "{}", refused.errors);
    assert!(refused.errors.contains("larger than"), "{}", refused.errors);
    let line = receiver.next_object();
    assert_eq!(line["refused"], "large");
    assert!(line["reason"].as_str().unwrap().contains("9.9 kB (--max-size)"), "{line}");
    assert_eq!(rig.send("small", &["--key", "alice.key"]).code, 0);
    assert!(receiver.next_object()["received"].as_str().unwrap().ends_with("small"));
    assert_eq!(rig.inbox(), ["small"]);
    let refused = rig.place.run(&["receive", "--max-size", "much"]);
    assert!(
        refused.code == 2 && refused.errors.contains("`much` is no size"),
        "{}",
        refused.errors
    );
}

#[test]
fn rules_are_read_again_and_a_bad_one_changes_nothing() {
    let rig = Rig::new();
    rig.place.write("friends", "# nobody yet\n");
    let closed = "[receive]\nstrangers = \"refused\"\n[[receive.access]]\nnames = \"friends\"\n";
    rig.place.write("rhumb.toml", closed);
    let mut receiver = rig.receive(&[]);
    assert_eq!(rig.send("small", &["--key", "alice.key"]).code, 1);
    assert_eq!(receiver.next_object()["from"], rig.alice.as_str());
    rig.place.write("friends", &format!("{}  # Alice\n", rig.alice));
    receiver.nudge("HUP");
    // The signal and the file race; the file is tried until it is taken.
    let taken = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        rig.send("small", &["--key", "alice.key"]).code == 0
    });
    assert!(taken, "{}", receiver.errors_so_far());
    rig.place.write("friends", "somebody\n");
    receiver.nudge("HUP");
    let warned = receiver.wait_for_error("going on with the rules from before");
    assert!(warned.contains("line 1: `somebody` is not a name"), "{warned}");
    assert_eq!(rig.send("small", &["--key", "alice.key"]).code, 0);
}

//! Standard input, sent as it comes.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::fs;
use std::io::Write;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Place, Run, Running};
use crate::network::Network;

struct Rig {
    place: Place,
    network: Network,
    receiver: String,
}

impl Rig {
    fn new() -> Self {
        let place = Place::new();
        let network = Network::start(&place);
        let receiver = place.keygen("node", "receiver.key");
        fs::create_dir(place.path("inbox")).unwrap();
        Self { place, network, receiver }
    }

    fn receive(&self, more: &[&str]) -> Running {
        let router = self.network.router();
        let arguments = ["receive", "--key", "receiver.key", "--dir", "inbox", "--router", &router];
        let mut receiver = self.place.start(&[&arguments[..], more].concat());
        assert_eq!(receiver.next_object()["ready"], true);
        receiver
    }

    /// Sends what `write` writes.
    fn send(&self, name: &str, write: impl FnOnce(&mut dyn Write)) -> Run {
        let router = self.network.router();
        self.send_by(name, &["--router", &router], write)
    }

    fn send_by(&self, name: &str, by: &[&str], write: impl FnOnce(&mut dyn Write)) -> Run {
        let mut child = self.begin(name, by);
        write(&mut child.stdin.take().unwrap());
        Run::of(child.wait_with_output().unwrap())
    }

    fn begin(&self, name: &str, by: &[&str]) -> Child {
        let sent = ["--json", "send", "-", "--name", name, "--to", &self.receiver];
        let mut command = self.place.command(&[&sent[..], by].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }
}

fn content(report: &Value) -> (&Value, &Value) {
    (&report["bytes"], &report["sha256"])
}

#[test]
fn a_pipe_arrives_whole_and_nothing_is_nothing() {
    let rig = Rig::new();
    let mut receiver = rig.receive(&[]);
    let line: Vec<u8> = (0..=250).collect();
    let bytes = line.repeat(100_000);
    let parts = [&bytes[..1], &bytes[1..70_000], &bytes[70_000..]];
    let sent = rig.send("piped", |input| {
        for part in parts {
            input.write_all(part).unwrap();
            input.flush().unwrap();
        }
    });
    assert_eq!(sent.code, 0, "{}", sent.errors);
    let (sent, received) = (sent.object(), receiver.next_object());
    assert_eq!(sent["bytes"], json!(bytes.len()), "{sent}");
    assert_eq!(content(&received), content(&sent));
    assert!(fs::read(rig.place.path("inbox/piped")).unwrap() == bytes, "the very same bytes");
    let sent = rig.send("empty", |_| ());
    assert_eq!(sent.code, 0, "{}", sent.errors);
    assert_eq!(receiver.next_object()["bytes"], json!(0));
    assert_eq!(fs::read(rig.place.path("inbox/empty")).unwrap(), b"");
    assert_eq!(fs::read_dir(rig.place.path("inbox")).unwrap().count(), 2, "nothing else is left");
    let router = rig.network.router();
    let to = ["--to", &rig.receiver, "--router", &router];
    rig.place.run(&[&["send", "-"], &to[..]].concat()).is_refused_with(&["--name"]);
    let outside = [&["send", "-", "--name", "../x"], &to[..]].concat();
    rig.place.run(&outside).is_refused_with(&["--name ../x"]);
}

#[test]
fn a_pipe_that_brings_too_much_is_ended() {
    let rig = Rig::new();
    let mut receiver = rig.receive(&["--max-size", "1MB"]);
    let sent = rig.send("much", |input| {
        // It is refused before it has taken all of that.
        let _ = (0..100).try_for_each(|_| input.write_all(&[7; 1 << 20]));
    });
    assert_eq!(sent.code, 1, "{}", sent.errors);
    assert!(sent.errors.contains("larger than the receiver takes"), "{}", sent.errors);
    assert_eq!(rig.send("little", |input| input.write_all(b"x").unwrap()).code, 0);
    assert!(receiver.next_object()["received"].as_str().unwrap().ends_with("little"));
    assert_eq!(fs::read_dir(rig.place.path("inbox")).unwrap().count(), 1, "nothing is left");
}

#[test]
fn the_node_that_runs_sends_it_and_a_command_that_is_killed_has_no_end() {
    let rig = Rig::new();
    let own = rig.place.keygen("node", "up.key");
    rig.place.write("up.toml", "[node]\nkey = \"up.key\"\n[up]\nproxy = \"off\"\n");
    let router = rig.network.router();
    let up = ["--config", "up.toml", "up", "--router", &router, "--admin", "127.0.0.1:0"];
    let mut up = rig.place.start(&up);
    up.next_object();
    let mut receiver = rig.receive(&["--from", &own]);
    let mut killed = rig.begin("half", &[]);
    killed.stdin.as_mut().unwrap().write_all(&[7; 300_000]).unwrap();
    let begun = Instant::now();
    while !rig.place.path("inbox/.rhumb-parts").exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing arrives");
        std::thread::sleep(Duration::from_millis(10));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let sent = rig.send_by("whole", &[], |input| input.write_all(&[7; 3_000_000]).unwrap());
    assert_eq!(sent.code, 0, "{}", sent.errors);
    let received = receiver.next_object();
    assert!(received["received"].as_str().unwrap().ends_with("whole"), "{received}");
    assert_eq!(received["from"], own.as_str(), "{received}");
    assert_eq!(content(&received), content(&sent.object()));
    assert!(!rig.place.path("inbox/half").exists());
    let refused = rig.send_by("mine", &["--router", &router], |_| ());
    assert_eq!(refused.code, 1, "in the name of nobody in particular: {}", refused.errors);
}

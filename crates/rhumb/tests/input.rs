//! Standard input, sent as it comes.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::Run;
use crate::inbox::Inbox;

impl Inbox {
    /// A receiver that writes what comes to standard output, ready to receive.
    fn receive_to_output(&self, more: &[&str]) -> Child {
        let router = self.network.router();
        let arguments =
            ["--json", "receive", "--stdout", "--key", "receiver.key", "--router", &router];
        let mut command = self.place.command(&[&arguments[..], more].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let errors = child.stderr.as_mut().unwrap();
        let ready = line_of(errors);
        assert!(ready.contains("\"ready\":true"), "{ready}");
        child
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

/// A line, and nothing behind it.
fn line_of(from: &mut impl Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while from.read(&mut byte).unwrap() > 0 && byte != *b"\n" {
        line.extend(byte);
    }
    String::from_utf8(line).unwrap()
}

/// What comes, in parts as they come.
fn parts_of(mut output: ChildStdout) -> mpsc::Receiver<Vec<u8>> {
    let (tell, parts) = mpsc::channel();
    std::thread::spawn(move || {
        let mut part = vec![0; 64 << 10];
        while let Ok(len @ 1..) = output.read(&mut part) {
            let _ = tell.send(part[..len].to_vec());
        }
    });
    parts
}

fn content(report: &Value) -> (&Value, &Value) {
    (&report["bytes"], &report["sha256"])
}

#[test]
fn a_pipe_arrives_whole_and_nothing_is_nothing() {
    let rig = Inbox::new();
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
    let rig = Inbox::new();
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
    let rig = Inbox::new();
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

#[test]
fn two_processes_are_a_pipe() {
    let rig = Inbox::new();
    let own = rig.place.keygen("node", "sender.key");
    let router = rig.network.router();
    let by = ["--key", "sender.key", "--router", &router];
    let mut receiver = rig.receive_to_output(&["--from", &own]);
    let parts = parts_of(receiver.stdout.take().unwrap());
    let mut sender = rig.begin("log", &by);
    let mut input = sender.stdin.take().unwrap();
    // What is written comes out at the other end while the sender is still writing.
    let mut came = Vec::new();
    for line in ["first\n", "second, without an end"] {
        input.write_all(line.as_bytes()).unwrap();
        let whole = came.len() + line.len();
        while came.len() < whole {
            came.extend(parts.recv_timeout(Duration::from_secs(30)).expect("it comes"));
        }
        assert!(came.ends_with(line.as_bytes()));
    }
    let rest: Vec<u8> = (0..3_000_000_u32).map(|at| (at >> 7) as u8).collect();
    input.write_all(&rest).unwrap();
    drop(input);
    let sent = Run::of(sender.wait_with_output().unwrap());
    assert_eq!(sent.code, 0, "{}", sent.errors);
    came.extend(parts.iter().flatten());
    assert!(came.ends_with(&rest) && came.len() == rest.len() + 28, "the very same bytes");
    let received = Run::of(receiver.wait_with_output().unwrap());
    assert_eq!(received.code, 0, "{}", received.errors);
    let told: Value = serde_json::from_str(received.errors.trim()).unwrap();
    assert_eq!((&told["received"], &told["from"]), (&json!("-"), &json!(own)), "{told}");
    assert_eq!(content(&told), content(&sent.object()));
}

#[test]
fn what_reads_slowly_holds_a_pipe_up_and_breaks_nothing() {
    let rig = Inbox::new();
    let own = rig.place.keygen("node", "sender.key");
    let router = rig.network.router();
    let mut receiver = rig.receive_to_output(&["--from", &own]);
    let bytes = vec![7; 30_000_000];
    fs::write(rig.place.path("film"), &bytes).unwrap();
    let send = ["--json", "send", "film", "--to", &rig.receiver, "--router", &router];
    let mut command = rig.place.command(&[&send[..], &["--key", "sender.key"]].concat());
    let sender = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Longer than a sender waits for a word of its receiver.
    std::thread::sleep(Duration::from_secs(8));
    let mut came = Vec::new();
    receiver.stdout.take().unwrap().read_to_end(&mut came).unwrap();
    assert!(came == bytes, "the very same bytes");
    let sent = Run::of(sender.wait_with_output().unwrap());
    assert_eq!(sent.code, 0, "{}", sent.errors);
    assert_eq!(sent.object()["restarts"], json!(0), "{}", sent.output);
    assert_eq!(Run::of(receiver.wait_with_output().unwrap()).code, 0);
}

#[test]
fn what_is_no_file_or_is_read_by_nobody_does_not_go_to_standard_output() {
    let rig = Inbox::new();
    let router = rig.network.router();
    let mut receiver = rig.receive_to_output(&["--max-size", "1MB"]);
    fs::create_dir(rig.place.path("tree")).unwrap();
    rig.place.write("large", &"x".repeat(2_000_000));
    let to = ["--to", &rig.receiver, "--router", &router];
    for (what, told) in [("tree", "standard output cannot take"), ("large", "larger than")] {
        let sent = rig.place.run(&[&["send", what], &to[..]].concat());
        assert_eq!(sent.code, 1, "{}", sent.errors);
        let line = line_of(receiver.stderr.as_mut().unwrap());
        assert!(line.contains(told), "{line}");
    }
    // A pipe of unknown length is ended where it is too much, and what was written is not all.
    let parts = parts_of(receiver.stdout.take().unwrap());
    let sent = rig.send("much", |input| {
        let _ = (0..100).try_for_each(|_| input.write_all(&[7; 1 << 20]));
    });
    assert_eq!(sent.code, 1, "{}", sent.errors);
    assert_eq!(receiver.wait_with_output().unwrap().status.code(), Some(1));
    assert!(parts.iter().flatten().count() <= 1_000_000);
    // Who reads is gone.
    let mut receiver = rig.receive_to_output(&[]);
    drop(receiver.stdout.take());
    let sent = rig.send("lost", |input| drop(input.write_all(&[7; 100_000])));
    assert_eq!(sent.code, 1, "{}", sent.errors);
    assert_eq!(receiver.wait_with_output().unwrap().status.code(), Some(1));
    let both = ["receive", "--stdout", "--dir", "inbox"];
    rig.place.run(&both).refused_by_the_command_line("--dir");
}

#[test]
fn the_node_that_runs_receives_for_standard_output_too() {
    let rig = Inbox::new();
    let own = rig.place.keygen("node", "sender.key");
    rig.place.write("up.toml", "[node]\nkey = \"receiver.key\"\n[up]\nproxy = \"off\"\n");
    let router = rig.network.router();
    let up = ["--config", "up.toml", "up", "--router", &router, "--admin", "127.0.0.1:0"];
    let mut up = rig.place.start(&up);
    up.next_object();
    let mut command = rig.place.command(&["--json", "receive", "--stdout", "--from", &own]);
    let mut receiver = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ready = line_of(receiver.stderr.as_mut().unwrap());
    assert!(ready.contains(&rig.receiver), "{ready}");
    let parts = parts_of(receiver.stdout.take().unwrap());
    let by = ["--key", "sender.key", "--router", &router];
    let sent = rig.send_by("piped", &by, |input| input.write_all(&[7; 3_000_000]).unwrap());
    assert_eq!(sent.code, 0, "{}", sent.errors);
    assert_eq!(receiver.wait_with_output().unwrap().status.code(), Some(0));
    assert!(parts.iter().flatten().eq(std::iter::repeat_n(7, 3_000_000)), "the very same bytes");
    assert_eq!(up.end().0, 0);
}

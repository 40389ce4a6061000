//! A group, as its owner and its members have it on the command line: one message reaches everybody
//! who was admitted, and nobody else.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::io::Write;
use std::process::Stdio;

use crate::harness::{Place, Run, Running, remote};

const ANY: &str = "127.0.0.1:0";

/// A RIB, routers, and a group whose root is one of its receivers.
struct Scene {
    place: Place,
    routers: Vec<(Running, String)>,
    _rib: Running,
}

impl Scene {
    fn new() -> Self {
        let place = Place::new();
        place.keygen("rib", "rib.key");
        let mut rib =
            place.start(&["rib", "--listen", ANY, "--key", "rib.key", "--store", "rib.redb"]);
        let to_rib = remote(&rib.next_object());
        let router = |number: usize| {
            let key = format!("router-{number}.key");
            place.keygen("router", &key);
            let mut router = place.start(&[
                "router", "--listen", ANY, "--admin", ANY, "--key", &key, "--rib", &to_rib,
            ]);
            let ready = router.next_object();
            (router, remote(&ready))
        };
        let routers = (0..2).map(router).collect();
        let made = place.run(&["domain", "create", "--out", "news.key", "--working", "desk.key"]);
        assert_eq!(made.code, 0, "{}", made.errors);
        Self { place, routers, _rib: rib }
    }

    /// A node that the group's owner admits. Its name.
    fn member(&self, who: &str, rights: &str) -> String {
        let (key, file) = (format!("{who}.key"), format!("{who}.news"));
        let name = self.place.keygen("node", &key);
        let admit = ["domain", "admit", &name, "--key", "desk.key", "--rights", rights];
        let run = self.place.run(&[&admit[..], &["--out", &file]].concat());
        assert_eq!(run.code, 0, "{}", run.errors);
        name
    }

    fn receive(&self, who: &str, router: usize, more: &[&str]) -> Running {
        let (key, file) = (format!("{who}.key"), format!("{who}.news"));
        let receive = ["group", "receive", &file, "--key", &key, "--router"];
        let at = [self.routers[router].1.as_str()];
        let mut running = self.place.start(&[&receive[..], &at, more].concat());
        assert!(running.next_object()["receiving_from"].is_string());
        running
    }

    fn send(&self, who: &str, router: usize, text: &str) -> Run {
        let (key, file) = (format!("{who}.key"), format!("{who}.news"));
        let at = &self.routers[router].1;
        self.place.run(&["--json", "group", "send", &file, text, "--key", &key, "--router", at])
    }
}

fn texts(running: &mut Running, count: usize) -> Vec<String> {
    (0..count).map(|_| running.next_object()["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_message_reaches_everybody_who_was_admitted_and_nobody_who_was_removed() {
    let scene = Scene::new();
    let server = scene.member("ada", "join");
    let certify = ["certify", "--key", "news.key", "--server", &server, "--out", "news.adcert"];
    assert_eq!(scene.place.run(&certify).code, 0);
    let eve = scene.member("eve", "join");
    for (who, rights) in [("bob", "join"), ("carol", "join,publish"), ("dora", "join")] {
        scene.member(who, rights);
    }
    let mut ada = scene.receive("ada", 0, &["--serve", "news.adcert"]);
    let mut bob = scene.receive("bob", 1, &[]);
    let mut eve_hears = scene.receive("eve", 1, &[]);

    let sent = scene.send("carol", 1, "good \u{1b}[31mnews");
    assert_eq!(sent.code, 0, "{}", sent.errors);
    assert_eq!(sent.object()["messages"], 1);
    for who in [&mut ada, &mut bob, &mut eve_hears] {
        assert_eq!(texts(who, 1), ["good \u{1b}[31mnews"]);
    }
    let refused = scene.send("dora", 1, "by who may only listen");
    refused.is_refused_with(&["publish", "send to"]);

    let remove = ["domain", "remove", &eve, "--key", "desk.key", "--out", "eve.removal"];
    assert_eq!(scene.place.run(&remove).code, 0);
    scene.place.keygen("node", "owner.key");
    let tell = ["group", "remove", "eve.removal", "--key", "owner.key", "--router"];
    let told = scene.place.run(&[&tell[..], &[&scene.routers[0].1]].concat());
    assert_eq!(told.code, 0, "{}", told.errors);
    assert!(told.output.contains("no longer"), "{}", told.output);

    let from_input = ["group", "send", "carol.news", "--key", "carol.key", "--router"];
    let mut command = scene.place.command(&[&from_input[..], &[&scene.routers[0].1]].concat());
    let mut sending = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    sending.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let output = sending.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("sent 2 messages"));
    assert_eq!(texts(&mut ada, 2), ["one", "two"]);
    assert_eq!(texts(&mut bob, 2), ["one", "two"]);
    eve_hears.wait_for_error("refuses");
    assert!(eve_hears.lines_so_far().is_empty(), "who was removed hears nothing");
}

#[test]
fn who_cannot_take_part_is_told_why() {
    let scene = Scene::new();
    scene.member("ada", "join");
    let missing = ["group", "receive", "none.news", "--key", "ada.key"];
    scene.place.run(&missing).is_refused_with(&["none.news", "rhumb domain admit"]);
    let other = scene.place.keygen("node", "other.key");
    let at = scene.routers[0].1.as_str();
    let as_other = ["group", "receive", "ada.news", "--key", "other.key", "--router", at];
    scene.place.run(&as_other).is_refused_with(&[&other]);
    let nobody = ["group", "receive", "ada.news", "--key", "ada.key", "--router", at];
    let nobody = scene.place.run(&nobody);
    assert_eq!(nobody.code, 1, "{}", nobody.errors);
    assert!(nobody.errors.contains("is not reached") && nobody.errors.contains("rhumb certify"));
}

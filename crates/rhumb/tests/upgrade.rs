//! Two versions side by side: an earlier one, which `cargo xtask upgrade REVISION` builds, and the
//! present one. Processes of the one are replaced by those of the other, in both directions, since
//! who upgrades may want to go back; and each takes over what the other has stored.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody};
use rhumb_wire::{Action, Name, PduHeader, Role};
use serde_json::{Value, json};

use crate::attackers::Stranger;
use crate::harness::{Place, Run, Running, remote};
use crate::network::{DEADLINE, answers, wait_until};
use crate::rib_cluster::{Pinger, is_absent, with_cluster};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Earlier,
    Present,
}
use Version::{Earlier, Present};

const BOTH: [Version; 2] = [Earlier, Present];
const ANY: &str = "127.0.0.1:0";
/// Where `cargo xtask upgrade` says that the earlier program is.
const EARLIER_PROGRAM: &str = "RHUMB_EARLIER_PROGRAM";

/// A place where programs of both versions run.
#[derive(Clone)]
struct Trial {
    place: Arc<Place>,
    earlier: PathBuf,
}

impl Trial {
    /// None without an earlier program.
    fn new() -> Option<Self> {
        let Some(earlier) = std::env::var_os(EARLIER_PROGRAM) else {
            eprintln!("skipped: {EARLIER_PROGRAM} is not set; see `cargo xtask upgrade`");
            return None;
        };
        let place = Arc::new(Place::new());
        // The present routers look at each answer of the earlier RIBs.
        place.write("present.toml", "[router]\ncheck_rib_answers = 1\n");
        Some(Self { place, earlier: earlier.into() })
    }

    fn command(&self, version: Version, words: &[&str]) -> Command {
        match version {
            Earlier => self.place.command_of(&self.earlier, &[&["--json"], words].concat()),
            Present => {
                self.place.command(&[&["--json", "--config", "present.toml"], words].concat())
            }
        }
    }

    fn run(&self, version: Version, words: &[&str]) -> Run {
        Run::of(self.command(version, words).output().unwrap())
    }

    fn spawn(&self, version: Version, words: &[&str]) -> Running {
        Running::spawn(self.command(version, &[&["--with-parent"], words].concat()))
    }

    fn start(&self, version: Version, words: &[&str]) -> Process {
        let mut running = self.spawn(version, words);
        let ready = running.next_object_within(DEADLINE);
        let words = words.iter().map(ToString::to_string).collect();
        Process { trial: self.clone(), version, words, ready, running: Some(running) }
    }

    fn rib(&self, version: Version, key: &str, store: &[&str]) -> Process {
        self.place.keygen("rib", key);
        let words = ["rib", "--listen", ANY, "--admin", ANY, "--key", key, "--store"];
        self.start(version, &[&words[..], store].concat())
    }

    fn router(&self, version: Version, key: &str, ribs: &[&Process]) -> Process {
        self.place.keygen("router", key);
        let ribs: Vec<String> = ribs.iter().map(|rib| rib.at()).collect();
        let words = ["router", "--listen", ANY, "--admin", ANY, "--key", key];
        let ribs = ribs.iter().flat_map(|rib| ["--rib", rib]);
        self.start(version, &words.into_iter().chain(ribs).collect::<Vec<_>>())
    }

    fn node(&self, version: Version, key: &str, router: &Process) -> Process {
        if !self.place.path(key).exists() {
            self.place.keygen("node", key);
        }
        self.start(version, &["receive", "--key", key, "--router", &router.at()])
    }

    /// Pings these names in turn by programs of both versions, joined at a router.
    fn talk(&self, from: &Process, to: &[String]) -> Pinger {
        let (trial, router) = (self.clone(), from.at());
        let ways = to.iter().flat_map(|name| BOTH.map(|version| (version, name.clone())));
        let mut ways = ways.collect::<Vec<_>>().into_iter().cycle();
        Pinger::of(move || {
            let (version, name) = ways.next().unwrap();
            let mut ping =
                trial.run(version, &["ping", &name, "--count", "9", "--router", &router]);
            if ping.code == 0 && ping.object()["answered"] != 9 {
                ping.code = 1;
                ping.errors = format!("{version:?}: {}", ping.output);
            }
            ping
        })
    }

    fn all_answer(&self, what: &str, names: &[String], router: &Process) {
        for name in names {
            wait_until(what, || answers(&self.place, name, &router.at()));
        }
    }
}

/// A process that can be replaced.
struct Process {
    trial: Trial,
    version: Version,
    words: Vec<String>,
    ready: Value,
    running: Option<Running>,
}

impl Process {
    fn at(&self) -> String {
        remote(&self.ready)
    }

    fn name(&self) -> String {
        self.ready["name"].as_str().unwrap().to_owned()
    }

    fn end(&mut self) {
        let (code, errors) = self.running.take().unwrap().end();
        assert_eq!(code, 0, "{:?} {:?}: {errors}", self.version, self.words);
    }

    /// Has the same be done by a program of this version, where it was.
    fn replace(&mut self, version: Version) {
        self.end();
        let address = self.ready["address"].as_str().unwrap_or(ANY).to_owned();
        let listen = self.words.iter().position(|word| word == "--listen");
        if let Some(at) = listen {
            self.words[at + 1] = address;
        }
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let again = self.trial.start(version, &words);
        assert_eq!(again.name(), self.name());
        *self = again;
    }

    fn status(&self) -> Value {
        let admin = self.ready["admin"].as_str().unwrap();
        self.trial.run(Present, &["status", "--admin", admin]).object()
    }

    /// No RIB of this router's is proven wrong.
    fn blames_nobody(&self) {
        let status = self.status();
        for rib in status["ribs"].as_array().unwrap() {
            let faults = rib["faults"].as_object().unwrap();
            assert!(faults.values().all(|times| *times == 0) && rib["fork"].is_null(), "{rib}");
        }
    }
}

/// Two RIBs, three routers, and at each of these a node of either version.
struct Network {
    trial: Trial,
    ribs: Vec<Process>,
    routers: Vec<Process>,
    nodes: Vec<[Process; 2]>,
}

impl Network {
    fn start(trial: Trial, version: Version) -> Self {
        let rib = |number: usize| {
            let [key, store] = ["key", "redb"].map(|kind| format!("rib{number}.{kind}"));
            trial.rib(version, &key, &[&store])
        };
        let ribs: Vec<Process> = (0..2).map(rib).collect();
        let of_ribs: Vec<&Process> = ribs.iter().collect();
        let router = |number| trial.router(version, &format!("router{number}.key"), &of_ribs);
        let routers: Vec<Process> = (0..3).map(router).collect();
        let node = |router: &Process, version| {
            let key = format!("{version:?}-at-{}.key", &router.name()[..8]);
            trial.node(version, &key, router)
        };
        let nodes = routers.iter().map(|router| BOTH.map(|version| node(router, version)));
        let nodes = nodes.collect();
        Self { trial, ribs, routers, nodes }
    }

    fn names_at(&self, router: usize) -> Vec<String> {
        self.nodes[router].iter().map(Process::name).collect()
    }

    fn talk(&self, from: usize, to: usize) -> Pinger {
        self.trial.talk(&self.routers[from], &self.names_at(to))
    }

    fn replace_rib(&mut self, rib: usize, version: Version) {
        let pingers = [self.talk(2, 0), self.talk(0, 1)];
        self.ribs[rib].replace(version);
        pingers.into_iter().for_each(Pinger::end);
    }

    /// While the other two routers' names talk.
    fn replace_router(&mut self, router: usize, version: Version) {
        let [from, to] = [(router + 1) % 3, (router + 2) % 3];
        let pinger = self.talk(from, to);
        self.routers[router].replace(version);
        let names = self.names_at(router);
        self.trial.all_answer("names are back at their router", &names, &self.routers[from]);
        pinger.end();
    }

    /// Each version brings each a file, over two routers.
    fn send_files(&self) {
        self.trial.place.write("letter", "from one version to another one");
        for version in BOTH {
            for name in self.names_at(1) {
                let words = ["send", "letter", "--to", &name, "--router", &self.routers[0].at()];
                let sent = self.trial.run(version, &words);
                assert_eq!(sent.code, 0, "{version:?}: {}", sent.errors);
            }
        }
    }
}

fn each_is_replaced(from: Version, to: Version) {
    let Some(trial) = Trial::new() else { return };
    let mut network = Network::start(trial, from);
    for router in 0..3 {
        let names = network.names_at(router);
        let asks = &network.routers[(router + 1) % 3];
        network.trial.all_answer("names are found at first", &names, asks);
    }
    network.replace_rib(0, to);
    network.replace_router(0, to);
    // Of RIBs, routers and nodes there are both versions now.
    network.send_files();
    let pinger = network.talk(2, 1);
    for node in &mut network.nodes[0] {
        node.replace(to);
    }
    pinger.end();
    network.replace_rib(1, to);
    network.replace_router(1, to);
    network.replace_router(2, to);
    network.send_files();
    for router in 0..3 {
        let names = network.names_at(router);
        let asks = &network.routers[(router + 1) % 3];
        network.trial.all_answer("names are found in the end", &names, asks);
    }
    if to == Present {
        network.routers.iter().for_each(Process::blames_nobody);
    }
}

#[test]
#[ignore = "needs a program of an earlier version: cargo xtask upgrade REVISION"]
fn each_process_is_replaced_by_the_present_version_while_others_talk() {
    each_is_replaced(Earlier, Present);
}

#[test]
#[ignore = "needs a program of an earlier version: cargo xtask upgrade REVISION"]
fn each_process_is_replaced_by_the_earlier_version_while_others_talk() {
    each_is_replaced(Present, Earlier);
}

/// Whether a RIB knows a way to a name.
fn knows(rib: &Process, name: &str) -> bool {
    let address = rib.ready["address"].as_str().unwrap().parse().unwrap();
    let mut asks = Stranger::connect(Ipv4Addr::LOCALHOST, address, Role::Node);
    let name: Name = name.parse().unwrap();
    let mut data = Vec::new();
    RibRequest { id: RequestId(1), body: RibRequestBody::LookUpRoute(name) }.emit(&mut data);
    asks.send(PduHeader::new(Action::RibRequest, asks.name(), asks.peer()), &data, &[]);
    let mut answer = None;
    asks.wait("an answer", |asks| {
        answer = asks.take(|header| header.action == Action::RibResponse);
        answer.is_some()
    });
    match RibResponse::parse(&answer.unwrap()).unwrap().body {
        RibResponseBody::Found { certificates, .. } => certificates[0].issuer == name,
        RibResponseBody::Absent(_) => false,
        other => panic!("{other:?}"),
    }
}

/// One after the other serves from the same file, and stores more in it.
#[test]
#[ignore = "needs a program of an earlier version: cargo xtask upgrade REVISION"]
fn each_version_goes_on_with_the_file_of_the_other() {
    let Some(trial) = Trial::new() else { return };
    let place = &trial.place;
    place.keygen("domain", "alice.key");
    let mut rib = trial.rib(Earlier, "rib.key", &["rib.redb"]);
    let (mut stay, mut left): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (turn, version) in [Earlier, Present, Earlier, Present].into_iter().enumerate() {
        if turn > 0 {
            rib.end();
            let words: Vec<&str> = rib.words.iter().map(String::as_str).collect();
            let mut running = trial.spawn(version, &words);
            let Some(ready) = running.next_object_or_end() else {
                let (code, errors) = running.end_by_itself();
                assert_eq!((version, code), (Earlier, 2), "{errors}");
                assert!(errors.contains("upgrade"), "{errors}");
                return;
            };
            rib.running = Some(running);
            rib.ready = ready;
        }
        let before = rib.status()["stored_names"].as_u64().unwrap();
        // Nobody is there any more who could tell it anew: what it answers is of the file.
        let asks = trial.router(version, &format!("asks{turn}.key"), &[&rib]);
        for (names, is_there) in [(&stay, true), (&left, false)] {
            for name in names {
                assert_eq!(knows(&rib, name), is_there, "turn {turn}: {name}");
            }
        }
        if turn > 0 {
            let shown = ["name", "published", "alice", "--rib", &rib.at()];
            let shown = trial.run(Present, &shown).object();
            assert_eq!(shown["names"], json!({ "friend": stay.last() }), "turn {turn}");
        }
        let node = |of: &str| trial.node(version, &format!("{of}{turn}.key"), &asks);
        let (stays, mut leaves) = (node("stays"), node("leaves"));
        for node in [&stays, &leaves] {
            wait_until("it is stored", || answers(place, &node.name(), &asks.at()));
        }
        leaves.end();
        let friend = format!("friend={}", stays.name());
        let words = ["name", "publish", &friend, "--key", "alice.key", "--rib", &rib.at()];
        let published = trial.run(version, &words);
        assert_eq!(published.code, 0, "{version:?}: {}", published.errors);
        stay.push(stays.name());
        left.push(leaves.name());
        let after = rib.status()["stored_names"].as_u64().unwrap();
        assert!(after > before, "{before} and then {after}");
        stays.running.unwrap().kill();
        asks.running.unwrap().kill();
    }
}

/// Two RIBs over one cluster, each with a router that knows that RIB alone.
fn side_by_side_over_a_cluster(trial: &Trial, store: &str, first: Version, second: Version) {
    let place = &trial.place;
    let mut ribs = [
        trial.rib(first, &format!("{first:?}-makes.key"), &[store, "--create-schema", "3"]),
        trial.rib(second, &format!("{first:?}-joins.key"), &[store]),
    ];
    let router = |version, of: &str, ribs: &[&Process]| {
        trial.router(version, &format!("{of}-{first:?}-makes.key"), ribs)
    };
    let here = router(first, "here", &[&ribs[0]]);
    let there = router(second, "there", &[&ribs[1]]);
    let both = router(Present, "both", &[&ribs[0], &ribs[1]]);
    let node = |version, of: &str, router: &Process| {
        trial.node(version, &format!("{of}-{first:?}-makes.key"), router)
    };
    let (near, far) = (node(first, "near", &here), node(second, "far", &there));
    let (mover, mut leaver) = (node(first, "mover", &here), node(first, "leaver", &here));
    let names = [&near, &far, &mover, &leaver].map(Process::name);
    for router in [&here, &there, &both] {
        trial.all_answer("what one RIB was told is found by the other", &names, router);
    }
    // One moves to where the other RIB hears of it, and one says that it leaves.
    mover.running.unwrap().kill();
    let _moved = node(second, "mover", &there);
    leaver.end();
    let (stay, gone) = (&names[..3], &names[3]);
    trial.all_answer("it is found where it went", stay, &here);
    wait_until("who left is away", || !answers(place, gone, &there.at()));

    let pinger = trial.talk(&both, stay);
    for rib in &mut ribs {
        let at = rib.words.iter().position(|word| word == "--create-schema");
        rib.words.truncate(at.unwrap_or(rib.words.len()));
        rib.replace(Present);
    }
    pinger.end();
    let late = router(Present, "late", &[&ribs[1]]);
    assert!(stay.iter().all(|name| answers(place, name, &late.at())));
    assert!(is_absent(place, gone, &late.at()));
    [&late, &both].into_iter().for_each(Process::blames_nobody);
}

#[test]
#[ignore = "needs a program of an earlier version: cargo xtask upgrade REVISION"]
fn both_versions_serve_from_one_cluster_and_the_present_one_goes_on_with_it() {
    let Some(trial) = Trial::new() else { return };
    let help =
        Run::of(trial.place.command_of(&trial.earlier, &["rib", "--help"]).output().unwrap());
    if !help.output.contains("--create-schema") {
        eprintln!("skipped: the earlier version keeps no names in a cluster");
        return;
    }
    with_cluster(|cluster| {
        for (keyspace, first, second) in
            [("earlier_made", Earlier, Present), ("present_made", Present, Earlier)]
        {
            let store = cluster.address(keyspace).to_string();
            side_by_side_over_a_cluster(&trial, &store, first, second);
        }
    });
}

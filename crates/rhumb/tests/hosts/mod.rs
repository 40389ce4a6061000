//! Hosts of a network that was made by `rhumb network create`: each is a folder of its own, and the
//! keeper's is at a loopback address of its own, so that ports are the usual ones.

#![allow(dead_code, clippy::unwrap_used)] // Each user takes a part of this; a test may panic.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rhumb_trust::invitation::Invitation;
use serde_json::Value;

use crate::harness::{Place, Running};

/// The host of a keeper.
pub(crate) struct Keeper {
    pub(crate) place: Place,
    pub(crate) address: String,
}

impl Keeper {
    /// Makes a network.
    pub(crate) fn create(label: &str) -> Self {
        let place = host();
        let address = own_address();
        let run = place.run(&["network", "create", label, "--address", &address]);
        assert_eq!(run.code, 0, "{}", run.errors);
        Self { place, address }
    }

    /// Runs it, without a node of this host.
    pub(crate) fn run(&self) -> Running {
        self.run_with(&["--no-node"])
    }

    /// As [`Keeper::run`], with these options.
    pub(crate) fn run_with(&self, more: &[&str]) -> Running {
        let mut running = self.place.start(&[&["network", "run"][..], more].concat());
        let ready = running.next_object();
        assert_eq!((&ready["ready"], &ready["role"]), (&true.into(), &"network".into()), "{ready}");
        running
    }

    /// A code for a member.
    pub(crate) fn invite(&self, label: &str) -> String {
        self.invite_with(&["--as", label])
    }

    /// As [`Keeper::invite`], with these options.
    pub(crate) fn invite_with(&self, more: &[&str]) -> String {
        let run = self.place.run(&[&["--json", "network", "invite"][..], more].concat());
        assert_eq!(run.code, 0, "{}", run.errors);
        run.object()["code"].as_str().unwrap().to_owned()
    }

    /// Who is a member, and who is invited.
    pub(crate) fn shown(&self) -> Vec<Value> {
        let run = self.place.run(&["--json", "network", "show"]);
        assert_eq!(run.code, 0, "{}", run.errors);
        run.output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The labels of members.
    pub(crate) fn members(&self) -> Vec<String> {
        let members = self.shown().into_iter().filter(|it| it["name"].is_string());
        members.map(|it| it["label"].as_str().unwrap().to_owned()).collect()
    }
}

/// A host: its proxy is at a port of its own.
pub(crate) fn host() -> Place {
    let place = Place::new();
    place.write("rhumb.toml", "[up]\nproxy = \"127.0.0.1:0\"\n");
    place
}

/// A host that has joined by `code`.
pub(crate) fn joined(code: &str) -> Place {
    let place = host();
    let run = place.run(&["join", code]);
    assert_eq!(run.code, 0, "{}", run.errors);
    place
}

/// The node of a host that has joined, and all that it said until it was ready.
pub(crate) fn up(place: &Place) -> (Running, Vec<Value>) {
    let mut running = place.start(&["up"]);
    let mut told = Vec::new();
    loop {
        told.push(running.next_object());
        if told.last().unwrap()["role"] == "node" {
            return (running, told);
        }
    }
}

/// The same code, that leads to another address.
pub(crate) fn redirected(code: &str, host: &str, port: u16) -> String {
    let mut invitation: Invitation = code.parse().unwrap();
    invitation.host = rhumb_trust::invitation::Host::parse(host).unwrap();
    invitation.port = port;
    invitation.code().to_string()
}

#[track_caller]
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// All of 127.0.0.0/8 is this host; each test, of each process, has an address of it.
pub(crate) fn own_address() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    let process = std::process::id();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("127.{}.{}.{}", 64 + (process >> 8) % 128, process % 256, count)
}

/// For a machine that is busy with everything else.
const PATIENCE: Duration = Duration::from_secs(30);

//! Daemons as a service manager sees them: it is told when they serve, when they read settings
//! again, that they go round, and that they end; and of the parts that one starts it hears nothing.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{Place, remote};
use crate::hosts::Keeper;

/// The manager's end.
struct Manager {
    socket: UnixDatagram,
    path: std::path::PathBuf,
}

impl Manager {
    fn of(place: &Place, service: &str) -> Self {
        let path = place.path(&format!("{service}.notify"));
        Self { socket: UnixDatagram::bind(&path).unwrap(), path }
    }

    /// Has a command tell it.
    fn hears(&self, command: &mut Command) {
        command.env("NOTIFY_SOCKET", &self.path).env_remove("WATCHDOG_PID");
    }

    /// As [`Self::hears`], and watches that it goes round.
    fn watches(&self, command: &mut Command) {
        self.hears(command);
        command.env("WATCHDOG_USEC", (EVERY * 3).as_micros().to_string());
    }

    /// The next word, if there is one before `patience` is over.
    fn next(&self, patience: Duration) -> Option<String> {
        let mut buffer = [0; 256];
        self.socket.set_read_timeout(Some(patience)).unwrap();
        let len = self.socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8(buffer[..len].to_vec()).unwrap())
    }

    /// The next word that is no beat has to be this.
    #[track_caller]
    fn expect(&self, word: &str) {
        let start = Instant::now();
        loop {
            let told = self.next(PATIENCE.saturating_sub(start.elapsed()).max(EVERY));
            match told.as_deref() {
                Some(BEAT) if start.elapsed() < PATIENCE => {}
                told => return assert_eq!(told, Some(word)),
            }
        }
    }
}

const ANY: &str = "127.0.0.1:0";

#[test]
fn each_says_that_it_is_ready_when_others_can_use_it_and_that_it_ends() {
    let place = Place::new();
    for role in ["rib", "router", "node"] {
        place.keygen(role, &format!("{role}.key"));
    }
    let started = |service: &str, arguments: &[&str]| {
        let manager = Manager::of(&place, service);
        let mut running = place.start_with(arguments, |command| manager.hears(command));
        manager.expect("READY=1");
        let ready = running.next_object();
        (manager, running, ready)
    };
    let rib = ["rib", "--listen", ANY, "--key", "rib.key", "--store", "rib.redb"];
    let (rib_manager, rib, ready) = started("rib", &rib);
    let rib_at = remote(&ready);
    let router = ["router", "--listen", ANY, "--key", "router.key", "--rib", &rib_at];
    let (router_manager, router, ready) = started("router", &router);
    let router_at = remote(&ready);
    let (node_manager, node, ready) =
        started("node", &["receive", "--key", "node.key", "--router", &router_at]);
    let name = ready["name"].as_str().unwrap();
    // The first one is answered: nobody was told too early.
    let ping = place.run(&["ping", name, "--count", "1", "--router", &router_at]);
    assert_eq!(ping.code, 0, "{}", ping.errors);

    for (manager, running) in [(node_manager, node), (router_manager, router), (rib_manager, rib)] {
        assert_eq!(running.signal("TERM"), 0);
        manager.expect("STOPPING=1");
        assert_eq!(manager.next(EVERY), None);
    }
}

#[test]
fn one_that_cannot_serve_never_says_that_it_is_ready() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let taken = std::net::UdpSocket::bind(ANY).unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    for arguments in [
        &["rib", "--listen", &listen, "--key", "rib.key", "--store", "rib.redb"][..],
        // Nobody is at that port who speaks as routers do.
        &["receive", "--router", &format!("{}@{listen}", place.keygen("router", "x.key"))],
        // And this is a command, not a service.
        &["name"],
    ] {
        let manager = Manager::of(&place, arguments[0]);
        let mut command = place.command(arguments);
        manager.hears(&mut command);
        command.output().unwrap();
        assert_eq!(manager.next(EVERY), None, "{arguments:?}");
    }
}

#[test]
fn while_settings_are_read_again_it_is_reloading_and_then_ready_whatever_they_are() {
    let place = Place::new();
    let friend = place.keygen("rib", "rib.key");
    place.write("friends", &friend);
    let manager = Manager::of(&place, "rib");
    let arguments = [
        "rib",
        "--listen",
        ANY,
        "--key",
        "rib.key",
        "--store",
        "rib.redb",
        "--admit-file",
        "friends",
    ];
    let mut rib = place.start_with(&arguments, |command| manager.hears(command));
    rib.next_object();
    manager.expect("READY=1");
    for (text, problem) in [(&*friend, None), ("nobody", Some("from before"))] {
        place.write("friends", text);
        rib.nudge("HUP");
        manager.expect("RELOADING=1");
        manager.expect("READY=1");
        if let Some(problem) = problem {
            rib.wait_for_error(problem);
        }
    }
}

#[test]
fn a_main_loop_that_hangs_is_heard_to_hang() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let domain = place.keygen("node", "domain.key");
    let other = place.keygen("node", "other.key");
    place.write("rib.toml", "[rib]\n");
    let manager = Manager::of(&place, "rib");
    let arguments = [
        "--config", "rib.toml", "rib", "--listen", ANY, "--key", "rib.key", "--store", "rib.redb",
        "--domain", &domain,
    ];
    let mut rib = place.start_with(&arguments, |command| manager.watches(command));
    rib.next_object();
    manager.expect("READY=1");
    for _ in 0..3 {
        assert_eq!(manager.next(PATIENCE).as_deref(), Some(BEAT));
    }
    // What it reads for a neighbour is on a file system that hangs.
    let pipe = place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    place.write(
        "rib.toml",
        &format!(
            "[rib]\n[[rib.neighbour]]\nname = \"{other}\"\nrelation = \"peer\"\n\
             rib = [\"{other}@127.0.0.1:1\"]\ncarriage = \"pipe\"\n"
        ),
    );
    rib.nudge("HUP");
    manager.expect("RELOADING=1");
    let start = Instant::now();
    let mut beats = 0;
    while start.elapsed() < 8 * EVERY {
        beats += u32::from(manager.next(EVERY).is_some());
    }
    // The round before may have had one left.
    assert!(beats < 2, "{beats} beats of a loop that hangs");
    std::fs::OpenOptions::new().write(true).open(&pipe).unwrap().write_all(b"none\n").unwrap();
    manager.expect("READY=1");
    assert_eq!(manager.next(PATIENCE).as_deref(), Some(BEAT));
}

#[test]
fn of_a_networks_parts_the_manager_hears_nothing() {
    let keeper = Keeper::create("home");
    let manager = Manager::of(&keeper.place, "network");
    let arguments = ["network", "run", "--no-node", "home"];
    let mut network = keeper.place.start_with(&arguments, |command| manager.watches(command));
    network.next_object();
    manager.expect("READY=1");
    for _ in 0..3 {
        assert_eq!(manager.next(PATIENCE).as_deref(), Some(BEAT), "one READY, of the whole");
    }
    assert_eq!(network.signal("TERM"), 0);
    manager.expect("STOPPING=1");
}

const BEAT: &str = "WATCHDOG=1";
/// How often a daemon beats that is watched.
const EVERY: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(60);

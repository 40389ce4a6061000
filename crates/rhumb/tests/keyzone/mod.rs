//! A zone of keys for one test: two waypoints, principal 42, an
//! operator, and the key server that serves it.

#![allow(dead_code, clippy::unwrap_used)] // Each test file uses a part of this; a test may panic.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rhumb_capability::{Flags, Principal, Window};
use rhumb_keyserver::question::KeyQuestion;
use serde_json::Value;

use super::harness::{Place, Run, Running};

pub(crate) const ZONE: &str = "_k.example.net";
pub(crate) const WAYPOINTS: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
/// The shortest that there are, in seconds.
pub(crate) const WINDOW_S: u64 = 1 << WINDOW_BITS;
const WINDOW_BITS: u32 = 10;

/// The files of a zone, in a place.
pub(crate) struct KeyZone {
    pub(crate) place: Place,
}

impl KeyZone {
    /// All files, and a configuration that listens on `listen`.
    pub(crate) fn new(listen: &str) -> Self {
        let place = Place::new();
        place.write(
            "rhumb.toml",
            &format!(
                "[keyserver]\nzone = \"{ZONE}\"\nlisten = [\"{listen}\"]\naddresses = [\"127.0.0.53\"]\n\
                 operators = [\"operator.tsig\"]\nadmin = \"127.0.0.1:0\"\n\
                 [[keyserver.waypoint]]\naddress = \"{}\"\nmaster = \"a.master\"\n\
                 follower = \"a.tsig\"\nwindow_bits = {WINDOW_BITS}\n\
                 [[keyserver.waypoint]]\naddress = \"{}\"\nmaster = \"b.master\"\n\
                 follower = \"b.tsig\"\nwindow_bits = {WINDOW_BITS}\n",
                WAYPOINTS[0], WAYPOINTS[1]
            ),
        );
        let zone = Self { place };
        for (waypoint, file) in WAYPOINTS.into_iter().zip(["a.master", "b.master"]) {
            zone.capability(&["master", waypoint, "--out", file]);
        }
        for (name, file) in
            [("operator", "operator.tsig"), ("a.example", "a.tsig"), ("b.example", "b.tsig")]
        {
            zone.capability(&["signer", name, "--out", file]);
        }
        zone.capability(&["mint", "42"]);
        zone
    }

    /// Runs `rhumb --json capability ..`, which succeeds.
    #[track_caller]
    pub(crate) fn capability(&self, arguments: &[&str]) -> Value {
        let run = self.place.run(&[&["--json", "capability"], arguments].concat());
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.errors);
        run.object()
    }

    /// Starts the key server.
    pub(crate) fn start(&self) -> Server {
        Server::of(self.place.start(&["keyserver"]))
    }

    /// Follows revocations as waypoint `a` or `b`; returns after its first word.
    pub(crate) fn follow(&self, server: &Server, waypoint: &str) -> Running {
        let key = format!("{waypoint}.tsig");
        let address = server.address.to_string();
        let mut running =
            self.place.start(&["capability", "follow", "--key", &key, "--server", &address]);
        running.next_object();
        running
    }

    /// Runs `rhumb --json capability revoke ..` as the operator.
    pub(crate) fn revoke(&self, server: &Server, arguments: &[&str]) -> Run {
        let address = server.address.to_string();
        let own = ["--key", "operator.tsig", "--server", &address];
        self.place.run(&[&["--json", "capability", "revoke"], arguments, &own].concat())
    }

    /// Runs `nsupdate -k KEY` with this script between `zone` and `send`.
    pub(crate) fn nsupdate(&self, server: &Server, key: Option<&str>, script: &str) -> Run {
        let (ip, port) = (server.address.ip(), server.address.port());
        let text = format!("server {ip} {port}\nzone {ZONE}\n{script}\nsend\n");
        self.place.write("script", &text);
        let mut command = Command::new("nsupdate");
        command.current_dir(self.place.folder());
        if let Some(key) = key {
            command.args(["-k", key]);
        }
        Run::of(command.args(["-t", "10", "script"]).output().unwrap())
    }
}

/// A key server that runs.
pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
    pub(crate) admin: String,
}

impl Server {
    #[track_caller]
    pub(crate) fn of(mut running: Running) -> Self {
        let ready = running.next_object();
        assert_eq!((&ready["role"], &ready["zone"]), (&"keyserver".into(), &ZONE.into()));
        let address = ready["addresses"][0].as_str().unwrap().parse().unwrap();
        let admin = ready["admin"].as_str().unwrap().to_owned();
        Self { running, address, admin }
    }

    pub(crate) fn status(&self, place: &Place) -> Value {
        place.run(&["--json", "status", "--admin", &self.admin]).object()
    }

    /// Runs `dig` with these arguments at this server.
    #[track_caller]
    pub(crate) fn dig(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("dig");
        command.args([&format!("@{}", self.address.ip()), "-p", &self.address.port().to_string()]);
        command.arg("+norec");
        dig(&mut command, arguments)
    }
}

/// Runs `dig` to its end.
#[track_caller]
pub(crate) fn dig(command: &mut Command, arguments: &[&str]) -> String {
    command.args(["+time=5", "+tries=2"]).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap()
}

/// The name of the present window's key. Waits for the next window when this one is about to end.
pub(crate) fn key_name(waypoint: &str, principal: u32) -> String {
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let left = WINDOW_S - now % WINDOW_S;
        if left > 20 {
            return name_of(waypoint, principal, now / WINDOW_S);
        }
        std::thread::sleep(Duration::from_secs(left));
    }
}

/// The name of a key.
pub(crate) fn name_of(waypoint: &str, principal: u32, window: u64) -> String {
    let question = KeyQuestion {
        waypoint: waypoint.parse().unwrap(),
        principal: Principal(principal),
        flags: Flags::NONE,
        window: Window(window as u32),
    };
    format!("{}.{ZONE}", question.label())
}

/// Whether a program is there; says so when not.
pub(crate) fn has(program: &str, package: &str) -> bool {
    let there = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let there = there.is_ok_and(|output| output.status.success());
    if !there {
        println!("skipped: `{program}` (Debian package {package}) is not there");
    }
    there
}

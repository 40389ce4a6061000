//! Two waypoints on two ways from a to b: packets take the preferred one while it
//! is well, the other one within moments when it is killed or refuses, and come
//! back; a program and its TCP connection live on.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Running};
use crate::stamping::{
    Daemon, Started, WAYPOINT_CONFIG, credential, now_us, status, wait_until, window_clock,
};
use crate::wire::Host;

const X: &str = "10.1.0.2";
const Y: &str = "10.2.0.2";
const B: &str = "10.5.0.1";
const ADMIN: &str = "127.0.0.1:7480";

/// a - x - b and a - y - b; x and y are waypoints, and forward nothing else from a.
struct Fork {
    a: Host,
    x: Host,
    y: Host,
    b: Host,
    place: Place,
}

impl Fork {
    fn new() -> Option<Self> {
        let hosts = || Ok::<_, std::io::Error>([(); 4].map(|()| Host::new()));
        let [a, x, y, b] =
            hosts().ok()?.map(|host| host.map_err(|why| println!("skipped: {why}")).ok());
        let fork = Self { a: a?, x: x?, y: y?, b: b?, place: Place::new() };
        fork.lay();
        for (name, address) in [("x", X), ("y", Y)] {
            let text =
                format!("rhumb-master 1\nwaypoint {address}\nepoch 1\nkey {}\n", "05".repeat(16));
            fork.write_secret(&format!("{name}.master"), &text);
            let window = window_clock().at(now_us(0));
            let path = fork.place.path(&format!("{name}.cap"));
            rhumb_capability::file::save(&path, &credential(address, window, window_clock()))
                .unwrap();
            let following = if name == "x" {
                "key_server = \"127.0.0.1:5300\"\nzone = \"_k.example\"\nkey = \"follower.tsig\"\n"
            } else {
                ""
            };
            let text = format!(
                "{WAYPOINT_CONFIG}addresses = [\"{address}\"]\n\
                 master = [\"{name}.master\"]\nio = \"raw\"\nadmin = \"127.0.0.1:0\"\n{following}"
            );
            fork.place.write(&format!("{name}.toml"), &text);
        }
        Some(fork)
    }

    fn lay(&self) {
        for (host, device, network, other) in [
            (&self.a, "tox", "10.1.0", &self.x),
            (&self.a, "toy", "10.2.0", &self.y),
            (&self.x, "tob", "10.3.0", &self.b),
            (&self.y, "tob", "10.4.0", &self.b),
        ] {
            let far = if device == "tob" {
                format!("to{}", network.replace('.', "_"))
            } else {
                "toa".to_owned()
            };
            host.run(&format!(
                "ip link add {device} type veth peer name {far} netns {}",
                other.path()
            ));
            for (host, device, number) in [(host, device, 1), (other, &*far, 2)] {
                host.run(&format!(
                    "ip address add {network}.{number}/24 dev {device}; ip link set {device} up; \
                     echo 0 > /proc/sys/net/ipv4/conf/{device}/rp_filter"
                ));
            }
        }
        for (router, gateway) in [(&self.x, "10.3.0.2"), (&self.y, "10.4.0.2")] {
            router.run(&format!(
                "echo 1 > /proc/sys/net/ipv4/ip_forward; ip route add {B} via {gateway}; \
                 nft add table inet plain; \
                 nft add chain inet plain forward '{{ type filter hook forward priority 0; }}'; \
                 nft add rule inet plain forward iifname toa drop"
            ));
        }
        self.b.run(&format!(
            "ip address add {B}/32 dev lo; ip route add 10.1.0.0/24 via 10.3.0.1; \
             ip route add 10.2.0.0/24 via 10.4.0.1"
        ));
        self.a.run(&format!("ip route add {B} via 10.1.0.2"));
    }

    fn write_secret(&self, name: &str, text: &str) {
        self.place.write(name, text);
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(self.place.path(name), mode).unwrap();
    }

    /// A key server on x, which x follows and y does not.
    fn start_key_server(&self) -> Running {
        for name in ["operator", "follower"] {
            let (file, key) = (format!("{name}.tsig"), format!("{name}.k.example"));
            assert_eq!(self.place.run(&["capability", "signer", &key, "--out", &file]).code, 0);
        }
        self.write_secret(
            "principals",
            &format!("{}\n", rhumb_keyserver::principal::PRINCIPALS_HEAD),
        );
        self.place.write(
            "keys.toml",
            &format!(
                "[keyserver]\nzone = \"_k.example\"\nlisten = [\"127.0.0.1:5300\"]\n\
                 name_servers = [\"ns.example\"]\nprincipals = \"principals\"\njournal = \"revocations\"\n\
                 operators = [\"operator.tsig\"]\n[[keyserver.waypoint]]\naddress = \"{X}\"\n\
                 master = \"x.master\"\nfollower = \"follower.tsig\"\nwindow_bits = 10\n"
            ),
        );
        let mut server = self.x.enter(|| self.place.start(&["--config", "keys.toml", "keyserver"]));
        server.next_object();
        server
    }

    fn revoke(&self, more: &[&str]) {
        let own = ["--config", "keys.toml", "capability", "revoke", "7", "--key", "operator.tsig"];
        let run = self.x.enter(|| self.place.run(&[&own, more].concat()));
        assert_eq!(run.code, 0, "{}", run.errors);
    }

    fn waypoint(&self, name: &str) -> Daemon {
        let host = if name == "x" { &self.x } else { &self.y };
        let config = format!("{name}.toml");
        Daemon::start(&self.place, host, 0, &["--config", &config, "waypoint"])
    }

    /// What the stamper says of a way.
    fn choice(&self, via: &str) -> Value {
        let status = status(&self.place, &self.a, ADMIN);
        let choices = status["choices"].as_array().cloned().unwrap_or_default();
        choices.into_iter().find(|it| it["via"] == via).unwrap_or_default()
    }

    /// Waits until packets take the way through a waypoint, and the other one is so.
    fn wait_for(&self, in_use: &str, other: &str, state: &str) {
        wait_until(&format!("{in_use} in use and {other} {state}"), || {
            self.choice(in_use)["is_in_use"] == true && self.choice(other)["state"] == state
        });
    }
}

/// What arrives at b: datagrams with a number each, one every 20 ms.
struct Arrivals(UdpSocket);

impl Arrivals {
    /// The longest time without any, until `holds`.
    fn longest_gap(&self, mut holds: impl FnMut() -> bool) -> Duration {
        let (mut last, mut longest, mut looked) = (Instant::now(), Duration::ZERO, Instant::now());
        let begin = Instant::now();
        let mut buffer = [0; 64];
        loop {
            if self.0.recv(&mut buffer).is_ok() {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            if looked.elapsed() > Duration::from_millis(300) {
                if holds() {
                    return longest.max(last.elapsed());
                }
                looked = Instant::now();
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "what is waited for does not come");
        }
    }
}

#[test]
fn packets_take_another_way_when_a_waypoint_dies_or_refuses_and_come_back() {
    for program in ["nft", "python3"] {
        let found = std::process::Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output();
        if !found.is_ok_and(|it| it.status.success()) {
            return println!("skipped: {program} is not installed");
        }
    }
    let Some(fork) = Fork::new() else { return };
    let _server = fork.start_key_server();
    let x = fork.waypoint("x");
    let _y = fork.waypoint("y");
    let socket = fork.b.enter(|| UdpSocket::bind((B, 5555)).unwrap());
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let arrivals = Arrivals(socket);
    // The program has a connection as well, whose other end sends back each byte.
    fork.place.write(
        "echo.py",
        &format!(
            "import socket\ns = socket.create_server(('{B}', 5556))\nprint('up', flush=True)\nc, _ = s.accept()\n\
             while True:\n    data = c.recv(100)\n    if not data: break\n    c.sendall(data)\n"
        ),
    );
    fork.place.write(
        "send.py",
        &format!(
            "import os, socket, time\nt = socket.create_connection(('{B}', 5556), 20)\nt.settimeout(20)\n\
             u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nn = 0\n\
             while not os.path.exists('stop'):\n    u.sendto(str(n).encode(), ('{B}', 5555))\n    n += 1\n\
             \x20   if n % 50 == 0:\n        t.sendall(b'x'); assert t.recv(1) == b'x'\n    time.sleep(0.02)\n"
        ),
    );
    let folder = fork.place.folder().display().to_string();
    let _echo = Started::script(&fork.b, &format!("python3 {folder}/echo.py"));
    wait_until("the echo", || fork.b.run("ss -Hltn").contains(":5556"));
    let mut command = fork.place.command(&[
        "stamp",
        "--capability",
        "x.cap",
        "--capability",
        "y.cap",
        "--via",
        X,
        "--via",
        Y,
        "--admin",
        ADMIN,
        "--",
        "python3",
        "send.py",
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    let mut stamp = Started::on(&fork.a, &mut command);
    arrivals.longest_gap(|| fork.choice(Y)["state"] == "well");
    fork.wait_for(X, Y, "well");
    for way in [X, Y] {
        wait_until("a round trip", || fork.choice(way)["round_trip_ms"].as_f64() > Some(0.0));
    }

    // Killed under traffic: without a word, as a host that lost its power.
    drop(x);
    let gap = arrivals.longest_gap(|| fork.choice(X)["state"] == "silent");
    fork.wait_for(Y, X, "silent");
    println!("killed: {gap:?} without a packet");
    assert!(gap < Duration::from_secs(10), "{gap:?}");
    // It starts again, and is preferred again when it has been well for a while.
    let x = fork.waypoint("x");
    let gap = arrivals.longest_gap(|| fork.choice(X)["is_in_use"] == true);
    fork.wait_for(X, Y, "well");
    println!("back: {gap:?} without a packet");
    assert!(gap < Duration::from_secs(10), "{gap:?}");
    // Revoked at x alone.
    fork.revoke(&[]);
    let gap = arrivals.longest_gap(|| fork.choice(Y)["is_in_use"] == true);
    println!("revoked: {gap:?} without a packet; {} says {}", X, fork.choice(X)["state"]);
    assert!(gap < Duration::from_secs(10), "{gap:?}");
    assert_ne!(fork.choice(X)["state"], "well");
    fork.revoke(&["--restore"]);
    arrivals.longest_gap(|| fork.choice(X)["is_in_use"] == true);
    fork.wait_for(X, Y, "well");
    drop(x);

    fork.place.write("stop", "");
    assert_eq!(stamp.0.wait().unwrap().code(), Some(0), "the connection lived through all of it");
}

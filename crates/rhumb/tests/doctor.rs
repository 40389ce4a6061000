//! `rhumb doctor`: a healthy network has no problem, and each fault has a line that says what it is
//! and what to do.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Place, Run, remote};
use crate::hosts::{Keeper, joined, up, wait_for};
use crate::namespaces::Namespace;
use crate::network::Network;

/// What the doctor said.
struct Said {
    code: i32,
    lines: Vec<Value>,
}

impl Said {
    fn of(run: &Run) -> Self {
        let lines = run.output.lines().map(|line| serde_json::from_str(line).unwrap());
        let lines: Vec<Value> = lines.collect();
        assert!(lines.last().is_some_and(|it| it["problems"].is_u64()), "{}", run.errors);
        Self { code: run.code, lines }
    }

    /// The lines of one look that stand so.
    fn lines(&self, check: &str, state: &str) -> Vec<&Value> {
        let is_one = |it: &&Value| it["check"] == check && it["state"] == state;
        self.lines.iter().filter(is_one).collect()
    }

    /// There is a line of one look that stands so, with all of these words, and it says what to do.
    #[track_caller]
    fn has(&self, check: &str, state: &str, words: &[&str]) {
        let text = |it: &Value| format!("{}: {} -> {}", it["of"], it["found"], it["do"]);
        let found: Vec<String> = self.lines(check, state).into_iter().map(text).collect();
        let fits = |line: &String| words.iter().all(|word| line.contains(word));
        assert!(found.iter().any(fits), "no {check} is a {state} with {words:?}: {self}");
        assert_eq!(self.code, i32::from(self.lines.last().unwrap()["problems"] != 0));
    }

    #[track_caller]
    fn is_well(&self) {
        assert!(self.code == 0 && self.lines.last().unwrap()["problems"] == 0, "{self}");
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lines.iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}

fn doctor(place: &Place, arguments: &[&str]) -> Said {
    Said::of(&place.run(&[&["--json", "doctor"], arguments].concat()))
}

#[test]
fn a_healthy_network_has_no_problem() {
    let keeper = Keeper::create("home");
    let _running = keeper.run_with(&[]);
    let alice = joined(&keeper.invite("alice"));
    // Nothing runs there: she is let in for a moment.
    let said = doctor(&alice, &[]);
    said.is_well();
    said.has("admission", "ok", &["home", "let in"]);
    said.has("membership", "ok", &["home", "days left"]);
    said.has("keeper", "ok", &["this host is alice"]);
    said.has("clock", "ok", &["the keeper's"]);
    said.has("router", "ok", &["by UDP"]);
    said.has("path", "ok", &["1452 bytes", "round trip"]);
    said.has("look-up", "ok", &["knows no way to this host's name"]);
    let (_node, _) = up(&alice);
    wait_for("her node is found well", || doctor(&alice, &[]).code == 0);
    let said = doctor(&alice, &["--network", "home"]);
    said.has("admission", "ok", &["the node that runs is joined"]);
    let of_keeper = doctor(&keeper.place, &[]);
    of_keeper.is_well();
    for role in ["router", "rib", "keeper", "node"] {
        of_keeper.has("daemon", "ok", &[&format!("{role:?}")]);
    }
    of_keeper.has("port", "ok", &["RIB, UDP", "the rib that runs here has it"]);
    // People see the same, and no secret.
    let shown = alice.run(&["doctor"]).output;
    assert!(shown.ends_with("nothing is wrong\n"), "{shown}");
    let key = std::fs::read_to_string(alice.path(".local/share/rhumb/networks/home/node.key"));
    let secret = key.unwrap().lines().last().unwrap().trim_start_matches("key ").to_owned();
    assert!(secret.len() > 60 && !shown.contains(&secret), "{shown}");
}

#[test]
fn a_node_that_the_doctor_does_not_see_goes_on() {
    let keeper = Keeper::create("home");
    let _running = keeper.run_with(&[]);
    let alice = joined(&keeper.invite("alice"));
    let (mut node, _) = up(&alice);
    wait_for("the host knows alice", || {
        keeper.place.run(&["ping", "alice", "--count", "1"]).code == 0
    });
    // As it is when it runs as a service, and somebody else looks.
    std::fs::create_dir(alice.path("elsewhere")).unwrap();
    let mut command = alice.command(&["--json", "doctor"]);
    command.env("XDG_RUNTIME_DIR", alice.path("elsewhere"));
    let said = Said::of(&Run::of(command.output().unwrap()));
    said.is_well();
    said.has("admission", "ok", &["joining once more would end it"]);
    std::thread::sleep(Duration::from_secs(1));
    assert!(node.child.try_wait().unwrap().is_none(), "{}", node.errors_so_far());
    assert_eq!(keeper.place.run(&["ping", "alice", "--count", "1"]).code, 0);
}

#[test]
fn what_is_wrong_with_router_and_rib_is_told_apart() {
    let place = Place::new();
    let network = Network::start(&place);
    let other = place.keygen("router", "other.key");
    let (router, rib) = (network.router(), remote(&network.rib_ready));
    let address = router.split_once('@').unwrap().1.to_owned();
    let said = doctor(&place, &["--router", &router, "--rib", &rib]);
    said.is_well();
    said.has("clock", "ok", &["of the RIB's"]);
    let said = doctor(&place, &["--clock-offset-s=7200", "--rib", &rib]);
    said.has("clock", "problem", &["ahead of the RIB's", "set the clock"]);
    // Another name than is there.
    let said = doctor(&place, &["--router", &format!("{other}@{address}")]);
    said.has("router", "problem", &[&other, "was expected", "correct the name or the address"]);
    said.has("admission", "not_tried", &["the right one"]);
    // A RIB is no router.
    let said = doctor(&place, &["--router", &rib]);
    said.has("router", "problem", &["a rib, and no router", "7461"]);
    // The RIB is down.
    network.rib.kill();
    let said = doctor(&place, &["--router", &router, "--rib", &rib]);
    said.has("RIB", "problem", &["nobody answers at", "nothing takes TCP", "does `rhumb rib`"]);
    said.has("router", "ok", &["by UDP"]);
    // And the router.
    network.router.kill();
    let said = doctor(&place, &["--router", &router]);
    said.has("router", "problem", &["nobody answers at", "`rhumb router`", "firewalls"]);
    said.has("path", "not_tried", &["the router is not reached"]);
    let shown = place.run(&["doctor", "--router", &router]);
    assert!(shown.code == 1 && shown.output.ends_with("problems: 1, warnings: 0\n"));
}

#[test]
fn whoever_is_not_let_in_is_told_who_can_change_that() {
    let keeper = Keeper::create("home");
    let _running = keeper.run();
    let stranger = Place::new();
    let said = doctor(&stranger, &["--router", &format!("{}:7460", keeper.address)]);
    said.has("admission", "problem", &["rules do not let this name in", "whoever runs it"]);
    let alice = joined(&keeper.invite("alice"));
    assert_eq!(keeper.place.run(&["network", "remove", "alice"]).code, 0);
    let said = doctor(&alice, &[]);
    said.has("keeper", "problem", &["a member no longer", "rhumb join CODE"]);
}

#[test]
fn a_network_that_nobody_runs_is_told_by_each_of_its_parts() {
    let keeper = Keeper::create("home");
    let mut running = keeper.run();
    let alice = joined(&keeper.invite("alice"));
    running.nudge("TERM");
    running.child.wait().unwrap();
    let said = doctor(&alice, &[]);
    let run = "rhumb network run";
    said.has("keeper", "problem", &["is not there", run, "TCP port 7462"]);
    said.has("router", "problem", &["nobody answers at", run]);
    said.has("RIB", "problem", &["nobody answers at", run]);
    said.has("admission", "not_tried", &["no router is reached"]);
    said.has("membership", "ok", &["days left"]);
}

#[test]
fn files_that_cannot_be_used_are_named_and_the_rest_is_looked_at() {
    let keeper = Keeper::create("home");
    let _running = keeper.run();
    let alice = joined(&keeper.invite("alice"));
    let key = alice.path(".local/share/rhumb/networks/home/node.key");
    let chmod = |mode| std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode));
    chmod(0o644).unwrap();
    let said = doctor(&alice, &[]);
    said.has("key", "problem", &["mode 644", "chmod 600", "node.key"]);
    said.has("keeper", "not_tried", &["the key of this host cannot be used"]);
    said.has("router", "ok", &["by UDP"]);
    chmod(0o600).unwrap();
    std::fs::write(&key, "rhumb-key 1\nname x\n").unwrap();
    doctor(&alice, &[]).has("key", "problem", &["cut short", "restore it from a backup"]);
    std::fs::remove_file(&key).unwrap();
    doctor(&alice, &[]).has("key", "problem", &["no key file", "make one"]);
    alice.write("rhumb.toml", "[router]\nliten = \"x\"\n");
    let said = doctor(&alice, &[]);
    said.has("settings", "problem", &["line 2", "did you mean `listen`", "put that line right"]);
    said.has("router", "ok", &["by UDP"]);
}

#[test]
fn a_clock_that_is_behind_and_a_membership_that_is_over_are_told() {
    let keeper = Keeper::create("home");
    let _running = keeper.run();
    let alice = joined(&keeper.invite("alice"));
    let at = |offset: &str| Said::of(&alice.run(&[offset, "--json", "doctor"]));
    let said = at("--clock-offset-s=-200000");
    said.has("membership", "problem", &["it begins in 2 days", "clock is behind", "set the clock"]);
    said.has("clock", "problem", &["2 days behind the keeper's", "time service"]);
    let said = at("--clock-offset-s=1728000");
    said.has("membership", "problem", &["over for 6 days", "rhumb up"]);
    said.has("clock", "problem", &["ahead of the keeper's"]);
    // In its last tenth it is told beforehand, as by `status`.
    let said = at("--clock-offset-s=1123200");
    said.has("membership", "warning", &["it ends soon", "rhumb up"]);
}

#[test]
fn a_port_that_another_program_has_is_told_with_who_it_is() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let place = Place::new();
    place.write("rhumb.toml", &format!("[up]\nproxy = \"{address}\"\n"));
    let said = doctor(&place, &[]);
    let id = format!("process {}", std::process::id());
    said.has("port", "problem", &["proxy, TCP", &address.to_string(), &id, "another port"]);
    drop(taken);
    let said = doctor(&place, &[]);
    said.has("port", "ok", &["free"]);
    said.has("router", "not_tried", &["rhumb join CODE"]);
    said.is_well();
}

/// A daemon that tells this status to whoever asks, at the usual place.
fn tells(place: &Place, status: &Value) {
    let folder = place.path("rhumb");
    std::fs::create_dir_all(&folder).unwrap();
    let listener = UnixListener::bind(folder.join("old.sock")).unwrap();
    let body = status.to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // Whether anybody listens there is tried first, without a question.
            let mut question = BufReader::new(&stream).lines().map_while(Result::ok);
            if question.any(|line| line.is_empty()) {
                let _ = write!(stream, "HTTP/1.1 200 OK\r\n\r\n{body}");
            }
        }
    });
}

#[test]
fn what_a_daemon_tells_of_itself_is_told_and_that_it_is_of_another_version() {
    let place = Place::new();
    tells(
        &place,
        &json!({
            "role": "\u{1b}[31mrouter",
            "name": "\u{1b}[31mx",
            "address": "127.0.0.1:7",
            "uptime_s": 5,
            "version": "0.0.9",
            "clock": "this machine's clock is behind the RIB's by at least 5 min",
            "ribs": [{"address": "127.0.0.1:8", "connected": false}],
        }),
    );
    let said = doctor(&place, &[]);
    said.has("daemon", "warning", &["is of version 0.0.9", "start it again"]);
    said.has("daemon", "warning", &["behind the RIB's", "time service"]);
    said.has("daemon", "warning", &["no session with its RIB at 127.0.0.1:8", "does it run"]);
    said.is_well();
    let shown = place.run(&["doctor"]).output;
    assert!(shown.contains("0.0.9") && !shown.contains('\u{1b}'), "{shown}");
}

/// A router and its RIB on one host, somebody who looks at them on another, and a router of the
/// system between them.
struct Rig {
    host: Namespace,
    between: Namespace,
    near: Namespace,
    place: Place,
}

impl Rig {
    fn new() -> Option<Self> {
        let (host, between, near) = (Namespace::new()?, Namespace::new()?, Namespace::new()?);
        host.wire("eth", &between, "far");
        near.wire("eth", &between, "near");
        for (namespace, device, link, number) in [
            (&between, "far", 1, 1),
            (&host, "eth", 1, 2),
            (&between, "near", 2, 1),
            (&near, "eth", 2, 2),
        ] {
            namespace.run(&format!("ip address add 10.9.{link}.{number}/24 dev {device}"));
        }
        host.run("ip route add default via 10.9.1.1");
        near.run("ip route add default via 10.9.2.1");
        between.run("echo 1 > /proc/sys/net/ipv4/ip_forward");
        Some(Self { host, between, near, place: Place::new() })
    }

    fn doctor(&self, router: &str) -> Said {
        let arguments = ["--json", "doctor", "--router", router];
        Said::of(&Run::of(self.place.command_in(self.near.id(), &arguments).output().unwrap()))
    }
}

#[test]
fn blocked_udp_and_a_narrow_way_are_told() {
    let Some(rig) = Rig::new() else { return };
    let place = &rig.place;
    place.keygen("rib", "rib.key");
    place.keygen("router", "router.key");
    let rib = ["rib", "--key", "rib.key", "--listen", "10.9.1.2:0"];
    let mut rib = place.start_in(rig.host.id(), &rib);
    let to_rib = remote(&rib.next_object());
    let router = ["router", "--key", "router.key", "--rib", &to_rib, "--listen", "10.9.1.2:7460"];
    let router = [&router[..], &["--tls-listen", "10.9.1.2:7460"]].concat();
    let mut router = place.start_in(rig.host.id(), &router);
    let to_router = remote(&router.next_object());
    let said = rig.doctor(&to_router);
    said.has("path", "ok", &["1452 bytes"]);
    said.is_well();

    // A link of 1360 bytes, and nobody who tells.
    rig.between.run("ip link set far mtu 1360");
    rig.between.run("ip rule add pref 1 ipproto icmp blackhole");
    let said = rig.doctor(&to_router);
    said.has("path", "warning", &["no larger ones", "takes two", "raise its MTU to 1444"]);
    said.is_well();
    rig.between.run("ip link set far mtu 1500");

    rig.between.run("ip rule add pref 2 ipproto udp blackhole");
    let said = rig.doctor(&to_router);
    said.has("router", "warning", &["UDP is blocked", "go over TLS", "let UDP port 7460 through"]);
    said.is_well();

    rig.between.run("ip rule add pref 3 ipproto tcp blackhole");
    let said = rig.doctor(&to_router);
    said.has("router", "problem", &["nobody answers at 10.9.1.2:7460 by UDP or TLS", "firewalls"]);
    said.has("admission", "not_tried", &["no router is reached"]);
}

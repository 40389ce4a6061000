//! The border of a trust domain with real processes: a router demands capabilities of its
//! neighbour, which has a principal of the operator's, or a file; who pays is on the account, and
//! who is revoked passes no more.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rhumb_capability::{
    Capability, Delegations, Flags, Principal, Scheme, Suite, WindowClock, file,
};
use rhumb_keyserver::principal::parse_master;
use rhumb_switch::short_address;
use rhumb_wire::Name;
use serde_json::Value;

use crate::harness::{Place, Running, remote};

const ANY: &str = "127.0.0.1:0";

/// A RIB, a router that demands capabilities, the other one's name, and a node behind the first.
struct Domain {
    place: Place,
    rib: Running,
    rib_at: String,
    far_name: String,
    near_name: String,
}

impl Domain {
    fn new() -> Self {
        let place = Place::new();
        place.keygen("rib", "rib.key");
        let far_name = place.keygen("router", "far.key");
        let near_name = place.keygen("router", "near.key");
        let mut rib =
            place.start(&["rib", "--listen", ANY, "--key", "rib.key", "--store", "rib.redb"]);
        let rib_at = remote(&rib.next_object());
        let made = place.run(&["capability", "master", &far_name, "--out", "far.master"]);
        assert_eq!(made.code, 0, "{}", made.errors);
        Self { place, rib, rib_at, far_name, near_name }
    }

    /// The router that demands; its ready line.
    fn start_far(&self, more: &str) -> (Running, Value) {
        let near = &self.near_name;
        self.place.write(
            "far.toml",
            &format!(
                "[border]\nforeign = [\"{near}\"]\nmaster = [\"far.master\"]\naccounts = \"bills\"\n\
                 window_bits = 10\n{more}"
            ),
        );
        self.start("far", &[])
    }

    /// The foreign router, which is reached through the other.
    fn start_near(&self, far: &Value, stamp: &str) -> (Running, Value) {
        let name = &self.far_name;
        let config = match stamp {
            "" => String::new(),
            stamp => format!("[[border.stamp]]\npeer = \"{name}\"\n{stamp}\n"),
        };
        self.place.write("near.toml", &config);
        self.start("near", &["--upstream", &remote(far), "--locator", "none"])
    }

    fn start(&self, which: &str, more: &[&str]) -> (Running, Value) {
        let (config, key) = (format!("{which}.toml"), format!("{which}.key"));
        let own = ["--config", &config, "router", "--listen", ANY, "--admin", ANY, "--key", &key];
        let mut running = self.place.start(&[&own[..], &["--rib", &self.rib_at], more].concat());
        let ready = running.next_object();
        (running, ready)
    }

    /// Pings until that ends as expected, since keys and news
    /// take their time; says what was printed last.
    #[track_caller]
    fn ping_until(&self, name: &str, near: &Value, code: i32, text: &str) {
        let start = Instant::now();
        let router = remote(near);
        loop {
            let run = self.place.run(&["ping", name, "--count", "1", "--router", &router]);
            if run.code == code && (run.output + &run.errors).contains(text) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "code {}: {}", run.code, run.errors);
        }
    }

    fn status(&self, ready: &Value) -> Value {
        let admin = ready["admin"].as_str().unwrap();
        self.place.run(&["--json", "status", "--admin", admin]).object()
    }

    /// A capability for principal 7, of a window so many after the present one.
    fn write_capability(&self, path: &str, ahead: i64) {
        let text = std::fs::read_to_string(self.place.path("far.master")).unwrap();
        let (waypoint, keys) = parse_master(&text).unwrap();
        let far: Name = self.far_name.parse().unwrap();
        assert_eq!(waypoint, short_address(&far));
        let clock = WindowClock::new(10, 10_000, 5_000).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let mut window = clock.at(now.as_micros() as u64);
        window.0 = window.0.checked_add_signed(ahead as i32).unwrap();
        let capability = Capability {
            waypoint,
            principal: Principal(7),
            flags: Flags::NONE,
            window,
            epoch: keys.epoch(),
            suite: Suite::default(),
            scheme: Scheme::CaveatChain,
            delegations: Delegations::default(),
        };
        let credential = keys.mint(capability, clock.not_after_s(window)).unwrap().into();
        let path = self.place.path(path);
        let _ = std::fs::remove_file(&path);
        file::save(&path, &credential).unwrap();
    }
}

/// The value of a metric, labels and all.
fn metric(ready: &Value, name: &str) -> Option<u64> {
    let admin = ready["admin"].as_str().unwrap();
    let mut stream = TcpStream::connect(admin).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {admin}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    answer.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[test]
fn a_principal_passes_and_is_billed_until_it_is_revoked() {
    let domain = Domain::new();
    let place = &domain.place;
    let capability = |arguments: &[&str]| {
        let run = place.run(&[&["--config", "zone.toml", "capability"], arguments].concat());
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.errors);
    };
    place.write(
        "zone.toml",
        &format!(
            "[keyserver]\nzone = \"_k.example.net\"\nlisten = [\"{ANY}\"]\naddresses = [\"127.0.0.53\"]\n\
             operators = [\"operator.tsig\"]\n[[keyserver.waypoint]]\naddress = \"{}\"\n\
             master = \"far.master\"\nfollower = \"far.tsig\"\nwindow_bits = 10\n",
            domain.far_name
        ),
    );
    capability(&["signer", "operator", "--out", "operator.tsig"]);
    capability(&["signer", "far.example", "--out", "far.tsig"]);
    capability(&["mint", "42"]);
    let mut keyserver = place.start(&["--config", "zone.toml", "keyserver"]);
    let keys_at = keyserver.next_object()["addresses"][0].as_str().unwrap().to_owned();
    let (_far, far) = domain.start_far(&format!(
        "key_server = \"{keys_at}\"\nzone = \"_k.example.net\"\nkey = \"far.tsig\"\n"
    ));
    let stamp = format!("principal = \"42.principal\"\nresolvers = [\"{keys_at}\"]");
    let (_near, near) = domain.start_near(&far, &stamp);
    let mut node = place.start(&["receive", "--router", &remote(&far)]);
    let name = node.next_object()["name"].as_str().unwrap().to_owned();

    domain.ping_until(&name, &near, 0, "");
    let proven = || domain.status(&far)["border"]["proven_pdus"].as_u64();
    assert!(wait_for(|| proven() > Some(0)));
    assert!(domain.status(&near)["stamps"][0]["expires_in_s"].as_u64().unwrap() > 0);
    let bill = || place.run(&["--json", "waypoint", "accounts", "--accounts", "bills"]).object();
    assert!(wait_for(|| bill()["accounts"][0]["principal"] == 42), "{}", bill());
    assert!(bill()["accounts"][0]["packets"].as_u64().unwrap() > 0);

    let revoke = |more: &[&str]| {
        let own = ["revoke", "42", "--key", "operator.tsig", "--server", &keys_at];
        capability(&[&own[..], more].concat());
    };
    // When the command is done, the router has it.
    revoke(&[]);
    domain.ping_until(&name, &near, 1, "was revoked");
    let refused = "rhumb_switch_refused_capabilities_total{reason=\"revoked\"}";
    assert!(wait_for(|| metric(&far, refused) > Some(0)));
    let paid = "rhumb_waypoint_principal_packets_total{principal=\"42\"}";
    assert!(metric(&far, paid) > Some(0));
    assert_eq!(domain.status(&far)["border"]["revocations"]["in_force"], 1);
    revoke(&["--restore"]);
    domain.ping_until(&name, &near, 0, "");
    drop(domain.rib);
}

#[test]
fn without_a_capability_nothing_passes_until_there_is_one() {
    let domain = Domain::new();
    let (far_running, far) = domain.start_far("");
    let mut node = domain.place.start(&["receive", "--router", &remote(&far)]);
    let name = node.next_object()["name"].as_str().unwrap().to_owned();
    let (near_running, near) = domain.start_near(&far, "");
    domain.ping_until(&name, &near, 1, "no capability for a router on the way");
    assert!(domain.status(&far)["dropped_pdus"]["unstamped"].as_u64().unwrap() > 0);
    assert!(near_running.errors_so_far().contains("see [[border.stamp]]"));
    near_running.kill();

    // Files that have run out, then a fresh one in place of one of them.
    domain.write_capability("one.capability", -3);
    domain.write_capability("two.capability", -2);
    let stamp = "capability = [\"one.capability\", \"two.capability\"]";
    let (near_running, near) = domain.start_near(&far, stamp);
    domain.ping_until(&name, &near, 1, "no capability for a router on the way");
    assert!(domain.status(&near)["dropped_pdus"]["no_capability"].as_u64().unwrap() > 0);
    domain.write_capability("two.capability", 0);
    domain.ping_until(&name, &near, 0, "");
    // Asked for at any time.
    near_running.nudge("HUP");
    domain.ping_until(&name, &near, 0, "");
    domain.place.write("letter", "x");
    let sent = domain.place.run(&["send", "letter", "--to", &name, "--router", &remote(&near)]);
    assert_eq!(sent.code, 0, "{}", sent.errors);
    // The accounts are whole when it has ended.
    assert_eq!(far_running.end().0, 0);
    let bill =
        domain.place.run(&["--json", "waypoint", "accounts", "--accounts", "bills"]).object();
    assert_eq!(bill["accounts"][0]["principal"], 7);
}

#[test]
fn what_is_wrong_is_said_at_the_start() {
    let domain = Domain::new();
    domain.write_capability("a.capability", 0);
    let (far, near) = (&domain.far_name, &domain.near_name);
    for (config, expected) in [
        (format!("[border]\nforeign = [\"{near}\"]\n"), "[border] needs master"),
        ("[border]\nmaster = [\"far.master\"]\n".to_owned(), "[border] needs foreign"),
        ("[border]\noutside = true\nmaster = [\"far.master\"]\n".to_owned(), "give --border FILE"),
        ("[border]\nforegin = []\n".to_owned(), "did you mean `foreign`?"),
        (
            format!("[border]\nforeign = [\"{near}\"]\nmaster = [\"far.master\"]\n"),
            "not of this waypoint",
        ),
        (format!("[[border.stamp]]\npeer = \"{far}\"\n"), "line 2: a stamp needs capability"),
        ("[[border.stamp]]\npeer = \"x\"\n".to_owned(), "line 2: `x` is not a name"),
        (
            format!("[[border.stamp]]\npeer = \"{far}\"\nsource = \"X\"\ncapability = []\n"),
            "line 3: no name begins with `X`",
        ),
        (
            format!("[[border.stamp]]\npeer = \"{near}\"\ncapability = [\"a.capability\"]\n"),
            "for another router than its peer",
        ),
        (format!("[[border.stamp]]\npeer = \"{far}\"\ncapability = [\"none\"]\n"), "none"),
    ] {
        domain.place.write("near.toml", &config);
        let own = ["--config", "near.toml", "router", "--listen", ANY, "--key", "near.key"];
        let run = domain.place.run(&[&own[..], &["--rib", &domain.rib_at]].concat());
        run.is_refused_with(&[expected]);
    }
}

/// Whether it is so soon.
fn wait_for(is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

/// For a machine that is busy with everything else.
const PATIENCE: Duration = Duration::from_secs(30);

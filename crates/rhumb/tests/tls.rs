//! Real processes with a system between them that lets no UDP through: links go over TLS on TCP, by
//! themselves, and back to UDP when that works again.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Run, remote};
use crate::namespaces::Namespace;

/// Two hosts, and a router of the system between them.
struct Rig {
    host: Namespace,
    between: Namespace,
    nodes: Namespace,
    place: Place,
}

impl Rig {
    /// Where UDP is blocked; `None` where that cannot be tried.
    fn new() -> Option<Self> {
        let rig = Self {
            host: Namespace::new()?,
            between: Namespace::new()?,
            nodes: Namespace::new()?,
            place: Place::new(),
        };
        rig.host.wire("eth", &rig.between, "near");
        rig.nodes.wire("eth", &rig.between, "far");
        rig.between.run("ip address add 10.9.1.1/24 dev near");
        rig.between.run("ip address add 10.9.2.1/24 dev far");
        rig.between.run("echo 1 > /proc/sys/net/ipv4/ip_forward");
        rig.host.run("ip address add 10.9.1.2/24 dev eth");
        rig.host.run("ip route add default via 10.9.1.1");
        rig.nodes.run("ip address add 10.9.2.2/24 dev eth");
        rig.nodes.run("ip route add default via 10.9.2.1");
        // Forgotten without a word, as firewalls do it.
        rig.between.run("ip rule add pref 1 ipproto udp blackhole");
        Some(rig)
    }

    fn let_udp_through(&self) {
        self.between.run("ip rule del pref 1");
    }

    fn status(&self, of: &Namespace, ready: &Value) -> Value {
        let arguments = ["--json", "status", "--admin", ready["admin"].as_str().unwrap()];
        Run::of(self.place.command_in(of.id(), &arguments).output().unwrap()).object()
    }
}

/// What sessions with peers of a role go over.
fn transports(status: &Value, role: &str) -> Vec<String> {
    let sessions = status["sessions"].as_array().unwrap().iter();
    sessions
        .filter(|session| session["role"] == role)
        .map(|session| session["transport"].as_str().unwrap().to_owned())
        .collect()
}

fn wait_until(what: &str, patience: Duration, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

const SOON: Duration = Duration::from_secs(30);
const ANY: &str = "127.0.0.1:0";

#[test]
fn a_node_whose_udp_is_blocked_joins_over_tls_and_is_back_on_udp_when_it_works() {
    let Some(rig) = Rig::new() else { return };
    let place = &rig.place;
    place.keygen("rib", "rib.key");
    place.keygen("router", "router.key");
    let listen = ["--listen", "10.9.1.2:0"];
    let rib = [&["rib", "--key", "rib.key"], &listen[..]].concat();
    let mut rib = place.start_in(rig.host.id(), &rib);
    let to_rib = remote(&rib.next_object());
    // Nobody listens on TCP at the router's own port: 443 is tried next.
    let router = ["router", "--key", "router.key", "--rib", &to_rib, "--admin", ANY];
    let router = [&router[..], &listen, &["--tls-listen", "10.9.1.2:443"]].concat();
    let mut router = place.start_in(rig.host.id(), &router);
    let ready = router.next_object();
    let to_router = remote(&ready);

    std::fs::create_dir(place.path("inbox")).unwrap();
    let receive = ["receive", "--dir", "inbox", "--router", &to_router];
    let mut receiver = place.start_in(rig.nodes.id(), &receive);
    let name = receiver.next_object()["name"].as_str().unwrap().to_owned();
    let sessions = || transports(&rig.status(&rig.host, &ready), "node");
    assert_eq!(sessions(), ["tls"]);

    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at ^ at >> 9) as u8).collect();
    std::fs::write(place.path("large"), content).unwrap();
    // From where UDP works, and from where it does not, to where it does not.
    for from in [&rig.host, &rig.nodes] {
        let send = ["send", "large", "--to", &name, "--router", &to_router];
        let mut sender = place.start_in(from.id(), &send);
        let received = receiver.next_object_within(Duration::from_secs(60));
        assert_eq!(received["sha256"], sender.next_object()["sha256"]);
    }
    let status = rig.status(&rig.host, &ready);
    let (sent, dropped) = (&status["streams"]["sent_frames"], &status["dropped_datagrams"]);
    assert!(sent.as_u64().unwrap() > 4_000, "{sent} {dropped}");

    rig.let_udp_through();
    wait_until("back on UDP", Duration::from_secs(90), || sessions() == ["udp"]);
    let send = ["send", "large", "--to", &name, "--router", &to_router];
    let mut sender = place.start_in(rig.host.id(), &send);
    let received = receiver.next_object_within(Duration::from_secs(60));
    assert_eq!(received["sha256"], sender.next_object()["sha256"]);
    wait_until("the stream is closed", SOON, || {
        rig.status(&rig.host, &ready)["streams"]["open"] == 0
    });
    wait_until("the sender has left", SOON, || sessions() == ["udp"]);
}

#[test]
fn a_router_whose_udp_is_blocked_reaches_its_rib_over_tls() {
    let Some(rig) = Rig::new() else { return };
    let place = &rig.place;
    place.keygen("rib", "rib.key");
    place.keygen("router", "router.key");
    let address = "10.9.1.2:7461";
    let rib = ["rib", "--key", "rib.key", "--listen", address, "--tls-listen", address];
    let mut rib = place.start_in(rig.host.id(), &[&rib[..], &["--admin", ANY]].concat());
    let rib_ready = rib.next_object();
    let to_rib = remote(&rib_ready);
    let router = ["router", "--key", "router.key", "--rib", &to_rib, "--admin", ANY];
    let router = [&router[..], &["--listen", "10.9.2.2:0"]].concat();
    let mut router = place.start_in(rig.nodes.id(), &router);
    let ready = router.next_object();
    let to_router = remote(&ready);
    assert_eq!(transports(&rig.status(&rig.nodes, &ready), "rib"), ["tls"]);
    assert_eq!(transports(&rig.status(&rig.host, &rib_ready), "router"), ["tls"]);
    // A name is published and found by it.
    let mut other = place.start_in(rig.nodes.id(), &["receive", "--router", &to_router]);
    let name = other.next_object()["name"].as_str().unwrap().to_owned();
    let ping = ["--json", "ping", &name, "--router", &to_router];
    let ping = Run::of(place.command_in(rig.nodes.id(), &ping).output().unwrap());
    assert_eq!(ping.code, 0, "{}", ping.errors);
    let stored = || rig.status(&rig.host, &rib_ready)["counters"].to_string();
    assert!(stored().contains("stored"), "{}", stored());
    // The one that has pinged may still be there.
    let of_nodes = transports(&rig.status(&rig.nodes, &ready), "node");
    assert!(!of_nodes.is_empty() && of_nodes.iter().all(|it| it == "udp"), "{of_nodes:?}");
}

//! Real processes over links that take less than Ethernet's 1500 bytes, and where nobody says so:
//! the routers of the system in between neither tell what is too big nor let fragments through.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Run, Running, remote};
use crate::namespaces::Namespace;

/// A router of ours and its RIB on one host, nodes on
/// another, and two routers of the system between them.
struct Rig {
    host: Namespace,
    /// The system's routers, with a link of their own: `far` is its device at both.
    between: [Namespace; 2],
    nodes: Namespace,
    place: Place,
}

impl Rig {
    /// With a middle link that takes so many bytes, and the others 1500.
    fn new(mtu: u32) -> Option<Self> {
        let between = [Namespace::new()?, Namespace::new()?];
        let rig = Self {
            host: Namespace::new()?,
            between,
            nodes: Namespace::new()?,
            place: Place::new(),
        };
        let [first, second] = &rig.between;
        rig.host.wire("eth", first, "near");
        first.wire("far", second, "far");
        second.wire("near", &rig.nodes, "eth");
        if !can_filter(first) {
            println!("skipped: what is too big is filtered by nftables, which is not to be had");
            return None;
        }
        for (namespace, device, number) in [
            (first, "near", "1.1"),
            (first, "far", "2.1"),
            (second, "far", "2.2"),
            (second, "near", "3.1"),
        ] {
            give(namespace, device, number);
        }
        give(&rig.host, "eth", "1.2");
        give(&rig.nodes, "eth", "3.2");
        way(&rig.host, "default", "1.1");
        way(&rig.nodes, "default", "3.1");
        way(first, "3", "2.2");
        way(second, "1", "2.1");
        rig.set_mtu(mtu);
        for namespace in &rig.between {
            namespace.run("echo 1 > /proc/sys/net/ipv4/ip_forward");
            namespace.run("echo 1 > /proc/sys/net/ipv6/conf/all/forwarding");
            namespace.run(&format!("nft '{FILTER}'"));
        }
        Some(rig)
    }

    /// So many of them; they know nothing of each other.
    fn several(count: usize, mtu: u32) -> Option<Vec<Self>> {
        (0..count).map(|_| Self::new(mtu)).collect()
    }

    /// The middle link takes so many bytes from now on.
    fn set_mtu(&self, mtu: u32) {
        for namespace in &self.between {
            namespace.run(&format!("ip link set far mtu {mtu}"));
        }
    }

    /// Starts a RIB and a router on the host: they, and how to reach the router.
    fn start_router(&self, listen: &str, more: &[&str]) -> (Running, Running, Value) {
        for (role, key) in [("rib", "rib.key"), ("router", "router.key")] {
            if !self.place.path(key).exists() {
                self.place.keygen(role, key);
            }
        }
        let host = self.host.id();
        let rib = ["rib", "--listen", listen, "--key", "rib.key"];
        let mut rib = self.place.start_in(host, &rib);
        let to_rib = remote(&rib.next_object());
        let router = ["router", "--listen", listen, "--key", "router.key", "--rib", &to_rib];
        let router = [&router[..], &["--admin", "127.0.0.1:0"], more].concat();
        let mut router = self.place.start_in(host, &router);
        let ready = router.next_object();
        (rib, router, ready)
    }

    fn status(&self, ready: &Value) -> Value {
        let arguments = ["--json", "status", "--admin", ready["admin"].as_str().unwrap()];
        Run::of(self.place.command_in(self.host.id(), &arguments).output().unwrap()).object()
    }
}

/// Filters all that would tell a sender that its packets are too big, and what was cut instead.
const FILTER: &str = "table inet quiet {
    chain early {
        type filter hook prerouting priority -500;
        ip frag-off & 0x3fff != 0 drop
        exthdr frag exists drop
    }
    chain out {
        type filter hook output priority 0;
        icmp type destination-unreachable drop
        icmpv6 type packet-too-big drop
    }
}";

fn can_filter(namespace: &Namespace) -> bool {
    let tried = namespace.enter("nft").arg(FILTER).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if can {
        namespace.run("nft flush ruleset");
    }
    can
}

/// Gives a device the addresses of one number, of both families.
fn give(namespace: &Namespace, device: &str, number: &str) {
    let (link, host) = number.split_once('.').unwrap();
    namespace.run(&format!("ip address add 10.9.{link}.{host}/24 dev {device}"));
    namespace.run(&format!("ip address add 2001:db8:{link}::{host}/64 dev {device}"));
}

/// The way to a link, or to everywhere, is by the host of a number.
fn way(namespace: &Namespace, to: &str, by: &str) {
    let (link, host) = by.split_once('.').unwrap();
    let (v4, v6) = match to {
        "default" => (to.to_owned(), to.to_owned()),
        to => (format!("10.9.{to}.0/24"), format!("2001:db8:{to}::/64")),
    };
    namespace.run(&format!("ip route add {v4} via 10.9.{link}.{host}"));
    namespace.run(&format!("ip -6 route add {v6} via 2001:db8:{link}::{host}"));
}

/// A file of so many bytes, no two blocks of which are alike.
fn write_file(place: &Place, name: &str, bytes: usize) {
    let content: Vec<u8> = (0..bytes as u64 / 8)
        .flat_map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes())
        .collect();
    std::fs::write(place.path(name), content).unwrap();
}

/// A file on its way from one host to another.
struct Transfer {
    sender: Running,
    receiver: Running,
}

impl Transfer {
    fn begin(rig: &Rig, from: &Namespace, to: &Namespace, more: &[&str], inbox: &str) -> Self {
        let place = &rig.place;
        std::fs::create_dir(place.path(inbox)).unwrap();
        let receive = [&["receive", "--dir", inbox][..], more].concat();
        let mut receiver = place.start_in(to.id(), &receive);
        let name = receiver.next_object()["name"].as_str().unwrap().to_owned();
        let send = [&["send", "large", "--to", &name][..], more].concat();
        Self { sender: place.start_in(from.id(), &send), receiver }
    }

    /// Waits until it is there, whole. Two times the patience of one look, for a
    /// machine that is busy with everything else.
    fn end(mut self) {
        let received = self.receiver.next_object_within(Duration::from_secs(60));
        assert_eq!(received["sha256"], self.sender.next_object()["sha256"]);
    }
}

/// The sizes of the router's datagrams to nodes, of those that are there.
fn sizes(status: &Value) -> Vec<u64> {
    let sessions = status["sessions"].as_array().unwrap().iter();
    sessions
        .filter(|session| session["role"] == "node")
        .map(|session| session["largest_datagram"].as_u64().unwrap())
        .collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_path_of_1400_bytes_that_tells_nobody_carries_a_file_both_ways() {
    // 1400 less the headers of IP and UDP. Both mostly wait, so they do it at the same time.
    let families = [("10.9.1.2:0", 1372), ("[2001:db8:1::2]:0", 1352)];
    let Some(rigs) = Rig::several(families.len(), 1400) else { return };
    std::thread::scope(|scope| {
        for (rig, (listen, size)) in rigs.iter().zip(families) {
            scope.spawn(move || carry_both_ways(rig, listen, size));
        }
    });
}

fn carry_both_ways(rig: &Rig, listen: &str, size: u64) {
    write_file(&rig.place, "large", 4_000_000);
    let (_rib, _router, ready) = rig.start_router(listen, &[]);
    let more = ["--router", &remote(&ready)];
    Transfer::begin(rig, &rig.nodes, &rig.host, &more, "up").end();
    Transfer::begin(rig, &rig.host, &rig.nodes, &more, "down").end();
    let receive = [&["receive", "--dir", "."][..], &more].concat();
    let mut idle = rig.place.start_in(rig.nodes.id(), &receive);
    idle.next_object();
    wait_until("the size is found", || sizes(&rig.status(&ready)).contains(&size));
}

#[test]
fn a_path_that_shrinks_in_the_middle_of_a_file_carries_the_rest() {
    let cases = [("up", 1300), ("down", 1300), ("up", 1280), ("down", 1280)];
    let Some(rigs) = Rig::several(cases.len(), 1500) else { return };
    let slow = "tc qdisc add dev far root tbf rate 60mbit burst 64k latency 30ms";
    for namespace in rigs.iter().flat_map(|rig| &rig.between) {
        let limited = namespace.enter("sh").args(["-c", slow]).output();
        if !limited.is_ok_and(|output| output.status.success()) {
            println!(
                "skipped: the transfer needs a slow link, and so tc and its token bucket filter"
            );
            return;
        }
    }
    // All at the same time: each mostly waits for somebody to find that the path is narrow.
    std::thread::scope(|scope| {
        for (rig, (way, mtu)) in rigs.iter().zip(cases) {
            scope.spawn(move || shrink_in_the_middle(rig, way, mtu));
        }
    });
}

fn shrink_in_the_middle(rig: &Rig, way: &str, mtu: u32) {
    write_file(&rig.place, "large", 30_000_000);
    let (_rib, _router, ready) = rig.start_router("10.9.1.2:0", &[]);
    let counter = |name: &str| rig.status(&ready)["counters"][name].as_u64().unwrap();
    let (from, to) = if way == "up" { (&rig.nodes, &rig.host) } else { (&rig.host, &rig.nodes) };
    let more = ["--router", &remote(&ready)];
    let transfer = Transfer::begin(rig, from, to, &more, "inbox");
    wait_until("the file is under way", || counter("forwarded_pdus") > 3000);
    wait_until("both have the largest size", || sizes(&rig.status(&ready)) == [1452, 1452]);
    rig.set_mtu(mtu);
    transfer.end();
    wait_until(&format!("{way}: the path is narrow"), || counter("paths_narrowed") >= 1);
}

#[test]
fn an_mtu_of_9000_is_used_up_to_the_configured_bound() {
    let Some(rig) = Rig::new(9000) else { return };
    for (namespace, device) in [
        (&rig.host, "eth"),
        (&rig.between[0], "near"),
        (&rig.between[1], "near"),
        (&rig.nodes, "eth"),
    ] {
        namespace.run(&format!("ip link set {device} mtu 9000"));
    }
    write_file(&rig.place, "large", 8_000_000);
    let (_rib, _router, ready) = rig.start_router("10.9.1.2:0", &["--max-datagram", "8952"]);
    let more = ["--router", &remote(&ready), "--max-datagram", "8900"];
    Transfer::begin(&rig, &rig.nodes, &rig.host, &more, "wide").end();
    let status = rig.status(&ready);
    let counter = |name: &str| status["counters"][name].as_u64().unwrap();
    let mean = counter("forwarded_bytes") / counter("forwarded_pdus");
    assert!(mean > 4000, "{mean} bytes a datagram");
    let receive = [&["receive", "--dir", "."][..], &more].concat();
    let mut idle = rig.place.start_in(rig.nodes.id(), &receive);
    idle.next_object();
    wait_until("the lesser bound counts", || sizes(&rig.status(&ready)).contains(&8900));
}

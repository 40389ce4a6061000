//! Routers are found by real processes on networks of their own: over IPv6
//! multicast, over IPv4 broadcast, and, where the local network has none, at the
//! address of a root router beyond a routed hop.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use rhumb_wire::discovery::{Discovery, Nonce};
use serde_json::Value;

use crate::harness::{Place, Run, Running, remote};
use crate::namespaces::Namespace;

/// A RIB and a router on one host.
pub(crate) struct Site {
    _rib: Running,
    _router: Running,
    router_ready: Value,
}

impl Site {
    pub(crate) fn start(place: &Place, host: &Namespace, listen: &str, more: &[&str]) -> Self {
        let id = host.id();
        place.keygen("rib", "rib.key");
        place.keygen("router", "router.key");
        let mut rib = place.start_in(id, &["rib", "--listen", "127.0.0.1:0", "--key", "rib.key"]);
        let to_rib = remote(&rib.next_object());
        let mut arguments = vec!["router", "--listen", listen, "--key", "router.key"];
        arguments.extend(["--rib", &to_rib, "--admin", "127.0.0.1:0"]);
        arguments.extend(more);
        let mut router = place.start_in(id, &arguments);
        let router_ready = router.next_object();
        Self { _rib: rib, _router: router, router_ready }
    }

    fn discovery(&self, place: &Place, host: &Namespace) -> Value {
        let admin = self.router_ready["admin"].as_str().unwrap();
        let status = run_in(place, host, &["--json", "status", "--admin", admin]);
        status.object()["discovery"].take()
    }
}

fn run_in(place: &Place, host: &Namespace, arguments: &[&str]) -> Run {
    Run::of(place.command_in(host.id(), arguments).output().unwrap())
}

/// One node receives, another one pings it; neither was told of
/// a router. Returns the receiver's first word.
#[track_caller]
fn two_nodes_meet(place: &Place, [a, b]: [&Namespace; 2], more: &[&str]) -> Value {
    let mut receiver = place.start_in(b.id(), &[&["receive"], more].concat());
    let ready = receiver.next_object();
    let name = ready["name"].as_str().unwrap();
    let ping = run_in(place, a, &[&["--json", "ping", name, "--count", "3"], more].concat());
    assert_eq!(ping.code, 0, "{}", ping.errors);
    assert_eq!(ping.object()["answered"], 3);
    ready
}

fn namespaces() -> Option<[Namespace; 4]> {
    Some([Namespace::new()?, Namespace::new()?, Namespace::new()?, Namespace::new()?])
}

#[test]
fn over_ipv6_link_local_multicast() {
    let Some([switch, host, a, b]) = namespaces() else { return };
    switch.bridge(&[&host, &a, &b]);
    let place = Place::new();
    let site = Site::start(&place, &host, "[::]:0", &[]);
    let ready = two_nodes_meet(&place, [&a, &b], &[]);
    assert_eq!(ready["router"], site.router_ready["name"]);
    let discovery = site.discovery(&place, &host);
    assert!(discovery["answered_queries"].as_u64() >= Some(2), "{discovery}");
    assert_eq!(discovery["dropped_queries"]["unsent"], 0, "{discovery}");

    // A network that comes up later is served soon.
    let late = Namespace::new().unwrap();
    late.wire("eth", &host, "late");
    let name = place.keygen("node", "c.key");
    let begin = Instant::now();
    loop {
        let run = run_in(&place, &late, &["ping", &name]);
        match run.code {
            1 => break, // It has joined, and nobody has that name.
            _ => assert!(begin.elapsed() < Duration::from_secs(20), "{}", run.errors),
        }
    }
}

#[test]
fn over_ipv4_broadcast() {
    let Some([switch, host, a, b]) = namespaces() else { return };
    switch.bridge(&[&host, &a, &b]);
    for (index, host) in [&host, &a, &b].into_iter().enumerate() {
        host.run(&format!(
            "echo 1 > /proc/sys/net/ipv6/conf/eth/disable_ipv6; ip address add 10.9.0.{}/24 dev eth",
            index + 1
        ));
    }
    let place = Place::new();
    let site = Site::start(&place, &host, "0.0.0.0:0", &["--discovery", "on"]);
    let ready = two_nodes_meet(&place, [&a, &b], &[]);
    assert_eq!(ready["router"], site.router_ready["name"]);
    assert!(site.discovery(&place, &host)["answered_queries"].as_u64() >= Some(2));

    // The name of the router may be demanded; another one is not joined.
    let router = site.router_ready["name"].as_str().unwrap();
    two_nodes_meet(&place, [&a, &b], &["--only", router]);
    let other = place.keygen("node", "c.key");
    run_in(&place, &a, &["ping", &other, "--only", &other]).is_refused_with(&[
        "no router answers on the local network",
        "expected",
        router,
    ]);
}

#[test]
fn when_its_router_stops_a_node_moves_to_another() {
    let Some([switch, first, second, nodes]) = namespaces() else { return };
    switch.bridge(&[&first, &second, &nodes]);
    first.run("ip address add 10.9.0.1/24 dev eth");
    second.run("ip address add 10.9.0.2/24 dev eth");
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let mut rib =
        place.start_in(first.id(), &["rib", "--listen", "10.9.0.1:0", "--key", "rib.key"]);
    let to_rib = remote(&rib.next_object());
    let router = |host: &Namespace, key: &str| {
        place.keygen("router", key);
        let mut router = place
            .start_in(host.id(), &["router", "--listen", "[::]:0", "--key", key, "--rib", &to_rib]);
        let name = router.next_object()["name"].clone();
        (router, name)
    };
    let mut routers = vec![router(&first, "first.key"), router(&second, "second.key")];

    let mut receiver = place.start_in(nodes.id(), &["receive"]);
    let ready = receiver.next_object();
    let joined = routers.iter().position(|(_, name)| *name == ready["router"]).unwrap();
    let (stopped, _) = routers.swap_remove(joined);
    assert_eq!(stopped.signal("TERM"), 0);

    let name = ready["name"].as_str().unwrap();
    let begin = Instant::now();
    loop {
        let run = run_in(&place, &nodes, &["--json", "trace", name]);
        if run.code == 0 {
            assert_eq!(run.object()["hops"][0]["name"], routers[0].1);
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{}", run.errors);
    }
}

#[test]
fn several_routers_on_one_host_are_found_each() {
    let Some([switch, host, a, _]) = namespaces() else { return };
    switch.bridge(&[&host, &a]);
    let place = Place::new();
    let site = Site::start(&place, &host, "[::]:0", &[]);
    let to_rib = {
        let status = site.router_ready["admin"].as_str().unwrap();
        let status = run_in(&place, &host, &["--json", "status", "--admin", status]).object();
        let rib = &status["ribs"][0];
        format!("{}@{}", rib["name"].as_str().unwrap(), rib["address"].as_str().unwrap())
    };
    place.keygen("router", "second.key");
    let second = ["router", "--listen", "[::]:0", "--key", "second.key", "--rib", &to_rib];
    let mut second = place.start_in(host.id(), &second);
    let names = [site.router_ready["name"].clone(), second.next_object()["name"].clone()];
    for name in names {
        let mut node = place.start_in(a.id(), &["receive", "--only", name.as_str().unwrap()]);
        assert_eq!(node.next_object()["router"], name);
    }
}

#[test]
fn a_root_router_beyond_a_routed_hop() {
    if let Ok(to) = std::env::var(QUERY_TO) {
        return ask(&to);
    }
    let Some([gateway, far, a, b]) = namespaces() else { return };
    let lan = Namespace::new().unwrap();
    lan.bridge(&[&a, &b]);
    gateway.wire("lan", &lan, "uplink");
    lan.run("ip link set uplink master bridge");
    gateway.wire("wan", &far, "eth");
    gateway.run("ip address add 10.1.0.1/24 dev lan; ip address add 10.2.0.1/24 dev wan");
    gateway.run("echo 1 > /proc/sys/net/ipv4/ip_forward");
    for (index, host) in [&a, &b].into_iter().enumerate() {
        host.run(&format!("ip address add 10.1.0.{}/24 dev eth", index + 2));
        host.run("ip route add default via 10.1.0.1");
    }
    far.run("ip address add 10.2.0.2/24 dev eth; ip route add default via 10.2.0.1");
    let place = Place::new();
    let site = Site::start(&place, &far, "0.0.0.0:7460", &["--locator", "10.2.0.2:7460"]);
    let root = remote(&site.router_ready);
    assert!(root.ends_with("@10.2.0.2:7460"), "{root}");
    let ready = two_nodes_meet(&place, [&a, &b], &["--root", &root]);
    assert_eq!(ready["router"], site.router_ready["name"]);

    let name = place.keygen("node", "c.key");
    run_in(&place, &a, &["ping", &name])
        .is_refused_with(&["no router answers on the local network", "root routers"]);
    run_in(&place, &a, &["ping", &name, "--root", "10.2.0.2:9"])
        .is_refused_with(&["no router answers", "nor at 10.2.0.2:9; check"]);

    // Nobody's query crossed the hop; one that is sent there on purpose gets no answer.
    let untouched = site.discovery(&place, &far);
    assert_eq!(untouched["answered_queries"], 0, "{untouched}");
    ask_from(&a, "10.2.0.2:7462");
    let begin = Instant::now();
    loop {
        let discovery = site.discovery(&place, &far);
        assert_eq!(discovery["answered_queries"], 0, "{discovery}");
        if discovery["dropped_queries"]["off_link"].as_u64() >= Some(1) {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "{discovery}");
    }
}

/// Sends a query to one address from inside of the namespace, and gets no answer.
#[track_caller]
fn ask_from(host: &Namespace, to: &str) {
    let mut command = host.enter(std::env::current_exe().unwrap());
    command.args(["--exact", ROOT_TEST, "--nocapture"]);
    let output = command.env(QUERY_TO, to).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// What a process of [`ask_from`] does.
fn ask(to: &str) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut query = Vec::new();
    Discovery::Query(Nonce([5; 8])).emit(&mut query);
    socket.send_to(&query, to).unwrap();
    assert!(socket.recv(&mut [0; 64]).is_err(), "it was answered");
}

const ROOT_TEST: &str = "discovery::a_root_router_beyond_a_routed_hop";
/// Where to send a query, in a process of [`ask_from`].
const QUERY_TO: &str = "RHUMB_TEST_QUERY_TO";

#[test]
fn a_discovery_port_that_cannot_be_shared_is_told() {
    let Some(host) = Namespace::new() else { return };
    let place = Place::new();
    place.keygen("rib", "rib.key");
    place.keygen("router", "router.key");
    let rib = ["rib", "--listen", "0.0.0.0:7462", "--key", "rib.key"];
    let mut rib = place.start_in(host.id(), &rib);
    let to_rib = remote(&rib.next_object()).replace("0.0.0.0", "127.0.0.1");
    let router = ["router", "--listen", "0.0.0.0:0", "--key", "router.key", "--rib", &to_rib];
    run_in(&place, &host, &[&router[..], &["--discovery", "on"]].concat())
        .is_refused_with(&["7462", "in use"]);
    // Unless it was asked for, the router does without.
    let router = [&router[..], &["--admin", "127.0.0.1:0"]].concat();
    let ready = place.start_in(host.id(), &router).next_object();
    assert_eq!(ready["ready"], true);
}

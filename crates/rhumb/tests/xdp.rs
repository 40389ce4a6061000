//! A router on AF_XDP between two nodes on a network of their own, or on one each, run
//! as its users run it; and one that has to do without.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Run, Running, remote};
use crate::namespaces::Namespace;

/// A switch, the router's host and those of two nodes.
struct Net {
    _switch: Namespace,
    host: Namespace,
    nodes: [Namespace; 2],
    place: Place,
}

impl Net {
    fn new() -> Option<Self> {
        let switch = Namespace::new()?;
        let [host, a, b] = [Namespace::new()?, Namespace::new()?, Namespace::new()?];
        switch.bridge(&[&host, &a, &b]);
        for (index, host) in [&host, &a, &b].into_iter().enumerate() {
            let number = index + 1;
            host.run(&format!(
                "ip address add 10.9.0.{number}/24 dev eth; ip address add 2001:db8::{number}/64 dev eth nodad"
            ));
        }
        Some(Self { _switch: switch, host, nodes: [a, b], place: Place::new() })
    }

    /// The router's host with a wire to each of two nodes.
    fn in_a_line() -> Option<Self> {
        let [switch, host, a, b] =
            [Namespace::new()?, Namespace::new()?, Namespace::new()?, Namespace::new()?];
        for (network, (device, node)) in [("left", &a), ("right", &b)].into_iter().enumerate() {
            host.wire(device, node, "eth");
            host.run(&format!("ip address add 10.9.{network}.1/24 dev {device}"));
            node.run(&format!("ip address add 10.9.{network}.2/24 dev eth"));
        }
        Some(Self { _switch: switch, host, nodes: [a, b], place: Place::new() })
    }

    fn run_in(&self, host: &Namespace, arguments: &[&str]) -> Run {
        Run::of(self.place.command_in(host.id(), arguments).output().unwrap())
    }

    /// A RIB and a router on the host. Returns both, and what the router said.
    fn start(&self, more: &[&str]) -> (Running, Running, Value) {
        self.place.keygen("rib", "rib.key");
        self.place.keygen("router", "router.key");
        let (place, id) = (&self.place, self.host.id());
        let mut rib = place.start_in(id, &["rib", "--listen", "127.0.0.1:0", "--key", "rib.key"]);
        let to_rib = remote(&rib.next_object());
        let mut arguments = vec!["router", "--listen", "[::]:7460", "--key", "router.key"];
        arguments.extend([
            "--rib",
            &to_rib,
            "--admin",
            "127.0.0.1:0",
            "--locator",
            "10.9.0.1:7460",
        ]);
        arguments.extend(more);
        let mut router = place.start_in(id, &arguments);
        let ready = router.next_object();
        (rib, router, ready)
    }

    fn status(&self, ready: &Value) -> Value {
        let admin = ready["admin"].as_str().unwrap();
        self.run_in(&self.host, &["--json", "status", "--admin", admin]).object()
    }

    /// Pings and a file from one node to the other, each with an address of the router of its own.
    fn exchange(&self, routers: [&str; 2]) {
        let [a, b] = &self.nodes;
        self.exchange_between([a, b], routers);
    }

    fn exchange_between(&self, [a, b]: [&Namespace; 2], routers: [&str; 2]) {
        let mut receiver = self.place.start_in(b.id(), &["receive", "--router", routers[1]]);
        let name = receiver.next_object()["name"].as_str().unwrap().to_owned();
        let ping =
            self.run_in(a, &["--json", "ping", &name, "--count", "3", "--router", routers[0]]);
        assert_eq!(ping.code, 0, "{}", ping.errors);
        assert_eq!(ping.object()["answered"], 3);
        std::fs::create_dir_all(self.place.path("out")).unwrap();
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| ((at * 7) >> 3) as u8).collect();
        std::fs::write(self.place.path("out/file"), &bytes).unwrap();
        let sent = self.run_in(a, &["send", "out/file", "--to", &name, "--router", routers[0]]);
        assert_eq!(sent.code, 0, "{}", sent.errors);
        let received = receiver.next_object();
        let path = self.place.path(received["received"].as_str().unwrap());
        assert!(std::fs::read(path).unwrap() == bytes);
    }

    fn has_program(&self) -> bool {
        let mut probe = self.host.enter("ip");
        let probe = probe.args(["link", "show", "dev", "eth"]).output().unwrap();
        String::from_utf8_lossy(&probe.stdout).contains("xdp")
    }
}

#[test]
fn two_nodes_meet_through_a_router_on_af_xdp() {
    let Some(net) = Net::new() else { return };
    let (_rib, router, ready) = net.start(&["--io", "xdp", "--interface", "eth"]);
    assert!(net.has_program());
    let name = ready["name"].as_str().unwrap();
    let [v4, v6] = ["10.9.0.1:7460", "[2001:db8::1]:7460"].map(|at| format!("{name}@{at}"));
    net.exchange([&v4, &v6]);
    // Discovery is the kernel's, on another port of the same interface.
    let found = net.run_in(&net.nodes[0], &["ping", name]);
    assert_eq!(found.code, 0, "{}", found.errors);

    let status = net.status(&ready);
    assert_eq!(status["io"]["backend"], "xdp_copy", "{status}");
    assert_eq!(
        status["io"]["interfaces"],
        serde_json::json!([{"name": "eth", "queues": 1}]),
        "{status}"
    );
    let io = &status["io"];
    let by_rings = ["received", "sent"].map(|way| io[format!("xdp_{way}_datagrams")].as_u64());
    // A file of a million bytes takes several hundred datagrams each way.
    assert!(by_rings.iter().all(|count| *count > Some(500)), "{io}");
    router.kill();
    let begin = Instant::now();
    while net.has_program() {
        assert!(begin.elapsed() < Duration::from_secs(5), "the program is still there");
    }
}

#[test]
fn two_workers_carry_from_one_interface_to_the_other() {
    let Some(net) = Net::in_a_line() else { return };
    let (_rib, router, ready) = net.start(&["--io", "xdp", "--workers", "2"]);
    let name = ready["name"].as_str().unwrap();
    let [left, right] =
        ["10.9.0.1:7460", "10.9.1.1:7460"].map(|address| format!("{name}@{address}"));
    let said = [
        "left by AF_XDP (copy, 1 queue)",
        "right by AF_XDP (copy, 1 queue)",
        "left cuts runs",
        "right cuts runs",
    ];
    assert_eq!(ready["io"], serde_json::json!(said));
    let begin = Instant::now();
    // A node's name says which lane it sends on, and with it the worker. Each time they are others.
    loop {
        net.exchange([&left, &right]);
        let by_worker: Vec<u64> = net.status(&ready)["workers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["forwarded_pdus"].as_u64().unwrap())
            .collect();
        if by_worker.len() == 2 && by_worker[1] > 100 {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "{by_worker:?}");
    }
    let status = net.status(&ready);
    let io = &status["io"];
    let interface = |name: &str| serde_json::json!({ "name": name, "queues": 1 });
    assert_eq!(io["backend"], "xdp_copy", "{io}");
    assert_eq!(io["interfaces"], serde_json::json!([interface("left"), interface("right")]));
    let by_rings = ["received", "sent"].map(|way| io[format!("xdp_{way}_datagrams")].as_u64());
    assert!(by_rings.iter().all(|count| *count > Some(500)), "{io}");
    assert_eq!(io["devices"][0]["name"], "left", "{io}");

    // One of them goes: the other is as it was.
    net.host.run("ip link delete left");
    let begin = Instant::now();
    while net.status(&ready)["io"]["interfaces"] != serde_json::json!([interface("right")]) {
        assert!(begin.elapsed() < Duration::from_secs(10), "it was not noticed");
    }
    let there = &net.nodes[1];
    net.exchange_between([there, there], [&right, &right]);
    let (code, errors) = router.end();
    assert_eq!(code, 0, "{errors}");
    let gone = "an interface of AF_XDP is gone, going on with sockets interface=\"left\"";
    assert!(errors.contains(gone), "{errors}");
}

#[test]
fn a_router_that_cannot_have_af_xdp_says_why_and_goes_on() {
    let Some(net) = Net::new() else { return };
    let (_rib, router, ready) = net.start(&["--io", "xdp", "--interface", "lo"]);
    let at = remote(&ready);
    net.exchange([&at, &at]);
    assert_eq!(net.status(&ready)["io"]["backend"], "socket");
    let (code, errors) = router.end();
    assert_eq!(code, 0, "{errors}");
    let why = "no AF_XDP, going on with sockets: AF_XDP needs an Ethernet interface, and lo is none interface=\"lo\"";
    assert_eq!(ready["io"], serde_json::json!(["lo by sockets", "eth cuts runs"]));
    assert!(errors.contains(why), "{errors}");
}

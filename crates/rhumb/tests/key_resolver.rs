//! A recursive resolver that everybody uses, unbound, between principals and a key server, with the
//! zone delegated to it in its parent, in a network namespace, where both have the port of DNS.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Place, Run};
use crate::keyzone::{KeyZone, Server, WAYPOINTS, dig, has, key_name};
use crate::namespaces::Namespace;

/// unbound in a namespace, with the parent zone in it. Ended when dropped.
struct Unbound {
    child: Child,
}

impl Unbound {
    fn start(place: &Place, host: &Namespace) -> Self {
        place.write("example.net.zone", PARENT);
        let folder = place.folder().display();
        place.write(
            "unbound.conf",
            &format!(
                "server:\n  interface: 127.0.0.1\n  do-daemonize: no\n  chroot: \"\"\n  username: \"\"\n  \
                 directory: \"{folder}\"\n  pidfile: \"\"\n  use-syslog: no\n  logfile: \"\"\n  \
                 module-config: \"iterator\"\n  do-not-query-localhost: no\n  use-caps-for-id: yes\n  \
                 qname-minimisation: yes\n  access-control: 127.0.0.0/8 allow\nremote-control:\n  \
                 control-enable: no\nauth-zone:\n  name: \"example.net\"\n  zonefile: \
                 \"{folder}/example.net.zone\"\n  for-upstream: yes\n  for-downstream: no\n"
            ),
        );
        let mut command = host.enter("unbound");
        command.args(["-d", "-c"]).arg(place.path("unbound.conf"));
        let log = std::fs::File::create(place.path("unbound.log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self { child: command.spawn().unwrap() }
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn dig_in(host: &Namespace, arguments: &[&str]) -> String {
    dig(host.enter("dig").arg("@127.0.0.1"), arguments)
}

#[test]
fn keys_come_through_a_resolver_that_knows_the_zone_by_its_delegation() {
    if !has("unbound", "unbound") || !has("dig", "bind9-dnsutils") {
        return;
    }
    let Some(host) = Namespace::new() else { return };
    let zone = KeyZone::new("127.0.0.53:53");
    let server = Server::of(zone.place.start_in(host.id(), &["keyserver"]));
    let _unbound = Unbound::start(&zone.place, &host);
    let start = Instant::now();
    let is_up = || {
        let mut command = host.enter("dig");
        command.args(["@127.0.0.1", "+time=1", "+tries=1", "example.net", "SOA"]);
        command.output().unwrap().status.success()
    };
    while !is_up() {
        assert!(start.elapsed() < Duration::from_secs(20), "unbound does not start");
    }

    let name = key_name(WAYPOINTS[0], 42);
    let first = dig_in(&host, &[&name, "TXT"]);
    assert!(first.contains("status: NOERROR") && first.contains("ANSWER: 1"), "{first}");
    // From its cache, now.
    let keys = || {
        let run = zone.place.command_in(host.id(), &["--json", "status", "--admin", &server.admin]);
        let run = Run::of({ run }.output().unwrap());
        run.object()["counters"]["keys"].as_u64().unwrap()
    };
    let asked = keys();
    assert!(dig_in(&host, &[&name, "TXT"]).contains("ANSWER: 1"));
    assert_eq!(keys(), asked);
    let absent = dig_in(&host, &[&key_name(WAYPOINTS[0], 43), "TXT"]);
    assert!(absent.contains("status: NXDOMAIN"), "{absent}");

    // The principal's own program, by the resolver.
    let delegate = |id: &str, more: &[&str]| {
        let own = [
            "--json",
            "capability",
            "delegate",
            "--from",
            "42.principal",
            "--prefix",
            "203.0.113.0/24",
            "--waypoint",
            WAYPOINTS[0],
            "--resolver",
            "127.0.0.1",
            "--id",
            id,
        ];
        Run::of(zone.place.command_in(host.id(), &[&own, more].concat()).output().unwrap())
    };
    let run = delegate("1", &[]);
    assert_eq!(run.code, 0, "{}", run.errors);
    let window = run.object()["window"].as_u64().unwrap();
    let run = delegate("2", &["--next"]);
    assert_eq!(run.code, 0, "{}", run.errors);
    assert_eq!(run.object()["window"].as_u64().unwrap(), window + 1);

    // What a cache has outlives the server, until its
    // time is over; what it has not is gone with it.
    let listed: u64 = dig_in(&host, &["+noall", "+answer", &name, "TXT"])
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    assert!(listed > 0);
    server.running.kill();
    assert!(dig_in(&host, &[&name, "TXT"]).contains("ANSWER: 1"));
    let run = delegate("3", &[]);
    assert_eq!(run.code, 0, "{}", run.errors);
}

/// The parent, as its operator writes it: the delegation
/// and the address of the name server below it.
const PARENT: &str = "\
$ORIGIN example.net.
$TTL 300
@      IN SOA ns.example.net. hostmaster.example.net. 1 3600 600 86400 60
@      IN NS  ns.example.net.
ns     IN A   127.0.0.1
_k     IN NS  ns._k.example.net.
ns._k  IN A   127.0.0.53
";

//! `rhumb stamp --udp`: a waypoint behind an address translator, and a stamper
//! behind one, where nothing but UDP to one port gets through. The router in the
//! middle is the translator, and r2 the only waypoint.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use stamping::{Rig, Started, wait_until};

use crate::harness;
use crate::stamping;
use crate::wire::Line;

/// A family of addresses: the target, the waypoint and its key, where
/// the translator has it, and what b answers to.
struct Family {
    target: &'static str,
    target_port: &'static str,
    key: &'static str,
    carried: String,
    nft: &'static str,
}

fn families() -> [Family; 2] {
    [
        Family {
            target: Line::B,
            target_port: "10.8.2.2:7777",
            key: "w2",
            carried: format!("{}={}:4500", Line::R2, Line::R1),
            nft: "ip",
        },
        Family {
            target: Line::B6,
            target_port: "[2001:db8:8:2::2]:7777",
            key: "w2v6",
            carried: format!("{}=[{}]:4500", Line::R2_6, Line::R1_6),
            nft: "ip6",
        },
    ]
}

/// Makes r1 a translator: it has r2's waypoint at its own port 4500, and hides where packets to it
/// come from. All that a sends otherwise stays there.
fn translate(rig: &Rig) {
    for (family, from, to) in
        [("ip", "ip saddr", Line::R2.to_owned()), ("ip6", "ip6 saddr", format!("[{}]", Line::R2_6))]
    {
        rig.line.r1.run(&format!(
            "nft add table {family} nat; \
             nft add chain {family} nat in '{{ type nat hook prerouting priority dstnat; }}'; \
             nft add chain {family} nat out '{{ type nat hook postrouting priority srcnat; }}'; \
             nft add rule {family} nat in iifname left udp dport 4500 dnat to {to}:7470; \
             nft add rule {family} nat out oifname right udp dport 7470 masquerade to :20000-20099 random"
        ));
        rig.line.r2.run(&format!(
            "nft add table {family} seen; \
             nft add chain {family} seen input '{{ type filter hook input priority 0; }}'; \
             nft add rule {family} seen input {from} {} udp sport 20000-20099 udp dport 7470 counter accept; \
             nft add rule {family} seen input meta l4proto 253 counter",
            if family == "ip" { "10.8.1.1" } else { "2001:db8:8:1::1" }
        ));
    }
    rig.line.r1.run(
        "nft flush chain inet plain forward; \
         nft add rule inet plain forward iifname left meta l4proto udp udp dport 7470 accept; \
         nft add rule inet plain forward iifname left oifname right counter drop",
    );
}

/// Packets that r2 got through the translator, and packets of protocol 253.
fn seen(rig: &Rig, family: &str) -> (u64, u64) {
    let table = rig.line.r2.run(&format!("nft list table {family} seen"));
    let counts = table.lines().filter_map(|line| {
        line.split_once("packets ")?.1.split_whitespace().next()?.parse::<u64>().ok()
    });
    let counts: Vec<u64> = counts.collect();
    (counts[0], counts[1])
}

#[test]
fn programs_get_through_translators_of_both_families() {
    let Some(rig) = Rig::new(0, &["iperf3"]) else { return };
    translate(&rig);
    for family in families() {
        let _server = Started::script(&rig.line.b, "iperf3 -s");
        wait_until("the server", || rig.line.b.run("ss -Hltn").contains(":5201"));
        let iperf3 = format!("timeout 40 iperf3 -J -c {} -n 4M", family.target);
        let keys = rig.keys(&[family.key]);
        let mut options: Vec<&str> = keys.iter().map(String::as_str).collect();
        options.extend(["--udp", &family.carried, "--", "sh", "-c", &iperf3]);
        let run = harness::Run::of(stamping::output_on(&rig.line.a, &mut rig.stamp(&options)));
        assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
        let received = run.object()["end"]["sum_received"]["bytes"].as_u64().unwrap();
        assert!(received > 1 << 20, "{received}");
        let (in_udp, as_ip) = seen(&rig, family.nft);
        assert!(in_udp > received / 1500, "{in_udp} packets");
        assert_eq!(as_ip, 0);
    }
}

#[test]
fn without_udp_nothing_gets_through_the_translator() {
    let Some(rig) = Rig::new(0, &["python3"]) else { return };
    translate(&rig);
    for family in families() {
        let target = rig.line.b.enter(|| UdpSocket::bind(family.target_port).unwrap());
        target.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (host, port) = family.target_port.rsplit_once(':').unwrap();
        let host = host.trim_matches(['[', ']']);
        let script = |text: &str| {
            let kind = if host.contains(':') { "socket.AF_INET6" } else { "socket.AF_INET" };
            format!(
                "python3 -c \"import socket; \
                 socket.socket({kind}, socket.SOCK_DGRAM).sendto(b'{text}', ('{host}', {port}))\"; sleep 0.1"
            )
        };
        let run = rig.run_stamped(&[family.key], &script("by IP"));
        assert_eq!(run.code, 0, "{}", run.errors);
        let keys = rig.keys(&[family.key]);
        let mut options: Vec<&str> = keys.iter().map(String::as_str).collect();
        let by_udp = script("in UDP");
        options.extend(["--udp", &family.carried, "--", "sh", "-c", &by_udp]);
        let run = harness::Run::of(stamping::output_on(&rig.line.a, &mut rig.stamp(&options)));
        assert_eq!(run.code, 0, "{}", run.errors);
        let mut buffer = [0; 100];
        let len = target.recv(&mut buffer).expect("a datagram");
        assert_eq!(&buffer[..len], b"in UDP", "the first one was stopped");
    }
}

#[test]
fn a_narrow_path_to_the_translator_is_learnt_from_icmp() {
    let Some(rig) = Rig::new(0, &["iperf3"]) else { return };
    translate(&rig);
    // What r1 passes on to r2 may have 1400 bytes: r1 says
    // so to a, of packets that it has translated.
    rig.line.r1.run("ip link set right mtu 1400");
    rig.line.r2.run("ip link set left mtu 1400");
    for family in families() {
        let _server = Started::script(&rig.line.b, "iperf3 -s");
        wait_until("the server", || rig.line.b.run("ss -Hltn").contains(":5201"));
        let admin = "127.0.0.1:7994";
        let iperf3 = format!("timeout 60 iperf3 -J -c {} -n 2M", family.target);
        let keys = rig.keys(&[family.key]);
        let mut options: Vec<&str> = keys.iter().map(String::as_str).collect();
        options.extend(["--admin", admin, "--udp", &family.carried, "--", "sh", "-c"]);
        // The device's MTU when all has got through.
        let script = format!(
            "{iperf3} > iperf.json && ip -o link show stamp0-0 && \"$RHUMB\" --json status --admin {admin}"
        );
        options.push(&script);
        let mut command = rig.stamp(&options);
        command.env("RHUMB", env!("CARGO_BIN_EXE_rhumb"));
        let run = harness::Run::of(stamping::output_on(&rig.line.a, &mut command));
        assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
        // 1400 less UDP and one capability, and less what IPv4 fragments would need.
        let expected = if family.nft == "ip" { 1400 - 8 - 44 - 20 } else { 1400 - 8 - 80 };
        let (device, status) = run.output.split_once('\n').unwrap();
        assert!(device.contains(&format!(" mtu {expected} ")), "{expected}: {device}");
        let status: serde_json::Value = serde_json::from_str(status).unwrap();
        let to: SocketAddr = family.carried.split_once('=').unwrap().1.parse().unwrap();
        assert_eq!(status["ways"][0]["udp"], to.to_string(), "{status:#}");
    }
}

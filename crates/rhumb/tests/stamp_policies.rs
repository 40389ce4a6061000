//! What `rhumb stamp` does with names, with capabilities that were delegated, and with a
//! configuration that changes while packets flow.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::process::Command;

use crate::harness::Run;
use crate::stamping::{Rig, Started, behind, output_on, wait_until};
use crate::wire::Line;

/// Answers whatever is asked at port 53 of b.
const NAME_SERVER: &str = "
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(('::', 53))
while True:
    data, peer = s.recvfrom(1000)
    s.sendto(b'answer to ' + data, peer)
";

/// Asks there, again and again for two seconds, and prints what came.
const ASKER: &str = "
import socket, sys, time
b = sys.argv[1]
s = socket.socket(socket.AF_INET6 if ':' in b else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.2)
end = time.monotonic() + 2
while time.monotonic() < end:
    try:
        s.sendto(b'question', (b, 53))
        print(s.recv(1000).decode())
        break
    except socket.timeout:
        pass
else:
    print('nothing')
";

#[test]
fn questions_to_name_servers_are_stamped_only_where_that_is_asked_for() {
    let Some(rig) = Rig::new(0, &["python3"]) else { return };
    rig.place.write("server.py", NAME_SERVER);
    rig.place.write("asker.py", ASKER);
    let server = rig.place.path("server.py").display().to_string();
    let _server = Started::script(&rig.line.b, &format!("python3 {server}"));
    wait_until("the server", || rig.line.b.run("ss -Hlun").contains(":53 "));
    for (address, keys) in [(Line::B, ["w1", "w2"]), (Line::B6, ["w1v6", "w2v6"])] {
        let keys = rig.keys(&keys);
        let ask = |more: &[&str]| {
            let mut options: Vec<&str> = keys.iter().map(String::as_str).collect();
            options.extend(more);
            options.extend(["--", "python3", "asker.py", address]);
            let run = Run::of(output_on(&rig.line.a, &mut rig.stamp(&options)));
            assert_eq!(run.code, 0, "{}", run.errors);
            run.output
        };
        let before = rig.passed();
        // The usual way, on which nothing gets through here.
        assert_eq!(ask(&[]), "nothing\n");
        assert_eq!(ask(&["--stamp-dns"]), "answer to question\n");
        rig.expect_passed(&before, 1);
    }
    let plain = rig.line.r1.run("nft list table inet plain");
    assert!(!plain.contains("packets 0 "), "those of before went the usual way: {plain}");
}

#[test]
fn a_delegate_of_a_delegate_goes_where_it_may_and_is_named_in_the_accounts() {
    let Some(rig) = Rig::new(0, &["python3"]) else { return };
    let delegate = |from: &str, prefix: &str, id: &str, out: &str| {
        let own = ["capability", "delegate", "--from", from, "--prefix", prefix];
        let run = rig.place.run(&[&own[..], &["--id", id, "--out", out]].concat());
        assert_eq!(run.code, 0, "{}", run.errors);
    };
    for (target, network, host, other, names) in [
        (Line::B, "10.8.0.0/16", "10.8.2.2/32", "10.8.2.9", ["w1", "w2"]),
        (Line::B6, "2001:db8:8::/48", "2001:db8:8:2::2/128", "2001:db8:8:2::9", ["w1v6", "w2v6"]),
    ] {
        let mut files = Vec::new();
        for name in names {
            let (first, second) = (format!("{name}-17.cap"), format!("{name}-17-18.cap"));
            delegate(&format!("{name}.cap"), network, "17", &first);
            delegate(&first, host, "18", &second);
            files.push(format!("{name}-17-18"));
        }
        let b = rig.line.b.enter(|| std::net::UdpSocket::bind((target, 7777)).unwrap());
        b.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        // One to where it may not go, one to where it may;
        // and the MTU that its longer header leaves.
        let script = format!(
            "python3 -c \"import socket; s = socket.socket(socket.{}, socket.SOCK_DGRAM); \
             s.sendto(b'elsewhere', ('{other}', 7777)); s.sendto(b'here', ('{target}', 7777))\"; \
             ip -o link show stamp0-0; sleep 0.2",
            if target.contains(':') { "AF_INET6" } else { "AF_INET" }
        );
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let admin = "127.0.0.1:7993";
        let keys = rig.keys(&files);
        let mut options: Vec<&str> = keys.iter().map(String::as_str).collect();
        let counts = format!("{script}; \"$RHUMB\" --json status --admin {admin}");
        options.extend(["--admin", admin, "--", "sh", "-c", &counts]);
        let mut command = rig.stamp(&options);
        command.env("RHUMB", env!("CARGO_BIN_EXE_rhumb"));
        let run = Run::of(output_on(&rig.line.a, &mut command));
        assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
        let (device, status) = run.output.split_once('\n').unwrap();
        let status: serde_json::Value = serde_json::from_str(status).unwrap();
        assert_eq!(status["drops"]["outside_prefix"], 1, "{status:#}");
        let mut buffer = [0; 100];
        let len = b.recv(&mut buffer).expect("a datagram");
        assert_eq!(&buffer[..len], b"here");
        // Two capabilities, each with two levels of delegation; and IPv4's fragments.
        let mtu = if target == Line::B {
            1500 - (24 + 2 * (20 + 16)) - 20
        } else {
            1500 - (48 + 2 * (32 + 40))
        };
        assert!(device.contains(&format!(" mtu {mtu} ")), "{mtu}: {device}");
    }
    // Both waypoints know on whose word it was, in its order: a packet of each family.
    for name in ["w1", "w2"] {
        let folder = format!("{name}.accounts");
        wait_until("the accounts", || {
            let run = rig.place.run(&["--json", "waypoint", "accounts", "--accounts", &folder]);
            let bill = run.object();
            let lines = bill["accounts"].as_array().unwrap();
            let is_its =
                |line: &&serde_json::Value| line["delegations"] == serde_json::json!([17, 18]);
            lines
                .iter()
                .find(is_its)
                .is_some_and(|line| line["principal"] == 7 && line["packets"] == 2)
        });
    }
}

#[test]
fn a_configuration_that_is_read_again_loses_no_packet() {
    let Some(rig) = Rig::new(0, &["iperf3"]) else { return };
    let host = behind(&rig);
    let write = |more: &str| {
        rig.place.write(
            "gateway.toml",
            &format!(
                "[stamp]\ncapability = [\"w1.cap\", \"w2.cap\"]\n{more}\n[[stamp.policy]]\n\
                 from = \"10.8.9.0/24\"\nvia = [\"{}\", \"{}\"]\n",
                Line::R1,
                Line::R2
            ),
        );
    };
    // Others come and go, with a way of their own.
    let other = format!(
        "[[stamp.policy]]\nfrom = \"10.99.0.0/16\"\nto = \"10.98.0.0/16\"\nvia = [\"{}\"]\n",
        Line::R1
    );
    write("");
    let daemon = rig.daemon(&["--config", "gateway.toml"]);
    let _server = Started::script(&rig.line.b, "iperf3 -s");
    wait_until("the server", || rig.line.b.run("ss -Hltn").contains(":5201"));
    let rules = rig.place.path("rules");
    let _monitor =
        Started::script(&rig.line.a, &format!("ip -o -4 monitor rule > {}", rules.display()));
    wait_until("the monitor", || {
        rig.line.a.run("ip rule add pref 7 to 10.77.0.1 lookup main; ip rule del pref 7");
        std::fs::read_to_string(&rules).is_ok_and(|it| it.contains("10.77.0.1"))
    });
    let iperf3 = format!("iperf3 -J -u -b 2M -l 800 -c {} -t 4", Line::B);
    let output = std::thread::scope(|scope| {
        let flow =
            scope.spawn(|| Run::of(output_on(&host, Command::new("sh").args(["-c", &iperf3]))));
        let mut reloads = 0;
        while !flow.is_finished() {
            write(if reloads % 2 == 0 { &other } else { "" });
            rig.line.a.run(&format!("kill -HUP {}; sleep 0.2", daemon.started.0.id()));
            reloads += 1;
        }
        assert!(reloads > 5, "{reloads}");
        flow.join().unwrap()
    });
    assert_eq!(output.code, 0, "{}{}", output.output, output.errors);
    let sum = &output.object()["end"]["sum"];
    assert!(sum["packets"].as_u64().unwrap() > 1000, "{sum}");
    assert_eq!(sum["lost_packets"], 0, "{sum}");
    let status = daemon.status(&rig.place, &rig.line.a);
    assert!(status["counters"]["stamped_packets"].as_u64().unwrap() > 1000, "{status:#}");
    // The policy has another place each time, and a rule of it is there at every moment.
    let (mut there, mut moves) = (1, 0);
    let seen = std::fs::read_to_string(&rules).unwrap();
    for line in seen.lines().filter(|line| line.contains("from 10.8.9.0/24")) {
        let goes = line.starts_with("Deleted");
        (there, moves) = if goes { (there - 1, moves + 1) } else { (there + 1, moves) };
        assert!(there > 0, "for a moment nothing led its packets: {seen}");
    }
    assert!(moves > 5, "{seen}");
}

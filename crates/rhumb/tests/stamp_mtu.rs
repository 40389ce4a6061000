//! The path's MTU through a stamper and waypoints: a link in the middle
//! takes 1400 bytes, and unmodified programs get on.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::process::Command;

use crate::harness::Run;
use crate::stamping::{Rig, Started, behind, output_on, wait_until};
use crate::wire::Line;

/// The line with a narrow link between the waypoints.
fn narrow(programs: &[&str]) -> Option<Rig> {
    let rig = Rig::new(0, programs)?;
    rig.line.r1.run("ip link set right mtu 1400");
    rig.line.r2.run("ip link set left mtu 1400");
    Some(rig)
}

#[test]
fn tcp_gets_through_a_narrow_link_in_the_middle() {
    let Some(rig) = narrow(&["iperf3"]) else { return };
    for (address, keys) in [(Line::B, ["w1", "w2"]), (Line::B6, ["w1v6", "w2v6"])] {
        let _server = Started::script(&rig.line.b, "iperf3 -s");
        wait_until("the server", || rig.line.b.run("ss -Hltn").contains(":5201"));
        let run = rig.run_stamped(&keys, &format!("timeout 40 iperf3 -J -c {address} -n 2M"));
        assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
        assert_eq!(run.object()["end"]["sum_sent"]["bytes"].as_u64().unwrap() >> 20, 2);
    }
}

/// Sends datagrams to b and says what became of them: with `do`, which the kernel may not cut; with
/// `want`, large ones, which it cuts as it needs.
const SENDER: &str = "
import errno, json, socket, sys, time
b, kind = sys.argv[1:]
v6 = ':' in b
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
s.connect((b, 7777))
level, discover, mtu = (41, 23, 24) if v6 else (0, 10, 14)
told = {'before': s.getsockopt(level, mtu)}
s.setsockopt(level, discover, 2 if kind == 'do' else 1)
s.settimeout(0.2)
told['echo'] = False
end = time.monotonic() + 20
while time.monotonic() < end:
    try:
        s.send(b'x' * (told['before'] - (48 if v6 else 28) if kind == 'do' else 4000))
        s.recv(8000)
        told['echo'] = True
        break
    except socket.timeout:
        pass
    except OSError as error:
        # The kernel has learnt the MTU, and says so once for each fragment that was too large; it cuts the next ones smaller.
        if kind == 'want' and error.errno == errno.EMSGSIZE:
            continue
        told['error'] = errno.errorcode[error.errno]
        break
told['after'] = s.getsockopt(level, mtu)
if 'error' in told:
    s.settimeout(2)
    s.send(b'x' * (told['after'] - (48 if v6 else 28)))
    try:
        told['echo'] = len(s.recv(8000)) > 0
    except OSError as error:
        told['then'] = str(error)
print(json.dumps(told))
";

const ECHO: &str = "
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(('::', 7777))
while True:
    data, peer = s.recvfrom(8000)
    s.sendto(b'ok', peer)
";

/// Starts what answers at b.
fn start_echo(rig: &Rig) -> Started {
    rig.place.write("sender.py", SENDER);
    rig.place.write("echo.py", ECHO);
    let echo = rig.place.path("echo.py").display().to_string();
    let server = Started::script(&rig.line.b, &format!("python3 {echo}"));
    wait_until("the server", || rig.line.b.run("ss -Hlun").contains(":7777"));
    server
}

fn told(rig: &Rig, address: &str, keys: &[&str], kind: &str) -> serde_json::Value {
    let _server = start_echo(rig);
    let run = rig.run_stamped(keys, &format!("python3 sender.py {address} {kind}"));
    assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
    run.object()
}

#[test]
fn udp_that_may_not_be_cut_is_told_how_large_it_may_be() {
    let Some(rig) = narrow(&["python3"]) else { return };
    // 1500 less two capabilities, and less what IPv4 fragments would need.
    for (address, keys, before, least) in
        [(Line::B, ["w1", "w2"], 1416, 1300), (Line::B6, ["w1v6", "w2v6"], 1388, 1280)]
    {
        let told = told(&rig, address, &keys, "do");
        assert_eq!(told["before"], before, "{told}");
        assert_eq!(told["error"], "EMSGSIZE", "{told}");
        let after = told["after"].as_u64().unwrap();
        assert!((least..before - 50).contains(&after), "{told}");
        assert_eq!(told["echo"], true, "what it is told gets through: {told}");
    }
}

#[test]
fn large_udp_that_may_be_cut_gets_through() {
    let Some(rig) = narrow(&["python3"]) else { return };
    for (address, keys) in [(Line::B, ["w1", "w2"]), (Line::B6, ["w1v6", "w2v6"])] {
        let told = told(&rig, address, &keys, "want");
        assert_eq!(told["echo"], true, "{told}");
    }
}

#[test]
fn a_link_before_the_first_waypoint_that_takes_less_is_learnt() {
    let Some(rig) = narrow(&["python3", "iperf3"]) else { return };
    // r1 passes on what is for r2, and says of it what is
    // too big; its own waypoint has no part in it.
    rig.line.r1.run("nft insert rule inet plain forward meta l4proto 253 accept");
    let before = rig.passed();
    for (address, key, overhead) in [(Line::B, "w2", 44 + 20), (Line::B6, "w2v6", 80)] {
        let told = told(&rig, address, &[key], "do");
        assert_eq!(
            (&told["before"], &told["error"]),
            (&(1500 - overhead).into(), &"EMSGSIZE".into())
        );
        assert_eq!(told["after"], 1400 - overhead, "{told}");
        assert_eq!(told["echo"], true, "what it is told gets through: {told}");

        let _server = Started::script(&rig.line.b, "iperf3 -s");
        wait_until("the server", || rig.line.b.run("ss -Hltn").contains(":5201"));
        let run = rig.run_stamped(&[key], &format!("timeout 40 iperf3 -J -c {address} -n 2M"));
        assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
    }
    assert_eq!(rig.passed()[0], before[0], "the way is by r2 alone");
}

#[test]
fn hosts_behind_a_gateway_are_told_how_large_packets_may_be() {
    let Some(rig) = narrow(&["python3"]) else { return };
    let host = behind(&rig);
    let policy = |from: &str, via: [&str; 2]| {
        format!("[[stamp.policy]]\nfrom = \"{from}\"\nvia = {via:?}\n")
    };
    rig.place.write(
        "gateway.toml",
        &format!(
            "[stamp]\ncapability = [\"w1.cap\", \"w2.cap\", \"w1v6.cap\", \"w2v6.cap\"]\n{}{}",
            policy("10.8.9.0/24", [Line::R1, Line::R2]),
            policy("2001:db8:8:9::/64", [Line::R1_6, Line::R2_6])
        ),
    );
    let _daemon = rig.daemon(&["--config", "gateway.toml"]);
    let _server = start_echo(&rig);
    let sender = rig.place.path("sender.py").display().to_string();
    for (address, overhead) in [(Line::B, 64 + 20), (Line::B6, 112)] {
        let sends = |kind: &str| {
            let output = output_on(&host, Command::new("python3").args([&*sender, address, kind]));
            let run = Run::of(output);
            assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
            run.object()
        };
        // First the gateway's device refuses what would not fit when
        // stamped. The host hears it as from any router.
        let first = sends("do");
        assert_eq!((&first["before"], &first["error"]), (&1500.into(), &"EMSGSIZE".into()));
        assert_eq!(first["after"], 1500 - overhead, "{first}");
        // What has that size is told of by the first waypoint, whose next link takes less. It knows
        // what the packet is, and leaves no room for fragments.
        let stamp = if address == Line::B { overhead - 20 } else { overhead };
        let second = sends("do");
        assert_eq!(second["before"], 1400 - stamp, "{second}");
        assert_eq!(second["echo"], true, "what it was told gets through: {second}");
        // What may be cut is cut by the host, or by the gateway.
        assert_eq!(sends("want")["echo"], true);
    }
}

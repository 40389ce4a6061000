//! ICMP of waypoints: an unmodified kernel takes what it is told for its own
//! packets', learns what the path takes, and sees where packets end; and
//! nothing is said about packets that prove nothing.
#![cfg(target_os = "linux")]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use rhumb_capability::{Encapsulation, Suite};

use crate::waypoints::{
    ENDS, IcmpEar, PATIENCE, PORT, Pass, Rig, Sender, count, count_waiting, ip, pass, receive,
    right_checksum, socket, udp,
};
use crate::wire::{Host, Line};

/// What a host's kernel holds for the largest packet to an address, once it holds anything.
#[track_caller]
fn learnt_mtu(host: &Host, to: &str) -> u32 {
    let begin = Instant::now();
    loop {
        let route = host.run(&format!("ip route get {to}"));
        let mut words = route.split_whitespace();
        if words.any(|word| word == "mtu") {
            return words.next().and_then(|mtu| mtu.parse().ok()).expect("a number");
        }
        assert!(begin.elapsed() < PATIENCE, "{route}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Behind these ways for IPv4 and for IPv6 is a link of 1400 bytes: what is a byte too large tells
/// the source's kernel so, and what fits arrives.
#[track_caller]
fn is_learnt(source: &Host, destination: &UdpSocket, [v4, v6]: [[Pass; 2]; 2]) {
    let _own = socket(source, ENDS);
    let mut sender = Sender::on(source);
    // IPv4: 24 bytes and 20 for each capability. IPv6: 48 and 32.
    for (from, to, ways, overhead, header) in
        [(Line::A, Line::B, v4, 64, 28), (Line::A6, Line::B6, v6, 112, 48)]
    {
        sender.send_by(&ways, &udp(from, to, &vec![1; 1400 - overhead + 1 - header]));
        assert_eq!(learnt_mtu(source, to), 1400 - overhead as u32);
        let fits = vec![2; 1400 - overhead - header];
        sender.send_by(&ways, &udp(from, to, &fits));
        assert_eq!(receive(destination), fits);
    }
}

fn narrow(left: &Host, right: &Host, mtu: u32) {
    left.run(&format!("ip link set right mtu {mtu}"));
    right.run(&format!("ip link set left mtu {mtu}"));
}

#[test]
fn a_narrow_link_behind_a_waypoint_is_learnt_by_the_source() {
    let Some(rig) = Rig::new() else { return };
    let [w1, _w2] = rig.start_both("");
    let Line { a: host_a, r1, r2, b } = &rig.line;
    narrow(r1, r2, 1400);
    let b = socket(b, ENDS);
    is_learnt(host_a, &b, [[pass(Line::R1), pass(Line::R2)], [pass(Line::R1_6), pass(Line::R2_6)]]);
    rig.wait_for(r1, &w1, |it| count(it, &["icmp_sent", "too_big"]) == 2);
    assert_eq!(count_waiting(&b), 0);
}

#[test]
fn what_a_router_between_waypoints_says_is_translated_for_the_source() {
    let Some(rig) = Rig::new() else { return };
    let Line { a: host_a, r1, r2, b } = &rig.line;
    // The second waypoint is the destination's own; between the two
    // is a router that knows nothing of Platypus.
    let w1 = rig.start(r1, "w1", &[Line::R1, Line::R1_6], "");
    let _w2 = rig.start(b, "w2", &[Line::B, Line::B6], "deliver_here = true");
    narrow(r2, b, 1400);
    let b = socket(b, ENDS);
    is_learnt(host_a, &b, [[pass(Line::R1), pass(Line::B)], [pass(Line::R1_6), pass(Line::B6)]]);
    let status = rig.wait_for(r1, &w1, |it| count(it, &["icmp_sent", "translated"]) == 2);
    assert_eq!(count(&status, &["icmp_sent", "too_big"]), 0, "{status:#}");
}

#[test]
fn the_same_holds_for_platypus_in_udp() {
    let Some(rig) = Rig::new() else { return };
    let Line { a: host_a, r1, r2, b } = &rig.line;
    let w1 = rig.start(r1, "w1", &[Line::R1], "");
    let _w2 = rig.start(b, "w2", &[Line::B], "deliver_here = true");
    narrow(r2, b, 1400);
    let (own, b) = (socket(host_a, ENDS), socket(b, ENDS));
    let mut a = Sender::on(host_a);
    let w = [pass(Line::R1), pass(Line::B)];
    let mut send = |len: usize| {
        let packet = a.stamp_as(&w, &udp(Line::A, Line::B, &vec![1; len]), Encapsulation::Datagram);
        let waypoint: std::net::Ipv4Addr = Line::R1.parse().expect("an address");
        own.send_to(&packet, (waypoint.to_ipv6_mapped(), PORT)).expect("a way");
    };
    // Eight bytes more than without UDP.
    send(1400 - 72 - 28 + 1);
    assert_eq!(learnt_mtu(host_a, Line::B), 1400 - 72);
    send(1400 - 72 - 28);
    assert_eq!(receive(&b).len(), 1400 - 72 - 28);
    rig.wait_for(r1, &w1, |it| count(it, &["icmp_sent", "translated"]) == 1);
}

#[test]
fn pings_pass_and_hops_end_where_a_trace_sees_it() {
    let Some(rig) = Rig::new() else { return };
    let [w1, w2] = rig.start_both("");
    let Line { a: host_a, r1, r2, .. } = &rig.line;
    let (mut a, mut ear) = (Sender::on(host_a), IcmpEar::on(host_a));
    let both = [pass(Line::R1), pass(Line::R2)];
    let mut echo = vec![8, 0, 0, 0, 1, 2, 0, 1];
    echo.extend([7; 32]);
    let sum = !echo.chunks(2).fold(0_u32, |sum, w| {
        let sum = sum + u32::from(w[0]) * 256 + u32::from(w[1]);
        (sum & 0xFFFF) + (sum >> 16)
    }) as u16;
    echo[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut ping = ip(Line::A, Line::B, 1, &echo);
    let answered = |host: &Host| host.run("cat /proc/net/snmp | grep Icmp: | tail -1").clone();
    let before = answered(host_a);
    a.send_by(&both, &ping);
    let begin = Instant::now();
    while answered(host_a) == before {
        assert!(begin.elapsed() < PATIENCE, "no answer comes back");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(ear.errors().len(), 0);
    // Each hop says that it is one, and quotes what was sent.
    for (hops, from) in [(1, Line::R1), (2, Line::R2)] {
        ping[8] = hops;
        right_checksum(&mut ping);
        a.send_by(&both, &ping);
        let errors = ear.next_errors();
        let [error] = &errors[..] else { panic!("{errors:?}") };
        let from: std::net::Ipv4Addr = from.parse().expect("an address");
        assert_eq!((&error[12..16], error[20], error[21]), (&from.octets()[..], 11, 0));
        assert_eq!(
            (error[28 + 9], &error[28 + 12..48], &error[48..]),
            (1, &ping[12..20], &echo[..])
        );
    }
    for (host, daemon) in [(r1, &w1), (r2, &w2)] {
        rig.wait_for(host, daemon, |it| count(it, &["icmp_sent", "time_exceeded"]) == 1);
    }
}

#[test]
fn nothing_is_said_about_what_is_not_proven_and_never_more_than_came() {
    let Some(rig) = Rig::new() else { return };
    let [w1, _w2] = rig.start_both("");
    let Line { a: host_a, r1, r2, .. } = &rig.line;
    narrow(r1, r2, 1300);
    let (mut a, mut ear) = (Sender::on(host_a), IcmpEar::on(host_a));
    let both: [Pass; 2] = [pass(Line::R1), pass(Line::R2)];
    let mut short = udp(Line::A, Line::B, b"x");
    short[8] = 1;
    right_checksum(&mut short);
    let long = udp(Line::A, Line::B, &[1; 1350]);
    for n in 0..50 {
        for packet in [&short, &long] {
            let mut packet = a.stamp(&both, packet);
            // A byte of the packet's id.
            packet[20 + 20] ^= 1 + n;
            a.send(&packet);
        }
    }
    rig.wait_for(r1, &w1, |it| count(it, &["dropped_by_reason", "binding"]) == 100);
    // A message that somebody made up about a packet of ours, and one
    // about a packet with a binding over all of it.
    let sent = a.stamp(&both, &long);
    let mut quote = sent[..300].to_vec();
    quote[12..20].copy_from_slice(&[10, 8, 0, 2, 10, 8, 1, 2]);
    quote[23] = 1;
    quote[24 + 8 + 8 + 2] ^= 1;
    right_checksum(&mut quote);
    let mut made_up = vec![3, 1, 0, 0, 0, 0, 0, 0];
    made_up.extend_from_slice(&quote);
    let sum = made_up.chunks(2).fold(0_u32, |sum, w| {
        let sum = sum + u32::from(w[0]) * 256 + u32::from(w.get(1).copied().unwrap_or(0));
        (sum & 0xFFFF) + (sum >> 16)
    });
    made_up[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    a.send(&ip("10.8.0.1", Line::R1, 1, &made_up));
    rig.wait_for(r1, &w1, |it| count(it, &["icmp_dropped", "forged"]) == 1);
    assert_eq!(ear.errors(), Vec::<Vec<u8>>::new());
    // What is proven is answered, a few times, and with less than came in.
    let whole = both.map(|it| Pass { suite: Suite::PacketPolyval, ..it });
    let mut smallest = usize::MAX;
    for _ in 0..20 {
        let packet = a.stamp(&whole, &short);
        smallest = smallest.min(packet.len());
        a.send(&packet);
    }
    let status = rig.wait_for(r1, &w1, |it| {
        count(it, &["icmp_sent", "time_exceeded"]) + count(it, &["icmp_dropped", "rate_limited"])
            == 20
    });
    let said = count(&status, &["icmp_sent", "time_exceeded"]);
    assert!((6..20).contains(&said), "{status:#}");
    let errors = ear.next_errors();
    assert!(errors.iter().all(|error| error.len() <= smallest));
}

#[test]
fn what_may_be_cut_is_cut_at_the_last_hop() {
    let Some(rig) = Rig::new() else { return };
    let [_w1, w2] = rig.start_both("");
    let Line { a: host_a, r2, b, .. } = &rig.line;
    narrow(r2, b, 1000);
    let (b, mut a, mut ear) = (socket(b, ENDS), Sender::on(host_a), IcmpEar::on(host_a));
    let payload: Vec<u8> = (0..1300).map(|at| at as u8).collect();
    let mut packet = udp(Line::A, Line::B, &payload);
    packet[6] = 0;
    right_checksum(&mut packet);
    a.send_by(&[pass(Line::R1), pass(Line::R2)], &packet);
    assert_eq!(receive(&b), payload);
    let status = rig.wait_for(r2, &w2, |it| count(it, &["counters", "forwarded_packets"]) == 1);
    assert_eq!(count(&status, &["icmp_sent", "too_big"]), 0);
    assert_eq!(ear.errors(), Vec::<Vec<u8>>::new());
}

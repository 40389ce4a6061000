//! Whole IP packets by raw sockets and UDP, between namespaces: what arrives is
//! what was sent, and what becomes of the rest.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::time::{Duration, Instant};

use packets::{PROTOCOL, packet, raw, receive, send, sender};
use rhumb_io::ip::{Fate, HEADROOM, IpBatch, IpIo, Paths, RawOptions, RawSocket, UdpCarriage};
use rhumb_io::udp::{self, UdpSocket};

use crate::packets;
use crate::wire::{Line, Wire};

const NEAR: [&str; 2] = ["10.9.0.1", "2001:db8:9::1"];
const FAR: [&str; 2] = ["10.9.0.2", "2001:db8:9::2"];

#[test]
fn a_packet_arrives_as_it_was_sent() {
    let Some(wire) = Wire::new() else { return };
    let mut near = wire.near.enter(sender);
    let mut far = wire.far.enter(raw);
    for (from, to) in NEAR.into_iter().zip(FAR) {
        for len in [0, 1, 20, 1000, 1432] {
            let mut sent = packet(from, to, PROTOCOL, len);
            // What a router between has to keep: class, hop limit,
            // flow label, and that it may not be cut.
            if sent[0] >> 4 == 4 {
                (sent[1], sent[5], sent[8]) = (0xB8, 7, 9);
                packets::right_checksum(&mut sent);
            } else {
                (sent[0], sent[1], sent[2], sent[3], sent[7]) = (0x6B, 0x8A, 0xBC, 0xDE, 9);
            }
            assert_eq!(send(&mut near, &[&sent]), [Fate::Sent]);
            assert_eq!(receive(&mut far, 1), [sent], "{len} bytes to {to}");
        }
    }
    let counters = far.counters();
    assert_eq!((counters.received_datagrams, counters.receive_malformed), (10, 0));
    assert_eq!(near.counters().sent_datagrams, 10);
}

#[test]
fn a_batch_of_both_families_arrives_whole_and_each_in_order() {
    let Some(wire) = Wire::new() else { return };
    let mut near = wire.near.enter(sender);
    let mut far = wire.far.enter(raw);
    let all: Vec<Vec<u8>> = (0..64)
        .map(|number: usize| {
            let family = number % 2;
            let mut packet = packet(NEAR[family], FAR[family], PROTOCOL, 100 + number);
            *packet.last_mut().unwrap() = number as u8;
            packet
        })
        .collect();
    let slices: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    assert_eq!(send(&mut near, &slices), [Fate::Sent; 64]);
    assert!(near.counters().send_calls <= 2, "one call per family");
    let received = receive(&mut far, 64);
    for version in [4, 6] {
        let of = |all: &[Vec<u8>]| -> Vec<Vec<u8>> {
            let ours = all.iter().filter(|it| it[0] >> 4 == version).cloned();
            ours.collect()
        };
        assert_eq!(of(&received), of(&all), "IPv{version}");
    }
}

#[test]
fn what_cannot_go_has_its_own_fate_and_the_others_go() {
    let Some(wire) = Wire::new() else { return };
    let mut near = wire.near.enter(sender);
    let mut far = wire.far.enter(raw);
    for (from, to) in NEAR.into_iter().zip(FAR) {
        let header = if from.contains(':') { 40 } else { 20 };
        let [first, last] = [10, 20].map(|len| packet(from, to, PROTOCOL, len));
        let largest = packet(from, to, PROTOCOL, 1500 - header);
        let too_big = packet(from, to, PROTOCOL, 1501 - header);
        let nowhere = packet(from, if header == 20 { "192.0.2.7" } else { "2001:db8:f::7" }, 7, 5);
        let mut cut = packet(from, to, PROTOCOL, 100);
        cut.pop();
        let fates = send(&mut near, &[&first, &too_big, &largest, &nowhere, &cut, b"?", &last]);
        use Fate::{Sent, TooBig, Unreachable};
        assert_eq!(fates, [Sent, TooBig, Sent, Unreachable, Unreachable, Unreachable, Sent]);
        let mut received = receive(&mut far, 3);
        received.sort_by_key(Vec::len);
        assert_eq!(received, [first, last, largest]);
    }
    let counters = near.counters();
    assert_eq!((counters.send_dropped_too_big, counters.send_dropped_unreachable), (2, 6));
}

/// A router on the way says that a packet is too big. From then on the
/// kernel says so at once, and how large it may be.
#[test]
fn a_narrow_path_is_known_once_it_has_been_met() {
    let Some(line) = Line::new() else { return };
    line.r1.run("ip link set right mtu 1300");
    line.r2.run("ip link set left mtu 1300");
    // The kernel believes the router because there is a socket for the protocol of the packet.
    let (mut near, mut paths) = line.a.enter(|| (raw(), Paths::new().unwrap()));
    for (from, to) in [(Line::A, Line::B), (Line::A6, Line::B6)] {
        let to_ip = to.parse().unwrap();
        let header = if from.contains(':') { 40 } else { 20 };
        let [fits, too_big] = [1300, 1301].map(|len| packet(from, to, PROTOCOL, len - header));
        assert_eq!(paths.largest_packet(to_ip), Some(1500));
        assert_eq!(send(&mut near, &[&too_big]), [Fate::Sent]);
        let begin = Instant::now();
        while paths.largest_packet(to_ip) != Some(1300) {
            assert!(begin.elapsed() < Duration::from_secs(5), "the router's word was not heard");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(send(&mut near, &[&too_big, &fits]), [Fate::TooBig, Fate::Sent], "{to}");
    }
    assert_eq!(paths.largest_packet("192.0.2.1".parse().unwrap()), Some(1500), "by default route");
}

#[test]
fn packets_larger_than_the_room_are_dropped_and_counted() {
    let Some(wire) = Wire::new() else { return };
    let mut near = wire.near.enter(sender);
    let mut far = wire.far.enter(raw);
    for (from, to) in NEAR.into_iter().zip(FAR) {
        let [large, small] = [500, 50].map(|len| packet(from, to, PROTOCOL, len));
        assert_eq!(send(&mut near, &[&large, &small]), [Fate::Sent; 2]);
        let mut batch = IpBatch::new(400);
        let mut received = Vec::new();
        while received.is_empty() {
            assert!(far.wait(Some(Duration::from_secs(5)), None).unwrap().readable, "nothing came");
            far.receive(&mut batch).unwrap();
            received.extend(batch.iter().map(|(_, packet)| packet.to_vec()));
        }
        assert_eq!(received, [small]);
    }
    assert_eq!(far.counters().receive_malformed, 2);
}

/// Fragments are the kernel's: it puts them together before a raw socket sees them.
#[test]
fn fragments_arrive_put_together() {
    let Some(wire) = Wire::new() else { return };
    let mut near = wire.near.enter(sender);
    let mut far = wire.far.enter(raw);
    let whole = packet(NEAR[0], FAR[0], PROTOCOL, 1000);
    let part = |range: std::ops::Range<usize>, more: bool| {
        let mut part = packet(NEAR[0], FAR[0], PROTOCOL, range.len());
        part[20..].copy_from_slice(&whole[20..][range.clone()]);
        let offset = (range.start / 8) as u16 | if more { 0x2000 } else { 0 };
        part[4..6].copy_from_slice(&[0, 77]);
        part[6..8].copy_from_slice(&offset.to_be_bytes());
        packets::right_checksum(&mut part);
        part
    };
    assert_eq!(send(&mut near, &[&part(504..1000, false), &part(0..504, true)]), [Fate::Sent; 2]);
    let received = receive(&mut far, 1);
    assert_eq!(received[0][20..], whole[20..]);
}

#[test]
fn one_address_and_one_family_only() {
    let Some(wire) = Wire::new() else { return };
    wire.far.run("ip address add 10.9.0.3/24 dev far");
    let mut near = wire.near.enter(sender);
    let options = RawOptions {
        protocol: Some(PROTOCOL),
        ipv4: Some("10.9.0.3".parse().unwrap()),
        ipv6: None,
        ..RawOptions::default()
    };
    let mut far = wire.far.enter(|| RawSocket::open(&options)).unwrap();
    let ours = packet(NEAR[0], "10.9.0.3", PROTOCOL, 5);
    let others = [packet(NEAR[0], FAR[0], PROTOCOL, 5), packet(NEAR[1], FAR[1], PROTOCOL, 5)];
    assert_eq!(send(&mut near, &[&others[0], &others[1], &ours]), [Fate::Sent; 3]);
    assert_eq!(receive(&mut far, 1), [ours]);
    assert_eq!(send(&mut far, &[&packet(FAR[1], NEAR[1], PROTOCOL, 5)]), [Fate::Unreachable]);

    let elsewhere = RawOptions { ipv4: Some("10.9.9.9".parse().unwrap()), ..options };
    let error = wire.far.enter(|| RawSocket::open(&elsewhere)).unwrap_err().to_string();
    assert!(error.contains("10.9.9.9") && error.contains("not an address"), "{error}");
}

/// What is marked goes by other rules: so a stamper's packets do not come back to it.
#[test]
fn marked_packets_take_the_way_of_their_mark() {
    let Some(wire) = Wire::new() else { return };
    wire.near.run("ip rule add fwmark 7 lookup 100; ip route add blackhole 10.9.0.0/24 table 100");
    let ours = packet(NEAR[0], FAR[0], PROTOCOL, 5);
    for (mark, fate) in [(None, Fate::Sent), (Some(7), Fate::Unreachable), (Some(8), Fate::Sent)] {
        let options = RawOptions { mark, ..RawOptions::default() };
        let mut near = wire.near.enter(|| RawSocket::open(&options)).unwrap();
        assert_eq!(send(&mut near, &[&ours]), [fate], "{mark:?}");
    }
}

/// Received packets grow to the front, and go on as they stand.
#[test]
fn a_received_packet_is_wrapped_in_place_and_sent_on() {
    let Some(line) = Line::new() else { return };
    let mut a = line.a.enter(sender);
    let (mut r1, mut b) = (line.r1.enter(raw), line.b.enter(raw));
    let inner = packet(Line::A, Line::R1, PROTOCOL, 30);
    assert_eq!(send(&mut a, &[&inner]), [Fate::Sent]);
    let mut batch = IpBatch::new(2000);
    assert!(r1.wait(Some(Duration::from_secs(5)), None).unwrap().readable, "nothing came");
    assert_eq!(r1.receive(&mut batch).unwrap(), 1);
    let outer = packet(Line::R1, Line::B, PROTOCOL, HEADROOM - 20 + inner.len());
    let (room, at) = batch.room_mut(0);
    room[at.start - HEADROOM..at.start].copy_from_slice(&outer[..HEADROOM]);
    batch.place(0, at.start - HEADROOM..at.end);
    assert_eq!((r1.send(&mut batch).unwrap().sent, batch.fate(0)), (1, Fate::Sent));
    let received = receive(&mut b, 1);
    assert_eq!((received[0].len(), &received[0][HEADROOM..]), (HEADROOM + inner.len(), &inner[..]));
    assert_eq!(received[0][8], 63, "r2 forwarded it");
}

#[test]
fn udp_carries_the_same_packets() {
    let Some(wire) = Wire::new() else { return };
    for (from, to) in NEAR.into_iter().zip(FAR) {
        let carriage = |ip: &str| {
            let address = std::net::SocketAddr::new(ip.parse().unwrap(), 7461);
            let socket = UdpSocket::bind(address, udp::Options::default()).unwrap();
            UdpCarriage::new(socket, PROTOCOL, 7461).unwrap()
        };
        let mut near = wire.near.enter(|| carriage(from));
        let mut far = wire.far.enter(|| carriage(to));
        let all: Vec<Vec<u8>> = (1..=64).map(|len| packet(from, to, PROTOCOL, len)).collect();
        let slices: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        assert_eq!(send(&mut near, &slices), [Fate::Sent; 64]);
        assert_eq!(receive(&mut far, 64), all);
        assert_eq!(send(&mut near, &[&packet(from, to, 17, 9)]), [Fate::Unreachable]);
    }
    let any = wire.near.enter(|| {
        let socket = UdpSocket::bind("0.0.0.0:0".parse().unwrap(), udp::Options::default());
        UdpCarriage::new(socket.unwrap(), PROTOCOL, 7461).unwrap_err().to_string()
    });
    assert!(any.contains("one address"), "{any}");
}

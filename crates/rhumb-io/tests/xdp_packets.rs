//! Whole IP packets by AF_XDP beside the kernel: what goes by frames, what goes
//! by raw sockets, and what stays the kernel's.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use rhumb_io::ip::{Fate, IpBatch, IpIo, RawSocket};
use rhumb_io::xdp::{Options, Refused, XdpPackets};

use crate::packets::{PROTOCOL, packet, raw, receive, right_checksum, send, sender};
use crate::wire::{Host, Line, Wire};

const NEAR: [&str; 2] = ["10.9.0.1", "2001:db8:9::1"];
const FAR: [&str; 2] = ["10.9.0.2", "2001:db8:9::2"];

fn attach(host: &Host, interfaces: &[&str]) -> Result<XdpPackets, Box<Refused<RawSocket>>> {
    host.enter(|| XdpPackets::attach(raw(), interfaces, &Options::default()))
}

/// Sends until packets leave by the rings: the first one to a destination goes by the raw socket.
#[track_caller]
fn settle(near: &mut XdpPackets, packet: &[u8], far: &mut RawSocket) {
    let (begin, first) = (Instant::now(), near.counters().xdp_sent_datagrams);
    while near.counters().xdp_sent_datagrams == first {
        assert_eq!(send(near, &[packet]), [Fate::Sent]);
        receive(far, 1);
        assert!(begin.elapsed() < Duration::from_secs(10), "nothing goes by the rings");
    }
}

#[test]
fn both_ways_at_every_size_up_to_the_largest() {
    let Some(wire) = Wire::new() else { return };
    let mut near = attach(&wire.near, &["near"]).unwrap();
    let mut far = wire.far.enter(raw);
    for (here, there) in NEAR.into_iter().zip(FAR) {
        let header = if here.contains(':') { 40 } else { 20 };
        settle(&mut near, &packet(here, there, PROTOCOL, 9), &mut far);
        let before = near.counters();
        for len in [0, 1, 5, 6, 7, 100, 1000, 1499 - header, 1500 - header] {
            let mut out = packet(here, there, PROTOCOL, len);
            let mut back = packet(there, here, PROTOCOL, len);
            for packet in [&mut out, &mut back].into_iter().filter(|it| it[0] >> 4 == 4) {
                // As it stands: class and hop limit are whose they are.
                (packet[1], packet[8]) = (0xB8, 3);
                right_checksum(packet);
            }
            assert_eq!(send(&mut near, &[&out]), [Fate::Sent]);
            assert_eq!(receive(&mut far, 1), [out], "{len} bytes");
            assert_eq!(send(&mut far, &[&back]), [Fate::Sent]);
            assert_eq!(receive(&mut near, 1), [back], "{len} bytes");
        }
        let after = near.counters();
        assert_eq!(after.xdp_received_datagrams - before.xdp_received_datagrams, 9);
        let sent = after.xdp_sent_datagrams - before.xdp_sent_datagrams;
        // All but one a second, with which the way is confirmed.
        assert!((5..=9).contains(&sent), "{sent} of 9");
        assert_eq!(after.receive_malformed, 0);
    }
}

#[test]
fn a_full_batch_of_both_families_and_what_does_not_fit() {
    let Some(wire) = Wire::new() else { return };
    let mut near = attach(&wire.near, &["near"]).unwrap();
    let mut far = wire.far.enter(raw);
    let of = |family: usize, len| packet(NEAR[family], FAR[family], PROTOCOL, len);
    for family in [0, 1] {
        settle(&mut near, &of(family, 9), &mut far);
    }
    let mut all: Vec<Vec<u8>> = (0..64).map(|number| of(number % 2, 50 + number)).collect();
    let slices: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    assert_eq!(send(&mut near, &slices), [Fate::Sent; 64]);
    let mut received = receive(&mut far, 64);
    all.sort();
    received.sort();
    assert!(received == all);

    let nowhere = packet(NEAR[0], "192.0.2.7", PROTOCOL, 5);
    let (small, large) = (of(0, 5), of(0, 1481));
    use Fate::{Sent, TooBig, Unreachable};
    let fates = send(&mut near, &[&small, &large, &nowhere, b"?", &small]);
    assert_eq!(fates, [Sent, TooBig, Unreachable, Unreachable, Sent]);
    assert_eq!(receive(&mut far, 2), [small.clone(), small]);
    let counters = near.counters();
    assert_eq!((counters.send_dropped_too_big, counters.send_dropped_unreachable), (1, 2));
}

#[test]
fn a_batch_of_sixty_four_comes_by_the_rings() {
    let Some(wire) = Wire::new() else { return };
    let mut near = attach(&wire.near, &["near"]).unwrap();
    let mut far = wire.far.enter(raw);
    let all: Vec<Vec<u8>> = (0..64)
        .map(|number: usize| packet(FAR[number % 2], NEAR[number % 2], PROTOCOL, number))
        .collect();
    let slices: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    assert_eq!(send(&mut far, &slices), [Fate::Sent; 64]);
    let mut received = receive(&mut near, 64);
    received.sort();
    let mut sent = all.clone();
    sent.sort();
    assert!(received == sent);
    assert_eq!(near.counters().xdp_received_datagrams, 64);
}

/// Fragments, options, and whatever else is no plain packet of the
/// protocol, take the kernel's way; so do all others.
#[test]
fn the_kernel_does_the_rest_on_the_same_interface() {
    let Some(wire) = Wire::new() else { return };
    let mut near = attach(&wire.near, &["near"]).unwrap();
    let mut far = wire.far.enter(raw);
    let near_udp = wire.near.enter(|| UdpSocket::bind("[::]:7000")).unwrap();
    near_udp.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let far_udp = wire.far.enter(|| UdpSocket::bind("[::]:7000")).unwrap();
    for address in ["[::ffff:10.9.0.1]:7000", "[2001:db8:9::1]:7000"] {
        wire.far.run("ip neighbour flush dev far");
        far_udp.send_to(b"hello", address).unwrap();
        assert_eq!(near_udp.recv(&mut [0; 9]).unwrap(), 5, "{address}");
    }
    let whole = packet(FAR[0], NEAR[0], PROTOCOL, 1000);
    for (range, more) in [(0..504, 0x20), (504..1000, 0)] {
        let mut part = packet(FAR[0], NEAR[0], PROTOCOL, range.len());
        part[20..].copy_from_slice(&whole[20..][range.clone()]);
        part[4..8].copy_from_slice(&[0, 77, more, (range.start / 8) as u8]);
        right_checksum(&mut part);
        assert_eq!(send(&mut far, &[&part]), [Fate::Sent]);
    }
    assert_eq!(receive(&mut near, 1)[0][20..], whole[20..]);
    let counters = near.counters();
    assert_eq!((counters.received_datagrams, counters.xdp_received_datagrams), (1, 0));
}

/// A router's own address is often on no interface that packets arrive by. And it comes and goes.
#[test]
fn packets_to_any_address_of_this_host_are_ours() {
    let Some(wire) = Wire::new() else { return };
    wire.near.run("ip address add 10.99.0.1/32 dev lo");
    wire.far.run("ip route add 10.99.0.0/16 via 10.9.0.1");
    let mut near = attach(&wire.near, &["near"]).unwrap();
    let mut far = wire.far.enter(raw);
    let ours = packet(FAR[0], "10.99.0.1", PROTOCOL, 5);
    assert_eq!(send(&mut far, &[&ours]), [Fate::Sent]);
    assert_eq!(receive(&mut near, 1), [ours]);
    assert_eq!(near.counters().xdp_received_datagrams, 1);

    wire.near.run("ip address add 10.99.0.2/32 dev lo");
    let later = packet(FAR[0], "10.99.0.2", PROTOCOL, 5);
    let begin = Instant::now();
    while near.counters().xdp_received_datagrams == 1 {
        assert_eq!(send(&mut far, &[&later]), [Fate::Sent]);
        assert_eq!(receive(&mut near, 1), std::slice::from_ref(&later));
        assert!(begin.elapsed() < Duration::from_secs(10), "the address was not noticed");
    }
}

/// What claims to come from ourselves, or from nobody, or is
/// larger than the room, is dropped and counted.
#[test]
fn what_no_neighbour_can_have_sent_is_counted() {
    let Some(wire) = Wire::new() else { return };
    let mut near = attach(&wire.near, &["near"]).unwrap();
    let mut far = wire.far.enter(raw);
    wire.far.run("ip neighbour flush dev far");
    let good = packet(FAR[0], NEAR[0], PROTOCOL, 5);
    let from = |from: &str| packet(from, NEAR[0], PROTOCOL, 5);
    let all = [&from(NEAR[0])[..], &from("127.0.0.1"), &from("224.0.0.1"), &good];
    assert_eq!(send(&mut far, &all), [Fate::Sent; 4]);
    assert_eq!(receive(&mut near, 1), std::slice::from_ref(&good));
    assert_eq!(near.counters().receive_malformed, 3);

    let (large, mut room, mut found) =
        (packet(FAR[0], NEAR[0], PROTOCOL, 500), IpBatch::new(100), 0);
    assert_eq!(send(&mut far, &[&large, &good]), [Fate::Sent; 2]);
    while found == 0 {
        assert!(near.wait(Some(Duration::from_secs(5)), None).unwrap().readable, "nothing came");
        found += near.receive(&mut room).unwrap();
    }
    assert_eq!((found, room.packet(0)), (1, &good[..]));
    assert_eq!(near.counters().receive_malformed, 4);
}

#[test]
fn a_router_forwards_from_one_interface_to_the_other_by_frames() {
    let Some(line) = Line::new() else { return };
    let mut r1 = attach(&line.r1, &["left", "right"]).unwrap();
    assert_eq!((r1.queues(), r1.is_zero_copy()), (2, false));
    let (mut a, mut b) = (line.a.enter(raw), line.b.enter(raw));
    for (from, via, to) in [(Line::A, Line::R1, Line::B), (Line::A6, Line::R1_6, Line::B6)] {
        let in_frames = |r1: &XdpPackets| r1.counters().xdp_sent_datagrams;
        let (begin, before) = (Instant::now(), in_frames(&r1));
        while in_frames(&r1) == before {
            assert_eq!(send(&mut a, &[&packet(from, via, PROTOCOL, 50)]), [Fate::Sent]);
            let mut batch = IpBatch::new(1500);
            while batch.iter().count() == 0 {
                let ready = r1.wait(Some(Duration::from_secs(5)), None).unwrap();
                assert!(ready.readable, "nothing came to r1");
                r1.receive(&mut batch).unwrap();
            }
            let onward = packet(via, to, PROTOCOL, 50);
            batch.packet_mut(0).copy_from_slice(&onward);
            assert_eq!(r1.send(&mut batch).unwrap().sent, 1);
            let received = receive(&mut b, 1);
            assert_eq!(received[0].len(), onward.len());
            // r2 took one off the hop limit; r1's kernel had no part in it.
            let at = if onward[0] >> 4 == 4 { 8 } else { 7 };
            assert_eq!(received[0][at], 63);
            assert!(begin.elapsed() < Duration::from_secs(10), "nothing goes by the rings");
        }
    }
    assert!(r1.counters().xdp_received_datagrams >= 2);
}

#[test]
fn reasons_are_clear_and_the_sockets_come_back() {
    let Some(wire) = Wire::new() else { return };
    let mut far = wire.far.enter(raw);
    let refused = |interfaces: &[&str]| *attach(&wire.near, interfaces).unwrap_err();
    let first = attach(&wire.near, &["near"]).unwrap();
    for (interfaces, word) in [
        (&[][..], "name one"),
        (&["nosuch"], "nosuch"),
        (&["lo"], "Ethernet"),
        (&["near"], "already"),
        (&["near"; 17], "at most"),
    ] {
        let Refused { mut socket, refusal } = refused(interfaces);
        assert!(refusal.to_string().contains(word), "{refusal}");
        let ours = packet(NEAR[0], FAR[0], PROTOCOL, 5);
        assert_eq!(send(&mut socket, &[&ours]), [Fate::Sent]);
        assert_eq!(receive(&mut far, 1), [ours]);
    }
    assert!(wire.near.run("ip link show near").contains("xdp"));
    drop(first);
    // The kernel takes the program off behind the close.
    let begin = Instant::now();
    while wire.near.run("ip link show near").contains("xdp") {
        assert!(begin.elapsed() < Duration::from_secs(10), "the program is still there");
    }
}

#[test]
fn an_interface_that_goes_away_leaves_the_sockets() {
    let Some(wire) = Wire::new() else { return };
    let mut near = attach(&wire.near, &["near"]).unwrap();
    let mut far = wire.far.enter(raw);
    settle(&mut near, &packet(NEAR[0], FAR[0], PROTOCOL, 9), &mut far);
    wire.near.run("ip link del near");
    wire.lay();
    let (begin, ours) = (Instant::now(), packet(NEAR[0], FAR[0], PROTOCOL, 7));
    while near.queues() > 0 {
        send(&mut near, &[&ours]);
        near.wait(Some(Duration::from_millis(10)), None).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(10), "the interface is not missed");
    }
    // Of those before, some may have come through the sockets.
    let last = packet(NEAR[0], FAR[0], PROTOCOL, 6);
    assert_eq!(send(&mut near, &[&last]), [Fate::Sent]);
    let (mut batch, mut heard) = (IpBatch::new(1500), false);
    while !heard {
        assert!(far.wait(Some(Duration::from_secs(5)), None).unwrap().readable, "nothing came");
        far.receive(&mut batch).unwrap();
        heard = batch.iter().any(|(_, packet)| packet == last);
    }
    let back = packet(FAR[0], NEAR[0], PROTOCOL, 8);
    assert_eq!(send(&mut far, &[&back]), [Fate::Sent]);
    assert_eq!(receive(&mut near, 1), [back]);
}

/// Lays the wire anew with two queues each way.
fn lay_two_queues(wire: &Wire) {
    let queues = "numtxqueues 2 numrxqueues 2";
    wire.near.run("ip link del near");
    let far = wire.far.path();
    wire.near
        .run(&format!("ip link add near {queues} type veth peer name far {queues} netns {far}"));
    for (host, device, number) in [(&wire.near, "near", 1), (&wire.far, "far", 2)] {
        host.run(&format!(
            "ip address add 10.9.0.{number}/24 dev {device}; \
             ip address add 2001:db8:9::{number}/64 dev {device} nodad; ip link set {device} up"
        ));
    }
}

/// How many packets each got.
fn lens(received: &[Vec<Vec<u8>>]) -> [usize; 3] {
    std::array::from_fn(|at| received[at].len())
}

#[test]
fn two_threads_share_the_queues_of_an_interface_and_lose_nothing() {
    let Some(wire) = Wire::new() else { return };
    lay_two_queues(&wire);
    let share = || {
        XdpPackets::attach_shared(vec![raw(), sender(), sender()], &["near"], &Options::default())
    };
    let mut all = wire.near.enter(share).unwrap();
    let queues: Vec<usize> = all.iter().map(XdpPackets::queues).collect();
    assert_eq!(queues, [1, 1, 0]);
    // The kernel spreads over queues by the two addresses.
    let mut far = wire.far.enter(raw);
    let from = |number: usize| format!("10.9.0.{}", 10 + number);
    let mut sent: Vec<Vec<u8>> =
        (0..64).map(|number| packet(&from(number), NEAR[0], PROTOCOL, 20 + number)).collect();
    let slices: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
    assert_eq!(send(&mut far, &slices), [Fate::Sent; 64]);
    let (mut batch, mut received) = (IpBatch::new(2000), vec![Vec::new(); 3]);
    let begin = Instant::now();
    while received.iter().map(Vec::len).sum::<usize>() < 64 {
        for (one, received) in all.iter_mut().zip(&mut received) {
            one.wait(Some(Duration::from_millis(1)), None).unwrap();
            one.receive(&mut batch).unwrap();
            received.extend(batch.iter().map(|(_, packet)| packet.to_vec()));
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", lens(&received));
    }
    let [first, second, third] = lens(&received);
    assert!(first > 0 && second > 0 && third == 0, "{first}, {second}, {third}");
    let counted: Vec<u64> = all.iter().map(|one| one.counters().xdp_received_datagrams).collect();
    assert_eq!(counted, [first as u64, second as u64, 0]);
    let mut received: Vec<Vec<u8>> = received.concat();
    received.sort();
    sent.sort();
    assert!(received == sent);
    // What has a queue sends by it, and what has none by its raw socket.
    let out = packet(NEAR[0], FAR[0], PROTOCOL, 9);
    for one in &mut all[..2] {
        settle(one, &out, &mut far);
    }
    assert_eq!(send(&mut all[2], &[&out]), [Fate::Sent]);
    assert_eq!(receive(&mut far, 1), [out]);
    // A new address is served by both: the first looks after it.
    wire.near.run("ip address add 10.9.0.3/24 dev near");
    let begin = Instant::now();
    loop {
        let before: Vec<u64> =
            all.iter().map(|one| one.counters().xdp_received_datagrams).collect();
        let to_new: Vec<Vec<u8>> =
            (0..16).map(|number| packet(&from(number), "10.9.0.3", PROTOCOL, 9)).collect();
        let slices: Vec<&[u8]> = to_new.iter().map(Vec::as_slice).collect();
        assert_eq!(send(&mut far, &slices), [Fate::Sent; 16]);
        for one in &mut all {
            one.wait(Some(Duration::from_millis(50)), None).unwrap();
            while one.receive(&mut batch).unwrap() > 0 {}
        }
        let more = all.iter().zip(&before);
        if more.take(2).all(|(one, before)| one.counters().xdp_received_datagrams > *before) {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "the new address is not served");
    }
}

#[test]
fn sockets_that_cannot_share_come_back_as_they_were() {
    let Some(wire) = Wire::new() else { return };
    let share =
        || XdpPackets::attach_shared(vec![raw(), sender()], &["near", "none"], &Options::default());
    let refused = *wire.near.enter(share).unwrap_err();
    assert!(refused.refusal.to_string().contains("none"), "{}", refused.refusal);
    let mut sockets = refused.socket;
    assert_eq!(sockets.len(), 2);
    let mut far = wire.far.enter(raw);
    let (out, back) = (packet(NEAR[0], FAR[0], PROTOCOL, 9), packet(FAR[0], NEAR[0], PROTOCOL, 8));
    assert_eq!(send(&mut sockets[1], &[&out]), [Fate::Sent]);
    assert_eq!(receive(&mut far, 1), [out]);
    assert_eq!(send(&mut far, &[&back]), [Fate::Sent]);
    assert_eq!(receive(&mut sockets[0], 1), [back], "no program is left on the interface");
}

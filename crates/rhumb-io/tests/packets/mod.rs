//! What the tests of IP packets share: packets, and
//! sending and receiving them with a bound on time.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]
#![allow(dead_code, reason = "each user takes a part")]

use std::net::IpAddr;
use std::time::Duration;

use rhumb_io::ip::{Fate, IpBatch, IpIo, RawOptions, RawSocket};

/// For experiments (RFC 3692), and what Platypus has.
pub(crate) const PROTOCOL: u8 = 253;

/// A packet with `len` bytes behind its IP header.
pub(crate) fn packet(from: &str, to: &str, protocol: u8, len: usize) -> Vec<u8> {
    let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let payload = (0..len).map(|at| (at * 7 + len) as u8);
    let mut packet = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
            packet[2..4].copy_from_slice(&((20 + len) as u16).to_be_bytes());
            packet.extend(from.octets());
            packet.extend(to.octets());
            right_checksum(&mut packet);
            packet
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut packet = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
            packet[4..6].copy_from_slice(&(len as u16).to_be_bytes());
            packet.extend(from.octets());
            packet.extend(to.octets());
            packet
        }
        _ => panic!("{from} and {to}"),
    };
    packet.extend(payload);
    packet
}

/// Writes the checksum of an IPv4 header.
pub(crate) fn right_checksum(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let words = packet[..20].chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    let checksum = !((folded & 0xFFFF) + (folded >> 16)) as u16;
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Raw sockets that only send.
pub(crate) fn sender() -> RawSocket {
    RawSocket::open(&RawOptions::default()).unwrap()
}

/// Raw sockets for our protocol.
pub(crate) fn raw() -> RawSocket {
    RawSocket::open(&RawOptions { protocol: Some(PROTOCOL), ..RawOptions::default() }).unwrap()
}

/// Sends packets as one batch; returns what became of each.
#[track_caller]
pub(crate) fn send(by: &mut impl IpIo, packets: &[&[u8]]) -> Vec<Fate> {
    let mut batch = IpBatch::new(9000);
    for packet in packets {
        assert!(batch.push(packet));
    }
    let report = by.send(&mut batch).unwrap();
    let fates: Vec<Fate> = (0..batch.len()).map(|index| batch.fate(index)).collect();
    let count = |fate| fates.iter().filter(|it| **it == fate).count();
    let counted = [Fate::Sent, Fate::Busy, Fate::TooBig, Fate::Unreachable].map(count);
    let reported =
        [report.sent, report.dropped_busy, report.dropped_too_big, report.dropped_unreachable];
    assert_eq!(reported, counted);
    fates
}

/// Receives exactly `count` packets.
#[track_caller]
pub(crate) fn receive(by: &mut impl IpIo, count: usize) -> Vec<Vec<u8>> {
    let (mut batch, mut received) = (IpBatch::new(9000), Vec::new());
    while received.len() < count {
        let ready = by.wait(Some(Duration::from_secs(5)), None).unwrap();
        assert!(ready.readable, "{} of {count} packets came", received.len());
        let packets = by.receive(&mut batch).unwrap();
        assert_eq!(packets, batch.iter().count());
        received.extend(batch.iter().map(|(_, packet)| packet.to_vec()));
    }
    assert_eq!(received.len(), count, "more than were sent");
    received
}

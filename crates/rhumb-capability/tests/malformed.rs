//! Every reason for which a packet is dropped, by the least change
//! that leads to it; and nothing passes truncated.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use std::sync::Arc;

use rhumb_capability::{
    Carriage, DropReason, Epoch, Family, Revocation, Revocations, Suite, Verdict, steer,
};

use crate::world::*;

fn good(family: Family) -> Vec<u8> {
    let credentials =
        [delegated(family, 1, Suite::HeaderAes, 2), credential(family, 2, Suite::HeaderAes)];
    stamped(&[&credentials[0], &credentials[1]], &ip_packet(family, b"payload"))
}

#[track_caller]
fn refused(family: Family, at: usize, value: u8, expected: DropReason) {
    let mut packet = good(family);
    assert_ne!(packet[at], value, "a change");
    packet[at] = value;
    assert_eq!(reason(&mut verifier(family, 1), &packet), Some(expected), "byte {at}");
}

#[test]
fn outer_headers() {
    refused(Family::V4, 0, 0x55, DropReason::NotPlatypus);
    refused(Family::V4, 0, 0x46, DropReason::OuterOptions);
    refused(Family::V4, 0, 0x44, DropReason::OuterOptions);
    refused(Family::V4, 3, 0xFF, DropReason::Truncated);
    refused(Family::V4, 6, 0x20, DropReason::Fragment);
    refused(Family::V4, 7, 0x01, DropReason::Fragment);
    refused(Family::V4, 9, 6, DropReason::NotPlatypus);
    refused(Family::V6, 4, 0xFF, DropReason::Truncated);
    refused(Family::V6, 6, 44, DropReason::Fragment);
    refused(Family::V6, 6, 0, DropReason::NotPlatypus);
    assert_eq!(reason(&mut verifier(Family::V4, 1), &[]), Some(DropReason::Truncated));
    let mut short = good(Family::V4);
    short[2..4].copy_from_slice(&[0, 19]);
    assert_eq!(reason(&mut verifier(Family::V4, 1), &short), Some(DropReason::Truncated));
}

#[test]
fn udp_headers() {
    for family in [Family::V4, Family::V6] {
        let credential = credential(family, 1, Suite::HeaderAes);
        let stamper =
            rhumb_capability::Stamper::new(&[&credential], rhumb_capability::Encapsulation::UDP);
        let packet = stamp_with(&stamper.unwrap(), &ip_packet(family, b"x"), NOW_US);
        assert_eq!(reason(&mut verifier(family, 1), &packet), None);
        for (at, expected) in [(3, DropReason::NotPlatypus), (5, DropReason::InnerLength)] {
            let mut changed = packet.clone();
            changed[header_at(family) + at] ^= 1;
            assert_eq!(reason(&mut verifier(family, 1), &changed), Some(expected));
        }
    }
}

#[test]
fn the_fixed_header() {
    for family in [Family::V4, Family::V6] {
        let at = header_at(family);
        let fixed = if family == Family::V4 { 24 } else { 48 };
        let flags = if family == Family::V4 { 0x10 } else { 0x11 };
        refused(family, at, flags | 0x20, DropReason::Version);
        refused(family, at, flags | 4, DropReason::Reserved);
        refused(family, at, flags | 8, DropReason::Reserved);
        refused(family, at + 1, 0, DropReason::Suite);
        refused(family, at + 1, 4, DropReason::Suite);
        refused(family, at + 2, 0, DropReason::Count);
        refused(family, at + 2, 5, DropReason::Count);
        refused(family, at + 2, 1, DropReason::HeaderLength);
        refused(family, at + 3, 2, DropReason::Pointer);
        refused(family, at + fixed - 11, 0, DropReason::HeaderLength);
        refused(family, at + fixed - 11, 12, DropReason::HeaderLength);
        refused(family, at + fixed - 11, 255, DropReason::Truncated);
        refused(family, at + fixed - 10, 1, DropReason::InnerLength);
        refused(family, at + fixed - 9, 8, DropReason::InnerLength);
    }
    // "Do not fragment" says nothing of an IPv6 packet.
    refused(Family::V6, 40, 0x13, DropReason::Reserved);
    // The other family's header, in the outer header of this one.
    let datagram =
        Carriage::Datagram { destination: waypoint(Family::V6, 1), hop_limit: 9, traffic_class: 0 };
    let header = &good(Family::V4)[20..];
    let verdict = verify_as(&mut verifier(Family::V4, 1), header, datagram, NOW_US).0;
    assert_eq!(verdict, Verdict::Drop(DropReason::Family));
}

#[test]
fn capabilities() {
    // Waypoint 4, principal 4, window, epoch, scheme and levels,
    // flags; then prefix 4, length, id 3, twice.
    let first = 44;
    refused(Family::V4, first, 193, DropReason::WrongWaypoint);
    refused(Family::V4, first + 9, 4, DropReason::Epoch);
    refused(Family::V4, first + 10, 0x02, DropReason::Scheme);
    refused(Family::V4, first + 10, 0x42, DropReason::Scheme);
    refused(Family::V4, first + 10, 0x14, DropReason::Levels);
    refused(Family::V4, first + 10, 0x22, DropReason::Levels);
    refused(Family::V4, first + 10, 0x32, DropReason::Levels);
    refused(Family::V4, first + 10, 0x11, DropReason::Scheme);
    refused(Family::V4, first + 11, 1, DropReason::Reserved);
    refused(Family::V4, first + 15, 1, DropReason::Prefix);
    refused(Family::V4, first + 16, 33, DropReason::Prefix);
    refused(Family::V4, first + 16, 0, DropReason::Prefix);
    refused(Family::V4, first + 21, 21, DropReason::OutsidePrefix);
    // A second level that is wider than the first.
    let mut wider = good(Family::V4);
    wider[first + 20..first + 25].fill(0);
    assert_eq!(reason(&mut verifier(Family::V4, 1), &wider), Some(DropReason::NotNested));
    // The paper's schemes are for IPv4.
    refused(Family::V6, 40 + 48 + 22, 0x21, DropReason::Family);
}

#[test]
fn time_and_revocation() {
    let packet = good(Family::V4);
    for (now_us, expected) in [
        (NOW_US + 3_000_001, DropReason::Stale),
        (NOW_US - 500_001, DropReason::Early),
        (NOW_US + (2 << 11) * 1_000_000, DropReason::WindowExpired),
        (NOW_US - (2 << 11) * 1_000_000, DropReason::WindowEarly),
    ] {
        let verdict = reason_at(&mut verifier(Family::V4, 1), &packet, now_us);
        assert_eq!(verdict, Some(expected));
    }
    let mut revocations = Revocations::new();
    let id = delegation("0.0.0.0/0", 101).id;
    let order = Revocation { principal: PRINCIPAL, delegation: Some(id), until_s: u64::MAX };
    revocations.apply(1, &[order]).unwrap();
    let mut verifier = verifier(Family::V4, 1);
    assert_eq!(reason(&mut verifier, &packet), None);
    verifier.set_revocations(Arc::new(revocations));
    assert_eq!(reason(&mut verifier, &packet), Some(DropReason::Revoked));
    assert_eq!(verifier.drops().count(DropReason::Revoked), 1);
    let own = stamped(&[&credential(Family::V4, 1, Suite::HeaderAes)], &ip_packet(Family::V4, b""));
    assert_eq!(reason(&mut verifier, &own), None, "the principal itself goes on");
}

#[test]
fn a_packet_at_its_last_hop_is_told_of_only_when_proven() {
    let mut packet = good(Family::V4);
    for hops in [0, 1] {
        packet[8] = hops;
        let mut verifier = verifier(Family::V4, 1);
        assert_eq!(reason(&mut verifier, &packet), Some(DropReason::TtlExpired));
        assert_eq!(verifier.accounts().total().packets, 0);
        let mut forged = packet.clone();
        forged[40] ^= 1;
        let verdict = reason(&mut verifier, &forged).unwrap();
        assert!(!verdict.is_proven(), "{verdict:?}");
    }
    packet[8] = 2;
    assert_eq!(reason(&mut verifier(Family::V4, 1), &packet), None);
}

#[test]
fn what_is_cut_off_anywhere_is_refused() {
    for family in [Family::V4, Family::V6] {
        let packet = good(family);
        let mut verifier = verifier(family, 1);
        for len in 0..packet.len() {
            assert!(reason(&mut verifier, &packet[..len]).is_some(), "{len} bytes");
            // Where the outer header admits it, too.
            let mut told = packet[..len].to_vec();
            if len >= header_at(family) {
                let (at, less) = if family == Family::V4 { (2, 0) } else { (4, 40) };
                told[at..at + 2].copy_from_slice(&((len - less) as u16).to_be_bytes());
            }
            assert!(reason(&mut verifier, &told).is_some(), "{len} bytes, told");
        }
        assert_eq!(verifier.accounts().total().packets, 0);
        assert_eq!(reason(&mut verifier, &packet), None);
    }
}

#[test]
fn a_packet_that_would_become_too_long_is_refused() {
    let credential = credential(Family::V4, 1, Suite::HeaderAes);
    let stamper =
        rhumb_capability::Stamper::new(&[&credential], rhumb_capability::Encapsulation::Datagram);
    let mut packet = stamp_with(&stamper.unwrap(), &ip_packet(Family::V4, b""), NOW_US);
    packet.resize(packet.len() + 65_535, 0);
    packet[14..16].copy_from_slice(&[0xFF, 0xFF]);
    let carriage =
        Carriage::Datagram { destination: waypoint(Family::V4, 1), hop_limit: 9, traffic_class: 0 };
    let verdict = verify_as(&mut verifier(Family::V4, 1), &packet, carriage, NOW_US).0;
    assert_eq!(verdict, Verdict::Drop(DropReason::InnerLength));
}

#[test]
fn a_packet_of_another_core_is_refused() {
    let packet = good(Family::V4);
    let mut config = config(Family::V4, 1);
    config.cores = 4;
    let own = steer(source(Family::V4), destination(Family::V4), 4);
    for core in 0..4 {
        config.core = core;
        let expected = (core != own).then_some(DropReason::WrongCore);
        assert_eq!(reason(&mut verifier_of(config.clone(), 1), &packet), expected);
    }
}

#[test]
fn an_epoch_that_is_retired_is_refused() {
    let mut verifier = verifier(Family::V4, 1);
    verifier.retire_epoch(Epoch(9));
    assert_eq!(reason(&mut verifier, &good(Family::V4)), None);
    verifier.retire_epoch(EPOCH);
    assert_eq!(reason(&mut verifier, &good(Family::V4)), Some(DropReason::Epoch));
}

#[test]
fn addresses_that_are_none_pass_where_they_stand_for_something_else() {
    let family = Family::V6;
    for to in ["ff01:2345:6789::1", "fe80::1", "::1", "::ffff:10.0.0.1"] {
        let original = ip_packet_to(family, &[1; 30], to.parse().unwrap());
        let packet = stamped(&[&credential(family, 1, Suite::HeaderAes)], &original);
        assert_eq!(reason(&mut verifier(family, 1), &packet), Some(DropReason::Unroutable), "{to}");
        let mut config = config(family, 1);
        config.only_hosts = false;
        assert_eq!(reason(&mut verifier_of(config, 1), &packet), None, "{to}");
    }
}

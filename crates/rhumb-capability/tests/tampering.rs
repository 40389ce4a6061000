//! What a binding covers: every bit but those of the mask, and nothing can
//! be exchanged between packets or capabilities.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use rhumb_capability::{BINDING_LEN, Credential, DropReason, Family, HeaderView, Suite};

use crate::world::*;

const PAYLOAD: &[u8] = b"the payload of a packet";

fn credentials(family: Family, suite: Suite, count: u8) -> Vec<Credential> {
    (1..=count).map(|n| delegated(family, n, suite, usize::from(n - 1))).collect()
}

fn packet(family: Family, suite: Suite, count: u8) -> Vec<u8> {
    let credentials = credentials(family, suite, count);
    stamped(&credentials.iter().collect::<Vec<_>>(), &ip_packet(family, PAYLOAD))
}

/// Where the bindings of the packet's capabilities are.
fn bindings(family: Family, packet: &[u8]) -> Vec<std::ops::Range<usize>> {
    let header_at = header_at(family);
    let count = HeaderView::parse(&packet[header_at..]).unwrap().count();
    let width = if family == Family::V4 { 4 } else { 16 };
    let mut at = header_at + 16 + 2 * width;
    let mut places = Vec::new();
    for _ in 0..count {
        let levels = usize::from(packet[at + width + 6] & 15);
        let binding = at + width + 8 + levels * (width + 4);
        places.push(binding..binding + BINDING_LEN);
        at = binding + BINDING_LEN;
    }
    places
}

#[test]
fn every_immutable_bit_is_covered_and_no_other() {
    for family in [Family::V4, Family::V6] {
        for suite in Suite::ALL {
            for count in 1..=4 {
                flip_every_bit(family, suite, count);
            }
        }
    }
}

fn flip_every_bit(family: Family, suite: Suite, count: u8) {
    let whole = packet(family, suite, count);
    let header_at = header_at(family);
    let header_len = HeaderView::parse(&whole[header_at..]).unwrap().header().len();
    let bindings = bindings(family, &whole);
    let pointer = header_at + 3;
    for bit in header_at * 8..whole.len() * 8 {
        let (at, mask) = (bit / 8, 0x80 >> (bit % 8));
        let mut changed = whole.clone();
        changed[at] ^= mask;
        let is_payload = at >= header_at + header_len;
        let is_other_binding = bindings[1..].iter().any(|range| range.contains(&at));
        let may_pass = is_other_binding || is_payload && suite != Suite::PacketPolyval;
        let verdict = reason(&mut verifier(family, 1), &changed);
        assert_eq!(
            verdict.is_none(),
            may_pass,
            "{family:?} {suite} {count} bit {bit}: {verdict:?}"
        );
        if at == pointer {
            let pointer_says = [DropReason::Pointer, DropReason::WrongWaypoint];
            assert!(verdict.is_some_and(|reason| pointer_says.contains(&reason)));
        }
        if bindings[0].contains(&at) {
            assert_eq!(verdict, Some(DropReason::Binding));
        }
    }
}

#[test]
fn every_masked_bit_of_the_outer_header_may_change() {
    for family in [Family::V4, Family::V6] {
        for suite in Suite::ALL {
            let mut whole = packet(family, suite, 2);
            // A hop limit that no single bit makes too small.
            whole[if family == Family::V4 { 8 } else { 7 }] = 0x55;
            // TOS, identification, DF, TTL, checksum, source; traffic
            // class and flow label, hop limit, source.
            let masked: Vec<usize> = if family == Family::V4 {
                (8..16).chain(32..48).chain([49]).chain(64..72).chain(80..128).collect()
            } else {
                (4..32).chain(56..64).chain(64..192).collect()
            };
            for bit in masked {
                let mut changed = whole.clone();
                changed[bit / 8] ^= 0x80 >> (bit % 8);
                let verdict = reason(&mut verifier(family, 1), &changed);
                assert_eq!(verdict, None, "{family:?} bit {bit}");
            }
        }
    }
}

#[test]
fn the_outer_destination_is_the_waypoint() {
    for family in [Family::V4, Family::V6] {
        let mut config = config(family, 1);
        config.addresses.push(waypoint(family, 2));
        let whole = packet(family, Suite::HeaderAes, 1);
        let end = header_at(family);
        let start = if family == Family::V4 { 16 } else { 24 };
        for bit in start * 8..end * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 0x80 >> (bit % 8);
            let verdict = reason(&mut verifier_of(config.clone(), 1), &changed);
            assert_eq!(verdict, Some(DropReason::WrongWaypoint));
        }
        // To an address that is the waypoint's as well, but not the one that the capability names.
        let mut other = whole.clone();
        other[end - 1] = 2;
        let verdict = reason(&mut verifier_of(config, 1), &other);
        assert_eq!(verdict, Some(DropReason::WrongWaypoint));
    }
}

#[test]
fn capabilities_and_bindings_cannot_be_mixed_across_packets() {
    for suite in Suite::ALL {
        let credentials = credentials(Family::V4, suite, 3);
        let all: Vec<&Credential> = credentials.iter().collect();
        let first = stamped(&all, &ip_packet(Family::V4, b"one payload"));
        let mut ids = rhumb_capability::PacketIds::new(2, 9);
        let stamper =
            rhumb_capability::Stamper::new(&all, rhumb_capability::Encapsulation::IP).unwrap();
        let second = stamp_in(&stamper, &ip_packet(Family::V4, b"two payload"), &mut ids, NOW_US);
        assert_eq!(reason(&mut verifier(Family::V4, 1), &first), None);
        assert_eq!(reason(&mut verifier(Family::V4, 1), &second), None);
        let places = bindings(Family::V4, &first);
        // A binding of another packet, or of another place in the same one.
        for from in &places {
            let mut mixed = first.clone();
            mixed[places[0].clone()].copy_from_slice(&second[from.clone()]);
            let verdict = reason(&mut verifier(Family::V4, 1), &mixed);
            assert_eq!(verdict, Some(DropReason::Binding));
        }
        for from in &places[1..] {
            let mut mixed = first.clone();
            mixed.copy_within(from.clone(), places[0].start);
            let verdict = reason(&mut verifier(Family::V4, 1), &mixed);
            assert_eq!(verdict, Some(DropReason::Binding));
        }
        // A whole capability with its binding, of another packet.
        let mut mixed = first.clone();
        mixed[44..places[0].end].copy_from_slice(&second[44..places[0].end]);
        let verdict = reason(&mut verifier(Family::V4, 1), &mixed);
        assert_eq!(verdict, Some(DropReason::Binding));
    }
}

#[test]
fn the_same_capability_twice_has_two_bindings() {
    let credential = credential(Family::V4, 1, Suite::HeaderAes);
    let whole = stamped(&[&credential, &credential], &ip_packet(Family::V4, PAYLOAD));
    let places = bindings(Family::V4, &whole);
    assert_ne!(whole[places[0].clone()], whole[places[1].clone()]);
    // The second one's, where the pointer says first; and the
    // pointer at the second, with the first one's.
    let mut exchanged = whole.clone();
    exchanged.copy_within(places[1].clone(), places[0].start);
    assert_eq!(reason(&mut verifier(Family::V4, 1), &exchanged), Some(DropReason::Binding));
    let mut rewound = whole.clone();
    rewound[23] = 1;
    rewound.copy_within(places[0].clone(), places[1].start);
    assert_eq!(reason(&mut verifier(Family::V4, 1), &rewound), Some(DropReason::Binding));
}

#[test]
fn the_pointer_can_neither_be_skipped_nor_rewound() {
    let credentials = credentials(Family::V4, Suite::HeaderAes, 3);
    let all: Vec<&Credential> = credentials.iter().collect();
    let whole = stamped(&all, &ip_packet(Family::V4, PAYLOAD));
    // Skipped: to the second waypoint's capability, but the packet comes to the first.
    for pointer in 1..=255 {
        let mut skipped = whole.clone();
        skipped[23] = pointer;
        let expected = if pointer < 3 { DropReason::WrongWaypoint } else { DropReason::Pointer };
        assert_eq!(reason(&mut verifier(Family::V4, 1), &skipped), Some(expected));
    }
    // Rewound: back to the first, at the second waypoint;
    // and sent back to the first, which knows it.
    let mut first = verifier(Family::V4, 1);
    let (_, mut second) = forwarded(&mut first, &whole);
    second[23] = 0;
    let verdict = reason(&mut verifier(Family::V4, 2), &second);
    assert_eq!(verdict, Some(DropReason::WrongWaypoint));
    second[19] = 1;
    assert_eq!(reason(&mut first, &second), Some(DropReason::Replay));
}

#[test]
fn a_route_over_a_waypoint_twice_is_bounded() {
    let a = credential(Family::V4, 1, Suite::HeaderAes);
    let b = credential(Family::V4, 2, Suite::HeaderAes);
    let whole = stamped(&[&a, &b, &a], &ip_packet(Family::V4, PAYLOAD));
    let (mut first, mut second) = (verifier(Family::V4, 1), verifier(Family::V4, 2));
    let (_, at_b) = forwarded(&mut first, &whole);
    let (_, at_a) = forwarded(&mut second, &at_b);
    forwarded(&mut first, &at_a);
    assert_eq!(first.accounts().total().packets, 2);
    for again in [&whole, &at_a] {
        assert_eq!(reason(&mut first, again), Some(DropReason::Replay));
    }
    let too_many =
        rhumb_capability::Stamper::new(&[&a; 5], rhumb_capability::Encapsulation::IP).unwrap_err();
    assert_eq!(too_many, rhumb_capability::CapabilityError::CapabilityCount(5));
}

#[test]
fn what_travels_whole_goes_where_the_header_says() {
    let mut original = ip_packet(Family::V4, b"\x01\x01\x01\x00payload");
    original[0] = 0x46;
    set_checksum(&mut original);
    let whole = stamped(&[&credential(Family::V4, 1, Suite::HeaderAes)], &original);
    let inner = whole.len() - original.len();
    assert_eq!(reason(&mut verifier(Family::V4, 1), &whole), None);
    // Version, header length, total length, source,
    // destination: the header binding does not cover them.
    for at in [0, 2, 3, 12, 15, 16, 19] {
        let mut changed = whole.clone();
        changed[inner + at] ^= 0x0C;
        let verdict = reason(&mut verifier(Family::V4, 1), &changed);
        assert_eq!(verdict, Some(DropReason::InnerMismatch), "byte {at}");
    }
}

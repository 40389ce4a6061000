//! The whole way of a packet: stamped, over one to four waypoints, and
//! made again at the end as it was at the start.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic")]

use rhumb_capability::{
    Carriage, Credential, Encapsulation, Family, HeaderView, Next, PLATYPUS_PORT, Stamper, Suite,
    Usage, Verdict,
};

use crate::world::*;

/// What arrives of a packet: as it was sent, but for the hops.
fn as_delivered(mut packet: Vec<u8>, family: Family, hops: u8) -> Vec<u8> {
    if family == Family::V4 {
        packet[8] -= hops;
        set_checksum(&mut packet);
    } else {
        packet[7] -= hops;
    }
    packet
}

fn encapsulations(family: Family) -> [Encapsulation; 4] {
    let elsewhere = Some(waypoint(family, 99));
    [
        Encapsulation::IP,
        Encapsulation::UDP,
        Encapsulation::Ip { source: elsewhere },
        Encapsulation::Udp {
            source: elsewhere,
            source_port: 40_000,
            destination: None,
            port: PLATYPUS_PORT,
        },
    ]
}

#[test]
fn a_packet_arrives_as_it_was_sent() {
    for family in [Family::V4, Family::V6] {
        for suite in Suite::ALL {
            for waypoints in 1..=4_u8 {
                for encapsulation in encapsulations(family) {
                    goes_all_the_way(family, suite, waypoints, encapsulation);
                }
            }
        }
    }
}

fn goes_all_the_way(family: Family, suite: Suite, waypoints: u8, encapsulation: Encapsulation) {
    let credentials: Vec<Credential> =
        (1..=waypoints).map(|n| delegated(family, n, suite, usize::from(n) - 1)).collect();
    let stamper = Stamper::new(&credentials.iter().collect::<Vec<_>>(), encapsulation).unwrap();
    let original = ip_packet(family, b"twenty bytes of TCP!");
    let mut packet = stamp_with(&stamper, &original, NOW_US);
    assert_eq!(packet.len(), original.len() + stamper.overhead());
    assert_eq!(stamper.first_waypoint(), waypoint(family, 1));
    for number in 1..=waypoints {
        let mut verifier = verifier(family, number);
        let (advanced, next) = forwarded(&mut verifier, &packet);
        let account = advanced.account;
        assert_eq!(
            (account.principal, account.ids().count()),
            (PRINCIPAL, usize::from(number) - 1)
        );
        let usage = Usage { packets: 1, bytes: original.len() as u64 };
        assert_eq!(verifier.accounts().principal(PRINCIPAL), usage);
        if number == waypoints {
            assert_eq!(advanced.next, Next::Destination(destination(family)));
            assert_eq!(next, as_delivered(original.clone(), family, waypoints));
            return;
        }
        assert_eq!(advanced.next, Next::Waypoint(waypoint(family, number + 1)));
        let (at, addresses) = if family == Family::V4 { (8, 12..20) } else { (7, 8..40) };
        assert_eq!(next[at], 64 - number);
        let (own, other) = next[addresses.clone()].split_at(addresses.len() / 2);
        let octets = |number| match waypoint(family, number) {
            std::net::IpAddr::V4(v4) => v4.octets().to_vec(),
            std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        assert_eq!((own, other), (&octets(number)[..], &octets(number + 1)[..]));
        if family == Family::V4 {
            let mut again = next.clone();
            set_checksum(&mut again);
            assert_eq!(again, next, "the checksum is right");
        }
        packet = next;
    }
}

#[test]
fn datagrams_of_a_socket_go_the_same_way() {
    for family in [Family::V4, Family::V6] {
        let credentials = [1, 2].map(|n| credential(family, n, Suite::HeaderAes));
        let both = [&credentials[0], &credentials[1]];
        let stamper = Stamper::new(&both, Encapsulation::Datagram).unwrap();
        let original = ip_packet(family, b"data");
        let packet = stamp_with(&stamper, &original, NOW_US);
        let view = HeaderView::parse(&packet).unwrap();
        assert_eq!((view.source(), view.destination()), (source(family), destination(family)));
        let traffic_class = 0xB8;
        let carriage = |number, hop_limit| Carriage::Datagram {
            destination: waypoint(family, number),
            hop_limit,
            traffic_class,
        };
        let (verdict, packet) =
            verify_as(&mut verifier(family, 1), &packet, carriage(1, 64), NOW_US);
        let Verdict::Forward(first) = verdict else { panic!("{verdict:?}") };
        assert_eq!(first.next, Next::Waypoint(waypoint(family, 2)));
        assert_eq!((first.hop_limit, first.traffic_class), (63, 0xB8));
        assert_eq!(HeaderView::parse(&packet).unwrap().pointer(), 1);
        let (verdict, packet) =
            verify_as(&mut verifier(family, 2), &packet, carriage(2, 63), NOW_US);
        assert!(matches!(verdict, Verdict::Forward(_)));
        let mut expected = as_delivered(original, family, 2);
        if family == Family::V6 {
            // A socket tells no flow label, and its traffic class is the caller's word.
            expected[..4].copy_from_slice(&[0x6B, 0x80, 0, 0]);
        }
        assert_eq!(packet, expected);
    }
}

#[test]
fn a_udp_checksum_stays_right() {
    for family in [Family::V4, Family::V6] {
        let credentials = [1, 2].map(|n| credential(family, n, Suite::HeaderAes));
        let stamper =
            Stamper::new(&[&credentials[0], &credentials[1]], Encapsulation::UDP).unwrap();
        let mut packet = stamp_with(&stamper, &ip_packet(family, b"even"), NOW_US);
        let udp = header_at(family);
        let stamped = u16::from_be_bytes([packet[udp + 6], packet[udp + 7]]);
        packet[udp + 6..udp + 8].fill(0);
        let checksum = udp_checksum(family, &packet);
        // Over IPv4 there need not be one.
        assert_eq!(stamped, if family == Family::V6 { checksum } else { 0 });
        packet[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
        let (_, mut next) = forwarded(&mut verifier(family, 1), &packet);
        let carried = u16::from_be_bytes([next[udp + 6], next[udp + 7]]);
        next[udp + 6..udp + 8].fill(0);
        assert_eq!(carried, udp_checksum(family, &next));
        assert_ne!(carried, checksum);
    }
}

#[test]
fn a_waypoint_behind_a_translator_is_sent_to_where_that_has_it() {
    for family in [Family::V4, Family::V6] {
        let credential = credential(family, 1, Suite::HeaderAes);
        let outside = waypoint(family, 77);
        let udp =
            |destination| Encapsulation::Udp { source: None, source_port: 9, destination, port: 8 };
        let stamper = Stamper::new(&[&credential], udp(Some(outside))).unwrap();
        let original = ip_packet(family, b"inwards");
        let mut packet = stamp_with(&stamper, &original, NOW_US);
        let at = if family == Family::V4 { 16..20 } else { 24..40 };
        let octets = |address: std::net::IpAddr| match address {
            std::net::IpAddr::V4(v4) => v4.octets().to_vec(),
            std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        assert_eq!(packet[at.clone()], octets(outside));
        assert_eq!(packet[header_at(family)..][..4], [0, 9, 0, 8]);
        // What the translator does.
        packet[at].copy_from_slice(&octets(waypoint(family, 1)));
        packet[header_at(family) + 2..][..2].copy_from_slice(&PLATYPUS_PORT.to_be_bytes());
        let (_, delivered) = forwarded(&mut verifier(family, 1), &packet);
        assert_eq!(delivered, as_delivered(original, family, 1));
        let other = if family == Family::V4 { Family::V6 } else { Family::V4 };
        let mixed = Stamper::new(&[&credential], udp(Some(waypoint(other, 77))));
        assert!(mixed.is_err(), "{mixed:?}");
    }
}

/// Over the pseudo-header and a datagram whose own field is zero.
fn udp_checksum(family: Family, packet: &[u8]) -> u16 {
    let at = header_at(family);
    let addresses = if family == Family::V4 { &packet[12..20] } else { &packet[8..40] };
    let mut data = addresses.to_vec();
    data.extend_from_slice(&[0, 17]);
    data.extend_from_slice(&((packet.len() - at) as u16).to_be_bytes());
    data.extend_from_slice(&packet[at..]);
    if data.len() % 2 == 1 {
        data.push(0);
    }
    let mut sum: u32 = data.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    match !(sum as u16) {
        0 => 0xFFFF,
        checksum => checksum,
    }
}

#[test]
fn padding_behind_a_packet_is_left_behind() {
    let credential = credential(Family::V4, 1, Suite::HeaderAes);
    let original = ip_packet(Family::V4, b"x");
    let mut packet = stamped(&[&credential], &original);
    packet.extend_from_slice(&[0xAA; 7]);
    let (_, delivered) = forwarded(&mut verifier(Family::V4, 1), &packet);
    assert_eq!(delivered, as_delivered(original, Family::V4, 1));
}

#[test]
fn packets_whose_header_cannot_be_made_again_travel_whole() {
    let mut with_options = ip_packet(Family::V4, b"\x01\x01\x01\x00payload");
    with_options[0] = 0x46;
    let mut fragment = ip_packet(Family::V4, b"the second part");
    fragment[6..8].copy_from_slice(&[0x20, 0x10]);
    let mut tunnel = ip_packet(Family::V4, &ip_packet(Family::V4, b"inner"));
    tunnel[9] = 4;
    let credentials = [1, 2].map(|n| credential(Family::V4, n, Suite::HeaderAes));
    for mut original in [with_options, fragment, tunnel] {
        set_checksum(&mut original);
        let packet = stamped(&[&credentials[0], &credentials[1]], &original);
        let view = HeaderView::parse(&packet[20..]).unwrap();
        assert_eq!((view.protocol(), view.payload()), (4, &original[..]));
        let (_, packet) = forwarded(&mut verifier(Family::V4, 1), &packet);
        let mut second = verifier(Family::V4, 2);
        let (advanced, delivered) = forwarded(&mut second, &packet);
        assert_eq!(advanced.next, Next::Destination(destination(Family::V4)));
        assert_eq!(delivered, as_delivered(original.clone(), Family::V4, 2));
        assert_eq!(second.accounts().total().bytes, original.len() as u64);
    }
}

#[test]
fn a_packet_without_df_gets_an_identification_and_keeps_its_freedom() {
    let credential = credential(Family::V4, 1, Suite::HeaderAes);
    let mut original = ip_packet(Family::V4, b"x");
    original[6] = 0;
    set_checksum(&mut original);
    let packet = stamped(&[&credential], &original);
    assert_eq!(packet[6], 0x40, "outside, fragments are forbidden");
    let (_, delivered) = forwarded(&mut verifier(Family::V4, 1), &packet);
    assert_eq!(delivered[6], 0);
    assert_ne!(delivered[4..6], [0, 0]);
    assert_eq!(delivered[12..], original[12..]);
}

//! Ethernet frames with a UDP datagram in them: parse and emit.
//!
//! Invariant: parsing never panics, whatever the bytes; what [`emit`] writes, [`parse`] reads back.
//! Accepted is what the kernel's own receive path would hand to a socket: sound lengths, a right
//! IPv4 header checksum, a sender that can be answered. The checksum of UDP is not looked at:
//! between two virtual interfaces it is left unfinished, and a frame does not say so. What it would
//! find, the seal of the record finds. Source: RFC 768, 791, 8200, 1071.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ops::Range;

use crate::checksum::{fold, sum};
use crate::netlink::Mac;

/// Between whom a frame travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    /// Hardware address of the sender.
    pub(super) source_mac: Mac,
    /// Hardware address of the next hop.
    pub(super) next_mac: Mac,
    /// Address of the sender; of the same family as that of the receiver.
    pub(super) source: SocketAddr,
    /// Address of the receiver.
    pub(super) destination: SocketAddr,
}

/// Bytes in front of the payload, for a receiver at `address`.
pub(super) fn headers_len(address: IpAddr) -> usize {
    ETHERNET_LEN + UDP_LEN + if address.is_ipv4() { IPV4_LEN } else { IPV6_LEN }
}

/// The sender of the datagram in a frame that came in on `interface`, and where its payload stands.
/// `None` when it is malformed, empty, or from nobody in particular.
pub(super) fn parse(frame: &[u8], interface: u32) -> Option<(SocketAddr, Range<usize>)> {
    let packet = frame.get(ETHERNET_LEN..)?;
    match u16_at(frame, 12)? {
        ETHERTYPE_IPV4 => parse_v4(packet),
        ETHERTYPE_IPV6 => parse_v6(packet, interface),
        _ => None,
    }
    .map(|(peer, range)| (peer, ETHERNET_LEN + range.start..ETHERNET_LEN + range.end))
}

/// Writes a frame with `payload` and returns its length. The payload must fit behind the headers.
/// The frame is written and never read: a place that was sent from long ago is not in the cache,
/// and to read back what was just written there would wait for memory.
pub(super) fn emit(frame: &mut [u8], ends: &Ends, payload: &[u8]) -> usize {
    let start = headers_len(ends.destination.ip());
    let len = start + payload.len();
    let udp_len = UDP_LEN + payload.len();
    let (headers, rest) = frame[..len].split_at_mut(start);
    let (ethernet, headers) = headers.split_at_mut(ETHERNET_LEN);
    ethernet[..6].copy_from_slice(&ends.next_mac);
    ethernet[6..12].copy_from_slice(&ends.source_mac);
    let (ip, udp) = headers.split_at_mut(headers.len() - UDP_LEN);
    let addresses = match (ends.source.ip(), ends.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            ethernet[12..].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
            let (source, destination) = (source.octets(), destination.octets());
            let total_len = (IPV4_LEN + udp_len) as u16;
            let addresses = sum(&source) + sum(&destination);
            let checksum = !fold(sum(&IPV4_TEMPLATE) + word(total_len) + addresses);
            ip.copy_from_slice(&IPV4_TEMPLATE);
            ip[2..4].copy_from_slice(&total_len.to_be_bytes());
            ip[10..12].copy_from_slice(&checksum.to_ne_bytes());
            ip[12..16].copy_from_slice(&source);
            ip[16..20].copy_from_slice(&destination);
            addresses
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            ethernet[12..].copy_from_slice(&ETHERTYPE_IPV6.to_be_bytes());
            let (source, destination) = (source.octets(), destination.octets());
            ip[..8].copy_from_slice(&IPV6_TEMPLATE);
            ip[4..6].copy_from_slice(&(udp_len as u16).to_be_bytes());
            ip[8..24].copy_from_slice(&source);
            ip[24..40].copy_from_slice(&destination);
            sum(&source) + sum(&destination)
        }
        _ => unreachable!("invariant: both ends are of one family"),
    };
    let words = [ends.source.port(), ends.destination.port(), udp_len as u16];
    // The length stands in the pseudo-header, too.
    let pseudo = addresses + word(u16::from(PROTOCOL_UDP)) + word(udp_len as u16);
    let checksum = !fold(pseudo + words.map(word).iter().sum::<u64>() + sum(payload));
    // 0 would say that there is none.
    let checksum = if checksum == 0 { u16::MAX } else { checksum };
    for (at, word) in udp.chunks_exact_mut(2).zip(words) {
        at.copy_from_slice(&word.to_be_bytes());
    }
    udp[6..].copy_from_slice(&checksum.to_ne_bytes());
    rest.copy_from_slice(payload);
    len
}

/// What a word adds to a [`sum`] where it stands in network order.
fn word(value: u16) -> u64 {
    u64::from(u16::from_ne_bytes(value.to_be_bytes()))
}

/// The sender of the packet of `protocol` in a frame, and where the packet stands. `None` when it
/// is malformed, or from nobody in particular.
pub(super) fn parse_packet(frame: &[u8], protocol: u8) -> Option<(IpAddr, Range<usize>)> {
    let packet = frame.get(ETHERNET_LEN..)?;
    let (source, packet) = match u16_at(frame, 12)? {
        ETHERTYPE_IPV4 => ipv4(packet, protocol).map(|(from, it)| (IpAddr::V4(from), it))?,
        ETHERTYPE_IPV6 => ipv6(packet, protocol).map(|(from, it)| (IpAddr::V6(from), it))?,
        _ => return None,
    };
    Some((source, ETHERNET_LEN..ETHERNET_LEN + packet.len()))
}

/// Writes a frame with an IP packet and returns its length. The packet must fit.
pub(super) fn emit_packet(frame: &mut [u8], source: Mac, next: Mac, packet: &[u8]) -> usize {
    let version = packet.first().map_or(0, |first| first >> 4);
    let ethertype = if version == 4 { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
    frame[..6].copy_from_slice(&next);
    frame[6..12].copy_from_slice(&source);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    let len = ETHERNET_LEN + packet.len();
    frame[ETHERNET_LEN..len].copy_from_slice(packet);
    len
}

fn parse_v4(packet: &[u8]) -> Option<(SocketAddr, Range<usize>)> {
    let (source, packet) = ipv4(packet, PROTOCOL_UDP)?;
    let (port, range) = parse_udp(packet, IPV4_LEN)?;
    Some((SocketAddrV4::new(source, port).into(), range))
}

fn parse_v6(packet: &[u8], interface: u32) -> Option<(SocketAddr, Range<usize>)> {
    let (source, packet) = ipv6(packet, PROTOCOL_UDP)?;
    let (port, range) = parse_udp(packet, IPV6_LEN)?;
    let scope = if source.is_unicast_link_local() { interface } else { 0 };
    Some((SocketAddrV6::new(source, port, 0, scope).into(), range))
}

/// The sender of a plain packet of `protocol`, and the packet without what stands behind it.
fn ipv4(packet: &[u8], protocol: u8) -> Option<(Ipv4Addr, &[u8])> {
    let header = packet.get(..IPV4_LEN)?;
    let is_plain = header[0] == 0x45 && u16_at(header, 6)? & 0x3FFF == 0 && header[9] == protocol;
    let source = Ipv4Addr::from(<[u8; 4]>::try_from(&header[12..16]).ok()?);
    let is_somebody = !source.is_unspecified()
        && !source.is_multicast()
        && !source.is_broadcast()
        && !source.is_loopback();
    if !is_plain || !is_somebody || fold(sum(header)) != u16::MAX {
        return None;
    }
    let total = usize::from(u16_at(header, 2)?);
    Some((source, packet.get(..total).filter(|packet| packet.len() >= IPV4_LEN)?))
}

/// The same for IPv6.
fn ipv6(packet: &[u8], protocol: u8) -> Option<(Ipv6Addr, &[u8])> {
    let header = packet.get(..IPV6_LEN)?;
    let is_plain = header[0] >> 4 == 6 && header[6] == protocol;
    let address =
        |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(&header[at..at + 16]).ok()?));
    let (source, destination) = (address(8)?, address(24)?);
    let is_somebody = !source.is_unspecified()
        && !source.is_multicast()
        && !source.is_loopback()
        && source.to_ipv4_mapped().is_none()
        && destination.to_ipv4_mapped().is_none();
    if !is_plain || !is_somebody {
        return None;
    }
    let total = IPV6_LEN + usize::from(u16_at(header, 4)?);
    Some((source, packet.get(..total)?))
}

/// The source port, and where the payload stands in `packet`.
fn parse_udp(packet: &[u8], at: usize) -> Option<(u16, Range<usize>)> {
    let header = packet.get(at..at + UDP_LEN)?;
    let len = usize::from(u16_at(header, 4)?);
    let fits = len > UDP_LEN && at + len <= packet.len();
    fits.then_some(())?;
    Some((u16_at(header, 0)?, at + UDP_LEN..at + len))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

pub(super) const ETHERNET_LEN: usize = 14;
pub(super) const IPV4_LEN: usize = 20;
pub(super) const IPV6_LEN: usize = 40;
pub(super) const UDP_LEN: usize = 8;
pub(super) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(super) const ETHERTYPE_IPV6: u16 = 0x86DD;
pub(super) const PROTOCOL_UDP: u8 = 17;

/// Version and length, service, length, number 0, don't fragment, hop limit, protocol, checksum,
/// addresses. As the kernel sends datagrams that fit the path.
const IPV4_TEMPLATE: [u8; IPV4_LEN] =
    [0x45, 0, 0, 0, 0, 0, 0x40, 0, HOP_LIMIT, PROTOCOL_UDP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Version, class and flow, length, next header, hop limit.
const IPV6_TEMPLATE: [u8; 8] = [0x60, 0, 0, 0, 0, 0, PROTOCOL_UDP, HOP_LIMIT];
/// The kernel's default too.
const HOP_LIMIT: u8 = 64;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn ends(source: &str, destination: &str) -> Ends {
        Ends {
            source_mac: [2, 0, 0, 0, 0, 1],
            next_mac: [2, 0, 0, 0, 0, 2],
            source: source.parse().expect("an address"),
            destination: destination.parse().expect("an address"),
        }
    }

    pub(crate) fn frame(ends: &Ends, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0xEE; 4096];
        let len = emit(&mut frame, ends, payload);
        frame.truncate(len);
        frame
    }

    const PAIRS: [(&str, &str); 3] = [
        ("192.0.2.1:7", "192.0.2.2:65535"),
        ("[2001:db8::1]:7", "[2001:db8::2]:65535"),
        ("[fe80::1%3]:9", "[fe80::2%3]:7"),
    ];

    #[test]
    fn what_is_written_is_read_back_at_every_length() {
        for (source, destination) in PAIRS {
            let ends = ends(source, destination);
            for len in (1..70).chain([1399, 1400, 1472]) {
                let payload: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
                let mut frame = frame(&ends, &payload);
                let (peer, range) = parse(&frame, 3).expect("a good frame");
                assert_eq!((peer, &frame[range.clone()]), (ends.source, &payload[..]));
                // Ethernet pads short frames.
                frame.resize(frame.len() + 18, 0);
                assert_eq!(parse(&frame, 3), Some((ends.source, range)));
            }
        }
    }

    /// The checksum over pseudo-header, header and payload is all ones (RFC 768).
    #[test]
    fn the_checksums_are_right() {
        for (source, destination) in PAIRS {
            for payload in [&b"odd"[..], b"even", &[0xFF; 999], &[0; 2]] {
                let frame = frame(&ends(source, destination), payload);
                let start = frame.len() - payload.len() - UDP_LEN;
                let addresses = if source.starts_with('[') { 32 } else { 8 };
                // Word by word in network order: not the way it was made.
                let mut bytes = frame[start - addresses..].to_vec();
                bytes.extend(vec![0; bytes.len() % 2]);
                let words =
                    bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
                let mut total = words.sum::<u32>() + 17 + (payload.len() + UDP_LEN) as u32;
                while total > 0xFFFF {
                    total = (total & 0xFFFF) + (total >> 16);
                }
                assert_eq!(total, 0xFFFF, "{source} {}", payload.len());
            }
        }
    }

    /// A payload is chosen so that the sum comes out as 0, which is sent as all ones.
    #[test]
    fn a_checksum_of_zero_is_not_sent() {
        for (source, destination) in PAIRS {
            let ends = ends(source, destination);
            let checksum_at = headers_len(ends.destination.ip()) - 2;
            let before = frame(&ends, &[0, 0]);
            let frame = frame(&ends, &before[checksum_at..checksum_at + 2]);
            assert_eq!(frame[checksum_at..checksum_at + 2], [0xFF, 0xFF]);
        }
    }

    #[test]
    fn what_is_not_sound_is_refused() {
        let good = frame(&ends("192.0.2.1:7", "192.0.2.2:9"), b"payload");
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = good.clone();
            change(&mut frame);
            // The header checksum is made right again, so that it is not what refuses.
            frame[24..26].fill(0);
            let checksum = !fold(sum(&frame[14..34]));
            frame[24..26].copy_from_slice(&checksum.to_ne_bytes());
            assert_eq!(parse(&frame, 1), None);
        };
        refused(&|frame| frame[13] = 6); // ARP
        refused(&|frame| frame[14] = 0x46); // options
        refused(&|frame| frame[14] = 0x65); // version
        refused(&|frame| frame[17] += 1); // longer than the frame
        refused(&|frame| frame[17] = 27); // no room for UDP
        refused(&|frame| frame[20] = 0x20); // more fragments
        refused(&|frame| frame[21] = 1); // a later fragment
        refused(&|frame| frame[23] = 6); // TCP
        refused(&|frame| frame[26] = 127); // from loopback
        refused(&|frame| frame[26..30].fill(0)); // from nobody
        refused(&|frame| frame[26..30].fill(255)); // from everybody
        refused(&|frame| frame[26] = 224); // from a group
        refused(&|frame| frame[39] += 1); // UDP longer than IP
        refused(&|frame| frame[39] = 8); // empty
        let mut corrupt = good.clone();
        corrupt[22] ^= 1;
        assert_eq!(parse(&corrupt, 1), None, "header checksum");
        for len in 0..good.len() {
            assert_eq!(parse(&good[..len], 1), None, "{len} bytes");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_parsing_panic(
            mut bytes in proptest::collection::vec(0u8.., 0..200),
            shape in 0..3,
        ) {
            let starts: [&[u8]; 3] = [&[], &[8, 0, 0x45], &[0x86, 0xDD, 0x60]];
            let start = starts[shape as usize];
            if bytes.len() >= 15 {
                bytes[12..12 + start.len()].copy_from_slice(start);
            }
            if let Some((_, range)) = parse(&bytes, 1) {
                proptest::prop_assert!(range.end <= bytes.len() && !range.is_empty());
            }
        }
    }
}

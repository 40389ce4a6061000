//! As much of IP headers as I/O needs: whose packet, how long, whither.
//! And headers made for packets that come without.
//!
//! Invariant: nothing here panics, whatever the bytes. Source: RFC 791, RFC 8200.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::ipv4_header;

/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// Bytes of an IPv4 header without options.
pub(crate) const IPV4_LEN: usize = 20;
/// Bytes of an IPv6 header.
pub(crate) const IPV6_LEN: usize = 40;

/// Source and destination of a packet; `None` when its header is not
/// whole, or tells a length that is not the packet's.
pub fn ends_of(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    is_whole(packet).then_some(())?;
    let v4 = |at: usize| Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
    let v6 = |at: usize| Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?));
    match packet[0] >> 4 {
        4 => Some((v4(12)?, v4(16)?)),
        _ => Some((v6(8)?, v6(24)?)),
    }
}

/// Bytes of the IP header, options of IPv4 included, extension headers of IPv6 not.
pub(crate) fn header_len(packet: &[u8]) -> usize {
    match packet.first() {
        Some(first) if first >> 4 == 4 => usize::from(first & 0xF) * 4,
        _ => IPV6_LEN,
    }
}

/// Whether the header is there and says that the packet has the length that it has.
pub(crate) fn is_whole(packet: &[u8]) -> bool {
    let length = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= IPV4_LEN => {
            let header = header_len(packet);
            header >= IPV4_LEN && header <= packet.len() && length(2) == packet.len()
        }
        Some(6) if packet.len() >= IPV6_LEN => IPV6_LEN + length(4) == packet.len(),
        _ => false,
    }
}

/// An IPv4 header without options in front of
/// `payload_len` bytes, not to be cut, with its checksum.
pub(crate) fn ipv4(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    payload_len: usize,
) -> [u8; IPV4_LEN] {
    let mut header = [0; IPV4_LEN];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&((IPV4_LEN + payload_len) as u16).to_be_bytes());
    header[6] = DONT_FRAGMENT;
    header[8] = HOP_LIMIT;
    header[9] = protocol;
    header[12..16].copy_from_slice(&source.octets());
    header[16..].copy_from_slice(&destination.octets());
    let checksum = ipv4_header(&header);
    header[10..12].copy_from_slice(&checksum);
    header
}

/// What an IPv6 header says beside addresses and length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ipv6Fields {
    /// Traffic class and flow label, in network order, without the version.
    pub(crate) flow: u32,
    pub(crate) protocol: u8,
    pub(crate) hop_limit: u8,
}

/// An IPv6 header in front of `payload_len` bytes.
pub(crate) fn ipv6(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    fields: Ipv6Fields,
    payload_len: usize,
) -> [u8; IPV6_LEN] {
    let mut header = [0; IPV6_LEN];
    header[..4].copy_from_slice(&(u32::from_be(fields.flow) & 0x0FFF_FFFF | 6 << 28).to_be_bytes());
    header[4..6].copy_from_slice(&(payload_len as u16).to_be_bytes());
    header[6] = fields.protocol;
    header[7] = fields.hop_limit;
    header[8..24].copy_from_slice(&source.octets());
    header[24..].copy_from_slice(&destination.octets());
    header
}

/// The kernel's default too.
pub(crate) const HOP_LIMIT: u8 = 64;
const DONT_FRAGMENT: u8 = 0x40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{fold, sum};

    #[test]
    fn headers_made_are_whole_and_say_whose_they_are() {
        let (a, b) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
        let packet = [&ipv4(a, b, 253, 3)[..], b"abc"].concat();
        assert_eq!(ends_of(&packet), Some((a.into(), b.into())));
        assert_eq!((fold(sum(&packet[..20])), header_len(&packet)), (u16::MAX, 20));

        let (a, b) = (a.to_ipv6_mapped(), b.to_ipv6_mapped());
        let flow = 0xFFF5_4321_u32.to_be();
        let packet =
            [&ipv6(a, b, Ipv6Fields { flow, protocol: 253, hop_limit: 9 }, 3)[..], b"abc"].concat();
        assert_eq!(ends_of(&packet), Some((a.into(), b.into())));
        assert_eq!(packet[..8], [0x6F, 0xF5, 0x43, 0x21, 0, 3, 253, 9]);
        assert_eq!(header_len(&packet), 40);
        for len in 0..packet.len() {
            assert_eq!(ends_of(&packet[..len]), None, "{len} bytes");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(mut bytes in proptest::collection::vec(0u8.., 0..80), version in 3u8..8) {
            if let Some(first) = bytes.first_mut() {
                *first = version << 4 | *first & 0xF;
            }
            if let Some((source, destination)) = ends_of(&bytes) {
                proptest::prop_assert!(source.is_ipv4() == destination.is_ipv4());
                proptest::prop_assert!(header_len(&bytes) <= bytes.len());
            }
        }
    }
}

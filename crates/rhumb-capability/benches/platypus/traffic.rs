//! Packets of the bench: plain IPv4, stamped for a waypoint, and IPv6 with a
//! segment routing header (RFC 8754) that has an HMAC.

use std::net::{Ipv4Addr, Ipv6Addr};

use aws_lc_rs::hmac;
use rhumb_capability::{PacketIds, Stamper};
use rhumb_io::ip::IpBatch;

/// The packet lengths of the paper's Table 3, IP header included.
pub(crate) const SIZES: [usize; 3] = [68, 348, 1500];
/// The protocol of what is carried: the second of the two for experiments
/// (RFC 3692), since the first is Platypus's own.
pub(crate) const INNER_PROTOCOL: u8 = 254;
/// The number and the secret that the HMAC key has on the router.
pub(crate) const HMAC_KEY: (u32, &str) = (17, "rhumb-bench");

/// An IPv4 packet of `len` bytes in all.
pub(crate) fn ip_packet(from: Ipv4Addr, to: Ipv4Addr, len: usize) -> Vec<u8> {
    let mut packet = vec![0xA5; len];
    packet[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, INNER_PROTOCOL, 0, 0]);
    packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    packet[12..16].copy_from_slice(&from.octets());
    packet[16..20].copy_from_slice(&to.octets());
    let words =
        packet[..20].chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    let checksum = !((folded & 0xFFFF) + (folded >> 16)) as u16;
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// An IPv6 packet of about `len` bytes in all, not less than its headers
/// take, that goes by `segment` to `to`. Its segment routing header ends with
/// the HMAC that RFC 8754, section 2.1.2, says.
pub(crate) fn srv6_packet(from: Ipv6Addr, segment: Ipv6Addr, to: Ipv6Addr, len: usize) -> Vec<u8> {
    let [from, segment, to] = [from, segment, to].map(|address| address.octets());
    let key = hmac::Key::new(hmac::HMAC_SHA256, HMAC_KEY.1.as_bytes());
    let key_id = HMAC_KEY.0.to_be_bytes();
    // Source, last entry, flags, key, and the list, which begins with the last segment.
    let text = [&from[..], &[1, SRH_HAS_HMAC], &key_id, &to, &segment].concat();
    let header_units = ((SRV6_HEADERS - 40) / 8 - 1) as u8;
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, ROUTING_HEADER, 64];
    packet.extend([from, segment].concat());
    packet.extend([INNER_PROTOCOL, header_units, SEGMENT_ROUTING, 1, 1, SRH_HAS_HMAC, 0, 0]);
    packet.extend([to, segment].concat());
    packet.extend([HMAC_TLV, 38, 0, 0]);
    packet.extend(key_id);
    packet.extend(hmac::sign(&key, &text).as_ref());
    packet.resize(len.max(SRV6_HEADERS), 0xA5);
    let payload = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&payload.to_be_bytes());
    packet
}

/// Fills batches with copies of a packet, stamped each if
/// there is a stamper, and all ready to be sent.
pub(crate) fn fill(
    batches: &mut [IpBatch],
    per_batch: usize,
    packet: &[u8],
    stamper: Option<&Stamper>,
    ids: &mut PacketIds,
    now_us: u64,
) {
    for batch in batches {
        batch.clear();
        for number in 0..per_batch {
            assert!(batch.push(packet), "a packet of ours fits");
            if let Some(stamper) = stamper {
                let (room, range) = batch.room_mut(number);
                let stamped = stamper.stamp(room, range, ids, now_us).expect("room enough");
                batch.place(number, stamped);
            }
        }
    }
}

/// Bytes of an IPv6 header, and of a segment routing header with two segments and an HMAC.
const SRV6_HEADERS: usize = 40 + 8 + 2 * 16 + 40;
const ROUTING_HEADER: u8 = 43;
const SEGMENT_ROUTING: u8 = 4;
const HMAC_TLV: u8 = 5;
/// Linux checks an HMAC only if this flag of an early draft is set; RFC 8754 has no use for it.
const SRH_HAS_HMAC: u8 = 0x08;

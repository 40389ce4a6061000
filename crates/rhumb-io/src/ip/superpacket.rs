//! Superpackets of a TUN device: many TCP segments of one connection under one header, cut here
//! into the packets that they stand for. And packets whose checksum the stack left to us.
//!
//! Invariant: nothing here panics, whatever the bytes; what is cut has right checksums throughout.
//! Source: RFC 9293, Linux `include/uapi/linux/virtio_net.h`,
//! `Documentation/networking/segmentation-offloads.rst`.

use std::ops::Range;

use super::batch::{HEADROOM, IpBatch};
use super::header::{self, IPV4_LEN, IPV6_LEN};
use crate::checksum::{fold, ipv4_header, sum};

/// What the device says of a packet in front of it: `struct virtio_net_hdr`, of which it writes the
/// numbers in this machine's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prefix {
    needs_checksum: bool,
    kind: u8,
    /// Bytes of payload in each segment but the last.
    segment_len: usize,
    /// Where the transport header begins.
    transport: usize,
    /// Where in it the checksum stands.
    checksum: usize,
}

impl Prefix {
    fn parse(bytes: &[u8; PREFIX_LEN]) -> Self {
        let word = |at: usize| usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
        Self {
            needs_checksum: bytes[0] & NEEDS_CHECKSUM != 0,
            // A flag says that the sender has to hear of
            // congestion: the bits of the header say so, too.
            kind: bytes[1] & !KIND_ECN,
            segment_len: word(4),
            transport: word(6),
            checksum: word(8),
        }
    }
}

/// Appends what the device gave, a prefix and what it speaks of, to the batch. Returns how many
/// packets it was; `None` when it was none, or larger than the batch takes.
pub(super) fn accept(given: &mut [u8], packets: &mut IpBatch) -> Option<usize> {
    let (prefix, packet) = given.split_first_chunk_mut()?;
    let prefix = Prefix::parse(prefix);
    header::is_whole(packet).then_some(())?;
    match prefix.kind {
        KIND_NONE => {
            if prefix.needs_checksum {
                complete(packet, &prefix)?;
            }
            packets.push(packet).then_some(1)
        }
        KIND_TCP4 | KIND_TCP6 => Segments::of(packet, &prefix)?.cut(packets),
        _ => None,
    }
}

/// Of what a prefix speaks of, if it is segments of TCP: the kind, and their length.
pub(super) fn run_in(prefix: &[u8; PREFIX_LEN]) -> Option<(u8, usize)> {
    let prefix = Prefix::parse(prefix);
    let is_run = matches!(prefix.kind, KIND_TCP4 | KIND_TCP6);
    is_run.then_some((prefix.kind, prefix.segment_len))
}

/// Appends the packets of a run, whose TCP header stands at `transport`, to the batch.
pub(super) fn cut(
    packet: &[u8],
    transport: usize,
    segment_len: usize,
    packets: &mut IpBatch,
) -> Option<usize> {
    let prefix =
        Prefix { needs_checksum: true, kind: KIND_NONE, segment_len, transport, checksum: 0 };
    Segments::of(packet, &prefix)?.cut(packets)
}

/// Finishes a checksum: its place holds the sum of the pseudo-header.
fn complete(packet: &mut [u8], prefix: &Prefix) -> Option<()> {
    let at = prefix.transport + prefix.checksum;
    let checksum = !fold(sum(packet.get(prefix.transport..)?));
    // 0 would say to UDP that there is none; to TCP both are the same.
    let checksum = if checksum == 0 { u16::MAX } else { checksum };
    packet.get_mut(at..at + 2)?.copy_from_slice(&checksum.to_ne_bytes());
    Some(())
}

/// A superpacket, looked at.
struct Segments<'a> {
    packet: &'a [u8],
    /// Where the TCP header stands; before it is the IP header.
    tcp: Range<usize>,
    segment_len: usize,
}

impl<'a> Segments<'a> {
    fn of(packet: &'a [u8], prefix: &Prefix) -> Option<Self> {
        let start = prefix.transport;
        let least = if packet[0] >> 4 == 4 { header::header_len(packet) } else { IPV6_LEN };
        let words = usize::from(packet.get(start + 12)? >> 4);
        let tcp = start..start + words * 4;
        let sound = start >= least
            && tcp.len() >= TCP_LEN
            && tcp.end < packet.len()
            && prefix.segment_len > 0
            && (packet.len() - tcp.end).div_ceil(prefix.segment_len) <= MAX_SEGMENTS;
        sound.then_some(Self { packet, tcp, segment_len: prefix.segment_len })
    }

    /// Appends the segments to the batch.
    fn cut(&self, packets: &mut IpBatch) -> Option<usize> {
        let payload = &self.packet[self.tcp.end..];
        if self.tcp.end + self.segment_len.min(payload.len()) > packets.packet_len() {
            return None;
        }
        let mut count = 0;
        for (index, part) in payload.chunks(self.segment_len).enumerate() {
            let len = self.tcp.end + part.len();
            let packet = &mut packets.spare(1)[HEADROOM..HEADROOM + len];
            let (headers, rest) = packet.split_at_mut(self.tcp.end);
            headers.copy_from_slice(&self.packet[..self.tcp.end]);
            rest.copy_from_slice(part);
            let is_last = (index + 1) * self.segment_len >= payload.len();
            self.mend(packet, index, is_last);
            packets.received(HEADROOM, len);
            count += 1;
        }
        Some(count)
    }

    /// Makes the headers those of segment `index`.
    fn mend(&self, packet: &mut [u8], index: usize, is_last: bool) {
        let len = packet.len();
        let (ip, segment) = packet.split_at_mut(self.tcp.start);
        let addresses = if ip[0] >> 4 == 4 {
            ip[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            let number = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(index as u16);
            ip[4..6].copy_from_slice(&number.to_be_bytes());
            let checksum = ipv4_header(ip);
            ip[10..12].copy_from_slice(&checksum);
            &ip[12..IPV4_LEN]
        } else {
            ip[4..6].copy_from_slice(&((len - IPV6_LEN) as u16).to_be_bytes());
            &ip[8..IPV6_LEN]
        };
        let sequence = u32::from_be_bytes([segment[4], segment[5], segment[6], segment[7]]);
        let sequence = sequence.wrapping_add((index * self.segment_len) as u32);
        segment[4..8].copy_from_slice(&sequence.to_be_bytes());
        if !is_last {
            segment[13] &= !(TCP_FIN | TCP_PSH);
        }
        if index > 0 {
            segment[13] &= !TCP_CWR;
        }
        segment[16..18].fill(0);
        let lengths = sum(&(segment.len() as u32).to_be_bytes()) + sum(&[0, PROTOCOL_TCP]);
        let checksum = !fold(sum(addresses) + lengths + sum(segment));
        segment[16..18].copy_from_slice(&checksum.to_ne_bytes());
    }
}

/// Bytes of the prefix.
pub(super) const PREFIX_LEN: usize = 10;

/// Segments of a superpacket at most: more than fit at
/// any size of segment that is worth its headers.
const MAX_SEGMENTS: usize = 1024;

pub(super) const NEEDS_CHECKSUM: u8 = 1;
pub(super) const KIND_NONE: u8 = 0;
pub(super) const KIND_TCP4: u8 = 1;
pub(super) const KIND_TCP6: u8 = 4;
const KIND_ECN: u8 = 0x80;

pub(super) const PROTOCOL_TCP: u8 = 6;
pub(super) const TCP_LEN: usize = 20;
pub(super) const TCP_FIN: u8 = 0x01;
pub(super) const TCP_PSH: u8 = 0x08;
pub(super) const TCP_CWR: u8 = 0x80;

#[cfg(test)]
pub(super) mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::super::header::Ipv6Fields;
    use super::*;

    fn tcp(payload: usize) -> Vec<u8> {
        let mut segment = vec![0; 32];
        segment[4..8].copy_from_slice(&0xFFFF_FF00_u32.to_be_bytes());
        (segment[12], segment[13]) = (0x80, 0x10 | TCP_FIN | TCP_PSH | TCP_CWR);
        segment.extend((0..payload).map(|at| at as u8));
        segment
    }

    pub(in super::super) fn superpacket(v4: bool, payload: usize, segment_len: u16) -> Vec<u8> {
        let segment = tcp(payload);
        let header = if v4 {
            let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
            header::ipv4(from, to, PROTOCOL_TCP, segment.len()).to_vec()
        } else {
            let fields = Ipv6Fields { flow: 0, protocol: PROTOCOL_TCP, hop_limit: 64 };
            let (from, to) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
            header::ipv6(from, to, fields, segment.len()).to_vec()
        };
        let mut given = vec![NEEDS_CHECKSUM, if v4 { KIND_TCP4 } else { KIND_TCP6 } | KIND_ECN];
        for word in [0, segment_len, header.len() as u16, 16] {
            given.extend(word.to_ne_bytes());
        }
        [given, header, segment].concat()
    }

    #[test]
    fn segments_continue_each_other_and_have_right_checksums() {
        for (v4, ip_len) in [(true, 20), (false, 40)] {
            let mut packets = IpBatch::new(1500);
            assert_eq!(accept(&mut superpacket(v4, 2500, 1000), &mut packets), Some(3));
            let mut bytes = Vec::new();
            for (index, packet) in packets.iter() {
                assert!(header::is_whole(packet));
                let (ip, segment) = packet.split_at(ip_len);
                if v4 {
                    assert_eq!(fold(sum(ip)), u16::MAX);
                    assert_eq!(ip[4..6], [0, index as u8]);
                }
                let addresses = if v4 { &ip[12..20] } else { &ip[8..40] };
                let lengths = sum(&(segment.len() as u32).to_be_bytes()) + sum(&[0, 6]);
                assert_eq!(fold(sum(addresses) + lengths + sum(segment)), u16::MAX);
                let sequence = 0xFFFF_FF00_u32.wrapping_add(1000 * index as u32);
                assert_eq!(segment[4..8], sequence.to_be_bytes());
                let flags = [0x10 | TCP_CWR, 0x10, 0x10 | TCP_FIN | TCP_PSH][index];
                assert_eq!(segment[13], flags);
                bytes.extend_from_slice(&segment[32..]);
            }
            assert_eq!(bytes, tcp(2500)[32..]);
        }
    }

    #[test]
    fn what_does_not_fit_or_is_unsound_is_refused() {
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let (mut packets, mut given) = (IpBatch::new(1500), superpacket(true, 2500, 1000));
            change(&mut given);
            assert_eq!(accept(&mut given, &mut packets), None);
            assert!(packets.is_empty());
        };
        let set = |at: usize, value: u16| {
            move |given: &mut Vec<u8>| given[at..at + 2].copy_from_slice(&value.to_ne_bytes())
        };
        refused(&set(4, 0)); // no length
        refused(&set(4, 1)); // more segments than there can be
        refused(&set(4, 1449)); // segments larger than the room
        refused(&set(6, 19)); // TCP in the IP header
        refused(&set(6, 3000)); // TCP beyond the end
        refused(&|given| given[1] = 3); // UDP
        refused(&|given| given.truncate(9));
        refused(&|given| {
            given.pop();
        });
        refused(&|given| given[PREFIX_LEN + 20 + 12] = 0x40); // TCP header too short
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(
            prefix in proptest::array::uniform10(0u8..),
            kind in 0u8..6,
            small in proptest::array::uniform3(0u16..90),
            v4 in proptest::bool::ANY,
            payload in 0usize..300,
            at in 0usize..80,
            byte in 0u8..,
        ) {
            let mut given = superpacket(v4, payload, 100);
            given[..PREFIX_LEN].copy_from_slice(&prefix);
            given[1] = kind;
            for (to, word) in given[4..PREFIX_LEN].chunks_exact_mut(2).zip(small) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
            if let Some(place) = given.get_mut(PREFIX_LEN + at) {
                *place = byte;
            }
            let mut packets = IpBatch::new(200);
            let count = accept(&mut given, &mut packets).unwrap_or(0);
            proptest::prop_assert_eq!(count, packets.len());
        }
    }
}

//! The headers that the segments of one run of TCP share: whoever carries a run as a whole carries
//! them once, and makes those of each piece of it.
//!
//! Invariant: nothing here panics, whatever the bytes; what the stack gets has the lengths that its
//! headers say. Source: RFC 9293, Linux `include/uapi/linux/virtio_net.h`.

use std::fmt;
use std::net::IpAddr;

use super::header::{IPV4_LEN, IPV6_LEN};
use super::superpacket::{
    KIND_NONE, KIND_TCP4, KIND_TCP6, NEEDS_CHECKSUM, PREFIX_LEN, PROTOCOL_TCP, TCP_CWR, TCP_FIN,
    TCP_LEN, TCP_PSH,
};
use crate::checksum::{fold, ipv4_header, sum};

/// IP and TCP headers of the first segment of a run, with the flags of the whole. Lengths and
/// checksums are zero: they are of each piece.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RunHead {
    bytes: [u8; Self::LONGEST],
    len: usize,
    /// Where the TCP header begins.
    tcp: usize,
}

impl RunHead {
    /// Of IPv6 without extensions, and of TCP.
    pub const LONGEST: usize = IPV6_LEN + 60;

    /// Reads the headers of a run at the beginning of `bytes`. `None` when they are of anything
    /// else, or of segments that say more than that data follow, or that it ends there.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let ip = bytes.get(..IPV4_LEN)?;
        // Without options, and no fragment.
        let is_v4 = ip[0] == 0x45 && ip[9] == PROTOCOL_TCP && ip[6] & 0xBF == 0 && ip[7] == 0;
        let tcp = match is_v4 {
            true => IPV4_LEN,
            false if ip[0] >> 4 == 6 && ip[6] == PROTOCOL_TCP => IPV6_LEN,
            false => return None,
        };
        let len = tcp + usize::from(*bytes.get(tcp + 12)? >> 4) * 4;
        let flags = *bytes.get(tcp + 13)?;
        let is_data = flags & TCP_ACK != 0 && flags & !TCP_FLAGS_OF_DATA == 0;
        (is_data && len >= tcp + TCP_LEN).then_some(())?;
        let mut head = Self { bytes: [0; Self::LONGEST], len, tcp };
        head.bytes[..len].copy_from_slice(bytes.get(..len)?);
        for cleared in head.of_each_piece() {
            head.bytes[cleared..cleared + 2].fill(0);
        }
        Some(head)
    }

    /// The places of lengths and checksums, two bytes each.
    fn of_each_piece(&self) -> [usize; 3] {
        let (length, checksum) = if self.tcp == IPV4_LEN { (2, 10) } else { (4, 4) };
        [length, checksum, self.tcp + TCP_CHECKSUM]
    }

    /// The headers.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Where the TCP header begins in them.
    pub fn tcp_at(&self) -> usize {
        self.tcp
    }

    /// Source and destination.
    pub fn ends(&self) -> (IpAddr, IpAddr) {
        let v4 = |at: usize| {
            let [a, b, c, d, ..] = self.bytes[at..] else { return [0; 4].into() };
            IpAddr::from([a, b, c, d])
        };
        let v6 = |at: usize| {
            let octets: Option<&[u8; 16]> = self.bytes[at..].first_chunk();
            IpAddr::from(octets.copied().unwrap_or_default())
        };
        if self.tcp == IPV4_LEN { (v4(12), v4(16)) } else { (v6(8), v6(24)) }
    }

    /// The headers of a piece of the run that begins `offset` bytes behind the first one's payload,
    /// whose segments have `segment_len` bytes, and that is the end of it or not.
    #[must_use]
    pub fn piece(&self, offset: usize, segment_len: usize, is_end: bool) -> Self {
        let mut piece = *self;
        let tcp = self.tcp;
        let add = |bytes: &mut [u8], more: u32| {
            let [a, b, c, d, ..] = *bytes else { return };
            let sum = u32::from_be_bytes([a, b, c, d]).wrapping_add(more);
            bytes[..4].copy_from_slice(&sum.to_be_bytes());
        };
        add(&mut piece.bytes[tcp + 4..], offset as u32);
        if tcp == IPV4_LEN {
            let number = u16::from_be_bytes([piece.bytes[4], piece.bytes[5]]);
            let number = number.wrapping_add((offset / segment_len.max(1)) as u16);
            piece.bytes[4..6].copy_from_slice(&number.to_be_bytes());
        }
        let flags = &mut piece.bytes[tcp + 13];
        if !is_end {
            *flags &= !(TCP_FIN | TCP_PSH);
        }
        if offset > 0 {
            *flags &= !TCP_CWR;
        }
        piece
    }

    /// With the flag of segments that are to be handed on at once, or without it.
    pub(super) fn pushed(mut self, is_pushed: bool) -> Self {
        let flags = &mut self.bytes[self.tcp + 13];
        *flags = if is_pushed { *flags | TCP_PSH } else { *flags & !TCP_PSH };
        self
    }

    /// What the device wants before `payload` bytes, which it is to cut into segments of
    /// `segment_len`: a prefix, and the headers. `None` when that is more than a packet can be.
    pub(super) fn before(&self, payload: usize, segment_len: usize) -> Option<Written> {
        let whole = u16::try_from(self.len + payload).ok()?;
        let gso = u16::try_from(segment_len).ok().filter(|it| *it > 0)?;
        let mut written =
            Written { bytes: [0; PREFIX_LEN + Self::LONGEST], len: PREFIX_LEN + self.len };
        let (prefix, headers) = written.bytes.split_at_mut(PREFIX_LEN);
        let kind = match self.tcp {
            _ if payload <= segment_len => KIND_NONE,
            IPV4_LEN => KIND_TCP4,
            _ => KIND_TCP6,
        };
        (prefix[0], prefix[1]) = (NEEDS_CHECKSUM, kind);
        let gso = if kind == KIND_NONE { 0 } else { gso };
        let words = [self.len as u16, gso, self.tcp as u16, TCP_CHECKSUM as u16];
        for (to, word) in prefix[2..].chunks_exact_mut(2).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        headers.copy_from_slice(&self.bytes);
        let addresses = if self.tcp == IPV4_LEN {
            headers[2..4].copy_from_slice(&whole.to_be_bytes());
            let checksum = ipv4_header(&headers[..IPV4_LEN]);
            headers[10..12].copy_from_slice(&checksum);
            sum(&headers[12..IPV4_LEN])
        } else {
            headers[4..6].copy_from_slice(&(whole - IPV6_LEN as u16).to_be_bytes());
            sum(&headers[8..IPV6_LEN])
        };
        // The rest of the sum is for whoever cuts it.
        let segment = (self.len - self.tcp + payload) as u32;
        let lengths = sum(&segment.to_be_bytes()) + sum(&[0, PROTOCOL_TCP]);
        let at = self.tcp + TCP_CHECKSUM;
        headers[at..at + 2].copy_from_slice(&fold(addresses + lengths).to_ne_bytes());
        Some(written)
    }
}

impl fmt::Debug for RunHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunHead").field(&self.ends()).finish()
    }
}

/// What is written before a run's payload.
pub(super) struct Written {
    bytes: [u8; PREFIX_LEN + RunHead::LONGEST],
    len: usize,
}

impl Written {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

pub(super) const TCP_ACK: u8 = 0x10;
const TCP_ECE: u8 = 0x40;
/// What segments that the stack hands over together may say.
const TCP_FLAGS_OF_DATA: u8 = TCP_ACK | TCP_PSH | TCP_FIN | TCP_ECE | TCP_CWR;
const TCP_CHECKSUM: usize = 16;

#[cfg(test)]
mod tests {
    use super::super::batch::IpBatch;
    use super::super::superpacket::{self, tests::superpacket};
    use super::*;

    /// The packets that a superpacket, as the device gave it, stands for.
    fn cut(given: &[u8]) -> Vec<Vec<u8>> {
        let mut batch = IpBatch::new(2000);
        superpacket::accept(&mut given.to_vec(), &mut batch).unwrap();
        batch.iter().map(|(_, it)| it.to_vec()).collect()
    }

    #[test]
    fn pieces_of_a_run_are_the_segments_that_it_would_be_cut_into() {
        for v4 in [true, false] {
            let given = superpacket(v4, 3500, 1000);
            let packet = &given[PREFIX_LEN..];
            let head = RunHead::parse(packet).unwrap();
            let payload = &packet[head.bytes().len()..];
            // In one, and in two that are cut where segments are.
            for cuts in [
                std::iter::once(0..3500).collect(),
                vec![0..2000, 2000..3500],
                vec![0..1000, 1000..3500],
            ] {
                let mut again = Vec::new();
                for range in cuts {
                    let piece = head.piece(range.start, 1000, range.end == 3500);
                    let written = piece.before(range.len(), 1000).unwrap();
                    again.extend(cut(&[written.bytes(), &payload[range]].concat()));
                }
                assert_eq!(again, cut(&given), "{v4}");
            }
            // Segments that begin elsewhere have the same bytes in the same places.
            let piece = head.piece(700, 1000, false);
            let written = piece.before(1500, 1000).unwrap();
            let segments = cut(&[written.bytes(), &payload[700..2200]].concat());
            let bytes: Vec<u8> =
                segments.iter().flat_map(|it| it[head.bytes().len()..].to_vec()).collect();
            assert_eq!(bytes, payload[700..2200]);
            let sequence =
                |it: &[u8]| u32::from_be_bytes(*it[head.tcp_at() + 4..].first_chunk().unwrap());
            assert_eq!(sequence(&segments[0]), sequence(packet).wrapping_add(700));
            assert_eq!(segments[0][head.tcp_at() + 13], TCP_ACK);
        }
    }

    #[test]
    fn headers_of_other_things_are_none() {
        for v4 in [true, false] {
            let given = superpacket(v4, 100, 50);
            let packet = &given[PREFIX_LEN..];
            let tcp = if v4 { 20 } else { 40 };
            let with = |at: usize, byte: u8| {
                let mut other = packet.to_vec();
                other[at] = byte;
                RunHead::parse(&other)
            };
            assert!(with(tcp + 13, 0x10).is_some());
            // SYN, RST, URG, no ACK; a header that is too short.
            for flags in [0x12, 0x14, 0x30, 0x08] {
                assert_eq!(with(tcp + 13, flags), None, "{flags:x}");
            }
            assert_eq!(with(tcp + 12, 0x40), None);
            assert_eq!(with(0, 0x55), None);
            assert_eq!(with(if v4 { 9 } else { 6 }, 17), None);
            if v4 {
                assert!(with(0, 0x46).is_none() && with(6, 0x20).is_none() && with(7, 1).is_none());
            }
            for len in 0..tcp + 32 {
                assert_eq!(RunHead::parse(&packet[..len]), None);
            }
        }
    }

    #[test]
    fn nothing_is_longer_than_a_packet_can_be() {
        let given = superpacket(false, 100, 50);
        let head = RunHead::parse(&given[PREFIX_LEN..]).unwrap();
        let most = 65_535 - head.bytes().len();
        assert!(head.before(most, 1000).is_some() && head.before(most + 1, 1000).is_none());
        assert!(head.before(10, 0).is_none() && head.before(10, 65_536).is_none());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in proptest::collection::vec(0u8.., 0..140), offset in 0usize..70_000) {
            if let Some(head) = RunHead::parse(&bytes) {
                let again = RunHead::parse(head.bytes());
                proptest::prop_assert_eq!(again, Some(head));
                let _ = head.piece(offset, offset % 3, true).before(offset, 1000);
                let _ = head.ends();
            }
        }
    }
}

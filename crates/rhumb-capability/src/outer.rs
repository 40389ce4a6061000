//! The IP header, and perhaps the UDP header, around a
//! Platypus header. `docs/platypus.md`, section 1.
//!
//! Checksums of what comes in are not looked at: they protect nothing that a binding does not, and
//! whoever receives for us has looked at them. Those of what goes out are made anew.

use crate::bits::Bits;
use crate::{DropReason, Family};

/// The IP protocol of Platypus: one of the two that are set aside for experiments (RFC 3692).
pub const PLATYPUS_PROTOCOL: u8 = 253;
/// The UDP port of Platypus, where it is carried in UDP.
pub const PLATYPUS_PORT: u16 = 7470;

/// What of the headers around is needed later.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outer {
    pub(crate) family: Family,
    /// From the start of the packet to the Platypus header.
    pub(crate) header_at: usize,
    /// From the start of the packet to its end; what follows is padding.
    pub(crate) end: usize,
    pub(crate) destination: Bits,
    pub(crate) hop_limit: u8,
    /// TOS, or traffic class: DSCP and ECN.
    pub(crate) traffic_class: u8,
    pub(crate) flow_label: u32,
    pub(crate) is_udp: bool,
}

impl Outer {
    pub(crate) const NONE: Self = Self {
        family: Family::V4,
        header_at: 0,
        end: 0,
        destination: Bits::ZERO,
        hop_limit: 0,
        traffic_class: 0,
        flow_label: 0,
        is_udp: false,
    };

    /// Reads the headers of an IP packet up to the Platypus header.
    #[inline(always)]
    pub(crate) fn parse(packet: &[u8], port: u16) -> Result<Self, DropReason> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => Self::parse_v4(packet, port),
            Some(6) => Self::parse_v6(packet, port),
            Some(_) => Err(DropReason::NotPlatypus),
            None => Err(DropReason::Truncated),
        }
    }

    #[inline(always)]
    fn parse_v4(packet: &[u8], port: u16) -> Result<Self, DropReason> {
        let header: &[u8; V4_LEN] = packet.first_chunk().ok_or(DropReason::Truncated)?;
        if header[0] != 0x45 {
            return Err(DropReason::OuterOptions);
        }
        let end = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if end > packet.len() || end < V4_LEN {
            return Err(DropReason::Truncated);
        }
        if u16::from_be_bytes([header[6], header[7]]) & MORE_OR_OFFSET != 0 {
            return Err(DropReason::Fragment);
        }
        let (header_at, is_udp) = inside(&packet[..end], V4_LEN, header[9], port)?;
        Ok(Self {
            family: Family::V4,
            header_at,
            end,
            destination: Bits::read(Family::V4, &header[16..]),
            hop_limit: header[8],
            traffic_class: header[1],
            flow_label: 0,
            is_udp,
        })
    }

    fn parse_v6(packet: &[u8], port: u16) -> Result<Self, DropReason> {
        let header: &[u8; V6_LEN] = packet.first_chunk().ok_or(DropReason::Truncated)?;
        let end = V6_LEN + usize::from(u16::from_be_bytes([header[4], header[5]]));
        if end > packet.len() {
            return Err(DropReason::Truncated);
        }
        if header[6] == V6_FRAGMENT {
            return Err(DropReason::Fragment);
        }
        let (header_at, is_udp) = inside(&packet[..end], V6_LEN, header[6], port)?;
        let first = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        Ok(Self {
            family: Family::V6,
            header_at,
            end,
            destination: Bits::read(Family::V6, &header[24..]),
            hop_limit: header[7],
            traffic_class: (first >> 20) as u8,
            flow_label: first & FLOW_LABEL,
            is_udp,
        })
    }
}

/// Where the Platypus header begins behind an IP header, and whether in UDP.
#[inline(always)]
fn inside(packet: &[u8], at: usize, protocol: u8, port: u16) -> Result<(usize, bool), DropReason> {
    match protocol {
        PLATYPUS_PROTOCOL => Ok((at, false)),
        UDP => {
            let udp: &[u8; UDP_LEN] = packet[at..].first_chunk().ok_or(DropReason::Truncated)?;
            if u16::from_be_bytes([udp[2], udp[3]]) != port {
                return Err(DropReason::NotPlatypus);
            }
            if usize::from(u16::from_be_bytes([udp[4], udp[5]])) != packet.len() - at {
                return Err(DropReason::InnerLength);
            }
            Ok((at + UDP_LEN, true))
        }
        _ => Err(DropReason::NotPlatypus),
    }
}

/// An IP header to write.
pub(crate) struct IpHeader {
    pub(crate) family: Family,
    pub(crate) source: Bits,
    pub(crate) destination: Bits,
    pub(crate) protocol: u8,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    pub(crate) flow_label: u32,
    /// IPv4: what a fragment would be known by.
    pub(crate) identification: u16,
    pub(crate) do_not_fragment: bool,
}

impl IpHeader {
    /// Bytes of an IP header without options.
    pub(crate) const fn len(family: Family) -> usize {
        match family {
            Family::V4 => V4_LEN,
            Family::V6 => V6_LEN,
        }
    }

    /// Made of numbers: a checksum read back from bytes just written would wait for them.
    #[inline(always)]
    fn write_v4(&self, header: &mut [u8; V4_LEN], len: u16) {
        let flags = if self.do_not_fragment { DO_NOT_FRAGMENT } else { 0 };
        let word = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
        let first = word(u16::from_be_bytes([0x45, self.traffic_class]), len);
        let second = word(self.identification, flags);
        let hops = u16::from_be_bytes([self.hop_limit, self.protocol]);
        let [source, destination] =
            [self.source, self.destination].map(|bits| u32::from_be_bytes(bits.octets_v4()));
        // Sums of halves are those of words, taken apart at the end.
        let words = [first, second, u32::from(hops) << 16, source, destination];
        let sum: u64 = words.into_iter().map(u64::from).sum();
        let third = word(hops, !fold_words(sum));
        let pair = |high: u32, low: u32| (u64::from(high) << 32 | u64::from(low)).to_be_bytes();
        header[..8].copy_from_slice(&pair(first, second));
        header[8..16].copy_from_slice(&pair(third, source));
        header[16..].copy_from_slice(&destination.to_be_bytes());
    }

    /// Writes the header of a packet of which `packet` is all, itself included.
    #[inline(always)]
    pub(crate) fn write(&self, packet: &mut [u8]) {
        let long_enough = "invariant: a packet begins with its header";
        let len = packet.len() as u16;
        match self.family {
            Family::V4 => {
                let header: &mut [u8; V4_LEN] = packet.first_chunk_mut().expect(long_enough);
                self.write_v4(header, len);
            }
            Family::V6 => {
                let header: &mut [u8; V6_LEN] = packet.first_chunk_mut().expect(long_enough);
                let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label;
                header[..4].copy_from_slice(&first.to_be_bytes());
                header[4..6].copy_from_slice(&(len - V6_LEN as u16).to_be_bytes());
                header[6..8].copy_from_slice(&[self.protocol, self.hop_limit]);
                header[8..24].copy_from_slice(&self.source.octets_v6());
                header[24..40].copy_from_slice(&self.destination.octets_v6());
            }
        }
    }
}

/// Sends an IP packet on: hop limit, addresses and checksums; `pointer` is
/// the word of the Platypus header that changed.
pub(crate) fn redirect(
    packet: &mut [u8],
    outer: &Outer,
    source: Bits,
    destination: Bits,
    pointer: Change,
) {
    let (addresses, hops) = match outer.family {
        Family::V4 => (12..20, 8),
        Family::V6 => (8..40, 7),
    };
    packet[hops] = outer.hop_limit - 1;
    let mut sum = Checksum::default();
    sum.change(pointer);
    sum.remove(&packet[addresses.clone()]);
    match outer.family {
        Family::V4 => {
            packet[12..16].copy_from_slice(&source.octets_v4());
            packet[16..20].copy_from_slice(&destination.octets_v4());
            write_v4_checksum(&mut packet[..V4_LEN]);
        }
        Family::V6 => {
            packet[8..24].copy_from_slice(&source.octets_v6());
            packet[24..40].copy_from_slice(&destination.octets_v6());
        }
    }
    sum.add(&packet[addresses]);
    if outer.is_udp {
        let at = outer.header_at - 2;
        let old = u16::from_be_bytes([packet[at], packet[at + 1]]);
        // Zero says that there is none, which tunnels may do (RFC 6935).
        if old != 0 {
            packet[at..at + 2].copy_from_slice(&sum.update(old).to_be_bytes());
        }
    }
}

/// A word that changed.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    pub(crate) old: u16,
    pub(crate) new: u16,
}

/// What an internet checksum changes by: RFC 1624, equation 3.
#[derive(Default)]
struct Checksum(u64);

impl Checksum {
    fn change(&mut self, change: Change) {
        self.0 += u64::from(!change.old) + u64::from(change.new);
    }

    fn remove(&mut self, bytes: &[u8]) {
        self.0 += words(bytes).map(|word| u64::from(!word)).sum::<u64>();
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0 += words(bytes).map(u64::from).sum::<u64>();
    }

    fn update(&self, old: u16) -> u16 {
        // In UDP zero means none, and all ones is the same number.
        match !fold(self.0 + u64::from(!old)) {
            0 => 0xFFFF,
            checksum => checksum,
        }
    }
}

/// Writes the checksum of an IPv4 header, options included.
#[inline]
pub(crate) fn write_v4_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = !fold(words(header).map(u64::from).sum());
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// An internet checksum of bytes and of what was summed before;
/// `bytes` of an odd number end as if a zero followed.
pub(crate) fn checksum(before: u64, bytes: &[u8]) -> u16 {
    let odd = if bytes.len() % 2 == 1 { u64::from(bytes[bytes.len() - 1]) << 8 } else { 0 };
    !fold(before + words(bytes).map(u64::from).sum::<u64>() + odd)
}

/// What a pseudo-header of IPv6 adds to a checksum (RFC 8200, 8.1).
pub(crate) fn pseudo_header_v6(packet: &[u8], len: usize, protocol: u8) -> u64 {
    let addresses = words(&packet[8..40]).map(u64::from).sum::<u64>();
    addresses + len as u64 + u64::from(protocol)
}

/// Writes the checksum of an IPv6 packet that is one UDP datagram, whose own
/// is zero. Over IPv6 there has to be one: kernels drop what has none,
/// unless they were told about the port (RFC 6935).
pub(crate) fn write_udp_checksum_v6(packet: &mut [u8]) {
    let before = pseudo_header_v6(packet, packet.len() - V6_LEN, UDP);
    // Zero would say that there is none, and all ones is the same number.
    let sum = match checksum(before, &packet[V6_LEN..]) {
        0 => 0xFFFF,
        sum => sum,
    };
    packet[V6_LEN + 6..V6_LEN + 8].copy_from_slice(&sum.to_be_bytes());
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u16> {
    let (words, _) = bytes.as_chunks::<2>();
    words.iter().map(|word| u16::from_be_bytes(*word))
}

/// Folds a sum of few 32-bit words: without a branch, as it is of each packet.
#[inline(always)]
fn fold_words(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xFFFF_FFFF);
    let sum = (sum >> 16) + (sum & 0xFFFF);
    let sum = (sum >> 16) + (sum & 0xFFFF);
    ((sum >> 16) + sum) as u16
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    sum as u16
}

pub(crate) const UDP: u8 = 17;
pub(crate) const UDP_LEN: usize = 8;
pub(crate) const V4_LEN: usize = 20;
pub(crate) const V6_LEN: usize = 40;
/// The IPv4 flag that more fragments follow, and the offset of this one.
pub(crate) const MORE_OR_OFFSET: u16 = 0x3FFF;
/// The IPv4 flag that forbids fragments.
pub(crate) const DO_NOT_FRAGMENT: u16 = 0x4000;
const V6_FRAGMENT: u8 = 44;
pub(crate) const FLOW_LABEL: u32 = 0x000F_FFFF;

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071's arithmetic in a real header (from RFC 791's own form).
    #[test]
    fn a_header_with_its_checksum_sums_to_zero() {
        let mut packet = [0; 28];
        let header = IpHeader {
            family: Family::V4,
            source: Bits::v4([192, 0, 2, 1]),
            destination: Bits::v4([198, 51, 100, 7]),
            protocol: 17,
            hop_limit: 63,
            traffic_class: 0xB8,
            flow_label: 0,
            identification: 0xBEEF,
            do_not_fragment: true,
        };
        header.write(&mut packet);
        assert_eq!(fold(words(&packet[..20]).map(u64::from).sum()), 0xFFFF);
        assert_eq!(&packet[..10], b"\x45\xb8\x00\x1c\xbe\xef\x40\x00\x3f\x11");
    }

    #[test]
    fn words_fold_as_their_halves_do() {
        let few = [0, 1, 0xFFFF, 0x1_0000, 0xFFFF_FFFF, 0x8000_7FFF, 0xDEAD_BEEF];
        for a in few {
            for b in few {
                let words = [a, b, b, 0xFFFF_FFFF, a];
                let sum = words.into_iter().map(u64::from).sum();
                let halves =
                    words.into_iter().map(|it: u32| u64::from(it >> 16) + u64::from(it & 0xFFFF));
                assert_eq!(fold_words(sum), fold(halves.sum()), "{a:x} {b:x}");
            }
        }
    }

    #[test]
    fn a_changed_checksum_is_the_one_made_anew() {
        let mut bytes: Vec<u8> = (0..40).map(|n: u8| n.wrapping_mul(37)).collect();
        let whole = |bytes: &[u8]| !fold(words(bytes).map(u64::from).sum());
        let old = whole(&bytes);
        let mut sum = Checksum::default();
        sum.remove(&bytes[8..24]);
        bytes[8..24].fill(0xA7);
        sum.add(&bytes[8..24]);
        let before = u16::from_be_bytes([bytes[30], bytes[31]]);
        sum.change(Change { old: before, new: 9 });
        bytes[30..32].copy_from_slice(&[0, 9]);
        assert_eq!(sum.update(old), whole(&bytes));
    }
}

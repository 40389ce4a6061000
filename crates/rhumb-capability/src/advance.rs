//! What becomes of a packet that may pass: the pointer moves on, or the headers go. In place,
//! nothing is copied but an IP header.

use std::net::IpAddr;
use std::ops::Range;

use crate::bits::Bits;
use crate::header::{Fields, Layout, POINTER_AT};
use crate::outer::{
    Change, DO_NOT_FRAGMENT, IpHeader, MORE_OR_OFFSET, Outer, V4_LEN, redirect, write_v4_checksum,
};
use crate::{Account, DropReason, Family};

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// To another waypoint, still with its Platypus header.
    Waypoint(IpAddr),
    /// To its destination: the original packet again.
    Destination(IpAddr),
}

/// A packet that may pass, and is changed already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advanced {
    /// Where it goes.
    pub next: Next,
    /// Whose account it was counted on.
    pub account: Account,
    /// The hop limit to send with, where it came as a datagram; otherwise it is in the packet.
    pub hop_limit: u8,
    /// Traffic class or TOS, likewise.
    pub traffic_class: u8,
}

impl Next {
    /// The address.
    pub fn address(self) -> IpAddr {
        match self {
            Self::Waypoint(address) | Self::Destination(address) => address,
        }
    }
}

/// The IPv4 protocol that says: the payload is a whole
/// packet, since its header could not be made again.
pub(crate) const WHOLE_PACKET: u8 = 4;

/// Whether the payload is a whole IPv4 packet.
pub(crate) fn is_whole(layout: &Layout, fields: &Fields) -> bool {
    layout.family == Family::V4 && fields.protocol == WHOLE_PACKET
}

/// Checks a packet carried whole: bindings need not cover it, so
/// it must be from and to whom its header says.
pub(crate) fn check_whole(packet: &[u8], fields: &Fields) -> Result<(), DropReason> {
    let header: &[u8; V4_LEN] = packet.first_chunk().ok_or(DropReason::InnerMismatch)?;
    let header_len = usize::from(header[0] & 0x0F) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let is_same = header[0] >> 4 == 4
        && (V4_LEN..=packet.len()).contains(&header_len)
        && total == packet.len()
        && fields.source == Bits::read(Family::V4, &header[12..])
        && fields.destination == Bits::read(Family::V4, &header[16..]);
    is_same.then_some(()).ok_or(DropReason::InnerMismatch)
}

/// Bytes of the original packet.
#[inline]
pub(crate) fn original_len(layout: &Layout, is_whole: bool) -> usize {
    let header = if is_whole { 0 } else { IpHeader::len(layout.family) };
    header + usize::from(layout.inner_len)
}

/// Moves the pointer on; the packet goes to the next waypoint, which is
/// returned. Its range stays what it is, less padding.
pub(crate) fn to_waypoint(packet: &mut [u8], outer: &Outer, layout: &Layout, is_ip: bool) -> Bits {
    let header = &mut packet[outer.header_at..];
    let count = header[POINTER_AT - 1];
    let change = |pointer| u16::from_be_bytes([count, pointer]);
    let pointer = Change { old: change(layout.pointer), new: change(layout.pointer + 1) };
    header[POINTER_AT] = layout.pointer + 1;
    let next_at = usize::from(layout.places[usize::from(layout.pointer) + 1].at);
    let next = Bits::read(layout.family, &header[next_at..]);
    if is_ip {
        redirect(&mut packet[..outer.end], outer, outer.destination, next, pointer);
    }
    next
}

/// Makes the original packet again. Returns where it is.
#[inline]
pub(crate) fn to_destination(
    packet: &mut [u8],
    outer: &Outer,
    layout: &Layout,
    fields: &Fields,
) -> Range<usize> {
    let payload_at = outer.header_at + usize::from(layout.header_len);
    if is_whole(layout, fields) {
        let range = payload_at..outer.end;
        let inner = &mut packet[range.clone()];
        let header_len = usize::from(inner[0] & 0x0F) * 4;
        (inner[1], inner[8]) = (outer.traffic_class, outer.hop_limit - 1);
        write_v4_checksum(&mut inner[..header_len]);
        return range;
    }
    let header = IpHeader {
        family: layout.family,
        source: fields.source,
        destination: fields.destination,
        protocol: fields.protocol,
        hop_limit: outer.hop_limit - 1,
        traffic_class: outer.traffic_class,
        flow_label: outer.flow_label,
        // Fragments that a router may make of it are told from others' by this alone (RFC 6864).
        identification: if layout.do_not_fragment { 0 } else { fields.id.fold() },
        do_not_fragment: layout.do_not_fragment,
    };
    let range = payload_at - IpHeader::len(layout.family)..outer.end;
    header.write(&mut packet[range.clone()]);
    range
}

/// Whether an IPv4 packet can only travel whole: it has
/// options, is a fragment, or carries a packet itself.
pub(crate) fn must_travel_whole(header: &[u8; V4_LEN]) -> bool {
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    header[0] != 0x45 || fragment & MORE_OR_OFFSET != 0 || header[9] == WHOLE_PACKET
}

/// Whether an IPv4 packet must not be fragmented.
pub(crate) fn forbids_fragments(header: &[u8; V4_LEN]) -> bool {
    u16::from_be_bytes([header[6], header[7]]) & DO_NOT_FRAGMENT != 0
}

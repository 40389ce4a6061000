//! The start of an original packet, as its source sent it, made again from a stamped one: what an
//! ICMP message quotes, so that an unmodified kernel finds the connection it is about.

use std::net::IpAddr;

use crate::Family;
use crate::advance::WHOLE_PACKET;
use crate::header::HeaderView;
use crate::outer::{IpHeader, Outer, UDP_LEN, V4_LEN, V6_LEN, write_v4_checksum};

/// The start of an IP packet.
pub(super) struct Original<'a> {
    header: [u8; V6_LEN],
    header_len: usize,
    rest: &'a [u8],
}

impl Original<'_> {
    /// Its bytes, in two parts.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        [&self.header[..self.header_len], self.rest]
    }

    /// Who sent it, and whether it is an ICMP error, about which nobody
    /// may be told. `None` when that cannot be seen.
    pub(super) fn source_to_tell(&self) -> Option<(IpAddr, bool)> {
        let mut start = [0; QUOTE_START];
        let mut len = 0;
        for part in self.parts() {
            let taken = part.len().min(QUOTE_START - len);
            start[len..len + taken].copy_from_slice(&part[..taken]);
            len += taken;
        }
        let start = &start[..len];
        match start.first()? >> 4 {
            4 => {
                let header_len = usize::from(start[0] & 0x0F) * 4;
                let source: [u8; 4] = start.get(12..16)?.try_into().ok()?;
                let is_icmp = *start.get(9)? == ICMP_V4;
                let kind = start.get(header_len).copied();
                // What cannot be seen is taken for an error: rather too little is said.
                let is_error = is_icmp && !kind.is_some_and(is_inquiry_v4);
                // Only the first fragment may be told about (RFC 1122, 3.2.2).
                let is_later = u16::from_be_bytes([start[6], start[7]]) & 0x1FFF != 0;
                Some((source.into(), is_error || is_later))
            }
            6 => {
                let source: [u8; 16] = start.get(8..24)?.try_into().ok()?;
                let is_icmp = *start.get(6)? == ICMP_V6;
                let is_error = is_icmp && start.get(V6_LEN).is_none_or(|kind| *kind < 128);
                Some((source.into(), is_error))
            }
            _ => None,
        }
    }
}

/// The original packet of a stamped one, of whose payload `available` bytes are really there.
pub(super) fn original_of<'a>(
    view: &HeaderView<'a>,
    outer: &Outer,
    available: usize,
) -> Original<'a> {
    let rest = &view.payload()[..available.min(view.payload().len())];
    if is_whole(view) {
        return Original { header: [0; V6_LEN], header_len: 0, rest };
    }
    let mut header = [0; V6_LEN];
    let header_len = IpHeader::len(view.family());
    let fields = IpHeader {
        family: view.family(),
        source: view.source().into(),
        destination: view.destination().into(),
        protocol: view.protocol(),
        hop_limit: outer.hop_limit,
        traffic_class: outer.traffic_class,
        flow_label: outer.flow_label,
        identification: if view.do_not_fragment() { 0 } else { view.id().fold() },
        do_not_fragment: view.do_not_fragment(),
    };
    fields.write(&mut header[..header_len]);
    let inner_len = view.payload().len();
    match view.family() {
        Family::V4 => {
            header[2..4].copy_from_slice(&((V4_LEN + inner_len) as u16).to_be_bytes());
            write_v4_checksum(&mut header[..V4_LEN]);
        }
        Family::V6 => header[4..6].copy_from_slice(&(inner_len as u16).to_be_bytes()),
    }
    Original { header, header_len, rest }
}

/// Whether the payload is a whole IPv4 packet.
fn is_whole(view: &HeaderView<'_>) -> bool {
    view.family() == Family::V4 && view.protocol() == WHOLE_PACKET
}

/// A packet that is an original one already.
pub(super) fn as_it_stands(packet: &[u8]) -> Option<Original<'_>> {
    let original = Original { header: [0; V6_LEN], header_len: 0, rest: packet };
    original.source_to_tell().map(|_| original)
}

/// Bytes by which a packet grew when it was stamped.
pub(super) fn overhead(view: &HeaderView<'_>, outer: &Outer) -> usize {
    let udp = if outer.is_udp { UDP_LEN } else { 0 };
    let whole = if is_whole(view) { V4_LEN } else { 0 };
    view.header().len() + udp + whole
}

/// Whether an ICMP message is a question or an answer: echo, timestamp,
/// address mask, router discovery, extended echo.
fn is_inquiry_v4(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 9 | 10 | 13..=18 | 42 | 43)
}

pub(super) const ICMP_V4: u8 = 1;
pub(super) const ICMP_V6: u8 = 58;
/// The longest IP header, and the type of an ICMP message behind it.
const QUOTE_START: usize = 61;

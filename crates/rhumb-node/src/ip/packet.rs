//! As much of IP packets as is looked at: between which addresses, and of which conversation.
//!
//! INVARIANT: nothing here panics, whatever the bytes. Source: RFC 8200, RFC 791, RFC 4443.

use std::net::IpAddr;

use rhumb_io::ip::{RunHead, ends_of};

/// A packet whose header is whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// What the packet holds behind its headers: the protocol, and where that begins. `None` where
    /// that is not seen: later fragments, and headers without end.
    transport: Option<(u8, usize)>,
}

/// A conversation, as this host sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    local: IpAddr,
    remote: IpAddr,
    protocol: u8,
    local_port: u16,
    remote_port: u16,
}

impl<'a> Packet<'a> {
    /// `None` when it is no packet, or has another length than it says.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (source, destination) = ends_of(bytes)?;
        let transport = match bytes.first()? >> 4 {
            4 => transport_v4(bytes),
            _ => transport_v6(bytes),
        };
        Some(Self { bytes, source, destination, transport })
    }

    /// The packet that a piece of a run is, as far as its headers go.
    pub(super) fn of(head: &'a RunHead) -> Self {
        let (source, destination) = head.ends();
        Self { bytes: head.bytes(), source, destination, transport: Some((TCP, head.tcp_at())) }
    }

    /// The first bytes of what stands behind the headers.
    fn head<const N: usize>(&self) -> Option<(u8, &'a [u8; N])> {
        let (protocol, at) = self.transport?;
        Some((protocol, self.bytes.get(at..)?.first_chunk()?))
    }

    /// Whether it is an ICMP error, about which nobody may be told, or is not seen not to be one.
    pub(super) fn may_be_error(&self) -> bool {
        match self.head::<1>() {
            Some((ICMP_V6, [kind])) => *kind < 128,
            Some((ICMP_V4, [kind])) => !matches!(kind, 0 | 8 | 13..=18),
            Some(_) => false,
            None => true,
        }
    }

    /// The conversation that this host begins, or goes on with, by sending it. `None` for what asks
    /// nothing.
    pub(super) fn sent(&self) -> Option<Flow> {
        let (protocol, local_port, remote_port) = match self.transport?.0 {
            ICMP_V4 | ICMP_V6 => {
                let (protocol, head) = self.head::<8>()?;
                let is_question = head[0] == if protocol == ICMP_V6 { 128 } else { 8 };
                is_question.then_some(())?;
                let id = u16::from_be_bytes([head[4], head[5]]);
                (protocol, id, id)
            }
            _ => self.ports()?,
        };
        let (local, remote) = (self.source, self.destination);
        Some(Flow { local, remote, protocol, local_port, remote_port })
    }

    /// The conversation of this host's that it goes on with; of an error, the one that it is about.
    pub(super) fn answered(&self) -> Option<Flow> {
        let (protocol, local_port, remote_port) = match self.transport? {
            (ICMP_V4 | ICMP_V6, at) => {
                let (protocol, head) = self.head::<8>()?;
                if self.may_be_error() {
                    return quoted(self.bytes.get(at + 8..)?)?.sent();
                }
                let is_answer = head[0] == if protocol == ICMP_V6 { 129 } else { 0 };
                is_answer.then_some(())?;
                let id = u16::from_be_bytes([head[4], head[5]]);
                (protocol, id, id)
            }
            _ => {
                let (protocol, remote_port, local_port) = self.ports()?;
                (protocol, local_port, remote_port)
            }
        };
        let (local, remote) = (self.destination, self.source);
        Some(Flow { local, remote, protocol, local_port, remote_port })
    }

    /// The protocol, and the ports of the source and of the destination.
    fn ports(&self) -> Option<(u8, u16, u16)> {
        match self.transport?.0 {
            TCP | UDP | UDP_LITE | SCTP | DCCP => {
                let (protocol, [a, b, c, d]) = self.head()?;
                Some((protocol, u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
            }
            protocol => Some((protocol, 0, 0)),
        }
    }
}

/// A packet that an error quotes: its beginning, whatever length it says.
fn quoted(bytes: &[u8]) -> Option<Packet<'_>> {
    let v4 = |at: usize| Some(IpAddr::from(*bytes.get(at..)?.first_chunk::<4>()?));
    let v6 = |at: usize| Some(IpAddr::from(*bytes.get(at..)?.first_chunk::<16>()?));
    let (source, destination, transport) = match bytes.first()? >> 4 {
        4 => (v4(12)?, v4(16)?, transport_v4(bytes)),
        6 => (v6(8)?, v6(24)?, transport_v6(bytes)),
        _ => return None,
    };
    Some(Packet { bytes, source, destination, transport })
}

fn transport_v4(bytes: &[u8]) -> Option<(u8, usize)> {
    let header: &[u8; 20] = bytes.first_chunk()?;
    let is_later = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    (!is_later).then_some((header[9], usize::from(header[0] & 0xf) * 4))
}

fn transport_v6(bytes: &[u8]) -> Option<(u8, usize)> {
    let (mut next, mut at) = (*bytes.get(6)?, 40);
    for _ in 0..MOST_HEADERS {
        match next {
            HOP_BY_HOP | ROUTING | OPTIONS => {
                next = *bytes.get(at)?;
                at += (usize::from(*bytes.get(at + 1)?) + 1) * 8;
            }
            FRAGMENT => {
                let header: &[u8; 8] = bytes.get(at..)?.first_chunk()?;
                if u16::from_be_bytes([header[2], header[3]]) >> 3 != 0 {
                    return None;
                }
                (next, at) = (header[0], at + 8);
            }
            _ => return Some((next, at)),
        }
    }
    None
}

const HOP_BY_HOP: u8 = 0;
pub(super) const ICMP_V4: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
pub(super) const ICMP_V6: u8 = 58;
const OPTIONS: u8 = 60;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;
/// Each kind once, and some to spare.
const MOST_HEADERS: usize = 8;

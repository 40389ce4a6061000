//! ICMP and ICMPv6 messages, as far as a waypoint makes and reads them. RFC
//! 792, RFC 1191, RFC 1812, RFC 4443, RFC 4884.

use std::net::IpAddr;

use super::quote::{ICMP_V4, ICMP_V6};
use crate::Family;
use crate::header::address;
use crate::outer::{IpHeader, V4_LEN, V6_LEN, checksum, pseudo_header_v6};

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// The packet has made too many hops.
    TimeExceeded,
    /// It is larger than this.
    TooBig { mtu: u32 },
    /// There is no way to where it goes.
    Unreachable,
    /// It may not pass: its capability was revoked.
    Prohibited,
    /// As somebody else said it, of the same family: type,
    /// code, and the four bytes after the checksum.
    Other { kind: u8, code: u8, rest: [u8; 4] },
}

/// An error message that came in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ErrorMessage<'a> {
    /// Who says so.
    pub(super) source: IpAddr,
    pub(super) message: Message,
    /// The start of the packet it is about.
    pub(super) quote: &'a [u8],
}

/// Why there is no error message in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoMessage {
    NoError,
    Malformed,
}

impl Message {
    /// Whether path MTU discovery needs it.
    pub(super) fn is_of_path_mtu(&self) -> bool {
        matches!(self, Self::TooBig { .. })
    }

    /// Type, code, and what follows the checksum.
    fn fields(self, family: Family) -> (u8, u8, [u8; 4]) {
        match (self, family) {
            (Self::TimeExceeded, Family::V4) => (TIME_EXCEEDED_V4, 0, [0; 4]),
            (Self::TimeExceeded, Family::V6) => (TIME_EXCEEDED_V6, 0, [0; 4]),
            (Self::Unreachable, Family::V4) => (UNREACHABLE_V4, HOST_UNREACHABLE, [0; 4]),
            (Self::Unreachable, Family::V6) => (UNREACHABLE_V6, 0, [0; 4]),
            (Self::Prohibited, Family::V4) => (UNREACHABLE_V4, PROHIBITED_V4, [0; 4]),
            (Self::Prohibited, Family::V6) => (UNREACHABLE_V6, PROHIBITED_V6, [0; 4]),
            (Self::TooBig { mtu }, Family::V4) => {
                let [high, low] = u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes();
                (UNREACHABLE_V4, TOO_BIG_V4, [0, 0, high, low])
            }
            (Self::TooBig { mtu }, Family::V6) => (TOO_BIG_V6, 0, mtu.to_be_bytes()),
            (Self::Other { kind, code, rest }, _) => (kind, code, rest),
        }
    }
}

/// Whether a packet is ICMP or ICMPv6.
pub fn is_icmp(packet: &[u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) => packet.get(9) == Some(&ICMP_V4),
        Some(6) => packet.get(6) == Some(&ICMP_V6),
        _ => false,
    }
}

/// Writes a message that quotes as much as it may, and returns it.
pub(super) fn emit<'b>(
    buffer: &'b mut [u8; MAX_LEN],
    source: IpAddr,
    destination: IpAddr,
    message: Message,
    quote: &[&[u8]],
) -> &'b [u8] {
    let family = Family::of(destination);
    let (header_len, most, protocol) = match family {
        Family::V4 => (V4_LEN, MAX_LEN_V4, ICMP_V4),
        Family::V6 => (V6_LEN, MAX_LEN, ICMP_V6),
    };
    let (kind, code, rest) = message.fields(family);
    buffer[header_len..header_len + 4].copy_from_slice(&[kind, code, 0, 0]);
    buffer[header_len + 4..header_len + HEAD_LEN].copy_from_slice(&rest);
    let mut len = header_len + HEAD_LEN;
    for part in quote {
        let taken = part.len().min(most - len);
        buffer[len..len + taken].copy_from_slice(&part[..taken]);
        len += taken;
    }
    let packet = &mut buffer[..len];
    let header = IpHeader {
        family,
        source: source.into(),
        destination: destination.into(),
        protocol,
        hop_limit: HOP_LIMIT,
        traffic_class: INTERNETWORK_CONTROL,
        flow_label: 0,
        identification: 0,
        do_not_fragment: true,
    };
    header.write(packet);
    let before = match family {
        Family::V4 => 0,
        Family::V6 => pseudo_header_v6(packet, len - header_len, protocol),
    };
    let sum = checksum(before, &packet[header_len..]);
    packet[header_len + 2..header_len + 4].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Reads an error message. What is too short, or has a wrong checksum, is malformed.
pub(super) fn parse(packet: &[u8]) -> Result<ErrorMessage<'_>, NoMessage> {
    let (family, header_len, total) = ends(packet).ok_or(NoMessage::Malformed)?;
    let packet = packet.get(..total).ok_or(NoMessage::Malformed)?;
    let icmp = packet.get(header_len..).ok_or(NoMessage::Malformed)?;
    let head: &[u8; HEAD_LEN] = icmp.first_chunk().ok_or(NoMessage::Malformed)?;
    let (source, before) = match family {
        Family::V4 => (address(&packet[12..16]), 0),
        Family::V6 => (address(&packet[8..24]), pseudo_header_v6(packet, icmp.len(), ICMP_V6)),
    };
    let (kind, code) = (head[0], head[1]);
    let rest = [head[4], head[5], head[6], head[7]];
    let message = match (family, kind, code) {
        (Family::V4, UNREACHABLE_V4, TOO_BIG_V4) => {
            Message::TooBig { mtu: u16::from_be_bytes([rest[2], rest[3]]).into() }
        }
        (Family::V6, TOO_BIG_V6, _) => Message::TooBig { mtu: u32::from_be_bytes(rest) },
        (Family::V4, UNREACHABLE_V4 | TIME_EXCEEDED_V4 | PARAMETER_V4, _)
        | (Family::V6, UNREACHABLE_V6 | TIME_EXCEEDED_V6 | PARAMETER_V6, _) => {
            Message::Other { kind, code, rest }
        }
        _ => return Err(NoMessage::NoError),
    };
    if checksum(before, icmp) != 0 {
        return Err(NoMessage::Malformed);
    }
    let mut quote = &icmp[HEAD_LEN..];
    // What follows the packet is an extension, if a length says so (RFC 4884).
    let said = match family {
        Family::V4 => usize::from(rest[1]) * 4,
        Family::V6 => usize::from(rest[0]) * 8,
    };
    if said > 0 && matches!(message, Message::Other { .. }) && kind != PARAMETER_V6 {
        quote = quote.get(..said).unwrap_or(quote);
    }
    Ok(ErrorMessage { source, message, quote })
}

/// Family, bytes of the header, and bytes in all.
fn ends(packet: &[u8]) -> Option<(Family, usize, usize)> {
    match packet.first()? >> 4 {
        4 => {
            let header: &[u8; V4_LEN] = packet.first_chunk()?;
            let header_len = usize::from(header[0] & 0x0F) * 4;
            let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
            (header_len >= V4_LEN && total >= header_len).then_some((Family::V4, header_len, total))
        }
        6 => {
            let header: &[u8; V6_LEN] = packet.first_chunk()?;
            let total = V6_LEN + usize::from(u16::from_be_bytes([header[4], header[5]]));
            Some((Family::V6, V6_LEN, total))
        }
        _ => None,
    }
}

/// Bytes of the longest message: the smallest MTU of IPv6 (RFC 4443, 2.4).
pub(super) const MAX_LEN: usize = 1280;
/// The same for IPv4 (RFC 1812, 4.3.2.3).
const MAX_LEN_V4: usize = 576;
/// Type, code, checksum, and four bytes.
const HEAD_LEN: usize = 8;
/// The usual one.
const HOP_LIMIT: u8 = 64;
/// What routers send errors with (RFC 1812, 4.3.2.5).
const INTERNETWORK_CONTROL: u8 = 0xC0;
/// Types of the answers to an echo request.
pub(super) const ECHO_REPLY_V4: u8 = 0;
pub(super) const ECHO_REPLY_V6: u8 = 129;
const UNREACHABLE_V4: u8 = 3;
const TIME_EXCEEDED_V4: u8 = 11;
const PARAMETER_V4: u8 = 12;
/// Codes of [`UNREACHABLE_V4`].
const PROHIBITED_V4: u8 = 13;
const PROHIBITED_V6: u8 = 1;
const HOST_UNREACHABLE: u8 = 1;
const TOO_BIG_V4: u8 = 4;
const UNREACHABLE_V6: u8 = 1;
const TOO_BIG_V6: u8 = 2;
const TIME_EXCEEDED_V6: u8 = 3;
const PARAMETER_V6: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
    const B: [&str; 2] = ["198.51.100.7", "2001:db8:7::2"];

    #[test]
    fn what_is_written_is_read() {
        for (a, b) in A.into_iter().zip(B) {
            let (a, b): (IpAddr, IpAddr) = (a.parse().unwrap(), b.parse().unwrap());
            for message in [Message::TooBig { mtu: 1400 }, Message::TimeExceeded] {
                let (head, tail) = ([1; 33], [2; 2000]);
                let mut buffer = [0; MAX_LEN];
                let packet = emit(&mut buffer, a, b, message, &[&head, &tail]).to_vec();
                assert_eq!(packet.len(), if a.is_ipv4() { 576 } else { 1280 });
                assert!(is_icmp(&packet));
                let read = parse(&packet).unwrap();
                assert_eq!(read.source, a);
                assert_eq!(read.message.fields(Family::of(a)), message.fields(Family::of(a)));
                assert_eq!((&read.quote[..33], read.quote[33]), (&head[..], 2));
                let mut wrong = packet.clone();
                *wrong.last_mut().unwrap() ^= 1;
                assert_eq!(parse(&wrong), Err(NoMessage::Malformed));
                assert_eq!(parse(&packet[..40]), Err(NoMessage::Malformed));
            }
        }
    }

    #[test]
    fn questions_are_no_errors() {
        let (a, b) = (A[0].parse().unwrap(), B[0].parse().unwrap());
        let mut buffer = [0; MAX_LEN];
        let echo = Message::Other { kind: 8, code: 0, rest: [0; 4] };
        assert_eq!(parse(emit(&mut buffer, a, b, echo, &[])), Err(NoMessage::NoError));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(mut bytes in proptest::collection::vec(0u8.., 0..100), version in 3u8..8) {
            if let Some(first) = bytes.first_mut() {
                *first = version << 4 | *first & 0xF;
            }
            let _ = (parse(&bytes), is_icmp(&bytes));
        }
    }
}

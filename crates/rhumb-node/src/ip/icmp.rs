//! What this host is told about packets of its own that go nowhere. Source: RFC 4443, RFC 792, RFC
//! 1191.

use std::net::IpAddr;

use super::packet::{ICMP_V4, ICMP_V6};

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nobody with that address is reached.
    Unreachable,
    /// So many bytes fit.
    TooBig(u32),
}

/// The message about `packet`, from `source` to whoever sent it; both are of one family.
pub(super) fn message(source: IpAddr, packet: &[u8], to: IpAddr, trouble: Trouble) -> Vec<u8> {
    match (source, to) {
        (IpAddr::V4(source), IpAddr::V4(to)) => {
            let (code, rest) = match trouble {
                Trouble::Unreachable => (1, [0; 4]),
                Trouble::TooBig(mtu) => (4, mtu.min(0xffff).to_be_bytes()),
            };
            let quoted = &packet[..packet.len().min(MOST_V4 - 28)];
            let mut made = vec![0x45, 0xc0];
            made.extend_from_slice(&((28 + quoted.len()) as u16).to_be_bytes());
            made.extend_from_slice(&[0, 0, 0x40, 0, HOPS, ICMP_V4, 0, 0]);
            made.extend_from_slice(&source.octets());
            made.extend_from_slice(&to.octets());
            let header = finish(sum(&made));
            made[10..12].copy_from_slice(&header);
            made.extend_from_slice(&[3, code, 0, 0]);
            made.extend_from_slice(&rest);
            made.extend_from_slice(quoted);
            let body = finish(sum(&made[20..]));
            made[22..24].copy_from_slice(&body);
            made
        }
        _ => {
            let (kind, code, rest) = match trouble {
                Trouble::Unreachable => (1, 3, [0; 4]),
                Trouble::TooBig(mtu) => (2, 0, mtu.to_be_bytes()),
            };
            let quoted = &packet[..packet.len().min(MOST_V6 - 48)];
            let len = (8 + quoted.len()) as u16;
            let mut made = vec![0x60, 0, 0, 0];
            made.extend_from_slice(&len.to_be_bytes());
            made.extend_from_slice(&[ICMP_V6, HOPS]);
            for address in [source, to] {
                match address {
                    IpAddr::V6(address) => made.extend_from_slice(&address.octets()),
                    IpAddr::V4(address) => {
                        made.extend_from_slice(&address.to_ipv6_mapped().octets());
                    }
                }
            }
            made.extend_from_slice(&[kind, code, 0, 0]);
            made.extend_from_slice(&rest);
            made.extend_from_slice(quoted);
            let pseudo = sum(&made[8..40]) + u64::from(len) + u64::from(ICMP_V6);
            let checksum = finish(pseudo + sum(&made[40..]));
            made[42..44].copy_from_slice(&checksum);
            made
        }
    }
}

/// The sum of the 16-bit words (RFC 1071), a last byte filled up with 0.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2).map(|word| match word {
        [high, low] => u64::from(u16::from_be_bytes([*high, *low])),
        _ => u64::from(word[0]) << 8,
    });
    words.sum()
}

pub(super) fn finish(mut sum: u64) -> [u8; 2] {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// As much as is quoted (RFC 1812, 4.3.2.3; RFC 4443, 2.4).
const MOST_V4: usize = 576;
const MOST_V6: usize = 1280;
const HOPS: u8 = 64;

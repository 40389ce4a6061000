//! Socket addresses in the kernel's form, and back.
//!
//! Invariant: what [`Address::new`] writes, [`Address::read`] gives back, but that a
//! mapped IPv4 address comes back as the IPv4 address: a peer has one address, whatever
//! family the socket is of. Source: ip(7), ipv6(7).

use std::mem::size_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use rhumb_wire::stream;

use libc::{c_int, sockaddr_in, sockaddr_in6, socklen_t};

/// Which protocol a socket speaks. An IPv6 socket reaches IPv4 peers by mapped addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) fn of(address: &SocketAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// A socket address in the kernel's form.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Address {
    v4: sockaddr_in,
    v6: sockaddr_in6,
}

impl Address {
    /// Bytes that suit every family.
    pub(crate) const LEN: socklen_t = size_of::<Self>() as socklen_t;

    /// No address: what the kernel writes into.
    pub(crate) const ZERO: Self = Self {
        v6: sockaddr_in6 {
            sin6_family: 0,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        },
    };

    /// `address` as a socket of `family` takes it, and its length;
    /// `None` when such a socket cannot reach it.
    pub(crate) fn new(address: SocketAddr, family: Family) -> Option<(Self, socklen_t)> {
        let mut raw = Self::ZERO;
        match (family, address) {
            (Family::V4, SocketAddr::V4(address)) => {
                raw.v4 = sockaddr_in {
                    sin_family: libc::AF_INET as _,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                    sin_zero: [0; 8],
                };
                Some((raw, size_of::<sockaddr_in>() as socklen_t))
            }
            (Family::V4, SocketAddr::V6(_)) => None,
            (Family::V6, SocketAddr::V4(address)) => {
                let mapped = SocketAddrV6::new(address.ip().to_ipv6_mapped(), address.port(), 0, 0);
                Self::new(SocketAddr::V6(mapped), family)
            }
            // What is for a stream is not sealed.
            (Family::V6, SocketAddr::V6(_)) if stream::is_address(&address) => None,
            (Family::V6, SocketAddr::V6(address)) => {
                raw.v6 = sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as _,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                Some((raw, size_of::<sockaddr_in6>() as socklen_t))
            }
        }
    }

    /// The address in the `len` bytes that the kernel wrote. A mapped
    /// IPv4 address comes out as the IPv4 address.
    pub(crate) fn read(&self, len: socklen_t) -> Option<SocketAddr> {
        self.read_as_it_is(len).map(|address| match address {
            SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
                Some(ip) => SocketAddrV4::new(ip, v6.port()).into(),
                None => address,
            },
            SocketAddr::V4(_) => address,
        })
    }

    /// The address in the `len` bytes that the kernel wrote, of the family that it says.
    pub(crate) fn read_as_it_is(&self, len: socklen_t) -> Option<SocketAddr> {
        let len = len as usize;
        // SAFETY: all bytes are initialized (ZERO, or `new`, or the kernel's on top), every bit
        // pattern is a `sockaddr_in`, and the family stands at the same place in both members.
        let v4 = unsafe { self.v4 };
        match c_int::from(v4.sin_family) {
            libc::AF_INET if len >= size_of::<sockaddr_in>() => {
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 if len >= size_of::<sockaddr_in6>() => {
                // SAFETY: all bytes are initialized, and every bit pattern is a `sockaddr_in6`.
                let v6 = unsafe { self.v6 };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                // Whatever the kernel says of the flow: no datagram comes from a stream.
                Some(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_datagram_goes_to_a_stream_or_comes_from_one() {
        let index = rhumb_wire::datagram::SessionIndex::new(0x0123_4568).expect("28 bits");
        for peer in ["192.0.2.1:443", "[2001:db8::1]:443"] {
            let address = stream::address_of(index, peer.parse().expect("an address"));
            for family in [Family::V4, Family::V6] {
                assert!(Address::new(address, family).is_none(), "{peer}");
            }
        }
        let mut raw = Address::ZERO;
        raw.v6 = sockaddr_in6 {
            sin6_family: libc::AF_INET6 as _,
            sin6_port: 443_u16.to_be(),
            sin6_flowinfo: u32::MAX,
            sin6_addr: libc::in6_addr { s6_addr: [1; 16] },
            sin6_scope_id: 0,
        };
        let read = raw.read(Address::LEN).expect("an address");
        assert!(!stream::is_address(&read));
    }

    fn there_and_back(text: &str, family: Family) -> Option<String> {
        let address = text.parse().expect("an address");
        let (raw, len) = Address::new(address, family)?;
        assert_eq!(raw.read(len - 1), None, "an address that was cut short");
        raw.read(len).map(|address| address.to_string())
    }

    #[test]
    fn addresses_come_back_as_they_were() {
        let same = |text, family| assert_eq!(there_and_back(text, family).as_deref(), Some(text));
        same("192.0.2.7:4433", Family::V4);
        same("192.0.2.7:4433", Family::V6);
        same("[2001:db8::7]:65535", Family::V6);
        same("[fe80::1%3]:1", Family::V6);
        let mapped = there_and_back("[::ffff:192.0.2.7]:9", Family::V6);
        assert_eq!(mapped.as_deref(), Some("192.0.2.7:9"));
    }

    #[test]
    fn an_ipv4_socket_cannot_reach_ipv6_and_nothing_is_no_address() {
        assert_eq!(there_and_back("[2001:db8::7]:1", Family::V4), None);
        assert_eq!(Address::ZERO.read(Address::LEN), None);
    }
}

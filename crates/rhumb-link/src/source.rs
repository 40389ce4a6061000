//! Where strangers come from: what one site can send from, which costs something, as names do not.

use std::net::{IpAddr, SocketAddr};

/// What one site can send from: an IPv4 address, or a /48 of IPv6. Once an
/// answer sent there has come back, that is the least that a stranger has to
/// have, so bounds on strangers are counted by it.
///
/// A /64 would be too little to count by: whoever is given a /48, which brokers
/// of tunnels do for nothing (RFC 6177), has 65,536 of them. Hosts of one /48
/// who are in each other's way are to be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// An IPv4 address, also one that was written as an IPv6 address.
    V4([u8; 4]),
    /// The first 48 bits of an IPv6 address.
    V6([u8; 6]),
}

impl Source {
    /// The site of the host with this address.
    pub fn of(address: SocketAddr) -> Self {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip.octets()),
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, ..] = ip.octets();
                Self::V6([a, b, c, d, e, f])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_host_is_its_48_and_a_mapped_address_is_ipv4() {
        let source = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(source("[2001:db8::1]:1"), source("[2001:db8:0:ffff::1]:2"));
        assert_ne!(source("[2001:db8::1]:1"), source("[2001:db8:1::1]:1"));
        assert_eq!(source("[::ffff:192.0.2.1]:1"), source("192.0.2.1:1"));
    }
}

//! The links that this host is on, and what is local to them.
//!
//! Invariant: what is on a link is reached without a router: an IPv6 link-local address with its
//! scope, or an IPv4 address in a subnet of an interface. Loopback and point-to-point interfaces
//! are no links: nobody is to be found there.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use if_addrs::IfAddr;
use rhumb_wire::discovery::{DISCOVERY_GROUP, DISCOVERY_PORT};

/// The links of this host, as far as one socket reaches them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// Of IPv4.
    subnets: Vec<Subnet>,
    /// Indexes of the interfaces that have an IPv6 link-local address.
    interfaces: Vec<u32>,
}

/// An IPv4 network that an interface is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Subnet {
    network: Ipv4Addr,
    mask: Ipv4Addr,
}

impl Links {
    /// The links as they are now, for a socket that is bound to `local`: all of them when that is
    /// unspecified, or else those of the interface that has the address. An IPv4 socket reaches no
    /// IPv6 link, and the other way round only one that is bound to all addresses does.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn read(local: IpAddr) -> io::Result<Self> {
        Ok(Self::from_interfaces(&if_addrs::get_if_addrs()?, local))
    }

    fn from_interfaces(addresses: &[if_addrs::Interface], local: IpAddr) -> Self {
        let is_ours = |name: &str| {
            local.is_unspecified()
                || addresses.iter().any(|other| other.name == name && other.ip() == local)
        };
        let (takes_v4, takes_v6) = (local.is_ipv4() || local.is_unspecified(), local.is_ipv6());
        let mut links = Self::default();
        for address in addresses.iter().filter(|it| it.is_oper_up() && is_ours(&it.name)) {
            match &address.addr {
                IfAddr::V4(v4) if takes_v4 && !v4.is_loopback() && !address.is_p2p() => {
                    let network = v4.ip & v4.netmask;
                    let subnet = Subnet { network, mask: v4.netmask };
                    if subnet.has_neighbours() && !links.subnets.contains(&subnet) {
                        links.subnets.push(subnet);
                    }
                }
                IfAddr::V6(v6) if takes_v6 && v6.is_link_local() => {
                    links.interfaces.extend(address.index);
                }
                _ => {}
            }
        }
        links.interfaces.sort_unstable();
        links.interfaces.dedup();
        links.subnets.truncate(MAX_LINKS);
        links.interfaces.truncate(MAX_LINKS);
        links
    }

    /// What of them is reached by addresses of the family of `ip` alone.
    pub(super) fn of_family(mut self, ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => self.interfaces.clear(),
            IpAddr::V6(_) => self.subnets.clear(),
        }
        self
    }

    /// Nothing but one network.
    #[cfg(test)]
    pub(super) fn of_subnet(network: Ipv4Addr, prefix_len: u32) -> Self {
        let mask = Ipv4Addr::from_bits(u32::MAX << (32 - prefix_len));
        Self { subnets: vec![Subnet { network, mask }], interfaces: Vec::new() }
    }

    /// Where a query goes: the multicast group on every IPv6 link, the broadcast address of every
    /// IPv4 subnet, and that of whatever the system's first link is.
    pub fn query_targets(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let v6 = self.interfaces.iter().map(|index| {
            SocketAddr::from(SocketAddrV6::new(DISCOVERY_GROUP, DISCOVERY_PORT, 0, *index))
        });
        let limited = (!self.subnets.is_empty()).then_some(Ipv4Addr::BROADCAST);
        let v4 = self.subnets.iter().map(Subnet::broadcast).chain(limited);
        v6.chain(v4.map(|ip| SocketAddrV4::new(ip, DISCOVERY_PORT).into()))
    }

    /// Whether `peer` is the address of a single neighbour
    /// on one of the links, or of this host there.
    pub fn contains(&self, peer: &SocketAddr) -> bool {
        if peer.port() == 0 {
            return false;
        }
        match peer {
            SocketAddr::V4(peer) => self.subnets.iter().any(|subnet| subnet.contains(*peer.ip())),
            SocketAddr::V6(peer) => {
                peer.ip().is_unicast_link_local() && self.interfaces.contains(&peer.scope_id())
            }
        }
    }

    /// Whether there is a link by IPv6.
    pub fn has_ipv6(&self) -> bool {
        !self.interfaces.is_empty()
    }

    /// The interfaces of the IPv6 links.
    pub(super) fn interfaces(&self) -> &[u32] {
        &self.interfaces
    }
}

impl Subnet {
    /// Whether others can be in it, and asked all at once: not so for
    /// single hosts and ends of a wire (RFC 3021).
    fn has_neighbours(&self) -> bool {
        (1..31).contains(&self.mask.to_bits().count_ones())
    }

    fn contains(&self, ip: Ipv4Addr) -> bool {
        ip & self.mask == self.network && ip != self.network && ip != self.broadcast()
    }

    fn broadcast(&self) -> Ipv4Addr {
        self.network | !self.mask
    }
}

/// Links asked and answered at most: a host with more of them
/// has them for virtual machines and containers.
const MAX_LINKS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use if_addrs::{IfOperStatus, Ifv4Addr, Ifv6Addr, Interface};
    use std::net::Ipv6Addr;

    fn interface(name: &str, index: u32, text: &str, prefixlen: u8) -> Interface {
        let addr = match text.parse().expect("an address") {
            IpAddr::V4(ip) => {
                let netmask =
                    Ipv4Addr::from_bits(u32::MAX.unbounded_shl(32 - u32::from(prefixlen)));
                IfAddr::V4(Ifv4Addr { ip, netmask, prefixlen, broadcast: None })
            }
            IpAddr::V6(ip) => IfAddr::V6(Ifv6Addr {
                ip,
                netmask: Ipv6Addr::from_bits(u128::MAX << (128 - prefixlen)),
                prefixlen,
                broadcast: None,
            }),
        };
        let oper_status = IfOperStatus::Up;
        Interface { name: name.to_owned(), addr, index: Some(index), oper_status, is_p2p: false }
    }

    fn host() -> Vec<Interface> {
        let mut addresses = vec![
            interface("lo", 1, "127.0.0.1", 8),
            interface("lo", 1, "::1", 128),
            interface("eth0", 2, "192.0.2.7", 24),
            interface("eth0", 2, "2001:db8::7", 64),
            interface("eth0", 2, "fe80::7", 64),
            interface("eth1", 3, "198.51.100.9", 30),
            interface("eth1", 3, "fe80::9", 64),
            interface("wire", 4, "203.0.113.1", 31),
            interface("down", 5, "203.0.113.200", 25),
            interface("tun", 6, "10.8.0.1", 24),
            interface("any", 7, "10.9.0.1", 0),
        ];
        addresses[8].oper_status = IfOperStatus::Down;
        addresses[9].is_p2p = true;
        addresses
    }

    fn links(local: &str) -> Links {
        Links::from_interfaces(&host(), local.parse().expect("an address"))
    }

    fn targets(local: &str) -> Vec<String> {
        links(local).query_targets().map(|target| target.to_string()).collect()
    }

    #[test]
    fn every_link_is_asked_once_and_only_links_are() {
        let v6 = ["[ff02::7268:756d%2]:7462", "[ff02::7268:756d%3]:7462"];
        let v4 = ["192.0.2.255:7462", "198.51.100.11:7462", "255.255.255.255:7462"];
        assert_eq!(targets("::"), [&v6[..], &v4[..]].concat());
        assert_eq!(targets("0.0.0.0"), v4);
        assert_eq!(targets("2001:db8::7"), v6[..1]);
        assert_eq!(targets("198.51.100.9"), v4[1..]);
        assert_eq!(targets("127.0.0.1"), [""; 0]);
    }

    #[test]
    fn neighbours_are_on_a_link_and_nobody_else_is() {
        let links = links("::");
        let contains = |text: &str| links.contains(&text.parse().expect("an address"));
        for local in ["192.0.2.1:5", "192.0.2.7:1", "198.51.100.10:65535", "[fe80::1%2]:5"] {
            assert!(contains(local), "{local}");
        }
        let foreign = [
            "192.0.3.1:5",          // another network
            "192.0.2.1:0",          // no port
            "192.0.2.0:5",          // no host
            "192.0.2.255:5",        // all hosts
            "198.51.100.11:5",      // all hosts
            "198.51.100.12:5",      // just beyond
            "127.0.0.1:5",          // loopback
            "203.0.113.201:5",      // of an interface that is down
            "10.8.0.2:5",           // of a tunnel
            "8.8.8.8:5",            // 0.0.0.0/0 is no network
            "0.0.0.0:5",            // nobody
            "255.255.255.255:5",    // everybody
            "[fe80::1%4]:5",        // an interface without IPv6
            "[fe80::1]:5",          // on no link in particular
            "[2001:db8::1]:5",      // may be anywhere
            "[::ffff:192.0.2.1]:5", // no IPv6 address
            "[ff02::1%2]:5",        // everybody
        ];
        for foreign in foreign {
            assert!(!contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_socket_answers_what_it_can_reach() {
        let [v4, v6]: [SocketAddr; 2] =
            ["192.0.2.1:5", "[fe80::1%2]:5"].map(|text| text.parse().expect("an address"));
        let reaches = |local: &str| [v4, v6].map(|peer| links(local).contains(&peer));
        assert_eq!(reaches("0.0.0.0"), [true, false]);
        assert_eq!(reaches("::"), [true, true]);
        assert_eq!(reaches("192.0.2.7"), [true, false]);
        assert_eq!(reaches("198.51.100.9"), [false, false]);
        assert_eq!(reaches("2001:db8::7"), [false, true]);
        assert_eq!(reaches("127.0.0.1"), [false, false]);
    }

    #[test]
    fn a_host_with_too_many_links_uses_some() {
        let many: Vec<_> = (0..200u32)
            .flat_map(|n| {
                let v4 = Ipv4Addr::new(10, 0, n as u8, 1).to_string();
                [interface(&n.to_string(), n, &v4, 24), interface(&n.to_string(), n, "fe80::1", 64)]
            })
            .collect();
        let links = Links::from_interfaces(&many, Ipv6Addr::UNSPECIFIED.into());
        assert_eq!(links.query_targets().count(), 2 * MAX_LINKS + 1);
    }

    #[test]
    fn this_host_can_be_read() {
        let links = Links::read(Ipv6Addr::UNSPECIFIED.into()).expect("the system tells");
        assert!(links.query_targets().all(|target| target.port() == DISCOVERY_PORT));
    }
}

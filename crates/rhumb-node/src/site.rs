//! Where the host of a network is, as a member's files have it: an address or a name that holds
//! everywhere, or an IPv6 address that holds on one link, with the interface by which this host is
//! on that link.
//!
//! INVARIANT: an address of one link never goes without its interface: elsewhere it would be
//! another host's, or nobody's. An interface is called by its name, since its number is another
//! one after the next start.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use rhumb_trust::invitation::Host;

use crate::discovery::{interface_index, interface_name};

/// Where a host is, from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Site {
    /// Where others find it, too.
    Host(Host),
    /// At this address on the link of this interface.
    OnLink {
        /// A link-local one.
        address: Ipv6Addr,
        /// What this host calls the interface.
        interface: String,
    },
}

impl Site {
    /// As it is written: a host, or `fe80::1%eth0`.
    ///
    /// # Errors
    /// In words, when it is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((address, interface)) = text.split_once('%') else {
            return Host::parse(text).map(Self::Host);
        };
        match address.parse::<Ipv6Addr>() {
            Ok(address) if address.is_unicast_link_local() && is_interface(interface) => {
                Ok(Self::OnLink { address, interface: interface.to_owned() })
            }
            _ => Err(format!("`{text}` is no address of a link; one is like fe80::1%eth0")),
        }
    }

    /// Where somebody is who has answered from this address.
    ///
    /// # Errors
    /// When the interface of a link is gone.
    pub fn of(address: SocketAddr) -> io::Result<Self> {
        match address {
            SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
                let interface = interface_name(v6.scope_id())?;
                Ok(Self::OnLink { address: *v6.ip(), interface })
            }
            _ => Ok(Self::Host(Host::Address(address.ip()))),
        }
    }

    /// The socket's address, if no resolver has to be asked for it.
    ///
    /// # Errors
    /// When this host has no such interface now.
    pub fn address(&self, port: u16) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Host(Host::Address(ip)) => Ok(Some(SocketAddr::new(*ip, port))),
            Self::Host(Host::Named(_)) => Ok(None),
            Self::OnLink { address, interface } => {
                let index = interface_index(interface)?;
                Ok(Some(SocketAddrV6::new(*address, port, 0, index).into()))
            }
        }
    }

    /// The address, if it is one that holds everywhere.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Host(Host::Address(ip)) => Some(*ip),
            _ => None,
        }
    }

    /// The host and a port of it, as people read it.
    pub fn with_port(&self, port: u16) -> String {
        match self {
            Self::Host(host) => host.with_port(port),
            Self::OnLink { .. } => format!("[{self}]:{port}"),
        }
    }
}

impl From<Host> for Site {
    fn from(host: Host) -> Self {
        Self::Host(host)
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => host.fmt(f),
            Self::OnLink { address, interface } => write!(f, "{address}%{interface}"),
        }
    }
}

/// Whether an interface can be called so: whatever a system calls one, and nothing that a file of
/// settings, or a screen, would take for more.
fn is_interface(text: &str) -> bool {
    let is_fit = |it: char| it.is_ascii_graphic() && !"\"'\\%[]/".contains(it);
    (1..=LONGEST).contains(&text.len()) && text.chars().all(is_fit)
}

/// More than Linux takes (15), and what others do.
const LONGEST: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in ["192.0.2.1", "2001:db8::1", "home.example.net", "fe80::7%eth0", "fe80::7%br-5"]
        {
            let site = Site::parse(text).unwrap();
            assert_eq!(site.to_string(), text);
        }
        assert_eq!(Site::parse("fe80::7%eth0").unwrap().with_port(9), "[fe80::7%eth0]:9");
        assert_eq!(Site::parse("::1").unwrap().with_port(9), "[::1]:9");
        let long = format!("fe80::7%{}", "x".repeat(LONGEST + 1));
        for bad in ["fe80::7%", "fe80::7%a b", "fe80::7%a\"", "2001:db8::1%eth0", "a%b", &long] {
            assert!(Site::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_of_a_link_needs_its_interface() {
        let gone = Site::parse("fe80::7%no-such").unwrap().address(9).unwrap_err();
        assert!(gone.to_string().contains("no-such"), "{gone}");
        let nowhere = "[fe80::7%4294967295]:9".parse().unwrap();
        assert!(Site::of(nowhere).is_err());
        let everywhere = "[2001:db8::1]:9".parse().unwrap();
        assert_eq!(Site::of(everywhere).unwrap().address(9).unwrap(), Some(everywhere));
        assert_eq!(Site::parse("a.example").unwrap().address(9).unwrap(), None);
    }
}

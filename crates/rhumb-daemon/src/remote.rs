//! `NAME@ADDR` or `ADDR`: where another part of the suite is, and which name must answer there.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use rhumb_wire::Name;

/// Another part of the suite. Without a name, whoever answers at the
/// address is believed: fit for a first try only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Who must answer.
    pub name: Option<Name>,
    /// Where.
    pub address: SocketAddr,
}

impl FromStr for Remote {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, address) = match text.split_once('@') {
            Some((name, address)) => (Some(parse_name(name)?), address),
            None => (None, text),
        };
        Ok(Self { name, address: parse_address(address)? })
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(f, "{name}@{}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

impl From<Remote> for rhumb_node::Remote {
    fn from(remote: Remote) -> Self {
        Self { address: remote.address, name: remote.name }
    }
}

/// A server, and the name that must answer there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned {
    /// Who must prove to be there.
    pub name: Name,
    /// Where it is.
    pub address: SocketAddr,
}

impl Pinned {
    /// `NAME@ADDR`. Without a name it is refused, with a hint `from` where one is had.
    pub(crate) fn parse(text: &str, from: &str) -> Result<Self, String> {
        let Remote { name, address } = text.parse()?;
        let name = name.ok_or_else(|| {
            format!("`{text}` says not who must answer there; give NAME@ADDR{from}")
        })?;
        Ok(Self { name, address })
    }
}

/// Any port of any local address of the same family.
pub fn any_port_towards(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

/// A name, or what is wrong with its text.
pub(crate) fn parse_name(text: &str) -> Result<Name, String> {
    text.parse().map_err(|error| format!("`{text}` is not a name: {error}"))
}

/// The address of a waypoint, or the name of a router, which stands for an address.
pub(crate) fn parse_waypoint(text: &str) -> Result<IpAddr, String> {
    let router = || text.parse::<Name>().ok().map(|name| rhumb_switch::short_address(&name));
    let address = text.parse().ok().or_else(router);
    address.ok_or_else(|| format!("`{text}` is no IP address, and no name of a router"))
}

/// An IP address or a host name, and a port.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    if !matches!(port, Some(Ok(_))) {
        return Err(format!(
            "`{text}` is not an address; give one like 192.0.2.1:{DEFAULT_ROUTER_PORT}"
        ));
    }
    let mut found =
        text.to_socket_addrs().map_err(|error| format!("cannot resolve `{text}`: {error}"))?;
    found.next().ok_or_else(|| format!("`{text}` has no address"))
}

/// Unassigned by IANA, and beside the RIB's.
pub(crate) const DEFAULT_ROUTER_PORT: u16 = 7460;
/// Unassigned by IANA, and beside the routers'.
pub(crate) const DEFAULT_RIB_PORT: u16 = 7461;
/// The port of DNS: a zone is delegated to an address, and resolvers know no other port.
pub(crate) const DEFAULT_KEYSERVER_PORT: u16 = 53;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_round_trip() {
        let name = Name([7; 32]);
        for text in [format!("{name}@127.0.0.1:9"), "[::1]:9".to_owned()] {
            assert_eq!(text.parse::<Remote>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_waypoint_has_an_address_or_is_a_router() {
        assert_eq!(parse_waypoint("192.0.2.1").unwrap().to_string(), "192.0.2.1");
        let router = parse_waypoint(&Name([0x20; 32]).to_string()).unwrap();
        assert_eq!(router.to_string(), ["2020"; 8].join(":"));
        assert!(parse_waypoint("here").unwrap_err().contains("no name of a router"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |text: &str| text.parse::<Remote>().unwrap_err();
        assert!(refused("abc@127.0.0.1:9").contains("`abc` is not a name"));
        assert!(refused("127.0.0.1").contains("give one like"));
        assert!(refused("127.0.0.1:70000").contains("give one like"));
        assert!(refused("").contains("give one like"));
    }
}

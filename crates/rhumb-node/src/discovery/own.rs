//! What this host has on its links: the addresses by which neighbours reach it, and what its
//! interfaces are called.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use if_addrs::{IfAddr, get_if_addrs};

use super::Links;

/// The addresses that this host has on links where others can be, with port 0: those of IPv4
/// first, and link-local ones of IPv6 with their interfaces.
///
/// # Errors
/// When the system does not tell.
pub fn own_addresses() -> io::Result<Vec<SocketAddr>> {
    let links = Links::read(Ipv6Addr::UNSPECIFIED.into())?;
    let all = get_if_addrs()?;
    let own = all.iter().filter(|it| it.is_oper_up()).filter_map(|it| match &it.addr {
        IfAddr::V4(v4) => Some(SocketAddr::from((v4.ip, 0))),
        IfAddr::V6(v6) if v6.is_link_local() => {
            Some(SocketAddrV6::new(v6.ip, 0, 0, it.index?).into())
        }
        IfAddr::V6(_) => None,
    });
    let mut own: Vec<SocketAddr> = own.filter(|it| links.contains(&at_a_port(*it))).collect();
    // In the order of the interfaces, as before.
    own.sort_by_key(SocketAddr::is_ipv6);
    Ok(own)
}

/// The number of the interface of this name, which has an address.
///
/// # Errors
/// When there is none.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let all = get_if_addrs()?;
    let found = all.iter().find(|it| it.name == name).and_then(|it| it.index);
    found.ok_or_else(|| gone(&format!("interface {name}")))
}

/// The name of the interface of this number, which has an address.
///
/// # Errors
/// When there is none.
pub fn interface_name(index: u32) -> io::Result<String> {
    let all = get_if_addrs()?;
    let found = all.into_iter().find(|it| it.index == Some(index)).map(|it| it.name);
    found.ok_or_else(|| gone(&format!("interface number {index}")))
}

/// Nobody is at port 0.
fn at_a_port(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => SocketAddr::new(IpAddr::V4(*v4.ip()), 1),
        SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), 1, 0, v6.scope_id()).into(),
    }
}

fn gone(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{what} is not there, or has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_have_names_and_numbers() {
        for interface in get_if_addrs().expect("the system tells") {
            let Some(index) = interface.index else { continue };
            assert_eq!(interface_name(index).expect("it is there"), interface.name);
            assert_eq!(interface_index(&interface.name).expect("it is there"), index);
        }
        assert!(interface_index("").is_err() && interface_name(0).is_err());
    }

    #[test]
    fn own_addresses_are_of_links_and_of_ipv4_first() {
        let own = own_addresses().expect("the system tells");
        assert!(own.iter().all(|it| !it.ip().is_loopback() && it.port() == 0), "{own:?}");
        assert!(own.is_sorted_by_key(SocketAddr::is_ipv6), "{own:?}");
    }
}

//! Where others of its links reach this host.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use rhumb_node::discovery::own_addresses;

use crate::failure::{Failure, Outcome};

/// The address by which others on its links reach this host: the one by which it reaches everybody
/// else, if that is one of them.
///
/// # Errors
/// When it is on no link by IPv4.
pub fn address_on_link() -> Outcome<Ipv4Addr> {
    let own = own_addresses().map_err(Failure::operation)?;
    let usual = || {
        // Nothing is sent by it: the system says which address it would be sent from.
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        socket.connect((FAR_AWAY, 9)).ok()?;
        match socket.local_addr().ok()?.ip() {
            IpAddr::V4(ip) => own.contains(&ip).then_some(ip),
            IpAddr::V6(_) => None,
        }
    };
    usual().or_else(|| own.first().copied()).ok_or_else(|| {
        Failure::setup_text(
            "this host has no IPv4 address on a network with others (ip address), so it can make no \
             network there: connect it, or join one elsewhere by a code: rhumb join CODE",
        )
    })
}

/// An address that stands for all beyond the link (RFC 5737).
const FAR_AWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

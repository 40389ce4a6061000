//! Where others of its links reach this host: by IPv4, or else by IPv6 on that link alone.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use rhumb_node::discovery::own_addresses;
use rhumb_node::joined::Site;

use crate::failure::{Failure, Outcome};

/// The address by which others on its links reach this host: the one by which it reaches everybody
/// else, if that is one of them. Where no link has IPv4 it is a link-local one of IPv6, with the
/// first interface that has one.
///
/// # Errors
/// When it is on no link.
pub fn address_on_link() -> Outcome<Site> {
    let own = own_addresses().map_err(Failure::operation)?;
    let usual = || {
        // Nothing is sent by it: the system says which address it would be sent from.
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        socket.connect((FAR_AWAY, 9)).ok()?;
        let usual = SocketAddr::new(socket.local_addr().ok()?.ip(), 0);
        own.contains(&usual).then_some(usual)
    };
    let address = usual().or_else(|| own.first().copied()).ok_or_else(|| {
        Failure::setup_text(
            "this host has no address on a network with others, neither of IPv4 nor of IPv6 (ip address), so it can \
             make no network there: connect it, or join one elsewhere by a code: rhumb join CODE",
        )
    })?;
    Site::of(address).map_err(Failure::operation)
}

/// An address that stands for all beyond the link (RFC 5737).
const FAR_AWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

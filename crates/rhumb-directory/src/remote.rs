//! Another party that is connected to: where it is, and who it must be.

use std::net::SocketAddr;

use rhumb_wire::Name;

/// Another party to connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Where it is.
    pub address: SocketAddr,
    /// Who it must prove to be; anybody when not given.
    pub name: Option<Name>,
}

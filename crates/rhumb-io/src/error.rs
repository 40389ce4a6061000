//! Why packet I/O could not be set up. The display text says what to do, on one line.
//!
//! Invariant: every variant is a fault of the environment; what peers send is never an error here.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// What went wrong when a backend was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// A socket could not be made.
    #[error("no UDP socket can be made for {address}: {source}")]
    Socket {
        /// The address it was for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A socket option that was asked for could not be set.
    #[error("the socket option {option} is not available: {source}")]
    SocketOption {
        /// The option, by the system's name.
        option: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The address could not be bound.
    #[error(fmt = not_bound)]
    Bind {
        /// Which address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A raw socket could not be made.
    #[error(fmt = no_raw_socket)]
    Raw {
        /// The address that it was for.
        address: IpAddr,
        /// Which step failed, by the system's name.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A TUN device could not be made, or set up.
    #[error(fmt = no_tun)]
    Tun {
        /// Its name.
        name: String,
        /// Which step failed, by the system's name.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// UDP that carries packets has to be bound to one address.
    #[error(
        "UDP that carries packets needs one address of this machine to listen at, not {address}"
    )]
    NoOneAddress {
        /// The address that it is bound to.
        address: SocketAddr,
    },
    /// A [`Wake`](crate::Wake) could not be made.
    #[error("no event descriptor can be made: {source}")]
    Wake {
        /// What the system said.
        source: io::Error,
    },
}

fn not_bound(address: &SocketAddr, source: &io::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match source.kind() {
        io::ErrorKind::AddrInUse => write!(
            f,
            "UDP {address} is in use by another socket; choose another port or stop its owner"
        ),
        io::ErrorKind::AddrNotAvailable => {
            write!(f, "UDP {address}: {} is not an address of this machine", address.ip())
        }
        io::ErrorKind::PermissionDenied => write!(
            f,
            "UDP {address}: not permitted; choose a port of 1024 or above, or give the privilege"
        ),
        _ => write!(f, "UDP {address} cannot be bound: {source}"),
    }
}

fn no_raw_socket(
    address: &IpAddr,
    call: &str,
    source: &io::Error,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            write!(f, "raw sockets need CAP_NET_RAW, or root ({call}: {source})")
        }
        io::ErrorKind::AddrNotAvailable => {
            write!(f, "no raw socket at {address}: that is not an address of this machine")
        }
        _ => write!(f, "no raw socket can be made for {address} ({call}: {source})"),
    }
}

fn no_tun(name: &str, call: &str, source: &io::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            write!(f, "TUN device {name} needs CAP_NET_ADMIN, or root ({call}: {source})")
        }
        Some(libc::EBUSY) => {
            write!(f, "TUN device {name} is in use by another process; choose another name")
        }
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
            write!(f, "there are no TUN devices here: /dev/net/tun is missing ({call}: {source})")
        }
        _ => write!(f, "TUN device {name} cannot be set up ({call}: {source})"),
    }
}

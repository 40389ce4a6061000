//! Why packet I/O could not be set up. The display text says what to do, on one line.
//!
//! Invariant: every variant is a fault of the environment; what peers send is never an error here.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// What went wrong when a backend was made.
#[derive(Debug)]
#[non_exhaustive]
pub enum IoError {
    /// A socket could not be made.
    Socket {
        /// The address it was for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A socket option that was asked for could not be set.
    SocketOption {
        /// The option, by the system's name.
        option: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The address could not be bound.
    Bind {
        /// Which address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A [`Wake`](crate::Wake) could not be made.
    Wake {
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket { address, source } => {
                write!(f, "no UDP socket can be made for {address}: {source}")
            }
            Self::SocketOption { option, source } => {
                write!(f, "the socket option {option} is not available: {source}")
            }
            Self::Bind { address, source } => match source.kind() {
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
            },
            Self::Wake { source } => write!(f, "no event descriptor can be made: {source}"),
        }
    }
}

impl std::error::Error for IoError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket { source, .. }
            | Self::SocketOption { source, .. }
            | Self::Bind { source, .. }
            | Self::Wake { source } => Some(source),
        }
    }
}

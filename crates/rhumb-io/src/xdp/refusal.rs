//! Why AF_XDP is not used. The display text says what is missing and what to do, on one line.
//!
//! Invariant: with every one of these, plain sockets work: a refusal is a reason, not a failure.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why a socket could not be given rings of its own.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// This system has no AF_XDP.
    NotLinux,
    /// No interface was named, and the address does not tell.
    WhichInterface {
        /// The address that the socket is bound to.
        address: SocketAddr,
    },
    /// No interface was named for packets.
    NoInterface,
    /// More interfaces were named than there can be rings for.
    TooManyInterfaces {
        /// How many there can be.
        limit: usize,
    },
    /// The interface cannot be read: it is not there, most likely.
    Interface {
        /// Its name.
        interface: String,
        /// What the system said.
        source: io::Error,
    },
    /// The interface carries no Ethernet frames.
    NotEthernet {
        /// Its name.
        interface: String,
    },
    /// The socket is bound to an address of some other interface.
    AddressElsewhere {
        /// The interface that was named.
        interface: String,
        /// The address that the socket is bound to.
        address: SocketAddr,
    },
    /// Frames of the interface may be larger than a frame of the rings.
    MtuTooLarge {
        /// Its name.
        interface: String,
        /// Its largest packet, in bytes.
        mtu: u32,
        /// The largest that can be, in bytes.
        limit: u32,
    },
    /// The process may not do this.
    NotPermitted {
        /// Which system call.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The driver of the interface runs no XDP programs by itself. The kernel
    /// could in its place, slower than plain sockets, and losing whatever a sender
    /// on the same machine hands over as segments.
    NoNativeMode {
        /// Its name.
        interface: String,
        /// What the system said.
        source: io::Error,
    },
    /// The interface has a program already: another router's, perhaps.
    ProgramThere {
        /// Its name.
        interface: String,
    },
    /// The driver copies, and only zero copy was wanted.
    NoZeroCopy {
        /// Its name.
        interface: String,
    },
    /// Another step did not succeed.
    System {
        /// Which system call.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLinux => write!(f, "AF_XDP is there on Linux only"),
            Self::WhichInterface { address } => {
                write!(
                    f,
                    "AF_XDP works on one interface, and {address} does not tell which; name it"
                )
            }
            Self::NoInterface => write!(f, "AF_XDP works on interfaces that are named; name one"),
            Self::TooManyInterfaces { limit } => {
                write!(f, "AF_XDP works on {limit} interfaces at most; name fewer")
            }
            Self::Interface { interface, source } => {
                write!(f, "interface {interface} cannot be used: {source}")
            }
            Self::NotEthernet { interface } => {
                write!(f, "AF_XDP needs an Ethernet interface, and {interface} is none")
            }
            Self::AddressElsewhere { interface, address } => write!(
                f,
                "{} is not an address of {interface}; listen at one of its addresses, or at all",
                address.ip()
            ),
            Self::MtuTooLarge { interface, mtu, limit } => write!(
                f,
                "{interface} has an MTU of {mtu} bytes, and AF_XDP frames hold {limit} at most; lower it"
            ),
            Self::NotPermitted { call, source } => write!(
                f,
                "AF_XDP needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, or root ({call}: {source})"
            ),
            Self::NoNativeMode { interface, source } => write!(
                f,
                "the driver of {interface} runs no XDP program as it is set up now ({source}); a smaller MTU, \
                 or fewer queues, may help"
            ),
            Self::ProgramThere { interface } => {
                write!(f, "{interface} has an XDP program already; there can be one at a time")
            }
            Self::NoZeroCopy { interface } => write!(
                f,
                "the driver of {interface} has no zero copy, without which sockets are as good"
            ),
            Self::System { call, source } => {
                write!(f, "AF_XDP is not available ({call}: {source})")
            }
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Interface { source, .. }
            | Self::NotPermitted { source, .. }
            | Self::NoNativeMode { source, .. }
            | Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Refusal {
    /// For a system call that failed.
    #[cfg(target_os = "linux")]
    pub(super) fn of(call: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { call, source },
            _ => Self::System { call, source },
        }
    }
}

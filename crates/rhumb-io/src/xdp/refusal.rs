//! Why AF_XDP is not used. The display text says what is missing and what to do, on one line.
//!
//! Invariant: with every one of these, plain sockets work: a refusal is a reason, not a failure.

use std::io;
use std::net::SocketAddr;

/// Why a socket could not be given rings of its own.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// This system has no AF_XDP.
    #[error("AF_XDP is there on Linux only")]
    NotLinux,
    /// No interface was named, and none has the address.
    #[error("no Ethernet interface is found for {address}; name one, or listen elsewhere")]
    WhichInterface {
        /// The address that the socket is bound to.
        address: SocketAddr,
    },
    /// No interface was named for packets.
    #[error("AF_XDP works on interfaces that are named; name one")]
    NoInterface,
    /// More interfaces were named than there can be rings for.
    #[error("AF_XDP works on {limit} interfaces at most; name fewer")]
    TooManyInterfaces {
        /// How many there can be.
        limit: usize,
    },
    /// The interface cannot be read: it is not there, most likely.
    #[error("interface {interface} cannot be used: {source}")]
    Interface {
        /// Its name.
        interface: String,
        /// What the system said.
        source: io::Error,
    },
    /// The interface carries no Ethernet frames.
    #[error("AF_XDP needs an Ethernet interface, and {interface} is none")]
    NotEthernet {
        /// Its name.
        interface: String,
    },
    /// The socket is bound to an address of some other interface.
    #[error("{} is not an address of {interface}; listen at one of its addresses, or at all", .address.ip())]
    AddressElsewhere {
        /// The interface that was named.
        interface: String,
        /// The address that the socket is bound to.
        address: SocketAddr,
    },
    /// Frames of the interface may be larger than a frame of the rings.
    #[error(
        "{interface} has an MTU of {mtu} bytes, and AF_XDP frames hold {limit} at most; lower it"
    )]
    MtuTooLarge {
        /// Its name.
        interface: String,
        /// Its largest packet, in bytes.
        mtu: u32,
        /// The largest that can be, in bytes.
        limit: u32,
    },
    /// The system does not say which worker a datagram is for.
    #[error("AF_XDP for several workers needs a system that spreads datagrams over sockets")]
    NotSteered,
    /// The process may not do this.
    #[error("AF_XDP needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, or root ({call}: {source})")]
    NotPermitted {
        /// Which system call.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The driver of the interface runs no XDP programs by itself. The kernel
    /// could in its place, slower than plain sockets, and losing whatever a sender
    /// on the same machine hands over as segments.
    #[error(
        "the driver of {interface} runs no XDP program as it is set up now ({source}); a smaller MTU, \
         or fewer queues, may help"
    )]
    NoNativeMode {
        /// Its name.
        interface: String,
        /// What the system said.
        source: io::Error,
    },
    /// The interface has a program already: another router's, perhaps.
    #[error("{interface} has an XDP program already; there can be one at a time")]
    ProgramThere {
        /// Its name.
        interface: String,
    },
    /// The driver copies, and only zero copy was wanted.
    #[error("the driver of {interface} has no zero copy, without which sockets are as good")]
    NoZeroCopy {
        /// Its name.
        interface: String,
    },
    /// Another step did not succeed.
    #[error("AF_XDP is not available ({call}: {source})")]
    System {
        /// Which system call.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
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

//! UDP sockets. On Linux many datagrams per system call and per message (recvmmsg with UDP_GRO,
//! sendmmsg with UDP_SEGMENT); elsewhere one datagram per call behind the same name.
//!
//! Invariant: a socket behaves alike whatever the system can do; [`UdpSocket::capabilities`] says
//! how fast it will be. A socket bound to the unspecified IPv6 address serves IPv4 too, and IPv4
//! peers have IPv4 addresses on it.
//! Source: udp(7), Linux `Documentation/networking/segmentation-offloads.rst`.

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) mod address;
#[cfg(target_os = "linux")]
mod coalescer;
mod group;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod load;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", allow(dead_code, unreachable_pub))]
mod portable;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) mod sys;

use std::time::Duration;

pub use group::Group;
#[cfg(target_os = "linux")]
pub use linux::UdpSocket;
#[cfg(target_os = "linux")]
pub(crate) use linux::{ask_buffer, is_final};
#[cfg(not(target_os = "linux"))]
pub use portable::UdpSocket;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::is_final;

/// Whether an error of a socket means that it is of no further use, and not a datagram or a peer.
pub fn is_over(error: &std::io::Error) -> bool {
    is_final(error)
}

/// What to ask of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Receive superpackets, where the system can.
    pub gro: bool,
    /// Send runs of segments, where the system can.
    pub gso: bool,
    /// Bytes of the receive queue to ask for; the system may give less. `None` leaves its default.
    pub receive_buffer_bytes: Option<usize>,
    /// Bytes of the send queue to ask for; the system may give less. `None` leaves its default.
    pub send_buffer_bytes: Option<usize>,
    /// Let several sockets of one user bind the same
    /// address; the system spreads the peers over them.
    pub reuse_port: bool,
    /// How long [`UdpSocket::wait`] may let datagrams gather while they come close upon each other:
    /// fewer and larger batches, for as much latency at most. `None`: not at all. Without effect
    /// where one datagram is received at a time.
    pub coalesce: Option<Duration>,
    /// About how many datagrams to receive at a time, at most: the first of a batch is answered
    /// when the last is. Without effect where one datagram is received at a time.
    pub batch_datagrams: usize,
    /// Let datagrams go to broadcast addresses.
    pub broadcast: bool,
    /// Have datagrams go whole or not at all, whatever anybody says of the path's MTU (Linux).
    /// Without, the system cuts them, and believes messages of ICMP, which anybody can write.
    pub whole: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            gro: true,
            gso: true,
            receive_buffer_bytes: Some(DEFAULT_BUFFER_BYTES),
            send_buffer_bytes: Some(DEFAULT_BUFFER_BYTES),
            reuse_port: false,
            coalesce: None,
            batch_datagrams: BATCH_DATAGRAMS,
            broadcast: false,
            whole: true,
        }
    }
}

/// Default bytes of each queue. 5 ms at 6 Gbit/s: a worker that is busy for that long loses
/// nothing. It is also what many distributions allow without privilege.
pub const DEFAULT_BUFFER_BYTES: usize = 4 << 20;

/// Datagrams that make a batch of good size where each is forwarded: 16 full runs, well below a
/// millisecond of a worker's time.
pub const BATCH_DATAGRAMS: usize = 1024;

/// What a socket does, as the system allowed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Superpackets are received.
    pub gro: bool,
    /// Runs of segments are sent. Becomes false when the system
    /// refuses one: not every device and tunnel can.
    pub gso: bool,
    /// Bytes of the receive queue, by the system's own account.
    pub receive_buffer_bytes: usize,
    /// Bytes of the send queue, by the system's own account.
    pub send_buffer_bytes: usize,
}

/// Why a wait ended. Neither is set when the time was over or a signal came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ready {
    /// Datagrams wait to be received.
    pub readable: bool,
    /// Another thread called [`Wake::wake`](crate::Wake::wake). It has been taken.
    pub woken: bool,
}

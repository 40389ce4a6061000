//! AF_XDP: the datagrams of one UDP port ([`XdpSocket`]), or the packets of one IP protocol
//! ([`XdpPackets`]), past the kernel's network stack, beside the kernel on the same interface.
//!
//! An XDP program of a few dozen instructions leads whole datagrams to our port into rings that we
//! share with the kernel; everything else that arrives goes on as before. We answer through the
//! same rings, on ways that the kernel tells. What cannot go by frames (a peer beyond an interface
//! without rings, a neighbour not known yet, a datagram larger than a packet) goes by an ordinary
//! UDP socket on the same port, which also receives what the program passes. So whatever a socket
//! reaches, this reaches; the rings make the usual case cheaper.
//!
//! There may be several interfaces, and several workers: each has rings of its own on every queue
//! of every interface, and the program reads the lane of a datagram to find whose it is.
//!
//! What goes by the rings is seen by nothing between the driver and us: no
//! netfilter, no traffic control, no tcpdump. With zero copy, frames lie where the
//! device writes them; without, the kernel copies once. See
//! `docs/decisions/0012-af-xdp.md` and `0108-af-xdp-for-workers.md`, and `docs/benchmarks.md` for
//! what it is worth.
//!
//! Invariant: the program is tied to this process. When it ends,
//! however it ends, the interface is as it was before.

#[cfg(target_os = "linux")]
mod attached;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod bpf;
#[cfg(target_os = "linux")]
mod frame;
#[cfg(target_os = "linux")]
mod interface;
#[cfg(target_os = "linux")]
mod packets;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod queue;
mod refusal;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod ring;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod sys;
#[cfg(target_os = "linux")]
mod ways;

#[cfg(target_os = "linux")]
pub(crate) use bpf::{attach_to_group, load_for_sockets};
#[cfg(target_os = "linux")]
pub(crate) use interface::{Listening, find_interfaces};
#[cfg(target_os = "linux")]
pub use packets::XdpPackets;
pub use refusal::Refusal;
#[cfg(target_os = "linux")]
pub use socket::XdpSocket;

/// A socket that got no rings, as it was, and why.
#[derive(Debug)]
pub struct Refused<S = crate::udp::UdpSocket> {
    /// The socket.
    pub socket: S,
    /// Why it got none.
    pub refusal: Refusal,
}

/// What became of the wish for rings.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Attachment {
    /// The sockets with rings; or, where no interface has any, the sockets as they were.
    pub result: Result<Vec<XdpSocket>, Vec<crate::udp::UdpSocket>>,
    /// The interfaces that came in question, and what there is on each.
    pub interfaces: Vec<OnInterface>,
    /// Why none came in question.
    pub refusal: Option<Refusal>,
}

/// An interface, and what it gives.
#[derive(Debug)]
pub struct OnInterface {
    /// Its name.
    pub name: String,
    /// The rings on it; or why there are none, and datagrams go by the sockets.
    pub rings: Result<Rings, Refusal>,
}

/// The rings on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rings {
    /// Receive queues that have rings.
    pub queues: usize,
    /// Whether the driver works in our memory itself, on every queue.
    pub zero_copy: bool,
}

/// What to ask of AF_XDP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The interfaces to work on. Empty: those that have the address of the socket or, for a
    /// socket bound to all addresses, every Ethernet interface that is up and has an address.
    pub interfaces: Vec<String>,
    /// Of each the one receive queue to take. `None`: all of them, as many as [`MAX_QUEUES`] on all
    /// interfaces together. What arrives on others reaches us through the socket.
    pub queue: Option<u32>,
    /// Refuse where the driver copies each frame.
    pub zero_copy_only: bool,
    /// Where the driver runs no programs, let the kernel run ours in its place (SKB mode). Slower
    /// than plain sockets, and what senders on this machine hand over as segments is lost without a
    /// trace: for experiments only.
    pub generic: bool,
}

/// Receive queues with rings at most: each takes 20 MiB, and up to 7 MiB more for each further
/// thread; every thread serves them all.
pub const MAX_QUEUES: usize = 16;

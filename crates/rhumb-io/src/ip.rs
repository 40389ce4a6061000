//! Whole IP packets in batches behind one name, [`IpIo`]: [`Tun`] to and from the host's own stack,
//! [`RawSocket`] for one IP protocol, [`XdpPackets`](crate::xdp::XdpPackets) for the same past the
//! kernel, and [`UdpCarriage`] where only UDP gets through.
//!
//! A packet is what stands in an [`IpBatch`]: an IPv4 or IPv6 header and what follows it.
//! Where a packet goes is written in its header; the kernel's routes decide about the way,
//! whichever the backend. Each packet received has [`HEADROOM`] bytes free in front, so that
//! a header can be put before it, or taken away, without a copy, and a batch that came in by
//! one backend goes out by another as it stands.
//!
//! Invariant: what strangers send is dropped and counted, never an `Err`; a returned `Err` means
//! that the backend is of no further use.

mod batch;
mod head;
mod header;
mod raw;
mod run;
mod superpacket;
#[allow(unsafe_code)]
mod sys;
mod tun;
mod udp;
mod uncut;

use std::io;
use std::net::IpAddr;
use std::time::Duration;

pub use batch::{Fate, HEADROOM, IpBatch};
pub use head::RunHead;
pub use header::{PROTOCOL_UDP, ends_of};
pub(crate) use raw::settle;
pub use raw::{RawOptions, RawSocket};
pub use tun::{Tun, TunOptions};
pub use udp::UdpCarriage;
pub use uncut::{Given, Uncut};

use crate::netlink::Netlink;
use crate::udp::Ready;
use crate::{Counters, SendReport, Wake};

/// A source and sink of IP packets in batches. Never blocks for longer than a few milliseconds, but
/// in [`IpIo::wait`]. All its calls are per batch, so a `Box<dyn IpIo>` costs nothing that shows.
pub trait IpIo {
    /// Forgets what is in the batch and fills it with the packets that wait; returns how many. 0
    /// when none wait. They are [`RECEIVE_MOST`] at most, or what stood in one superpacket more.
    fn receive(&mut self, packets: &mut IpBatch) -> io::Result<usize>;

    /// Sends every packet of the batch that was not dropped, and notes in it what became of each:
    /// [`IpBatch::fate`]. The source address is sent as it stands. IPv4 header checksums have to be
    /// right; the kernel writes the total length, and an identification where there is 0.
    fn send(&mut self, packets: &mut IpBatch) -> io::Result<SendReport>;

    /// Waits until packets wait, `also` is woken, or the time is over (`None`: for ever).
    fn wait(&mut self, timeout: Option<Duration>, also: Option<&Wake>) -> io::Result<Ready>;

    /// What was done so far. Datagrams are packets here. Asks the system, so not per batch.
    fn counters(&self) -> Counters;
}

/// Packets after which a call receives no more: so many share a system call,
/// and all of them stay in the second-level cache.
pub const RECEIVE_MOST: usize = 64;

/// What the kernel knows about paths: for the answer to a packet that was too big. It belongs to
/// the network namespace of the thread that made it.
#[derive(Debug)]
pub struct Paths {
    netlink: Netlink,
}

impl Paths {
    /// Someone to ask.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn new() -> io::Result<Self> {
        Netlink::new().map(|netlink| Self { netlink })
    }

    /// The addresses of this host.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn host_addresses(&mut self) -> io::Result<Vec<IpAddr>> {
        Ok(self.netlink.addresses()?.into_iter().map(|(_, address)| address).collect())
    }

    /// Bytes of the largest packet that gets from here to `destination`, as far as the kernel
    /// knows: of the path, where it has been told, else of the interface. `None` where it has no
    /// route. Costs some 10 us: not per packet.
    pub fn largest_packet(&mut self, destination: IpAddr) -> Option<u32> {
        let route = self.netlink.route(destination, None, None)?;
        let link = self.netlink.link_by_index(route.interface).ok()?;
        Some(route.mtu.map_or(link.mtu, |mtu| mtu.min(link.mtu)))
    }
}

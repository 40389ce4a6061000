//! The backends of a daemon, one for each worker, chosen when it starts: UDP sockets, or AF_XDP
//! with them.
//!
//! Invariant: whatever was chosen, there are backends as soon as the address can be bound; why one
//! of them is not what was wished for is told along with them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rhumb_wire::Batch;

use crate::devices::{Device, devices};
use crate::fd::BorrowedFd;
use crate::udp::{self, Group, Ready, UdpSocket};
#[cfg(target_os = "linux")]
use crate::xdp::XdpSocket;
use crate::xdp::{self, OnInterface, Refusal};
use crate::{Counters, IoError, PacketIo, SendReport, Wake};

/// Which backend to take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Choice {
    /// UDP sockets.
    #[default]
    Socket,
    /// AF_XDP where it is surely better, which is on interfaces
    /// whose driver has zero copy; else UDP sockets.
    Auto {
        /// As [`xdp::Options::interfaces`].
        interfaces: Vec<String>,
    },
    /// AF_XDP on interfaces whose driver runs our program; else UDP sockets.
    Xdp(xdp::Options),
}

/// Backends, and why they are not others.
#[derive(Debug)]
pub struct Opened {
    /// One for each worker, in their order.
    pub backends: Vec<Backend>,
    /// Whether each receives its share. If not, the first
    /// receives all, and the others are to send only.
    pub steered: bool,
    /// What there is of AF_XDP on each interface that came in question, where it was asked for.
    pub interfaces: Vec<OnInterface>,
    /// Why no interface came in question, where AF_XDP was asked for.
    pub refusal: Option<Refusal>,
}

/// One of the backends. A batch costs one branch more than with the backend itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum Backend {
    /// A UDP socket.
    Udp(Box<UdpSocket>),
    /// AF_XDP, with a UDP socket beside it.
    #[cfg(target_os = "linux")]
    Xdp(Box<XdpSocket>),
}

/// Opens backends of choice for `workers` on `address`; the system chooses the port when it is 0.
///
/// # Errors
/// When the address cannot be bound. That AF_XDP is not available is no error, nor that the system
/// cannot spread datagrams over workers.
pub fn open(
    choice: &Choice,
    address: SocketAddr,
    options: udp::Options,
    workers: usize,
) -> Result<Opened, IoError> {
    let group = Group::bind(address, options, workers)?;
    let wish = match choice {
        Choice::Socket => return Ok(Opened::sockets(group, None)),
        Choice::Auto { interfaces } => xdp::Options {
            interfaces: interfaces.clone(),
            zero_copy_only: true,
            ..xdp::Options::default()
        },
        Choice::Xdp(wish) => wish.clone(),
    };
    if !group.steered {
        return Ok(Opened::sockets(group, Some(Refusal::NotSteered)));
    }
    Ok(attach(group, &wish))
}

#[cfg(target_os = "linux")]
fn attach(group: Group, options: &xdp::Options) -> Opened {
    let xdp::Attachment { result, interfaces, refusal } =
        XdpSocket::attach_all(group.sockets, options);
    let backends = match result {
        Ok(with_rings) => with_rings.into_iter().map(|it| Backend::Xdp(Box::new(it))).collect(),
        Err(sockets) => sockets.into_iter().map(Backend::from).collect(),
    };
    Opened { backends, steered: true, interfaces, refusal }
}

#[cfg(not(target_os = "linux"))]
fn attach(group: Group, _: &xdp::Options) -> Opened {
    Opened::sockets(group, Some(Refusal::NotLinux))
}

impl Opened {
    fn sockets(group: Group, refusal: Option<Refusal>) -> Self {
        let backends = group.sockets.into_iter().map(Backend::from).collect();
        Self { backends, steered: group.steered, interfaces: Vec::new(), refusal }
    }
}

impl Backend {
    /// The UDP socket of the port, which each of them has.
    pub fn udp(&self) -> &UdpSocket {
        match self {
            Self::Udp(socket) => socket,
            #[cfg(target_os = "linux")]
            Self::Xdp(socket) => socket.socket(),
        }
    }

    /// In one word, for status and metrics: `socket`, `xdp_copy` or `xdp_zero_copy`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Udp(_) => "socket",
            #[cfg(target_os = "linux")]
            Self::Xdp(socket) if socket.queues() == 0 => "socket",
            #[cfg(target_os = "linux")]
            Self::Xdp(socket) if socket.is_zero_copy() => "xdp_zero_copy",
            #[cfg(target_os = "linux")]
            Self::Xdp(_) => "xdp_copy",
        }
    }

    /// Whether datagrams go by AF_XDP: not any more once its interfaces are gone.
    pub fn is_xdp(&self) -> bool {
        self.name() != "socket"
    }

    /// The interfaces that AF_XDP works on, and how many queues of each
    /// have rings: not any more those that are gone.
    pub fn interfaces(&self) -> Vec<(&str, usize)> {
        match self {
            Self::Udp(_) => Vec::new(),
            #[cfg(target_os = "linux")]
            Self::Xdp(socket) => socket.interfaces().collect(),
        }
    }

    /// The devices that datagrams go by, as far as that is known: a bounded number. Asks the
    /// system, so not per batch.
    pub fn devices(&self) -> Vec<Device> {
        devices(self.local_address())
    }

    /// As [`UdpSocket::wait`].
    ///
    /// # Errors
    /// When the backend is of no further use.
    pub fn wait(&mut self, timeout: Option<Duration>, also: Option<&Wake>) -> io::Result<Ready> {
        self.wait_beside(timeout, also, None)
    }

    /// As [`UdpSocket::wait_beside`].
    ///
    /// # Errors
    /// When the backend is of no further use.
    pub fn wait_beside(
        &mut self,
        timeout: Option<Duration>,
        also: Option<&Wake>,
        beside: Option<BorrowedFd<'_>>,
    ) -> io::Result<Ready> {
        match self {
            Self::Udp(socket) => socket.wait_beside(timeout, also, beside),
            #[cfg(target_os = "linux")]
            Self::Xdp(socket) => socket.wait_beside(timeout, also, beside),
        }
    }

    /// What was done so far. Asks the system, so not per batch.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Udp(socket) => socket.counters(),
            #[cfg(target_os = "linux")]
            Self::Xdp(socket) => socket.counters(),
        }
    }
}

impl From<UdpSocket> for Backend {
    fn from(socket: UdpSocket) -> Self {
        Self::Udp(Box::new(socket))
    }
}

impl PacketIo for Backend {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.receive(batch),
            #[cfg(target_os = "linux")]
            Self::Xdp(socket) => socket.receive(batch),
        }
    }

    fn is_drained(&self) -> bool {
        match self {
            Self::Udp(socket) => socket.is_drained(),
            #[cfg(target_os = "linux")]
            Self::Xdp(socket) => socket.is_drained(),
        }
    }

    fn send(&mut self, batch: &Batch) -> io::Result<SendReport> {
        match self {
            Self::Udp(socket) => socket.send(batch),
            #[cfg(target_os = "linux")]
            Self::Xdp(socket) => socket.send(batch),
        }
    }

    fn local_address(&self) -> SocketAddr {
        self.udp().local_address()
    }

    fn headroom(&self) -> usize {
        match self {
            Self::Udp(socket) => socket.headroom(),
            #[cfg(target_os = "linux")]
            Self::Xdp(socket) => socket.headroom(),
        }
    }
}

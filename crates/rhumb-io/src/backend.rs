//! The backend of a daemon, chosen when it starts: a UDP socket, or AF_XDP with one.
//!
//! Invariant: whatever was chosen, there is a backend as soon as the address can be bound; why it
//! is not the one that was wished for is told along with it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rhumb_wire::Batch;

use crate::udp::{self, Ready, UdpSocket};
#[cfg(target_os = "linux")]
use crate::xdp::XdpSocket;
use crate::xdp::{self, Refusal, Refused};
use crate::{Counters, IoError, PacketIo, SendReport, Wake};

/// Which backend to take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Choice {
    /// A UDP socket.
    #[default]
    Socket,
    /// AF_XDP where it is surely better, which is where
    /// the driver has zero copy; else a UDP socket.
    Auto {
        /// As [`xdp::Options::interface`].
        interface: Option<String>,
    },
    /// AF_XDP where the driver runs our program; else a UDP socket.
    Xdp(xdp::Options),
}

/// A backend, and why it is not another one.
#[derive(Debug)]
pub struct Opened {
    /// The backend.
    pub backend: Backend,
    /// Why it does without AF_XDP, where that was asked for.
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

/// Opens the backend of choice on `address`; the system chooses the port when it is 0.
///
/// # Errors
/// When the address cannot be bound. That AF_XDP is not available is no error.
pub fn open(
    choice: &Choice,
    address: SocketAddr,
    options: udp::Options,
) -> Result<Opened, IoError> {
    let socket = UdpSocket::bind(address, options)?;
    let wish = match choice {
        Choice::Socket => return Ok(Opened { backend: socket.into(), refusal: None }),
        Choice::Auto { interface } => xdp::Options {
            interface: interface.clone(),
            zero_copy_only: true,
            ..xdp::Options::default()
        },
        Choice::Xdp(wish) => wish.clone(),
    };
    Ok(match attach(socket, &wish) {
        Ok(backend) => Opened { backend, refusal: None },
        Err(refused) => {
            let Refused { socket, refusal } = *refused;
            Opened { backend: socket.into(), refusal: Some(refusal) }
        }
    })
}

#[cfg(target_os = "linux")]
fn attach(socket: UdpSocket, options: &xdp::Options) -> Result<Backend, Box<Refused>> {
    XdpSocket::attach(socket, options).map(|socket| Backend::Xdp(Box::new(socket)))
}

#[cfg(not(target_os = "linux"))]
fn attach(socket: UdpSocket, _: &xdp::Options) -> Result<Backend, Box<Refused>> {
    Err(Box::new(Refused { socket, refusal: Refusal::NotLinux }))
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

    /// Whether datagrams go by AF_XDP: not any more once its interface is gone.
    pub fn is_xdp(&self) -> bool {
        self.name() != "socket"
    }

    /// The interface that AF_XDP works on.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Udp(_) => None,
            #[cfg(target_os = "linux")]
            Self::Xdp(socket) => Some(socket.interface()),
        }
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

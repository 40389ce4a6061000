//! The UDP socket on systems without batched calls: one datagram per system call. Slow, and right.
//!
//! Invariant: the same as on Linux: trouble with one datagram does not touch the others. What
//! differs: queue sizes stay the system's own, and several sockets cannot share an address.

use std::io;
use std::net::SocketAddr;
#[cfg(not(windows))]
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use rhumb_wire::Batch;

use super::group::Instruction;
use super::{Capabilities, Options, Ready};
use crate::fd::{AsFd, BorrowedFd};
use crate::poll::{Interest, poll};
use crate::{Counters, IoError, PacketIo, SendReport, Wake};

/// A UDP socket, not connected, that never blocks.
#[derive(Debug)]
pub struct UdpSocket {
    socket: std::net::UdpSocket,
    local: SocketAddr,
    counters: Counters,
    buffer: Box<[u8]>,
}

impl UdpSocket {
    /// A socket bound to `address`; the system chooses the port when it is 0.
    pub fn bind(address: SocketAddr, options: Options) -> Result<Self, IoError> {
        if options.reuse_port {
            let source = io::ErrorKind::Unsupported.into();
            return Err(IoError::SocketOption { option: "SO_REUSEPORT", source });
        }
        let open = || {
            let socket = std::net::UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            socket.set_broadcast(options.broadcast)?;
            Ok((socket.local_addr()?, socket))
        };
        let (local, socket) = open().map_err(|source| IoError::Bind { address, source })?;
        let buffer = vec![0; LARGEST_DATAGRAM].into();
        Ok(Self { socket, local, counters: Counters::default(), buffer })
    }

    /// Another socket at the same address that is meant to send
    /// only: what it receives, this one does not.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub(crate) fn sender(&self) -> Result<Self, IoError> {
        let duplicate = self.socket.try_clone();
        let socket = duplicate.map_err(|source| IoError::Socket { address: self.local, source })?;
        let (local, buffer) = (self.local, vec![0; LARGEST_DATAGRAM].into());
        Ok(Self { socket, local, counters: Counters::default(), buffer })
    }

    /// Always an error: several sockets cannot share an address here.
    pub(crate) fn steer(&self, _: &[Instruction]) -> Result<(), IoError> {
        let source = io::ErrorKind::Unsupported.into();
        Err(IoError::SocketOption { option: "SO_ATTACH_REUSEPORT_CBPF", source })
    }

    /// What the system allows this socket to do: nothing but plain datagrams.
    pub fn capabilities(&self) -> Capabilities {
        Capabilities { gro: false, gso: false, receive_buffer_bytes: 0, send_buffer_bytes: 0 }
    }

    /// What the socket has done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Waits until datagrams wait, `also` is woken, or the time is over (`None`: for ever).
    pub fn wait(&mut self, timeout: Option<Duration>, also: Option<&Wake>) -> io::Result<Ready> {
        self.wait_beside(timeout, also, None)
    }

    /// As [`UdpSocket::wait`], also until there is something to read from `beside`, which is not
    /// told of.
    pub fn wait_beside(
        &mut self,
        timeout: Option<Duration>,
        also: Option<&Wake>,
        beside: Option<BorrowedFd<'_>>,
    ) -> io::Result<Ready> {
        self.counters.wait_calls += 1;
        let socket = Interest::Readable(self.socket.as_fd());
        let wake = also.map_or(Interest::Nothing, |wake| Interest::Readable(wake.as_fd()));
        let beside = beside.map_or(Interest::Nothing, Interest::Readable);
        let [readable, woken, _] = poll(&[socket, wake, beside], timeout)?;
        Ok(Ready { readable, woken: woken && also.is_some_and(Wake::take) })
    }

    /// `peer` as this socket takes it: an IPv6 socket takes IPv4 peers by mapped addresses.
    fn reachable(&self, peer: SocketAddr) -> SocketAddr {
        match peer {
            SocketAddr::V4(v4) if self.local.is_ipv6() => {
                (v4.ip().to_ipv6_mapped(), v4.port()).into()
            }
            _ => peer,
        }
    }

    /// Sends one datagram, with a few waits when the queue is full.
    fn send_one(
        &mut self,
        peer: SocketAddr,
        datagram: &[u8],
        patience: &mut u32,
    ) -> io::Result<usize> {
        loop {
            self.counters.send_calls += 1;
            match self.socket.send_to(datagram, self.reachable(peer)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_busy(&error) && *patience > 0 => {
                    *patience -= 1;
                    poll(&[Interest::Writable(self.socket.as_fd())], Some(SEND_WAIT))?;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && *patience > 0 => {
                    *patience -= 1;
                }
                result => return result,
            }
        }
    }
}

impl PacketIo for UdpSocket {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        batch.clear();
        for _ in 0..BATCH_DATAGRAMS {
            self.counters.receive_calls += 1;
            match self.socket.recv_from(&mut self.buffer) {
                Ok((0, _)) => self.counters.receive_malformed += 1,
                Ok((len, peer)) => {
                    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                    batch.push(peer, &self.buffer[..len]);
                    self.counters.received_messages += 1;
                    self.counters.received_bytes += len as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_final(&error) => return Err(error),
                Err(_) => self.counters.receive_errors += 1,
            }
        }
        self.counters.received_datagrams += batch.len() as u64;
        Ok(batch.len())
    }

    fn send(&mut self, batch: &Batch) -> io::Result<SendReport> {
        let mut report = SendReport::default();
        let mut patience = SEND_PATIENCE;
        for (peer, datagram) in batch.iter() {
            match self.send_one(peer, datagram, &mut patience) {
                Ok(_) => {
                    report.sent += 1;
                    self.counters.sent_messages += 1;
                    self.counters.sent_datagrams += 1;
                    self.counters.sent_bytes += datagram.len() as u64;
                }
                Err(error) if is_final(&error) => return Err(error),
                Err(error) if is_busy(&error) => report.dropped_busy += 1,
                Err(error) if error.raw_os_error() == Some(TOO_BIG) => {
                    report.dropped_too_big += 1;
                }
                Err(_) => report.dropped_unreachable += 1,
            }
        }
        self.counters.add_drops(&report);
        Ok(report)
    }

    fn local_address(&self) -> SocketAddr {
        self.local
    }

    fn headroom(&self) -> usize {
        0
    }
}

#[cfg(not(windows))]
impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for UdpSocket {
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        self.socket.as_socket()
    }
}

#[cfg(not(windows))]
impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Whether an error says that a queue is full.
fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(NO_BUFFERS)
}

/// Whether an error means that the socket is of no further use, not that a datagram or peer is.
pub(crate) fn is_final(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| FINAL.contains(&code))
}

#[cfg(not(windows))]
const TOO_BIG: i32 = libc::EMSGSIZE;
#[cfg(not(windows))]
const NO_BUFFERS: i32 = libc::ENOBUFS;
#[cfg(not(windows))]
const FINAL: [i32; 4] = [libc::EBADF, libc::ENOTSOCK, libc::EFAULT, libc::EPIPE];
/// `WSAEMSGSIZE`; Windows has numbers of its own for sockets.
#[cfg(windows)]
const TOO_BIG: i32 = 10_040;
/// `WSAENOBUFS`.
#[cfg(windows)]
const NO_BUFFERS: i32 = 10_055;
/// `WSAEBADF`, `WSAENOTSOCK`, `WSAEFAULT`, `WSAESHUTDOWN`.
#[cfg(windows)]
const FINAL: [i32; 4] = [10_009, 10_038, 10_014, 10_058];

/// No UDP payload is larger.
const LARGEST_DATAGRAM: usize = 65_535;

/// Most datagrams received in one batch.
const BATCH_DATAGRAMS: usize = 64;

/// How often a batch waits for a full queue before datagrams are dropped.
const SEND_PATIENCE: u32 = 4;

/// How long each of these waits is.
const SEND_WAIT: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn bind() -> UdpSocket {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        UdpSocket::bind(loopback, Options::default()).expect("bind")
    }

    #[test]
    fn a_batch_arrives_whole_and_in_order() {
        let (mut sender, mut receiver) = (bind(), bind());
        let mut batch = Batch::new();
        let datagrams: Vec<Vec<u8>> = (1..=50).map(|len| vec![len as u8; len * 20]).collect();
        for datagram in &datagrams {
            batch.push(receiver.local_address(), datagram);
        }
        assert_eq!(sender.send(&batch).expect("send").sent, 50);
        let mut received = Vec::new();
        while received.len() < datagrams.len() {
            let ready = receiver.wait(Some(Duration::from_secs(5)), None).expect("wait");
            assert!(ready.readable, "{} datagrams arrived", received.len());
            receiver.receive(&mut batch).expect("receive");
            for (peer, bytes) in batch.iter() {
                assert_eq!(peer, sender.local_address());
                received.push(bytes.to_vec());
            }
        }
        assert_eq!(received, datagrams);
        assert_eq!(receiver.counters().received_datagrams, 50);
    }

    #[test]
    fn trouble_with_one_datagram_does_not_touch_the_next() {
        let (mut sender, mut receiver) = (bind(), bind());
        let mut batch = Batch::new();
        batch.push(receiver.local_address(), &vec![0; 65_508]);
        batch.push(SocketAddr::from(([255, 255, 255, 255], 9)), b"broadcast is forbidden");
        batch.push(receiver.local_address(), b"fine");
        let report = sender.send(&batch).expect("send");
        assert_eq!((report.sent, report.dropped_too_big, report.dropped_unreachable), (1, 1, 1));
        assert!(receiver.wait(Some(Duration::from_secs(5)), None).expect("wait").readable);
        assert_eq!(receiver.receive(&mut batch).expect("receive"), 1);
    }

    #[test]
    fn a_wake_ends_the_wait() {
        let (mut socket, wake) = (bind(), Wake::new().expect("wake"));
        wake.wake();
        let ready = socket.wait(Some(Duration::from_secs(5)), Some(&wake)).expect("wait");
        assert_eq!(ready, Ready { readable: false, woken: true });
        let ready = socket.wait(Some(Duration::ZERO), Some(&wake)).expect("wait");
        assert_eq!(ready, Ready::default());
    }
}

//! The UDP socket on Linux: many datagrams per message, many messages per system call.
//!
//! Flow, per batch: [`receive`](PacketIo::receive) lends the batch's arena to recvmmsg,
//! then splits each superpacket into slots where it stands; [`send`](PacketIo::send)
//! regroups the slots into runs, then hands the runs to sendmmsg, which gathers their
//! segments from the arena. Nothing is copied in this process.
//!
//! Invariant: what happens to one datagram does not keep the others of its batch from being tried.
//! A send waits at most [`SEND_PATIENCE`] times [`SEND_WAIT`] per batch for a full queue.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rhumb_wire::Batch;

use super::address::Family;
use super::coalescer::Coalescer;
use super::group::Instruction;
use super::load::Load;
use super::sys::{self, Message, Receiver, Sender};
use super::{BATCH_DATAGRAMS, Capabilities, Options, Ready};
use crate::poll::{Interest, keep_time, poll};
use crate::runs::{MAX_SEGMENTS, Runs};
use crate::{Counters, IoError, PacketIo, SendReport, Wake};

/// A UDP socket, not connected, that never blocks.
pub struct UdpSocket {
    fd: OwnedFd,
    local: SocketAddr,
    family: Family,
    capabilities: Capabilities,
    counters: Counters,
    receiver: Receiver,
    load: Load,
    /// Whether the last call found fewer messages than it asked for.
    drained: bool,
    coalescer: Option<Coalescer>,
    /// Whether the thread that waits here was told to wait no longer than it is asked to.
    keeps_time: bool,
    /// Datagrams received when it was last asked.
    received_before: u64,
    runs: Runs,
    sender: Sender,
}

impl UdpSocket {
    /// A socket bound to `address`; the system chooses the port when it is 0.
    pub fn bind(address: SocketAddr, options: Options) -> Result<Self, IoError> {
        let family = Family::of(&address);
        let socket = sys::socket(family).map_err(|source| IoError::Socket { address, source })?;
        let fd = socket.as_fd();
        if family == Family::V6 {
            let only_v6 = i32::from(!address.ip().is_unspecified());
            require(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, "IPV6_V6ONLY", only_v6)?;
        }
        if options.whole {
            keep_whole(fd, family)?;
        }
        if options.reuse_port {
            require(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, "SO_REUSEPORT", 1)?;
        }
        if options.broadcast {
            require(fd, libc::SOL_SOCKET, libc::SO_BROADCAST, "SO_BROADCAST", 1)?;
        }
        ask_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, options.receive_buffer_bytes);
        ask_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, options.send_buffer_bytes);
        // Setting the socket's own segment size to none does nothing, but tells whether
        // the system knows segments: one that does not would ignore our control
        // messages and send whole runs as one datagram.
        let gso = options.gso && sys::set_option(fd, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        let gro = options.gro && sys::set_option(fd, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        let local = sys::bind(fd, address).map_err(|source| IoError::Bind { address, source })?;
        let capabilities = Capabilities {
            gro,
            gso,
            receive_buffer_bytes: buffer_bytes(fd, libc::SO_RCVBUF),
            send_buffer_bytes: buffer_bytes(fd, libc::SO_SNDBUF),
        };
        Ok(Self {
            fd: socket,
            local,
            family,
            capabilities,
            counters: Counters::default(),
            receiver: Receiver::new(),
            load: Load::new(options.batch_datagrams),
            drained: false,
            coalescer: options.coalesce.map(Coalescer::new),
            keeps_time: false,
            received_before: 0,
            runs: Runs::new(),
            sender: Sender::new(),
        })
    }

    /// Another socket at the same address that is meant to send
    /// only: what it receives, this one does not.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub(crate) fn sender(&self) -> Result<Self, IoError> {
        let duplicate = self.fd.try_clone();
        let fd = duplicate.map_err(|source| IoError::Socket { address: self.local, source })?;
        Ok(Self {
            fd,
            local: self.local,
            family: self.family,
            capabilities: self.capabilities,
            counters: Counters::default(),
            receiver: Receiver::new(),
            load: Load::new(BATCH_DATAGRAMS),
            drained: false,
            coalescer: None,
            keeps_time: false,
            received_before: 0,
            runs: Runs::new(),
            sender: Sender::new(),
        })
    }

    /// Has the system ask `program` which of the sockets at this address a datagram goes to.
    pub(crate) fn steer(&self, program: &[Instruction]) -> Result<(), IoError> {
        let option = "SO_ATTACH_REUSEPORT_CBPF";
        let attached = sys::attach_steering(self.fd.as_fd(), program);
        attached.map_err(|source| IoError::SocketOption { option, source })
    }

    /// What the system allows this socket to do.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// What the socket has done so far. Asks the system for the
    /// overflows of the receive queue, so not per batch.
    pub fn counters(&self) -> Counters {
        let overflows = sys::queue_overflows(self.fd.as_fd()).unwrap_or(0);
        Counters { receive_queue_overflows: u64::from(overflows), ..self.counters }
    }

    /// Waits until datagrams wait, `also` is woken, or the time is over (`None`: for ever). While
    /// datagrams come close upon each other, and [`Options::coalesce`] allows it, lets them gather
    /// instead: that ends at its time, and it is not known then what there is.
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
        if let Some(pause) = self.pause() {
            poll(&[], Some(timeout.map_or(pause, |timeout| timeout.min(pause)))).map(|[]| ())?;
            return Ok(Ready { readable: true, woken: false });
        }
        let socket = Interest::Readable(self.fd.as_fd());
        let wake = also.map_or(Interest::Nothing, |wake| Interest::Readable(wake.as_fd()));
        let beside = beside.map_or(Interest::Nothing, Interest::Readable);
        let [readable, woken, _] = poll(&[socket, wake, beside], timeout)?;
        Ok(Ready { readable, woken: woken && also.is_some_and(Wake::take) })
    }

    /// How long to let datagrams gather before the next are received.
    fn pause(&mut self) -> Option<Duration> {
        let coalescer = self.coalescer.as_mut()?;
        if !std::mem::replace(&mut self.keeps_time, true) {
            keep_time();
        }
        let received = self.counters.received_datagrams - self.received_before;
        self.received_before = self.counters.received_datagrams;
        coalescer.pause_after(received, Instant::now())
    }

    /// Turns message `index` of the last call into slots. Returns how many.
    fn accept(&mut self, batch: &mut Batch, index: usize) -> usize {
        let Message { peer, len, segment_len, cut } = self.receiver.message(index);
        let Some(peer) = peer.filter(|_| len > 0 && !cut) else {
            self.counters.receive_malformed += 1;
            return 0;
        };
        let step = segment_len.unwrap_or(len);
        let begin = index * MESSAGE_STRIDE;
        for offset in (0..len).step_by(step) {
            batch.push_received(peer, begin + offset, step.min(len - offset));
        }
        self.counters.received_messages += 1;
        self.counters.received_bytes += len as u64;
        len.div_ceil(step)
    }

    /// One recvmmsg, again when what it reports is about some earlier
    /// datagram: an ICMP error is no reason to stop.
    fn receive_messages(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let asked = self.load.messages_to_ask();
        self.drained = true;
        for _ in 0..RECEIVE_ATTEMPTS {
            self.counters.receive_calls += 1;
            let space = batch.receive_space(asked * MESSAGE_STRIDE);
            match self.receiver.receive(self.fd.as_fd(), space, MESSAGE_STRIDE) {
                Ok(messages) => {
                    self.drained = messages < asked;
                    return Ok(messages);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_final(&error) => return Err(error),
                Err(_) => self.counters.receive_errors += 1,
            }
        }
        Ok(0)
    }

    /// Accounts for the runs from `first` on that one call sent.
    fn account_sent(&mut self, first: usize, runs: usize, report: &mut SendReport) {
        for run in &self.runs.as_slice()[first..first + runs] {
            report.sent += run.segments;
            self.counters.sent_messages += 1;
            self.counters.sent_datagrams += run.segments as u64;
            self.counters.sent_bytes += run.bytes as u64;
        }
    }

    /// What to do about an error with the run at `index`.
    fn verdict(&self, error: &io::Error, index: usize) -> Verdict {
        let run = &self.runs.as_slice()[index];
        let code = error.raw_os_error().unwrap_or(0);
        match code {
            libc::EINTR => Verdict::Again,
            libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM => Verdict::Wait,
            libc::EIO | libc::EINVAL | libc::EMSGSIZE if run.segments > 1 => Verdict::Split {
                // Segments larger than the path takes are refused as EINVAL too (Linux
                // before 6.14), and then single datagrams of that size can only be fragmented or
                // refused: no reason to give segments up for others.
                for_good: code == libc::EIO
                    || (code == libc::EINVAL && run.segment_len <= SURE_TO_FIT),
            },
            libc::EMSGSIZE => Verdict::TooBig,
            libc::ECONNREFUSED => Verdict::Retry,
            _ if is_final(error) => Verdict::Final,
            _ => Verdict::Unreachable,
        }
    }

    /// Handles an error about the run at `at`: makes the way free for another
    /// attempt, or drops the run and returns true.
    fn handle_failure(
        &mut self,
        error: io::Error,
        batch: &Batch,
        at: usize,
        patience: &mut u32,
        report: &mut SendReport,
    ) -> io::Result<bool> {
        let segments = self.runs.as_slice()[at].segments;
        match self.verdict(&error, at) {
            Verdict::Final => return Err(error),
            Verdict::Again => return Ok(false),
            Verdict::Split { for_good } => {
                self.capabilities.gso &= !for_good;
                self.counters.segmentation_refused += 1;
                self.runs.split(batch, at);
                return Ok(false);
            }
            Verdict::Wait if *patience > 0 => {
                *patience -= 1;
                self.wait_for_room(&error)?;
                return Ok(false);
            }
            Verdict::Retry if *patience > 0 => {
                *patience -= 1;
                return Ok(false);
            }
            Verdict::Wait => report.dropped_busy += segments,
            Verdict::TooBig => report.dropped_too_big += segments,
            Verdict::Retry | Verdict::Unreachable => report.dropped_unreachable += segments,
        }
        Ok(true)
    }

    /// Waits for the queue that `error` says is full.
    fn wait_for_room(&self, error: &io::Error) -> io::Result<()> {
        if error.kind() == io::ErrorKind::WouldBlock {
            poll(&[Interest::Writable(self.fd.as_fd())], Some(SEND_WAIT))?;
        } else {
            // It is a device's queue, not the socket's: no descriptor tells when there is room.
            poll(&[], Some(SEND_WAIT))?;
        }
        Ok(())
    }
}

impl PacketIo for UdpSocket {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let bytes_before = self.counters.received_bytes;
        let messages = self.receive_messages(batch)?;
        let datagrams = (0..messages).map(|index| self.accept(batch, index)).sum();
        self.counters.received_datagrams += datagrams as u64;
        let bytes = self.counters.received_bytes - bytes_before;
        self.load.observe(messages, datagrams, bytes as usize);
        Ok(datagrams)
    }

    fn is_drained(&self) -> bool {
        self.drained
    }

    fn send(&mut self, batch: &Batch) -> io::Result<SendReport> {
        self.runs.regroup(batch, if self.capabilities.gso { MAX_SEGMENTS } else { 1 });
        let mut report = SendReport::default();
        let mut patience = SEND_PATIENCE;
        let mut at = 0;
        while at < self.runs.as_slice().len() {
            self.counters.send_calls += 1;
            match self.sender.send(self.fd.as_fd(), self.family, batch, &self.runs, at) {
                Ok(runs) => {
                    self.account_sent(at, runs, &mut report);
                    at += runs;
                }
                Err(error) => {
                    let dropped =
                        self.handle_failure(error, batch, at, &mut patience, &mut report)?;
                    at += usize::from(dropped);
                }
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

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket")
            .field("local", &self.local)
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}

/// What to do about an error of a run.
enum Verdict {
    /// A signal came: the same again.
    Again,
    /// A queue is full: wait, then the same again, as long as there is patience.
    Wait,
    /// The error may be about an earlier datagram: the same again, as long as there is patience.
    Retry,
    /// The system refused the segments: send them as single datagrams, and
    /// for good so when it is not about their size.
    Split { for_good: bool },
    /// Drop it.
    TooBig,
    /// Drop it.
    Unreachable,
    /// The socket is of no further use.
    Final,
}

/// Sets an option that the socket cannot do without.
fn require(
    fd: BorrowedFd<'_>,
    level: i32,
    number: i32,
    option: &'static str,
    value: i32,
) -> Result<(), IoError> {
    sys::set_option(fd, level, number, value)
        .map_err(|source| IoError::SocketOption { option, source })
}

/// Has datagrams go whole or not at all (RFC 8899, section 3), and the system believe
/// nobody who says how large they may be: anyone can write such a message. One that its
/// own device does not take is refused (EMSGSIZE).
fn keep_whole(fd: BorrowedFd<'_>, family: Family) -> Result<(), IoError> {
    let v4 = || {
        let (option, value) = (libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
        require(fd, libc::IPPROTO_IP, option, "IP_MTU_DISCOVER", value)
    };
    match family {
        Family::V4 => v4(),
        Family::V6 => {
            let (option, value) = (libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE);
            require(fd, libc::IPPROTO_IPV6, option, "IPV6_MTU_DISCOVER", value)?;
            // For the IPv4 peers of a socket of both families.
            v4()
        }
    }
}

/// Asks for a buffer size: beyond the system's limit if we have the privilege, else up to it.
pub(crate) fn ask_buffer(fd: BorrowedFd<'_>, force: i32, plain: i32, bytes: Option<usize>) {
    let Some(bytes) = bytes else { return };
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    if sys::set_option(fd, libc::SOL_SOCKET, force, bytes).is_err() {
        // A smaller queue is no failure; `capabilities` tells what was given.
        let _ = sys::set_option(fd, libc::SOL_SOCKET, plain, bytes);
    }
}

fn buffer_bytes(fd: BorrowedFd<'_>, number: i32) -> usize {
    sys::option(fd, libc::SOL_SOCKET, number).map_or(0, |bytes| usize::try_from(bytes).unwrap_or(0))
}

/// Whether an error means that the socket is of no further use, not that a datagram or peer is.
pub(crate) fn is_final(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EPIPE | libc::ENOSYS)
    )
}

/// Bytes of the arena for each message: the largest superpacket, and some cache lines so that the
/// first lines of all messages do not fall on the same few sets of the cache.
const MESSAGE_STRIDE: usize = 65_536 + 17 * 64;

/// Calls to make for one batch while each reports some earlier trouble.
const RECEIVE_ATTEMPTS: usize = 16;

/// How often a batch waits for a full queue before datagrams are dropped.
const SEND_PATIENCE: u32 = 4;

/// How long each of these waits is.
const SEND_WAIT: Duration = Duration::from_millis(1);

/// Bytes of a datagram that every IPv6 path takes, and nearly every
/// IPv4 path: 1280 - 40 - 8 (RFC 8200, section 5).
const SURE_TO_FIT: usize = 1232;

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that does not compute checksums is refused segments
    /// by the kernel (EINVAL), as some devices are.
    fn refuse_segments(socket: &UdpSocket) {
        sys::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)
            .expect("SO_NO_CHECK");
    }

    fn receive_all(socket: &mut UdpSocket, count: usize) -> Vec<Vec<u8>> {
        let (mut batch, mut received) = (Batch::new(), Vec::new());
        while received.len() < count {
            let ready = socket.wait(Some(Duration::from_secs(5)), None).expect("wait");
            assert!(ready.readable, "{} of {count} datagrams arrived", received.len());
            socket.receive(&mut batch).expect("receive");
            received.extend(batch.iter().map(|(_, bytes)| bytes.to_vec()));
        }
        received
    }

    fn refused(segment_len: usize) -> (UdpSocket, Counters) {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut sender = UdpSocket::bind(loopback, Options::default()).expect("bind");
        let mut receiver = UdpSocket::bind(loopback, Options::default()).expect("bind");
        assert!(sender.capabilities().gso, "Linux 4.18 or later is needed to test segments");
        refuse_segments(&sender);
        let mut batch = Batch::new();
        let datagrams: Vec<Vec<u8>> = (0..20).map(|index| vec![index; segment_len]).collect();
        for datagram in &datagrams {
            batch.push(receiver.local_address(), datagram);
        }
        let report = sender.send(&batch).expect("send");
        assert_eq!(report, SendReport { sent: 20, ..SendReport::default() });
        assert_eq!(receive_all(&mut receiver, 20), datagrams);
        let counters = sender.counters();
        assert_eq!((counters.sent_datagrams, counters.sent_messages), (20, 20));
        (sender, counters)
    }

    #[test]
    fn refused_segments_are_sent_singly_and_not_tried_again() {
        let (sender, counters) = refused(SURE_TO_FIT);
        assert_eq!(counters.segmentation_refused, 1);
        assert!(!sender.capabilities().gso);
    }

    #[test]
    fn segments_that_may_just_be_too_large_are_not_given_up() {
        let (sender, counters) = refused(SURE_TO_FIT + 1);
        assert_eq!(counters.segmentation_refused, 1);
        assert!(sender.capabilities().gso);
    }

    /// With IP_RECVERR the kernel reports ICMP errors on sockets that are not connected too.
    #[test]
    fn icmp_errors_stop_neither_sending_nor_receiving() {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let bind = || UdpSocket::bind(loopback, Options::default()).expect("bind");
        let (mut socket, mut peer) = (bind(), bind());
        let closed = bind().local_address();
        sys::set_option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_RECVERR, 1).expect("IP_RECVERR");
        let (mut to_closed, mut to_peer, mut batch) = (Batch::new(), Batch::new(), Batch::new());
        to_closed.push(closed, b"refused");
        to_peer.push(peer.local_address(), b"taken");

        socket.send(&to_closed).expect("send");
        let report = socket.send(&to_peer).expect("the error is about an earlier datagram");
        assert_eq!((report.sent, report.dropped()), (1, 0));
        assert_eq!(socket.counters().send_calls, 3, "the error was met");
        assert_eq!(receive_all(&mut peer, 1), [b"taken"]);

        socket.send(&to_closed).expect("send");
        to_peer.redirect(0, socket.local_address());
        peer.send(&to_peer).expect("send");
        assert_eq!(socket.receive(&mut batch).expect("the error is about an earlier datagram"), 1);
        assert_eq!(socket.counters().receive_errors, 1);
    }

    #[test]
    fn a_final_error_is_returned() {
        let mut socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)), Options::default())
            .expect("bind");
        let file = std::fs::File::open("/dev/null").expect("/dev/null");
        socket.fd = file.into();
        let mut batch = Batch::new();
        assert!(socket.receive(&mut batch).is_err());
        batch.push(SocketAddr::from(([127, 0, 0, 1], 9)), b"x");
        assert!(socket.send(&batch).is_err());
    }
}

//! Raw sockets for one IP protocol: whole packets in, whole packets out, IPv4 and IPv6.
//!
//! IPv4 packets come with their header. IPv6 sockets give what follows the header and say the rest
//! beside it: source, destination, traffic class, flow label and hop limit, from which the header
//! is written again where it stood. Extension headers in front of the protocol are lost in that,
//! and fragments have been put together by the kernel, for both families.
//!
//! Flow of [`IpIo::send`]: packets are grouped by family, and handed over 64 at a time. An error
//! concerns the first packet of a call, which gets its fate; the others are tried again.
//!
//! Invariant: no packet keeps the others of its batch from being tried. A send waits at most
//! [`SEND_PATIENCE`] times [`SEND_WAIT`] per batch for a full queue.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::batch::{Fate, HEADROOM, IpBatch};
use super::header::{self, IPV6_LEN};
use super::sys::{self, Receiver, Sender};
use super::{IpIo, RECEIVE_MOST};
use crate::poll::{Interest, poll};
use crate::udp::address::Family;
use crate::udp::{DEFAULT_BUFFER_BYTES, Ready, ask_buffer, is_final};
use crate::xdp::Listening;
use crate::{Counters, IoError, SendReport, Wake};

/// What to ask of raw sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawOptions {
    /// The IP protocol to receive. Packets of all protocols can be sent. `None`: nothing is
    /// received. The kernel learns what paths take from the ICMP of routers about packets of this
    /// protocol, and without one not at all.
    pub protocol: Option<u8>,
    /// Receive packets to this address; to all addresses of this host when
    /// it is unspecified. `None`: no IPv4 at all.
    pub ipv4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub ipv6: Option<Ipv6Addr>,
    /// The mark that what is sent here carries, for rules of routing (`ip rule fwmark`).
    pub mark: Option<u32>,
    /// Bytes of each socket's queues to ask for; the system may give less.
    pub buffer_bytes: usize,
}

impl Default for RawOptions {
    /// Both families, all addresses, sending only.
    fn default() -> Self {
        Self {
            protocol: None,
            ipv4: Some(Ipv4Addr::UNSPECIFIED),
            ipv6: Some(Ipv6Addr::UNSPECIFIED),
            mark: None,
            buffer_bytes: DEFAULT_BUFFER_BYTES,
        }
    }
}

/// Raw sockets, one per family.
pub struct RawSocket {
    protocol: Option<u8>,
    listening: Listening,
    /// IPv4, IPv6.
    sockets: [Option<OwnedFd>; 2],
    /// See [`sys::believer`].
    _believer: Option<OwnedFd>,
    /// Which family is asked first, so that neither starves the other.
    first: usize,
    counters: Counters,
    receiver: Receiver,
    sender: Sender,
    /// Numbers of the packets to send, by family.
    numbers: [Vec<usize>; 2],
    /// Numbers of a whole batch.
    all: Vec<usize>,
}

impl RawSocket {
    /// Raw sockets as asked for. They belong to the network namespace of this thread.
    ///
    /// # Errors
    /// When the process may not have such sockets (CAP_NET_RAW), or an address is not of this host.
    pub fn open(options: &RawOptions) -> Result<Self, IoError> {
        let open = |address: IpAddr| {
            open_one(address, options).map_err(|(call, source)| IoError::Raw {
                address,
                call,
                source,
            })
        };
        let ipv4 = options.ipv4.map(|address| open(address.into())).transpose()?;
        let ipv6 = options.ipv6.map(|address| open(address.into())).transpose()?;
        let believer = options.protocol.zip(options.ipv6).map(|(protocol, address)| {
            let failed =
                |source| IoError::Raw { address: address.into(), call: "SO_ATTACH_FILTER", source };
            sys::believer(protocol).map_err(failed)
        });
        Ok(Self {
            _believer: believer.transpose()?,
            protocol: options.protocol,
            listening: Listening { ipv4: options.ipv4, ipv6: options.ipv6, whole_host: true },
            sockets: [ipv4, ipv6],
            first: IPV4,
            counters: Counters::default(),
            receiver: Receiver::new(),
            sender: Sender::new(),
            numbers: Default::default(),
            all: Vec::new(),
        })
    }

    /// The protocol that is received.
    pub(crate) fn protocol(&self) -> Option<u8> {
        self.protocol
    }

    /// Where packets are received.
    pub(crate) fn listening(&self) -> Listening {
        self.listening
    }

    /// What there is to wait for: the socket of each family.
    pub(crate) fn interests(&self) -> [Interest<'_>; 2] {
        self.sockets.each_ref().map(|socket| match socket {
            Some(fd) if self.protocol.is_some() => Interest::Readable(fd.as_fd()),
            // Sockets that only send may have packets of their protocol all the same.
            _ => Interest::Nothing,
        })
    }

    /// Receives behind the packets of the batch, up to `most`; returns how many came.
    pub(crate) fn receive_more(&mut self, packets: &mut IpBatch, most: usize) -> io::Result<usize> {
        self.first = 1 - self.first;
        let mut received = 0;
        for family in [self.first, 1 - self.first] {
            let Some(messages) = self.receive_messages(family, packets, most - received)? else {
                continue;
            };
            received += messages;
            for index in 0..messages {
                self.accept(family, packets, index);
            }
        }
        Ok(received)
    }

    /// `None` when there is nothing, or this family has no socket.
    fn receive_messages(
        &mut self,
        family: usize,
        packets: &mut IpBatch,
        most: usize,
    ) -> io::Result<Option<usize>> {
        let Some(fd) = self.sockets[family].as_ref().filter(|_| self.protocol.is_some()) else {
            return Ok(None);
        };
        let skip = if family == IPV4 { 0 } else { IPV6_LEN };
        for _ in 0..RECEIVE_ATTEMPTS {
            self.counters.receive_calls += 1;
            match self.receiver.receive(fd.as_fd(), packets, skip, most) {
                Ok(messages) => return Ok(Some(messages)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_final(&error) => return Err(error),
                Err(_) => self.counters.receive_errors += 1,
            }
        }
        Ok(None)
    }

    /// Announces message `index` of the last call.
    fn accept(&mut self, family: usize, packets: &mut IpBatch, index: usize) {
        let number = packets.len();
        let protocol = self.protocol.unwrap_or_default();
        if let Some(len) = self.receiver.len(index) {
            if family == IPV4 {
                packets.received(HEADROOM, len);
            } else if let Some(said) = self.receiver.ipv6(index, protocol) {
                packets.received(HEADROOM, IPV6_LEN + len);
                let header = header::ipv6(said.source, said.destination, said.fields, len);
                packets.packet_mut(number)[..IPV6_LEN].copy_from_slice(&header);
            }
            if packets.len() > number && header::is_whole(packets.packet(number)) {
                self.counters.received_messages += 1;
                self.counters.received_datagrams += 1;
                self.counters.received_bytes += packets.packet(number).len() as u64;
                return;
            }
        }
        self.counters.receive_malformed += 1;
        if packets.len() > number {
            packets.drop_packet(number);
        } else {
            packets.received(HEADROOM, 0);
        }
    }

    /// Sends the packets with these numbers.
    pub(crate) fn send_some(
        &mut self,
        packets: &mut IpBatch,
        numbers: impl Iterator<Item = usize>,
    ) -> io::Result<SendReport> {
        let mut report = SendReport::default();
        self.numbers.iter_mut().for_each(Vec::clear);
        for number in numbers {
            let family = match header::ends_of(packets.packet(number)) {
                Some((_, IpAddr::V4(_))) => IPV4,
                Some((_, IpAddr::V6(_))) => IPV6,
                None => {
                    settle(packets, number, Fate::Unreachable, &mut report);
                    continue;
                }
            };
            self.numbers[family].push(number);
        }
        let mut patience = SEND_PATIENCE;
        for family in [IPV4, IPV6] {
            self.send_family(family, packets, &mut patience, &mut report)?;
        }
        self.counters.add_drops(&report);
        Ok(report)
    }

    fn send_family(
        &mut self,
        family: usize,
        packets: &mut IpBatch,
        patience: &mut u32,
        report: &mut SendReport,
    ) -> io::Result<()> {
        let numbers = &self.numbers[family][..];
        let Some(fd) = &self.sockets[family] else {
            for &number in numbers {
                settle(packets, number, Fate::Unreachable, report);
            }
            return Ok(());
        };
        let mut rest = numbers;
        while let Some(&first) = rest.first() {
            self.counters.send_calls += 1;
            match self.sender.send(fd.as_fd(), packets, rest) {
                Ok(sent) => {
                    for &number in &rest[..sent] {
                        settle(packets, number, Fate::Sent, report);
                        self.counters.sent_messages += 1;
                        self.counters.sent_datagrams += 1;
                        self.counters.sent_bytes += packets.packet(number).len() as u64;
                    }
                    rest = &rest[sent..];
                }
                Err(error) => {
                    let Some(fate) = verdict(error, fd, patience)? else { continue };
                    settle(packets, first, fate, report);
                    rest = &rest[1..];
                }
            }
        }
        Ok(())
    }
}

impl IpIo for RawSocket {
    fn receive(&mut self, packets: &mut IpBatch) -> io::Result<usize> {
        packets.clear();
        self.receive_more(packets, RECEIVE_MOST)
    }

    fn send(&mut self, packets: &mut IpBatch) -> io::Result<SendReport> {
        let mut to_send = std::mem::take(&mut self.all);
        to_send.clear();
        to_send.extend(packets.iter().map(|(number, _)| number));
        let report = self.send_some(packets, to_send.iter().copied());
        self.all = to_send;
        report
    }

    fn wait(&mut self, timeout: Option<Duration>, also: Option<&Wake>) -> io::Result<Ready> {
        let [ipv4, ipv6] = self.interests();
        let wake = also.map_or(Interest::Nothing, |wake| Interest::Readable(wake.as_fd()));
        let [ipv4, ipv6, woken] = poll(&[ipv4, ipv6, wake], timeout)?;
        Ok(Ready { readable: ipv4 || ipv6, woken: woken && also.is_some_and(Wake::take) })
    }

    fn counters(&self) -> Counters {
        let overflows = self.sockets.iter().flatten().map(|fd| sys::queue_overflows(fd.as_fd()));
        let overflows = overflows.map(|count| u64::from(count.unwrap_or(0))).sum();
        Counters { receive_queue_overflows: overflows, ..self.counters }
    }
}

impl fmt::Debug for RawSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawSocket")
            .field("protocol", &self.protocol)
            .field("ipv4", &self.sockets[IPV4].is_some())
            .field("ipv6", &self.sockets[IPV6].is_some())
            .finish_non_exhaustive()
    }
}

/// Notes what became of a packet.
pub(crate) fn settle(packets: &mut IpBatch, number: usize, fate: Fate, report: &mut SendReport) {
    match fate {
        Fate::Unsent => {}
        Fate::Sent => report.sent += 1,
        Fate::Busy => report.dropped_busy += 1,
        Fate::TooBig => report.dropped_too_big += 1,
        Fate::Unreachable => report.dropped_unreachable += 1,
    }
    packets.settle(number, fate);
}

/// What an error about a packet means for it: `None` is to try again.
fn verdict(error: io::Error, fd: &OwnedFd, patience: &mut u32) -> io::Result<Option<Fate>> {
    Ok(match error.raw_os_error() {
        Some(libc::EINTR) => None,
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) if *patience > 0 => {
            *patience -= 1;
            let room = match error.kind() {
                io::ErrorKind::WouldBlock => Interest::Writable(fd.as_fd()),
                // It is a device's queue, not the socket's: no descriptor tells when there is room.
                _ => Interest::Nothing,
            };
            poll(&[room], Some(SEND_WAIT))?;
            None
        }
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => Some(Fate::Busy),
        Some(libc::EMSGSIZE) => Some(Fate::TooBig),
        _ if is_final(&error) => return Err(error),
        _ => Some(Fate::Unreachable),
    })
}

/// One socket; the error names the call that failed.
fn open_one(address: IpAddr, options: &RawOptions) -> Result<OwnedFd, (&'static str, io::Error)> {
    let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
    let step = |call| move |error| (call, error);
    let protocol = options.protocol.unwrap_or(libc::IPPROTO_RAW as u8);
    let socket = sys::raw_socket(family, protocol).map_err(step("socket(SOCK_RAW)"))?;
    let fd = socket.as_fd();
    let bytes = Some(options.buffer_bytes);
    ask_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes);
    if options.protocol.is_some() {
        ask_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes);
    }
    if let Some(mark) = options.mark {
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_MARK, mark.cast_signed())
            .map_err(step("SO_MARK"))?;
    }
    if !address.is_unspecified() {
        sys::bind(fd, address).map_err(step("bind"))?;
    }
    Ok(socket)
}

const IPV4: usize = 0;
const IPV6: usize = 1;

/// Calls to make for one batch while each reports some earlier trouble.
const RECEIVE_ATTEMPTS: usize = 16;

/// How often a batch waits for a full queue before packets are dropped.
const SEND_PATIENCE: u32 = 4;

/// How long each of these waits is.
const SEND_WAIT: Duration = Duration::from_millis(1);

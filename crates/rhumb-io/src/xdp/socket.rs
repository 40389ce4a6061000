//! The backend: rings on an interface, and an ordinary socket on the same port.
//!
//! Flow, per batch: [`receive`](PacketIo::receive) takes the batch from the rings, or else from
//! the socket, copying each payload once; [`send`](PacketIo::send) writes frames for slots
//! whose peer has a way, collects the others into a batch for the socket, and sends frames
//! first. A peer whose datagram has gone to the socket's batch gets the later ones of this
//! batch that way too, so that they keep their order.
//!
//! Invariant: once the interface is gone, this is a socket.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_wire::{Batch, stream};

use super::attached::Attached;
use super::frame::{self, ETHERNET_LEN, Ends, headers_len};
use super::interface::Interface;
use super::program::Wanted;
use super::queue::{FRAME_LEN, Queue};
use super::ways::{Way, Ways};
use super::{MAX_QUEUES, Options, Refused};
use crate::poll::{Interest, poll};
use crate::udp::{Ready, UdpSocket};
use crate::{Counters, PacketIo, SendReport, Wake};

/// A UDP socket whose datagrams go by AF_XDP where they can.
pub struct XdpSocket {
    /// Dropped first: from then on nothing is led into the rings.
    _program: Arc<OwnedFd>,
    socket: UdpSocket,
    queues: Vec<Queue>,
    interface: Interface,
    ways: Ways,
    batch: u64,
    /// What goes through the socket.
    rest: Batch,
    arrivals: Vec<(SocketAddr, Range<usize>)>,
    socket_is_ready: bool,
    counters: Counters,
}

impl XdpSocket {
    /// Gives rings to a socket. What it has received already stays receivable.
    ///
    /// # Errors
    /// When the system, the interface or its driver cannot: then the
    /// socket comes back as it was, with the reason.
    pub fn attach(socket: UdpSocket, options: &Options) -> Result<Self, Box<Refused>> {
        let local = socket.local_address();
        let interface = Interface::of_socket(options.interface.as_deref(), local);
        let wanted = Wanted::Port(local.port());
        match interface.and_then(|it| Attached::open(it, wanted, options, MAX_QUEUES)) {
            Ok(Attached { program, queues, interface }) => Ok(Self {
                _program: program,
                socket,
                queues,
                interface,
                ways: Ways::new(),
                batch: 0,
                rest: Batch::new(),
                arrivals: Vec::new(),
                socket_is_ready: false,
                counters: Counters::default(),
            }),
            Err(refusal) => Err(Box::new(Refused { socket, refusal })),
        }
    }

    /// The name of the interface with our program.
    pub fn interface(&self) -> &str {
        self.interface.name()
    }

    /// Whether the driver works in our memory itself, on every queue.
    pub fn is_zero_copy(&self) -> bool {
        !self.queues.is_empty() && self.queues.iter().all(Queue::is_zero_copy)
    }

    /// Receive queues that have rings. 0 once the interface is gone.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// The ordinary socket on the same port.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// What was done so far, on both ways together. Asks the system, so not per batch.
    pub fn counters(&self) -> Counters {
        let mut all = self.socket.counters();
        let rings = &self.counters;
        all.receive_queue_overflows += self.queues.iter().map(Queue::overflows).sum::<u64>();
        all.receive_malformed += rings.receive_malformed;
        all.received_messages += rings.received_messages;
        all.received_datagrams += rings.received_datagrams;
        all.received_bytes += rings.received_bytes;
        all.send_calls += rings.send_calls;
        all.sent_messages += rings.sent_messages;
        all.sent_datagrams += rings.sent_datagrams;
        all.sent_bytes += rings.sent_bytes;
        all.send_dropped_busy += rings.send_dropped_busy;
        all.xdp_received_datagrams = rings.received_datagrams;
        all.xdp_sent_datagrams = rings.sent_datagrams;
        all
    }

    /// As [`UdpSocket::wait`].
    ///
    /// # Errors
    /// When waiting is not possible at all.
    pub fn wait(&mut self, timeout: Option<Duration>, also: Option<&Wake>) -> io::Result<Ready> {
        self.wait_beside(timeout, also, None)
    }

    /// As [`UdpSocket::wait_beside`].
    ///
    /// # Errors
    /// When waiting is not possible at all.
    pub fn wait_beside(
        &mut self,
        timeout: Option<Duration>,
        also: Option<&Wake>,
        beside: Option<BorrowedFd<'_>>,
    ) -> io::Result<Ready> {
        self.interface.refresh(Instant::now());
        let timeout = match self.has_unsent() {
            false => timeout,
            true => {
                self.flush(&mut SendReport::default());
                Some(timeout.map_or(UNSENT_WAIT, |timeout| timeout.min(UNSENT_WAIT)))
            }
        };
        let mut interests = [const { Interest::Nothing }; 3 + MAX_QUEUES];
        interests[0] = Interest::Readable(self.socket.as_fd());
        if let Some(wake) = also {
            interests[1] = Interest::Readable(wake.as_fd());
        }
        interests[2] = beside.map_or(Interest::Nothing, Interest::Readable);
        for (interest, queue) in interests[3..].iter_mut().zip(&self.queues) {
            *interest = Interest::Readable(queue.as_fd());
        }
        let ready = poll(&interests, timeout)?;
        self.socket_is_ready = ready[0];
        let readable = ready[0] || ready[3..].contains(&true);
        Ok(Ready { readable, woken: ready[1] && also.is_some_and(Wake::take) })
    }

    fn receive_from_socket(&mut self, batch: &mut Batch) -> io::Result<usize> {
        // The rings come next, however much more there is.
        self.socket_is_ready = false;
        self.socket.receive(batch)
    }

    fn receive_from_rings(&mut self, batch: &mut Batch) -> usize {
        let space = batch.receive_space(BATCH_FRAMES * FRAME_LEN);
        let Self { queues, arrivals, counters, interface, .. } = self;
        arrivals.clear();
        let (mut end, mut frames) = (0, 0);
        for queue in queues {
            frames += queue.receive(BATCH_FRAMES - frames, |frame| {
                let parsed = frame::parse(frame, interface.index());
                let from_outside = |(peer, _): &(SocketAddr, _)| !interface.is_this_host(peer.ip());
                let Some((peer, payload)) = parsed.filter(from_outside) else {
                    counters.receive_malformed += 1;
                    return;
                };
                let begin = end;
                end += payload.len();
                space[begin..end].copy_from_slice(&frame[payload]);
                arrivals.push((peer, begin..end));
            });
        }
        for (peer, range) in arrivals.iter() {
            batch.push_received(*peer, range.start, range.len());
        }
        counters.received_messages += arrivals.len() as u64;
        counters.received_datagrams += arrivals.len() as u64;
        counters.received_bytes += end as u64;
        arrivals.len()
    }

    /// Writes frames for the slots that can go by the rings, and leaves the others in `rest`.
    fn write_frames(&mut self, batch: &Batch, report: &mut SendReport) {
        self.batch += 1;
        self.rest.clear();
        let now = Instant::now();
        let local = self.socket.local_address();
        let mut last: Option<(SocketAddr, Ends, usize)> = None;
        for slot in batch.slots().iter().filter(|slot| !slot.is_empty()) {
            let payload = batch.bytes(slot);
            let len = headers_len(slot.peer.ip()) - ETHERNET_LEN + payload.len();
            let known = last.filter(|(peer, _, most)| *peer == slot.peer && len <= *most);
            let ends = match known {
                Some((_, ends, _)) => Some(ends),
                None => self.find(slot.peer, len, now).map(|way| {
                    let ends = self.interface.ends(&way, local.port(), slot.peer);
                    last = Some((slot.peer, ends, way.max_packet));
                    ends
                }),
            };
            match ends {
                Some(ends) => self.write_frame(&ends, payload, report),
                None => {
                    last = None;
                    self.rest.push(slot.peer, payload);
                }
            }
        }
    }

    fn write_frame(&mut self, ends: &Ends, payload: &[u8], report: &mut SendReport) {
        for attempt in 0..2 {
            let Some(queue) = self.queues.first_mut() else { break };
            if queue.push(|frame| frame::emit(frame, ends, payload)) {
                report.sent += 1;
                self.counters.sent_messages += 1;
                self.counters.sent_datagrams += 1;
                self.counters.sent_bytes += payload.len() as u64;
                return;
            }
            if attempt == 0 {
                self.flush(report);
            }
        }
        report.dropped_busy += 1;
        self.counters.send_dropped_busy += 1;
    }

    fn find(&mut self, peer: SocketAddr, len: usize, now: Instant) -> Option<Way> {
        // The socket says of what is for a stream that it cannot be reached.
        if self.queues.is_empty() || stream::is_address(&peer) || !self.interface.has(&peer) {
            return None;
        }
        let bound = self.socket.local_address().ip();
        let source = Some(bound).filter(|address| !address.is_unspecified());
        let interfaces = [self.interface.index_and_mtu()];
        let mut kernel = self.interface.kernel(&interfaces, source);
        self.ways.find(&mut kernel, peer.ip(), len, self.batch, now)
    }

    /// Whether frames wait in the ring that a full queue,
    /// or an interface that is down, has not taken.
    fn has_unsent(&self) -> bool {
        self.queues.first().is_some_and(Queue::has_unsent)
    }

    /// Sends the frames in the ring. Those that a full queue swallows
    /// are taken out of what `report` says was sent.
    fn flush(&mut self, report: &mut SendReport) {
        let Some(queue) = self.queues.first_mut() else { return };
        let flushed = queue.flush();
        flushed.settle(report, &mut self.counters);
        if flushed.gone {
            self.queues.clear();
        }
    }
}

impl PacketIo for XdpSocket {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        if self.socket_is_ready {
            let datagrams = self.receive_from_socket(batch)?;
            if datagrams > 0 {
                return Ok(datagrams);
            }
        }
        match self.receive_from_rings(batch) {
            0 => self.receive_from_socket(batch),
            datagrams => Ok(datagrams),
        }
    }

    fn send(&mut self, batch: &Batch) -> io::Result<SendReport> {
        let mut report = SendReport::default();
        self.write_frames(batch, &mut report);
        self.flush(&mut report);
        if !self.rest.is_empty() {
            let by_socket = self.socket.send(&self.rest)?;
            report.sent += by_socket.sent;
            report.dropped_busy += by_socket.dropped_busy;
            report.dropped_too_big += by_socket.dropped_too_big;
            report.dropped_unreachable += by_socket.dropped_unreachable;
        }
        Ok(report)
    }

    fn local_address(&self) -> SocketAddr {
        self.socket.local_address()
    }

    fn headroom(&self) -> usize {
        0
    }
}

impl fmt::Debug for XdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XdpSocket")
            .field("local", &self.local_address())
            .field("interface", &self.interface.name())
            .field("queues", &self.queues.len())
            .finish_non_exhaustive()
    }
}

/// Frames in a batch: large enough that a system call is shared by many, small enough that a batch
/// takes well below a millisecond.
const BATCH_FRAMES: usize = 256;

/// How soon frames that were not taken are offered again.
const UNSENT_WAIT: Duration = Duration::from_millis(10);

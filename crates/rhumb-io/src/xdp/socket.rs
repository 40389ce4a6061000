//! The backend: rings on interfaces, and an ordinary socket on the same port. For one worker, or
//! for each of several.
//!
//! Flow, per batch: [`receive`](PacketIo::receive) takes the batch from the rings, those of each
//! interface in turn, or else from the socket, copying each payload once;
//! [`send`](PacketIo::send) writes frames for slots whose peer has a way that begins at one of
//! the interfaces, collects the others into a batch for the socket, and sends frames
//! first. A peer whose datagram has gone to the socket's batch gets the later ones of this
//! batch that way too, so that they keep their order.
//!
//! Invariant: once an interface is gone, what went by it goes by the socket.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rhumb_wire::{Batch, stream};

use super::attached::{Attached, Division};
use super::frame::{self, ETHERNET_LEN, Ends, headers_len};
use super::interface::{Interface, find_interfaces};
use super::program::Wanted;
use super::queue::{FRAME_LEN, Queue};
use super::ways::{Peer, Way, Ways};
use super::{Attachment, MAX_QUEUES, OnInterface, Options, Refusal, Refused, Rings};
use crate::poll::{Interest, poll};
use crate::udp::{Ready, UdpSocket};
use crate::{Counters, PacketIo, SendReport, Wake};

/// A UDP socket whose datagrams go by AF_XDP where they can.
pub struct XdpSocket {
    /// Dropped first: from then on nothing is led into the rings.
    arms: Vec<Attached>,
    socket: UdpSocket,
    /// Index and largest packet of the interface of each arm, as of the last wait.
    interfaces: Vec<(u32, u32)>,
    ways: Ways,
    batch: u64,
    /// Which arm is asked first, so that none starves another.
    first: usize,
    /// What goes through the socket.
    rest: Batch,
    arrivals: Vec<(SocketAddr, Range<usize>)>,
    socket_is_ready: bool,
    /// Whether the last batch took all that was in the rings, and the socket had nothing before.
    drained: bool,
    counters: Counters,
}

/// Where the datagrams of a slot go, as long as slots of the same peer follow.
struct Known {
    peer: SocketAddr,
    arm: usize,
    ends: Ends,
    max_packet: usize,
}

impl XdpSocket {
    /// Gives rings to a socket. What it has received already stays receivable.
    ///
    /// # Errors
    /// When the system, the interfaces or their drivers cannot: then the
    /// socket comes back as it was, with the reason of the first of them.
    pub fn attach(socket: UdpSocket, options: &Options) -> Result<Self, Box<Refused>> {
        let Attachment { result, mut interfaces, refusal } =
            Self::attach_all(vec![socket], options);
        match result {
            Ok(mut sockets) => Ok(sockets.remove(0)),
            Err(mut sockets) => {
                let refusal = refusal.or_else(|| interfaces.remove(0).rings.err());
                let refusal = refusal.expect("invariant: there are no rings for a reason");
                Err(Box::new(Refused { socket: sockets.remove(0), refusal }))
            }
        }
    }

    /// Gives rings on the same interfaces to several sockets at one address, for a thread each.
    /// Each has rings on every queue, and gets what is on its lanes, as the system has it with the
    /// sockets themselves ([`Group`](crate::udp::Group)). An interface that cannot, or whose driver
    /// cannot, is left to the sockets.
    ///
    /// # Panics
    /// Without any socket.
    pub fn attach_all(sockets: Vec<UdpSocket>, options: &Options) -> Attachment {
        let local = sockets[0].local_address();
        let mut names = match &options.interfaces[..] {
            [] => find_interfaces(local),
            named => named.to_vec(),
        };
        // Named twice is meant once.
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        if names.is_empty() {
            let refusal = Some(Refusal::WhichInterface { address: local });
            return Attachment { result: Err(sockets), interfaces: Vec::new(), refusal };
        }
        let most = (MAX_QUEUES / names.len()).max(1);
        let mut shares: Vec<Vec<Attached>> = sockets.iter().map(|_| Vec::new()).collect();
        let mut interfaces = Vec::new();
        for (number, name) in names.into_iter().enumerate() {
            let opened = match number < MAX_QUEUES {
                true => open_arm(&name, local, sockets.len(), options, most),
                false => Err(Refusal::TooManyInterfaces { limit: MAX_QUEUES }),
            };
            let rings = opened.map(|arms| {
                let queues = &arms[0].queues;
                let zero_copy = queues.iter().all(Queue::is_zero_copy);
                let rings = Rings { queues: queues.len(), zero_copy };
                shares.iter_mut().zip(arms).for_each(|(share, arm)| share.push(arm));
                rings
            });
            interfaces.push(OnInterface { name, rings });
        }
        if shares[0].is_empty() {
            return Attachment { result: Err(sockets), interfaces, refusal: None };
        }
        let with_rings = sockets.into_iter().zip(shares).map(|(socket, arms)| Self {
            interfaces: arms.iter().map(|arm| arm.interface.index_and_mtu()).collect(),
            arms,
            socket,
            ways: Ways::new(),
            batch: 0,
            first: 0,
            rest: Batch::new(),
            arrivals: Vec::new(),
            socket_is_ready: false,
            drained: false,
            counters: Counters::default(),
        });
        Attachment { result: Ok(with_rings.collect()), interfaces, refusal: None }
    }

    /// The names of the interfaces that datagrams go by past the kernel, and how many queues of
    /// each have rings: fewer interfaces once one is gone.
    pub fn interfaces(&self) -> impl Iterator<Item = (&str, usize)> {
        let have_rings = self.arms.iter().filter(|arm| !arm.queues.is_empty());
        have_rings.map(|arm| (arm.interface.name(), arm.queues.len()))
    }

    /// Whether the drivers work in our memory themselves, on every queue.
    pub fn is_zero_copy(&self) -> bool {
        let mut queues = self.arms.iter().flat_map(|arm| &arm.queues).peekable();
        queues.peek().is_some() && queues.all(Queue::is_zero_copy)
    }

    /// Receive queues that have rings. 0 once all interfaces are gone.
    pub fn queues(&self) -> usize {
        self.arms.iter().map(|arm| arm.queues.len()).sum()
    }

    /// The ordinary socket on the same port.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// What was done so far, on both ways together. Asks the system, so not per batch.
    pub fn counters(&self) -> Counters {
        let mut all = self.socket.counters();
        let rings = &self.counters;
        let queues = self.arms.iter().flat_map(|arm| &arm.queues);
        all.receive_queue_overflows += queues.map(Queue::overflows).sum::<u64>();
        all.wait_calls += rings.wait_calls;
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
        self.counters.wait_calls += 1;
        self.refresh(Instant::now());
        let mut timeout = timeout;
        if self.arms.iter().any(Attached::has_unsent) {
            self.flush(&mut SendReport::default());
            timeout = Some(timeout.map_or(UNSENT_WAIT, |timeout| timeout.min(UNSENT_WAIT)));
        }
        // Frames that are kept while another worker is at the rings are nobody's meanwhile.
        let queues = self.arms.iter_mut().flat_map(|arm| &mut arm.queues);
        let keeping = queues.map(Queue::give_back).filter(|returned| !returned).count();
        if keeping > 0 {
            timeout = Some(timeout.map_or(UNSENT_WAIT, |timeout| timeout.min(UNSENT_WAIT)));
        }
        let mut interests = [const { Interest::Nothing }; 3 + MAX_QUEUES];
        interests[0] = Interest::Readable(self.socket.as_fd());
        if let Some(wake) = also {
            interests[1] = Interest::Readable(wake.as_fd());
        }
        interests[2] = beside.map_or(Interest::Nothing, Interest::Readable);
        let queues = self.arms.iter().flat_map(|arm| &arm.queues);
        for (interest, queue) in interests[3..].iter_mut().zip(queues) {
            *interest = Interest::Readable(queue.as_fd());
        }
        let ready = poll(&interests, timeout)?;
        self.socket_is_ready = ready[0];
        let readable = ready[0] || ready[3..].contains(&true);
        Ok(Ready { readable, woken: ready[1] && also.is_some_and(Wake::take) })
    }

    /// Reads what may have changed of the interfaces, if it is time to.
    fn refresh(&mut self, now: Instant) {
        for (arm, known) in self.arms.iter_mut().zip(&mut self.interfaces) {
            arm.interface.refresh(now);
            *known = arm.interface.index_and_mtu();
            if arm.interface.is_gone() {
                arm.queues.clear();
            }
        }
    }

    fn receive_from_socket(&mut self, batch: &mut Batch) -> io::Result<usize> {
        // The rings come next, however much more there is.
        (self.socket_is_ready, self.drained) = (false, false);
        self.socket.receive(batch)
    }

    fn receive_from_rings(&mut self, batch: &mut Batch) -> usize {
        let space = batch.receive_space(BATCH_FRAMES * FRAME_LEN);
        let Self { arms, arrivals, counters, first, drained, .. } = self;
        arrivals.clear();
        let (mut end, mut frames) = (0, 0);
        *first = (*first + 1) % arms.len();
        let (later, sooner) = arms.split_at_mut(*first);
        for Attached { queues, interface, .. } in sooner.iter_mut().chain(later) {
            for queue in queues {
                frames += queue.receive(BATCH_FRAMES - frames, |frame| {
                    let parsed = frame::parse(frame, interface.index());
                    let from_outside =
                        |(peer, _): &(SocketAddr, _)| !interface.is_this_host(peer.ip());
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
        }
        // What the socket has says the next wait.
        *drained = frames < BATCH_FRAMES;
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
        let mut last: Option<Known> = None;
        for slot in batch.slots().iter().filter(|slot| !slot.is_empty()) {
            let payload = batch.bytes(slot);
            let len = headers_len(slot.peer.ip()) - ETHERNET_LEN + payload.len();
            let same = |known: &Known| known.peer == slot.peer && len <= known.max_packet;
            if !last.as_ref().is_some_and(same) {
                last = self.find(slot.peer, len, now).map(|(arm, way)| {
                    let ends = self.arms[arm].interface.ends(&way, local.port(), slot.peer);
                    Known { peer: slot.peer, arm, ends, max_packet: way.max_packet }
                });
            }
            match &last {
                Some(known) => self.write_frame(known.arm, &known.ends, payload, report),
                None => self.rest.push(slot.peer, payload),
            }
        }
    }

    fn write_frame(&mut self, arm: usize, ends: &Ends, payload: &[u8], report: &mut SendReport) {
        for attempt in 0..2 {
            let Some(queue) = self.arms[arm].sending() else { break };
            if queue.push(|frame| frame::emit(frame, ends, payload)) {
                report.sent += 1;
                self.counters.sent_messages += 1;
                self.counters.sent_datagrams += 1;
                self.counters.sent_bytes += payload.len() as u64;
                return;
            }
            if attempt == 0 {
                self.flush_arm(arm, report);
            }
        }
        report.dropped_busy += 1;
        self.counters.send_dropped_busy += 1;
    }

    /// The arm whose interface the way to a peer begins at, and that way.
    fn find(&mut self, peer: SocketAddr, len: usize, now: Instant) -> Option<(usize, Way)> {
        // The socket says of what is for a stream that it cannot be reached.
        if stream::is_address(&peer) {
            return None;
        }
        let peer = Peer::at(peer)?;
        let bound = self.socket.local_address().ip();
        let source = Some(bound).filter(|address| !address.is_unspecified());
        let has_rings = |arm: &Attached| !arm.queues.is_empty();
        let asked = &mut self.arms.iter_mut().find(|arm| has_rings(arm))?.interface;
        let mut kernel = asked.kernel(&self.interfaces, source);
        let way = self.ways.find(&mut kernel, peer, len, self.batch, now)?;
        let begins_at = |arm: &Attached| arm.interface.index() == way.interface;
        let arm = self.arms.iter().position(|arm| begins_at(arm) && has_rings(arm))?;
        Some((arm, way))
    }

    /// Sends the frames in the rings. Those that a full queue swallows
    /// are taken out of what `report` says was sent.
    fn flush(&mut self, report: &mut SendReport) {
        for arm in 0..self.arms.len() {
            self.flush_arm(arm, report);
        }
    }

    fn flush_arm(&mut self, arm: usize, report: &mut SendReport) {
        let Some(queue) = self.arms[arm].sending() else { return };
        let flushed = queue.flush();
        flushed.settle(report, &mut self.counters);
        if flushed.gone {
            self.arms[arm].queues.clear();
        }
    }
}

/// Gives each of several users rings on the interface called `name`.
fn open_arm(
    name: &str,
    local: SocketAddr,
    users: usize,
    options: &Options,
    most: usize,
) -> Result<Vec<Attached>, Refusal> {
    let all = (0..users).map(|_| Interface::of_socket(name, local));
    let all = all.collect::<Result<Vec<Interface>, Refusal>>()?;
    Attached::open(all, Wanted::Port(local.port()), Division::ByLane, options, most)
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

    fn is_drained(&self) -> bool {
        self.drained
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
            .field("interfaces", &self.interfaces().collect::<Vec<_>>())
            .field("queues", &self.queues())
            .finish_non_exhaustive()
    }
}

/// Frames in a batch: large enough that a system call is shared by many, small enough that what
/// arrived, the batch, and the frames that it becomes are in a core's cache together.
const BATCH_FRAMES: usize = 64;

/// How soon frames that were not taken are offered again.
const UNSENT_WAIT: Duration = Duration::from_millis(10);

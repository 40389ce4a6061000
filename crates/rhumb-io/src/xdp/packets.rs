//! Whole IP packets of one protocol by AF_XDP, with raw sockets beside; for one thread, or for
//! several that share the queues.
//!
//! Flow, per batch: [`receive`](IpIo::receive) takes packets from the rings of each interface, or
//! else from the raw sockets, copying each once; [`send`](IpIo::send) writes a frame for each
//! packet whose way the kernel has told and begins at one of our interfaces, whatever its protocol,
//! and leaves the others to the raw sockets: they keep their order, since a destination that has
//! gone that way once keeps to it for the batch.
//!
//! The addresses at which packets are ours are those of the whole host, as
//! for the kernel itself, whatever the interface.
//!
//! Invariant: once an interface is gone, what went by it goes by the raw sockets.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::attached::{Attached, Division};
use super::frame;
use super::interface::Interface;
use super::program::Wanted;
use super::queue::Queue;
use super::ways::{Peer, Way, Ways};
use super::{MAX_QUEUES, Options, Refusal, Refused};
use crate::ip::{Fate, HEADROOM, IpBatch, IpIo, RECEIVE_MOST, RawSocket, ends_of, settle};
use crate::poll::{Interest, poll};
use crate::udp::Ready;
use crate::{Counters, SendReport, Wake};

/// Raw sockets whose packets go by AF_XDP where they can.
pub struct XdpPackets {
    arms: Vec<Attached>,
    /// Index and largest packet of each arm's interface, of those that have rings.
    interfaces: Vec<(u32, u32)>,
    raw: RawSocket,
    protocol: u8,
    ways: Ways,
    batch: u64,
    /// Which arm is asked first, so that none starves another.
    first: usize,
    /// Numbers of the packets that go through the raw sockets.
    rest: Vec<usize>,
    raw_is_ready: bool,
    counters: Counters,
}

impl XdpPackets {
    /// Gives rings to raw sockets, on each of the interfaces; all of them or none.
    /// Of `options` the interface does not count.
    ///
    /// # Errors
    /// When the system, an interface or its driver cannot: then the
    /// sockets come back as they were, with the reason.
    pub fn attach(
        raw: RawSocket,
        interfaces: &[&str],
        options: &Options,
    ) -> Result<Self, Box<Refused<RawSocket>>> {
        match Self::attach_shared(vec![raw], interfaces, options) {
            Ok(mut all) => Ok(all.remove(0)),
            Err(refused) => {
                let Refused { mut socket, refusal } = *refused;
                Err(Box::new(Refused { socket: socket.remove(0), refusal }))
            }
        }
    }

    /// Gives the rings of the same interfaces to several raw sockets, for a thread each: queue n of
    /// each interface belongs to socket n modulo their number. So a packet comes to the one whose
    /// queue the device has put it into. Where there are fewer queues than sockets, the others have
    /// none, and send as before. The protocol is the first socket's, which is the one that receives
    /// what comes by none of the rings.
    ///
    /// # Errors
    /// As [`XdpPackets::attach`].
    ///
    /// # Panics
    /// Without any socket.
    pub fn attach_shared(
        sockets: Vec<RawSocket>,
        interfaces: &[&str],
        options: &Options,
    ) -> Result<Vec<Self>, Box<Refused<Vec<RawSocket>>>> {
        let arms = match interfaces.len() {
            0 => Err(Refusal::NoInterface),
            len if len > MAX_QUEUES => Err(Refusal::TooManyInterfaces { limit: MAX_QUEUES }),
            _ => Self::open_arms(&sockets, interfaces, options),
        };
        let mut arms = match arms {
            Ok(arms) => arms,
            Err(refusal) => return Err(Box::new(Refused { socket: sockets, refusal })),
        };
        // Of a protocol that nobody sends nothing arrives.
        let protocol = sockets[0].protocol().unwrap_or(libc::IPPROTO_RAW as u8);
        let with_rings = |raw: RawSocket| {
            let own: Vec<Attached> = arms.iter_mut().map(|shares| shares.remove(0)).collect();
            Self {
                interfaces: own.iter().map(|arm| arm.interface.index_and_mtu()).collect(),
                arms: own,
                raw,
                protocol,
                ways: Ways::new(),
                batch: 0,
                first: 0,
                rest: Vec::new(),
                raw_is_ready: false,
                counters: Counters::default(),
            }
        };
        Ok(sockets.into_iter().map(with_rings).collect())
    }

    /// Each interface as each of the sockets has it.
    fn open_arms(
        sockets: &[RawSocket],
        interfaces: &[&str],
        options: &Options,
    ) -> Result<Vec<Vec<Attached>>, Refusal> {
        let protocol = sockets[0].protocol().unwrap_or(libc::IPPROTO_RAW as u8);
        let most = MAX_QUEUES / interfaces.len();
        let open = |name: &&str| {
            let all = sockets.iter().map(|socket| Interface::named(name, socket.listening()));
            let all = all.collect::<Result<Vec<Interface>, Refusal>>()?;
            Attached::open(all, Wanted::Protocol(protocol), Division::ByQueue, options, most)
        };
        interfaces.iter().map(open).collect()
    }

    /// Whether the drivers work in our memory themselves, on every queue.
    pub fn is_zero_copy(&self) -> bool {
        let mut queues = self.arms.iter().flat_map(|arm| &arm.queues).peekable();
        queues.peek().is_some() && queues.all(Queue::is_zero_copy)
    }

    /// Receive queues that have rings.
    pub fn queues(&self) -> usize {
        self.arms.iter().map(|arm| arm.queues.len()).sum()
    }

    fn receive_from_rings(&mut self, packets: &mut IpBatch) -> usize {
        let Self { arms, counters, protocol, first, .. } = self;
        let (most_bytes, mut received, mut frames) = (packets.packet_len(), 0, 0);
        *first = (*first + 1) % arms.len();
        let (later, sooner) = arms.split_at_mut(*first);
        for Attached { queues, interface, .. } in sooner.iter_mut().chain(later) {
            for queue in queues {
                frames += queue.receive(RECEIVE_MOST - frames, |frame| {
                    let parsed = frame::parse_packet(frame, *protocol).filter(|(from, range)| {
                        range.len() <= most_bytes && !interface.is_this_host(*from)
                    });
                    let Some((_, range)) = parsed else {
                        counters.receive_malformed += 1;
                        return;
                    };
                    let len = range.len();
                    packets.spare(1)[HEADROOM..HEADROOM + len].copy_from_slice(&frame[range]);
                    packets.received(HEADROOM, len);
                    counters.received_bytes += len as u64;
                    received += 1;
                });
            }
        }
        counters.received_messages += received as u64;
        counters.received_datagrams += received as u64;
        received
    }

    fn receive_from_raw(&mut self, packets: &mut IpBatch) -> io::Result<usize> {
        // The rings come next, however much more there is.
        self.raw_is_ready = false;
        self.raw.receive_more(packets, RECEIVE_MOST)
    }

    /// Writes frames for the packets that can go by the rings, and notes the others in `rest`.
    fn write_frames(&mut self, packets: &mut IpBatch, report: &mut SendReport) {
        self.batch += 1;
        self.rest.clear();
        let now = Instant::now();
        let mut last: Option<(IpAddr, Way)> = None;
        for number in 0..packets.len() {
            let packet = packets.packet(number);
            if packet.is_empty() {
                continue;
            }
            let to = ends_of(packet).map(|(_, to)| to);
            let known =
                last.filter(|(peer, way)| Some(*peer) == to && packet.len() <= way.max_packet);
            let way = match (known, to) {
                (Some((_, way)), _) => Some(way),
                (None, Some(to)) => self.find(to, packet.len(), now),
                (None, None) => None,
            };
            last = to.zip(way);
            match way {
                Some(way) => {
                    let fate = self.write_frame(&way, packet, report);
                    settle(packets, number, fate, report);
                }
                None => self.rest.push(number),
            }
        }
    }

    fn write_frame(&mut self, way: &Way, packet: &[u8], report: &mut SendReport) -> Fate {
        let arm = self.interfaces.iter().position(|(index, _)| *index == way.interface);
        for attempt in 0..2 {
            let Some(arm) = arm else { break };
            let source = self.arms[arm].interface.mac();
            let Some(queue) = self.arms[arm].sending() else { break };
            if queue.push(|frame| frame::emit_packet(frame, source, way.mac, packet)) {
                self.counters.sent_messages += 1;
                self.counters.sent_datagrams += 1;
                self.counters.sent_bytes += packet.len() as u64;
                return Fate::Sent;
            }
            if attempt == 0 {
                self.flush(arm, report);
            }
        }
        self.counters.send_dropped_busy += 1;
        Fate::Busy
    }

    fn find(&mut self, to: IpAddr, len: usize, now: Instant) -> Option<Way> {
        let has_rings = |arm: &Attached| !arm.queues.is_empty();
        let asked = &mut self.arms.iter_mut().find(|arm| has_rings(arm))?.interface;
        // A packet does not say by which of several links its destination is.
        let one_link = matches!(to, IpAddr::V6(address) if address.is_unicast_link_local());
        let through = match self.interfaces[..] {
            [(only, _)] if one_link => Some(only),
            _ if one_link => return None,
            _ => None,
        };
        let peer = Peer { ip: to, through };
        let way = self.ways.find(
            &mut asked.kernel(&self.interfaces, None),
            peer,
            len,
            self.batch,
            now,
        )?;
        let begins_at = |arm: &Attached| arm.interface.index() == way.interface;
        self.arms.iter().any(|arm| begins_at(arm) && has_rings(arm)).then_some(way)
    }

    /// Sends the frames in the ring of an arm. Those that a full queue swallows are taken out of
    /// what `report` says was sent; whose they were is not known.
    fn flush(&mut self, arm: usize, report: &mut SendReport) {
        let Some(queue) = self.arms[arm].sending() else { return };
        let flushed = queue.flush();
        flushed.settle(report, &mut self.counters);
        if flushed.gone {
            self.arms[arm].queues.clear();
        }
    }

    /// Whether frames wait in a ring that a full queue,
    /// or an interface that is down, has not taken.
    fn has_unsent(&self) -> bool {
        self.arms.iter().any(Attached::has_unsent)
    }
}

impl IpIo for XdpPackets {
    fn receive(&mut self, packets: &mut IpBatch) -> io::Result<usize> {
        packets.clear();
        if self.raw_is_ready {
            let received = self.receive_from_raw(packets)?;
            if received > 0 {
                return Ok(received);
            }
            packets.clear();
        }
        match self.receive_from_rings(packets) {
            0 => self.receive_from_raw(packets),
            received => Ok(received),
        }
    }

    /// What goes by frames is sent as it stands: no identification and no length is written.
    fn send(&mut self, packets: &mut IpBatch) -> io::Result<SendReport> {
        let mut report = SendReport::default();
        self.write_frames(packets, &mut report);
        for arm in 0..self.arms.len() {
            self.flush(arm, &mut report);
        }
        if !self.rest.is_empty() {
            let by_raw = self.raw.send_some(packets, self.rest.iter().copied())?;
            report.sent += by_raw.sent;
            report.dropped_busy += by_raw.dropped_busy;
            report.dropped_too_big += by_raw.dropped_too_big;
            report.dropped_unreachable += by_raw.dropped_unreachable;
        }
        Ok(report)
    }

    fn wait(&mut self, timeout: Option<Duration>, also: Option<&Wake>) -> io::Result<Ready> {
        let now = Instant::now();
        for (arm, known) in self.arms.iter_mut().zip(&mut self.interfaces) {
            arm.interface.refresh(now);
            *known = arm.interface.index_and_mtu();
        }
        let mut timeout = timeout;
        if self.has_unsent() {
            for arm in 0..self.arms.len() {
                self.flush(arm, &mut SendReport::default());
            }
            timeout = Some(timeout.map_or(UNSENT_WAIT, |timeout| timeout.min(UNSENT_WAIT)));
        }
        let mut interests = [const { Interest::Nothing }; 3 + MAX_QUEUES];
        let [ipv4, ipv6] = self.raw.interests();
        (interests[0], interests[1]) = (ipv4, ipv6);
        if let Some(wake) = also {
            interests[2] = Interest::Readable(wake.as_fd());
        }
        let queues = self.arms.iter().flat_map(|arm| &arm.queues);
        for (interest, queue) in interests[3..].iter_mut().zip(queues) {
            *interest = Interest::Readable(queue.as_fd());
        }
        let ready = poll(&interests, timeout)?;
        let raw_is_ready = ready[0] || ready[1];
        self.raw_is_ready = raw_is_ready;
        let readable = raw_is_ready || ready[3..].contains(&true);
        Ok(Ready { readable, woken: ready[2] && also.is_some_and(Wake::take) })
    }

    fn counters(&self) -> Counters {
        let mut all = self.raw.counters();
        all.add(&self.counters);
        let queues = self.arms.iter().flat_map(|arm| &arm.queues);
        all.receive_queue_overflows += queues.map(Queue::overflows).sum::<u64>();
        all.xdp_received_datagrams = self.counters.received_datagrams;
        all.xdp_sent_datagrams = self.counters.sent_datagrams;
        all
    }
}

impl fmt::Debug for XdpPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interfaces: Vec<&str> = self.arms.iter().map(|arm| arm.interface.name()).collect();
        f.debug_struct("XdpPackets")
            .field("protocol", &self.protocol)
            .field("interfaces", &interfaces)
            .field("queues", &self.queues())
            .finish_non_exhaustive()
    }
}

/// How soon frames that were not taken are offered again.
const UNSENT_WAIT: Duration = Duration::from_millis(10);

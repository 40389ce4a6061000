//! The thread that takes the host's packets to the names that they are for.
//!
//! 1. [`Departures::take_news`]: connections that were begun are there, or cannot be.
//! 2. A batch is read from the device, and sorted by name.
//! 3. [`Departures::depart`], per name: a connection is begun, and packets wait for it; or they are
//!    queued together.
//! 4. What has no room waits for a moment, and so does the device, which slows programs down
//!    without a loss; but no longer, since others want to send, too.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::task::{Wake as WakeTask, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::clock;
use crate::failure::{Failure, Outcome};
use rhumb_io::Wake;
use rhumb_io::ip::{Given, IpBatch, IpIo, Tun, Uncut};
use rhumb_node::ip::{Cut, DropReason, Outgoing, PORT, cut_run};
use rhumb_node::{Connection, EndError, Node, Packets};
use rhumb_wire::Name;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::Shared;
use super::seeker::Seeker;

/// What the thread has.
pub(super) struct Departures {
    node: Node,
    tun: Tun,
    shared: Shared,
    links: HashMap<Name, Link>,
    /// Packets that wait for connections, of all names.
    held: usize,
    wake: Wake,
    runtime: Handle,
    /// Who is asked for names of addresses.
    seeker: Option<Seeker>,
    sought: HashMap<Ipv6Addr, Sought>,
    tell: mpsc::UnboundedSender<News>,
    news: mpsc::UnboundedReceiver<News>,
    /// For this host: what became of packets of its own.
    answers: IpBatch,
    /// What is about to leave by a connection.
    leaving: Packets,
}

/// The way to a name.
enum Link {
    /// A connection is being made, and these wait for it.
    Beginning(Vec<Vec<u8>>),
    Open {
        connection: Connection,
        /// It made no room when there was last waited for some: nobody waits for it again.
        is_stalled: bool,
    },
    /// None came about; nobody tries again before this.
    Failed { until: Instant },
}

impl Link {
    fn is_of_use(&self, now: Instant) -> bool {
        match self {
            Self::Beginning(_) => true,
            Self::Open { connection, .. } => connection.max_datagram_len().is_some(),
            Self::Failed { until } => *until > now,
        }
    }
}

/// What became of a look-up.
enum Sought {
    /// These wait for it.
    Asked(Vec<Vec<u8>>),
    /// Nobody knows a name; nobody is asked again before this.
    Absent { until: Instant },
}

/// What others tell this thread.
enum News {
    Connected(Name, Result<Connection, EndError>),
    Found(Ipv6Addr, Option<Name>),
}

/// Has a thread go on that waits for room.
struct Unpark(Thread);

impl WakeTask for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Departures {
    /// To be made by a task of the runtime on which connections are made.
    pub(super) fn new(node: Node, tun: Tun, shared: Shared, wake: Wake) -> Self {
        let (tell, news) = mpsc::unbounded_channel();
        Self {
            node,
            answers: IpBatch::new(LONGEST_ANSWER),
            tun,
            shared,
            links: HashMap::new(),
            held: 0,
            wake,
            runtime: Handle::current(),
            seeker: None,
            sought: HashMap::new(),
            tell,
            news,
            leaving: Packets::default(),
        }
    }

    /// Has names of unknown addresses looked up, by who is started to tell what it has found.
    pub(super) fn seek_by(
        &mut self,
        start: impl FnOnce(Box<dyn Fn(Ipv6Addr, Option<Name>) + Send>) -> Outcome<Seeker>,
    ) -> Outcome {
        let (tell, wake) = (self.tell.clone(), self.wake.clone());
        let found = move |address, name| {
            // When nobody takes it, the command has ended.
            let _ = tell.send(News::Found(address, name));
            wake.wake();
        };
        self.seeker = Some(start(Box::new(found))?);
        Ok(())
    }

    /// Runs until the device fails, and says why.
    pub(super) fn run(mut self) -> Failure {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut batch = Uncut::new(self.tun.mtu() as usize);
        loop {
            // Whoever has just had something looks for more before it waits.
            let received = match self.tun.receive_uncut(&mut batch) {
                Ok(0) => self.tun.wait(None, Some(&self.wake)).map(drop),
                received => received.map(drop),
            };
            if let Err(error) = received {
                return Failure::operation(error);
            }
            let now = clock::now().instant;
            self.take_news(&waker, now);
            for (name, given) in self.sort(batch.iter(), now) {
                self.depart_uncut(name, &given, &waker, now);
            }
            if !self.answers.is_empty() {
                if let Err(error) = self.tun.send(&mut self.answers) {
                    return Failure::operation(error);
                }
                self.answers.clear();
            }
        }
    }

    /// Packets and runs by the names that they go to, in order.
    fn sort<'a>(
        &mut self,
        all: impl Iterator<Item = Given<'a>>,
        now: Instant,
    ) -> Vec<(Name, Vec<Given<'a>>)> {
        let mut sorted: Vec<(Name, Vec<Given<'_>>)> = Vec::new();
        let mut unknown = Vec::new();
        let mut overlay = self.shared.lock();
        for given in all {
            match overlay.outgoing(given.packet, now) {
                Outgoing::To(name) => match sorted.iter_mut().rfind(|it| it.0 == name) {
                    Some((_, all)) => all.push(given),
                    None => sorted.push((name, vec![given])),
                },
                Outgoing::Unknown(address) => unknown.push((address, given)),
                Outgoing::Nowhere => {
                    let answer = overlay.unreachable(given.packet, DropReason::UnknownName, now);
                    self.answers.extend_with(answer);
                }
                Outgoing::Dropped => {}
            }
        }
        // Before anything leaves: its answer may be here at once.
        let senders = overlay.poll_senders();
        drop(overlay);
        if let Some(senders) = senders {
            self.node.admit(PORT, senders);
        }
        for (address, given) in unknown {
            let packets = self.cut_to_packets(&[given]);
            packets.iter().for_each(|(_, packet)| self.seek(address, packet, now));
        }
        sorted
    }

    /// The packets that runs stand for, for those who take no runs, or do not yet.
    fn cut_to_packets(&self, given: &[Given<'_>]) -> IpBatch {
        let mut packets = IpBatch::new(self.tun.mtu() as usize);
        given.iter().for_each(|it| it.cut_into(&mut packets));
        packets
    }

    /// Has the packet wait until its name is found, or tells this host that nobody knows it.
    fn seek(&mut self, address: Ipv6Addr, packet: &[u8], now: Instant) {
        if let Some(Sought::Absent { until }) = self.sought.get(&address)
            && *until <= now
        {
            self.sought.remove(&address);
        }
        if self.sought.len() >= MOST_SOUGHT {
            self.sought.retain(|_, it| matches!(it, Sought::Asked(_)));
        }
        let is_asked = self.sought.contains_key(&address);
        let may_ask = || self.seeker.as_ref().is_some_and(|seeker| seeker.seek(address));
        if !is_asked && self.sought.len() < MOST_SOUGHT && may_ask() {
            self.sought.insert(address, Sought::Asked(Vec::new()));
        }
        let room = MOST_HELD.saturating_sub(self.held).min(MOST_HELD_EACH);
        match self.sought.get_mut(&address) {
            Some(Sought::Asked(waiting)) if waiting.len() < room => {
                waiting.push(packet.to_vec());
                self.held += 1;
            }
            Some(Sought::Asked(_)) => self.shared.lock().count_dropped(DropReason::NoRoom, 1),
            _ => self.refuse(&[packet], DropReason::UnknownName, now),
        }
    }

    /// The answer to a question for a name.
    fn found(&mut self, address: Ipv6Addr, name: Option<Name>, waker: &Waker, now: Instant) {
        let Some(Sought::Asked(waiting)) = self.sought.remove(&address) else { return };
        self.held = self.held.saturating_sub(waiting.len());
        let given: Vec<Given<'_>> =
            waiting.iter().map(|packet| Given { packet, run: None }).collect();
        if !name.is_some_and(|name| self.shared.lock().found(name, now)) {
            self.sought.insert(address, Sought::Absent { until: now + TRY_AGAIN_AFTER });
        }
        for (name, given) in self.sort(given.into_iter(), now) {
            self.depart_uncut(name, &given, waker, now);
        }
    }

    /// Sends what the device gave, with runs as a whole where the other end takes them.
    fn depart_uncut(&mut self, name: Name, given: &[Given<'_>], waker: &Waker, now: Instant) {
        if let Some(Link::Open { connection, is_stalled }) = self.links.get(&name) {
            let (connection, mut stalled) = (connection.clone(), *is_stalled);
            if self.send_packets(&connection, given, &mut stalled, waker, now) {
                if let Some(Link::Open { is_stalled, .. }) = self.links.get_mut(&name) {
                    *is_stalled = stalled;
                }
                return;
            }
        }
        let packets = self.cut_to_packets(given);
        let packets: Vec<&[u8]> = packets.iter().map(|(_, packet)| packet).collect();
        self.depart(name, &packets, waker, now);
    }

    /// Queues packets and runs in one block; false when the connection takes none, or is over.
    fn send_packets(
        &mut self,
        connection: &Connection,
        given: &[Given<'_>],
        is_stalled: &mut bool,
        waker: &Waker,
        now: Instant,
    ) -> bool {
        let Some(longest) = connection.max_packet_len() else { return false };
        self.fill(connection.peer(), given, longest, now);
        let (count, bytes) = (self.leaving.len(), self.leaving.bytes());
        let until = now + if *is_stalled { Duration::ZERO } else { WAITS_FOR_ROOM };
        loop {
            match connection.send_packets(&mut self.leaving, waker) {
                Ok(true) => break,
                Ok(false) => {}
                Err(_) => {
                    self.leaving.clear();
                    return false;
                }
            }
            let time = until.saturating_duration_since(clock::now().instant);
            if time.is_zero() {
                *is_stalled = true;
                self.leaving.clear();
                self.shared.lock().count_dropped(DropReason::NoRoom, count as u64);
                return true;
            }
            thread::park_timeout(time);
        }
        *is_stalled = false;
        self.shared.lock().count_sent(count, bytes);
        true
    }

    /// Makes the block that is about to leave.
    fn fill(&mut self, to: Name, given: &[Given<'_>], longest: usize, now: Instant) {
        self.leaving.clear();
        let mut overlay = self.shared.lock();
        for it in given {
            if let Some((head, segment_len)) = &it.run {
                let number = overlay.number_run(to);
                let run = (it.packet, head, *segment_len);
                if !cut_run(run, number, longest, &mut self.leaving) {
                    overlay.count_dropped(DropReason::TooBig, 1);
                }
                continue;
            }
            match overlay.cut(it.packet, to, longest, now) {
                Cut::Whole => self.leaving.push(&[it.packet]),
                Cut::Halves(halves) => halves.iter().for_each(|it| self.leaving.push(&[it])),
                Cut::TooBig(answer) => self.answers.extend_with(answer),
            }
        }
    }

    fn depart(&mut self, name: Name, packets: &[&[u8]], waker: &Waker, now: Instant) {
        match self.links.get_mut(&name) {
            Some(Link::Open { connection, is_stalled }) => {
                let connection = connection.clone();
                let mut stalled = *is_stalled;
                if self.send(&connection, packets, &mut stalled, waker, now) {
                    if let Some(Link::Open { is_stalled, .. }) = self.links.get_mut(&name) {
                        *is_stalled = stalled;
                    }
                    return;
                }
                // It is over: another one is made.
                self.links.remove(&name);
                self.begin(name, packets, waker, now);
            }
            Some(Link::Beginning(waiting)) => {
                let room = MOST_HELD_EACH.saturating_sub(waiting.len());
                let room = room.min(MOST_HELD.saturating_sub(self.held)).min(packets.len());
                waiting.extend(packets[..room].iter().map(|it| it.to_vec()));
                self.held += room;
                let lost = (packets.len() - room) as u64;
                self.shared.lock().count_dropped(DropReason::NoRoom, lost);
            }
            Some(Link::Failed { until }) if *until > now => {
                self.refuse(packets, DropReason::Unreachable, now);
            }
            Some(Link::Failed { .. }) | None => self.begin(name, packets, waker, now),
        }
    }

    /// Takes the connection that there is, or has one made.
    fn begin(&mut self, name: Name, packets: &[&[u8]], waker: &Waker, now: Instant) {
        if let Some(connection) = self.node.connected(name) {
            let mut is_stalled = false;
            if self.send(&connection, packets, &mut is_stalled, waker, now) {
                self.links.insert(name, Link::Open { connection, is_stalled });
                return;
            }
        }
        // A handle keeps what is left of its connection, also if nobody sends to that name again.
        self.links.retain(|_, link| link.is_of_use(now));
        if self.links.len() >= MOST_LINKS {
            self.links.retain(|_, link| matches!(link, Link::Beginning(_)));
        }
        let (node, tell, wake) = (self.node.clone(), self.tell.clone(), self.wake.clone());
        self.runtime.spawn(async move {
            let outcome = node.connect(name).await;
            // When nobody takes it, the command has ended.
            let _ = tell.send(News::Connected(name, outcome));
            wake.wake();
        });
        self.links.insert(name, Link::Beginning(Vec::new()));
        self.depart(name, packets, waker, now);
    }

    fn take_news(&mut self, waker: &Waker, now: Instant) {
        while let Ok(news) = self.news.try_recv() {
            match news {
                News::Connected(name, outcome) => self.connected(name, outcome, waker, now),
                News::Found(address, name) => self.found(address, name, waker, now),
            }
        }
    }

    /// A connection that was begun is there, or none came about.
    fn connected(
        &mut self,
        name: Name,
        outcome: Result<Connection, EndError>,
        waker: &Waker,
        now: Instant,
    ) {
        let Some(Link::Beginning(waiting)) = self.links.remove(&name) else { return };
        self.held = self.held.saturating_sub(waiting.len());
        let waiting: Vec<&[u8]> = waiting.iter().map(Vec::as_slice).collect();
        match outcome {
            Ok(connection) => {
                let mut is_stalled = false;
                self.send(&connection, &waiting, &mut is_stalled, waker, now);
                self.links.insert(name, Link::Open { connection, is_stalled });
            }
            Err(error) => {
                tracing::info!(%name, %error, "packets have no way");
                self.refuse(&waiting, DropReason::Unreachable, now);
                self.links.insert(name, Link::Failed { until: now + TRY_AGAIN_AFTER });
            }
        }
    }

    /// Tells this host that packets go nowhere.
    fn refuse(&mut self, packets: &[&[u8]], reason: DropReason, now: Instant) {
        let mut overlay = self.shared.lock();
        for packet in packets {
            let answer = overlay.unreachable(packet, reason, now);
            self.answers.extend_with(answer);
        }
    }

    /// Queues packets; false when the connection is over, and none of them left.
    fn send(
        &mut self,
        connection: &Connection,
        packets: &[&[u8]],
        is_stalled: &mut bool,
        waker: &Waker,
        now: Instant,
    ) -> bool {
        let Some(longest) = connection.max_datagram_len() else { return false };
        let datagrams = self.cut(connection.peer(), packets, longest, now);
        let mut left = &datagrams[..];
        let until = now + if *is_stalled { Duration::ZERO } else { WAITS_FOR_ROOM };
        loop {
            let bodies = left.iter().map(|it| &**it);
            let Ok(taken) = connection.send_datagrams(PORT, bodies, waker) else {
                return left.len() < datagrams.len();
            };
            left = &left[taken..];
            *is_stalled &= taken == 0;
            if left.is_empty() {
                break;
            }
            let time = until.saturating_duration_since(clock::now().instant);
            if time.is_zero() {
                *is_stalled = true;
                break;
            }
            thread::park_timeout(time);
        }
        let mut overlay = self.shared.lock();
        let sent = &datagrams[..datagrams.len() - left.len()];
        overlay.count_sent(sent.len(), sent.iter().map(|it| it.len()).sum());
        overlay.count_dropped(DropReason::NoRoom, left.len() as u64);
        true
    }

    /// The datagrams that packets travel in.
    fn cut<'a>(
        &mut self,
        to: Name,
        packets: &[&'a [u8]],
        longest: usize,
        now: Instant,
    ) -> Vec<Cow<'a, [u8]>> {
        if packets.iter().all(|packet| packet.len() <= longest) {
            return packets.iter().copied().map(Cow::Borrowed).collect();
        }
        let mut overlay = self.shared.lock();
        let mut datagrams = Vec::with_capacity(packets.len() * 2);
        for packet in packets {
            match overlay.cut(packet, to, longest, now) {
                Cut::Whole => datagrams.push(Cow::Borrowed(*packet)),
                Cut::Halves(halves) => datagrams.extend(halves.map(Cow::Owned)),
                Cut::TooBig(answer) => self.answers.extend_with(answer),
            }
        }
        datagrams
    }
}

/// Puts what there is into a batch for this host.
trait ExtendWith {
    fn extend_with(&mut self, answer: Option<Vec<u8>>);
}

impl ExtendWith for IpBatch {
    fn extend_with(&mut self, answer: Option<Vec<u8>>) {
        if let Some(answer) = answer {
            self.push(&answer);
        }
    }
}

/// Packets that wait for a connection to one name, and to all: the first of some programs.
const MOST_HELD_EACH: usize = 64;
const MOST_HELD: usize = 1024;
/// Names with a connection are fewer.
const MOST_LINKS: usize = 8192;
/// Addresses that are looked up, or were not found lately.
const MOST_SOUGHT: usize = 256;
/// As long as a look-up that found nothing is believed.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// A round trip of a quick network; others wait meanwhile.
const WAITS_FOR_ROOM: Duration = Duration::from_millis(5);
/// What RFC 4443 allows.
const LONGEST_ANSWER: usize = 1280;

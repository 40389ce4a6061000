//! The load on sockets: datagrams sealed beforehand, sent as fast as
//! they are taken, and counted where they arrive.
//!
//! Source and sink are one thread, so that they need one core, and that many datagrams are under
//! way at a time: as many as keep the forwarder's queue full, as few as are never lost in it.
//! Whatever is lost all the same is counted.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_io::PacketIo;
use rhumb_io::udp::UdpSocket;
use rhumb_wire::datagram::RECORD_OVERHEAD;
use rhumb_wire::{Batch, bundle};

use crate::bare::{Ends, Resealer};
use crate::forwarder::{Forward, Forwarder, Redirect, Reseal};
use crate::member::{self, Form, Member};
use crate::path::{Path, Sockets};

/// Room for the datagrams of a slice; every rig of a process uses the same.
pub(crate) struct Store(Vec<Batch>);

impl Store {
    pub(crate) fn new() -> Self {
        Self((0..SLICE_DATAGRAMS / BATCH_DATAGRAMS).map(|_| Batch::new()).collect())
    }
}

/// A forwarder under load.
pub(crate) struct Rig {
    traffic: Traffic,
    source: UdpSocket,
    sink: UdpSocket,
    to: SocketAddr,
    forwarder: Forwarder,
}

/// Who seals and who opens.
enum Traffic {
    /// Through a switch.
    Members { source: Box<Member>, sink: Box<Member>, form: Form, data: Vec<u8>, bundled: bool },
    /// Through a forwarder that changes the address only.
    Redirected(Ends),
    /// Through a forwarder that opens and seals.
    Resealed(Ends),
}

/// What one slice showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slice {
    /// Datagrams that arrived.
    pub(crate) arrived: usize,
    /// Datagrams that did not.
    pub(crate) lost: usize,
    /// From the first one sent to the last one received.
    pub(crate) wall: Duration,
    /// CPU time of the forwarder.
    pub(crate) cpu: Duration,
}

impl Slice {
    pub(crate) fn datagrams_per_s(&self) -> f64 {
        self.arrived as f64 / self.wall.as_secs_f64()
    }

    pub(crate) fn cpu_ns_per_datagram(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.arrived.max(1) as f64
    }

    /// How much of the time the forwarder was at work.
    pub(crate) fn busy(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64()
    }
}

impl Rig {
    /// Through a switch, which both ends have joined when this returns.
    pub(crate) fn switching(path: &Path) -> Self {
        Self::joined(path, false)
    }

    /// The same, by ends that put what they send into bundles, and take bundles.
    pub(crate) fn bundling(path: &Path) -> Self {
        Self::joined(path, true)
    }

    fn joined(path: &Path, bundled: bool) -> Self {
        let Sockets { source, forwarder, sink, forwarder_addresses } = path.sockets();
        let now = member::now();
        let switch = member::switch(FLOWS, Vec::new(), now);
        let router = switch.name();
        let ends = [(source, forwarder_addresses[0]), (sink, forwarder_addresses[1])];
        let forwarder = Forwarder::new(forwarder, Box::new(switch));
        forwarder.start();
        let [mut source, mut sink] = ends.map(|(mut socket, to)| {
            let make = if bundled { Member::of_bundles } else { Member::new };
            let mut member = make(socket.local_address(), router, to, now);
            exchange_until(&mut member, &mut socket, |it| match bundled {
                true => it.is_joined() && it.bundle_room().is_some_and(|room| room > 1400),
                // The largest payload has to fit.
                false => it.is_joined() && it.largest_datagram() > 2000,
            });
            (member, socket)
        });
        let destination = sink.0.name();
        let mut first = Batch::new();
        let to = forwarder_addresses[0];
        source.0.push_data(&mut first, to, (destination, Form::Names), &[0; 16], now);
        source.1.send(&first).expect("the path takes datagrams");
        exchange_until(&mut sink.0, &mut sink.1, Member::has_given_labels);
        exchange_until(&mut source.0, &mut source.1, |member| member.has_label_to(&destination));
        forwarder.stop();
        let traffic = Traffic::Members {
            source: Box::new(source.0),
            sink: Box::new(sink.0),
            form: Form::Labels,
            data: Vec::new(),
            bundled,
        };
        Self { traffic, source: source.1, sink: sink.1, to, forwarder }
    }

    /// Whether PDUs through the switch travel with labels or with names.
    pub(crate) fn set_form(&mut self, to: Form) {
        if let Traffic::Members { form, .. } = &mut self.traffic {
            *form = to;
        }
    }

    /// Through a forwarder that changes the address only.
    pub(crate) fn redirecting(path: &Path) -> Self {
        Self::bare(path, Traffic::Redirected(Ends::new(1)), |to| Box::new(Redirect(to)))
    }

    /// Through a forwarder that opens and seals.
    pub(crate) fn resealing(path: &Path) -> Self {
        Self::bare(path, Traffic::Resealed(Ends::new(1)), |to| {
            Box::new(Reseal { to, resealer: Resealer::new(1) })
        })
    }

    fn bare(
        path: &Path,
        traffic: Traffic,
        forward: impl FnOnce(SocketAddr) -> Box<dyn Forward>,
    ) -> Self {
        let Sockets { source, forwarder, sink, forwarder_addresses: [to, _] } = path.sockets();
        let forwarder = Forwarder::new(forwarder, forward(sink.local_address()));
        Self { traffic, source, sink, to, forwarder }
    }

    /// Seals a slice's datagrams into `store`, then sends and receives them. With
    /// `check`, every one that arrives is opened.
    pub(crate) fn slice(&mut self, payload: usize, store: &mut Store, check: bool) -> Slice {
        self.greet();
        for batch in &mut store.0 {
            batch.clear();
            self.traffic.seal(batch, self.to, payload);
        }
        self.forwarder.start();
        let (arrived, wall) = self.exchange(payload, &store.0, check);
        let cpu = self.forwarder.stop();
        Slice { arrived, lost: SLICE_DATAGRAMS - arrived, wall, cpu }
    }

    /// Lets the switch know that both ends are still there, however long it was not its turn.
    fn greet(&mut self) {
        let Traffic::Members { source, sink, .. } = &mut self.traffic else { return };
        let (mut batch, now) = (Batch::new(), member::now());
        for (member, socket) in [(source, &mut self.source), (sink, &mut self.sink)] {
            batch.clear();
            member.keep_alive(&mut batch, now);
            socket.send(&batch).expect("the path takes datagrams");
        }
    }

    /// Sends and receives, with at most [`UNDER_WAY`] datagrams, or [`BYTES_UNDER_WAY`], between
    /// the two. How many arrived, and in what time.
    fn exchange(&mut self, payload: usize, store: &[Batch], check: bool) -> (usize, Duration) {
        let len = RECORD_OVERHEAD + self.traffic.header_len() + payload;
        let (mut incoming, mut answers) = (Batch::new(), Batch::new());
        let most = (BYTES_UNDER_WAY / len).clamp(BATCH_DATAGRAMS, UNDER_WAY);
        let (mut to_send, mut under_way, mut arrived) = (store.iter(), 0, 0);
        let begin = Instant::now();
        let mut last_arrival = begin;
        loop {
            while under_way + BATCH_DATAGRAMS <= most
                && let Some(batch) = to_send.next()
            {
                let sent = self.source.send(batch).expect("the path takes datagrams").sent;
                under_way += if sent == batch.len() { BATCH_DATAGRAMS } else { sent };
            }
            let received = self.sink.receive(&mut incoming).expect("the path gives datagrams");
            for slot in 0..received {
                let (_, datagram) = incoming.datagram_mut(slot);
                if self.traffic.answers_path(datagram, &mut answers) {
                    self.sink.send(&answers).expect("the path takes datagrams");
                    answers.clear();
                } else {
                    let came = self.traffic.arrive(datagram, len, check);
                    arrived += came;
                    under_way = under_way.saturating_sub(came);
                    if came > 0 {
                        last_arrival = Instant::now();
                    }
                }
            }
            if arrived == SLICE_DATAGRAMS {
                break;
            }
            if received == 0 && last_arrival.elapsed() > PATIENCE {
                // What is under way now will not come any more.
                if to_send.len() == 0 {
                    break;
                }
                (under_way, last_arrival) = (0, Instant::now());
            }
        }
        (arrived, last_arrival - begin)
    }
}

impl Traffic {
    fn header_len(&self) -> usize {
        match self {
            Self::Members { form, .. } => form.header_len(),
            Self::Redirected(_) | Self::Resealed(_) => Form::Labels.header_len(),
        }
    }

    fn seal(&mut self, batch: &mut Batch, to: SocketAddr, payload: usize) {
        let len = self.header_len() + payload;
        match self {
            Self::Members { source, sink, form, data, bundled } => {
                data.resize(payload, 0x5A);
                let now = member::now();
                if *bundled {
                    let all = (&data[..], BATCH_DATAGRAMS);
                    return source.push_bundles(batch, to, sink.name(), all, now);
                }
                for _ in 0..BATCH_DATAGRAMS {
                    source.push_data(batch, to, (sink.name(), *form), data, now);
                }
            }
            Self::Redirected(ends) | Self::Resealed(ends) => {
                (0..BATCH_DATAGRAMS).for_each(|_| ends.push(batch, to, (0, len), |_| {}));
            }
        }
    }

    fn answers_path(&mut self, datagram: &mut [u8], answers: &mut Batch) -> bool {
        match self {
            Self::Members { sink, .. } => sink.answers_path(datagram, answers, member::now()),
            Self::Redirected(_) | Self::Resealed(_) => false,
        }
    }

    /// How many PDUs came in a forwarded datagram, of those whose own would have `len` bytes. With
    /// `check`, those that are as the sink wants them.
    fn arrive(&mut self, datagram: &mut [u8], len: usize, check: bool) -> usize {
        match self {
            Self::Members { sink, data, bundled: true, .. } if check => {
                sink.arrive(datagram, data, member::now())
            }
            Self::Members { bundled: true, .. } => {
                let each = len - RECORD_OVERHEAD + bundle::LENGTH_LEN;
                let bundle = datagram.len().saturating_sub(RECORD_OVERHEAD);
                if bundle.is_multiple_of(each) { bundle / each } else { 0 }
            }
            _ => usize::from(datagram.len() == len && (!check || self.arrives(datagram))),
        }
    }

    /// Whether a forwarded datagram is as the sink wants it.
    fn arrives(&mut self, datagram: &mut [u8]) -> bool {
        match self {
            Self::Members { sink, form, data, .. } => {
                sink.arrives(datagram, *form, data, member::now())
            }
            Self::Redirected(ends) => ends.is_untouched(datagram),
            Self::Resealed(ends) => ends.opens(datagram),
        }
    }
}

/// Lets a member send and receive over its socket until it has come so far.
fn exchange_until(member: &mut Member, socket: &mut UdpSocket, done: impl Fn(&Member) -> bool) {
    let deadline = Instant::now() + TIME_TO_JOIN;
    let mut batch = Batch::new();
    loop {
        batch.clear();
        member.transmit(&mut batch, member::now());
        socket.send(&batch).expect("the path takes datagrams");
        if done(member) {
            return;
        }
        assert!(Instant::now() < deadline, "a member is not ready after {TIME_TO_JOIN:?}");
        socket.wait(Some(Duration::from_millis(20)), None).expect("a socket can be waited for");
        let received = socket.receive(&mut batch).expect("the path gives datagrams");
        for slot in 0..received {
            member.handle(batch.datagram_mut(slot).1, member::now());
        }
    }
}

/// Datagrams that one slice sends.
pub(crate) const SLICE_DATAGRAMS: usize = 16_384;
/// Datagrams in one batch of the load.
const BATCH_DATAGRAMS: usize = 64;
/// Two batches of the forwarder's, at 1024 datagrams each, and what the sink has yet to take.
const UNDER_WAY: usize = 2048;
/// What a socket's buffer holds for certain, of long datagrams.
const BYTES_UNDER_WAY: usize = 2 << 20;
/// After this long without an arrival, what is under way is lost. Longer than
/// others on the machine keep a thread waiting.
const PATIENCE: Duration = Duration::from_millis(500);
const TIME_TO_JOIN: Duration = Duration::from_secs(10);
const FLOWS: usize = 1024;

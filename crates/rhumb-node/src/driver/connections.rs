//! Connections between the node's thread, which carries their datagrams, and the handles, which use
//! their streams: both work on one [`Ends`] behind a lock that is held for one call, and a handle
//! that changed what there is to send has the thread look.
//!
//! INVARIANT: whoever waits is woken by the event that it waits for, by the end of the connection,
//! or by the end of the node.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use rhumb_end::{
    Admits, BUSY, Carries, ConnectionId, ConnectionStatus, DatagramError, EndError, Ends, Event,
    PACKETS, PORT_CLOSED, Packets, Ports, StreamError, StreamId, Transmit, WriteError,
};
use rhumb_trust::{AdCert, Now, Removal, Standing, Verified};
use rhumb_wire::payload::PayloadHeader;
use rhumb_wire::{Batch, Name};
use tokio::sync::{mpsc, oneshot};

use super::orders::Shared;
use crate::clock::now;
use crate::core::{Arrival, Core};
use crate::mailbox::{Alarm, Deliver, Mailbox, mailbox};
use crate::senders::{Refusal, Wanted};
use crate::{Block, Message};

/// What the thread and the handles share of all connections.
pub(crate) struct Connections {
    state: Mutex<State>,
    shared: Arc<Shared>,
}

/// What the lock is about.
pub(crate) struct State {
    pub(crate) ends: Ends,
    streams: HashMap<(ConnectionId, StreamId), Waiting>,
    connecting: HashMap<ConnectionId, Vec<oneshot::Sender<Result<(), EndError>>>>,
    opening: HashMap<ConnectionId, Vec<Waker>>,
    listeners: HashMap<u16, mpsc::Sender<Arrived>>,
    ports: HashMap<u16, Receiver>,
    sending: HashMap<ConnectionId, Vec<Waker>>,
    /// Who is woken as soon as the lock is free.
    woken: Vec<Waker>,
    /// The node has ended: nothing more will happen.
    is_over: bool,
    body: Vec<u8>,
}

/// A stream that somebody opened to a port of this node.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) id: ConnectionId,
    pub(crate) stream: StreamId,
    pub(crate) local: Name,
    pub(crate) peer: Name,
    pub(crate) port: u16,
}

/// Who receives the datagrams for a port.
enum Receiver {
    OneByOne(Deliver<Message>),
    /// Of IP packets.
    InBlocks(Deliver<Block>),
}

/// What a turn brought for the rest of the node.
#[derive(Default)]
pub(super) struct Turned {
    pub(super) refusals: Vec<Refusal>,
    /// Datagrams that no port took.
    pub(super) datagrams_dropped: u64,
    woken: Vec<Waker>,
    alarms: Alarms,
}

/// Who is to look for what came.
#[derive(Default)]
struct Alarms {
    one_by_one: Vec<Alarm<Message>>,
    in_blocks: Vec<Alarm<Block>>,
}

impl Turned {
    /// Wakes who waited for any of it: without the lock, which is what they want first.
    pub(super) fn wake(&mut self) {
        self.woken.drain(..).for_each(Waker::wake);
        self.alarms.one_by_one.drain(..).for_each(|alarm| alarm.wake());
        self.alarms.in_blocks.drain(..).for_each(|alarm| alarm.wake());
    }
}

/// Who waits for something of a stream.
#[derive(Default)]
struct Waiting {
    reader: Option<Waker>,
    writer: Option<Waker>,
    finisher: Option<Waker>,
    /// The peer has everything.
    is_finished: bool,
}

/// What of a stream is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    Reading,
    Writing,
}

impl Connections {
    pub(crate) fn new(ends: Ends, shared: Arc<Shared>) -> Self {
        let state = State {
            ends,
            streams: HashMap::new(),
            connecting: HashMap::new(),
            opening: HashMap::new(),
            listeners: HashMap::new(),
            ports: HashMap::new(),
            sending: HashMap::new(),
            woken: Vec::new(),
            is_over: false,
            body: Vec::new(),
        };
        Self { state: Mutex::new(state), shared }
    }

    /// For a handle: does something, and has the thread send what came of it.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut State, Now) -> T) -> T {
        let mut state = self.lock();
        let done = act(&mut state, now());
        let must_send = state.ends.has_more_to_send();
        drop(state);
        if must_send {
            self.shared.alert();
        }
        done
    }

    /// For a handle: asks something, which changes nothing that the thread would have to know.
    pub(crate) fn ask<T>(&self, ask: impl FnOnce(&mut State) -> T) -> T {
        ask(&mut self.lock())
    }

    /// What else the thread shares with handles.
    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// For the thread.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // What panics half-way is a program's waker at worst, and nothing here rests on it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another stream of a connection, as soon as the peer allows one.
    pub(crate) fn poll_open(
        &self,
        id: ConnectionId,
        way: rhumb_end::Way,
        port: u16,
        context: &Context<'_>,
    ) -> Poll<Result<StreamId, EndError>> {
        self.with(|state, now| {
            if state.is_over {
                return Poll::Ready(Err(EndError::Closed));
            }
            match state.ends.open(id, way, port, now) {
                Ok(Ok(stream)) => Poll::Ready(Ok(stream)),
                Ok(Err(rhumb_end::Blocked)) => {
                    state.opening.entry(id).or_default().push(context.waker().clone());
                    Poll::Pending
                }
                Err(error) => Poll::Ready(Err(error)),
            }
        })
    }

    /// Asks a stream for something, and waits when it is not the time.
    pub(crate) fn poll_stream<T>(
        &self,
        (id, stream): (ConnectionId, StreamId),
        waits_for: WaitsFor,
        context: &Context<'_>,
        ask: impl FnOnce(&mut Ends, Now) -> Result<T, WriteError>,
    ) -> Poll<Result<T, StreamError>> {
        self.with(|state, now| {
            if state.is_over {
                return Poll::Ready(Err(StreamError::Connection(EndError::Closed)));
            }
            match ask(&mut state.ends, now) {
                Ok(done) => Poll::Ready(Ok(done)),
                Err(WriteError::Over(error)) => Poll::Ready(Err(error)),
                Err(WriteError::Blocked) => {
                    let waiting = state.streams.entry((id, stream)).or_default();
                    let place = match waits_for {
                        WaitsFor::Reading => &mut waiting.reader,
                        WaitsFor::Writing => &mut waiting.writer,
                    };
                    *place = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }

    /// Waits until the peer has everything that was written to a stream.
    pub(crate) fn poll_finished(
        &self,
        (id, stream): (ConnectionId, StreamId),
        context: &Context<'_>,
    ) -> Poll<Result<(), StreamError>> {
        self.with(|state, _| {
            let waiting = state.streams.entry((id, stream)).or_default();
            if waiting.is_finished {
                return Poll::Ready(Ok(()));
            }
            waiting.finisher = Some(context.waker().clone());
            let end = if state.is_over { Some(EndError::Closed) } else { state.ends.end_of(id) };
            end.map_or(Poll::Pending, |error| Poll::Ready(Err(StreamError::Connection(error))))
        })
    }

    /// A program has no more use for a stream.
    pub(crate) fn release(&self, id: ConnectionId, stream: StreamId) {
        self.with(|state, now| {
            state.ends.release(id, stream, now);
            state.streams.remove(&(id, stream));
        });
    }

    /// Offers a port. `None` when another listener has it. When the node is over, nothing arrives.
    pub(crate) fn listen(&self, port: u16, admits: Admits) -> Option<mpsc::Receiver<Arrived>> {
        let (deliver, arrivals) = mpsc::channel(WAITING_STREAMS);
        self.with(|state, _| {
            if state.is_over {
                return Some(arrivals);
            }
            if state.listeners.get(&port).is_some_and(|other| !other.is_closed()) {
                return None;
            }
            state.ends.offer(Carries::Streams, port, admits);
            state.listeners.insert(port, deliver);
            Some(arrivals)
        })
    }

    /// Lets others use a port that has a listener.
    pub(crate) fn admit_streams(&self, port: u16, admits: Admits) {
        self.with(|state, _| {
            if state.listeners.contains_key(&port) {
                state.ends.offer(Carries::Streams, port, admits);
            }
        });
    }

    /// A listener is gone.
    pub(crate) fn unlisten(&self, port: u16) {
        self.with(|state, _| {
            if state.listeners.get(&port).is_some_and(mpsc::Sender::is_closed) {
                state.listeners.remove(&port);
                state.ends.withdraw(Carries::Streams, port);
            }
        });
    }

    /// Queues a datagram, as soon as there is room.
    pub(crate) fn poll_datagram(
        &self,
        id: ConnectionId,
        ports: Ports,
        body: &[u8],
        context: &Context<'_>,
    ) -> Poll<Result<(), DatagramError>> {
        self.with(|state, now| {
            if state.is_over {
                return Poll::Ready(Err(EndError::Closed.into()));
            }
            match state.ends.send_datagram(id, ports, body, now) {
                Err(DatagramError::NoRoom) => {
                    state.sending.entry(id).or_default().push(context.waker().clone());
                    Poll::Pending
                }
                done => Poll::Ready(done),
            }
        })
    }

    /// Queues datagrams while there is room, and says how many that were. If not all, `waker` is
    /// woken when there is room again, or never will be.
    pub(crate) fn send_datagrams<'a>(
        &self,
        id: ConnectionId,
        ports: Ports,
        bodies: impl ExactSizeIterator<Item = &'a [u8]>,
        waker: &Waker,
    ) -> Result<usize, DatagramError> {
        let all = bodies.len();
        self.with(|state, now| {
            if state.is_over {
                return Err(EndError::Closed.into());
            }
            let taken = state.ends.send_datagrams(id, ports, bodies, now)?;
            if taken < all {
                state.await_room(id, waker);
            }
            Ok(taken)
        })
    }

    /// Queues a block of packets if there is room, and says whether there was. If not, `waker` is
    /// woken when there is, or never will be.
    pub(crate) fn send_packets(
        &self,
        id: ConnectionId,
        packets: &mut Packets,
        waker: &Waker,
    ) -> Result<bool, DatagramError> {
        self.with(|state, now| {
            if state.is_over {
                return Err(EndError::Closed.into());
            }
            let is_taken = state.ends.send_packets(id, packets, now)?;
            if !is_taken {
                state.await_room(id, waker);
            }
            Ok(is_taken)
        })
    }

    /// Lets others use a port of datagrams. Says whether it has a receiver.
    pub(crate) fn admit(&self, port: u16, admits: Admits) -> bool {
        self.with(|state, _| {
            let is_bound = state.ports.get(&port).is_some_and(|it| !it.is_closed());
            if is_bound {
                state.ends.offer(Carries::Datagrams, port, admits);
            }
            is_bound
        })
    }

    /// Offers a port of datagrams; one that is free, if 0 is asked for. `None` when somebody else
    /// has it, or there is none.
    pub(crate) fn bind(&self, port: u16, admits: Admits) -> Option<(u16, Mailbox<Message>)> {
        let (deliver, messages) = mailbox(WAITING_DATAGRAMS);
        self.with(|state, _| {
            let is_free = |port: &u16| state.ports.get(port).is_none_or(Receiver::is_closed);
            let port = match port {
                0 => EPHEMERAL_PORTS.into_iter().find(is_free)?,
                port => Some(port).filter(is_free)?,
            };
            if !state.is_over {
                state.ends.offer(Carries::Datagrams, port, admits);
                state.ports.insert(port, Receiver::OneByOne(deliver));
            }
            Some((port, messages))
        })
    }

    /// Offers the port of packets, which come in blocks. `None` when somebody else has it.
    pub(crate) fn bind_packets(&self, admits: Admits) -> Option<Mailbox<Block>> {
        let (deliver, blocks) = mailbox(WAITING_DATAGRAMS);
        self.with(|state, _| {
            if !state.ports.get(&PACKETS).is_none_or(Receiver::is_closed) {
                return None;
            }
            if !state.is_over {
                state.ends.offer(Carries::Datagrams, PACKETS, admits);
                state.ports.insert(PACKETS, Receiver::InBlocks(deliver));
            }
            Some(blocks)
        })
    }

    /// Nobody receives datagrams on a port any more.
    pub(crate) fn unbind(&self, port: u16) {
        self.with(|state, _| {
            if state.ports.get(&port).is_some_and(Receiver::is_closed) {
                state.ports.remove(&port);
                state.ends.withdraw(Carries::Datagrams, port);
            }
        });
    }

    /// Who is connected.
    pub(crate) fn status(&self) -> Vec<ConnectionStatus> {
        self.lock().ends.connections().collect()
    }

    /// Speaks for the owner of an AdCert, too.
    pub(super) fn serve(&self, ad_cert: &AdCert) {
        if let Err(error) = self.lock().ends.serve(ad_cert) {
            tracing::warn!(%error, "connections in the name served are not taken");
        }
    }

    /// The node ends: whoever waits is told.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        state.listeners.clear();
        state.ports.clear();
        state.connecting.clear();
        let opening = std::mem::take(&mut state.opening);
        let sending = std::mem::take(&mut state.sending);
        opening.into_values().chain(sending.into_values()).flatten().for_each(Waker::wake);
        state.streams.values_mut().flat_map(Waiting::take_all).for_each(Waker::wake);
    }
}

impl State {
    /// Has somebody woken when a connection has room for datagrams.
    fn await_room(&mut self, id: ConnectionId, waker: &Waker) {
        let waiting = self.sending.entry(id).or_default();
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    /// Begins a connection, or takes one, as `by` does; says when it is there. Whoever calls this
    /// lets it go in the end.
    pub(crate) fn connect(
        &mut self,
        local: Name,
        peer: Name,
        by: fn(&mut Ends, Name, Name, Now) -> Result<ConnectionId, EndError>,
        now: Now,
    ) -> Result<(ConnectionId, oneshot::Receiver<Result<(), EndError>>), EndError> {
        if self.is_over {
            return Err(EndError::Closed);
        }
        let id = by(&mut self.ends, local, peer, now)?;
        self.ends.keep(id);
        let (done, connected) = oneshot::channel();
        if self.ends.is_open(id) {
            let _ = done.send(Ok(()));
        } else {
            self.connecting.entry(id).or_default().push(done);
        }
        Ok((id, connected))
    }

    /// These were removed from domains; that is all for now, or not.
    pub(super) fn note_removals(
        &mut self,
        removals: Vec<Verified<Removal>>,
        are_all: bool,
        now: Now,
    ) {
        self.ends.note_removals(removals, now);
        if are_all {
            self.ends.told_removals();
        }
    }

    /// Takes what the core received for connections. The one that it is of pays for the time since
    /// `since`; returns when that ends.
    pub(super) fn handle(
        &mut self,
        arrival: &Arrival<'_>,
        standing: Standing,
        since: Instant,
        now: Now,
    ) -> Instant {
        let payload = (PayloadHeader { kind: arrival.kind, port: arrival.port }, arrival.body);
        // What is dropped is counted there.
        let handled = self.ends.handle(arrival.from, arrival.to, payload, standing, now);
        self.charge(handled.ok().flatten(), since)
    }

    /// As [`State::handle`], of records between two names that came one behind the other.
    pub(super) fn handle_records<'a>(
        &mut self,
        (from, to): (Name, Name),
        bodies: impl IntoIterator<Item = &'a [u8]>,
        since: Instant,
        now: Now,
    ) -> Instant {
        let of = self.ends.handle_records(from, to, bodies, now);
        self.charge(of, since)
    }

    fn charge(&mut self, id: Option<ConnectionId>, since: Instant) -> Instant {
        let until = Instant::now();
        if let Some(id) = id {
            self.ends.charge(id, until - since);
        }
        until
    }

    /// Does what is due, and finds whoever waits for what happened: [`Turned::wake`] is to be
    /// called without the lock.
    pub(super) fn turn(&mut self, now: Now) -> Turned {
        self.ends.handle_timeout(now);
        let mut turned = Turned::default();
        while let Some(event) = self.ends.poll_event() {
            match event {
                Event::Connected { id, .. } => self.tell_connected(id, &Ok(())),
                Event::Ended { id, error, .. } => {
                    self.tell_connected(id, &Err(error));
                    self.wake_of(id);
                }
                Event::Opened { id, stream, port } => self.hand_over(id, stream, port, now),
                Event::Readable { id, stream } => {
                    let waiting = self.streams.get_mut(&(id, stream));
                    self.woken.extend(waiting.and_then(|it| it.reader.take()));
                }
                Event::Writable { id, stream } => {
                    let waiting = self.streams.get_mut(&(id, stream));
                    self.woken.extend(waiting.and_then(|it| it.writer.take()));
                }
                Event::Finished { id, stream } if self.ends.holds(id, stream) => {
                    let waiting = self.streams.entry((id, stream)).or_default();
                    waiting.is_finished = true;
                    self.woken.extend(waiting.finisher.take());
                }
                Event::MayOpen { id } => {
                    self.woken.extend(self.opening.remove(&id).into_iter().flatten());
                }
                Event::MaySend { id } => {
                    self.woken.extend(self.sending.remove(&id).into_iter().flatten());
                }
                Event::Datagram { id, ports, body, as_member } => {
                    // Nobody else has the packet's buffer by now: it goes on as it is.
                    let body = body.into();
                    let alarms = &mut turned.alarms;
                    let is_delivered = self.deliver(id, ports, body, as_member, alarms);
                    turned.datagrams_dropped += u64::from(!is_delivered);
                }
                Event::Packets { id, packets, as_member } => {
                    let (len, alarms) = (packets.len(), &mut turned.alarms);
                    if !self.deliver_packets(id, packets, as_member, alarms) {
                        turned.datagrams_dropped += len as u64;
                    }
                }
                Event::Refused { peer, local, port } => {
                    let wanted = Wanted::Connection { port };
                    turned.refusals.push(Refusal { from: peer, to: local, wanted });
                }
                _ => {}
            }
        }
        turned.woken.append(&mut self.woken);
        turned
    }

    /// Appends what connections have to send, a bounded number of payloads; says whether there may
    /// be more. Nothing is lost meanwhile while no router is joined: it waits.
    pub(super) fn transmit(&mut self, core: &mut Core, out: &mut Batch, now: Now) -> bool {
        if !core.is_joined() {
            return false;
        }
        let mut body = std::mem::take(&mut self.body);
        let mut sent = 0;
        while sent < PAYLOADS_PER_TURN {
            let longest = |to: &Name| core.max_body_len(*to, now);
            let most = PAYLOADS_PER_TURN - sent;
            let train = self.ends.poll_train(longest, most, &mut body, now);
            let Some(Transmit { from, to, header, is_handshake, each }) = train else { break };
            for body in body.chunks(each.max(1)) {
                let parts = [&header.emit()[..], body];
                // What finds no room is lost like any datagram: QUIC will notice.
                let _ = match is_handshake {
                    true => core.send_handshake(from, to, &parts.concat(), now).map(drop),
                    false => core.send_unkept_as(from, to, parts, out, now),
                };
                sent += 1;
            }
        }
        self.body = body;
        sent == PAYLOADS_PER_TURN
    }

    /// Hands a datagram to its port; says whether that took it.
    fn deliver(
        &mut self,
        id: ConnectionId,
        ports: Ports,
        body: Vec<u8>,
        as_member: bool,
        alarms: &mut Alarms,
    ) -> bool {
        let Some((to, from)) = self.ends.names(id) else { return false };
        let deliver = match self.ports.get(&ports.to) {
            Some(Receiver::OneByOne(deliver)) => deliver,
            // The peer's end has no records.
            Some(Receiver::InBlocks(_)) => {
                let mut packets = Packets::default();
                packets.push(&[&body]);
                return self.deliver_packets(id, packets, as_member, alarms);
            }
            None => return false,
        };
        let from_port = Some(ports.from).filter(|port| *port != 0);
        deliver.ring(&mut alarms.one_by_one);
        deliver.put(Message { from, as_member, from_port, to, body })
    }

    /// Hands packets to who receives them; says whether he took them.
    fn deliver_packets(
        &mut self,
        id: ConnectionId,
        packets: Packets,
        as_member: bool,
        alarms: &mut Alarms,
    ) -> bool {
        let Some((to, from)) = self.ends.names(id) else { return false };
        match self.ports.get(&PACKETS) {
            Some(Receiver::InBlocks(deliver)) => {
                if deliver.ring(&mut alarms.in_blocks) {
                    self.ends.lend(deliver.take_paper().into_iter().map(|it| it.packets));
                }
                deliver.put(Block { from, as_member, packets })
            }
            Some(Receiver::OneByOne(deliver)) => {
                deliver.ring(&mut alarms.one_by_one);
                packets.iter().fold(true, |are_taken, body| {
                    let (body, from_port) = (body.to_vec(), None);
                    deliver.put(Message { from, as_member, from_port, to, body }) && are_taken
                })
            }
            None => false,
        }
    }

    fn tell_connected(&mut self, id: ConnectionId, outcome: &Result<(), EndError>) {
        for done in self.connecting.remove(&id).into_iter().flatten() {
            let _ = done.send(outcome.clone());
        }
    }

    fn hand_over(&mut self, id: ConnectionId, stream: StreamId, port: u16, now: Now) {
        let Some((local, peer)) = self.ends.names(id) else { return };
        let listener = self.listeners.get(&port);
        let code = match listener.map(mpsc::Sender::try_reserve) {
            Some(Ok(place)) => {
                place.send(Arrived { id, stream, local, peer, port });
                return;
            }
            Some(Err(mpsc::error::TrySendError::Full(()))) => BUSY,
            _ => PORT_CLOSED,
        };
        self.ends.reset(id, stream, code, now);
        self.ends.stop(id, stream, code, now);
        self.ends.release(id, stream, now);
    }

    fn wake_of(&mut self, id: ConnectionId) {
        for waiting in [&mut self.opening, &mut self.sending] {
            self.woken.extend(waiting.remove(&id).into_iter().flatten());
        }
        for (_, waiting) in self.streams.iter_mut().filter(|((of, _), _)| *of == id) {
            self.woken.extend(waiting.take_all());
        }
    }
}

impl Receiver {
    fn is_closed(&self) -> bool {
        match self {
            Self::OneByOne(deliver) => deliver.is_closed(),
            Self::InBlocks(deliver) => deliver.is_closed(),
        }
    }
}

impl Waiting {
    fn take_all(&mut self) -> impl Iterator<Item = Waker> {
        let all = [&mut self.reader, &mut self.writer, &mut self.finisher];
        all.map(Option::take).into_iter().flatten()
    }
}

/// Ports that are given to who wants any: those of RFC 6335, section 6.
const EPHEMERAL_PORTS: RangeInclusive<u16> = 49152..=65535;
/// Streams that may wait at a port for their program.
const WAITING_STREAMS: usize = 256;
/// Datagrams that may wait at a port: what two batches of the socket bring at most, 3 MB.
const WAITING_DATAGRAMS: usize = 2048;
/// Between two looks at the socket: two full runs of segments, as for transfers.
const PAYLOADS_PER_TURN: usize = 90;

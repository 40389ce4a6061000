//! Streams and datagrams. Each begins with the number of the port that it is for, two bytes; a
//! datagram says, in two more, from which one it comes.

use bytes::{Bytes, BytesMut};
use quinn_proto::{Dir, FinishError, ReadError, ReadableError, SendDatagramError, VarInt};
use rhumb_trust::{Now, Standing};
use rhumb_wire::Name;

use super::{ConnectionId, Ends, Event};
use crate::connection::{Connection, Head, Phase, StreamId};
use crate::offers::Verdict;
use crate::{
    CANCELLED, Carries, DatagramError, DropReason, EndError, NOT_ALLOWED, PORT_CLOSED, StreamError,
};

/// Which way a stream goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Both.
    Both,
    /// From who opened it.
    Out,
}

/// Nothing can be done now; an event tells when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked;

/// Why nothing was written or read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteError {
    /// Not now: [`Event::Writable`] or [`Event::Readable`] tells when.
    Blocked,
    /// Not any more.
    Over(StreamError),
}

/// Between which ports a datagram goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// Its sender's, where an answer would reach him; 0 says that he takes none.
    pub from: u16,
    /// Its receiver's.
    pub to: u16,
}

impl Ports {
    const LEN: usize = 4;

    fn emit(self) -> [u8; Self::LEN] {
        let ([a, b], [c, d]) = (self.to.to_be_bytes(), self.from.to_be_bytes());
        [a, b, c, d]
    }

    fn parse(datagram: &[u8]) -> Option<Self> {
        let &[a, b, c, d] = datagram.first_chunk()?;
        Some(Self { to: u16::from_be_bytes([a, b]), from: u16::from_be_bytes([c, d]) })
    }
}

impl Ends {
    /// Opens a stream to a port. Whether there is such a port shows when it is used. Its holder is
    /// to [`Ends::release`] it.
    ///
    /// # Errors
    /// [`Blocked`] while the peer lets this end open no more: [`Event::MayOpen`] follows; or the
    /// connection is over, or is not made yet.
    pub fn open(
        &mut self,
        id: ConnectionId,
        way: Way,
        port: u16,
        now: Now,
    ) -> Result<Result<StreamId, Blocked>, EndError> {
        let connection = self.open_connection(id)?;
        let dir = match way {
            Way::Both => Dir::Bi,
            Way::Out => Dir::Uni,
        };
        let Some(stream) = connection.quic.streams().open(dir) else { return Ok(Err(Blocked)) };
        connection.held.insert(stream);
        connection.used_at = now.instant;
        let head = Head { port: port.to_be_bytes(), written: 0, finishes: false };
        connection.heads.insert(stream, head);
        connection.write_head(stream);
        self.settle(id, now);
        Ok(Ok(stream))
    }

    /// Writes to a stream; returns how many bytes were taken, at least one of some.
    ///
    /// # Errors
    /// When there is no room now, or the stream is over.
    pub fn write(
        &mut self,
        id: ConnectionId,
        stream: StreamId,
        bytes: &[u8],
        now: Now,
    ) -> Result<usize, WriteError> {
        use quinn_proto::WriteError as QuicError;
        let connection = self.held(id, stream, Connection::writes).map_err(WriteError::Over)?;
        if !connection.write_head(stream) {
            return Err(WriteError::Blocked);
        }
        connection.used_at = now.instant;
        match connection.quic.send_stream(stream).write(bytes) {
            Ok(written) => {
                self.settle(id, now);
                Ok(written)
            }
            Err(QuicError::Blocked) => match &connection.phase {
                Phase::Over(error) => Err(WriteError::Over(StreamError::Connection(error.clone()))),
                _ => Err(WriteError::Blocked),
            },
            Err(QuicError::Stopped(code)) => {
                Err(WriteError::Over(StreamError::Ended { code: code.into_inner() }))
            }
            Err(QuicError::ClosedStream) => Err(WriteError::Over(StreamError::Closed)),
        }
    }

    /// Reads what has arrived, `most` bytes at most; `None` at the end of the stream.
    ///
    /// # Errors
    /// When there is nothing now, or the stream is over.
    pub fn read(
        &mut self,
        id: ConnectionId,
        stream: StreamId,
        most: usize,
        now: Now,
    ) -> Result<Option<Bytes>, WriteError> {
        let connection = self.held(id, stream, Connection::reads).map_err(WriteError::Over)?;
        connection.used_at = now.instant;
        let mut receiving = connection.quic.recv_stream(stream);
        let closed = WriteError::Over(StreamError::Closed);
        let mut chunks = match receiving.read(true) {
            Ok(chunks) => chunks,
            Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => {
                return Err(closed);
            }
        };
        let chunk = chunks.next(most);
        let must_tell = chunks.finalize().should_transmit();
        let over = match &connection.phase {
            Phase::Over(error) => Some(error.clone()),
            _ => None,
        };
        if must_tell {
            self.settle(id, now);
        }
        match (chunk, over) {
            (Ok(chunk), _) => Ok(chunk.map(|it| it.bytes)),
            (Err(ReadError::Reset(code)), _) => {
                Err(WriteError::Over(StreamError::Ended { code: code.into_inner() }))
            }
            (Err(ReadError::Blocked), None) => Err(WriteError::Blocked),
            (Err(ReadError::Blocked), Some(error)) => {
                Err(WriteError::Over(StreamError::Connection(error)))
            }
        }
    }

    /// Says that nothing more will be written; what was written still arrives, and
    /// [`Event::Finished`] tells when it has.
    ///
    /// # Errors
    /// When the stream is over.
    pub fn finish(
        &mut self,
        id: ConnectionId,
        stream: StreamId,
        now: Now,
    ) -> Result<(), StreamError> {
        let connection = self.held(id, stream, Connection::writes)?;
        if !connection.write_head(stream) {
            if let Some(head) = connection.heads.get_mut(&stream) {
                head.finishes = true;
            }
            return Ok(());
        }
        let finished = connection.quic.send_stream(stream).finish();
        self.settle(id, now);
        finished.map_err(|error| match error {
            FinishError::Stopped(code) => StreamError::Ended { code: code.into_inner() },
            FinishError::ClosedStream => StreamError::Closed,
        })
    }

    /// Gives up what was written and not yet sent, and says why.
    pub fn reset(&mut self, id: ConnectionId, stream: StreamId, code: u64, now: Now) {
        if let Ok(connection) = self.held(id, stream, Connection::writes) {
            connection.heads.remove(&stream);
            let _ = connection.quic.send_stream(stream).reset(code_of(code));
            self.settle(id, now);
        }
    }

    /// Wants nothing more of what the peer writes, and says why.
    pub fn stop(&mut self, id: ConnectionId, stream: StreamId, code: u64, now: Now) {
        if let Ok(connection) = self.held(id, stream, Connection::reads) {
            let _ = connection.quic.recv_stream(stream).stop(code_of(code));
            self.settle(id, now);
        }
    }

    /// Streams of a higher priority are served first; 0 is what all have.
    pub fn set_priority(&mut self, id: ConnectionId, stream: StreamId, priority: i32) {
        if let Ok(connection) = self.held(id, stream, Connection::writes) {
            let _ = connection.quic.send_stream(stream).set_priority(priority);
        }
    }

    /// The program has no more use for a stream: what is not finished is reset, what may still come
    /// is stopped.
    pub fn release(&mut self, id: ConnectionId, stream: StreamId, now: Now) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !connection.held.contains(&stream) {
            return;
        }
        let is_finishing = connection.heads.get(&stream).is_some_and(|head| head.finishes);
        if connection.writes(stream) && !is_finishing {
            connection.heads.remove(&stream);
            let mut sending = connection.quic.send_stream(stream);
            // Nothing happens to one that was finished.
            if !matches!(sending.finish(), Err(FinishError::ClosedStream)) {
                let _ = sending.reset(code_of(CANCELLED));
            }
        }
        if connection.reads(stream) {
            let _ = connection.quic.recv_stream(stream).stop(code_of(CANCELLED));
        }
        connection.held.remove(&stream);
        connection.used_at = now.instant;
        self.settle(id, now);
    }

    /// Sends a datagram, which may get lost, from a port of ours for one of the peer's.
    ///
    /// # Errors
    /// When it is too long, too many wait, or the connection is not there.
    pub fn send_datagram(
        &mut self,
        id: ConnectionId,
        ports: Ports,
        body: &[u8],
        now: Now,
    ) -> Result<(), DatagramError> {
        let connection = self.open_connection(id)?;
        connection.used_at = now.instant;
        let mut whole = Vec::with_capacity(Ports::LEN + body.len());
        whole.extend_from_slice(&ports.emit());
        whole.extend_from_slice(body);
        let mut datagrams = connection.quic.datagrams();
        let max = datagrams.max_size().unwrap_or_default().saturating_sub(Ports::LEN);
        let sent = datagrams.send(whole.into(), false);
        self.settle(id, now);
        sent.map_err(|error| match error {
            SendDatagramError::TooLarge => DatagramError::TooBig { len: body.len(), max },
            SendDatagramError::Blocked(_) => DatagramError::NoRoom,
            SendDatagramError::UnsupportedByPeer | SendDatagramError::Disabled => {
                DatagramError::NotTaken
            }
        })
    }

    /// As [`Ends::send_datagram`], for several at once; says how many were taken. The first that
    /// finds no room, and all behind it, were not: [`Event::MaySend`] tells when there is room
    /// again. One that has become too long meanwhile is lost, as any may be.
    ///
    /// # Errors
    /// When the connection is not there, or takes none.
    pub fn send_datagrams<'a>(
        &mut self,
        id: ConnectionId,
        ports: Ports,
        bodies: impl Iterator<Item = &'a [u8]>,
        now: Now,
    ) -> Result<usize, DatagramError> {
        let connection = self.open_connection(id)?;
        connection.used_at = now.instant;
        let mut datagrams = connection.quic.datagrams();
        let (mut taken, mut bodies) = (0, bodies.peekable());
        let outcome = loop {
            // As many as there is room for, some ten, share one buffer, which has their length.
            let room = datagrams.send_buffer_space().min(BLOCK_LEN);
            let (mut block, mut len) = (Vec::new(), 0);
            while let Some(body) = bodies.next_if(|it| len == 0 || len + it.len() <= room) {
                len += Ports::LEN + body.len();
                block.push(body);
            }
            let mut buffer = BytesMut::with_capacity(len);
            let outcome = block.into_iter().try_for_each(|body| {
                buffer.extend_from_slice(&ports.emit());
                buffer.extend_from_slice(body);
                match datagrams.send(buffer.split().freeze(), false) {
                    Ok(()) | Err(SendDatagramError::TooLarge) => taken += 1,
                    Err(error) => return Err(error),
                }
                Ok(())
            });
            match outcome {
                Ok(()) if bodies.peek().is_some() => {}
                Ok(()) | Err(SendDatagramError::Blocked(_)) => break Ok(taken),
                Err(_) => break Err(DatagramError::NotTaken),
            }
        };
        self.settle(id, now);
        outcome
    }

    /// The longest body of a datagram that fits now.
    pub fn max_datagram_body(&mut self, id: ConnectionId) -> Option<usize> {
        let connection = self.open_connection(id).ok()?;
        Some(connection.quic.datagrams().max_size()?.saturating_sub(Ports::LEN))
    }

    /// Streams that the peer opened: their ports come first.
    pub(super) fn take_streams(&mut self, id: ConnectionId, dir: Dir, now: Now) {
        loop {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            // Before its name is proven nobody opens anything.
            if !matches!(connection.phase, Phase::Open { .. }) {
                return;
            }
            let Some(stream) = connection.quic.streams().accept(dir) else { return };
            connection.unclaimed.insert(stream, None);
            self.readable(id, stream, now);
        }
    }

    /// Something arrived on a stream: the rest of its port, or what a program waits for.
    pub(super) fn readable(&mut self, id: ConnectionId, stream: StreamId, now: Now) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !connection.unclaimed.contains_key(&stream) {
            self.events.push_back(Event::Readable { id, stream });
            return;
        }
        let Some(claim) = connection.read_port(stream) else { return };
        connection.unclaimed.remove(&stream);
        connection.used_at = now.instant;
        let (peer, local) = (connection.peer, connection.local);
        let verdict = claim.map(|port| (port, self.verdict((Carries::Streams, port), id, now)));
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let refusal = match verdict {
            // It ended before it said what it was for.
            Err(()) => return connection.turn_away(stream, PORT_CLOSED),
            Ok((port, Verdict::Chosen { .. } | Verdict::Open)) => {
                connection.held.insert(stream);
                self.events.push_back(Event::Opened { id, stream, port });
                self.events.push_back(Event::Readable { id, stream });
                return;
            }
            Ok((_, Verdict::Closed)) => PORT_CLOSED,
            Ok((_, Verdict::NotAllowed)) => NOT_ALLOWED,
        };
        connection.turn_away(stream, refusal);
        let port = claim.ok();
        self.events.push_back(Event::Refused { peer, local, port });
    }

    /// A stream of ours has room, or the peer wants no more of it.
    pub(super) fn writable(&mut self, id: ConnectionId, stream: StreamId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let finishes = connection.heads.get(&stream).is_some_and(|head| head.finishes);
        if connection.write_head(stream) && finishes {
            let _ = connection.quic.send_stream(stream).finish();
        }
        self.events.push_back(Event::Writable { id, stream });
    }

    pub(super) fn take_datagrams(&mut self, id: ConnectionId, now: Now) {
        loop {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            if !matches!(connection.phase, Phase::Open { .. }) {
                return;
            }
            let Some(mut whole) = connection.quic.datagrams().recv() else { return };
            connection.used_at = now.instant;
            let Some(ports) = Ports::parse(&whole) else {
                self.drops.count(DropReason::Malformed);
                continue;
            };
            let body = whole.split_off(Ports::LEN);
            let as_member = match self.verdict((Carries::Datagrams, ports.to), id, now) {
                Verdict::Chosen { as_member } => as_member,
                Verdict::Open => false,
                Verdict::Closed | Verdict::NotAllowed => {
                    self.drops.count(DropReason::DatagramNotOffered);
                    continue;
                }
            };
            self.events.push_back(Event::Datagram { id, ports, body, as_member });
        }
    }

    /// Whether the peer of a connection may use a port.
    pub(super) fn verdict(&self, port: (Carries, u16), id: ConnectionId, now: Now) -> Verdict {
        let Some(connection) = self.connections.get(&id) else { return Verdict::Closed };
        let (local, by) = (&connection.local, self.by(now));
        let proof = connection.verifier.proof();
        let is_member =
            |domain: &Name| proof.is_some_and(|proof| proof.is_member(local, domain, by));
        match self.offers.verdict(port, &connection.peer, is_member) {
            // It is refused, and connected because this end asked for it.
            Verdict::Open if connection.standing == Standing::Refused => Verdict::NotAllowed,
            verdict => verdict,
        }
    }

    /// Whether a program has a stream.
    pub fn holds(&self, id: ConnectionId, stream: StreamId) -> bool {
        self.connections.get(&id).is_some_and(|it| it.held.contains(&stream))
    }

    /// The two names of a connection, this end's first.
    pub fn names(&self, id: ConnectionId) -> Option<(Name, Name)> {
        self.connections.get(&id).map(|it| (it.local, it.peer))
    }

    pub(super) fn open_connection(
        &mut self,
        id: ConnectionId,
    ) -> Result<&mut Connection, EndError> {
        let connection = self.connections.get_mut(&id).ok_or(EndError::Closed)?;
        match &connection.phase {
            Phase::Open { .. } => Ok(connection),
            Phase::Beginning { .. } => Err(EndError::NoAnswer(connection.peer)),
            Phase::Over(error) => Err(error.clone()),
        }
    }

    /// The connection of a stream that a program has, if it may use it so.
    fn held(
        &mut self,
        id: ConnectionId,
        stream: StreamId,
        may: impl Fn(&Connection, StreamId) -> bool,
    ) -> Result<&mut Connection, StreamError> {
        let connection = self.connections.get_mut(&id).ok_or(StreamError::Closed)?;
        let may = connection.held.contains(&stream) && may(connection, stream);
        may.then_some(connection).ok_or(StreamError::Closed)
    }
}

impl Connection {
    /// Writes what is missing of a stream's port; says whether nothing is.
    fn write_head(&mut self, stream: StreamId) -> bool {
        let Some(head) = self.heads.get_mut(&stream) else { return true };
        match self.quic.send_stream(stream).write(&head.port[head.written..]) {
            Ok(written) => head.written += written,
            Err(quinn_proto::WriteError::Blocked) => return false,
            // Whoever writes next learns why.
            Err(_) => head.written = PORT_LEN,
        }
        let is_whole = head.written >= PORT_LEN;
        if is_whole {
            self.heads.remove(&stream);
        }
        is_whole
    }

    /// Reads the port at the head of a stream; `None` while some of it is missing, `Err` when there
    /// will be none.
    fn read_port(&mut self, stream: StreamId) -> Option<Result<u16, ()>> {
        let known = self.unclaimed.get_mut(&stream)?;
        let mut receiving = self.quic.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else { return Some(Err(())) };
        let outcome = loop {
            match (chunks.next(1), *known) {
                (Ok(Some(chunk)), first) => match (chunk.bytes.first(), first) {
                    (Some(byte), None) => *known = Some(*byte),
                    (Some(byte), Some(first)) => {
                        break Some(Ok(u16::from_be_bytes([first, *byte])));
                    }
                    (None, _) => {}
                },
                (Err(ReadError::Blocked), _) => break None,
                (Ok(None) | Err(ReadError::Reset(_)), _) => break Some(Err(())),
            }
        };
        let _ = chunks.finalize();
        outcome
    }

    /// Ends a stream that no program has.
    fn turn_away(&mut self, stream: StreamId, code: u64) {
        let _ = self.quic.recv_stream(stream).stop(code_of(code));
        if stream.dir() == Dir::Bi {
            let _ = self.quic.send_stream(stream).reset(code_of(code));
        }
    }
}

fn code_of(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

/// Bytes of a port.
const PORT_LEN: usize = 2;
/// Bytes of datagrams that share a buffer, which lasts until the last of them has left.
const BLOCK_LEN: usize = 32 << 10;

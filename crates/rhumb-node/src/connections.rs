//! The handles of connections: streams between two names, which nobody on the way reads or alters.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rhumb_end::{
    Admits, ConnectionId, ConnectionStatus, EndError, Ends, StreamError, StreamId, Way, WriteError,
};
use rhumb_trust::Now;
use rhumb_wire::Name;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

use crate::driver::{Arrived, WaitsFor};
use crate::node::Handle;
use crate::{Node, NodeError, Service};

/// A connection to another name. There is one to each, which all that is opened to that name
/// shares; it ends by itself when nobody has used it for two minutes.
#[derive(Debug, Clone)]
pub struct Connection(Arc<Kept>);

/// What all copies of a handle share: how the connection ended is known while there is one.
#[derive(Debug)]
struct Kept {
    handle: Handle,
    id: ConnectionId,
    peer: Name,
}

/// A stream of a connection: bytes in order, in both directions unless it was opened one way.
/// What was written arrives even if this is dropped after [`tokio::io::AsyncWrite::poll_shutdown`];
/// dropped before, it is given up. Errors hold a [`StreamError`]: [`stream_error`] finds it.
pub struct Stream {
    handle: Handle,
    id: ConnectionId,
    stream: StreamId,
    local: Name,
    peer: Name,
    port: u16,
    /// How reading ended: QUIC says it once.
    end: Option<Result<(), StreamError>>,
}

/// A port of this node to which others open streams, until this is dropped.
#[derive(Debug)]
pub struct Listener {
    handle: Handle,
    port: u16,
    arrivals: mpsc::Receiver<Arrived>,
}

impl Node {
    /// Connects to `peer`: encrypted from this end to that one, both names proven. Takes the
    /// connection that there is, if there is one.
    ///
    /// # Errors
    /// When nobody answers within ten seconds, when the network says for as long as
    /// `Config::give_up_after` that there is no way, when `peer` takes no connections from here, or
    /// somebody else answers.
    pub async fn connect(&self, peer: Name) -> Result<Connection, EndError> {
        self.handle.connect(self.handle.name(), peer).await
    }

    /// The connection to `peer` that there is, whichever end began it.
    pub fn connected(&self, peer: Name) -> Option<Connection> {
        let local = self.handle.name();
        let id = self.handle.connections().with(|state, _| {
            let id = state.ends.open_between(local, peer)?;
            state.ends.keep(id);
            Some(id)
        })?;
        Some(Connection(Arc::new(Kept { handle: self.handle.clone(), id, peer })))
    }

    /// Opens a stream to a port of `peer`, by a connection that is made if there is none. Whether
    /// the port is served shows when something is read.
    ///
    /// # Errors
    /// As [`Node::connect`].
    pub async fn open(&self, peer: Name, port: u16) -> Result<Stream, EndError> {
        self.connect(peer).await?.open(port).await
    }

    /// Takes streams that `admits` open to a port of this node, and of the names that it serves.
    /// Ports of streams are not those of datagrams.
    ///
    /// # Errors
    /// When the port has a listener.
    pub fn listen(&self, port: u16, admits: Admits) -> Result<Listener, NodeError> {
        Listener::open(&self.handle, port, admits)
    }

    /// The connections that there are.
    pub fn connections(&self) -> Vec<ConnectionStatus> {
        self.handle.connections().status()
    }
}

impl Service {
    /// As [`Node::connect`], in the name served.
    ///
    /// # Errors
    /// As there.
    pub async fn connect(&self, peer: Name) -> Result<Connection, EndError> {
        self.handle().connect(self.name(), peer).await
    }
}

impl Handle {
    pub(crate) async fn connect(&self, local: Name, peer: Name) -> Result<Connection, EndError> {
        self.connect_by(local, peer, Ends::connect).await
    }

    /// As [`Handle::connect`], by a connection that nobody has used before: the one that there is
    /// may lead to a server that is no more.
    pub(crate) async fn connect_anew(
        &self,
        local: Name,
        peer: Name,
    ) -> Result<Connection, EndError> {
        self.connect_by(local, peer, Ends::connect_anew).await
    }

    async fn connect_by(
        &self,
        local: Name,
        peer: Name,
        by: fn(&mut Ends, Name, Name, Now) -> Result<ConnectionId, EndError>,
    ) -> Result<Connection, EndError> {
        let begun = self.connections().with(|state, now| state.connect(local, peer, by, now));
        let (id, connected) = begun?;
        let connection = Connection(Arc::new(Kept { handle: self.clone(), id, peer }));
        connected.await.unwrap_or(Err(EndError::Closed))?;
        Ok(connection)
    }
}

impl Connection {
    pub(crate) fn handle(&self) -> &Handle {
        &self.0.handle
    }

    pub(crate) fn id(&self) -> ConnectionId {
        self.0.id
    }

    /// Who is at the other end.
    pub fn peer(&self) -> Name {
        self.0.peer
    }

    /// Waits for as long as the peer needs to say that it takes no connection of this name after
    /// all: rules about members of a domain are asked once both names are proven, when this end is
    /// connected already.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn settle(&self) -> Result<(), EndError> {
        let connections = self.0.handle.connections();
        let mut all = connections.status().into_iter();
        let round_trip = all.find(|it| it.peer == self.0.peer).map(|it| it.round_trip);
        tokio::time::sleep(round_trip.unwrap_or_default() * 2 + REFUSES_WITHIN).await;
        connections.with(|state, _| state.ends.end_of(self.0.id)).map_or(Ok(()), Err)
    }

    /// Opens a stream to a port of the peer; waits while it allows no more.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn open(&self, port: u16) -> Result<Stream, EndError> {
        self.open_way(Way::Both, port).await
    }

    /// As [`Connection::open`], a stream that this end alone writes to.
    ///
    /// # Errors
    /// As there.
    pub async fn open_out(&self, port: u16) -> Result<Stream, EndError> {
        self.open_way(Way::Out, port).await
    }

    async fn open_way(&self, way: Way, port: u16) -> Result<Stream, EndError> {
        let Kept { handle, id, peer } = &*self.0;
        let (handle, id, peer) = (handle.clone(), *id, *peer);
        let connections = handle.connections();
        let stream = poll_fn(|context| connections.poll_open(id, way, port, context)).await?;
        let names = connections.with(|state, _| state.ends.names(id));
        let local = names.map_or(handle.name(), |(local, _)| local);
        Ok(Stream { handle, id, stream, local, peer, port, end: None })
    }

    /// Closes the connection, with all its streams, at once.
    pub fn close(&self) {
        let Kept { handle, id, .. } = &*self.0;
        handle.connections().with(|state, now| state.ends.close(*id, DONE, now));
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.handle.connections().with(|state, now| state.ends.let_go(self.id, now));
    }
}

impl Listener {
    pub(crate) fn open(handle: &Handle, port: u16, admits: Admits) -> Result<Self, NodeError> {
        let arrivals = handle.connections().listen(port, admits);
        let arrivals = arrivals.ok_or(NodeError::PortInUse { port })?;
        Ok(Self { handle: handle.clone(), port, arrivals })
    }

    /// The next stream that was opened; `None` when the node has left.
    pub async fn accept(&mut self) -> Option<Stream> {
        let Arrived { id, stream, local, peer, port } = self.arrivals.recv().await?;
        Some(Stream { handle: self.handle.clone(), id, stream, local, peer, port, end: None })
    }

    /// The port's number.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.arrivals.close();
        while let Ok(arrived) = self.arrivals.try_recv() {
            self.handle.connections().release(arrived.id, arrived.stream);
        }
        self.handle.connections().unlisten(self.port);
    }
}

impl Stream {
    /// Who is at the other end: proven, not merely said by routers.
    pub fn peer(&self) -> Name {
        self.peer
    }

    /// This end's name: the node's own, or one that it serves.
    pub fn local(&self) -> Name {
        self.local
    }

    /// Whether the peer is a stranger, whom neither a rule nor this end chose.
    pub(crate) fn is_strangers(&self) -> bool {
        self.handle.connections().with(|state, _| state.ends.is_strangers(self.id))
    }

    /// The port that it was opened to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Streams of a higher priority are served first; 0 is what all have.
    pub fn set_priority(&self, priority: i32) {
        let connections = self.handle.connections();
        connections.with(|state, _| state.ends.set_priority(self.id, self.stream, priority));
    }

    /// Gives up what was written and not yet sent, and wants no more of what the peer writes; it is
    /// told `code`.
    pub fn reset(&self, code: u64) {
        self.handle.connections().with(|state, now| {
            state.ends.reset(self.id, self.stream, code, now);
            state.ends.stop(self.id, self.stream, code, now);
        });
    }

    /// Finishes what is written, and waits until the peer has it all.
    ///
    /// # Errors
    /// When the stream or its connection is over before.
    pub async fn deliver(&mut self) -> Result<(), StreamError> {
        poll_fn(|context| self.poll_deliver(context)).await
    }

    /// As [`Stream::deliver`], for whoever reads meanwhile.
    ///
    /// # Errors
    /// As there.
    pub fn poll_deliver(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        let connections = self.handle.connections();
        match connections.with(|state, now| state.ends.finish(self.id, self.stream, now)) {
            Ok(()) | Err(StreamError::Closed) => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
        connections.poll_finished((self.id, self.stream), context)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let of_this = (self.id, self.stream);
        let mut end = self.end.take();
        if end.is_none() {
            let before = buffer.filled().len();
            let fill = |ends: &mut Ends, now| {
                while buffer.remaining() > 0 {
                    match ends.read(of_this.0, of_this.1, buffer.remaining(), now) {
                        Ok(Some(bytes)) => buffer.put_slice(&bytes),
                        Ok(None) => return Ok(Some(Ok(()))),
                        Err(WriteError::Over(error)) => return Ok(Some(Err(error))),
                        Err(WriteError::Blocked) if buffer.filled().len() > before => break,
                        Err(blocked) => return Err(blocked),
                    }
                }
                Ok(None)
            };
            let connections = self.handle.connections();
            match ready!(connections.poll_stream(of_this, WaitsFor::Reading, context, fill)) {
                Ok(found) => end = found,
                Err(error) => end = Some(Err(error)),
            }
            // What came before the end is read first, and the end is told next.
            if buffer.filled().len() > before {
                self.end = end;
                return Poll::Ready(Ok(()));
            }
        }
        self.end.clone_from(&end);
        Poll::Ready(end.unwrap_or(Ok(())).map_err(io_error))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let (id, stream) = (self.id, self.stream);
        let write = |ends: &mut Ends, now| ends.write(id, stream, bytes, now);
        let connections = self.handle.connections();
        connections.poll_stream((id, stream), WaitsFor::Writing, context, write).map_err(io_error)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (id, stream) = (self.id, self.stream);
        let finish = |ends: &mut Ends, now| match ends.finish(id, stream, now) {
            Ok(()) | Err(StreamError::Closed) => Ok(()),
            Err(error) => Err(WriteError::Over(error)),
        };
        let connections = self.handle.connections();
        connections.poll_stream((id, stream), WaitsFor::Writing, context, finish).map_err(io_error)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.handle.connections().release(self.id, self.stream);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("peer", &self.peer)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// What became of a stream, by an error of reading from it or writing to it.
pub fn stream_error(error: &io::Error) -> Option<&StreamError> {
    error.get_ref()?.downcast_ref()
}

fn io_error(error: StreamError) -> io::Error {
    let kind = match &error {
        StreamError::Ended { .. } => io::ErrorKind::ConnectionReset,
        StreamError::Connection(_) => io::ErrorKind::ConnectionAborted,
        _ => io::ErrorKind::BrokenPipe,
    };
    io::Error::new(kind, error)
}

/// The code of a connection that ends because it is done.
const DONE: u64 = 0;
/// What a peer needs beyond two round trips to look at what was proven.
const REFUSES_WITHIN: Duration = Duration::from_millis(20);

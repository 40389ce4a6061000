//! A TCP connection to a neighbour: a task reads, another writes, and both have bounded queues.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use rhumb_bgp::session::ConnectionId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::Reach;
use super::listener::set_password;

/// What comes from connections, and from attempts to have one.
#[derive(Debug)]
pub(super) enum Input {
    /// An attempt succeeded.
    Connected(TcpStream),
    /// An attempt did not.
    NotConnected(io::Error),
    /// Bytes came.
    Bytes(ConnectionId, Vec<u8>),
    /// The connection is over.
    Closed(ConnectionId),
}

/// A connection. Closed when dropped, after what waits is written or has waited too long.
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    outlet: Outlet,
    reader: AbortHandle,
}

/// Where messages wait to be written.
#[derive(Clone)]
pub(super) struct Outlet(mpsc::Sender<Bytes>);

impl Connection {
    pub(super) fn start(id: ConnectionId, stream: TcpStream, inputs: mpsc::Sender<Input>) -> Self {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "messages may wait for others");
        }
        let (reading, writing) = stream.into_split();
        let (outlet, messages) = mpsc::channel(MESSAGES);
        tokio::spawn(write(writing, messages));
        let reader = tokio::spawn(read(id, reading, inputs)).abort_handle();
        Self { id, outlet: Outlet(outlet), reader }
    }

    /// Queues a message; there is room, or the connection is broken and will be reported closed.
    pub(super) fn send(&self, message: Bytes) {
        let _ = self.outlet.0.try_send(message);
    }

    /// Its outlet, if that takes nothing at the moment.
    pub(super) fn full(&self) -> Option<Outlet> {
        let is_full = self.outlet.0.capacity() == 0 && !self.outlet.0.is_closed();
        is_full.then(|| self.outlet.clone())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Outlet {
    /// Until a message can be queued, or never will.
    pub(super) async fn wait_for_room(self) {
        let _ = self.0.reserve().await;
    }
}

async fn read(id: ConnectionId, mut stream: OwnedReadHalf, inputs: mpsc::Sender<Input>) {
    let mut buffer = vec![0; READ_LEN];
    while let Ok(len @ 1..) = stream.read(&mut buffer).await {
        if inputs.send(Input::Bytes(id, buffer[..len].to_vec())).await.is_err() {
            return;
        }
    }
    let _ = inputs.send(Input::Closed(id)).await;
}

/// Writes what comes, until the other end of the queue is dropped. The
/// session notices a neighbour that takes nothing.
async fn write(mut stream: OwnedWriteHalf, mut messages: mpsc::Receiver<Bytes>) {
    while let Some(message) = messages.recv().await {
        let written = stream.write_all(&message);
        let written = if messages.is_closed() {
            timeout(LAST_WORDS, written).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
        } else {
            written.await
        };
        if written.is_err() {
            return;
        }
    }
    let _ = timeout(LAST_WORDS, stream.shutdown()).await;
}

/// Tries to connect, and says what came of it.
pub(super) async fn connect(reach: Reach, inputs: mpsc::Sender<Input>) {
    let outcome = match timeout(CONNECT_DEADLINE, try_connect(&reach)).await {
        Ok(Ok(stream)) => Input::Connected(stream),
        Ok(Err(error)) => Input::NotConnected(error),
        Err(_) => Input::NotConnected(io::ErrorKind::TimedOut.into()),
    };
    let _ = inputs.send(outcome).await;
}

async fn try_connect(reach: &Reach) -> io::Result<TcpStream> {
    let socket = if reach.address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(local) = reach.local {
        socket.bind((local, 0).into())?;
    }
    if let Some(password) = &reach.password {
        set_password(&socket, reach.address.ip(), password)?;
    }
    socket.connect(reach.address).await
}

/// Some messages of usual length.
const READ_LEN: usize = 1 << 16;
/// Messages of up to 4 kB, or 64 kB where both ends have them, that wait for the kernel.
const MESSAGES: usize = 16;
/// For a NOTIFICATION to a neighbour that takes nothing.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// On one network an answer takes milliseconds; it has three tries of TCP.
const CONNECT_DEADLINE: Duration = Duration::from_secs(8);

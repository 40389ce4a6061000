//! The sockets of a key server: each address by UDP and by TCP (RFC 7766).
//!
//! A TCP connection carries one message after the other. Their number is bounded, in all and per
//! source, and so is the time for each message; a source that has its share waits at the door
//! without costing others anything.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use rhumb_daemon::clock;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_keyserver::server::{Held, Outcome as Handled, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::Shared;

/// One address, bound.
pub(super) struct Sockets {
    pub(super) address: SocketAddr,
    datagrams: std::net::UdpSocket,
    streams: std::net::TcpListener,
}

/// Binds each address for UDP and TCP; where the port is 0, both have the same one.
pub(super) fn bind(addresses: &[SocketAddr]) -> Outcome<Vec<Sockets>> {
    addresses.iter().map(|address| bind_one(*address)).collect()
}

fn bind_one(wanted: SocketAddr) -> Outcome<Sockets> {
    let mut tries = if wanted.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        tries -= 1;
        match try_bind(wanted) {
            Ok(sockets) => return Ok(sockets),
            Err(error) if tries > 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => {
                let advice = match error.kind() {
                    io::ErrorKind::PermissionDenied => {
                        "; ports below 1024 need CAP_NET_BIND_SERVICE, or give --listen"
                    }
                    io::ErrorKind::AddrInUse => "; is another name server running?",
                    _ => "",
                };
                return Err(Failure::setup_text(format!(
                    "listen address {wanted}: {error}{advice}"
                )));
            }
        }
    }
}

fn try_bind(wanted: SocketAddr) -> io::Result<Sockets> {
    let datagrams = std::net::UdpSocket::bind(wanted)?;
    let address = datagrams.local_addr()?;
    let streams = std::net::TcpListener::bind(address)?;
    datagrams.set_nonblocking(true)?;
    streams.set_nonblocking(true)?;
    Ok(Sockets { address, datagrams, streams })
}

impl Sockets {
    /// Serves from now on. To be called in the runtime.
    pub(super) fn serve(self, shared: &Rc<Shared>) -> Outcome {
        let datagrams = UdpSocket::from_std(self.datagrams).map_err(Failure::operation)?;
        let streams = TcpListener::from_std(self.streams).map_err(Failure::operation)?;
        spawn_local(serve_datagrams(Rc::new(datagrams), Rc::clone(shared)));
        spawn_local(serve_streams(streams, Rc::clone(shared)));
        Ok(())
    }
}

async fn serve_datagrams(socket: Rc<UdpSocket>, shared: Rc<Shared>) {
    let mut buffer = vec![0; MAX_DATAGRAM_LEN];
    loop {
        // An error is one datagram's: an ICMP that came back, or no memory for a moment.
        let Ok((len, source)) = socket.recv_from(&mut buffer).await else {
            sleep(ERROR_PAUSE).await;
            continue;
        };
        let now_ms = clock::now().unix_ms;
        let source_ip = source.ip().to_canonical();
        let handled = shared.server.borrow_mut().handle(
            &buffer[..len],
            source_ip,
            Transport::Datagram,
            now_ms,
        );
        match handled {
            Handled::Answer(answer) => send(&socket, &answer, source).await,
            Handled::Store(staged) => {
                let stored = shared.store(staged);
                let socket = Rc::clone(&socket);
                spawn_local(async move {
                    let answer = match stored {
                        Ok(answer) => answer.await.ok(),
                        Err(refusal) => Some(refusal),
                    };
                    if let Some(answer) = answer {
                        send(&socket, &answer, source).await;
                    }
                });
            }
            // Datagrams wait for nobody.
            Handled::Drop(_) | Handled::Hold(_) => {}
        }
    }
}

async fn send(socket: &UdpSocket, answer: &[u8], to: SocketAddr) {
    if let Err(error) = socket.send_to(answer, to).await {
        tracing::debug!(%error, "an answer could not be sent");
    }
}

async fn serve_streams(listener: TcpListener, shared: Rc<Shared>) {
    let open = Rc::new(Open::default());
    loop {
        let Ok((stream, source)) = listener.accept().await else {
            sleep(ERROR_PAUSE).await;
            continue;
        };
        // Over its share: closed at once.
        let Some(place) = Place::take(&open, source.ip().to_canonical()) else { continue };
        let shared = Rc::clone(&shared);
        spawn_local(async move {
            // A connection that breaks is its peer's affair.
            let _ = converse(stream, place.source, &shared).await;
            drop(place);
        });
    }
}

async fn converse(mut stream: TcpStream, source: IpAddr, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let Some(message) = timeout(IDLE, read_message(&mut stream)).await?? else {
            return Ok(());
        };
        let now_ms = clock::now().unix_ms;
        let handled =
            shared.server.borrow_mut().handle(&message, source, Transport::Stream, now_ms);
        // A follower's question is also the word that it has what it was told.
        let answer = match handled {
            Handled::Answer(answer) => answer,
            Handled::Drop(_) => return Ok(()),
            Handled::Store(staged) => match shared.store(staged) {
                Ok(answer) => answer.await.map_err(io::Error::other)?,
                Err(refusal) => refusal,
            },
            Handled::Hold(held) => {
                shared.changes.send_replace(());
                hold(&held, shared).await
            }
        };
        let len = u16::try_from(answer.len()).map_err(io::Error::other)?;
        let framed = [&len.to_be_bytes(), answer.as_slice()].concat();
        timeout(IDLE, stream.write_all(&framed)).await??;
    }
}

/// Waits until there is something to tell, or the time is over.
async fn hold(held: &Held, shared: &Shared) -> Vec<u8> {
    let mut changes = shared.changes.subscribe();
    loop {
        let now_ms = clock::now().unix_ms;
        if let Some(answer) = shared.server.borrow_mut().release(held, now_ms) {
            return answer;
        }
        let left = Duration::from_millis(held.until_ms.saturating_sub(now_ms).max(1));
        // Either way there is reason to look again; the sender lives as long as we do.
        let _ = timeout(left, changes.changed()).await;
    }
}

/// The next message; `None` when the peer is done, or sends what is too long to be a question.
async fn read_message(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut len = [0; 2];
    if let Err(error) = stream.read_exact(&mut len).await {
        let is_end = error.kind() == io::ErrorKind::UnexpectedEof;
        return if is_end { Ok(None) } else { Err(error) };
    }
    let len = usize::from(u16::from_be_bytes(len));
    if len > MAX_STREAM_MESSAGE_LEN {
        return Ok(None);
    }
    let mut message = vec![0; len];
    stream.read_exact(&mut message).await?;
    Ok(Some(message))
}

/// Connections by source.
#[derive(Default)]
struct Open {
    by_source: RefCell<HashMap<IpAddr, usize>>,
}

/// A connection's place among them, given back when dropped.
struct Place {
    open: Rc<Open>,
    source: IpAddr,
}

impl Place {
    fn take(open: &Rc<Open>, source: IpAddr) -> Option<Self> {
        let mut by_source = open.by_source.borrow_mut();
        let total: usize = by_source.values().sum();
        let own = by_source.get(&source).copied().unwrap_or(0);
        if total >= MAX_CONNECTIONS || own >= MAX_CONNECTIONS_A_SOURCE {
            return None;
        }
        *by_source.entry(source).or_default() += 1;
        Some(Self { open: Rc::clone(open), source })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_source = self.open.by_source.borrow_mut();
        if let Some(count) = by_source.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                by_source.remove(&self.source);
            }
        }
    }
}

/// The most that UDP carries.
const MAX_DATAGRAM_LEN: usize = 1 << 16;
/// An update of 64 records with long names fits twice.
const MAX_STREAM_MESSAGE_LEN: usize = 1 << 14;
/// Within the usual limit of 1024 descriptors, with room for everything else.
const MAX_CONNECTIONS: usize = 512;
/// Waypoints behind one address, and a resolver that opens several.
const MAX_CONNECTIONS_A_SOURCE: usize = 64;
/// RFC 7766 asks for seconds.
const IDLE: Duration = Duration::from_secs(10);
/// So that a socket that fails does not spin.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
/// A port that is free for UDP is seldom taken for TCP.
const PORT_TRIES: usize = 16;

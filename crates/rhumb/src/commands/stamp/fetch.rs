//! Carries the queries of key clients to DNS resolvers, and the answers back.
//!
//! Invariant: nothing here waits; a resolver that hangs costs its query's deadline. These questions
//! are never stamped: they are this process's own, which no rule of ours is for.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

use rhumb_keyserver::client::{Answered, KeyClient, Query};
use rhumb_keyserver::server::Transport;

use super::random;

/// One for each client, in their order.
#[derive(Debug)]
pub(crate) struct Fetcher {
    resolvers: Vec<SocketAddr>,
    asked: Vec<Option<Asked>>,
}

#[derive(Debug)]
enum Asked {
    Datagram(UdpSocket),
    Stream(Receiver<io::Result<Vec<u8>>>),
}

impl Fetcher {
    /// Asks these resolvers; there is at least one.
    pub(crate) fn new(resolvers: Vec<SocketAddr>) -> Self {
        Self { resolvers, asked: Vec::new() }
    }

    /// Whether an answer is waited for.
    pub(crate) fn is_waiting(&self) -> bool {
        self.asked.iter().any(Option::is_some)
    }

    /// Takes what was answered, and asks what is to be asked. Returns whether there is a new key.
    pub(crate) fn turn(&mut self, clients: &mut [KeyClient], now_ms: u64) -> bool {
        self.asked.resize_with(clients.len(), || None);
        let mut has_new = false;
        for (client, asked) in clients.iter_mut().zip(&mut self.asked) {
            has_new |= take_answers(client, asked, now_ms);
            // A query that is over has another one in its place.
            if let Some(query) = client.poll_query(now_ms, random) {
                match self.resolvers.get(query.resolver % self.resolvers.len().max(1)) {
                    Some(resolver) => match ask(&query, *resolver, now_ms) {
                        Ok(waiting) => *asked = Some(waiting),
                        Err(error) => {
                            tracing::warn!(%error, %resolver, "a resolver cannot be asked");
                            client.handle_failure(now_ms, random);
                        }
                    },
                    None => client.handle_failure(now_ms, random),
                }
            }
        }
        has_new
    }
}

fn take_answers(client: &mut KeyClient, asked: &mut Option<Asked>, now_ms: u64) -> bool {
    for _ in 0..MOST_ANSWERS {
        let answer = match asked {
            None => return false,
            Some(Asked::Datagram(socket)) => receive(socket),
            Some(Asked::Stream(answer)) => match answer.try_recv() {
                Ok(answer) => answer.map(Some),
                Err(TryRecvError::Empty) => Ok(None),
                Err(TryRecvError::Disconnected) => Err(io::ErrorKind::ConnectionReset.into()),
            },
        };
        let answered = match answer {
            Ok(None) => return false,
            Ok(Some(message)) => client.handle_answer(&message, now_ms, random),
            Err(_) => {
                *asked = None;
                client.handle_failure(now_ms, random);
                return false;
            }
        };
        if answered != Answered::Ignored {
            *asked = None;
        }
        match answered {
            Answered::Key(waypoint, window) => {
                tracing::info!(%waypoint, window = window.0, "a key has come");
                return true;
            }
            Answered::Absent => tracing::warn!(
                "the key server has no key for this principal: it is unknown, revoked, or its clock is off"
            ),
            Answered::Failed => tracing::warn!("a resolver failed; another one is asked"),
            Answered::Truncated | Answered::Ignored => {}
        }
    }
    false
}

fn ask(query: &Query, resolver: SocketAddr, now_ms: u64) -> io::Result<Asked> {
    match query.transport {
        Transport::Datagram => {
            let any: SocketAddr = if resolver.is_ipv4() {
                (Ipv4Addr::UNSPECIFIED, 0).into()
            } else {
                (Ipv6Addr::UNSPECIFIED, 0).into()
            };
            // A port of its own for each question: what guesses answers has that to guess, too.
            let socket = UdpSocket::bind(any)?;
            socket.set_nonblocking(true)?;
            socket.connect(resolver)?;
            socket.send(&query.message)?;
            Ok(Asked::Datagram(socket))
        }
        Transport::Stream => {
            let (message, patience) =
                (query.message.clone(), Duration::from_millis(query.deadline_ms - now_ms));
            let (sender, answer) = sync_channel(1);
            let exchange = move || {
                // Nobody may be waiting any more.
                let _ = sender.send(exchange_by_stream(&message, resolver, patience));
            };
            std::thread::Builder::new().name("resolver".to_owned()).spawn(exchange)?;
            Ok(Asked::Stream(answer))
        }
    }
}

/// A datagram, if there is one.
fn receive(socket: &UdpSocket) -> io::Result<Option<Vec<u8>>> {
    let mut buffer = [0; LARGEST_DATAGRAM];
    match socket.recv(&mut buffer) {
        Ok(len) => Ok(Some(buffer[..len].to_vec())),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// RFC 1035, 4.2.2: each message has its length in front.
fn exchange_by_stream(
    message: &[u8],
    resolver: SocketAddr,
    patience: Duration,
) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&resolver, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let len = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.write_all(&[&len.to_be_bytes(), message].concat())?;
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// Forged ones included, in one turn.
const MOST_ANSWERS: usize = 64;
/// More than is asked for in the query.
const LARGEST_DATAGRAM: usize = 4096;

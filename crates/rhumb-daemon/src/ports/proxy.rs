//! A proxy (`rhumb proxy`): names for programs that can use one, as hosts `NAME.rhumb.internal`:
//! SOCKS 5 with its datagrams, HTTP CONNECT, and HTTP for whole URLs, all on one local port. It
//! leads to names alone: whatever else a program asks for is refused.
//!
//! INVARIANT: a program is told that it is connected only after the other end's name is proven,
//! and has had the time to say that it offers nothing there.

mod http;
mod socks;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::associations::{Associations, Belongs};
use super::datagrams::Program;
use super::{Seldom, carry, until_ended};
use crate::clock;
use crate::config::NodeSettings;
use crate::failure::{Failure, Outcome};
use crate::membership::check_peer;
use crate::names::host::{SUFFIX, of_host};
use crate::output::Form;
use crate::published::{Finder, NotFound};
use rhumb_node::{
    BUSY, EndError, NOT_ALLOWED, Node, PORT_CLOSED, SERVICE_FAILED, Stream, StreamError,
    stream_error,
};
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::http::What;
use self::socks::{Reply, Request, Target};

/// Says where it is, and leads to names until the node has ended.
pub fn lead(
    node: Node,
    settings: NodeSettings,
    finder: Finder,
    (listener, local): (std::net::TcpListener, SocketAddr),
    form: Form,
) -> impl Future<Output = Outcome> {
    form.print(&Ready { own: node.name(), local });
    let told = Seldom::default();
    let proxy = Proxy { node, settings, finder, local, form, told };
    accept(Arc::new(proxy), listener)
}

async fn accept(proxy: Arc<Proxy>, listener: std::net::TcpListener) -> Outcome {
    let listener = TcpListener::from_std(listener).map_err(Failure::operation)?;
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) if connections.len() < MAX_AT_ONCE => {
                    connections.spawn(Arc::clone(&proxy).serve(tcp));
                }
                // One more program has to wait for others to be done: it is turned away.
                Ok(_) => {}
                Err(error) => return Err(Failure::operation(error)),
            },
            Some(_) = connections.join_next() => {}
            ended = until_ended(&proxy.node) => return ended,
        }
    }
}

struct Proxy {
    node: Node,
    settings: NodeSettings,
    finder: Finder,
    local: SocketAddr,
    form: Form,
    told: Seldom,
}

/// Why a program does not get what it asked for, in the words of both protocols and for people.
struct Denied {
    reply: Reply,
    status: &'static str,
    text: String,
}

/// A stream that the other end has not refused, and what it has said already.
struct Opened {
    stream: Stream,
    said: Vec<u8>,
}

impl Proxy {
    async fn serve(self: Arc<Self>, tcp: TcpStream) {
        let mut first = [0];
        let spoken = async {
            tcp.peek(&mut first).await?;
            match first {
                [socks::VERSION] => self.serve_socks(tcp).await,
                _ => self.serve_http(tcp).await,
            }
        };
        // A program that breaks off, or says what is neither, is closed without a word.
        let _ = spoken.await;
    }

    async fn serve_socks(&self, mut tcp: TcpStream) -> io::Result<()> {
        let request = timeout(ASKS_WITHIN, socks::accept(&mut tcp)).await??;
        match request {
            None => Ok(()),
            Some(Request::Associate) => self.associate(tcp).await,
            Some(Request::Connect(target)) => match self.open(&target).await {
                Ok(opened) => {
                    socks::reply(&mut tcp, Reply::Done, socks::NOWHERE).await?;
                    carry_on(opened, &[], tcp).await
                }
                Err(denied) => {
                    self.tell(&target, &denied);
                    socks::reply(&mut tcp, denied.reply, socks::NOWHERE).await
                }
            },
        }
    }

    async fn serve_http(&self, mut tcp: TcpStream) -> io::Result<()> {
        let asked = timeout(ASKS_WITHIN, http::accept(&mut tcp)).await??;
        let (target, head) = match asked.what {
            What::Configuration => return http::configure(&mut tcp, self.local).await,
            What::Not(why) => return http::answer(&mut tcp, "400 Bad Request", why).await,
            What::Connect(target) => (target, None),
            What::Fetch { from, head } => (from, Some(head)),
        };
        let opened = match self.open(&target).await {
            Ok(opened) => opened,
            Err(denied) => {
                self.tell(&target, &denied);
                return http::answer(&mut tcp, denied.status, &denied.text).await;
            }
        };
        if head.is_none() {
            http::connected(&mut tcp).await?;
        }
        let sent_first = [head.unwrap_or_default(), asked.rest].concat();
        carry_on(opened, &sent_first, tcp).await
    }

    /// Opens a stream, and gives the other end the time to say that it takes none there.
    async fn open(&self, target: &Target) -> Result<Opened, Denied> {
        let name = self.name_of(&target.host).await?;
        let mut stream = self.node.open(name, target.port).await?;
        let connections = self.node.connections();
        let round_trip = connections.iter().find(|it| it.peer == name).map(|it| it.round_trip);
        let mut said = vec![0; 4096];
        let wait = round_trip.unwrap_or_default() * 2 + REFUSES_WITHIN;
        let len = match timeout(wait, stream.read(&mut said)).await {
            Ok(read) => read.map_err(|error| match stream_error(&error) {
                Some(error) => Denied::from(error.clone()),
                None => Denied::failed(error.to_string()),
            })?,
            Err(_) => 0,
        };
        said.truncate(len);
        Ok(Opened { stream, said })
    }

    async fn name_of(&self, host: &str) -> Result<Name, Denied> {
        let outside = |text| Denied { reply: Reply::NotAllowed, status: "403 Forbidden", text };
        let called = of_host(host).map_err(outside)?;
        let name = self.finder.find(&called).await?;
        check_peer(&self.settings, name).map_err(|failure| outside(failure.to_string()))?;
        Ok(name)
    }

    /// Carries datagrams for as long as the program's connection is there.
    async fn associate(&self, mut tcp: TcpStream) -> io::Result<()> {
        let socket = UdpSocket::bind(SocketAddr::new(tcp.local_addr()?.ip(), 0)).await?;
        socks::reply(&mut tcp, Reply::Done, socket.local_addr()?).await?;
        let (by, host) = (Arc::new(socket), tcp.peer_addr()?.ip());
        let mut program = None;
        let mut associations = Associations::new(MAX_TARGETS);
        let mut buffer = vec![0; usize::from(u16::MAX)];
        loop {
            let (len, address) = tokio::select! {
                received = by.recv_from(&mut buffer) => received?,
                // Whatever it says here, or its end, is the end.
                _ = tcp.read_u8() => return Ok(()),
            };
            // Other programs of this host could send there, too.
            if address.ip() != host || *program.get_or_insert(address) != address {
                continue;
            }
            let Some((target, body)) = socks::parse_datagram(&buffer[..len]) else { continue };
            let name = match self.name_of(&target.host).await {
                Ok(name) => name,
                Err(denied) => {
                    self.tell(&target, &denied);
                    continue;
                }
            };
            let head = socks::datagram_head(&target);
            let carried = Program { address, by: Arc::clone(&by), head };
            associations.hand(&target, body.to_vec(), clock::now().instant, |taken| {
                let carried = carried.associate(self.node.clone(), (name, target.port), taken);
                async move {
                    if let Err(error) = carried.await {
                        tracing::warn!(%error, "a program's datagrams were not carried");
                    }
                }
            });
        }
    }

    fn tell(&self, target: &Target, denied: &Denied) {
        if self.told.may_say(clock::now().instant) {
            self.form.print(&Refused { target, denied });
        }
    }
}

/// Carries between the two until both directions have ended.
async fn carry_on(opened: Opened, sent_first: &[u8], mut tcp: TcpStream) -> io::Result<()> {
    let Opened { mut stream, said } = opened;
    tcp.write_all(&said).await?;
    stream.write_all(sent_first).await?;
    carry(stream, tcp).await.map(drop)
}

impl Belongs for Target {
    /// All of them are one program's.
    type Owner = ();

    fn owner(&self) {}
}

impl Denied {
    fn failed(text: String) -> Self {
        Self { reply: Reply::Failed, status: "502 Bad Gateway", text }
    }
}

impl From<NotFound> for Denied {
    fn from(problem: NotFound) -> Self {
        let status = match problem.is_certain() {
            true => "404 Not Found",
            false => "502 Bad Gateway",
        };
        Self { reply: Reply::HostUnreachable, status, text: problem.to_string() }
    }
}

impl From<EndError> for Denied {
    fn from(error: EndError) -> Self {
        let (reply, status) = match error {
            EndError::NoAnswer(_) => (Reply::HostUnreachable, "504 Gateway Timeout"),
            EndError::Unreachable(_) | EndError::Lost(_) | EndError::Forgotten(_) => {
                (Reply::HostUnreachable, "502 Bad Gateway")
            }
            EndError::Refused(_) | EndError::ProofRefused(_) => {
                (Reply::NotAllowed, "403 Forbidden")
            }
            _ => (Reply::Failed, "502 Bad Gateway"),
        };
        Self { reply, status, text: error.to_string() }
    }
}

impl From<StreamError> for Denied {
    fn from(error: StreamError) -> Self {
        let (reply, status) = match error {
            StreamError::Connection(error) => return error.into(),
            StreamError::Ended { code: NOT_ALLOWED } => (Reply::NotAllowed, "403 Forbidden"),
            StreamError::Ended { code: PORT_CLOSED } => (Reply::Refused, "502 Bad Gateway"),
            StreamError::Ended { code: BUSY | SERVICE_FAILED } => {
                (Reply::Refused, "503 Service Unavailable")
            }
            _ => (Reply::Failed, "502 Bad Gateway"),
        };
        Self { reply, status, text: error.to_string() }
    }
}

struct Ready {
    own: Name,
    local: SocketAddr,
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": "proxy",
            "name": self.own.to_string(),
            "local": self.local.to_string(),
            "suffix": SUFFIX,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.local;
        write!(
            f,
            "ready: SOCKS 5 and HTTP proxy for NAME{SUFFIX} on {local}; browsers: http://{local}{}",
            http::CONFIGURATION_PATH
        )
    }
}

/// What a program did not get.
struct Refused<'a> {
    target: &'a Target,
    denied: &'a Denied,
}

impl Serialize for Refused<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Target { host, port } = self.target;
        json!({ "refused": host, "port": port, "reason": self.denied.text }).serialize(serializer)
    }
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Target { host, port } = self.target;
        // A program may ask for anything: nothing of it moves the cursor.
        write!(f, "{} port {port}: {}", host.escape_debug(), self.denied.text)
    }
}

/// A program on this host says at once what it wants.
const ASKS_WITHIN: Duration = Duration::from_secs(10);
/// What the other end needs beyond two round trips to say that it takes no stream.
const REFUSES_WITHIN: Duration = Duration::from_millis(20);
/// Each has two file descriptors and 128 KB of buffers.
const MAX_AT_ONCE: usize = 400;
/// Ports of names that one program may send datagrams to at once.
const MAX_TARGETS: usize = 16;

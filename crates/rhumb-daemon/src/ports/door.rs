//! A port that somebody offers under a name, brought to this host (`rhumb forward`): programs
//! connect to a local address, and nobody on the way reads or alters what they say.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use super::datagrams::bring;
use super::{Carried, Seldom, carry, listen, reason, taken, until_ended};
use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::output::{Form, bytes_text};
use rhumb_node::{DatagramError, Node};
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

/// Where programs of this host come in.
#[derive(Debug)]
pub enum Door {
    /// Over TCP, at this address.
    Tcp(std::net::TcpListener, SocketAddr),
    /// Over UDP.
    Udp(std::net::UdpSocket, SocketAddr),
}

impl Door {
    /// Opens one.
    ///
    /// # Errors
    ///
    /// When the address is taken, or not this host's.
    pub fn open(local: SocketAddr, udp: bool) -> Outcome<Self> {
        if !udp {
            return listen(local).map(|(listener, local)| Self::Tcp(listener, local));
        }
        let socket = std::net::UdpSocket::bind(local).map_err(|error| taken(local, &error))?;
        socket.set_nonblocking(true).map_err(Failure::setup)?;
        let local = socket.local_addr().map_err(Failure::setup)?;
        Ok(Self::Udp(socket, local))
    }

    /// Where it is.
    pub fn local(&self) -> SocketAddr {
        let (Self::Tcp(_, local) | Self::Udp(_, local)) = self;
        *local
    }

    /// Says where it is, and leads to a port of a name until the node has ended.
    pub fn lead(
        self,
        node: Node,
        (name, port): (Name, u16),
        form: Form,
    ) -> impl Future<Output = Outcome> {
        form.print(&Ready { own: node.name(), local: self.local(), name, port });
        async move {
            match self {
                Self::Tcp(listener, _) => {
                    let listener = TcpListener::from_std(listener).map_err(Failure::operation)?;
                    carry_streams(&node, listener, (name, port), form).await
                }
                Self::Udp(socket, _) => {
                    let socket = UdpSocket::from_std(socket).map_err(Failure::operation)?;
                    carry_datagrams(&node, socket, (name, port), form).await
                }
            }
        }
    }
}

/// Connects with who is to be led to, so that whoever is not there, or does not let us in, is known
/// before a program relies on it.
///
/// # Errors
///
/// Why not.
pub async fn reach(node: &Node, name: Name) -> Outcome {
    let connection = node.connect(name).await.map_err(Failure::setup)?;
    connection.settle().await.map_err(Failure::setup)
}

async fn carry_streams(
    node: &Node,
    listener: TcpListener,
    (name, port): (Name, u16),
    form: Form,
) -> Outcome {
    let way = Arc::new(Way { node: node.clone(), name, port, form, told: Seldom::default() });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) if connections.len() < MAX_AT_ONCE => {
                    connections.spawn(Arc::clone(&way).carry(tcp));
                }
                // One more program has to wait for others to be done: it is turned away.
                Ok(_) => {}
                Err(error) => return Err(Failure::operation(error)),
            },
            Some(_) = connections.join_next() => {}
            ended = until_ended(node) => return ended,
        }
    }
}

async fn carry_datagrams(
    node: &Node,
    socket: UdpSocket,
    service: (Name, u16),
    form: Form,
) -> Outcome {
    let told = Arc::new(Seldom::default());
    let tell = move |error: DatagramError| {
        if told.may_say(clock::now().instant) {
            form.print(&Ended { outcome: Err(error.to_string()) });
        }
    };
    tokio::select! {
        carried = bring(node.clone(), socket, service, tell) => carried.map_err(Failure::operation),
        ended = until_ended(node) => ended,
    }
}

/// Where it leads.
struct Way {
    node: Node,
    name: Name,
    port: u16,
    form: Form,
    told: Seldom,
}

impl Way {
    async fn carry(self: Arc<Self>, tcp: TcpStream) {
        let outcome = match self.node.open(self.name, self.port).await {
            Ok(stream) => carry(stream, tcp).await.map_err(|error| reason(&error)),
            Err(error) => Err(error.to_string()),
        };
        if outcome.is_ok() || self.told.may_say(clock::now().instant) {
            self.form.print(&Ended { outcome });
        }
    }
}

/// Where a port of somebody's is, for programs of this host.
#[derive(Debug)]
pub struct Ready {
    /// In whose name it is asked for.
    pub own: Name,
    /// Where programs find it.
    pub local: SocketAddr,
    /// Whose it is.
    pub name: Name,
    /// Its number there.
    pub port: u16,
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": "forward",
            "name": self.own.to_string(),
            "local": self.local.to_string(),
            "to": self.name.to_string(),
            "port": self.port,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local, name, port, .. } = self;
        write!(f, "ready: {local} leads to port {port} of {name}")
    }
}

/// A program's connection, as it ended.
struct Ended {
    outcome: Result<Carried, String>,
}

impl Serialize for Ended {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.outcome {
            Ok(Carried { received, sent }) => {
                json!({ "ended": true, "received": received, "sent": sent })
            }
            Err(reason) => json!({ "ended": true, "reason": reason }),
        }
        .serialize(serializer)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Ok(Carried { received, sent }) => {
                write!(f, "done: {} received, {} sent", bytes_text(*received), bytes_text(*sent))
            }
            Err(reason) => write!(f, "ended: {reason}"),
        }
    }
}

/// Each has two file descriptors and 128 KB of buffers.
const MAX_AT_ONCE: usize = 400;

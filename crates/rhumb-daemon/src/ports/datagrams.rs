//! Datagrams of programs that speak UDP, to a port of a name and back: at the end that offers it a
//! socket for each association, at the other one a port of the node's.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rhumb_node::{Admits, DatagramError, EndError, Message, Node, Port, PortSender};
use rhumb_wire::Name;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::Receiver;
use tokio::time::sleep;

use super::associations::{Associations, Belongs, IDLE};
use super::{Seldom, clock};

/// A port of a node, offered to others in the place of a program that listens on UDP.
#[derive(Debug)]
pub struct Offered {
    /// Where others send to.
    pub port: Port,
    /// By which of the node's names alone.
    pub only: Option<Name>,
    /// Where the program listens.
    pub to: SocketAddr,
}

/// Who sent to an offered port, from which of his, and to which name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sender {
    name: Name,
    port: u16,
    to: Name,
}

impl Belongs for Sender {
    type Owner = Name;

    fn owner(&self) -> Name {
        self.name
    }
}

impl Offered {
    /// Carries until the node has ended; tells who is new.
    pub async fn carry(mut self, tell: impl Fn(Name)) {
        let mut associations = Associations::new(MAX_AT_ONCE);
        let seldom = Arc::new(Seldom::default());
        while let Some(mut message) = self.port.receive().await {
            let Some(port) = message.from_port else { continue };
            if self.only.is_some_and(|only| only != message.to) {
                continue;
            }
            let body = std::mem::take(&mut message.body);
            let key = Sender { name: message.from, port, to: message.to };
            let (sender, to, seldom) = (self.port.sender(), self.to, Arc::clone(&seldom));
            associations.hand(&key, body, clock::now().instant, |taken| {
                tell(key.name);
                async move {
                    if let Err(error) = answer(sender, &message, to, taken).await
                        && seldom.may_say(clock::now().instant)
                    {
                        tracing::warn!(%to, %error, "the program cannot be reached");
                    }
                }
            });
        }
    }
}

/// One association at the program's end.
async fn answer(
    sender: PortSender,
    first: &Message,
    to: SocketAddr,
    mut taken: Receiver<Vec<u8>>,
) -> io::Result<()> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(to).await?;
    let mut buffer = vec![0; LONGEST];
    loop {
        tokio::select! {
            body = taken.recv() => match body {
                Some(body) => drop(socket.send(&body).await?),
                None => return Ok(()),
            },
            received = socket.recv(&mut buffer) => {
                let len = received?;
                match sender.reply(first, &buffer[..len]).await {
                    Ok(()) => {}
                    Err(error @ DatagramError::TooBig { .. }) => tracing::debug!(%error, "dropped"),
                    Err(_) => return Ok(()),
                }
            }
            () = sleep(IDLE) => return Ok(()),
        }
    }
}

/// A program of this host that sends to a port of a name, and where what comes back goes.
#[derive(Debug)]
pub struct Program {
    /// Its socket is there.
    pub address: SocketAddr,
    /// By which socket it is sent to.
    pub by: Arc<UdpSocket>,
    /// What stands before each datagram that it is sent.
    pub head: Vec<u8>,
}

impl Program {
    /// One association at its end: carries until nobody has sent anything for [`IDLE`].
    ///
    /// # Errors
    ///
    /// When the name cannot be reached, or takes none of it.
    pub async fn associate(
        self,
        node: Node,
        (name, port): (Name, u16),
        mut taken: Receiver<Vec<u8>>,
    ) -> Result<(), DatagramError> {
        let bound = node.bind(0, Admits::names([name]));
        let mut ours = bound.map_err(|_| EndError::TooMany)?;
        loop {
            tokio::select! {
                body = taken.recv() => match body {
                    Some(body) => match ours.send_to(name, port, &body).await {
                        Err(error @ DatagramError::TooBig { .. }) => {
                            tracing::warn!(%error, "dropped; have the program send shorter ones");
                        }
                        outcome => outcome?,
                    },
                    None => return Ok(()),
                },
                message = ours.receive() => match message {
                    Some(Message { from, from_port, body, .. })
                        if (from, from_port) == (name, Some(port)) =>
                    {
                        let whole = [&self.head[..], &body].concat();
                        // A program that is gone is no fault of the other end's.
                        let _ = self.by.send_to(&whole, self.address).await;
                    }
                    Some(_) => {}
                    None => return Err(EndError::Closed.into()),
                },
                () = sleep(IDLE) => return Ok(()),
            }
        }
    }
}

impl Belongs for SocketAddr {
    /// All of them are programs of this host, and nobody's in particular.
    type Owner = ();

    fn owner(&self) {}
}

/// Brings a port of a name to a socket of this host, where `tell` hears why an association failed.
///
/// # Errors
///
/// When the socket fails.
pub async fn bring<F>(
    node: Node,
    socket: UdpSocket,
    service: (Name, u16),
    tell: F,
) -> io::Result<()>
where
    F: Fn(DatagramError) + Clone + Send + 'static,
{
    let by = Arc::new(socket);
    let mut associations = Associations::new(MAX_AT_ONCE);
    let mut buffer = vec![0; LONGEST];
    loop {
        let (len, address) = by.recv_from(&mut buffer).await?;
        let program = Program { address, by: Arc::clone(&by), head: Vec::new() };
        let body = buffer[..len].to_vec();
        associations.hand(&address, body, clock::now().instant, |taken| {
            reporting(program.associate(node.clone(), service, taken), tell.clone())
        });
    }
}

async fn reporting(
    carried: impl Future<Output = Result<(), DatagramError>>,
    tell: impl Fn(DatagramError),
) {
    if let Err(error) = carried.await {
        tell(error);
    }
}

/// Associations of one port: each has a file descriptor, or a port of the node's.
pub const MAX_AT_ONCE: usize = 400;
/// The longest datagram that UDP has.
const LONGEST: usize = 65_535;

//! Datagrams between two names, which may get lost, and which nobody on the way reads or alters.

use std::future::poll_fn;
use std::task::Waker;

use rhumb_end::{Admits, DatagramError, Ports};
use rhumb_wire::Name;

use crate::mailbox::Mailbox;
use crate::node::Handle;
use crate::{Connection, Message, Node, NodeError};

/// A port of a node: receives the datagrams for it, and sends, by connections, encrypted from end
/// to end. There is one per number and node at a time.
#[derive(Debug)]
pub struct Port {
    node: Node,
    number: u16,
    messages: Mailbox<Message>,
}

/// Sends from a [`Port`], beside who receives there.
#[derive(Debug, Clone)]
pub struct PortSender {
    node: Node,
    number: u16,
}

impl Node {
    /// Begins to receive what `admits` send to a port; 0 takes any that is free. Ports of datagrams
    /// are not those of streams.
    ///
    /// # Errors
    /// When the port has a receiver.
    pub fn bind(&self, port: u16, admits: Admits) -> Result<Port, NodeError> {
        let bound = self.handle.connections().bind(port, admits);
        let (number, messages) = bound.ok_or(NodeError::PortInUse { port })?;
        Ok(Port { node: self.clone(), number, messages })
    }

    /// Lets `admits` send to a port of datagrams, in place of who might before. Says whether the
    /// port has a receiver.
    pub fn admit(&self, port: u16, admits: Admits) -> bool {
        self.handle.connections().admit(port, admits)
    }

    /// Sends a datagram to a port of `to`, by a connection that is made if there is none. Returns
    /// once it is queued; it waits for room. It may get lost, and nobody says so. Its receiver
    /// cannot answer it: who wants that sends by a [`Port`].
    ///
    /// # Errors
    /// When it is too long, or there is no connection and none can be made ([`Node::connect`]).
    pub async fn send_to(&self, to: Name, to_port: u16, body: &[u8]) -> Result<(), DatagramError> {
        self.connect(to).await?.send_datagram(to_port, body).await
    }
}

impl Connection {
    /// Sends a datagram to a port of the peer, as [`Node::send_to`] does.
    ///
    /// # Errors
    /// When it is too long, or the connection is over.
    pub async fn send_datagram(&self, port: u16, body: &[u8]) -> Result<(), DatagramError> {
        self.send_between(Ports { from: 0, to: port }, body).await
    }

    async fn send_between(&self, ports: Ports, body: &[u8]) -> Result<(), DatagramError> {
        let (connections, id) = (self.handle().connections(), self.id());
        poll_fn(|context| connections.poll_datagram(id, ports, body, context)).await
    }

    /// Queues datagrams while there is room, without waiting, and says how many that were. If not
    /// all, `waker` is woken when there is room again. One that has become too long since
    /// [`Connection::max_datagram_len`] said so is lost.
    ///
    /// # Errors
    /// When the connection is over, or its peer takes none.
    pub fn send_datagrams<'a>(
        &self,
        port: u16,
        bodies: impl ExactSizeIterator<Item = &'a [u8]>,
        waker: &Waker,
    ) -> Result<usize, DatagramError> {
        let ports = Ports { from: 0, to: port };
        self.handle().connections().send_datagrams(self.id(), ports, bodies, waker)
    }

    /// The longest body of a datagram that fits now; at least 1100 bytes while the connection
    /// lives.
    pub fn max_datagram_len(&self) -> Option<usize> {
        self.handle().connections().ask(|state| state.ends.max_datagram_body(self.id()))
    }
}

impl Port {
    /// The port's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Sends a datagram to a port of `to`, as [`Node::send_to`] does, from this one: an answer
    /// reaches it here.
    ///
    /// # Errors
    /// As there.
    pub async fn send_to(&self, to: Name, to_port: u16, body: &[u8]) -> Result<(), DatagramError> {
        self.sender().send_to(to, to_port, body).await
    }

    /// Answers a datagram, in the name that it was for.
    ///
    /// # Errors
    /// As [`Node::send_to`], and when its sender takes no answer.
    pub async fn reply(&self, message: &Message, body: &[u8]) -> Result<(), DatagramError> {
        self.sender().reply(message, body).await
    }

    /// What sends from this port elsewhere, and for as long as it likes.
    pub fn sender(&self) -> PortSender {
        PortSender { node: self.node.clone(), number: self.number }
    }

    /// The next datagram for this port; `None` when the node has left. What a program does not
    /// receive in time is dropped, oldest kept, and counted in [`crate::Status::drops`].
    pub async fn receive(&mut self) -> Option<Message> {
        poll_fn(|context| self.messages.poll_receive(context)).await
    }
}

impl PortSender {
    /// As [`Port::send_to`].
    ///
    /// # Errors
    /// As there.
    pub async fn send_to(&self, to: Name, to_port: u16, body: &[u8]) -> Result<(), DatagramError> {
        let ports = Ports { from: self.number, to: to_port };
        self.node.connect(to).await?.send_between(ports, body).await
    }

    /// As [`Port::reply`].
    ///
    /// # Errors
    /// As there.
    pub async fn reply(&self, message: &Message, body: &[u8]) -> Result<(), DatagramError> {
        let to = message.from_port.ok_or(DatagramError::NoAnswerTaken)?;
        let connection = self.node.handle.connect(message.to, message.from).await?;
        connection.send_between(Ports { from: self.number, to }, body).await
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.messages.close();
        self.handle().connections().unbind(self.number);
    }
}

impl Port {
    fn handle(&self) -> &Handle {
        &self.node.handle
    }
}

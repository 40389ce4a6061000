//! IP packets between two names, in blocks: as datagrams are, but that nothing but their own
//! programs slows them down.

use std::task::Waker;

use rhumb_end::{Admits, DatagramError, PACKETS, Packets};
use rhumb_wire::Name;

use crate::mailbox::{Letter, Mailbox};
use crate::{Connection, Node, NodeError};

/// Packets that arrived one behind the other. Who sent them is proven.
#[derive(Debug)]
pub struct Block {
    /// Who sent them.
    pub from: Name,
    /// It belongs to a trust domain whose members packets are taken of
    /// ([`Admits::Chosen`](crate::Admits::Chosen)).
    pub as_member: bool,
    /// What was sent.
    pub packets: Packets,
}

/// Receives the packets for a node, in place of a [`Port`](crate::Port) with the number
/// [`PACKETS`]: for a thread of its own.
#[derive(Debug)]
pub struct PacketPort {
    node: Node,
    blocks: Mailbox<Block>,
}

impl Node {
    /// Begins to receive the packets that `admits` send.
    ///
    /// # Errors
    /// When somebody receives them.
    pub fn bind_packets(&self, admits: Admits) -> Result<PacketPort, NodeError> {
        let blocks = self.handle.connections().bind_packets(admits);
        let blocks = blocks.ok_or(NodeError::PortInUse { port: PACKETS })?;
        Ok(PacketPort { node: self.clone(), blocks })
    }
}

impl PacketPort {
    /// Waits for packets and appends blocks of them until they are `enough`. Returns how many
    /// blocks; 0 when the node has left. A task of a runtime would hold up others.
    pub fn blocking_receive(&mut self, blocks: &mut Vec<Block>, enough: usize) -> usize {
        self.blocks.blocking_receive(blocks, enough)
    }

    /// Gives back blocks that are done with: packets to come need no memory of their own.
    pub fn give_back(&mut self, blocks: &mut Vec<Block>) {
        self.blocks.give_back(blocks);
    }
}

impl Drop for PacketPort {
    fn drop(&mut self) {
        self.blocks.close();
        self.node.handle.connections().unbind(PACKETS);
    }
}

impl Letter for Block {
    fn datagrams(&self) -> usize {
        self.packets.len()
    }
}

impl Connection {
    /// Queues a block of IP packets for port [`PACKETS`] if there is room, without
    /// waiting, and leaves an empty one in its place; says whether there was. If not, `waker` is
    /// woken when there is. Nothing but their own programs slows them down, and one that has become
    /// too long since [`Connection::max_packet_len`] said so is lost.
    ///
    /// # Errors
    /// When the connection is over, or its peer takes packets as datagrams alone.
    pub fn send_packets(
        &self,
        packets: &mut Packets,
        waker: &Waker,
    ) -> Result<bool, DatagramError> {
        self.handle().connections().send_packets(self.id(), packets, waker)
    }

    /// The longest packet that [`Connection::send_packets`] takes now; `None` when the peer takes
    /// packets as datagrams alone, or the connection is over.
    pub fn max_packet_len(&self) -> Option<usize> {
        self.handle().connections().ask(|state| state.ends.max_packet_len(self.id()))
    }
}

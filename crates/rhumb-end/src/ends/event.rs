//! What an end tells of its connections.

use bytes::Bytes;
use rhumb_wire::Name;

use super::{ConnectionId, Ports};
use crate::EndError;
use crate::connection::StreamId;
use crate::packets::Packets;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A connection is there, and both names are proven.
    Connected {
        /// Which.
        id: ConnectionId,
        /// This end's name.
        local: Name,
        /// The other end's.
        peer: Name,
        /// Whether this end began it.
        is_ours: bool,
    },
    /// A connection is over, or could not be made.
    Ended {
        /// Which.
        id: ConnectionId,
        /// The other end's name.
        peer: Name,
        /// Why.
        error: EndError,
    },
    /// The peer opened a stream to a port that is offered to it.
    Opened {
        /// On which connection.
        id: ConnectionId,
        /// The stream: its holder is to [release](super::Ends::release) it.
        stream: StreamId,
        /// For which port.
        port: u16,
    },
    /// A stream has something to read, or its end.
    Readable {
        /// On which connection.
        id: ConnectionId,
        /// Which stream.
        stream: StreamId,
    },
    /// A stream has room again, or the peer wants no more of it.
    Writable {
        /// On which connection.
        id: ConnectionId,
        /// Which stream.
        stream: StreamId,
    },
    /// The peer has everything of a stream.
    Finished {
        /// On which connection.
        id: ConnectionId,
        /// Which stream.
        stream: StreamId,
    },
    /// Another stream can be opened.
    MayOpen {
        /// On which connection.
        id: ConnectionId,
    },
    /// There is room for datagrams again.
    MaySend {
        /// On which connection.
        id: ConnectionId,
    },
    /// A datagram came for a port that is offered to its sender.
    Datagram {
        /// On which connection.
        id: ConnectionId,
        /// From which port for which.
        ports: Ports,
        /// What was sent.
        body: Bytes,
        /// Its sender belongs to a domain whose members the port is for.
        as_member: bool,
    },
    /// Packets came one behind the other, and their sender may send some.
    Packets {
        /// On which connection.
        id: ConnectionId,
        /// What was sent.
        packets: Packets,
        /// Its sender belongs to a domain whose members the port is for.
        as_member: bool,
    },
    /// Somebody wanted what is not offered to him, and was told so.
    Refused {
        /// Who, as routers say.
        peer: Name,
        /// Which name of this end he asked for.
        local: Name,
        /// The port, if it came to that.
        port: Option<u16>,
    },
}

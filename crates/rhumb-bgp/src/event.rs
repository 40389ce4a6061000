//! What a session says, and what it counts.

use rustbgpd_wire::notification::{description, extract_shutdown_communication};
use rustbgpd_wire::{NotificationMessage, Prefix};

use crate::attributes::Attributes;
use crate::family::Family;
use crate::negotiation::Negotiated;

/// What happened, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The session is established.
    Up(Box<Negotiated>),
    /// The session is over. Routes that do not stay (graceful
    /// restart) are withdrawn by events that follow.
    Down(DownReason),
    /// The neighbour has this route now, instead of any with the same prefix and path.
    Announced {
        /// Where to.
        prefix: Prefix,
        /// Which of several routes to the prefix (RFC 7911); zero without add-path.
        path: u32,
        /// How.
        attributes: Attributes,
    },
    /// The neighbour has this route no more.
    Withdrawn {
        /// Where to.
        prefix: Prefix,
        /// Which of several routes to the prefix; zero without add-path.
        path: u32,
    },
    /// The neighbour has sent all that it had (RFC 4724).
    EndOfRib(Family),
    /// The neighbour has sent all again, as was asked (RFC 7313).
    Refreshed(Family),
    /// A family is ignored until the session's end: its prefixes could not be read (RFC 7606).
    FamilyDisabled(Family),
}

/// Why a session is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DownReason {
    /// The connection was closed without a word.
    Closed,
    /// The neighbour ended it, and says why.
    Received(NotificationMessage),
    /// We ended it, and said why.
    Sent(NotificationMessage),
    /// The neighbour, restarted, came back by a new
    /// connection before the old one had closed (RFC 4724).
    Replaced,
}

impl std::fmt::Display for DownReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (who, message) = match self {
            Self::Closed => return f.write_str("the connection was closed"),
            Self::Replaced => return f.write_str("the neighbour has restarted"),
            Self::Received(message) => ("the neighbour said", message),
            Self::Sent(message) => ("we said", message),
        };
        let (code, subcode) = (message.code.as_u8(), message.subcode);
        write!(f, "{who}: {} ({code}/{subcode})", description(message.code, subcode))?;
        // RFC 9003 asks that what came is shown without control characters.
        if let Ok(Some(words)) = extract_shutdown_communication(message)
            && !words.is_empty()
        {
            write!(f, ": \"{}\"", words.escape_debug())?;
        }
        Ok(())
    }
}

/// What a session has counted since it was made. All only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Sessions that came up.
    pub established: u64,
    /// Messages read.
    pub messages_received: u64,
    /// Messages handed out to be sent.
    pub messages_sent: u64,
    /// UPDATE messages read.
    pub updates_received: u64,
    /// UPDATE messages handed out to be sent.
    pub updates_sent: u64,
    /// UPDATE messages whose routes were taken as
    /// withdrawn, since an attribute was wrong (RFC 7606).
    pub treated_as_withdraw: u64,
    /// Attributes left out since they were wrong (RFC 7606).
    pub attributes_discarded: u64,
    /// UPDATE messages with prefixes of a family that the
    /// session does not carry; those were ignored.
    pub unnegotiated_family: u64,
    /// UPDATE messages whose routes have our number in their path.
    pub loops: u64,
    /// UPDATE messages whose path does not begin with the neighbour.
    pub wrong_first_as: u64,
    /// UPDATE messages whose routes are leaks (RFC 9234).
    pub leaks: u64,
    /// Connections closed in favour of another one to the same neighbour.
    pub collisions: u64,
    /// Connections refused: the session was stopped or at rest, or there was one already.
    pub refused_connections: u64,
    /// Requests of the neighbour for all routes of a family. Those that
    /// come during an answer are answered together.
    pub refreshes_answered: u64,
    /// Routes that stay here since their attributes fit no message.
    pub too_long: u64,
}

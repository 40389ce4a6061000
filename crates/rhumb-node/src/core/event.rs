//! What a [`Core`](super::Core) tells its owner. What arrived for programs is not here but in
//! [`Core::arrivals`](super::Core::arrivals), which lends the bytes instead of copying them.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use rhumb_link::{CloseReason, LinkError};
use rhumb_wire::nack::Reason;
use rhumb_wire::{Certificate, Metadata, Name};

use crate::Refusal;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The router accepted the name, for the first time since it was connected.
    Joined {
        /// Which router.
        router: Name,
        /// The last second of the lease.
        until_s: u64,
        /// Whether the RIB holds the route.
        published: bool,
    },
    /// The router accepted the name again: the lease is longer, or the name is published now.
    Renewed {
        /// The last second of the lease.
        until_s: u64,
        /// Whether the RIB holds the route.
        published: bool,
    },
    /// There is no way to the router at the moment; it is tried again.
    Disconnected {
        /// Why.
        reason: Disconnection,
        /// When it is tried again.
        retry_after: Duration,
    },
    /// A router that was found will not do; the next one is tried.
    PassedOver {
        /// Why.
        reason: Disconnection,
    },
    /// The router refuses the name, and it never accepted
    /// it before. Final: no other was to be joined.
    Refused {
        /// Which router.
        router: Name,
        /// What it said.
        reason: Reason,
    },
    /// Since the name was published here, somebody else with this node's key has
    /// let another router carry for it: of two claims the newer one counts, so this
    /// node leaves the name to the other one. Final.
    Displaced {
        /// Who carries for the name now.
        via: Name,
    },
    /// Another process with this node's key runs, whose claim
    /// to the name is older: it is told to give up.
    Contested {
        /// Who carried for the name by that claim.
        via: Name,
    },
    /// The router does not take by which trust domain the name is to be known outside: it is not
    /// of that domain, or what it was shown is bad. Inside the name is reached all the same.
    NotExported {
        /// What the router said.
        reason: Reason,
    },
    /// The name is withdrawn and the session closed. Final.
    Left {
        /// Whether the RIB said that it holds the withdrawal.
        published: bool,
    },
    /// The router accepted a name that is served here: for the first
    /// time since it was connected, or published now.
    Serving {
        /// The name.
        name: Name,
        /// Until when the router takes this node's traffic
        /// for it; renewed with the node's own lease.
        until_s: u64,
        /// Whether the RIB holds the AdCert.
        published: bool,
    },
    /// A name is not served here any more. Unless its AdCert has
    /// expired, it is tried again at the next router.
    NotServing {
        /// The name.
        name: Name,
        /// Why.
        reason: ServiceEnd,
    },
    /// The router has this node be a part of a group, for the first time since it was connected.
    InGroup {
        /// The group.
        group: Name,
        /// Until when; it is asked again before.
        until_s: u64,
    },
    /// The router does not let this node be a part of a group; it is asked again later.
    NotInGroup {
        /// The group.
        group: Name,
        /// What the router said.
        reason: Reason,
    },
    /// The router has counted a removal against a group's members, and tells others of it; or not.
    GroupTold {
        /// The group.
        group: Name,
        /// Why it does not.
        refused: Option<Reason>,
    },
    /// Data that were taken for sending are given up.
    SendFailed {
        /// The tag they had.
        tag: u32,
        /// Who they were for.
        to: Name,
        /// Why.
        reason: SendFailure,
    },
    /// What was to make a connection is given up.
    HandshakeFailed {
        /// Who it was for.
        to: Name,
        /// Why.
        reason: SendFailure,
    },
    /// A NACK about data that were sent without keeping a
    /// copy: their sender resends what it sees fit.
    Nacked {
        /// Who they were for.
        to: Name,
        /// What the NACK said.
        reason: Reason,
    },
    /// A ping is answered.
    Pong {
        /// The ping's tag.
        tag: u32,
        /// Who answered.
        from: Name,
        /// Since it was sent last.
        rtt: Duration,
    },
    /// A router answered a ping in its destination's stead.
    PingNacked {
        /// The ping's tag.
        tag: u32,
        /// Who the ping was for.
        to: Name,
        /// What the router said.
        reason: Reason,
        /// Who it is, when it said so.
        reporter: Option<Name>,
        /// Since the ping was sent last; `None` when no copy was under way.
        rtt: Option<Duration>,
        /// Whether the ping will be sent again.
        retried: bool,
        /// What a router that ended a trace's ping shows for itself. Not verified.
        evidence: Option<Box<Evidence>>,
    },
    /// Somebody who may not send to this node did.
    SenderRefused(Refusal),
}

/// What a router shows for its right to carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The router's metadata, by its own account.
    pub metadata: Metadata,
    /// The last certificate of the chain by which the ping came to it.
    pub certificate: Certificate,
}

/// Why there is no way to the router.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disconnection {
    /// No session could be made.
    Connect {
        /// With whom.
        address: SocketAddr,
        /// Why.
        error: LinkError,
    },
    /// The router that was found is none of those that may be joined.
    NotAllowed {
        /// Where it is.
        address: SocketAddr,
        /// Who it is.
        router: Name,
    },
    /// No router was found.
    NotFound,
    /// The session ended.
    Closed(CloseReason),
    /// The router answers no advertisement.
    NoAccept,
    /// The lease ended before the router renewed it.
    LeaseEnded,
    /// The router refuses the name that it accepted before.
    Refused(Reason),
    /// This node's own key cannot sign.
    CannotSign,
}

impl fmt::Display for Disconnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect { address, error } => write!(f, "no session with {address}: {error}"),
            Self::NotAllowed { address, router } => {
                write!(f, "at {address} is {router}, which is none of the routers to join")
            }
            Self::NotFound => f.write_str("no router was found"),
            Self::Closed(CloseReason::PeerClosed) => f.write_str("the router closed the session"),
            Self::Closed(CloseReason::Silent) => f.write_str("the router fell silent"),
            Self::Closed(CloseReason::Broken) => {
                f.write_str("the TLS connection with the router broke")
            }
            Self::Closed(_) => f.write_str("the session ended"),
            Self::NoAccept => f.write_str("the router answers no advertisement"),
            Self::LeaseEnded => f.write_str("the lease ended before the router renewed it"),
            Self::Refused(reason) => write!(f, "the router refuses the name: {reason}"),
            Self::CannotSign => f.write_str("this node's key cannot sign"),
        }
    }
}

/// Why a name is not served any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceEnd {
    /// The time of its AdCert is over.
    Expired,
    /// Its owner has let another server answer since, or has withdrawn it.
    Superseded,
    /// The router refuses it.
    Refused(Reason),
}

impl fmt::Display for ServiceEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("its AdCert has expired"),
            Self::Superseded => {
                f.write_str("its owner has moved it to another server since; this one stands by")
            }
            Self::Refused(reason) => write!(f, "the router refuses it: {reason}"),
        }
    }
}

/// Why data were given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendFailure {
    /// The last NACK about them, which waiting did not cure or cannot cure.
    Nacked(Reason),
    /// There was no joined router to send them to for as long as they were kept.
    NotJoined,
    /// They were to be sent in a name that this node does not serve any more.
    NotServed,
    /// They were sent to a router that fell silent at about that time. Perhaps they arrived.
    RouterLost,
}

impl fmt::Display for SendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nacked(reason) => reason.fmt(f),
            Self::NotJoined => f.write_str("not connected to a router"),
            Self::NotServed => f.write_str("the name to send in is not served here any more"),
            Self::RouterLost => f.write_str("the router fell silent; it may not have arrived"),
        }
    }
}

//! What a program can be told went wrong. Each text is one line
//! that says what happened and what to do about it.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use rhumb_io::IoError;
use rhumb_link::LinkError;
use rhumb_trust::{AdCertError, MembershipError};
use rhumb_wire::Name;
use rhumb_wire::nack::Reason;

use crate::core::{Disconnection, MAX_SERVED, SendFailure, ServiceEnd};

/// Why a node could not join, or is of no further use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Nobody finished a handshake at the router's address in time.
    #[error(fmt = unreachable)]
    RouterUnreachable {
        /// Where the router should be.
        address: SocketAddr,
        /// Why the last try failed, if one did.
        #[source]
        last: Option<LinkError>,
    },
    /// No router was found that could be joined in time.
    #[error(fmt = none_found)]
    NoRouterFound {
        /// The root routers that were given.
        roots: Vec<SocketAddr>,
        /// What was wrong with the last router tried, if one was.
        last: Option<Box<Disconnection>>,
    },
    /// Another router is there than the one expected.
    #[error("at {address} is {actual}, not the router {expected}; correct the name or the address")]
    WrongRouter {
        /// Where.
        address: SocketAddr,
        /// Who was expected.
        expected: Name,
        /// Who is there.
        actual: Name,
    },
    /// The router shook hands but accepted the name neither in time nor at all.
    #[error("router {router} does not answer the advertisement; try again, or look at its log")]
    NoAnswer {
        /// Which router.
        router: Name,
    },
    /// The router refuses the name.
    #[error(fmt = refused)]
    Refused {
        /// Which router.
        router: Name,
        /// What it said.
        reason: Reason,
    },
    /// The router accepts the name, but could not publish it in the RIB in time.
    #[error(
        "router {router} cannot publish this name; check that its RIB runs, is reachable, and has the right time"
    )]
    NotPublished {
        /// Which router.
        router: Name,
    },
    /// The local address cannot be used, or the machine lacks something.
    #[error("{0}")]
    Io(#[from] IoError),
    /// The link cannot be set up.
    #[error("the link cannot be set up: {0}")]
    Link(#[source] LinkError),
    /// Connections cannot be set up.
    #[error("connections cannot be set up: {0}")]
    Ends(#[from] rhumb_end::EndError),
    /// The operating system refuses a thread or random numbers.
    #[error("the system refuses: {source}")]
    System {
        /// What it said.
        source: io::Error,
    },
    /// A name cannot be served.
    #[error("{0}")]
    Serve(#[from] ServeError),
    /// The router does not let this node serve a name.
    #[error("{name} is not served here: {reason}")]
    NotServing {
        /// The name.
        name: Name,
        /// Why.
        reason: ServiceEnd,
    },
    /// The router did not accept in time that this node serves a name, or could not publish it.
    #[error(
        "the router has not published in time that {name} is served here; try again, or look at its log"
    )]
    ServiceNotPublished {
        /// The name.
        name: Name,
    },
    /// The node cannot be a part of a group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The router does not let the node be a part of a group.
    #[error(fmt = not_in_group)]
    NotInGroup {
        /// Which group.
        group: Name,
        /// What the router said.
        reason: Reason,
    },
    /// The router did not count a removal against a group's members.
    #[error(fmt = not_removed)]
    NotRemoved {
        /// Which group.
        group: Name,
        /// What the router said.
        reason: Reason,
    },
    /// The router did not answer in time about a group.
    #[error(
        "the router has not answered in time about the group {group}; try again, or look at its log"
    )]
    GroupNotReached {
        /// Which group.
        group: Name,
    },
    /// Another receiver of this node has the port.
    #[error("port {port} of this node has a receiver already; use another or close that one")]
    PortInUse {
        /// Which port.
        port: u16,
    },
    /// Another process with this node's key has claimed its name
    /// since; of two claims the later one counts.
    #[error(
        "another process has joined with this key since, at router {via}; the later claim counts, so this one \
         ends: give each process a key of its own"
    )]
    Displaced {
        /// Who carries for the name now.
        via: Name,
    },
    /// The node has left, or its socket failed.
    #[error("the node is closed; join again")]
    Closed,
}

/// Why a name cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The AdCert is for another server, or does not hold now.
    #[error("{0}")]
    AdCert(#[source] AdCertError),
    /// A newer AdCert of the same owner is in use.
    #[error("{owner} is served here by a newer AdCert already; leave this one out")]
    Older {
        /// Whose name.
        owner: Name,
    },
    /// The AdCert is of another owner than the one that it should take the place of.
    #[error("the AdCert is of another name, {owner}; serve that besides, or leave it out")]
    OtherOwner {
        /// Whose name.
        owner: Name,
    },
    /// The node serves as many names as it can.
    #[error("a node serves at most {MAX_SERVED} names; start another one")]
    TooMany,
}

fn not_in_group(group: &Name, reason: &Reason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        Reason::NotAuthorised => write!(
            f,
            "the router does not let this node be a part of {group}: the membership has ended, was \
             taken back, or has not the right that it takes"
        ),
        Reason::Unreachable(_) => write!(
            f,
            "the group {group} is not reached: nobody who may be its root is there; its owner lets \
             a node be that with 'rhumb certify', and that runs 'rhumb group receive --serve'"
        ),
        reason => write!(f, "the router does not let this node be a part of {group}: {reason}"),
    }
}

fn not_removed(group: &Name, reason: &Reason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        Reason::Unreachable(_) => write!(
            f,
            "this router knows of nobody in the group {group}; tell the router at its root, or one \
             where members are"
        ),
        reason => write!(f, "the router takes no removal from the group {group}: {reason}"),
    }
}

/// Why a node cannot be a part of a group.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The membership is another name's, or does not hold now.
    #[error("{0}")]
    Membership(#[source] MembershipError),
    /// The membership is not of this group, nor of a domain that it admitted.
    #[error("the membership is of {domain}; give one of the group")]
    OtherGroup {
        /// Whose it is.
        domain: Name,
    },
    /// The membership lacks a right.
    #[error(
        "the membership has not the right {right}, by which members {to} the group; \
             have its owner admit this node with it"
    )]
    NoRight {
        /// Which one.
        right: &'static str,
        /// What it is for.
        to: &'static str,
    },
    /// The node is a part of as many groups as it can.
    #[error("a node is a part of 64 groups at most; start another one")]
    TooMany,
}

/// Why something was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// It is longer than one datagram to that name carries.
    #[error("{len} bytes do not fit one datagram; send at most {max}")]
    TooBig {
        /// Its length in bytes.
        len: usize,
        /// The longest body that fits.
        max: usize,
    },
    /// Too much was waiting for all the time allowed.
    #[error("too much waits to be sent; send slower, or try again")]
    NoRoom,
    /// It was to be sent in a name that this node does not serve.
    #[error("{name} is not served by this node; send in its own name")]
    NotServed {
        /// Which name.
        name: Name,
    },
    /// No router is joined at the moment.
    #[error("not connected to a router at the moment; try again")]
    NotJoined,
    /// What was sent to that name shortly before could not be delivered.
    /// This was not sent; trying again is allowed.
    #[error("an earlier datagram to {to} was not delivered: {reason}; try again")]
    Undelivered {
        /// To whom.
        to: Name,
        /// Why.
        reason: SendFailure,
    },
    /// The node has left.
    #[error("the node is closed; join again")]
    Closed,
}

/// Why a ping or a trace has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PingError {
    /// Nothing came back in time.
    #[error("no answer in time; the name may be offline")]
    TimedOut,
    /// A router said that it knows no way.
    #[error("no way to that name is known{}; check the name, and that its holder has joined", said_by(.reporter))]
    Unreachable {
        /// Who said so, if known.
        reporter: Option<Name>,
    },
    /// A router refused to carry it.
    #[error("refused: {reason}{}", said_by(.reporter))]
    Refused {
        /// What it said.
        reason: Reason,
        /// Who said so, if known.
        reporter: Option<Name>,
    },
    /// It could not be sent.
    #[error("{0}")]
    Send(#[from] SendError),
}

fn unreachable(
    address: &SocketAddr,
    last: &Option<LinkError>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match last {
        None | Some(LinkError::TimedOut) => write!(
            f,
            "no router answers at {address}; check the address, and that a router runs there"
        ),
        Some(error) => write!(f, "no router can be joined at {address}: {error}"),
    }
}

fn none_found(
    roots: &[SocketAddr],
    last: &Option<Box<Disconnection>>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.write_str("no router answers on the local network")?;
    if roots.is_empty() {
        f.write_str("; give the address of a router, or of root routers to try")?;
    } else {
        roots.iter().try_for_each(|root| write!(f, ", nor at {root}"))?;
        f.write_str("; check that routers run there")?;
    }
    match last {
        Some(reason) => write!(f, " ({reason})"),
        None => Ok(()),
    }
}

fn refused(router: &Name, reason: &Reason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match reason {
        Reason::NotAuthorised => write!(
            f,
            "router {router} refuses this name: its rules do not let this name in; ask whoever runs it to admit it"
        ),
        reason => write!(
            f,
            "router {router} refuses this name: {reason}; check the key and this machine's clock"
        ),
    }
}

fn said_by(reporter: &Option<Name>) -> String {
    reporter.map_or_else(String::new, |name| format!(" (says {name})"))
}

//! What a program can be told went wrong. Each text is one line that says what happened and what to do about it.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use rhumb_io::IoError;
use rhumb_link::LinkError;
use rhumb_wire::Name;
use rhumb_wire::nack::Reason;

use crate::core::{Disconnection, SendFailure};

/// Why a node could not join, or is of no further use.
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeError {
    /// Nobody finished a handshake at the router's address in time.
    RouterUnreachable {
        /// Where the router should be.
        address: SocketAddr,
        /// Why the last try failed, if one did.
        last: Option<LinkError>,
    },
    /// No router was found that could be joined in time.
    NoRouterFound {
        /// The root routers that were given.
        roots: Vec<SocketAddr>,
        /// What was wrong with the last router tried, if one was.
        last: Option<Box<Disconnection>>,
    },
    /// Another router is there than the one expected.
    WrongRouter {
        /// Where.
        address: SocketAddr,
        /// Who was expected.
        expected: Name,
        /// Who is there.
        actual: Name,
    },
    /// The router shook hands but accepted the name neither in time nor at all.
    NoAnswer {
        /// Which router.
        router: Name,
    },
    /// The router refuses the name.
    Refused {
        /// Which router.
        router: Name,
        /// What it said.
        reason: Reason,
    },
    /// The router accepts the name, but could not publish it in the RIB in time.
    NotPublished {
        /// Which router.
        router: Name,
    },
    /// The local address cannot be used, or the machine lacks something.
    Io(IoError),
    /// The link cannot be set up.
    Link(LinkError),
    /// The operating system refuses a thread or random numbers.
    System {
        /// What it said.
        source: io::Error,
    },
    /// Another receiver of this node has the port.
    PortInUse {
        /// Which port.
        port: u16,
    },
    /// The node has left, or its socket failed.
    Closed,
}

/// Why something was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// It is longer than one datagram to that name carries.
    TooBig {
        /// Its length in bytes.
        len: usize,
        /// The longest body that fits.
        max: usize,
    },
    /// Too much was waiting for all the time allowed.
    NoRoom,
    /// No router is joined at the moment.
    NotJoined,
    /// What was sent to that name shortly before could not be delivered. This was not sent; trying again is allowed.
    Undelivered {
        /// To whom.
        to: Name,
        /// Why.
        reason: SendFailure,
    },
    /// The node has left.
    Closed,
}

/// Why a ping or a trace has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PingError {
    /// Nothing came back in time.
    TimedOut,
    /// A router said that it knows no way.
    Unreachable {
        /// Who said so, if known.
        reporter: Option<Name>,
    },
    /// A router refused to carry it.
    Refused {
        /// What it said.
        reason: Reason,
        /// Who said so, if known.
        reporter: Option<Name>,
    },
    /// It could not be sent.
    Send(SendError),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RouterUnreachable { address, last: None | Some(LinkError::TimedOut) } => write!(
                f,
                "no router answers at {address}; check the address, and that a router runs there"
            ),
            Self::RouterUnreachable { address, last: Some(error) } => {
                write!(f, "no router can be joined at {address}: {error}")
            }
            Self::NoRouterFound { roots, last } => {
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
            Self::WrongRouter { address, expected, actual } => write!(
                f,
                "at {address} is {actual}, not the router {expected}; correct the name or the address"
            ),
            Self::NoAnswer { router } => write!(
                f,
                "router {router} does not answer the advertisement; try again, or look at its log"
            ),
            Self::Refused { router, reason } => write!(
                f,
                "router {router} refuses this name: {reason}; check the key and this machine's clock"
            ),
            Self::NotPublished { router } => write!(
                f,
                "router {router} cannot publish this name; check that its RIB runs and is reachable"
            ),
            Self::Io(error) => error.fmt(f),
            Self::Link(error) => write!(f, "the link cannot be set up: {error}"),
            Self::System { source } => write!(f, "the system refuses: {source}"),
            Self::PortInUse { port } => write!(
                f,
                "port {port} of this node has a receiver already; use another or close that one"
            ),
            Self::Closed => f.write_str("the node is closed; join again"),
        }
    }
}

impl std::error::Error for NodeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Link(error) | Self::RouterUnreachable { last: Some(error), .. } => Some(error),
            Self::System { source } => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooBig { len, max } => {
                write!(f, "{len} bytes do not fit one datagram; send at most {max}")
            }
            Self::NoRoom => f.write_str("too much waits to be sent; send slower, or try again"),
            Self::NotJoined => f.write_str("not connected to a router at the moment; try again"),
            Self::Undelivered { to, reason } => {
                write!(f, "an earlier datagram to {to} was not delivered: {reason}; try again")
            }
            Self::Closed => f.write_str("the node is closed; join again"),
        }
    }
}

impl std::error::Error for SendError {}

impl fmt::Display for PingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("no answer in time; the name may be offline"),
            Self::Unreachable { reporter } => {
                f.write_str("no way to that name is known")?;
                by(f, reporter)?;
                f.write_str("; check the name, and that its holder has joined")
            }
            Self::Refused { reason, reporter } => {
                write!(f, "refused: {reason}")?;
                by(f, reporter)
            }
            Self::Send(error) => error.fmt(f),
        }
    }
}

fn by(f: &mut fmt::Formatter<'_>, reporter: &Option<Name>) -> fmt::Result {
    match reporter {
        Some(name) => write!(f, " (says {name})"),
        None => Ok(()),
    }
}

impl std::error::Error for PingError {}

impl From<SendError> for PingError {
    fn from(error: SendError) -> Self {
        Self::Send(error)
    }
}

impl From<IoError> for NodeError {
    fn from(error: IoError) -> Self {
        Self::Io(error)
    }
}

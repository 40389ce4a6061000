//! What a program can be told went wrong. Each text is one line
//! that says what happened and what to do about it.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use rhumb_io::IoError;
use rhumb_link::LinkError;
use rhumb_trust::AdCertError;
use rhumb_wire::Name;
use rhumb_wire::nack::Reason;

use crate::core::{Disconnection, MAX_SERVED, SendFailure, ServiceEnd};

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
    /// A name cannot be served.
    Serve(ServeError),
    /// The router does not let this node serve a name.
    NotServing {
        /// The name.
        name: Name,
        /// Why.
        reason: ServiceEnd,
    },
    /// The router did not accept in time that this node serves a name, or could not publish it.
    ServiceNotPublished {
        /// The name.
        name: Name,
    },
    /// Another receiver of this node has the port.
    PortInUse {
        /// Which port.
        port: u16,
    },
    /// Another process with this node's key has claimed its name
    /// since; of two claims the later one counts.
    Displaced {
        /// Who carries for the name now.
        via: Name,
    },
    /// The node has left, or its socket failed.
    Closed,
}

/// Why a name cannot be served.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// The AdCert is for another server, or does not hold now.
    AdCert(AdCertError),
    /// A newer AdCert of the same owner is in use.
    Older {
        /// Whose name.
        owner: Name,
    },
    /// The AdCert is of another owner than the one that it should take the place of.
    OtherOwner {
        /// Whose name.
        owner: Name,
    },
    /// The node serves as many names as it can.
    TooMany,
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
    /// It was to be sent in a name that this node does not serve.
    NotServed {
        /// Which name.
        name: Name,
    },
    /// No router is joined at the moment.
    NotJoined,
    /// What was sent to that name shortly before could not be delivered.
    /// This was not sent; trying again is allowed.
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
            Self::Refused { router, reason: Reason::NotAuthorised } => write!(
                f,
                "router {router} refuses this name: its rules do not let this name in; ask whoever runs it to admit it"
            ),
            Self::Refused { router, reason } => write!(
                f,
                "router {router} refuses this name: {reason}; check the key and this machine's clock"
            ),
            Self::NotPublished { router } => write!(
                f,
                "router {router} cannot publish this name; check that its RIB runs, is reachable, and has the right time"
            ),
            Self::Io(error) => error.fmt(f),
            Self::Link(error) => write!(f, "the link cannot be set up: {error}"),
            Self::System { source } => write!(f, "the system refuses: {source}"),
            Self::Serve(error) => error.fmt(f),
            Self::NotServing { name, reason } => write!(f, "{name} is not served here: {reason}"),
            Self::ServiceNotPublished { name } => write!(
                f,
                "the router has not published in time that {name} is served here; try again, or look at its log"
            ),
            Self::PortInUse { port } => write!(
                f,
                "port {port} of this node has a receiver already; use another or close that one"
            ),
            Self::Displaced { via } => write!(
                f,
                "another process has joined with this key since, at router {via}; the later claim counts, so this one \
                 ends: give each process a key of its own"
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

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AdCert(error) => error.fmt(f),
            Self::Older { owner } => {
                write!(f, "{owner} is served here by a newer AdCert already; leave this one out")
            }
            Self::OtherOwner { owner } => {
                write!(
                    f,
                    "the AdCert is of another name, {owner}; serve that besides, or leave it out"
                )
            }
            Self::TooMany => {
                write!(f, "a node serves at most {MAX_SERVED} names; start another one")
            }
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::AdCert(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ServeError> for NodeError {
    fn from(error: ServeError) -> Self {
        Self::Serve(error)
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooBig { len, max } => {
                write!(f, "{len} bytes do not fit one datagram; send at most {max}")
            }
            Self::NoRoom => f.write_str("too much waits to be sent; send slower, or try again"),
            Self::NotServed { name } => {
                write!(f, "{name} is not served by this node; send in its own name")
            }
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

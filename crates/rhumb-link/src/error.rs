//! Why a session could not be made. Every value is final for the attempt it is reported about.

use std::fmt;

use rhumb_trust::x509::IdentityError;
use rhumb_wire::{Name, WireError};

/// What went wrong with an endpoint or an attempt to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkError {
    /// Nobody at the address finished a handshake in time.
    TimedOut,
    /// The peer proved another name than the caller expects.
    UnexpectedName {
        /// Who was expected.
        expected: Name,
        /// Who is there.
        actual: Name,
    },
    /// The peer's certificate proves no name.
    Identity(IdentityError),
    /// The handshake failed; the address may belong to something else.
    Handshake(HandshakeError),
    /// The peer finished a handshake but does not speak the rest of the protocol.
    Incompatible(Incompatibility),
    /// There are as many sessions as allowed.
    SessionLimit,
    /// There are as many sessions from one source as strangers there may have.
    SourceSessionLimit,
    /// Another attempt to the same address is in progress that expects another name.
    AddressBusy,
    /// Local: the certificate of our identity cannot be made.
    Certificate,
    /// Local: the configured largest datagram is too small.
    DatagramLimitTooSmall(u16),
}

/// In what a peer differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incompatibility {
    /// It did not agree to export keys for AES-256-GCM (`use_srtp`, RFC 7714).
    NoKeys,
    /// It ended the connection.
    Closed,
    /// It sent something else than session parameters.
    Parameters(WireError),
    /// It gave no session index.
    NoIndex,
    /// It receives datagrams of this size only.
    DatagramLimit(u16),
}

/// What the handshake library gave up for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandshakeError(pub(crate) dimpl::Error);

impl From<dimpl::Error> for HandshakeError {
    fn from(error: dimpl::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("nobody answered in time"),
            Self::UnexpectedName { expected, actual } => {
                write!(f, "expected {expected}, but {actual} is there")
            }
            Self::Identity(error) => write!(f, "the peer proves no name: {error}"),
            Self::Handshake(error) => write!(f, "the handshake failed: {error}"),
            Self::Incompatible(reason) => write!(f, "the peer is incompatible: {reason}"),
            Self::SessionLimit => f.write_str("there are as many sessions as allowed"),
            Self::SourceSessionLimit => {
                f.write_str("there are as many sessions from one address as strangers may have")
            }
            Self::AddressBusy => {
                f.write_str("an attempt to that address is in progress that expects another name")
            }
            Self::Certificate => f.write_str("the certificate of our identity cannot be made"),
            Self::DatagramLimitTooSmall(len) => {
                write!(f, "a largest datagram of {len} bytes is too small")
            }
        }
    }
}

impl fmt::Display for Incompatibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKeys => f.write_str("it agreed to no keys for AES-256-GCM"),
            Self::Closed => f.write_str("it ended the connection"),
            Self::Parameters(error) => write!(f, "session parameters: {error}"),
            Self::NoIndex => f.write_str("it gave no session index"),
            Self::DatagramLimit(len) => write!(f, "it receives no more than {len} bytes"),
        }
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for LinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Identity(error) => Some(error),
            Self::Handshake(error) => Some(error),
            Self::Incompatible(error) => Some(error),
            _ => None,
        }
    }
}

impl std::error::Error for Incompatibility {}
impl std::error::Error for HandshakeError {}

//! Why a session could not be made. Every value is final for the attempt it is reported about.

use rhumb_trust::x509::IdentityError;
use rhumb_wire::{Name, WireError};

/// What went wrong with an endpoint or an attempt to connect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Nobody at the address finished a handshake in time.
    #[error("nobody answered in time")]
    TimedOut,
    /// The peer proved another name than the caller expects.
    #[error("expected {expected}, but {actual} is there")]
    UnexpectedName {
        /// Who was expected.
        expected: Name,
        /// Who is there.
        actual: Name,
    },
    /// The peer's certificate proves no name.
    #[error("the peer proves no name: {0}")]
    Identity(#[source] IdentityError),
    /// The handshake failed; the address may belong to something else.
    #[error("the handshake failed: {0}")]
    Handshake(#[source] HandshakeError),
    /// The peer finished a handshake but does not speak the rest of the protocol.
    #[error("the peer is incompatible: {0}")]
    Incompatible(#[source] Incompatibility),
    /// There are as many sessions as allowed.
    #[error("there are as many sessions as allowed")]
    SessionLimit,
    /// There are as many sessions from one source as strangers there may have.
    #[error("there are as many sessions from one address as strangers may have")]
    SourceSessionLimit,
    /// Another attempt to the same address is in progress that expects another name.
    #[error("an attempt to that address is in progress that expects another name")]
    AddressBusy,
    /// Local: the certificate of our identity cannot be made.
    #[error("the certificate of our identity cannot be made")]
    Certificate,
    /// Local: the configured largest datagram is too small.
    #[error("a largest datagram of {0} bytes is too small")]
    DatagramLimitTooSmall(u16),
}

/// In what a peer differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Incompatibility {
    /// It did not agree to export keys for AES-256-GCM (`use_srtp`, RFC 7714).
    #[error("it agreed to no keys for AES-256-GCM")]
    NoKeys,
    /// It speaks TLS, and nothing of ours over it.
    #[error("it does not speak rhumb/1 over TLS")]
    Protocol,
    /// It sent more than a handshake takes.
    #[error("it sent more than a handshake takes")]
    TooMuch,
    /// It ended the connection.
    #[error("it ended the connection")]
    Closed,
    /// It sent something else than session parameters.
    #[error("session parameters: {0}")]
    Parameters(WireError),
    /// It gave no session index.
    #[error("it gave no session index")]
    NoIndex,
    /// It receives datagrams of this size only.
    #[error("it receives no more than {0} bytes")]
    DatagramLimit(u16),
}

/// What the handshake library gave up for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HandshakeError(Library);

/// Which of the two it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Library {
    #[error("{0}")]
    Dtls(dimpl::Error),
    #[error("{0}")]
    Tls(String),
}

impl HandshakeError {
    /// On a stream: what its TLS library says.
    pub fn of_stream(why: String) -> Self {
        Self(Library::Tls(why))
    }
}

impl From<dimpl::Error> for HandshakeError {
    fn from(error: dimpl::Error) -> Self {
        Self(Library::Dtls(error))
    }
}

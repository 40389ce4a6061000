//! Why a channel does not come about, or ends.

use std::fmt;
use std::io;

use rhumb_trust::x509::IdentityError;
use rhumb_wire::Name;

/// Why there is no channel, or no longer one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    // The peer's, who is another than expected.
    /// Somebody else answers there.
    #[error("{found} is there, not {expected} as was expected")]
    WrongName {
        /// Who should be there.
        expected: Name,
        /// Who is there.
        found: Name,
    },
    /// The peer's certificate proves no name.
    #[error("the peer proves no name: {0}")]
    Identity(IdentityError),
    /// The name is not admitted here.
    #[error("{0} is not admitted here")]
    Stranger(Name),
    /// The peer does not admit our name.
    #[error("our name {own} is not admitted there; is it in the peer's roster or configuration?")]
    Refused {
        /// Our own.
        own: Name,
    },
    /// The peer speaks another protocol, or another version of it.
    #[error("the peer does not speak {ours}: it is of another version, or of another kind")]
    OtherProtocol {
        /// What we speak.
        ours: String,
    },

    // The peer's, who does not keep to the protocol.
    /// It announced a message above the bound.
    #[error("a message of {len} bytes is above the bound of {most}")]
    FrameTooLong {
        /// Its length.
        len: usize,
        /// The bound.
        most: usize,
    },
    /// It said nothing, not even that it is there.
    #[error("the peer has fallen silent")]
    Silent,
    /// It takes nothing of what is sent to it.
    #[error("the peer takes nothing of what is sent to it")]
    Stalled,
    /// It ended the channel, as is its right.
    #[error("the peer ended the channel")]
    Closed,
    /// The connection ended without a goodbye, perhaps within a message.
    #[error("the connection ended without a goodbye")]
    Cut,

    // The environment's.
    /// The handshake took too long.
    #[error("the handshake took too long")]
    TimedOut,
    /// TLS failed in another way.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// TCP failed.
    #[error("{0}")]
    Io(io::Error),
    /// Local: no certificate can be made of the identity.
    #[error("no certificate can be made of the key")]
    Certificate,
}

/// Why a message cannot be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// Too much waits already: the peer reads too slowly.
    #[error("too much waits to be sent already")]
    Full,
    /// The channel has ended.
    #[error("the channel has ended")]
    Closed,
    /// The message is above the bound of its protocol.
    #[error("the message is above the bound of its protocol")]
    TooLong,
}

/// What a verifier of ours says, carried through the TLS library.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Refusal {
    WrongName { expected: Name, found: Name },
    Identity(IdentityError),
    Stranger(Name),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ChannelError::from(*self).fmt(f)
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for ChannelError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::WrongName { expected, found } => Self::WrongName { expected, found },
            Refusal::Identity(error) => Self::Identity(error),
            Refusal::Stranger(name) => Self::Stranger(name),
        }
    }
}

impl From<Refusal> for rustls::Error {
    fn from(refusal: Refusal) -> Self {
        let carried = rustls::OtherError(std::sync::Arc::new(refusal));
        rustls::CertificateError::Other(carried).into()
    }
}

impl From<rustls::Error> for ChannelError {
    fn from(error: rustls::Error) -> Self {
        if let rustls::Error::InvalidCertificate(rustls::CertificateError::Other(carried)) = &error
            && let Some(refusal) = carried.0.downcast_ref::<Refusal>()
        {
            return Self::from(*refusal);
        }
        Self::Tls(error)
    }
}

impl From<io::Error> for ChannelError {
    /// The TLS library's errors travel in those of the stream.
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(tls) => Self::from(tls.clone()),
            None if error.kind() == io::ErrorKind::UnexpectedEof => Self::Cut,
            None => Self::Io(error),
        }
    }
}

impl ChannelError {
    /// The same, where an alert of the server means that it does not
    /// admit `own`, or does not speak `protocol`.
    pub(crate) fn explained(self, own: Name, protocol: &str) -> Self {
        use rustls::AlertDescription as Alert;
        match self {
            Self::Tls(rustls::Error::AlertReceived(
                Alert::CertificateUnknown
                | Alert::BadCertificate
                | Alert::AccessDenied
                | Alert::CertificateRequired,
            )) => Self::Refused { own },
            Self::Tls(
                rustls::Error::AlertReceived(Alert::NoApplicationProtocol)
                | rustls::Error::NoApplicationProtocol,
            ) => Self::OtherProtocol { ours: protocol.to_owned() },
            other => other,
        }
    }
}

//! Why a channel does not come about, or ends.

use std::fmt;
use std::io;

use rhumb_trust::x509::IdentityError;
use rhumb_wire::Name;

/// Why there is no channel, or no longer one.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChannelError {
    // The peer's, who is another than expected.
    /// Somebody else answers there.
    WrongName {
        /// Who should be there.
        expected: Name,
        /// Who is there.
        found: Name,
    },
    /// The peer's certificate proves no name.
    Identity(IdentityError),
    /// The name is not admitted here.
    Stranger(Name),
    /// The peer does not admit our name.
    Refused {
        /// Our own.
        own: Name,
    },
    /// The peer speaks another protocol, or another version of it.
    OtherProtocol {
        /// What we speak.
        ours: String,
    },

    // The peer's, who does not keep to the protocol.
    /// It announced a message above the bound.
    FrameTooLong {
        /// Its length.
        len: usize,
        /// The bound.
        most: usize,
    },
    /// It said nothing, not even that it is there.
    Silent,
    /// It takes nothing of what is sent to it.
    Stalled,
    /// It ended the channel, as is its right.
    Closed,
    /// The connection ended without a goodbye, perhaps within a message.
    Cut,

    // The environment's.
    /// The handshake took too long.
    TimedOut,
    /// TLS failed in another way.
    Tls(rustls::Error),
    /// TCP failed.
    Io(io::Error),
    /// Local: no certificate can be made of the identity.
    Certificate,
}

/// Why a message cannot be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// Too much waits already: the peer reads too slowly.
    Full,
    /// The channel has ended.
    Closed,
    /// The message is above the bound of its protocol.
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
        match self {
            Self::WrongName { expected, found } => {
                write!(f, "{found} is there, not {expected} as was expected")
            }
            Self::Identity(error) => write!(f, "the peer proves no name: {error}"),
            Self::Stranger(name) => write!(f, "{name} is not admitted here"),
        }
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

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongName { expected, found } => {
                Refusal::WrongName { expected: *expected, found: *found }.fmt(f)
            }
            Self::Identity(error) => Refusal::Identity(*error).fmt(f),
            Self::Stranger(name) => Refusal::Stranger(*name).fmt(f),
            Self::Refused { own } => {
                write!(
                    f,
                    "our name {own} is not admitted there; is it in the peer's roster or configuration?"
                )
            }
            Self::OtherProtocol { ours } => {
                write!(
                    f,
                    "the peer does not speak {ours}: it is of another version, or of another kind"
                )
            }
            Self::FrameTooLong { len, most } => {
                write!(f, "a message of {len} bytes is above the bound of {most}")
            }
            Self::Silent => f.write_str("the peer has fallen silent"),
            Self::Stalled => f.write_str("the peer takes nothing of what is sent to it"),
            Self::Closed => f.write_str("the peer ended the channel"),
            Self::Cut => f.write_str("the connection ended without a goodbye"),
            Self::TimedOut => f.write_str("the handshake took too long"),
            Self::Tls(error) => write!(f, "TLS: {error}"),
            Self::Io(error) => error.fmt(f),
            Self::Certificate => f.write_str("no certificate can be made of the key"),
        }
    }
}

impl std::error::Error for ChannelError {}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "too much waits to be sent already",
            Self::Closed => "the channel has ended",
            Self::TooLong => "the message is above the bound of its protocol",
        })
    }
}

impl std::error::Error for SendError {}

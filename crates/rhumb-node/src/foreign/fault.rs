//! Errors by what a program can do about them, for languages that tell errors apart by class or
//! number. Every text is one line.

use std::fmt;
use std::io;

use rhumb_end::{
    BUSY, DatagramError, EndError, NOT_ALLOWED, PORT_CLOSED, SERVICE_FAILED, StreamError,
};
use rhumb_trust::{AdCertError, MembershipError, TrustError};

use crate::transfer::TransferError;
use crate::{NodeError, PingError, SendError, ServeError, stream_error};

/// What went wrong, by what a program can do about it, and in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// By what can be done.
    pub kind: FaultKind,
    /// What happened, and what to do.
    pub text: String,
}

/// What can be done about a fault. The numbers are for languages without enums, and stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum FaultKind {
    /// Something that the program gave is not what it should be: correct the program.
    Invalid = 1,
    /// A file of a key, an AdCert or a membership is missing, damaged, or another one's.
    KeyFile = 2,
    /// Nobody answers, or there is no way: try again later, or look at the network.
    Unreachable = 3,
    /// Somebody answers, and does not want this: ask whoever runs it.
    Refused = 4,
    /// It took longer than was allowed.
    TimedOut = 5,
    /// It is over: join, connect or open anew.
    Closed = 6,
    /// It is longer than one datagram carries.
    TooBig = 7,
    /// There is no room, or somebody has it: try again, slower, or take another.
    Busy = 8,
    /// The system, or a library, refuses.
    System = 9,
}

impl Fault {
    /// A fault of this kind.
    pub fn new(kind: FaultKind, text: impl fmt::Display) -> Self {
        Self { kind, text: text.to_string() }
    }

    /// Something that the program gave is not what it should be.
    pub fn invalid(text: impl fmt::Display) -> Self {
        Self::new(FaultKind::Invalid, text)
    }

    /// Of reading from a [`crate::Stream`] or writing to it.
    pub fn of_stream(error: &io::Error) -> Self {
        match stream_error(error) {
            Some(error) => error.clone().into(),
            None => Self::new(FaultKind::System, error),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

impl From<NodeError> for Fault {
    fn from(error: NodeError) -> Self {
        use FaultKind::{Busy, Closed, Refused, System, TimedOut, Unreachable};
        let kind = match error {
            NodeError::Ends(error) => return error.into(),
            NodeError::Serve(error) => return error.into(),
            NodeError::RouterUnreachable { .. }
            | NodeError::NoRouterFound { .. }
            | NodeError::NoAnswer { .. } => Unreachable,
            NodeError::WrongRouter { .. }
            | NodeError::Refused { .. }
            | NodeError::NotServing { .. }
            | NodeError::Group(_)
            | NodeError::NotInGroup { .. }
            | NodeError::NotRemoved { .. } => Refused,
            NodeError::NotPublished { .. }
            | NodeError::ServiceNotPublished { .. }
            | NodeError::GroupNotReached { .. } => TimedOut,
            NodeError::PortInUse { .. } => Busy,
            NodeError::Displaced { .. } | NodeError::Closed => Closed,
            NodeError::Io(_) | NodeError::Link(_) | NodeError::System { .. } => System,
        };
        Self::new(kind, error)
    }
}

impl From<ServeError> for Fault {
    fn from(error: ServeError) -> Self {
        let kind = match error {
            ServeError::AdCert(_) => FaultKind::KeyFile,
            ServeError::Older { .. } | ServeError::OtherOwner { .. } => FaultKind::Invalid,
            ServeError::TooMany => FaultKind::Busy,
        };
        Self::new(kind, error)
    }
}

impl From<EndError> for Fault {
    fn from(error: EndError) -> Self {
        use FaultKind::{Busy, Closed, Invalid, Refused, System, Unreachable};
        let kind = match error {
            EndError::NoAnswer(_) | EndError::Unreachable(_) => Unreachable,
            EndError::Refused(_)
            | EndError::OtherVersion(_)
            | EndError::NotProven(_)
            | EndError::ProofRefused(_)
            | EndError::NotAllowed(_) => Refused,
            EndError::Lost(_)
            | EndError::Forgotten(_)
            | EndError::ClosedByPeer { .. }
            | EndError::ProofEnded(_)
            | EndError::Protocol { .. }
            | EndError::Closed => Closed,
            EndError::TooMany => Busy,
            EndError::NotOurs(_) | EndError::OwnName => Invalid,
            _ => System,
        };
        Self::new(kind, error)
    }
}

impl From<StreamError> for Fault {
    fn from(error: StreamError) -> Self {
        let kind = match error {
            StreamError::Connection(error) => return error.into(),
            StreamError::Ended { code: PORT_CLOSED | NOT_ALLOWED | SERVICE_FAILED } => {
                FaultKind::Refused
            }
            StreamError::Ended { code: BUSY } => FaultKind::Busy,
            _ => FaultKind::Closed,
        };
        Self::new(kind, error)
    }
}

impl From<DatagramError> for Fault {
    fn from(error: DatagramError) -> Self {
        let kind = match error {
            DatagramError::Connection(error) => return error.into(),
            DatagramError::TooBig { .. } => FaultKind::TooBig,
            DatagramError::NoRoom => FaultKind::Busy,
            DatagramError::NotTaken => FaultKind::Refused,
            DatagramError::NoAnswerTaken => FaultKind::Invalid,
            _ => FaultKind::System,
        };
        Self::new(kind, error)
    }
}

impl From<SendError> for Fault {
    fn from(error: SendError) -> Self {
        let kind = match error {
            SendError::TooBig { .. } => FaultKind::TooBig,
            SendError::NoRoom => FaultKind::Busy,
            SendError::NotServed { .. } => FaultKind::Invalid,
            SendError::NotJoined | SendError::Undelivered { .. } => FaultKind::Unreachable,
            SendError::Closed => FaultKind::Closed,
        };
        Self::new(kind, error)
    }
}

impl From<PingError> for Fault {
    fn from(error: PingError) -> Self {
        let kind = match error {
            PingError::Send(error) => return error.into(),
            PingError::TimedOut => FaultKind::TimedOut,
            PingError::Unreachable { .. } => FaultKind::Unreachable,
            PingError::Refused { .. } => FaultKind::Refused,
        };
        Self::new(kind, error)
    }
}

impl From<TransferError> for Fault {
    fn from(error: TransferError) -> Self {
        let kind = match error {
            TransferError::Connection(error) => return error.into(),
            TransferError::Stream(error) => return error.into(),
            TransferError::EndedByPeer(_) | TransferError::NoReceiver => FaultKind::Refused,
            TransferError::NoProgress => FaultKind::TimedOut,
            TransferError::Stopped | TransferError::NotKept | TransferError::Corrupt => {
                FaultKind::Closed
            }
            TransferError::Read(_) | TransferError::Write(_) => FaultKind::System,
        };
        Self::new(kind, error)
    }
}

impl From<TrustError> for Fault {
    fn from(error: TrustError) -> Self {
        let kind = match error {
            TrustError::Crypto => FaultKind::System,
            _ => FaultKind::KeyFile,
        };
        Self::new(kind, error)
    }
}

impl From<MembershipError> for Fault {
    fn from(error: MembershipError) -> Self {
        Self::new(FaultKind::KeyFile, error)
    }
}

impl From<AdCertError> for Fault {
    fn from(error: AdCertError) -> Self {
        Self::new(FaultKind::KeyFile, error)
    }
}

#[cfg(test)]
mod tests {
    use rhumb_end::CANCELLED;
    use rhumb_wire::Name;

    use super::*;

    #[test]
    fn what_other_ends_say_is_told_apart() {
        let of = |code| Fault::from(StreamError::Ended { code }).kind;
        assert_eq!(of(PORT_CLOSED), FaultKind::Refused);
        assert_eq!(of(BUSY), FaultKind::Busy);
        assert_eq!(of(CANCELLED), FaultKind::Closed);
        let error = io::Error::new(io::ErrorKind::ConnectionReset, StreamError::Closed);
        assert_eq!(Fault::of_stream(&error).kind, FaultKind::Closed);
        assert_eq!(Fault::from(EndError::Unreachable(Name([7; 32]))).kind, FaultKind::Unreachable);
    }

    #[test]
    fn a_fault_of_a_connection_is_one_wherever_it_shows() {
        let lost = EndError::Lost(Name([7; 32]));
        let expected = Fault::from(lost.clone());
        assert_eq!(Fault::from(StreamError::Connection(lost.clone())), expected);
        assert_eq!(Fault::from(DatagramError::Connection(lost.clone())), expected);
        assert_eq!(Fault::from(NodeError::Ends(lost)), expected);
    }
}

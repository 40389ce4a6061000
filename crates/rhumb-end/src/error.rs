//! What a program can be told went wrong between two ends. Each text is one line that says what
//! happened and what to do about it.

use rhumb_trust::x509::IdentityError;
use rhumb_wire::Name;

/// Why there is no connection, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndError {
    /// Nobody answered in time.
    #[error("{0} does not answer in time; it may be offline, or run a version without connections")]
    NoAnswer(Name),
    /// The network says that there is no way to the name.
    #[error("no way to {0} is known; check the name, and that its holder has joined")]
    Unreachable(Name),
    /// The other end takes no connections from this name.
    #[error(
        "{0} takes no connections from this name; ask its holder to allow it, and to serve something"
    )]
    Refused(Name),
    /// The other end speaks another version.
    #[error("{0} speaks another version of connections; bring both to the same release")]
    OtherVersion(Name),
    /// The other end did not prove to be who it should be: somebody on the way redirects.
    #[error("who answered is not the name that was asked for: {0}")]
    NotProven(ProofError),
    /// The other end does not believe that we are who we say.
    #[error(
        "{0} does not accept this end's proof of its name; check both clocks, and the AdCert if one is used"
    )]
    ProofRefused(Name),
    /// Nothing came from the other end for too long.
    #[error("{0} fell silent")]
    Lost(Name),
    /// The other end began anew, and knows nothing of the connection.
    #[error("{0} has restarted; connect again")]
    Forgotten(Name),
    /// The other end closed the connection.
    #[error("{peer} closed the connection (code {code})")]
    ClosedByPeer {
        /// Who.
        peer: Name,
        /// What it gave as reason: 0 when it was done.
        code: u64,
    },
    /// The word of a name's owner, by which the other end spoke for it, has ended.
    #[error("the AdCert of {0} has ended")]
    ProofEnded(Name),
    /// The rules of this end let its peer in no longer.
    #[error("the rules of this end, or the end of its membership, keep {0} out")]
    NotAllowed(Name),
    /// This end closed it.
    #[error("the connection is closed")]
    Closed,
    /// The other end broke the rules of QUIC.
    #[error("{peer} broke the protocol: {what}")]
    Protocol {
        /// Who.
        peer: Name,
        /// How.
        what: String,
    },
    /// There are as many connections as this end takes.
    #[error("this end has as many connections as it can; close some")]
    TooMany,
    /// A name that this end neither has nor serves.
    #[error("{0} is not a name of this end")]
    NotOurs(Name),
    /// An end does not connect to itself.
    #[error("an end does not connect to itself")]
    OwnName,
    /// The cryptographic library refuses a key or a certificate.
    #[error("the cryptographic library failed")]
    Library,
}

/// Why a certificate does not prove the name that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// It proves no name at all.
    #[error("{0}")]
    Identity(IdentityError),
    /// It proves another name.
    #[error("expected {expected}, found {found}; somebody on the way redirects, or the name moved")]
    WrongName {
        /// Who was asked for.
        expected: Name,
        /// Who answered.
        found: Name,
    },
    /// The owner's word for the server does not hold now.
    #[error("the AdCert of {owner} for {server} does not hold now; check the clocks, or renew it")]
    NotInForce {
        /// Whose name.
        owner: Name,
        /// Who answers for it.
        server: Name,
    },
    /// It is our own name: we are talking to ourselves, or to a mirror.
    #[error("it is our own name")]
    OwnName,
}

/// Why nothing can be read from a stream or written to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The other end gave the stream up.
    #[error("{}", code_text(*.code))]
    Ended {
        /// Why: see the codes of this crate.
        code: u64,
    },
    /// The connection is over.
    #[error("{0}")]
    Connection(#[from] EndError),
    /// This end finished, reset or stopped it before.
    #[error("the stream is closed")]
    Closed,
}

/// Why a datagram was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatagramError {
    /// It is longer than one packet carries.
    #[error("{len} bytes do not fit one datagram; send at most {max}")]
    TooBig {
        /// Its length in bytes.
        len: usize,
        /// The longest that fits now.
        max: usize,
    },
    /// As many wait as can.
    #[error("too much waits to be sent; send slower, or try again")]
    NoRoom,
    /// The other end takes none.
    #[error("the other end takes no datagrams")]
    NotTaken,
    /// The one that it answers came from no port.
    #[error("its sender takes no answer")]
    NoAnswerTaken,
    /// The connection is over, or not made yet.
    #[error("{0}")]
    Connection(#[from] EndError),
}

/// What the codes of streams say, for people.
fn code_text(code: u64) -> String {
    match code {
        PORT_CLOSED => "nothing is served on that port".to_owned(),
        NOT_ALLOWED => "this name may not use that port; ask its holder to allow it".to_owned(),
        BUSY => "the program on that port does not keep up; try again".to_owned(),
        CANCELLED => "the program at the other end gave the stream up".to_owned(),
        SERVICE_FAILED => "the program behind that port cannot be reached".to_owned(),
        other => format!("the stream was ended with code {other}"),
    }
}

/// A stream's end: nobody serves the port.
pub const PORT_CLOSED: u64 = 1;
/// A stream's end: whoever serves the port does not serve it to that name.
pub const NOT_ALLOWED: u64 = 2;
/// A stream's end: as many streams wait at the port as can.
pub const BUSY: u64 = 3;
/// A stream's end: the program that had it is gone, or wants no more.
pub const CANCELLED: u64 = 4;
/// A stream's end: what the port leads to cannot be reached.
pub const SERVICE_FAILED: u64 = 5;

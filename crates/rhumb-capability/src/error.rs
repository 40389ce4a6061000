//! Why something could not be made, read or stamped. What is wrong with a packet is a
//! [`DropReason`](crate::DropReason).

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// What went wrong, by whose fault.
#[derive(Debug)]
#[non_exhaustive]
pub enum CapabilityError {
    // The input's.
    /// Text that names none of the things of this kind.
    UnknownText(&'static str),
    /// A field of a record or a text that holds no such thing.
    Malformed(&'static str),
    /// A line of a capability file.
    FileLine {
        /// Counted from 1; 0 where the file ends too early.
        line: usize,
    },
    /// A capability file that others may read.
    FileTooOpen {
        /// Which one.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },

    // The caller's.
    /// A prefix with bits beyond its length, or longer than its address.
    NotAPrefix {
        /// The address given.
        address: IpAddr,
        /// The length given.
        len: u8,
    },
    /// Above its bound.
    TooLarge {
        /// What is.
        what: &'static str,
        /// The bound, itself allowed.
        limit: u64,
    },
    /// A delegation that is not within the one before.
    NotNested,
    /// A delegation that the scheme does not allow.
    SchemeRefuses(&'static str),
    /// Capabilities of one packet that differ in suite or family of addresses.
    Mixed(&'static str),
    /// No capability, or more than four.
    CapabilityCount(usize),
    /// Below a bound or outside a range.
    BadParameter(&'static str),

    // The packet's, when it is to be stamped.
    /// Not an IP packet of the capabilities' family.
    NotAPacket,
    /// No room before the packet.
    Headroom {
        /// Bytes that are there.
        given: usize,
        /// Bytes that are needed.
        needed: usize,
    },
    /// The destination is outside of what was delegated.
    OutsidePrefix,
    /// It has become too large for an IP packet.
    PacketTooLarge,

    // The environment's.
    /// A file could not be read or written.
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The cryptographic library failed.
    Crypto,
}

impl fmt::Display for CapabilityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownText(what) => write!(f, "there is no such {what}"),
            Self::Malformed(field) => write!(f, "{field} is malformed"),
            Self::FileLine { line: 0 } => f.write_str("the capability file ends too early"),
            Self::FileLine { line } => write!(f, "line {line} of the capability file is wrong"),
            Self::FileTooOpen { path, mode } => {
                write!(f, "{}: mode {mode:o} lets others read it; chmod 600 it", path.display())
            }
            Self::NotAPrefix { address, len } => write!(f, "{address}/{len} is not a prefix"),
            Self::TooLarge { what, limit } => write!(f, "{what} is above its bound of {limit}"),
            Self::NotNested => f.write_str("the prefix is not within the one delegated before"),
            Self::SchemeRefuses(why) => write!(f, "the delegation scheme refuses: {why}"),
            Self::Mixed(what) => write!(f, "the capabilities of a packet differ in their {what}"),
            Self::CapabilityCount(count) => {
                write!(f, "{count} capabilities; a packet carries 1 to 4")
            }
            Self::BadParameter(what) => write!(f, "{what} is out of its range"),
            Self::NotAPacket => f.write_str("not an IP packet of the capabilities' family"),
            Self::Headroom { given, needed } => {
                write!(f, "{given} bytes before the packet, {needed} are needed")
            }
            Self::OutsidePrefix => {
                f.write_str("the destination is outside of the delegated prefix")
            }
            Self::PacketTooLarge => f.write_str("the stamped packet would exceed 65535 bytes"),
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Crypto => f.write_str("the cryptographic library failed"),
        }
    }
}

impl std::error::Error for CapabilityError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// So that tests can compare: an I/O error equals one of its kind.
impl PartialEq for CapabilityError {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { path, source }, Self::File { path: other, source: its }) => {
                path == other && source.kind() == its.kind()
            }
            _ => format!("{self:?}") == format!("{other:?}"),
        }
    }
}

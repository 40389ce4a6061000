//! Why something could not be made, read or stamped. What is wrong with a packet is a
//! [`DropReason`](crate::DropReason).

use std::net::IpAddr;
use std::path::PathBuf;

/// What went wrong, by whose fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CapabilityError {
    // The input's.
    /// Text that names none of the things of this kind.
    #[error("there is no such {0}")]
    UnknownText(&'static str),
    /// A field of a record or a text that holds no such thing.
    #[error("{0} is malformed")]
    Malformed(&'static str),
    /// A line of a capability file.
    #[error("{}", damage(*.line))]
    FileLine {
        /// Counted from 1; 0 where the file ends too early.
        line: usize,
    },
    /// A capability file that others may read.
    #[error("{path}: mode {mode:o} lets others read it; chmod 600 it")]
    FileTooOpen {
        /// Which one.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },

    // The caller's.
    /// A prefix with bits beyond its length, or longer than its address.
    #[error("{address}/{len} is not a prefix")]
    NotAPrefix {
        /// The address given.
        address: IpAddr,
        /// The length given.
        len: u8,
    },
    /// Above its bound.
    #[error("{what} is above its bound of {limit}")]
    TooLarge {
        /// What is.
        what: &'static str,
        /// The bound, itself allowed.
        limit: u64,
    },
    /// A delegation that is not within the one before.
    #[error("the prefix is not within the one delegated before")]
    NotNested,
    /// A delegation that the scheme does not allow.
    #[error("the delegation scheme refuses: {0}")]
    SchemeRefuses(&'static str),
    /// Capabilities of one packet that differ in suite or family of addresses.
    #[error("the capabilities of a packet differ in their {0}")]
    Mixed(&'static str),
    /// No capability, or more than four.
    #[error("{0} capabilities; a packet carries 1 to 4")]
    CapabilityCount(usize),
    /// Below a bound or outside a range.
    #[error("{0} is out of its range")]
    BadParameter(&'static str),

    // The packet's, when it is to be stamped.
    /// Not an IP packet of the capabilities' family.
    #[error("not an IP packet of the capabilities' family")]
    NotAPacket,
    /// No room before the packet.
    #[error("{given} bytes before the packet, {needed} are needed")]
    Headroom {
        /// Bytes that are there.
        given: usize,
        /// Bytes that are needed.
        needed: usize,
    },
    /// The destination is outside of what was delegated.
    #[error("the destination is outside of the delegated prefix")]
    OutsidePrefix,
    /// It has become too large for an IP packet.
    #[error("the stamped packet would exceed 65535 bytes")]
    PacketTooLarge,

    // The environment's.
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The cryptographic library failed.
    #[error("the cryptographic library failed")]
    Crypto,
}

fn damage(line: usize) -> String {
    match line {
        0 => "the capability file ends too early".to_owned(),
        line => format!("line {line} of the capability file is wrong"),
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

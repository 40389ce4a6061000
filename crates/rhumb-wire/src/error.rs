//! Why bytes were not what they claimed to be. One enum for the
//! whole crate; every value is the sender's fault.

use std::fmt;

/// Why a parser refused its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The input ends before the structure does.
    Truncated,
    /// Bytes follow the end of the structure.
    TrailingBytes,
    /// A magic value is not the protocol's.
    BadMagic,
    /// A version this code does not speak.
    UnknownVersion(u8),
    /// A tag that names no known variant of the field given.
    UnknownVariant {
        /// The field that held the tag.
        field: &'static str,
        /// The tag seen.
        value: u8,
    },
    /// The value is known, but this is not its one encoding.
    NotCanonical(&'static str),
    /// A field holds more than its bound.
    TooLong {
        /// The field that is too long.
        field: &'static str,
        /// Its bound, in items or bytes.
        limit: usize,
    },
    /// Text that is not a name.
    BadNameText,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the input ends too early"),
            Self::TrailingBytes => f.write_str("bytes follow the end of the structure"),
            Self::BadMagic => f.write_str("the magic value is not the protocol's"),
            Self::UnknownVersion(version) => write!(f, "version {version} is not known"),
            Self::UnknownVariant { field, value } => write!(f, "{field} {value} is not known"),
            Self::NotCanonical(field) => write!(f, "{field} is not in its canonical form"),
            Self::TooLong { field, limit } => write!(f, "{field} exceeds its bound of {limit}"),
            Self::BadNameText => f.write_str("a name is 52 characters of a-z and 2-7"),
        }
    }
}

impl std::error::Error for WireError {}

//! Why bytes were not what they claimed to be. One enum for the
//! whole crate; every value is the sender's fault.

/// Why a parser refused its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The input ends before the structure does.
    #[error("the input ends too early")]
    Truncated,
    /// Bytes follow the end of the structure.
    #[error("bytes follow the end of the structure")]
    TrailingBytes,
    /// A magic value is not the protocol's.
    #[error("the magic value is not the protocol's")]
    BadMagic,
    /// A version this code does not speak.
    #[error("version {0} is not known")]
    UnknownVersion(u8),
    /// A tag that names no known variant of the field given.
    #[error("{field} {value} is not known")]
    UnknownVariant {
        /// The field that held the tag.
        field: &'static str,
        /// The tag seen.
        value: u8,
    },
    /// The value is known, but this is not its one encoding.
    #[error("{0} is not in its canonical form")]
    NotCanonical(&'static str),
    /// A field holds more than its bound.
    #[error("{field} exceeds its bound of {limit}")]
    TooLong {
        /// The field that is too long.
        field: &'static str,
        /// Its bound, in items or bytes.
        limit: usize,
    },
    /// Text that is not a name.
    #[error("a name is 52 characters of a-z and 2-7")]
    BadNameText,
}

//! The first four bytes of what one node sends to
//! another: what kind of payload, and for which port.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | kind: 1 datagram, 2 transfer |
//! | 1 | 1 | zero |
//! | 2 | 2 | port: which of the destination's programs it is for |
//!
//! Switches never read this. It is exactly as long as the shortest NACK,
//! so that every payload can be answered by one.

use crate::WireError;
use crate::reader::Reader;

/// What a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PayloadKind {
    /// One datagram of an application.
    Datagram = 1,
    /// A message of a file transfer.
    Transfer = 2,
}

/// The header of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadHeader {
    /// What follows.
    pub kind: PayloadKind,
    /// Which program of the destination it is for.
    pub port: u16,
}

impl PayloadHeader {
    /// Bytes before the body.
    pub const LEN: usize = 4;

    /// Splits a payload into its header and its body.
    ///
    /// # Errors
    /// When the payload is shorter than its header or of no known kind.
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let mut reader = Reader::new(payload);
        let kind = match reader.u8()? {
            1 => PayloadKind::Datagram,
            2 => PayloadKind::Transfer,
            value => return Err(WireError::UnknownVariant { field: "payload kind", value }),
        };
        reader.zero("payload")?;
        let port = reader.u16()?;
        Ok((Self { kind, port }, reader.rest()))
    }

    /// The header's bytes.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let [high, low] = self.port.to_be_bytes();
        [self.kind as u8, 0, high, low]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_is_strict() {
        let header = PayloadHeader { kind: PayloadKind::Transfer, port: 515 };
        let mut payload = header.emit().to_vec();
        payload.extend_from_slice(b"body");
        assert_eq!(PayloadHeader::parse(&payload), Ok((header, &b"body"[..])));
        payload[1] = 1;
        assert!(PayloadHeader::parse(&payload).is_err());
        assert_eq!(PayloadHeader::parse(&[1, 0, 0]), Err(WireError::Truncated));
        assert_eq!(PayloadHeader::LEN, crate::nack::Nack::MIN_LEN);
    }
}

//! The first four bytes of what one node sends to
//! another: what kind of payload, and for which port.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | kind: 1 datagram, 3 of a connection, 4 half of one of a connection, 5 record of a connection |
//! | 1 | 1 | zero |
//! | 2 | 2 | port: which of the destination's programs it is for; of kinds 3 and 5 zero, of kind 4 a number that both halves have |
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
    /// A QUIC datagram between two names.
    Connection = 3,
    /// Half of a QUIC datagram that does not fit one PDU: see [`Half`].
    Half = 4,
    /// A record that is sealed with keys of a connection.
    Record = 5,
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
            3 => PayloadKind::Connection,
            4 => PayloadKind::Half,
            5 => PayloadKind::Record,
            value => return Err(WireError::UnknownVariant { field: "payload kind", value }),
        };
        reader.zero("payload")?;
        let port = reader.u16()?;
        if matches!(kind, PayloadKind::Connection | PayloadKind::Record) && port != 0 {
            return Err(WireError::NotCanonical("the port of a connection"));
        }
        Ok((Self { kind, port }, reader.rest()))
    }

    /// The header's bytes.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let [high, low] = self.port.to_be_bytes();
        [self.kind as u8, 0, high, low]
    }
}

/// The body of a payload of kind [`PayloadKind::Half`]: which half it is, 0 or 1, and its bytes, at
/// least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Half<'a> {
    /// Whether it is the second.
    pub is_second: bool,
    /// What it holds.
    pub bytes: &'a [u8],
}

impl<'a> Half<'a> {
    /// Bytes before those that it holds.
    pub const HEAD_LEN: usize = 1;

    /// Reads the body.
    ///
    /// # Errors
    /// When it is neither half, or holds nothing.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let is_second = match reader.u8()? {
            0 => false,
            1 => true,
            value => return Err(WireError::UnknownVariant { field: "half", value }),
        };
        match reader.rest() {
            [] => Err(WireError::Truncated),
            bytes => Ok(Self { is_second, bytes }),
        }
    }

    /// Appends the body.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_second));
        out.extend_from_slice(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_is_strict() {
        let header = PayloadHeader { kind: PayloadKind::Datagram, port: 515 };
        let mut payload = header.emit().to_vec();
        payload.extend_from_slice(b"body");
        assert_eq!(PayloadHeader::parse(&payload), Ok((header, &b"body"[..])));
        payload[1] = 1;
        assert!(PayloadHeader::parse(&payload).is_err());
        assert_eq!(PayloadHeader::parse(&[1, 0, 0]), Err(WireError::Truncated));
        assert_eq!(PayloadHeader::LEN, crate::nack::Nack::MIN_LEN);
        assert!(PayloadHeader::parse(&[3, 0, 0, 0]).is_ok());
        assert!(PayloadHeader::parse(&[3, 0, 0, 1]).is_err());
        assert!(PayloadHeader::parse(&[5, 0, 0, 0]).is_ok());
        assert!(PayloadHeader::parse(&[5, 0, 0, 1]).is_err());
        for unknown in [0, 2, 6] {
            assert!(PayloadHeader::parse(&[unknown, 0, 0, 0]).is_err());
        }
    }

    #[test]
    fn a_half_is_the_first_or_the_second_and_holds_something() {
        let mut body = Vec::new();
        let half = Half { is_second: true, bytes: b"x" };
        half.emit(&mut body);
        assert_eq!(Half::parse(&body), Ok(half));
        assert_eq!(Half::parse(&[]), Err(WireError::Truncated));
        assert_eq!(Half::parse(&[0]), Err(WireError::Truncated));
        assert!(Half::parse(&[2, 0]).is_err());
    }
}

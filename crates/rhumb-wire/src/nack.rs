//! NACK: a PDU could not be carried, and what its source should do (GDP paper, section 3.3).
//!
//! The NACK's header has the source and destination of the PDU it is
//! about, exchanged, and that PDU's tag. Its data:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | reason |
//! | 1 | 1 | zero |
//! | 2 | 2 | value: milliseconds to wait, bytes of the largest data, or what is wrong with a capability |
//! | 4 | 32 | optional: the name of the router that reports |
//! | 36 | .. | optional: that router's metadata, in a "TTL exceeded" about a ping with room for it |
//!
//! With the metadata comes one certificate, the last of the chain by which the ping came to the
//! router: the evidence of its right to carry for whoever pinged.
//!
//! With "superseded" comes one certificate, too: the newer
//! statement, by which its issuer knows where to go on.
//!
//! A NACK is never sent about a NACK and never larger than what it is about: the
//! reporter's name is left out where data and certificates of the PDU had less than 36
//! bytes together, and nothing is sent where they had less than 4. "Superseded" may be
//! longer by the 36 bytes in which two certificates differ.

use std::fmt;
use std::time::Duration;

use crate::reader::Reader;
use crate::{Metadata, Name, WireError};

/// What a NACK says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nack {
    /// Why, and what to do.
    pub reason: Reason,
    /// Who says so, where there was room.
    pub reporter: Option<Name>,
}

/// Why a PDU could not be carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The router is finding out; resend after so many milliseconds.
    NotYet(u16),
    /// No route is known; asking again earlier than after so many milliseconds is useless.
    Unreachable(u16),
    /// The PDU does not fit a link of the path; its data may be this long.
    TooBig(u16),
    /// The PDU has been through as many routers as its TTL allowed.
    TtlExceeded,
    /// A certificate is missing or forged: advertise again.
    BadCertificate,
    /// Whoever sent the PDU has no right to carry it for its source.
    NotAuthorised,
    /// A flow label that is not known.
    UnknownFlow,
    /// No room for more work; resend after so many milliseconds.
    Overloaded(u16),
    /// A newer statement of the same issuer is in force; it comes along.
    Superseded,
    /// A certificate has expired by the clock of whoever says so.
    Expired,
    /// A certificate is not yet valid by the clock of whoever says so.
    NotYetValid,
    /// A router demands a capability of the router before it, and got none
    /// that it takes: nothing that a source can cure.
    Capability(CapabilityFault),
}

/// What is wrong with the capability of a PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapabilityFault {
    /// It has none, or the router before has none that is in force.
    Missing,
    /// It is of another time.
    Time,
    /// It was revoked.
    Revoked,
    /// It is not for this router and these names, or proves nothing.
    Refused,
}

impl Nack {
    /// Bytes of data without a reporter, and so the least
    /// data a PDU must have to be answered by a NACK.
    pub const MIN_LEN: usize = 4;
    /// Bytes of data with a reporter.
    pub const MAX_LEN: usize = Self::MIN_LEN + Name::LEN;

    /// Parses the data of a NACK that comes without metadata.
    ///
    /// # Errors
    /// When `data` is not exactly one such NACK.
    pub fn parse(data: &[u8]) -> Result<Self, WireError> {
        match Self::parse_with_metadata(data)? {
            (nack, None) => Ok(nack),
            (_, Some(_)) => Err(WireError::TrailingBytes),
        }
    }

    /// Parses the data of a NACK, and the metadata of its reporter where they came along. Whether
    /// they are the reporter's is for the caller to check, by their hash.
    ///
    /// # Errors
    /// When `data` is not exactly one NACK with or without metadata.
    pub fn parse_with_metadata(data: &[u8]) -> Result<(Self, Option<Metadata>), WireError> {
        let (data, metadata) = match data.split_at_checked(Self::MAX_LEN) {
            Some((data, metadata)) if !metadata.is_empty() => {
                (data, Some(Metadata::parse(metadata)?))
            }
            _ => (data, None),
        };
        let nack = Self::parse_bare(data)?;
        match metadata.is_some() && nack.reason != Reason::TtlExceeded {
            true => Err(WireError::NotCanonical("nack metadata")),
            false => Ok((nack, metadata)),
        }
    }

    fn parse_bare(data: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(data);
        let tag = reader.u8()?;
        reader.zero("nack")?;
        let value = reader.u16()?;
        let reason = match (tag, value) {
            (1, ms) => Reason::NotYet(ms),
            (2, ms) => Reason::Unreachable(ms),
            (3, len) => Reason::TooBig(len),
            (4, 0) => Reason::TtlExceeded,
            (5, 0) => Reason::BadCertificate,
            (6, 0) => Reason::NotAuthorised,
            (7, 0) => Reason::UnknownFlow,
            (9, 0) => Reason::Superseded,
            (10, 0) => Reason::Expired,
            (11, 0) => Reason::NotYetValid,
            (12, fault) => Reason::Capability(CapabilityFault::from_number(fault)?),
            (4..=7 | 9..=11, _) => return Err(WireError::NotCanonical("nack value")),
            (8, ms) => Reason::Overloaded(ms),
            (value, _) => return Err(WireError::UnknownVariant { field: "nack reason", value }),
        };
        let reporter = match data.len() {
            Self::MIN_LEN => None,
            _ => Some(reader.name()?),
        };
        reader.finish()?;
        Ok(Self { reason, reporter })
    }

    /// Appends the one encoding of this NACK.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let (tag, value) = match self.reason {
            Reason::NotYet(ms) => (1, ms),
            Reason::Unreachable(ms) => (2, ms),
            Reason::TooBig(len) => (3, len),
            Reason::TtlExceeded => (4, 0),
            Reason::BadCertificate => (5, 0),
            Reason::NotAuthorised => (6, 0),
            Reason::UnknownFlow => (7, 0),
            Reason::Overloaded(ms) => (8, ms),
            Reason::Superseded => (9, 0),
            Reason::Expired => (10, 0),
            Reason::NotYetValid => (11, 0),
            Reason::Capability(fault) => (12, fault.number()),
        };
        out.extend_from_slice(&[tag, 0]);
        out.extend_from_slice(&value.to_be_bytes());
        if let Some(reporter) = self.reporter {
            out.extend_from_slice(&reporter.0);
        }
    }
}

impl CapabilityFault {
    fn from_number(number: u16) -> Result<Self, WireError> {
        match number {
            1 => Ok(Self::Missing),
            2 => Ok(Self::Time),
            3 => Ok(Self::Revoked),
            4 => Ok(Self::Refused),
            _ => Err(WireError::NotCanonical("nack value")),
        }
    }

    fn number(self) -> u16 {
        match self {
            Self::Missing => 1,
            Self::Time => 2,
            Self::Revoked => 3,
            Self::Refused => 4,
        }
    }
}

impl fmt::Display for CapabilityFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "no capability for a router on the way that demands one",
            Self::Time => "the capability for a router on the way is of another time",
            Self::Revoked => "the capability for a router on the way was revoked",
            Self::Refused => "a router on the way refuses the capability",
        })
    }
}

impl Reason {
    /// How long to wait before the same PDU has a chance, where waiting is the cure.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::NotYet(ms) | Self::Unreachable(ms) | Self::Overloaded(ms) => {
                Some(Duration::from_millis(ms.into()))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYet(ms) => write!(f, "not yet, retry after {ms} ms"),
            Self::Unreachable(_) => f.write_str("unreachable"),
            Self::TooBig(len) => write!(f, "too big, at most {len} bytes of data"),
            Self::TtlExceeded => f.write_str("TTL exceeded"),
            Self::BadCertificate => f.write_str("bad certificate"),
            Self::NotAuthorised => f.write_str("not authorised"),
            Self::UnknownFlow => f.write_str("unknown flow"),
            Self::Overloaded(ms) => write!(f, "overloaded, retry after {ms} ms"),
            Self::Superseded => f.write_str("superseded by a newer statement of the same name"),
            Self::Expired => f.write_str("certificate expired, by the router's clock"),
            Self::NotYetValid => f.write_str("certificate not yet valid, by the router's clock"),
            Self::Capability(fault) => fault.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_round_trips() {
        let reasons = [
            Reason::NotYet(50),
            Reason::Unreachable(65535),
            Reason::TooBig(1200),
            Reason::TtlExceeded,
            Reason::BadCertificate,
            Reason::NotAuthorised,
            Reason::UnknownFlow,
            Reason::Overloaded(0),
            Reason::Superseded,
            Reason::Expired,
            Reason::NotYetValid,
            Reason::Capability(CapabilityFault::Missing),
            Reason::Capability(CapabilityFault::Time),
            Reason::Capability(CapabilityFault::Revoked),
            Reason::Capability(CapabilityFault::Refused),
        ];
        for reason in reasons {
            for reporter in [None, Some(Name([9; 32]))] {
                let mut data = Vec::new();
                Nack { reason, reporter }.emit(&mut data);
                assert_eq!(Nack::parse(&data), Ok(Nack { reason, reporter }));
                assert!(data.len() == Nack::MIN_LEN || data.len() == Nack::MAX_LEN);
                assert!(Nack::parse(&data[..data.len() - 1]).is_err());
            }
        }
        for reason in [4, 9, 10, 11] {
            let parsed = Nack::parse(&[reason, 0, 0, 1]);
            assert!(parsed.is_err(), "a value that means nothing must be zero");
        }
        for [high, low] in [[0, 0], [0, 5], [1, 1]] {
            assert!(Nack::parse(&[12, 0, high, low]).is_err(), "no such fault of a capability");
        }
        assert!(Nack::parse(&[13, 0, 0, 0]).is_err());
    }

    #[test]
    fn metadata_come_with_an_exceeded_ttl_only() {
        let metadata = Metadata::new(crate::Role::Router, crate::PublicKey::Ed25519([1; 32]), 2);
        for (reason, good) in [(Reason::TtlExceeded, true), (Reason::NotYet(1), false)] {
            let nack = Nack { reason, reporter: Some(Name([9; 32])) };
            let mut data = Vec::new();
            nack.emit(&mut data);
            assert_eq!(Nack::parse_with_metadata(&data), Ok((nack, None)));
            data.extend_from_slice(&metadata.emit());
            assert!(Nack::parse(&data).is_err());
            let parsed = Nack::parse_with_metadata(&data);
            assert_eq!(
                parsed,
                if good {
                    Ok((nack, Some(metadata.clone())))
                } else {
                    Err(WireError::NotCanonical("nack metadata"))
                }
            );
            assert!(Nack::parse_with_metadata(&data[..data.len() - 1]).is_err());
        }
    }
}

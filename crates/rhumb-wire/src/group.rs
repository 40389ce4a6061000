//! Groups: a name that many answer to at once. Members ask their router to let them receive what is
//! sent to it, or send to it, and each router asks the next one on the way to the group.
//!
//! A request travels from the member, whose name is its source, to the group, and is answered hop
//! by hop: the answer has source and destination exchanged, and goes no further than one hop.
//!
//! | request: kind | what follows |
//! |---|---|
//! | 0: leave | 3 bytes of zeros, so that a NACK about it is no longer than it is |
//! | 1: receive, 2: send, 3: both | a membership: a metadata list and a certificate list |
//! | 4: remove | a removal, in two such lists |
//!
//! | answer | size | field |
//! |---|---|---|
//! | 0 | 1 | kind of the request |
//! | 1 | 8 | the last second, since 1970, for which it holds; 0 after leave and remove |

use crate::certificate::Certificate;
use crate::reader::Reader;
use crate::{Metadata, WireError};

/// What a member of a group does there: at least one of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// It receives what is sent to the group.
    Receives,
    /// It sends to the group.
    Sends,
    /// Both.
    Both,
}

/// What somebody asks of a router about a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupRequest {
    /// To be no part of it any longer.
    Leave,
    /// To be a part of it, by a membership.
    Join {
        /// What as.
        part: Part,
        /// Metadata of each certificate's issuer.
        issuers: Vec<Metadata>,
        /// From the group's to the one about the member.
        certificates: Vec<Certificate>,
    },
    /// To count somebody as a member no longer.
    Remove {
        /// Metadata of each certificate's issuer.
        issuers: Vec<Metadata>,
        /// A removal, behind its issuer's membership.
        certificates: Vec<Certificate>,
    },
}

/// A router's answer to a [`GroupRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupAccept {
    /// As what the member counts; `None` after it has left, and about a removal.
    pub part: Option<Part>,
    /// The last second for which it does.
    pub until_s: u64,
}

impl Part {
    /// Whether what is sent to the group is for it.
    pub fn receives(self) -> bool {
        self != Self::Sends
    }

    /// Whether it sends to the group.
    pub fn sends(self) -> bool {
        self != Self::Receives
    }

    fn kind(self) -> u8 {
        match self {
            Self::Receives => 1,
            Self::Sends => 2,
            Self::Both => 3,
        }
    }

    fn of_kind(kind: u8) -> Option<Self> {
        [Self::Receives, Self::Sends, Self::Both].into_iter().find(|part| part.kind() == kind)
    }
}

impl GroupRequest {
    /// Parses the data of a request.
    ///
    /// # Errors
    /// When `data` are not exactly one, in its one encoding.
    pub fn parse(data: &[u8]) -> Result<Self, WireError> {
        let (kind, rest) = data.split_first().ok_or(WireError::Truncated)?;
        if *kind == LEAVE {
            return match rest {
                LEAVE_PADDING => Ok(Self::Leave),
                _ => Err(WireError::NotCanonical("group request")),
            };
        }
        let part = Part::of_kind(*kind);
        if part.is_none() && *kind != REMOVE {
            return Err(WireError::UnknownVariant { field: "group request", value: *kind });
        }
        let (issuers, certificates) = Certificate::parse_with_issuers(rest)?;
        if certificates.is_empty() || issuers.len() != certificates.len() {
            return Err(WireError::NotCanonical("group request"));
        }
        Ok(match part {
            Some(part) => Self::Join { part, issuers, certificates },
            None => Self::Remove { issuers, certificates },
        })
    }

    /// Whether the data of a request are to make somebody a part of a group, which takes a chain.
    pub fn is_join(data: &[u8]) -> bool {
        !matches!(data.first(), Some(&(LEAVE | REMOVE)))
    }

    /// Appends the one encoding.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let (kind, issuers, certificates) = match self {
            Self::Leave => {
                out.push(LEAVE);
                return out.extend_from_slice(LEAVE_PADDING);
            }
            Self::Join { part, issuers, certificates } => (part.kind(), issuers, certificates),
            Self::Remove { issuers, certificates } => (REMOVE, issuers, certificates),
        };
        out.push(kind);
        Metadata::emit_list(issuers, out);
        Certificate::emit_list(certificates, out);
    }
}

impl GroupAccept {
    /// Bytes of data.
    pub const LEN: usize = 9;

    /// Parses the data of an answer.
    ///
    /// # Errors
    /// When `data` are not exactly one.
    pub fn parse(data: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(data);
        let kind = reader.u8()?;
        let until_s = reader.u64()?;
        reader.finish()?;
        let part = Part::of_kind(kind);
        match (part, kind, until_s) {
            (Some(_), ..) | (None, LEAVE, 0) => Ok(Self { part, until_s }),
            (None, LEAVE, _) => Err(WireError::NotCanonical("group accept")),
            (None, value, _) => Err(WireError::UnknownVariant { field: "group accept", value }),
        }
    }

    /// The one encoding.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = self.part.map_or(LEAVE, Part::kind);
        bytes[1..].copy_from_slice(&self.until_s.to_be_bytes());
        bytes
    }
}

const LEAVE: u8 = 0;
const LEAVE_PADDING: &[u8] = &[0; 3];
const REMOVE: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_round_trip_and_are_strict() {
        for part in [None, Some(Part::Receives), Some(Part::Sends), Some(Part::Both)] {
            let accept = GroupAccept { part, until_s: if part.is_some() { 77 } else { 0 } };
            let data = accept.emit();
            assert_eq!(GroupAccept::parse(&data), Ok(accept));
            assert_eq!(GroupAccept::parse(&data[..8]), Err(WireError::Truncated));
            let longer = [&data[..], &[0]].concat();
            assert_eq!(GroupAccept::parse(&longer), Err(WireError::TrailingBytes));
        }
        for wrong in [[4, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 1]] {
            assert!(GroupAccept::parse(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn requests_are_strict() {
        assert_eq!(GroupRequest::parse(&[0; 4]), Ok(GroupRequest::Leave));
        for wrong in [
            &[][..],
            &[0],
            &[0; 5],
            &[0, 0, 0, 1],
            &[1],
            &[1, 0, 0],
            &[4, 0, 0],
            &[5, 0, 0],
            &[255],
        ] {
            assert!(GroupRequest::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}

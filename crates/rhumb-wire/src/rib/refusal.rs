//! Why a RIB refuses what it is asked or told.

use std::fmt;

use crate::WireError;

/// Why a RIB refuses an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// The request cannot be read.
    Malformed = 1,
    /// The metadata of an issuer is not known and was not sent along.
    UnknownIssuer = 2,
    /// A signature does not verify.
    BadSignature = 3,
    /// A certificate has expired.
    Expired = 4,
    /// A certificate is not yet valid.
    NotYetValid = 5,
    /// A certificate lasts longer than this RIB stores.
    LifetimeTooLong = 6,
    /// A newer statement is stored.
    Superseded = 7,
    /// A statement of this kind cannot be published.
    NotPublishable = 8,
    /// The store is full, or this session has used up its share.
    QuotaExceeded = 9,
    /// The store failed; try again.
    StoreFailed = 10,
    /// The RIB does not serve who asks, or an issuer.
    NotAuthorised = 11,
    /// The RIB, or its store, has too much to do; ask another one, or later.
    Overloaded = 12,
    /// The RIB keeps no log, or has forgotten what was asked for.
    NoLog = 13,
}

impl Refusal {
    pub(super) fn from_u8(value: u8) -> Result<Self, WireError> {
        Ok(match value {
            1 => Self::Malformed,
            2 => Self::UnknownIssuer,
            3 => Self::BadSignature,
            4 => Self::Expired,
            5 => Self::NotYetValid,
            6 => Self::LifetimeTooLong,
            7 => Self::Superseded,
            8 => Self::NotPublishable,
            9 => Self::QuotaExceeded,
            10 => Self::StoreFailed,
            11 => Self::NotAuthorised,
            12 => Self::Overloaded,
            13 => Self::NoLog,
            value => return Err(WireError::UnknownVariant { field: "refusal", value }),
        })
    }

    /// All refusals.
    pub const ALL: [Self; 13] = [
        Self::Malformed,
        Self::UnknownIssuer,
        Self::BadSignature,
        Self::Expired,
        Self::NotYetValid,
        Self::LifetimeTooLong,
        Self::Superseded,
        Self::NotPublishable,
        Self::QuotaExceeded,
        Self::StoreFailed,
        Self::NotAuthorised,
        Self::Overloaded,
        Self::NoLog,
    ];

    /// The refusal in a word or two of lower-case English, joined by `_`: for machines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownIssuer => "unknown_issuer",
            Self::BadSignature => "bad_signature",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::LifetimeTooLong => "lifetime_too_long",
            Self::Superseded => "superseded",
            Self::NotPublishable => "not_publishable",
            Self::QuotaExceeded => "quota_exceeded",
            Self::StoreFailed => "store_failed",
            Self::NotAuthorised => "not_authorised",
            Self::Overloaded => "overloaded",
            Self::NoLog => "no_log",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the request cannot be read",
            Self::UnknownIssuer => "the metadata of an issuer is not known",
            Self::BadSignature => "a signature does not verify",
            Self::Expired => "a certificate has expired",
            Self::NotYetValid => "a certificate is not yet valid",
            Self::LifetimeTooLong => "a certificate lasts longer than is stored here",
            Self::Superseded => "a newer statement is stored",
            Self::NotPublishable => "a statement of this kind cannot be published",
            Self::QuotaExceeded => "no room is left for this publisher",
            Self::StoreFailed => "the store failed; try again",
            Self::NotAuthorised => "the RIB does not serve this router or this name",
            Self::Overloaded => "the RIB or its store has too much to do; try again",
            Self::NoLog => "the RIB keeps no log, or has forgotten that part of it",
        })
    }
}

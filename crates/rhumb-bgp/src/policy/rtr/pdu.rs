//! Messages of RFC 8210, section 5, and those of RFC 6810 where they differ: parse and emit.
//!
//! Parsing never panics on any input. What a router sends (queries, error
//! reports) is emitted; what it gets is parsed, and a query parses too, so that
//! it is refused as misplaced and not as unknown.

use std::fmt;
use std::time::Duration;

use rustbgpd_wire::{Ipv4Prefix, Ipv6Prefix, Prefix};

use crate::policy::rpki::Vrp;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pdu {
    /// The cache has something new.
    Notify {
        /// Of the cache.
        session: u16,
        /// The newest.
        serial: u32,
    },
    /// What changed since this serial?
    SerialQuery {
        /// Of the cache.
        session: u16,
        /// What the router has.
        serial: u32,
    },
    /// What is there?
    ResetQuery,
    /// An answer begins.
    CacheResponse {
        /// Of the cache.
        session: u16,
    },
    /// A payload comes or goes.
    Prefix {
        /// It comes.
        announced: bool,
        /// The payload.
        vrp: Vrp,
    },
    /// The answer ends.
    EndOfData {
        /// Of the cache.
        session: u16,
        /// What the router has now.
        serial: u32,
        /// When to ask again; absent in version 0.
        intervals: Option<Intervals>,
    },
    /// The cache cannot say what changed.
    CacheReset,
    /// Something was wrong.
    Error {
        /// What (section 12).
        code: u16,
    },
    /// A router's key (section 5.10), which is no matter of policies.
    Other,
}

/// A message with what its header says besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Of the protocol.
    pub version: u8,
    /// The message.
    pub pdu: Pdu,
}

/// Section 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    /// Between an answer and the next question.
    pub refresh: Duration,
    /// Between a failure and the next try.
    pub retry: Duration,
    /// From an answer until it must not be used any more.
    pub expire: Duration,
}

impl Intervals {
    /// Section 6's.
    pub const DEFAULT: Self = Self {
        refresh: Duration::from_secs(3600),
        retry: Duration::from_secs(600),
        expire: Duration::from_secs(7200),
    };

    /// Within section 6's bounds, whatever the cache said; and what is in use does not expire
    /// before it was asked for again.
    #[must_use]
    pub fn bounded(self) -> Self {
        let clamp =
            |it: Duration, low, high| it.clamp(Duration::from_secs(low), Duration::from_secs(high));
        let refresh = clamp(self.refresh, 1, 86_400);
        let retry = clamp(self.retry, 1, 7200);
        let expire = clamp(self.expire, 600, 172_800);
        Self { refresh, retry, expire: expire.max(refresh + Duration::from_secs(1)).max(retry) }
    }
}

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PduError {
    /// Of this kind there is none.
    Kind(u8),
    /// It cannot be this long.
    Length(u32),
    /// Its prefix is no prefix: too long, bits behind its
    /// length, or a greatest length out of bounds.
    Prefix,
}

impl fmt::Display for PduError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(f, "kind {kind}"),
            Self::Length(len) => write!(f, "length {len}"),
            Self::Prefix => f.write_str("an impossible prefix"),
        }
    }
}

/// Error codes that matter here (section 12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the RFC's names, one each")]
pub enum CacheError {
    Corrupt,
    Internal,
    NoData,
    UnsupportedVersion,
    UnsupportedPdu,
    /// A withdrawal of what is not there, or an announcement of what is.
    Inconsistent,
    UnexpectedVersion,
    /// Any other.
    Other(u16),
}

impl CacheError {
    /// What a code means.
    pub fn from_code(code: u16) -> Self {
        match code {
            0 => Self::Corrupt,
            1 => Self::Internal,
            2 => Self::NoData,
            4 => Self::UnsupportedVersion,
            5 => Self::UnsupportedPdu,
            6 | 7 => Self::Inconsistent,
            8 => Self::UnexpectedVersion,
            other => Self::Other(other),
        }
    }

    fn code(self) -> u16 {
        match self {
            Self::Corrupt => 0,
            Self::Internal => 1,
            Self::NoData => 2,
            Self::UnsupportedVersion => 4,
            Self::UnsupportedPdu => 5,
            Self::Inconsistent => 7,
            Self::UnexpectedVersion => 8,
            Self::Other(code) => code,
        }
    }
}

impl Pdu {
    /// The first message of `bytes` and its length, or `None` if it has not come whole.
    ///
    /// # Errors
    ///
    /// The bytes are the beginning of no message.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Received, usize)>, PduError> {
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else { return Ok(None) };
        let [version, kind, high, low, a, b, c, d] = *header;
        let session = u16::from_be_bytes([high, low]);
        let len = u32::from_be_bytes([a, b, c, d]);
        if !len_of(version, kind)?.contains(&len) {
            return Err(PduError::Length(len));
        }
        let Some(body) = bytes.get(HEADER_LEN..len as usize) else { return Ok(None) };
        let word = |at: usize| {
            let bytes = body.get(4 * at..).and_then(|rest| rest.first_chunk());
            u32::from_be_bytes(*bytes.expect("invariant: the length was checked for the kind"))
        };
        let pdu = match kind {
            NOTIFY => Self::Notify { session, serial: word(0) },
            SERIAL_QUERY => Self::SerialQuery { session, serial: word(0) },
            RESET_QUERY => Self::ResetQuery,
            CACHE_RESPONSE => Self::CacheResponse { session },
            IPV4_PREFIX | IPV6_PREFIX => parse_prefix(body)?,
            END_OF_DATA => {
                let seconds = |at| Duration::from_secs(word(at).into());
                let intervals = (version > 0).then(|| Intervals {
                    refresh: seconds(1),
                    retry: seconds(2),
                    expire: seconds(3),
                });
                Self::EndOfData { session, serial: word(0), intervals }
            }
            CACHE_RESET => Self::CacheReset,
            ERROR => Self::Error { code: session },
            _ => Self::Other,
        };
        Ok(Some((Received { version, pdu }, len as usize)))
    }

    /// Appends it. Of error reports, and of what is no matter here,
    /// nothing is emitted: [`emit_error`] does that.
    pub fn emit(&self, version: u8, out: &mut Vec<u8>) {
        match *self {
            Self::Notify { session, serial } => {
                emit_header([version, NOTIFY], session, 12, out);
                out.extend(serial.to_be_bytes());
            }
            Self::SerialQuery { session, serial } => {
                emit_header([version, SERIAL_QUERY], session, 12, out);
                out.extend(serial.to_be_bytes());
            }
            Self::ResetQuery => emit_header([version, RESET_QUERY], 0, 8, out),
            Self::CacheResponse { session } => {
                emit_header([version, CACHE_RESPONSE], session, 8, out);
            }
            Self::CacheReset => emit_header([version, CACHE_RESET], 0, 8, out),
            Self::Prefix { announced, vrp } => {
                match vrp.prefix {
                    Prefix::V4(_) => emit_header([version, IPV4_PREFIX], 0, 20, out),
                    Prefix::V6(_) => emit_header([version, IPV6_PREFIX], 0, 32, out),
                }
                out.extend([announced.into(), vrp.prefix.prefix_len(), vrp.max_len, 0]);
                match vrp.prefix {
                    Prefix::V4(prefix) => out.extend(prefix.addr.octets()),
                    Prefix::V6(prefix) => out.extend(prefix.addr.octets()),
                }
                out.extend(vrp.asn.to_be_bytes());
            }
            Self::EndOfData { session, serial, intervals } => {
                let intervals = intervals.filter(|_| version > 0);
                let len = if intervals.is_some() { 24 } else { 12 };
                emit_header([version, END_OF_DATA], session, len, out);
                out.extend(serial.to_be_bytes());
                for interval in intervals.iter().flat_map(|it| [it.refresh, it.retry, it.expire]) {
                    out.extend(u32::try_from(interval.as_secs()).unwrap_or(u32::MAX).to_be_bytes());
                }
            }
            Self::Error { .. } | Self::Other => {}
        }
    }
}

fn emit_header(version_and_kind: [u8; 2], session: u16, len: u32, out: &mut Vec<u8>) {
    out.extend(version_and_kind);
    out.extend(session.to_be_bytes());
    out.extend(len.to_be_bytes());
}

/// Appends a report of what is wrong with a message.
pub fn emit_error(version: u8, code: CacheError, wrong: &[u8], out: &mut Vec<u8>) {
    let wrong = &wrong[..wrong.len().min(MOST_QUOTED)];
    let quoted = u32::try_from(wrong.len()).expect("invariant: it is short");
    out.extend([version, ERROR]);
    out.extend(code.code().to_be_bytes());
    out.extend((16 + quoted).to_be_bytes());
    out.extend(quoted.to_be_bytes());
    out.extend(wrong);
    // No text.
    out.extend([0; 4]);
}

/// Whether bytes begin like an error report, which nobody answers (section 5.11).
pub fn is_error(bytes: &[u8]) -> bool {
    bytes.get(1) == Some(&ERROR)
}

/// How long a message of a kind may be.
fn len_of(version: u8, kind: u8) -> Result<std::ops::RangeInclusive<u32>, PduError> {
    let exactly = |len| len..=len;
    Ok(match kind {
        NOTIFY | SERIAL_QUERY => exactly(12),
        RESET_QUERY | CACHE_RESPONSE | CACHE_RESET => exactly(8),
        IPV4_PREFIX => exactly(20),
        IPV6_PREFIX => exactly(32),
        END_OF_DATA => exactly(if version == 0 { 12 } else { 24 }),
        ROUTER_KEY if version > 0 => 32..=MOST_LEN,
        ERROR => 16..=MOST_LEN,
        other => return Err(PduError::Kind(other)),
    })
}

fn parse_prefix(body: &[u8]) -> Result<Pdu, PduError> {
    let [flags, len, max_len, _, rest @ ..] = body else { return Err(PduError::Prefix) };
    let (address, asn) = rest.split_at(rest.len() - 4);
    let asn = u32::from_be_bytes(asn.try_into().expect("invariant: it was split off so"));
    let prefix = if let Ok(octets) = <[u8; 4]>::try_from(address) {
        let prefix = Ipv4Prefix::new(octets.into(), *len);
        (prefix.len == *len && prefix.addr.octets() == octets).then_some(Prefix::V4(prefix))
    } else if let Ok(octets) = <[u8; 16]>::try_from(address) {
        let prefix = Ipv6Prefix::new(octets.into(), *len);
        (prefix.len == *len && prefix.addr.octets() == octets).then_some(Prefix::V6(prefix))
    } else {
        None
    };
    let vrp = prefix.and_then(|prefix| Vrp::new(prefix, *max_len, asn)).ok_or(PduError::Prefix)?;
    // The other bits are ignored on receipt (section 5.1).
    Ok(Pdu::Prefix { announced: flags & 1 == 1, vrp })
}

/// Version, kind, session or code or nothing, length.
pub const HEADER_LEN: usize = 8;
/// Longest message that is taken: an error report quotes one
/// message and has a text; RFC 8210 knows no bound.
const MOST_LEN: u32 = 1 << 16;
/// So much of a message is quoted in a report.
const MOST_QUOTED: usize = 64;

const NOTIFY: u8 = 0;
const SERIAL_QUERY: u8 = 1;
const RESET_QUERY: u8 = 2;
const CACHE_RESPONSE: u8 = 3;
const IPV4_PREFIX: u8 = 4;
const IPV6_PREFIX: u8 = 6;
const END_OF_DATA: u8 = 7;
const CACHE_RESET: u8 = 8;
const ROUTER_KEY: u8 = 9;
const ERROR: u8 = 10;

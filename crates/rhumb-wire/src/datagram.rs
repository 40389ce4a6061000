//! The clear framing of a UDP datagram: who it is for, before anything is decrypted.
//!
//! The first byte tells the protocols apart that share a port, in the manner of RFC 7983:
//!
//! | first byte | meaning | what follows |
//! |---|---|---|
//! | 20 to 63 | DTLS | a DTLS record: the handshake |
//! | `0x80` to `0x8F` | sealed PDU | [`RecordHeader`], ciphertext, 16-byte tag |
//! | `0x90` | initial | a retry token or none, then the initiator's first DTLS datagram |
//! | `0xA0` | retry | which hello it answers, and the token to come back with |
//! | `0xB0` to `0xBF` | sealed close | as a sealed PDU, of nothing |
//! | `0xC0` | discovery | [`Discovery`](crate::discovery::Discovery), which is no part of a link: foreign to [`Datagram`] |
//! | `0xD0` to `0xDF` | sealed path message | as a sealed PDU, of a [`PathMessage`] |
//! | `0xE0` to `0xEF` | sealed bundle | as a sealed PDU, of a [bundle](crate::bundle) |
//! | any other | foreign | dropped and counted |

use std::num::NonZeroU64;

use crate::WireError;
use crate::reader::Reader;

/// A datagram, told apart by its clear bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// A DTLS record, whole.
    Dtls(&'a [u8]),
    /// A sealed PDU, close, path message or bundle: header, and the whole datagram as it came.
    Record(RecordHeader),
    /// An initiator's first datagram, with the token it was given, if any.
    Initial {
        /// The token, on the second try.
        token: Option<&'a [u8; TOKEN_LEN]>,
        /// The DTLS datagram inside.
        inner: &'a [u8],
    },
    /// A responder's demand to come back with this token.
    Retry {
        /// Which hello it answers: the first bytes of its hash.
        hello: &'a [u8; HELLO_ID_LEN],
        /// The token.
        token: &'a [u8; TOKEN_LEN],
    },
}

impl<'a> Datagram<'a> {
    /// Tells a datagram apart.
    ///
    /// # Errors
    /// When it is none of ours, or cut short.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        match bytes.first() {
            Some(&first) if RecordKind::of(first).is_some() => {
                RecordHeader::parse(bytes).map(Self::Record)
            }
            Some(20..=63) => Ok(Self::Dtls(bytes)),
            Some(0x90) => Self::parse_initial(bytes),
            Some(0xA0) => {
                let mut reader = Reader::new(bytes);
                expect_version(&mut reader, INITIAL_OR_RETRY_VERSION | 0xA000_0000)?;
                let hello =
                    reader.take(HELLO_ID_LEN)?.try_into().map_err(|_| WireError::Truncated)?;
                let token = reader.take(TOKEN_LEN)?.try_into().map_err(|_| WireError::Truncated)?;
                reader.finish()?;
                Ok(Self::Retry { hello, token })
            }
            Some(&value) => Err(WireError::UnknownVariant { field: "datagram type", value }),
            None => Err(WireError::Truncated),
        }
    }

    fn parse_initial(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        expect_version(&mut reader, INITIAL_OR_RETRY_VERSION | 0x9000_0000)?;
        let token = match reader.u8()? {
            0 => None,
            24 => Some(reader.take(TOKEN_LEN)?.try_into().map_err(|_| WireError::Truncated)?),
            _ => return Err(WireError::NotCanonical("token length")),
        };
        let inner = reader.rest();
        match inner.first() {
            Some(20..=63) => Ok(Self::Initial { token, inner }),
            _ => Err(WireError::NotCanonical("initial")),
        }
    }

    /// Appends an initial datagram.
    pub fn emit_initial(token: Option<&[u8; TOKEN_LEN]>, inner: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&(INITIAL_OR_RETRY_VERSION | 0x9000_0000).to_be_bytes());
        match token {
            None => out.push(0),
            Some(token) => {
                out.push(TOKEN_LEN as u8);
                out.extend_from_slice(token);
            }
        }
        out.extend_from_slice(inner);
    }

    /// Appends a retry datagram: [`RETRY_LEN`] bytes.
    pub fn emit_retry(hello: &[u8; HELLO_ID_LEN], token: &[u8; TOKEN_LEN], out: &mut Vec<u8>) {
        out.extend_from_slice(&(INITIAL_OR_RETRY_VERSION | 0xA000_0000).to_be_bytes());
        out.extend_from_slice(hello);
        out.extend_from_slice(token);
    }
}

/// The 12 clear bytes of a sealed datagram.
///
/// The counter is the AEAD nonce's input: 16 bits of epoch, 48 bits of packet number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// What is sealed.
    pub kind: RecordKind,
    /// Which session of the receiver it belongs to; the receiver chose the number.
    pub index: SessionIndex,
    /// Epoch and packet number.
    pub counter: Counter,
}

impl RecordHeader {
    /// Bytes before the ciphertext.
    pub const LEN: usize = 12;

    /// Reads the header of a sealed datagram.
    ///
    /// # Errors
    /// When the datagram is shorter than header and tag, or of another type.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::LEN + AEAD_TAG_LEN {
            return Err(WireError::Truncated);
        }
        let header: &[u8; Self::LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        let foreign = WireError::UnknownVariant { field: "record type", value: header[0] >> 4 };
        let kind = RecordKind::of(header[0]).ok_or(foreign)?;
        let [a, b, c, d, e @ ..] = *header;
        let index = SessionIndex(u32::from_be_bytes([a & 0x0F, b, c, d]));
        Ok(Self { kind, index, counter: Counter(u64::from_be_bytes(e)) })
    }

    /// The header's bytes.
    #[inline]
    pub fn emit(&self) -> [u8; Self::LEN] {
        let kind: u32 = match self.kind {
            RecordKind::Pdu => 0x8000_0000,
            RecordKind::Close => 0xB000_0000,
            RecordKind::Path => 0xD000_0000,
            RecordKind::Bundle => 0xE000_0000,
        };
        let mut out = [0; Self::LEN];
        out[..4].copy_from_slice(&(kind | self.index.0).to_be_bytes());
        out[4..].copy_from_slice(&self.counter.0.to_be_bytes());
        out
    }
}

/// What a sealed datagram holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// A PDU, or nothing: a keep-alive.
    Pdu,
    /// Nothing: the sender ends the session.
    Close,
    /// A [`PathMessage`].
    Path,
    /// PDUs in a [bundle](crate::bundle), or nothing: the sender takes bundles.
    Bundle,
}

impl RecordKind {
    /// What a datagram that begins with this byte holds, if it is sealed.
    #[inline]
    pub fn of(first: u8) -> Option<Self> {
        match first >> 4 {
            0x8 => Some(Self::Pdu),
            0xB => Some(Self::Close),
            0xD => Some(Self::Path),
            0xE => Some(Self::Bundle),
            _ => None,
        }
    }
}

/// Asks whether datagrams to an address reach the peer, answers that they do, or both at
/// once: so an answer to an address that has to be asked about itself costs one
/// datagram, no longer than the one it answers.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | 8 | challenge: to be sent back; zero when there is none |
/// | 8 | 8 | answer: the challenge that came from there; zero when there is none |
/// | 16 | .. | zeros, behind a challenge without an answer: whether a datagram of that size gets through |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathMessage {
    /// What the peer is to send back, to the address it came from.
    pub challenge: Option<NonZeroU64>,
    /// What the peer asked to have sent back.
    pub answer: Option<NonZeroU64>,
}

impl PathMessage {
    /// Bytes of a message without padding.
    pub const LEN: usize = 16;

    /// Parses a message, padded or not.
    ///
    /// # Errors
    /// When `bytes` are not exactly one, or it says nothing.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let challenge = NonZeroU64::new(reader.u64()?);
        let answer = NonZeroU64::new(reader.u64()?);
        if challenge.is_none() && answer.is_none() {
            return Err(WireError::NotCanonical("path message"));
        }
        if challenge.is_none() || answer.is_some() {
            reader.finish()?;
        } else if reader.rest().iter().any(|byte| *byte != 0) {
            return Err(WireError::NotCanonical("padding"));
        }
        Ok(Self { challenge, answer })
    }

    /// The message's bytes.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let bytes = |value: Option<NonZeroU64>| value.map_or(0, NonZeroU64::get).to_be_bytes();
        let mut out = [0; Self::LEN];
        out[..8].copy_from_slice(&bytes(self.challenge));
        out[8..].copy_from_slice(&bytes(self.answer));
        out
    }
}

/// A session as its receiver numbers it: 28 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionIndex(u32);

impl SessionIndex {
    /// The largest index.
    pub const MAX: u32 = 0x0FFF_FFFF;

    /// `None` when `index` needs more than 28 bits.
    pub const fn new(index: u32) -> Option<Self> {
        if index <= Self::MAX { Some(Self(index)) } else { None }
    }

    /// The number.
    #[inline]
    pub const fn as_u32(self) -> u32 {
        self.0
    }

    /// Which of the [`LANES`] it means, if its receiver has as many.
    #[inline]
    pub const fn lane(self) -> u8 {
        (self.0 & LANE_MASK) as u8
    }

    /// The index of the same session's lane 0.
    #[inline]
    pub const fn base(self) -> Self {
        Self(self.0 & !LANE_MASK)
    }

    /// The index of lane `lane`, this being that of lane 0. What exceeds [`LANES`] is cut off.
    #[inline]
    pub const fn with_lane(self, lane: u8) -> Self {
        Self(self.0 | (lane as u32 & LANE_MASK))
    }
}

/// Epoch (16 bits) and packet number (48 bits) of a sealed datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Counter(u64);

impl Counter {
    /// The last packet number of a session. A sender that used it must make a fresh session; at
    /// 10^9 packets a second that takes 78 hours, and sessions are renewed every hour.
    pub const MAX_PACKET_NUMBER: u64 = (1 << 48) - 1;

    /// Puts the two parts together.
    ///
    /// # Panics
    /// When the packet number needs more than 48 bits: the sender must have stopped before.
    #[inline]
    pub fn new(epoch: u16, packet_number: u64) -> Self {
        assert!(packet_number <= Self::MAX_PACKET_NUMBER, "packet numbers have 48 bits");
        Self(u64::from(epoch) << 48 | packet_number)
    }

    /// Which key generation sealed it.
    #[inline]
    pub fn epoch(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Its place in the order of sending, over all epochs.
    #[inline]
    pub fn packet_number(self) -> u64 {
        self.0 & Self::MAX_PACKET_NUMBER
    }

    /// Both parts, as they go into the nonce.
    #[inline]
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

/// What each end tells the other inside the handshake: where to send, and how much.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | 2 | magic `RP` |
/// | 2 | 1 | version, 1 |
/// | 3 | 1 | lanes, 1 or 8 |
/// | 4 | 4 | session index |
/// | 8 | 2 | largest datagram it receives, in bytes of UDP payload |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionParameters {
    /// The index to put into datagrams to it; with several lanes, that of lane 0.
    pub index: SessionIndex,
    /// Lanes that it receives on: 1 or [`LANES`].
    pub lanes: u8,
    /// The largest datagram it receives, in bytes of UDP payload.
    pub max_datagram_len: u16,
}

impl SessionParameters {
    /// Bytes of a message.
    pub const LEN: usize = 10;

    /// Parses a message.
    ///
    /// # Errors
    /// When `bytes` are not exactly one.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        if reader.array()? != *b"RP" {
            return Err(WireError::BadMagic);
        }
        match reader.u8()? {
            1 => {}
            version => return Err(WireError::UnknownVersion(version)),
        }
        let lanes = match reader.u8()? {
            lanes @ (1 | LANES) => lanes,
            value => return Err(WireError::UnknownVariant { field: "lanes", value }),
        };
        let index = SessionIndex::new(reader.u32()?)
            .filter(|index| lanes == 1 || index.lane() == 0)
            .ok_or(WireError::NotCanonical("session index"))?;
        let max_datagram_len = reader.u16()?;
        reader.finish()?;
        Ok(Self { index, lanes, max_datagram_len })
    }

    /// The message's bytes.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let [a, b, c, d] = self.index.0.to_be_bytes();
        let [high, low] = self.max_datagram_len.to_be_bytes();
        [b'R', b'P', 1, self.lanes, a, b, c, d, high, low]
    }
}

fn expect_version(reader: &mut Reader<'_>, expected: u32) -> Result<(), WireError> {
    match reader.u32()? {
        word if word == expected => Ok(()),
        word => Err(WireError::UnknownVersion(word as u8)),
    }
}

/// Lanes of each direction of a session, for an end that has more than one: so many workers can
/// receive, or send, without sharing a counter or a window.
pub const LANES: u8 = 8;
const LANE_MASK: u32 = LANES as u32 - 1;
/// Bytes of a retry token: when it was made, and a MAC.
pub const TOKEN_LEN: usize = 24;
/// Bytes of the hash of a hello that say which one a retry answers:
/// whoever did not see the hello cannot guess them.
pub const HELLO_ID_LEN: usize = 8;
/// Bytes of a retry.
pub const RETRY_LEN: usize = 4 + HELLO_ID_LEN + TOKEN_LEN;
/// Bytes of an AES-GCM tag.
pub const AEAD_TAG_LEN: usize = 16;
/// Bytes that sealing adds to a PDU.
pub const RECORD_OVERHEAD: usize = RecordHeader::LEN + AEAD_TAG_LEN;

const INITIAL_OR_RETRY_VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_round_trip(kind in 0..3usize, index in 0..=SessionIndex::MAX, epoch: u16, number in 0..=Counter::MAX_PACKET_NUMBER) {
            let kind =
                [RecordKind::Pdu, RecordKind::Close, RecordKind::Path, RecordKind::Bundle][kind];
            let header = RecordHeader { kind, index: SessionIndex(index), counter: Counter::new(epoch, number) };
            let mut bytes = header.emit().to_vec();
            prop_assert_eq!(Datagram::parse(&bytes), Err(WireError::Truncated));
            bytes.extend_from_slice(&[0; AEAD_TAG_LEN]);
            prop_assert_eq!(Datagram::parse(&bytes), Ok(Datagram::Record(header)));
            prop_assert_eq!((header.counter.epoch(), header.counter.packet_number()), (epoch, number));
        }

        #[test]
        fn initials_round_trip(token: Option<[u8; TOKEN_LEN]>, inner in prop::collection::vec(any::<u8>(), 1..100)) {
            let mut bytes = Vec::new();
            Datagram::emit_initial(token.as_ref(), &inner, &mut bytes);
            let parsed = Datagram::parse(&bytes);
            if (20..=63).contains(&inner[0]) {
                prop_assert_eq!(parsed, Ok(Datagram::Initial { token: token.as_ref(), inner: &inner }));
            } else {
                prop_assert!(parsed.is_err());
            }
        }
    }

    #[test]
    fn a_retry_is_36_bytes_and_nothing_else() {
        let mut bytes = Vec::new();
        Datagram::emit_retry(&[4; HELLO_ID_LEN], &[5; TOKEN_LEN], &mut bytes);
        assert_eq!(bytes.len(), RETRY_LEN);
        let retry = Datagram::Retry { hello: &[4; HELLO_ID_LEN], token: &[5; TOKEN_LEN] };
        assert_eq!(Datagram::parse(&bytes), Ok(retry));
        bytes.push(0);
        assert!(Datagram::parse(&bytes).is_err());
    }

    #[test]
    fn path_messages_round_trip_and_say_something() {
        for (challenge, answer) in [(1, 0), (0, u64::MAX), (7, 9)] {
            let [challenge, answer] = [challenge, answer].map(NonZeroU64::new);
            let message = PathMessage { challenge, answer };
            assert_eq!(PathMessage::parse(&message.emit()), Ok(message));
        }
        assert!(PathMessage::parse(&[0; PathMessage::LEN]).is_err());
        let challenge = PathMessage { challenge: NonZeroU64::new(7), answer: None };
        for (padding, is_good) in [(vec![0; 1420], true), (vec![0, 1], false), (vec![1], false)] {
            let padded = PathMessage::parse(&[&challenge.emit()[..], &padding].concat());
            assert_eq!(padded.ok(), is_good.then_some(challenge));
        }
        let answer = PathMessage { challenge: None, answer: NonZeroU64::new(7) };
        let both = PathMessage { answer: NonZeroU64::new(9), ..challenge };
        for message in [answer, both] {
            assert!(PathMessage::parse(&[&message.emit()[..], &[0]].concat()).is_err());
        }
        for len in [0, PathMessage::LEN - 1, PathMessage::LEN + 1] {
            assert!(PathMessage::parse(&vec![1; len]).is_err(), "{len}");
        }
    }

    #[test]
    fn parameters_round_trip() {
        for (lanes, index) in [(1, 0x0ABC_DEF7), (LANES, 0x0ABC_DEF0)] {
            let index = SessionIndex(index);
            let parameters = SessionParameters { index, lanes, max_datagram_len: 1452 };
            let bytes = parameters.emit();
            assert_eq!(SessionParameters::parse(&bytes), Ok(parameters));
            assert!(SessionParameters::parse(&bytes[..9]).is_err());
        }
        let bytes = |lanes, index: u8| [b'R', b'P', 1, lanes, 0, 0, 1, index, 5, 0xAC];
        for lanes in [0, 2, 7, 9, 16] {
            assert!(SessionParameters::parse(&bytes(lanes, 0)).is_err(), "{lanes}");
        }
        for index in 1..LANES {
            assert!(SessionParameters::parse(&bytes(LANES, index)).is_err(), "{index}");
        }
    }

    #[test]
    fn an_index_and_its_lane_make_each_other() {
        let base = SessionIndex(0x0FFF_FFF8);
        for lane in 0..LANES {
            let index = base.with_lane(lane);
            assert_eq!((index.lane(), index.base()), (lane, base));
        }
        assert_eq!(base.with_lane(LANES - 1).as_u32(), SessionIndex::MAX);
    }
}

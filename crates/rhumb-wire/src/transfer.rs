//! Messages of a file transfer: the body of a payload of kind
//! transfer, from end to end; switches never read it.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | kind |
//! | 1 | 8 | transfer identifier, chosen at random by the sender of the file |
//! | 9 | .. | by kind |
//!
//! | message | from | kind | what follows |
//! |---|---|---|---|
//! | Offer | sender | 1 | length (8), SHA-256 (32), length of the file name (1), file name |
//! | Accept | receiver | 2 | window (4) |
//! | Chunk | sender | 3 | number (4), acknowledge every (1), offset (8), at least one byte of the file |
//! | Ack | receiver | 4 | cumulative offset (8), window (4), newest number (4), count (1), then per range: gap (4), length (4) |
//! | Finished | receiver, repeated by the sender | 5 | verdict (1) |
//! | Cancel | either, repeated by the other | 6 | reason (1) |
//!
//! Numbers count transmissions, not bytes: a chunk that is sent again has a new one. So an Ack that
//! repeats the newest number that arrived tells which copy that was, and a round-trip time can be
//! taken from it without ambiguity (as in RFC 9002, section 3). Ranges of an Ack are what arrived
//! beyond the cumulative offset; each is written as its distance from the end of the one before,
//! and neither number is zero, so a set of ranges has one encoding.

use std::fmt;
use std::ops::Range;

use crate::WireError;
use crate::reader::Reader;

/// Pairs the messages of one transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransferId(pub u64);

/// A message of a file transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'a> {
    /// The transfer it belongs to.
    pub id: TransferId,
    /// What it says.
    pub body: MessageBody<'a>,
}

/// What a message of a file transfer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageBody<'a> {
    /// A file is on offer.
    Offer(Offer),
    /// The offer is taken.
    Accept {
        /// How many bytes beyond the cumulative offset may be sent.
        window: u32,
    },
    /// Bytes of the file.
    Chunk(Chunk<'a>),
    /// What has arrived.
    Ack(Ack),
    /// All bytes arrived, and this is what they amount to.
    Finished(Verdict),
    /// The transfer ends without its file.
    Cancel(CancelReason),
}

/// What is on offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Bytes of the file.
    pub length: u64,
    /// SHA-256 of the whole file.
    pub sha256: [u8; 32],
    /// What the sender calls it.
    pub name: FileName,
}

/// Bytes of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Which transmission of the transfer this is; wraps.
    pub number: u32,
    /// The receiver may let so many chunks arrive before it acknowledges; 0 and 1 are alike.
    pub ack_every: u8,
    /// Where in the file the bytes belong.
    pub offset: u64,
    /// The bytes, at least one.
    pub bytes: &'a [u8],
}

/// What has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// Every byte before this offset has arrived.
    pub cumulative: u64,
    /// How many bytes beyond the cumulative offset may be sent.
    pub window: u32,
    /// The newest number that has arrived.
    pub newest: u32,
    /// What else has arrived: ascending, apart from each other and from
    /// the cumulative offset. Not always all of it.
    pub ranges: Vec<Range<u64>>,
}

/// What the bytes of a transfer amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// The file that was offered.
    Intact = 0,
    /// Something else: the SHA-256 differs.
    Corrupt = 1,
}

/// Why a transfer ends without its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CancelReason {
    /// Its user ended it.
    Stopped = 1,
    /// The receiver does not want the file.
    Declined = 2,
    /// The file is larger than the receiver takes.
    TooLarge = 3,
    /// The receiver has as many transfers as it can serve.
    Busy = 4,
    /// The sender cannot read the file any more.
    ReadFailed = 5,
    /// The receiver cannot write the file.
    WriteFailed = 6,
    /// Too long without progress.
    TimedOut = 7,
    /// The receiver knows nothing of this transfer: it has begun anew, or another server answers
    /// for the name now. The sender may offer the file again.
    Unknown = 8,
}

/// A file's name as it may travel: 1 to 255 bytes of UTF-8 that name a file inside one directory
/// and do nothing to a terminal. Neither `.` nor `..`, and no `/`, `\`, control character or
/// control of writing direction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileName(String);

impl<'a> Message<'a> {
    /// Bytes before what depends on the kind.
    pub const HEADER_LEN: usize = 9;
    /// Bytes of a Chunk before those of the file.
    pub const CHUNK_OVERHEAD: usize = Self::HEADER_LEN + 13;
    /// The longest message that is no Chunk.
    pub const MAX_CONTROL_LEN: usize = Self::HEADER_LEN + 17 + 8 * Ack::MAX_RANGES;

    /// Parses the body of a transfer payload.
    ///
    /// # Errors
    /// When `data` is not exactly one message.
    pub fn parse(data: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(data);
        let kind = reader.u8()?;
        let id = TransferId(reader.u64()?);
        let body = match kind {
            1 => MessageBody::Offer(Offer::read(&mut reader)?),
            2 => MessageBody::Accept { window: reader.u32()? },
            3 => MessageBody::Chunk(Chunk::read(&mut reader)?),
            4 => MessageBody::Ack(Ack::read(&mut reader)?),
            5 => MessageBody::Finished(Verdict::from_u8(reader.u8()?)?),
            6 => MessageBody::Cancel(CancelReason::from_u8(reader.u8()?)?),
            value => return Err(WireError::UnknownVariant { field: "transfer message", value }),
        };
        reader.finish()?;
        Ok(Self { id, body })
    }

    /// Appends the one encoding of this message.
    ///
    /// # Panics
    /// When a Chunk has no bytes or ends beyond 2^64, or
    /// an Ack breaks what [`Ack::ranges`] promises.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match &self.body {
            MessageBody::Offer(offer) => {
                self.emit_header(1, out);
                offer.emit(out);
            }
            MessageBody::Accept { window } => {
                self.emit_header(2, out);
                out.extend_from_slice(&window.to_be_bytes());
            }
            MessageBody::Chunk(chunk) => {
                chunk.emit_header(self.id, chunk.bytes.len(), out);
                out.extend_from_slice(chunk.bytes);
            }
            MessageBody::Ack(ack) => {
                self.emit_header(4, out);
                ack.emit(out);
            }
            MessageBody::Finished(verdict) => {
                self.emit_header(5, out);
                out.push(*verdict as u8);
            }
            MessageBody::Cancel(reason) => {
                self.emit_header(6, out);
                out.push(*reason as u8);
            }
        }
    }

    fn emit_header(&self, kind: u8, out: &mut Vec<u8>) {
        out.push(kind);
        out.extend_from_slice(&self.id.0.to_be_bytes());
    }
}

impl Offer {
    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let length = reader.u64()?;
        let sha256 = reader.array()?;
        let name_len = usize::from(reader.u8()?);
        let name = std::str::from_utf8(reader.take(name_len)?)
            .map_err(|_| WireError::NotCanonical("file name"))?;
        Ok(Self { length, sha256, name: FileName::new(name)? })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.length.to_be_bytes());
        out.extend_from_slice(&self.sha256);
        out.push(self.name.0.len() as u8);
        out.extend_from_slice(self.name.0.as_bytes());
    }
}

impl<'a> Chunk<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let number = reader.u32()?;
        let ack_every = reader.u8()?;
        let offset = reader.u64()?;
        let bytes = reader.rest();
        if bytes.is_empty() || offset.checked_add(bytes.len() as u64).is_none() {
            return Err(WireError::NotCanonical("chunk"));
        }
        Ok(Self { number, ack_every, offset, bytes })
    }

    /// Appends everything of the message but the bytes of the file, of which `len` must follow;
    /// `self.bytes` is not looked at. So a sender can read a file right into the datagram.
    ///
    /// # Panics
    /// When `len` is zero or the chunk would end beyond 2^64.
    pub fn emit_header(&self, id: TransferId, len: usize, out: &mut Vec<u8>) {
        assert!(len > 0, "a chunk has at least one byte");
        assert!(self.offset.checked_add(len as u64).is_some(), "a chunk ends inside its file");
        out.push(3);
        out.extend_from_slice(&id.0.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
        out.push(self.ack_every);
        out.extend_from_slice(&self.offset.to_be_bytes());
    }
}

impl Ack {
    /// The most ranges one Ack reports.
    pub const MAX_RANGES: usize = 48;

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let cumulative = reader.u64()?;
        let window = reader.u32()?;
        let newest = reader.u32()?;
        let count = usize::from(reader.u8()?);
        if count > Self::MAX_RANGES {
            return Err(WireError::TooLong { field: "ranges", limit: Self::MAX_RANGES });
        }
        let mut ranges = Vec::with_capacity(count);
        let mut end = cumulative;
        for _ in 0..count {
            let (gap, len) = (reader.u32()?, reader.u32()?);
            if gap == 0 || len == 0 {
                return Err(WireError::NotCanonical("ranges"));
            }
            let out_of_file = WireError::NotCanonical("ranges");
            let start = end.checked_add(gap.into()).ok_or(out_of_file)?;
            end = start.checked_add(len.into()).ok_or(out_of_file)?;
            ranges.push(start..end);
        }
        Ok(Self { cumulative, window, newest, ranges })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        assert!(self.ranges.len() <= Self::MAX_RANGES, "more ranges than an Ack can hold");
        out.extend_from_slice(&self.cumulative.to_be_bytes());
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&self.newest.to_be_bytes());
        out.push(self.ranges.len() as u8);
        let mut end = self.cumulative;
        for range in &self.ranges {
            assert!(end < range.start && range.start < range.end, "ranges ascend, apart");
            for distance in [range.start - end, range.end - range.start] {
                let distance = u32::try_from(distance).expect("ranges lie within a window");
                out.extend_from_slice(&distance.to_be_bytes());
            }
            end = range.end;
        }
    }
}

impl Verdict {
    fn from_u8(value: u8) -> Result<Self, WireError> {
        Ok(match value {
            0 => Self::Intact,
            1 => Self::Corrupt,
            value => return Err(WireError::UnknownVariant { field: "verdict", value }),
        })
    }
}

impl CancelReason {
    fn from_u8(value: u8) -> Result<Self, WireError> {
        Ok(match value {
            1 => Self::Stopped,
            2 => Self::Declined,
            3 => Self::TooLarge,
            4 => Self::Busy,
            5 => Self::ReadFailed,
            6 => Self::WriteFailed,
            7 => Self::TimedOut,
            8 => Self::Unknown,
            value => return Err(WireError::UnknownVariant { field: "cancel reason", value }),
        })
    }
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "stopped by its user",
            Self::Declined => "the receiver does not want the file",
            Self::TooLarge => "the file is larger than the receiver takes",
            Self::Busy => "the receiver has no room for another transfer now",
            Self::ReadFailed => "the sender cannot read the file",
            Self::WriteFailed => "the receiver cannot write the file",
            Self::TimedOut => "too long without progress",
            Self::Unknown => "the receiver knows nothing of this transfer any more",
        })
    }
}

impl FileName {
    /// The most bytes a name has, and what common file systems allow.
    pub const MAX_LEN: usize = 255;

    /// Takes a name that may travel.
    ///
    /// # Errors
    /// When `name` breaks one of the rules of [`FileName`].
    pub fn new(name: &str) -> Result<Self, WireError> {
        if name.len() > Self::MAX_LEN {
            return Err(WireError::TooLong { field: "file name", limit: Self::MAX_LEN });
        }
        if matches!(name, "" | "." | "..") || name.chars().any(is_unfit_for_a_name) {
            return Err(WireError::NotCanonical("file name"));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Separators of any system, and what could move the cursor
/// or turn the text around where a name is shown.
fn is_unfit_for_a_name(c: char) -> bool {
    matches!(c, '/' | '\\' | '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
        || c.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn file_names_stay_in_their_directory() {
        for name in ["a", "...", "Ünïcode 文件.tar.gz", ".hidden", &"n".repeat(255)] {
            assert_eq!(FileName::new(name).unwrap().as_str(), name);
        }
        for name in ["", ".", "..", "a/b", "/", "..\\x", "a\0", "a\nb", "\u{1b}[2J", "x\u{202E}y"] {
            assert_eq!(FileName::new(name), Err(WireError::NotCanonical("file name")), "{name:?}");
        }
        assert!(FileName::new(&"n".repeat(256)).is_err());
    }

    #[test]
    fn lengths_are_as_stated() {
        let id = TransferId(7);
        let mut longest = Vec::new();
        let ranges = (1..=Ack::MAX_RANGES as u64).map(|i| i * 4..i * 4 + 2).collect();
        let ack = Ack { cumulative: 0, window: 0, newest: 0, ranges };
        Message { id, body: MessageBody::Ack(ack) }.emit(&mut longest);
        assert_eq!(longest.len(), Message::MAX_CONTROL_LEN);
        let mut offer = Vec::new();
        let name = FileName::new(&"n".repeat(FileName::MAX_LEN)).unwrap();
        let body = MessageBody::Offer(Offer { length: 0, sha256: [0; 32], name });
        Message { id, body }.emit(&mut offer);
        assert!(offer.len() < Message::MAX_CONTROL_LEN);
        let mut chunk = Vec::new();
        let body = Chunk { number: 1, ack_every: 2, offset: 3, bytes: b"x" };
        Message { id, body: MessageBody::Chunk(body) }.emit(&mut chunk);
        assert_eq!(chunk.len(), Message::CHUNK_OVERHEAD + 1);
    }

    #[test]
    fn what_has_a_second_spelling_is_refused() {
        let chunk = |offset: u64, bytes: &[u8]| {
            let mut data = vec![3];
            data.extend_from_slice(&[0; 13]);
            data.extend_from_slice(&offset.to_be_bytes());
            data.extend_from_slice(bytes);
            data
        };
        assert!(Message::parse(&chunk(u64::MAX - 2, b"12")).is_ok());
        assert!(Message::parse(&chunk(u64::MAX - 1, b"12")).is_err(), "ends beyond 2^64");
        assert!(Message::parse(&chunk(0, b"")).is_err(), "empty");
        let ack = |cumulative: u64, pairs: &[(u32, u32)]| {
            let mut data = vec![4];
            data.extend_from_slice(&[0; 8]);
            data.extend_from_slice(&cumulative.to_be_bytes());
            data.extend_from_slice(&[0; 8]);
            data.push(pairs.len() as u8);
            for (gap, len) in pairs {
                data.extend_from_slice(&gap.to_be_bytes());
                data.extend_from_slice(&len.to_be_bytes());
            }
            data
        };
        assert!(Message::parse(&ack(5, &[(1, 1), (1, 1)])).is_ok());
        assert!(Message::parse(&ack(5, &[(1, 1); Ack::MAX_RANGES + 1])).is_err(), "too many");
        assert!(Message::parse(&ack(5, &[(0, 1)])).is_err(), "adjacent");
        assert!(Message::parse(&ack(5, &[(1, 0)])).is_err(), "empty");
        assert!(Message::parse(&ack(u64::MAX - 1, &[(1, 1)])).is_err(), "beyond 2^64");
    }

    fn any_body() -> impl Strategy<Value = MessageBody<'static>> {
        let offer = (any::<u64>(), any::<[u8; 32]>(), "[a-z文 .]{1,40}x").prop_map(
            |(length, sha256, name)| {
                MessageBody::Offer(Offer { length, sha256, name: FileName::new(&name).unwrap() })
            },
        );
        let chunk = (any::<u32>(), any::<u8>(), 0..u64::MAX - 16, 1usize..=16).prop_map(
            |(number, ack_every, offset, len)| {
                let bytes = &b"0123456789abcdef"[..len];
                MessageBody::Chunk(Chunk { number, ack_every, offset, bytes })
            },
        );
        let pairs = prop::collection::vec((1u32.., 1u32..), 0..=Ack::MAX_RANGES);
        let ack = (0..u64::MAX / 2, any::<u32>(), any::<u32>(), pairs).prop_map(
            |(cumulative, window, newest, pairs)| {
                let mut end = cumulative;
                let mut ranges = Vec::new();
                for (gap, len) in pairs {
                    let start = end + u64::from(gap);
                    end = start + u64::from(len);
                    ranges.push(start..end);
                }
                MessageBody::Ack(Ack { cumulative, window, newest, ranges })
            },
        );
        prop_oneof![
            offer,
            any::<u32>().prop_map(|window| MessageBody::Accept { window }),
            chunk,
            ack,
            (0u8..=1).prop_map(|v| MessageBody::Finished(Verdict::from_u8(v).unwrap())),
            (1u8..=8).prop_map(|r| MessageBody::Cancel(CancelReason::from_u8(r).unwrap())),
        ]
    }

    proptest! {
        #[test]
        fn messages_round_trip(id: u64, body in any_body()) {
            let message = Message { id: TransferId(id), body };
            let mut data = Vec::new();
            message.emit(&mut data);
            prop_assert_eq!(Message::parse(&data), Ok(message.clone()));
            if !matches!(message.body, MessageBody::Chunk(_)) {
                for cut in 0..data.len() {
                    prop_assert!(Message::parse(&data[..cut]).is_err());
                }
                data.push(0);
                prop_assert!(Message::parse(&data).is_err());
            }
        }

        #[test]
        fn any_bytes_are_refused_or_the_one_encoding(kind in 1u8..=6, rest in prop::collection::vec(any::<u8>(), 0..96)) {
            crate::fuzz::transfer(&[&[kind][..], &rest].concat());
        }
    }
}

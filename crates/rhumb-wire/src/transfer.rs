//! What is said of a file on the stream that it goes over, from end to end.
//!
//! The sender begins with an offer:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | transfer identifier, chosen at random by the sender of the file |
//! | 8 | 1 | kind: 0 a file, 1 a folder, 2 what has no end yet, 3 a folder file by file |
//! | 9 | 7 | length |
//! | 16 | 32 | SHA-256 |
//! | 48 | 1 | length of the file name |
//! | 49 | .. | file name |
//!
//! The bytes follow, those of a folder as [`crate::folder`] says, from the offset on that the
//! receiver asks for. The receiver says how much of the file it has (8), again and again. Before
//! the first time it adds [`LOOKING`] and says how much of what it has it has looked at, and with
//! the same bit how much it has while it writes; after it has said the whole length, the verdict
//! (1). Who ends it before gives a reason, by the code with
//! which it resets and stops the stream.

use std::fmt;

use crate::WireError;
use crate::reader::Reader;

/// Pairs the streams of one transfer: it may take several of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransferId(pub u64);

/// The bit of a number of bytes which says that the receiver still looks at what it has, and at how
/// much of it, or writes what has come.
pub const LOOKING: u64 = 1 << 63;
/// The bit of the number that the verdict follows, of what had no end at first.
pub const ENDED: u64 = 1 << 62;
/// Lengths are below this.
pub const LENGTHS: u64 = 1 << 56;

/// What is on offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What its bytes are.
    pub kind: Kind,
    /// How many there are, fewer than [`LENGTHS`]; 0 of what has no end yet.
    pub length: u64,
    /// SHA-256 of all of them; of a folder that arrives file by file, of its list with the length
    /// of that; of what has no end yet, a random number in its place.
    pub sha256: [u8; 32],
    /// What the sender calls it.
    pub name: FileName,
}

/// What is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A file.
    File = 0,
    /// A folder: the bytes are those of [`crate::folder`].
    Folder = 1,
    /// What has no end yet: its bytes come in frames, which an [`Unframer`] takes off.
    Endless = 2,
    /// A folder whose list has the SHA-256 of each file, so that the receiver says which of them it
    /// has ([`crate::held`]).
    FileByFile = 3,
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

/// Why a transfer ends without its file: the code of its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CancelReason {
    /// The receiver has as many transfers as it can serve. It may be asked again.
    Busy = 3,
    /// Its user ended it.
    Stopped = 4,
    /// The receiver does not want the file.
    Declined = 16,
    /// The file is larger than the receiver takes.
    TooLarge = 17,
    /// The sender cannot read the file any more.
    ReadFailed = 18,
    /// The receiver cannot write the file.
    WriteFailed = 19,
    /// Too long without progress.
    TimedOut = 20,
    /// What the other end says makes no sense.
    Nonsense = 21,
}

/// A file's name as it may travel: 1 to 255 bytes of UTF-8 that name a file inside one directory
/// and do nothing to a terminal. Neither `.` nor `..`, and no `/`, `\`, control character or
/// control of writing direction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileName(String);

impl Offer {
    /// Bytes before the file name, whose length is the last of them.
    pub const HEAD_LEN: usize = 49;

    /// Parses an offer.
    ///
    /// # Errors
    /// When `data` is not exactly one.
    pub fn parse(data: &[u8]) -> Result<(TransferId, Self), WireError> {
        let mut reader = Reader::new(data);
        let id = TransferId(reader.u64()?);
        let word = reader.u64()?;
        let (kind, length) = (Kind::from_u8((word / LENGTHS) as u8)?, word % LENGTHS);
        if kind == Kind::Endless && length != 0 {
            return Err(WireError::NotCanonical("length of what has no end yet"));
        }
        let sha256 = reader.array()?;
        let name_len = usize::from(reader.u8()?);
        let name = std::str::from_utf8(reader.take(name_len)?)
            .map_err(|_| WireError::NotCanonical("file name"))?;
        let name = FileName::new(name)?;
        reader.finish()?;
        Ok((id, Self { kind, length, sha256, name }))
    }

    /// Appends the one encoding of this offer.
    pub fn emit(&self, id: TransferId, out: &mut Vec<u8>) {
        out.extend_from_slice(&id.0.to_be_bytes());
        let word = u64::from(self.kind as u8) * LENGTHS + self.length % LENGTHS;
        out.extend_from_slice(&word.to_be_bytes());
        out.extend_from_slice(&self.sha256);
        out.push(self.name.0.len() as u8);
        out.extend_from_slice(self.name.0.as_bytes());
    }
}

impl Kind {
    /// Whether it becomes a folder.
    pub fn is_folder(self) -> bool {
        matches!(self, Self::Folder | Self::FileByFile)
    }

    /// The kind of a byte.
    ///
    /// # Errors
    /// When it is none.
    pub fn from_u8(value: u8) -> Result<Self, WireError> {
        Ok(match value {
            0 => Self::File,
            1 => Self::Folder,
            2 => Self::Endless,
            3 => Self::FileByFile,
            value => return Err(WireError::UnknownVariant { field: "kind of a file", value }),
        })
    }
}

/// Appends the head of a frame of so many bytes, which follow it.
pub fn emit_frame_head(len: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&len.to_be_bytes());
}

/// Appends the frame that is the last one: the SHA-256 of all that came before.
pub fn emit_end(sha256: &[u8; 32], out: &mut Vec<u8>) {
    emit_frame_head(0, out);
    out.extend_from_slice(sha256);
}

/// Takes frames off, in whatever parts they come: a length (4) and as many bytes, and at the end a
/// length of zero and the SHA-256 (32).
#[derive(Debug, Clone, Default)]
pub struct Unframer {
    /// What has come of a head, or of the SHA-256.
    head: Vec<u8>,
    /// Bytes that are missing of a frame.
    left: usize,
    is_last: bool,
    end: Option<[u8; 32]>,
}

impl Unframer {
    /// Moves what is content to the front of `bytes`, which follow those before, and says how much
    /// that is.
    ///
    /// # Errors
    /// When something follows the end.
    pub fn strip(&mut self, bytes: &mut [u8]) -> Result<usize, WireError> {
        let (mut at, mut kept) = (0, 0);
        while at < bytes.len() {
            if self.end.is_some() {
                return Err(WireError::TrailingBytes);
            }
            if self.left > 0 {
                let len = self.left.min(bytes.len() - at);
                bytes.copy_within(at..at + len, kept);
                (at, kept, self.left) = (at + len, kept + len, self.left - len);
                continue;
            }
            self.head.push(bytes[at]);
            at += 1;
            if self.is_last {
                self.end = self.head[..].try_into().ok();
            } else if let Ok(head) = self.head[..].try_into() {
                self.left = u32::from_be_bytes(head) as usize;
                self.is_last = self.left == 0;
                self.head.clear();
            }
        }
        Ok(kept)
    }

    /// The SHA-256 of all, once the end has come.
    pub fn end(&self) -> Option<[u8; 32]> {
        self.end
    }
}

impl Verdict {
    /// The verdict of a byte.
    ///
    /// # Errors
    /// When it is none.
    pub fn from_u8(value: u8) -> Result<Self, WireError> {
        Ok(match value {
            0 => Self::Intact,
            1 => Self::Corrupt,
            value => return Err(WireError::UnknownVariant { field: "verdict", value }),
        })
    }
}

impl CancelReason {
    /// The reason of a code; `None` for codes that are about no file.
    pub fn from_code(code: u64) -> Option<Self> {
        let all = [
            Self::Busy,
            Self::Stopped,
            Self::Declined,
            Self::TooLarge,
            Self::ReadFailed,
            Self::WriteFailed,
            Self::TimedOut,
            Self::Nonsense,
        ];
        all.into_iter().find(|reason| reason.code() == code)
    }

    /// The code of a stream that ends for this reason.
    pub fn code(self) -> u64 {
        u64::from(self as u8)
    }
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "the receiver has no room for another transfer now",
            Self::Stopped => "stopped by its user",
            Self::Declined => "the receiver does not want the file",
            Self::TooLarge => "the file is larger than the receiver takes",
            Self::ReadFailed => "the sender cannot read the file",
            Self::WriteFailed => "the receiver cannot write the file",
            Self::TimedOut => "too long without progress",
            Self::Nonsense => "what this end said made no sense to it",
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
        Self::check(name).map(|()| Self(name.to_owned()))
    }

    pub(crate) fn check(name: &str) -> Result<(), WireError> {
        if name.len() > Self::MAX_LEN {
            return Err(WireError::TooLong { field: "file name", limit: Self::MAX_LEN });
        }
        if matches!(name, "" | "." | "..") || name.chars().any(is_unfit_for_a_name) {
            return Err(WireError::NotCanonical("file name"));
        }
        Ok(())
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
    fn a_kind_that_is_none_is_refused() {
        let name = FileName::new("a").unwrap();
        let offer = Offer { kind: Kind::File, length: LENGTHS - 1, sha256: [7; 32], name };
        let mut data = Vec::new();
        offer.emit(TransferId(1), &mut data);
        for (kind, expected) in [
            (0, Some(Kind::File)),
            (1, Some(Kind::Folder)),
            (2, None),
            (3, Some(Kind::FileByFile)),
            (4, None),
        ] {
            data[8] = kind;
            let parsed = Offer::parse(&data).map(|(_, offer)| (offer.kind, offer.length));
            assert_eq!(parsed.ok(), expected.map(|kind| (kind, LENGTHS - 1)));
        }
        data[8..16].copy_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Offer::parse(&data).map(|(_, offer)| offer.kind), Ok(Kind::Endless));
    }

    #[test]
    fn reasons_are_codes_and_other_codes_are_none() {
        let reasons: Vec<_> = (0..1000).filter_map(CancelReason::from_code).collect();
        assert_eq!(reasons.len(), 8);
        assert!(reasons.iter().all(|it| CancelReason::from_code(it.code()) == Some(*it)));
    }

    proptest! {
        #[test]
        fn offers_round_trip(id: u64, is_folder: bool, length in 0..LENGTHS, sha256: [u8; 32], name in "[a-z文 .]{1,40}x") {
            let kind = if is_folder { Kind::Folder } else { Kind::File };
            let offer = Offer { kind, length, sha256, name: FileName::new(&name).unwrap() };
            let mut data = Vec::new();
            offer.emit(TransferId(id), &mut data);
            prop_assert_eq!(data.len(), Offer::HEAD_LEN + usize::from(data[Offer::HEAD_LEN - 1]));
            prop_assert_eq!(Offer::parse(&data), Ok((TransferId(id), offer)));
            for cut in 0..data.len() {
                prop_assert!(Offer::parse(&data[..cut]).is_err());
            }
            data.push(0);
            prop_assert!(Offer::parse(&data).is_err());
        }

        #[test]
        fn frames_are_taken_off_however_they_come(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            cut in 1_usize..50,
        ) {
            let mut framed = Vec::new();
            for part in &parts {
                emit_frame_head(part.len() as u32, &mut framed);
                framed.extend_from_slice(part);
            }
            emit_end(&[7; 32], &mut framed);
            let (mut unframer, mut content) = (Unframer::default(), Vec::new());
            for piece in framed.chunks_mut(cut) {
                prop_assert_eq!(unframer.end(), None);
                let len = unframer.strip(piece).unwrap();
                content.extend_from_slice(&piece[..len]);
            }
            prop_assert_eq!(content, parts.concat());
            prop_assert_eq!(unframer.end(), Some([7; 32]));
            prop_assert!(unframer.strip(&mut [0]).is_err());
        }

        #[test]
        fn any_bytes_are_refused_or_the_one_encoding(
            head in prop::collection::vec(any::<u8>(), 48),
            name in "[a-z./]{0,8}",
        ) {
            let name = name.as_bytes();
            crate::fuzz::transfer(&[&head[..], &[name.len() as u8], name].concat());
        }
    }
}

//! A foreign peer's ClientHello, read without keeping anything: whether it can be
//! answered, and what the hello was that it answers a cookie for (RFC 6347,
//! section 4.2.1; RFC 9147, sections 5.1 and 5.3).
//!
//! A hello with a cookie is the first hello, with the cookie in it, and in DTLS 1.3 perhaps with
//! another length of padding. So the first is written again from the second, and nothing has to be
//! remembered meanwhile. A hello is one record and one fragment; others are refused, because they
//! could only be put together by keeping them.

use std::ops::Range;

use crate::DropReason;

/// A ClientHello, whole.
#[derive(Debug, Clone)]
pub(crate) struct Hello<'a> {
    /// Without the record's and the message's headers.
    body: &'a [u8],
    pub(crate) version: Version,
    /// Which of the peer's handshake messages it is.
    pub(crate) message_seq: u16,
    session_id_end: usize,
    /// In it, without its length: of DTLS 1.2.
    legacy_cookie: Range<usize>,
    suites: Range<usize>,
    compressions_end: usize,
    /// Each with its header; empty when there are none.
    extensions: Vec<Extension>,
}

/// What it will be answered in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Dtls12,
    Dtls13,
}

#[derive(Debug, Clone)]
struct Extension {
    kind: u16,
    /// With its header.
    whole: Range<usize>,
}

impl<'a> Hello<'a> {
    /// Reads a datagram that is a whole ClientHello.
    pub(crate) fn parse(datagram: &'a [u8]) -> Result<Self, DropReason> {
        Self::read(datagram).ok_or(DropReason::HelloRefused)
    }

    fn read(datagram: &'a [u8]) -> Option<Self> {
        let (header, message) = datagram.split_at_checked(RECORD_HEADER_LEN)?;
        let len = usize::from(u16::from_be_bytes([header[11], header[12]]));
        let (&[kind, a, b, c, seq_high, seq_low, d, e, f, g, h, i], body) =
            message.split_first_chunk::<MESSAGE_HEADER_LEN>()?;
        let whole = [a, b, c] == [g, h, i]
            && [d, e, f] == [0; 3]
            && body.len() == u32::from_be_bytes([0, a, b, c]) as usize;
        if header[..5] != [22, header[1], header[2], 0, 0]
            || len != message.len()
            || kind != CLIENT_HELLO
            || !whole
        {
            return None;
        }
        let session_id_end = RANDOM_END + 1 + usize::from(*body.get(RANDOM_END)?);
        let legacy_cookie = sized(body, session_id_end, 1)?;
        let suites = sized(body, legacy_cookie.end, 2)?;
        let compressions = sized(body, suites.end, 1)?;
        let extensions = match sized(body, compressions.end, 2) {
            Some(list) if list.end == body.len() => Extension::list(body, list)?,
            None if compressions.end == body.len() => Vec::new(),
            _ => return None,
        };
        let message_seq = u16::from_be_bytes([seq_high, seq_low]);
        let mut hello = Self {
            body,
            version: Version::Dtls12,
            message_seq,
            session_id_end,
            legacy_cookie,
            suites,
            compressions_end: compressions.end,
            extensions,
        };
        let versions = hello.extension(SUPPORTED_VERSIONS).and_then(|data| data.get(1..));
        if versions.is_some_and(|versions| versions.chunks_exact(2).any(|it| it == DTLS_13)) {
            hello.version = Version::Dtls13;
        }
        Some(hello)
    }

    /// The peer's random bytes.
    pub(crate) fn random(&self) -> &'a [u8] {
        &self.body[2..RANDOM_END]
    }

    /// The cookie that it brings back.
    pub(crate) fn cookie(&self) -> Option<&'a [u8]> {
        match self.version {
            Version::Dtls12 => Some(&self.body[self.legacy_cookie.clone()]),
            Version::Dtls13 => self.extension(COOKIE).and_then(|data| data.get(2..)),
        }
        .filter(|cookie| !cookie.is_empty())
    }

    /// The first of its cipher suites that is one of `ours`.
    pub(crate) fn suite(&self, ours: &[u16]) -> Option<u16> {
        pairs(&self.body[self.suites.clone()]).find(|suite| ours.contains(suite))
    }

    /// Whether it brings a share of a key of one of `groups`.
    pub(crate) fn has_share_of(&self, groups: &[u16]) -> bool {
        let Some(mut rest) = self.extension(KEY_SHARE).and_then(|data| data.get(2..)) else {
            return false;
        };
        while let Some((&[a, b, c, d], after)) = rest.split_first_chunk() {
            if groups.contains(&u16::from_be_bytes([a, b])) {
                return true;
            }
            rest = after.get(usize::from(u16::from_be_bytes([c, d]))..).unwrap_or_default();
        }
        false
    }

    /// What the first hello must have been, if this one answers a cookie; if this is the first, it
    /// is the only one. As handshake messages, headers included, of number 0. In DTLS 1.2
    /// extensions are left out: nobody signs them, and they may differ.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = Vec<u8>> {
        let without_cookie = match self.version {
            Version::Dtls12 => {
                let mut body = self.body[..self.session_id_end].to_vec();
                body.push(0);
                body.extend_from_slice(&self.body[self.legacy_cookie.end..self.compressions_end]);
                body
            }
            Version::Dtls13 => self.body_with(0),
        };
        let missing = self.body.len() - without_cookie.len();
        // A peer that fills its hellos up has less padding in the second.
        let is_padded = self.version == Version::Dtls13
            && missing > 0
            && self.extensions.iter().any(|it| it.kind == PADDING);
        let padded = is_padded.then(|| self.body_with(missing));
        padded.into_iter().chain([without_cookie]).map(|body| message(CLIENT_HELLO, 0, &body))
    }

    /// The body without the extension that holds the cookie, and with so much more padding.
    fn body_with(&self, more_padding: usize) -> Vec<u8> {
        let mut list = Vec::with_capacity(self.body.len());
        let mut more_padding = more_padding;
        for extension in self.extensions.iter().filter(|it| it.kind != COOKIE) {
            let bytes = &self.body[extension.whole.clone()];
            if extension.kind == PADDING && more_padding > 0 {
                let len = bytes.len() - EXTENSION_HEADER_LEN + std::mem::take(&mut more_padding);
                list.extend_from_slice(&PADDING.to_be_bytes());
                list.extend_from_slice(&(len as u16).to_be_bytes());
                list.resize(list.len() + len, 0);
            } else {
                list.extend_from_slice(bytes);
            }
        }
        let before = self.extensions.first().map_or(self.body.len(), |it| it.whole.start - 2);
        let mut body = self.body[..before].to_vec();
        body.extend_from_slice(&(list.len() as u16).to_be_bytes());
        body.extend_from_slice(&list);
        body
    }

    fn extension(&self, kind: u16) -> Option<&'a [u8]> {
        let found = self.extensions.iter().find(|it| it.kind == kind)?;
        Some(&self.body[found.whole.start + EXTENSION_HEADER_LEN..found.whole.end])
    }
}

impl Extension {
    fn list(body: &[u8], list: Range<usize>) -> Option<Vec<Self>> {
        let (mut at, mut extensions) = (list.start, Vec::new());
        while at < list.end {
            let data = sized(body, at + 2, 2).filter(|data| data.end <= list.end)?;
            let kind = u16::from_be_bytes([body[at], body[at + 1]]);
            extensions.push(Self { kind, whole: at..data.end });
            at = data.end;
        }
        Some(extensions)
    }
}

/// A HelloVerifyRequest, as the first datagram of a server.
pub(crate) fn verify_request(cookie: &[u8; COOKIE_LEN]) -> Vec<u8> {
    let mut body = DTLS_10.to_vec();
    body.push(COOKIE_LEN as u8);
    body.extend_from_slice(cookie);
    first_datagram(HELLO_VERIFY_REQUEST, &body)
}

/// A HelloRetryRequest, as the first datagram of a server: to the byte what the library says,
/// because it is a part of what both ends sign.
pub(crate) fn retry_request(suite: u16, cookie: &[u8; COOKIE_LEN]) -> Vec<u8> {
    let mut body = DTLS_12.to_vec();
    body.extend_from_slice(&HELLO_RETRY_RANDOM);
    body.push(0);
    body.extend_from_slice(&suite.to_be_bytes());
    body.push(0);
    let mut extensions = Vec::new();
    push_extension(SUPPORTED_VERSIONS, &DTLS_13, &mut extensions);
    let cookie = [&(COOKIE_LEN as u16).to_be_bytes()[..], cookie].concat();
    push_extension(COOKIE, &cookie, &mut extensions);
    body.extend_from_slice(&(extensions.len() as u16).to_be_bytes());
    body.extend_from_slice(&extensions);
    first_datagram(SERVER_HELLO, &body)
}

/// Whether a ServerHello, a handshake message, demands a cookie and no other group.
pub(crate) fn is_cookie_request(message: &[u8]) -> bool {
    let Some(body) = message.get(MESSAGE_HEADER_LEN..) else { return false };
    if body.get(2..RANDOM_END) != Some(&HELLO_RETRY_RANDOM) {
        return false;
    }
    let Some(session_id) = sized(body, RANDOM_END, 1) else { return true };
    // Suite and compression.
    let extensions = sized(body, session_id.end + 3, 2);
    let extensions = extensions.and_then(|list| Extension::list(body, list)).unwrap_or_default();
    !extensions.iter().any(|it| it.kind == KEY_SHARE)
}

/// A handshake message as the first record of its sender.
pub(crate) fn first_record(message: &[u8]) -> Vec<u8> {
    let mut record = vec![22];
    record.extend_from_slice(&DTLS_12);
    record.extend_from_slice(&[0; 8]);
    record.extend_from_slice(&(message.len() as u16).to_be_bytes());
    record.extend_from_slice(message);
    record
}

/// The random bytes of a datagram that begins with a whole ClientHello.
pub(crate) fn random_of(datagram: &[u8]) -> Option<[u8; 32]> {
    let body = datagram.get(RECORD_HEADER_LEN + MESSAGE_HEADER_LEN..)?;
    body.get(2..)?.first_chunk().copied()
}

/// Whether a ClientHello is, or is a part of, the first message of its sender.
pub(crate) fn is_first(datagram: &[u8]) -> bool {
    let number = RECORD_HEADER_LEN + 4;
    datagram.get(number..number + 2) == Some(&[0, 0])
}

fn first_datagram(kind: u8, body: &[u8]) -> Vec<u8> {
    first_record(&message(kind, 0, body))
}

fn message(kind: u8, message_seq: u16, body: &[u8]) -> Vec<u8> {
    let [_, len @ ..] = (body.len() as u32).to_be_bytes();
    let mut message = vec![kind];
    message.extend_from_slice(&len);
    message.extend_from_slice(&message_seq.to_be_bytes());
    message.extend_from_slice(&[0; 3]);
    message.extend_from_slice(&len);
    message.extend_from_slice(body);
    message
}

fn push_extension(kind: u16, data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u16).to_be_bytes());
    out.extend_from_slice(data);
}

/// Where the bytes are that a length of so many bytes at `at` counts.
fn sized(body: &[u8], at: usize, len_bytes: usize) -> Option<Range<usize>> {
    let len = body.get(at..at + len_bytes)?;
    let len = len.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
    let start = at + len_bytes;
    (start + len <= body.len()).then_some(start..start + len)
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// Of both kinds of cookies: what the library makes.
pub(crate) const COOKIE_LEN: usize = 32;
const RECORD_HEADER_LEN: usize = 13;
const MESSAGE_HEADER_LEN: usize = 12;
const EXTENSION_HEADER_LEN: usize = 4;
/// Version 2, random 32.
const RANDOM_END: usize = 34;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const HELLO_VERIFY_REQUEST: u8 = 3;
const PADDING: u16 = 21;
const SUPPORTED_VERSIONS: u16 = 43;
const COOKIE: u16 = 44;
const KEY_SHARE: u16 = 51;
const DTLS_10: [u8; 2] = [0xFE, 0xFF];
const DTLS_12: [u8; 2] = [0xFE, 0xFD];
const DTLS_13: [u8; 2] = [0xFE, 0xFC];
/// SHA-256 of "HelloRetryRequest" (RFC 8446, section 4.1.3).
const HELLO_RETRY_RANDOM: [u8; 32] = [
    0xCF, 0x21, 0xAD, 0x74, 0xE5, 0x9A, 0x61, 0x11, 0xBE, 0x1D, 0x8C, 0x02, 0x1E, 0x65, 0xB8, 0x91,
    0xC2, 0xA2, 0x11, 0x16, 0x7A, 0xBB, 0x8C, 0x5E, 0x07, 0x9E, 0x09, 0xE2, 0xC8, 0xA8, 0x33, 0x9C,
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello(cookie: &[u8], extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = DTLS_12.to_vec();
        body.extend_from_slice(&[7; 32]);
        body.push(0);
        body.push(cookie.len() as u8);
        body.extend_from_slice(cookie);
        body.extend_from_slice(&[0, 4, 0x13, 0x02, 0x13, 0x01, 1, 0]);
        let mut list = Vec::new();
        extensions.iter().for_each(|(kind, data)| push_extension(*kind, data, &mut list));
        body.extend_from_slice(&(list.len() as u16).to_be_bytes());
        body.extend_from_slice(&list);
        first_datagram(CLIENT_HELLO, &body)
    }

    const VERSIONS: (u16, &[u8]) = (SUPPORTED_VERSIONS, &[4, 0xFE, 0xFC, 0xFE, 0xFD]);

    fn firsts(datagram: &[u8]) -> Vec<Vec<u8>> {
        Hello::parse(datagram).unwrap().firsts().map(|message| first_record(&message)).collect()
    }

    #[test]
    fn the_first_hello_is_written_again_from_the_second() {
        let share = (KEY_SHARE, &[0, 5, 0, 23, 0, 1, 9][..]);
        let first = firsts(&hello(&[], &[]));
        assert_eq!(firsts(&hello(&[8; 32], &[(99, &[1])])), first);
        assert_eq!(firsts(&first[0]), first);
        // Without padding; and with padding, which may be shorter in the second.
        let cookie = [&[0, 32][..], &[8; 32]].concat();
        let second = hello(&[], &[VERSIONS, (COOKIE, &cookie), share]);
        assert_eq!(firsts(&second), [hello(&[], &[VERSIONS, share])]);
        let second = hello(&[], &[VERSIONS, share, (COOKIE, &cookie), (PADDING, &[0; 10])]);
        let longer = hello(&[], &[VERSIONS, share, (PADDING, &[0; 10 + 4 + 2 + 32])]);
        let same = hello(&[], &[VERSIONS, share, (PADDING, &[0; 10])]);
        assert_eq!(longer.len(), second.len());
        assert_eq!(firsts(&second), [longer, same.clone()]);
        assert_eq!(firsts(&same), [same]);
    }

    #[test]
    fn what_is_offered_is_read() {
        let share = (KEY_SHARE, &[0, 12, 0, 29, 0, 2, 1, 2, 0, 23, 0, 2, 3, 4][..]);
        let bytes = hello(&[], &[VERSIONS, share]);
        let found = Hello::parse(&bytes).unwrap();
        assert_eq!((found.version, found.message_seq, found.cookie()), (Version::Dtls13, 0, None));
        assert_eq!(found.random(), [7; 32]);
        assert_eq!((found.suite(&[0x1301, 0x1302]), found.suite(&[1])), (Some(0x1302), None));
        assert!(
            found.has_share_of(&[23]) && found.has_share_of(&[29]) && !found.has_share_of(&[24])
        );
        let older = hello(&[3; 20], &[]);
        let found = Hello::parse(&older).unwrap();
        assert_eq!((found.version, found.cookie()), (Version::Dtls12, Some(&[3; 20][..])));
        assert!(!found.has_share_of(&[23]));
    }

    #[test]
    fn what_is_not_one_whole_hello_is_refused() {
        let good = hello(&[], &[VERSIONS]);
        for len in 0..good.len() {
            assert_eq!(Hello::parse(&good[..len]).unwrap_err(), DropReason::HelloRefused);
        }
        assert!(Hello::parse(&[&good[..], &[0]].concat()).is_err(), "more than a record");
        // Epoch, type of message, fragment's offset and length.
        for at in [3, 4, 13, 19, 20, 21, 22, 23, 24] {
            let mut other = good.clone();
            other[at] ^= 1;
            assert!(Hello::parse(&other).is_err(), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(at in 0usize..80, value: u8, cut in 0usize..80) {
            let cookie = [&[0, 3][..], &[8; 3]].concat();
            let mut bytes = hello(&[], &[VERSIONS, (COOKIE, &cookie), (PADDING, &[0; 3])]);
            let len = bytes.len();
            bytes[at % len] = value;
            crate::fuzz::hello(&bytes);
            bytes.truncate(len - cut % len);
            crate::fuzz::hello(&bytes);
        }
    }
}

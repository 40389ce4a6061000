//! TLS 1.3 records once the handshake is over (RFC 8446, section 5): sealed and opened where they
//! stand, by `rhumb-aead`. What is in them is looked at in `protected`.
//!
//! INVARIANT: a key seals no two records under one number, and no more than [`MOST_SEALED`] in all:
//! the number is counted here, by the key's only owner, before anything is encrypted. Of a record
//! that does not open nothing is left, and nothing is handed out.

use rhumb_aead::{Algorithm, Choice, Key, NONCE_LEN, TAG_LEN};
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::{ConnectionTrafficSecrets, Error};

/// What a connection is ended for, as the peer is told (RFC 8446, section 6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub(crate) enum Fault {
    #[error("a TLS message that has no place here came")]
    UnexpectedMessage = 10,
    #[error("a TLS record is not what the peer has sealed")]
    BadRecord = 20,
    #[error("a TLS record is longer than may be")]
    Overflow = 22,
    #[error("a field of a TLS message has a value that means nothing")]
    IllegalParameter = 47,
    #[error("a TLS message is not of the form that it should have")]
    Decode = 50,
    #[error("no more TLS records can be sealed, or opened, with this key")]
    Exhausted = 80,
}

/// The key of one direction, its part of the nonce, and the number of the next record.
struct Keyed {
    key: Key,
    iv: [u8; NONCE_LEN],
    next: u64,
}

impl Keyed {
    /// # Errors
    /// When the secrets are not of AES-GCM, the one cipher that handshakes offer.
    fn new(
        (next, secrets): (u64, ConnectionTrafficSecrets),
        choice: Choice,
    ) -> Result<Self, Error> {
        let made = |algorithm: Algorithm, key: AeadKey, iv: Iv| -> Result<Self, Error> {
            let iv = <[u8; NONCE_LEN]>::try_from(iv.as_ref());
            let (Ok(iv), true) = (iv, key.as_ref().len() == algorithm.key_len()) else {
                return Err(Error::General("a key of another length".to_owned()));
            };
            Ok(Self { key: Key::new(algorithm, key.as_ref(), choice), iv, next })
        };
        match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => made(Algorithm::Aes128Gcm, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => made(Algorithm::Aes256Gcm, key, iv),
            _ => Err(Error::General("a cipher that was not offered".to_owned())),
        }
    }

    /// The nonce of the next record, which nobody gets again (section 5.3).
    fn next_nonce(&mut self, most: u64) -> Result<[u8; NONCE_LEN], Fault> {
        let number = self.next;
        if number >= most {
            return Err(Fault::Exhausted);
        }
        self.next = number + 1;
        let [a, b, c, d, low @ ..] = self.iv;
        let [e, f, g, h, i, j, k, l] = (u64::from_be_bytes(low) ^ number).to_be_bytes();
        Ok([a, b, c, d, e, f, g, h, i, j, k, l])
    }
}

/// What we send is sealed with.
pub(crate) struct Sealing(Keyed);

impl Sealing {
    pub(crate) fn new(
        secrets: (u64, ConnectionTrafficSecrets),
        choice: Choice,
    ) -> Result<Self, Error> {
        Keyed::new(secrets, choice).map(Self)
    }

    /// Records that were sealed with this key.
    pub(crate) fn sealed(&self) -> u64 {
        self.0.next
    }

    /// Seals a record where it stands: room for a header, the content, its type, room for a tag.
    fn seal(&mut self, record: &mut [u8]) -> Result<(), Fault> {
        let Some((header, body)) = record.split_first_chunk_mut::<HEADER_LEN>() else {
            return Err(Fault::Overflow);
        };
        let Some((inner, tag)) = body.split_last_chunk_mut::<TAG_LEN>() else {
            return Err(Fault::Overflow);
        };
        if inner.len() > MOST_CONTENT + TYPE_LEN {
            return Err(Fault::Overflow);
        }
        let [high, low] = ((inner.len() + TAG_LEN) as u16).to_be_bytes();
        *header = [OUTER, 3, 3, high, low];
        let nonce = self.0.next_nonce(MOST_SEALED)?;
        *tag = self.0.key.seal(nonce, header, inner);
        Ok(())
    }

    /// Appends a record of these few bytes to `out`.
    pub(crate) fn append(
        &mut self,
        kind: u8,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let begin = out.len();
        out.extend_from_slice(&[0; HEADER_LEN]);
        out.extend_from_slice(content);
        out.push(kind);
        out.extend_from_slice(&[0; TAG_LEN]);
        let sealed = self.seal(&mut out[begin..]);
        if sealed.is_err() {
            out.truncate(begin);
        }
        sealed
    }
}

/// What comes is opened with.
pub(crate) struct Opening(Keyed);

impl Opening {
    pub(crate) fn new(
        secrets: (u64, ConnectionTrafficSecrets),
        choice: Choice,
    ) -> Result<Self, Error> {
        Keyed::new(secrets, choice).map(Self)
    }

    /// Opens a whole record where it stands: the type of what is in it, and that.
    ///
    /// # Errors
    /// When it is not what the peer sealed next, or nothing that a peer may seal.
    pub(crate) fn open<'a>(&mut self, record: &'a mut [u8]) -> Result<(u8, &'a [u8]), Fault> {
        let (header, body) =
            record.split_first_chunk_mut::<HEADER_LEN>().ok_or(Fault::BadRecord)?;
        let (inner, tag) = body.split_last_chunk_mut::<TAG_LEN>().ok_or(Fault::BadRecord)?;
        let nonce = self.0.next_nonce(u64::MAX)?;
        if !self.0.key.open(nonce, header, inner, tag) {
            return Err(Fault::BadRecord);
        }
        // Section 5.4: padding counts.
        if inner.len() > MOST_CONTENT + TYPE_LEN {
            return Err(Fault::Overflow);
        }
        let end = inner.iter().rposition(|byte| *byte != 0).ok_or(Fault::UnexpectedMessage)?;
        Ok((inner[end], &inner[..end]))
    }
}

/// How long the record is that `bytes` begin with; `None` when that has not come.
///
/// # Errors
/// When no protected record begins like this: then there is nothing to wait for.
pub(crate) fn len_of(bytes: &[u8]) -> Result<Option<usize>, Fault> {
    let Some(&[kind, major, minor, high, low]) = bytes.first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    let len = usize::from(u16::from_be_bytes([high, low]));
    match (kind, major, minor) {
        // Whatever comes in the clear now, an alert or a ChangeCipherSpec, anybody may have sent.
        (OUTER, 3, 3) if len <= MOST_SEALED_LEN => Ok(Some(HEADER_LEN + len)),
        (OUTER, 3, 3) => Err(Fault::Overflow),
        _ => Err(Fault::UnexpectedMessage),
    }
}

/// Data on its way into records: laid out as they are to stand, so that nothing is copied again.
///
/// INVARIANT: each record but the last is full.
#[derive(Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    /// What the last record has room for.
    room: usize,
}

impl Outgoing {
    /// With memory that was used before.
    pub(crate) fn reusing(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Self { bytes, room: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes so far, with what surrounds them.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(crate) fn append(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.room == 0 {
                self.end_record();
                self.bytes.extend_from_slice(&[0; HEADER_LEN]);
                self.room = MOST_CONTENT;
            }
            let (fits, later) = data.split_at(data.len().min(self.room));
            self.bytes.extend_from_slice(fits);
            self.room -= fits.len();
            data = later;
        }
    }

    fn end_record(&mut self) {
        if !self.bytes.is_empty() {
            self.bytes.extend_from_slice(&END_OF_DATA);
        }
    }

    /// Seals all of it, and gives the records.
    ///
    /// # Errors
    /// When the key has sealed as many as it may.
    pub(crate) fn seal(mut self, sealing: &mut Sealing) -> Result<Vec<u8>, Fault> {
        self.end_record();
        self.bytes.chunks_mut(FULL_RECORD_LEN).try_for_each(|record| sealing.seal(record))?;
        Ok(self.bytes)
    }
}

/// What a record says in the clear of its content: nothing.
const OUTER: u8 = DATA;
/// The types of content.
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const DATA: u8 = 23;

const HEADER_LEN: usize = 5;
const TYPE_LEN: usize = 1;
/// Section 5.1.
const MOST_CONTENT: usize = 1 << 14;
/// Section 5.2, without the header.
const MOST_SEALED_LEN: usize = MOST_CONTENT + 256;
/// The longest record that may come.
pub(crate) const MOST_RECORD_LEN: usize = HEADER_LEN + MOST_SEALED_LEN;
/// One of ours with as much as it holds.
const FULL_RECORD_LEN: usize = HEADER_LEN + MOST_CONTENT + END_OF_DATA.len();
/// The type of data, and room for a tag.
const END_OF_DATA: [u8; TYPE_LEN + TAG_LEN] = {
    let mut end = [0; TYPE_LEN + TAG_LEN];
    end[0] = DATA;
    end
};
/// Section 5.5 has AES-GCM seal 2^24.5 full records at most with one key, at which an attacker's
/// advantage is about 2^-57. Long before it, `protected` takes the next key.
const MOST_SEALED: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> (u64, ConnectionTrafficSecrets) {
        (
            0,
            ConnectionTrafficSecrets::Aes256Gcm {
                key: AeadKey::from([7; 32]),
                iv: Iv::from([9; 12]),
            },
        )
    }

    fn keys() -> (Sealing, Opening) {
        let choice = Choice::Fastest;
        (Sealing::new(secrets(), choice).unwrap(), Opening::new(secrets(), choice).unwrap())
    }

    /// A record of what `sealing` would not seal, too.
    fn raw(sealing: &mut Sealing, mut inner: Vec<u8>) -> Vec<u8> {
        let [high, low] = ((inner.len() + TAG_LEN) as u16).to_be_bytes();
        let header = [OUTER, 3, 3, high, low];
        let nonce = sealing.0.next_nonce(MOST_SEALED).unwrap();
        let tag = sealing.0.key.seal(nonce, &header, &mut inner);
        [&header[..], &inner, &tag].concat()
    }

    #[test]
    fn a_record_is_as_the_specification_has_it() {
        // Nonce and header by hand, sealed by aws-lc.
        let (mut sealing, _) = keys();
        for number in 0..3_u8 {
            let mut outgoing = Outgoing::default();
            outgoing.append(b"content");
            let record = outgoing.seal(&mut sealing).unwrap();
            let mut expected = b"content\x17".to_vec();
            let key = Key::new(Algorithm::Aes256Gcm, &[7; 32], Choice::Library);
            let mut nonce = [9; 12];
            nonce[11] ^= number;
            let tag = key.seal(nonce, &[23, 3, 3, 0, 24], &mut expected);
            assert_eq!(record, [&[23, 3, 3, 0, 24], &expected[..], &tag].concat());
        }
    }

    #[test]
    fn padding_counts_and_is_taken_off() {
        let (mut sealing, mut opening) = keys();
        let long = vec![5; MOST_CONTENT];
        for (content, padding) in
            [(&long[..], 0), (&long[1..], 1), (b"", MOST_CONTENT), (b"ab\0", 9)]
        {
            let inner = [content, &[DATA], &vec![0; padding]].concat();
            let mut record = raw(&mut sealing, inner);
            assert_eq!(opening.open(&mut record), Ok((DATA, content)));
        }
        for (len, padding) in [(MOST_CONTENT + 1, 0), (MOST_CONTENT, 1), (0, MOST_CONTENT + 1)] {
            let inner = [&vec![5; len][..], &[DATA], &vec![0; padding]].concat();
            let mut record = raw(&mut sealing, inner);
            assert_eq!(opening.open(&mut record), Err(Fault::Overflow));
        }
    }

    #[test]
    fn whatever_is_altered_repeated_or_left_out_does_not_open_and_leaves_nothing() {
        let (mut sealing, _) = keys();
        let [first, second] = [b"first", b"other"].map(|content| {
            let mut out = Vec::new();
            sealing.append(DATA, content, &mut out).unwrap();
            out
        });
        for bit in 0..first.len() * 8 {
            let mut record = first.clone();
            record[bit / 8] ^= 1 << (bit % 8);
            let mut opening = keys().1;
            assert_eq!(opening.open(&mut record), Err(Fault::BadRecord), "{bit}");
            assert!(!record.windows(5).any(|it| it == b"first"));
        }
        let mut opening = keys().1;
        assert_eq!(
            opening.open(&mut second.clone()),
            Err(Fault::BadRecord),
            "the first is missing"
        );
        let mut opening = keys().1;
        assert_eq!(opening.open(&mut first.clone()), Ok((DATA, &b"first"[..])));
        assert_eq!(opening.open(&mut first.clone()), Err(Fault::BadRecord), "it was there");
        for len in 0..HEADER_LEN + TAG_LEN {
            assert_eq!(keys().1.open(&mut first.clone()[..len]), Err(Fault::BadRecord));
        }
        // A tag of nothing at all: not even a type.
        let mut empty = raw(&mut keys().0, Vec::new());
        assert_eq!(keys().1.open(&mut empty), Err(Fault::UnexpectedMessage));
    }

    #[test]
    fn what_is_no_protected_record_is_not_waited_for() {
        for (header, expected) in [
            ([23, 3, 3, 0, 0], Ok(Some(5))),
            ([23, 3, 3, 0x41, 0], Ok(Some(MOST_RECORD_LEN))),
            ([23, 3, 3, 0x41, 1], Err(Fault::Overflow)),
            ([23, 3, 1, 0, 40], Err(Fault::UnexpectedMessage)),
            ([20, 3, 3, 0, 1], Err(Fault::UnexpectedMessage)),
            ([21, 3, 3, 0, 2], Err(Fault::UnexpectedMessage)),
            ([22, 3, 3, 0, 40], Err(Fault::UnexpectedMessage)),
            (*b"GET /", Err(Fault::UnexpectedMessage)),
        ] {
            assert_eq!(len_of(&header), expected, "{header:?}");
            assert_eq!(len_of(&header[..4]), Ok(None));
        }
    }

    #[test]
    fn a_key_seals_no_more_than_it_may_and_no_number_twice() {
        let (mut sealing, mut opening) = keys();
        (sealing.0.next, opening.0.next) = (MOST_SEALED - 1, MOST_SEALED - 1);
        let mut out = b"before".to_vec();
        assert_eq!(sealing.append(DATA, b"last", &mut out), Ok(()));
        assert_eq!(opening.open(&mut out.split_off(6)), Ok((DATA, &b"last"[..])));
        assert_eq!(sealing.append(DATA, b"more", &mut out), Err(Fault::Exhausted));
        assert_eq!(out, b"before", "no plaintext is left to be sent");
        let mut outgoing = Outgoing::default();
        outgoing.append(b"more");
        assert_eq!(outgoing.seal(&mut sealing), Err(Fault::Exhausted));
        opening.0.next = u64::MAX;
        assert_eq!(opening.open(&mut [0; 40]), Err(Fault::Exhausted), "numbers do not wrap");
    }

    #[test]
    fn what_gathers_fills_records_whatever_the_pieces_are() {
        for piece in [1, 1_003, 16_384, 50_000] {
            for len in [1_usize, 16_383, 16_384, 16_385, 32_768, 50_000] {
                let data: Vec<u8> = (0..len).map(|at| at as u8).collect();
                let (mut sealing, mut opening) = keys();
                let mut outgoing = Outgoing::reusing(vec![1; 99]);
                data.chunks(piece).for_each(|part| outgoing.append(part));
                let (mut records, mut got) = (outgoing.seal(&mut sealing).unwrap(), Vec::new());
                assert_eq!(records.len(), len + len.div_ceil(MOST_CONTENT) * 22);
                let mut rest = &mut records[..];
                while let Ok(Some(record_len)) = len_of(rest) {
                    let (record, behind) = rest.split_at_mut(record_len);
                    got.extend_from_slice(opening.open(record).unwrap().1);
                    rest = behind;
                }
                assert_eq!((rest.len(), got), (0, data));
            }
        }
    }
}

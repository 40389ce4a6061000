//! What can be told of a DTLS datagram before the library sees it
//! (RFC 6347, section 4.1; RFC 9147, section 4).
//!
//! The library treats some inputs as fatal that anyone can forge: a plaintext alert, or a first
//! answer that is no hello. What is refused here never reaches it. Nothing here is trusted: it only
//! chooses who gets to see a datagram.

use crate::{DropReason, hello};

/// What a datagram begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Glimpse {
    /// A ClientHello, or a part of one.
    ClientHello {
        /// Whether it is the beginning of a handshake: not a part
        /// further in, and not the answer to a cookie.
        first: bool,
    },
    /// The beginning of a server's first answer:
    /// ServerHello, or HelloRetryRequest for another group.
    ServerHello,
    /// A demand for a cookie and nothing else: HelloVerifyRequest or HelloRetryRequest. Anyone can
    /// have it sent, by a hello in our name.
    CookieRequest,
    /// Anything else: the middle of a handshake, or protected.
    Other,
}

/// Looks at all records of a datagram.
pub(crate) fn glimpse(datagram: &[u8]) -> Result<Glimpse, DropReason> {
    let mut rest = datagram;
    let mut seen = None;
    while !rest.is_empty() {
        let (record, after) = split_record(rest).ok_or(DropReason::Malformed)?;
        if let Record::Plaintext { kind: ALERT, .. } = record {
            return Err(DropReason::PlaintextAlert);
        }
        seen.get_or_insert(record);
        rest = after;
    }
    match seen.ok_or(DropReason::Malformed)? {
        Record::Plaintext { kind: HANDSHAKE, body } => Ok(glimpse_message(body)),
        _ => Ok(Glimpse::Other),
    }
}

/// The records of a datagram, each as a datagram of its own, up to the first that is malformed.
pub(crate) fn records(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let (_, after) = split_record(rest)?;
        let (record, _) = rest.split_at(rest.len() - after.len());
        rest = after;
        Some(record)
    })
}

#[derive(Clone, Copy)]
enum Record<'a> {
    /// Of epoch 0: anyone could have written it.
    Plaintext {
        kind: u8,
        body: &'a [u8],
    },
    Protected,
}

/// The first record of `bytes`, and what follows it.
fn split_record(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    match *bytes.first()? {
        kind @ 20..=26 => {
            let epoch = u16::from_be_bytes([*bytes.get(3)?, *bytes.get(4)?]);
            let len = usize::from(u16::from_be_bytes([*bytes.get(11)?, *bytes.get(12)?]));
            let (body, after) = bytes.get(13..)?.split_at_checked(len)?;
            let record =
                if epoch == 0 { Record::Plaintext { kind, body } } else { Record::Protected };
            Some((record, after))
        }
        // 001CSLEE: connection id (we use none), 16-bit sequence number, length present, epoch.
        first @ 32..=63 if first & 0x10 == 0 => {
            let sequence = if first & 0x08 == 0 { 1 } else { 2 };
            let rest = bytes.get(1 + sequence..)?;
            if first & 0x04 == 0 {
                return Some((Record::Protected, &[]));
            }
            let len = usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?]));
            Some((Record::Protected, rest.get(2 + len..)?))
        }
        _ => None,
    }
}

/// Type 1, length 3, sequence 2, fragment offset 3, fragment length 3 (RFC 6347, section 4.2.2).
fn glimpse_message(message: &[u8]) -> Glimpse {
    let &[kind, _, _, _, sequence_high, sequence_low, a, b, c, _, _, _, ..] = message else {
        return Glimpse::Other;
    };
    let at_start = [a, b, c] == [0, 0, 0];
    match kind {
        CLIENT_HELLO => {
            Glimpse::ClientHello { first: at_start && [sequence_high, sequence_low] == [0, 0] }
        }
        HELLO_VERIFY_REQUEST if at_start => Glimpse::CookieRequest,
        SERVER_HELLO if at_start && hello::is_cookie_request(message) => Glimpse::CookieRequest,
        SERVER_HELLO if at_start => Glimpse::ServerHello,
        _ => Glimpse::Other,
    }
}

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const HELLO_VERIFY_REQUEST: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u8, epoch: u16, body: &[u8]) -> Vec<u8> {
        let mut out = vec![kind, 0xFE, 0xFD];
        out.extend_from_slice(&epoch.to_be_bytes());
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&(body.len() as u16).to_be_bytes());
        out.extend_from_slice(body);
        out
    }

    fn message(kind: u8, sequence: u8, offset: u8) -> Vec<u8> {
        vec![kind, 0, 0, 9, 0, sequence, 0, 0, offset, 0, 0, 0]
    }

    #[test]
    fn an_alert_anywhere_is_seen() {
        let hello = record(HANDSHAKE, 0, &message(CLIENT_HELLO, 0, 0));
        let alert = record(ALERT, 0, &[2, 40]);
        let sealed = record(ALERT, 1, &[0; 20]);
        let unified = [0x2C, 0, 7, 0, 2, 9, 9];
        assert_eq!(glimpse(&hello), Ok(Glimpse::ClientHello { first: true }));
        assert_eq!(glimpse(&sealed), Ok(Glimpse::Other));
        for before in [&hello[..], &sealed, &unified] {
            assert!(glimpse(before).is_ok());
            let both = [before, &alert].concat();
            assert_eq!(records(&both).collect::<Vec<_>>(), [before, &alert]);
            assert_eq!(glimpse(&[before, &alert].concat()), Err(DropReason::PlaintextAlert));
        }
    }

    #[test]
    fn hellos_are_told_apart() {
        let cases = [
            (message(CLIENT_HELLO, 1, 0), Glimpse::ClientHello { first: false }),
            (message(CLIENT_HELLO, 0, 1), Glimpse::ClientHello { first: false }),
            (message(SERVER_HELLO, 0, 0), Glimpse::ServerHello),
            (message(SERVER_HELLO, 0, 1), Glimpse::Other),
            (message(HELLO_VERIFY_REQUEST, 0, 0), Glimpse::CookieRequest),
            (message(11, 0, 0), Glimpse::Other),
            (vec![1, 2], Glimpse::Other),
        ];
        for (body, expected) in cases {
            assert_eq!(glimpse(&record(HANDSHAKE, 0, &body)), Ok(expected));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_at_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let split: usize = records(&bytes).map(<[u8]>::len).sum();
            prop_assert!(split <= bytes.len());
            prop_assert!(glimpse(&bytes).is_err() || split == bytes.len());
        }
    }
}

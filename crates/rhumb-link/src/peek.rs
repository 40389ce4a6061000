//! What can be told of a DTLS datagram before the library sees it (RFC 6347, section 4.1; RFC 9147, section 4).
//!
//! The library treats some inputs as fatal that anyone can forge: a plaintext alert, or a first answer that is no hello.
//! What is refused here never reaches it. Nothing here is trusted: it only chooses who gets to see a datagram.

use crate::DropReason;

/// What a datagram begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Glimpse {
    /// A ClientHello, or a part of one.
    ClientHello {
        /// Whether it is the beginning of a handshake: not a part further in, and not the answer to a cookie.
        first: bool,
    },
    /// The beginning of a server's first answer: ServerHello or HelloVerifyRequest.
    ServerHello,
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

/// Whether an outgoing datagram only asks for a cookie: HelloVerifyRequest, or a ServerHello that is a HelloRetryRequest.
/// A responder that sends anything else but alerts has seen its cookie come back.
pub(crate) fn asks_for_cookie(datagram: &[u8]) -> bool {
    let Some((Record::Plaintext { kind: HANDSHAKE, body }, _)) = split_record(datagram) else {
        return false;
    };
    match body.first() {
        Some(&HELLO_VERIFY_REQUEST) => true,
        Some(&SERVER_HELLO) => body.get(14..46) == Some(&HELLO_RETRY_RANDOM),
        _ => false,
    }
}

/// Whether an outgoing datagram is an alert in the clear.
pub(crate) fn is_plaintext_alert(datagram: &[u8]) -> bool {
    matches!(split_record(datagram), Some((Record::Plaintext { kind: ALERT, .. }, _)))
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
        SERVER_HELLO | HELLO_VERIFY_REQUEST if at_start => Glimpse::ServerHello,
        _ => Glimpse::Other,
    }
}

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const HELLO_VERIFY_REQUEST: u8 = 3;
/// SHA-256 of "HelloRetryRequest" (RFC 8446, section 4.1.3).
const HELLO_RETRY_RANDOM: [u8; 32] = [
    0xCF, 0x21, 0xAD, 0x74, 0xE5, 0x9A, 0x61, 0x11, 0xBE, 0x1D, 0x8C, 0x02, 0x1E, 0x65, 0xB8, 0x91,
    0xC2, 0xA2, 0x11, 0x16, 0x7A, 0xBB, 0x8C, 0x5E, 0x07, 0x9E, 0x09, 0xE2, 0xC8, 0xA8, 0x33, 0x9C,
];

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
        assert!(is_plaintext_alert(&alert) && !is_plaintext_alert(&sealed));
    }

    #[test]
    fn hellos_are_told_apart() {
        let cases = [
            (message(CLIENT_HELLO, 1, 0), Glimpse::ClientHello { first: false }),
            (message(CLIENT_HELLO, 0, 1), Glimpse::ClientHello { first: false }),
            (message(SERVER_HELLO, 0, 0), Glimpse::ServerHello),
            (message(SERVER_HELLO, 0, 1), Glimpse::Other),
            (message(HELLO_VERIFY_REQUEST, 0, 0), Glimpse::ServerHello),
            (message(11, 0, 0), Glimpse::Other),
            (vec![1, 2], Glimpse::Other),
        ];
        for (body, expected) in cases {
            assert_eq!(glimpse(&record(HANDSHAKE, 0, &body)), Ok(expected));
        }
        let verify = record(HANDSHAKE, 0, &message(HELLO_VERIFY_REQUEST, 0, 0));
        assert!(asks_for_cookie(&verify));
        let mut hello = message(SERVER_HELLO, 0, 0);
        hello.extend_from_slice(&[0xFE, 0xFD]);
        assert!(!asks_for_cookie(&record(HANDSHAKE, 0, &[&hello[..], &[3; 32]].concat())));
        assert!(asks_for_cookie(&record(
            HANDSHAKE,
            0,
            &[&hello[..], &HELLO_RETRY_RANDOM].concat()
        )));
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_at_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let split: usize = records(&bytes).map(<[u8]>::len).sum();
            prop_assert!(split <= bytes.len());
            prop_assert!(glimpse(&bytes).is_err() || split == bytes.len());
            let _ = (asks_for_cookie(&bytes), is_plaintext_alert(&bytes));
        }
    }
}

//! Finding a router on the local network: a question to all,
//! and a router's answer (GDP paper, section 3.6).
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | `0xC0000001` query, `0xC0000002` answer |
//! | 4 | 8 | nonce, chosen by who asks and repeated by who answers |
//! | 12 | 52 | query only: zeros |
//!
//! Invariant: an answer is smaller than any query, so whoever asks in another's name gains nothing
//! by it. Neither says who somebody is: names are proven by the handshake with the address that an
//! answer came from, and shown nowhere else.

use std::net::Ipv6Addr;

use crate::WireError;
use crate::reader::Reader;

/// A datagram of discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discovery {
    /// Is there a router?
    Query(Nonce),
    /// Here is one: connect to the address that this comes from.
    Answer(Nonce),
}

/// What an answer has in common with its query. Not to be
/// guessed, so only who sees a query can answer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonce(pub [u8; 8]);

impl Discovery {
    /// Bytes of a query. The padding pays for the answer, whatever a later version puts into it.
    pub const QUERY_LEN: usize = 64;
    /// Bytes of an answer.
    pub const ANSWER_LEN: usize = 12;

    /// Parses a datagram.
    ///
    /// # Errors
    /// When it is not exactly a query or an answer.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        match reader.u32()? {
            QUERY => {
                let nonce = Nonce(reader.array()?);
                let padding: [u8; QUERY_PADDING] = reader.array()?;
                reader.finish()?;
                if padding != [0; QUERY_PADDING] {
                    return Err(WireError::NotCanonical("padding"));
                }
                Ok(Self::Query(nonce))
            }
            ANSWER => {
                let nonce = Nonce(reader.array()?);
                reader.finish()?;
                Ok(Self::Answer(nonce))
            }
            word if word >> 24 == 0xC0 => {
                Err(WireError::UnknownVariant { field: "discovery", value: word as u8 })
            }
            _ => Err(WireError::BadMagic),
        }
    }

    /// Appends the datagram.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let (word, nonce, padding) = match self {
            Self::Query(nonce) => (QUERY, nonce, QUERY_PADDING),
            Self::Answer(nonce) => (ANSWER, nonce, 0),
        };
        out.extend_from_slice(&word.to_be_bytes());
        out.extend_from_slice(&nonce.0);
        out.resize(out.len() + padding, 0);
    }
}

/// The UDP port that queries go to. Unassigned by IANA, and beside those of routers and RIBs. It is
/// fixed, because who asks knows nothing of the network yet; routers serve on whatever port they
/// like, and answer from that one.
pub const DISCOVERY_PORT: u16 = 7462;

/// The IPv6 multicast group that queries go to: link-local scope, so no router of the Internet
/// passes them on. The low 32 bits, of which Ethernet makes the address of the frame, spell `rhum`.
pub const DISCOVERY_GROUP: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0x7268, 0x756D);

const QUERY: u32 = 0xC000_0001;
const ANSWER: u32 = 0xC000_0002;
const QUERY_PADDING: usize = Discovery::QUERY_LEN - Discovery::ANSWER_LEN;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::Datagram;
    use proptest::prelude::*;

    fn emitted(discovery: Discovery) -> Vec<u8> {
        let mut bytes = Vec::new();
        discovery.emit(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn both_round_trip_and_have_one_form(nonce: [u8; 8], at in 0..Discovery::QUERY_LEN, bit in 0..8) {
            for discovery in [Discovery::Query(Nonce(nonce)), Discovery::Answer(Nonce(nonce))] {
                let bytes = emitted(discovery);
                prop_assert_eq!(Discovery::parse(&bytes), Ok(discovery));
                prop_assert!(Discovery::parse(&bytes[..bytes.len() - 1]).is_err());
                prop_assert!(Discovery::parse(&[&bytes[..], &[0]].concat()).is_err());
                if at < bytes.len() {
                    let mut other = bytes.clone();
                    other[at] ^= 1u8 << bit;
                    prop_assert_ne!(Discovery::parse(&other), Ok(discovery));
                }
            }
        }

        #[test]
        fn any_bytes_are_refused_or_come_back(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(discovery) = Discovery::parse(&bytes) {
                prop_assert_eq!(emitted(discovery), bytes);
            }
        }
    }

    #[test]
    fn an_answer_is_smaller_than_its_query() {
        let [query, answer] =
            [Discovery::Query, Discovery::Answer].map(|of| emitted(of(Nonce([7; 8]))));
        assert_eq!((query.len(), answer.len()), (64, 12));
    }

    #[test]
    fn padding_is_zero_and_kinds_are_known() {
        let mut query = emitted(Discovery::Query(Nonce([7; 8])));
        query[63] = 1;
        assert_eq!(Discovery::parse(&query), Err(WireError::NotCanonical("padding")));
        let third = [0xC0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8];
        let unknown = WireError::UnknownVariant { field: "discovery", value: 3 };
        assert_eq!(Discovery::parse(&third), Err(unknown));
        assert_eq!(Discovery::parse(&[0x90, 0, 0, 1]), Err(WireError::BadMagic));
        assert_eq!(Discovery::parse(&[]), Err(WireError::Truncated));
    }

    #[test]
    fn it_is_no_datagram_of_a_session_and_its_group_stays_on_the_link() {
        for discovery in [Discovery::Query(Nonce([7; 8])), Discovery::Answer(Nonce([7; 8]))] {
            assert!(Datagram::parse(&emitted(discovery)).is_err());
        }
        assert!(DISCOVERY_GROUP.is_multicast());
        assert_eq!(DISCOVERY_GROUP.segments()[0] & 0x000F, 2);
    }
}

//! Bundles: PDUs for one next hop that share a sealed datagram (`docs/spec.md`, section 4.8).
//!
//! | size | field |
//! |---|---|
//! | 2 | length of a PDU, not zero |
//! | .. | the PDU, stamped or not |
//!
//! and so on to the end: at most [`MAX_PDUS`]. A bundle without a PDU says that its sender takes
//! bundles. A PDU is in a bundle what it is by itself: what is wrong with one is nothing to the
//! others. Where the lengths do not add up there is no telling which are PDUs, and all is dropped.

use std::ops::Range;

use crate::WireError;

/// PDUs in one bundle at most: as many as workers take together.
pub const MAX_PDUS: usize = 64;
/// PDUs whose own datagrams have up to this size are worth being put together: of what is larger,
/// few fit, and copying them costs more than is saved where datagrams leave in runs.
pub const MAX_BUNDLED: usize = 600;
/// Bytes in front of each PDU.
pub const LENGTH_LEN: usize = 2;

/// Where in a bundle its PDUs stand, in order.
///
/// # Errors
/// When it ends within a PDU or its length, or holds an empty PDU or too many.
pub fn pdus(bundle: &[u8]) -> Result<impl Iterator<Item = Range<usize>>, WireError> {
    let (mut rest, mut count) = (walk(bundle), 0);
    while let Some(pdu) = rest.next().transpose()? {
        count += 1;
        if pdu.is_empty() || count > MAX_PDUS {
            return Err(WireError::NotCanonical("bundle"));
        }
    }
    Ok(walk(bundle).map_while(Result::ok))
}

fn walk(bundle: &[u8]) -> impl Iterator<Item = Result<Range<usize>, WireError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bundle.get(at..).filter(|rest| !rest.is_empty())?;
        let Some(length) = rest.first_chunk::<LENGTH_LEN>() else {
            at = bundle.len();
            return Some(Err(WireError::Truncated));
        };
        let begin = at + LENGTH_LEN;
        at = begin + usize::from(u16::from_be_bytes(*length));
        Some(if at <= bundle.len() { Ok(begin..at) } else { Err(WireError::Truncated) })
    })
}

/// Appends a PDU to a bundle.
///
/// # Panics
/// When it has more bytes than a datagram.
pub fn push(bundle: &mut Vec<u8>, pdu: &[u8]) {
    let length = u16::try_from(pdu.len()).expect("a PDU fits a datagram");
    bundle.extend_from_slice(&length.to_be_bytes());
    bundle.extend_from_slice(pdu);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bundle_of(pdus: &[Vec<u8>]) -> Vec<u8> {
        let mut bundle = Vec::new();
        pdus.iter().for_each(|pdu| push(&mut bundle, pdu));
        bundle
    }

    fn read(bundle: &[u8]) -> Result<Vec<&[u8]>, WireError> {
        Ok(pdus(bundle)?.map(|range| &bundle[range]).collect())
    }

    #[test]
    fn what_does_not_add_up_is_no_bundle_and_what_is_empty_holds_nothing() {
        assert_eq!(read(&[]), Ok(vec![]));
        let two = bundle_of(&[b"first".to_vec(), b"x".to_vec()]);
        assert_eq!(read(&two), Ok(vec![&b"first"[..], b"x"]));
        for cut in 1..two.len() {
            let is_whole = cut == LENGTH_LEN + 5;
            assert_eq!(read(&two[..cut]).is_ok(), is_whole, "{cut}");
        }
        assert!(read(&[0, 0]).is_err(), "an empty PDU");
        assert!(read(&[0, 1, b'a', 0, 0]).is_err(), "one behind another");
        assert!(read(&[0xFF, 0xFF, b'a']).is_err(), "over-long");
        let most = bundle_of(&vec![vec![7]; MAX_PDUS]);
        assert_eq!(read(&most).unwrap().len(), MAX_PDUS);
        assert!(read(&bundle_of(&vec![vec![7]; MAX_PDUS + 1])).is_err());
    }

    proptest! {
        #[test]
        fn bundles_round_trip(
            pdus in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..90), 0..20),
        ) {
            let bundle = bundle_of(&pdus);
            prop_assert_eq!(read(&bundle), Ok(pdus.iter().map(Vec::as_slice).collect()));
        }

        #[test]
        fn whatever_comes_is_read_within_itself(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(ranges) = pdus(&bytes) {
                let mut at = 0;
                for range in ranges {
                    prop_assert!(range.start == at + LENGTH_LEN && range.end > range.start);
                    at = range.end;
                }
                prop_assert_eq!(at, bytes.len());
            }
        }
    }
}

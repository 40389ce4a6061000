//! What a trust domain offers a neighbour: that a domain is reached by it. The neighbour's RIB is
//! told so over a session, or by way of a private exchange, where these bytes are the secret.
//!
//! | size | field |
//! |---|---|
//! | 1 | version, 1 |
//! | 4 | cost: what those on the way have asked for, summed up |
//! | 1 | how many RIBs know the names of the domain, 2 at most |
//! | 50 | each of them: name, IPv6 address (16), UDP port (2) |
//! | .. | metadata list |
//! | .. | certificate list |
//!
//! Which domain it is about stands beside it. Nothing in it is to be believed before it is
//! verified; cost and RIBs are the neighbour's word alone.

use crate::certificate::{Locator, emit_locator, read_locator};
use crate::reader::Reader;
use crate::{Certificate, Metadata, Name, WireError};

/// That a domain is reached by whoever says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What those on the way have asked for, summed up.
    pub cost: u32,
    /// RIBs that know the names of the domain: at most [`MAX_RIBS`].
    pub ribs: Vec<(Name, Locator)>,
    /// Metadata of the issuers below.
    pub metadata: Vec<Metadata>,
    /// Of another domain: its export, and those of the domains on the way, as far as the neighbour.
    /// Of the neighbour itself: by which routers it is reached, and its export to who is told.
    pub certificates: Vec<Certificate>,
}

/// What a RIB offers about a domain.
pub type Offered = (Name, Offer);

impl Offer {
    /// Parses an offer that fills `bytes`.
    ///
    /// # Errors
    /// When `bytes` are not exactly one offer in its one encoding.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            VERSION => {}
            version => return Err(WireError::UnknownVersion(version)),
        }
        let cost = reader.u32()?;
        let count = usize::from(reader.u8()?);
        if count > MAX_RIBS {
            return Err(WireError::TooLong { field: "RIBs", limit: MAX_RIBS });
        }
        let ribs = (0..count).map(|_| Ok((reader.name()?, read_locator(&mut reader)?)));
        let ribs = ribs.collect::<Result<_, WireError>>()?;
        let metadata = Metadata::read_list(&mut reader)?;
        let certificates = Certificate::read_list(&mut reader)?;
        reader.finish()?;
        Ok(Self { cost, ribs, metadata, certificates })
    }

    /// The one encoding of this offer.
    ///
    /// # Panics
    /// When a list has more items than it may.
    pub fn emit(&self) -> Vec<u8> {
        assert!(self.ribs.len() <= MAX_RIBS, "more RIBs than an offer holds");
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.cost.to_be_bytes());
        out.push(self.ribs.len() as u8);
        for (name, locator) in &self.ribs {
            out.extend_from_slice(&name.0);
            emit_locator(*locator, &mut out);
        }
        Metadata::emit_list(&self.metadata, &mut out);
        Certificate::emit_list(&self.certificates, &mut out);
        out
    }
}

/// The items of a message: a count, then for each the domain, a length and an offer.
pub(crate) fn read_offered(reader: &mut Reader<'_>) -> Result<Vec<Offered>, WireError> {
    let count = usize::from(reader.u8()?);
    if count > MAX_OFFERED {
        return Err(WireError::TooLong { field: "offers", limit: MAX_OFFERED });
    }
    let item = |reader: &mut Reader<'_>| {
        let (domain, len) = (reader.name()?, usize::from(reader.u16()?));
        Ok((domain, Offer::parse(reader.take(len)?)?))
    };
    let offered: Vec<Offered> = (0..count).map(|_| item(reader)).collect::<Result<_, _>>()?;
    match offered.is_sorted_by(|a, b| a.0 < b.0) {
        true => Ok(offered),
        false => Err(WireError::NotCanonical("offers")),
    }
}

pub(crate) fn emit_offered(offered: &[Offered], out: &mut Vec<u8>) {
    assert!(offered.len() <= MAX_OFFERED, "more offers than an answer holds");
    out.push(offered.len() as u8);
    for (domain, offer) in offered {
        let bytes = offer.emit();
        out.extend_from_slice(&domain.0);
        out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        out.extend_from_slice(&bytes);
    }
}

/// One answers while the other one is away.
pub const MAX_RIBS: usize = 2;
/// The most offers in one answer: more than fit a datagram of 1,500 bytes.
pub const MAX_OFFERED: usize = 16;
const VERSION: u8 = 1;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::certificate::MAX_CHAIN;
    use crate::certificate::tests::{any_certificate, any_name};
    use proptest::prelude::*;

    pub(crate) fn any_offer() -> impl Strategy<Value = Offer> {
        let rib = (any_name(), any::<[u8; 4]>(), 1..u16::MAX)
            .prop_filter_map("usable", |(name, ip, port)| {
                Some((name, Locator::new((ip, port).into())?))
            });
        let ribs = prop::collection::vec(rib, 0..=MAX_RIBS);
        let certificates = prop::collection::vec(any_certificate(), 0..=MAX_CHAIN);
        (any::<u32>(), ribs, certificates).prop_map(|(cost, ribs, certificates)| Offer {
            cost,
            ribs,
            metadata: Vec::new(),
            certificates,
        })
    }

    proptest! {
        #[test]
        fn offers_round_trip(offer in any_offer()) {
            let bytes = offer.emit();
            prop_assert_eq!(Offer::parse(&bytes), Ok(offer));
            for cut in 0..bytes.len() {
                prop_assert!(Offer::parse(&bytes[..cut]).is_err());
            }
        }
    }

    #[test]
    fn an_offer_of_another_version_or_of_three_ribs_is_refused() {
        let none = Offer { cost: 7, ribs: vec![], metadata: vec![], certificates: vec![] };
        let mut bytes = none.emit();
        assert_eq!(bytes, [1, 0, 0, 0, 7, 0, 0, 0]);
        bytes[0] = 2;
        assert_eq!(Offer::parse(&bytes), Err(WireError::UnknownVersion(2)));
        (bytes[0], bytes[5]) = (1, 3);
        let limit = WireError::TooLong { field: "RIBs", limit: MAX_RIBS };
        assert_eq!(Offer::parse(&bytes), Err(limit));
    }
}

//! What a neighbour's offer proves, looked at before any of it is kept.
//!
//! INVARIANT: a [`Word`] is made of certificates that verify and hold, of domains that are none
//! twice, and not this one: a neighbour can withhold, never forge, and no way leads back here.

use rhumb_trust::{Chain, ChainError, Verified, name_of, verify_chain};
use rhumb_wire::certificate::MAX_CHAIN;
use rhumb_wire::{Certificate, Name, Offer, PublicKey, Scope, Statement};

/// What a neighbour offers about a domain, verified.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    /// As it came.
    pub(crate) offer: Offer,
    /// Exports from the domain to the neighbour; none where it is the neighbour itself.
    pub(crate) exports: Vec<Certificate>,
    /// Of the neighbour itself: a border, and where that is.
    pub(crate) ends: Vec<[Certificate; 2]>,
    /// Of the neighbour itself: that this domain may carry for it.
    pub(crate) carriage: Option<Certificate>,
    /// The last second in which all of it holds.
    pub(crate) until_s: u64,
}

/// Why an offer is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NotTaken {
    /// It leads back to this domain, or through one twice.
    Loop,
    /// A certificate is missing, forged, or does not hold.
    Unverified,
    /// It is for those within a domain in which this one is not.
    OutOfBounds,
    /// It is not made of what an offer is made of.
    Shape,
    /// By so many domains that a name's chain would not hold them.
    TooFar,
    /// The rules for this neighbour refuse the domain.
    Rule,
    /// The neighbour has offered as many domains as it may.
    Full,
}

impl NotTaken {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Loop,
        Self::Unverified,
        Self::OutOfBounds,
        Self::Shape,
        Self::TooFar,
        Self::Rule,
        Self::Full,
    ];

    /// A word or two of lower-case English, joined by `_`: for machines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Unverified => "unverified",
            Self::OutOfBounds => "out_of_bounds",
            Self::Shape => "shape",
            Self::TooFar => "too_far",
            Self::Rule => "rule",
            Self::Full => "full",
        }
    }
}

/// Who judges: this domain, and those around it.
pub(crate) struct Place<'a> {
    pub(crate) own: Name,
    pub(crate) around: &'a [Name],
}

impl Place<'_> {
    /// What an offer by `neighbour` about `domain` proves. At most eight signatures.
    pub(crate) fn verify(
        &self,
        neighbour: Name,
        domain: Name,
        offer: &Offer,
        now_s: u64,
    ) -> Result<Word, NotTaken> {
        let word = match domain == neighbour {
            true => self.verify_own(neighbour, offer, now_s)?,
            false => self.verify_other(neighbour, domain, offer, now_s)?,
        };
        let is_within = |bound: &Name| *bound == self.own || self.around.contains(bound);
        let shown = word.exports.iter().chain(&word.carriage);
        match shown.filter_map(bound_of).all(|bound| is_within(&bound)) {
            true => Ok(word),
            false => Err(NotTaken::OutOfBounds),
        }
    }

    /// The neighbour itself: borders with their addresses, behind its word for this domain.
    fn verify_own(&self, domain: Name, offer: &Offer, now_s: u64) -> Result<Word, NotTaken> {
        let (mut ends, mut carriage, mut until_s) = (Vec::new(), None, u64::MAX);
        let mut rest = &offer.certificates[..];
        if let [first, others @ ..] = rest
            && first.statement.exports_by().is_some()
        {
            if first.statement.exports_by() != Some(self.own) {
                return Err(NotTaken::Shape);
            }
            until_s = chain(domain, std::slice::from_ref(first), offer, now_s)?.not_after_s();
            (carriage, rest) = (Some(first.clone()), others);
        }
        for end in rest.chunks(2) {
            let [route, locator] = end else { return Err(NotTaken::Shape) };
            let is_border = matches!(
                route.statement,
                Statement::Route { scope: Scope::Any | Scope::Several, .. }
            );
            if !is_border || !matches!(locator.statement, Statement::Locator(_)) {
                return Err(NotTaken::Shape);
            }
            until_s = until_s.min(chain(domain, end, offer, now_s)?.not_after_s());
            ends.push([route.clone(), locator.clone()]);
        }
        Ok(Word { offer: offer.clone(), exports: Vec::new(), ends, carriage, until_s })
    }

    /// Another domain: its word, and that of each domain on the way, for the next one.
    fn verify_other(
        &self,
        neighbour: Name,
        domain: Name,
        offer: &Offer,
        now_s: u64,
    ) -> Result<Word, NotTaken> {
        let exports = &offer.certificates;
        let names = || exports.iter().flat_map(|it| [Some(it.issuer), it.statement.exports_by()]);
        if domain == self.own || names().any(|name| name == Some(self.own)) {
            return Err(NotTaken::Loop);
        }
        let ends_there = exports.last().and_then(|it| it.statement.exports_by()) == Some(neighbour);
        if !ends_there || names().any(|name| name.is_none()) {
            return Err(NotTaken::Shape);
        }
        if exports.len() > MAX_PATH {
            return Err(NotTaken::TooFar);
        }
        let until_s = chain(domain, exports, offer, now_s)?.not_after_s();
        let (exports, ends) = (exports.clone(), Vec::new());
        Ok(Word { offer: offer.clone(), exports, ends, carriage: None, until_s })
    }
}

impl Word {
    /// The domains on the way, from the one that it is about to the neighbour.
    pub(crate) fn path(&self) -> impl Iterator<Item = Name> {
        self.exports.iter().map(|it| it.issuer)
    }
}

/// The domain beyond which an export is not to be known.
pub(crate) fn bound_of(certificate: &Certificate) -> Option<Name> {
    match certificate.statement.scope() {
        Scope::ByDomain { up_to } | Scope::ByNeighbour { up_to } => up_to,
        _ => None,
    }
}

fn chain(
    origin: Name,
    certificates: &[Certificate],
    offer: &Offer,
    now_s: u64,
) -> Result<Verified<Chain>, NotTaken> {
    let key_of = |name: &Name| -> Option<PublicKey> {
        offer.metadata.iter().find(|metadata| name_of(metadata) == *name).map(|it| it.key)
    };
    verify_chain(origin, certificates.to_vec(), key_of, now_s).map_err(|error| match error {
        ChainError::Loop { .. } => NotTaken::Loop,
        ChainError::TooLong { .. } => NotTaken::TooFar,
        _ => NotTaken::Unverified,
    })
}

/// Exports that a name's chain has room for between its own and a border with an address.
pub(crate) const MAX_PATH: usize = MAX_CHAIN - 3;

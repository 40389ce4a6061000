//! Equal attributes, kept once.

use std::borrow::Borrow;
use std::collections::HashSet;

use crate::attributes::Attributes;

/// The attributes that routes of one table share.
///
/// Invariant: at most twice as many are kept as were in use
/// at the last sweep, and [`MIN_SWEEP`] beside.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    known: HashSet<ByContent>,
    sweep_at: usize,
}

/// Found by its bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ByContent(Attributes);

impl Interner {
    /// The one allocation with these canonical bytes.
    pub(crate) fn intern(&mut self, canonical: &[u8]) -> Attributes {
        if let Some(ByContent(known)) = self.known.get(canonical) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at.max(MIN_SWEEP) {
            self.sweep();
        }
        let attributes = Attributes::from_canonical(canonical);
        self.known.insert(ByContent(attributes.clone()));
        attributes
    }

    /// The one allocation equal to these, which may come from elsewhere.
    pub(crate) fn adopt(&mut self, attributes: &Attributes) -> Attributes {
        if let Some(ByContent(known)) = self.known.get(attributes.canonical()) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at.max(MIN_SWEEP) {
            self.sweep();
        }
        self.known.insert(ByContent(attributes.clone()));
        attributes.clone()
    }

    /// Number of attributes that something uses.
    pub(crate) fn len(&self) -> usize {
        self.known.iter().filter(|known| known.0.is_kept_elsewhere()).count()
    }

    fn sweep(&mut self) {
        self.known.retain(|known| known.0.is_kept_elsewhere());
        self.sweep_at = 2 * self.known.len();
    }
}

// The hash of a box of bytes is that of the bytes, through
// the `Arc` and the newtypes, as `Borrow` asks.
impl Borrow<[u8]> for ByContent {
    fn borrow(&self) -> &[u8] {
        self.0.canonical()
    }
}

/// Below this, unused attributes are not worth a search.
const MIN_SWEEP: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(number: u32) -> [u8; 9] {
        let [a, b, c, d] = number.to_be_bytes();
        [4, a, b, c, d, 0, 0, 0, 0]
    }

    #[test]
    fn equal_bytes_are_one_allocation() {
        let mut interner = Interner::default();
        let first = interner.intern(&bytes(1));
        assert!(first.is_same(&interner.intern(&bytes(1))));
        assert!(!first.is_same(&interner.intern(&bytes(2))));
        let stranger = Attributes::from_canonical(&bytes(1));
        assert!(first.is_same(&interner.adopt(&stranger)));
    }

    #[test]
    fn what_nobody_uses_goes() {
        let mut interner = Interner::default();
        let kept: Vec<_> = (0..100).map(|number| interner.intern(&bytes(number))).collect();
        for number in 100..100_000 {
            interner.intern(&bytes(number));
        }
        assert!(interner.known.len() <= 2 * kept.len() + MIN_SWEEP, "{}", interner.known.len());
        assert_eq!(interner.len(), kept.len());
    }
}

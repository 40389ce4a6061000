//! Origin validation against what the RPKI says (RFC 6811).
//!
//! A set of validated payloads does not change: [`Vrps`] is made anew when a cache says something
//! else, and [`Vrps::changes`] tells for which destinations the answer is another one now.

use std::collections::BTreeSet;

use rustbgpd_wire::{AsPath, AsPathSegment, Prefix, RpkiValidation};

use super::prefix::{Nested, PrefixRange, PrefixSet, family_len};

/// A validated payload: this AS may originate this prefix, and those within it up to a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vrp {
    /// The prefix.
    pub prefix: Prefix,
    /// How long a prefix within it may be, its own length at least.
    pub max_len: u8,
    /// The AS; zero says that nobody may.
    pub asn: u32,
}

impl Vrp {
    /// A payload, or `None` if `max_len` is shorter than the prefix or longer than an address.
    pub fn new(prefix: Prefix, max_len: u8, asn: u32) -> Option<Self> {
        let possible = (prefix.prefix_len()..=family_len(prefix)).contains(&max_len);
        possible.then_some(Self { prefix, max_len, asn })
    }
}

/// A set of payloads, indexed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vrps(Nested<(u8, u32)>);

impl Vrps {
    /// Indexes a set, which gives it in its order.
    pub fn new(set: &BTreeSet<Vrp>) -> Self {
        Self(set.iter().map(|vrp| (vrp.prefix, (vrp.max_len, vrp.asn))).collect())
    }

    /// What the set says about a route (RFC 6811, section 2): `origin` is [`origin_of`] its path.
    pub fn validate(&self, prefix: Prefix, origin: Option<u32>) -> RpkiValidation {
        let mut state = RpkiValidation::NotFound;
        for (_, (max_len, asn)) in self.0.covering(prefix) {
            // AS 0 originates nothing (RFC 7607).
            if *asn != 0 && Some(*asn) == origin && prefix.prefix_len() <= *max_len {
                return RpkiValidation::Valid;
            }
            state = RpkiValidation::Invalid;
        }
        state
    }

    /// How many payloads it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Its payloads, in order.
    pub fn iter(&self) -> impl Iterator<Item = Vrp> {
        self.0.iter().map(|(prefix, (max_len, asn))| Vrp { prefix, max_len: *max_len, asn: *asn })
    }

    /// All destinations whose state may be another one
    /// than `before`: what is not in it is as it was.
    pub fn touched(&self, before: &Self) -> PrefixSet {
        let (mut old, mut new) = (before.iter().peekable(), self.iter().peekable());
        let mut touched = Vec::new();
        loop {
            let changed = match (old.peek(), new.peek()) {
                (None, None) => return touched.into_iter().collect(),
                (Some(gone), Some(come)) if gone == come => {
                    old.next();
                    new.next();
                    continue;
                }
                (Some(gone), Some(come)) if come < gone => new.next(),
                (Some(_), _) => old.next(),
                (None, Some(_)) => new.next(),
            };
            touched.extend(changed.map(|vrp| PrefixRange::or_longer(vrp.prefix)));
        }
    }

    /// Of these routes (prefix, origin and whatever the caller knows them by) those whose state is
    /// not what it was `before`, with the new one.
    pub fn changes<'a, T: 'a>(
        &'a self,
        before: &'a Self,
        routes: impl IntoIterator<Item = (Prefix, Option<u32>, T)> + 'a,
    ) -> impl Iterator<Item = (T, RpkiValidation)> + 'a {
        let touched = self.touched(before);
        routes.into_iter().filter_map(move |(prefix, origin, route)| {
            if !touched.contains(prefix) {
                return None;
            }
            let now = self.validate(prefix, origin);
            (now != before.validate(prefix, origin)).then_some((route, now))
        })
    }
}

/// The AS that originates a route (RFC 6811, section 2): the last of the path, the announcer's own
/// where the path is empty, and `None` where it ends in a set, which nothing can be valid for.
pub fn origin_of(path: &AsPath, announcer: u32) -> Option<u32> {
    let last = path.segments.iter().rev().find(|segment| match segment {
        AsPathSegment::AsSet(numbers) | AsPathSegment::AsSequence(numbers) => !numbers.is_empty(),
    });
    match last {
        None => Some(announcer),
        Some(AsPathSegment::AsSequence(numbers)) => numbers.last().copied(),
        Some(AsPathSegment::AsSet(_)) => None,
    }
}

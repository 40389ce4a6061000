//! What a member of a trust domain may do there, and how much of it (GDP paper, section 6.1).
//!
//! Both are handed down, and become narrower at each step as capabilities do with caveats: nobody
//! gives a right that he has not, and no limit that is wider than his own.

use std::fmt;

use crate::Name;

/// What a member of a trust domain may do there.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rights(u32);

impl Rights {
    /// To be attached to routers, and to send by them.
    pub const JOIN: Self = Self(1);
    /// To carry for others, as a router of the domain.
    pub const CARRY: Self = Self(2);
    /// To publish at RIBs, for itself and for whom it carries for.
    pub const PUBLISH: Self = Self(4);
    /// To admit others, to no more than it may do itself.
    pub const ADMIT: Self = Self(8);
    /// To be attached, besides as itself, as names that it answers for and that have shown nothing
    /// of a domain themselves.
    pub const SERVE: Self = Self(16);
    /// Each right with its name, in the order of the bits.
    pub const ALL: [(&'static str, Self); 5] = [
        ("join", Self::JOIN),
        ("carry", Self::CARRY),
        ("publish", Self::PUBLISH),
        ("admit", Self::ADMIT),
        ("serve", Self::SERVE),
    ];

    /// Rights by their bits; none where a bit has no meaning, or where there is no right.
    pub fn from_bits(bits: u32) -> Option<Self> {
        let known = Self::ALL.iter().fold(0, |known, (_, right)| known | right.0);
        (bits != 0 && bits & !known == 0).then_some(Self(bits))
    }

    /// A bit for each.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether these hold all of `others`.
    pub fn hold(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// These and others.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().filter(move |(_, right)| self.hold(*right)).map(|(name, _)| name)
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// How much a member, and all whom it admits together, may have at one router or at one RIB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Limits {
    /// Most names, its own among them; 0: as many as the rules there leave.
    pub names: u32,
    /// Most that is carried for it, in 1000 bits a second; 0: as much as there is room for.
    pub kbit_per_s: u32,
    /// It sends to names only that are inside of the domain.
    pub inside_only: bool,
    /// The only name that it sends to.
    pub only_to: Option<Name>,
}

/// Something that [`Limits`] bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// How many names.
    Names,
    /// How much is carried.
    Rate,
    /// To whom it may send.
    Reach,
}

impl Limits {
    /// Nothing is bounded by the domain.
    pub const NONE: Self = Self { names: 0, kbit_per_s: 0, inside_only: false, only_to: None };

    /// The first thing of which these leave more than the limits of whoever gives them.
    pub fn wider_than(&self, givers: &Self) -> Option<Limit> {
        let is_more = |given: u32, own: u32| own != 0 && (given == 0 || given > own);
        let reaches_further = givers.inside_only && !self.inside_only
            || givers.only_to.is_some() && givers.only_to != self.only_to;
        [
            (Limit::Names, is_more(self.names, givers.names)),
            (Limit::Rate, is_more(self.kbit_per_s, givers.kbit_per_s)),
            (Limit::Reach, reaches_further),
        ]
        .into_iter()
        .find_map(|(limit, is_wider)| is_wider.then_some(limit))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Names => "names",
            Self::Rate => "rate",
            Self::Reach => "names to send to",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_without_a_meaning_are_refused() {
        assert_eq!((Rights::from_bits(0), Rights::from_bits(32)), (None, None));
        let all = Rights::from_bits(31).unwrap();
        assert_eq!(all.names().collect::<Vec<_>>(), ["join", "carry", "publish", "admit", "serve"]);
        let two = Rights::JOIN.and(Rights::ADMIT);
        assert!(all.hold(two) && !two.hold(all) && !two.hold(Rights::CARRY));
    }

    #[test]
    fn limits_are_narrowed_and_nothing_else() {
        let (one, other) = (Some(Name([1; 32])), Some(Name([2; 32])));
        let own = Limits { names: 10, kbit_per_s: 500, inside_only: true, only_to: one };
        let less = Limits { names: 9, kbit_per_s: 1, ..own };
        for narrower in [own, less] {
            assert_eq!(narrower.wider_than(&own), None);
            assert_eq!(narrower.wider_than(&Limits::NONE), None);
        }
        for (wider, limit) in [
            (Limits { names: 11, ..own }, Limit::Names),
            (Limits { names: 0, ..own }, Limit::Names),
            (Limits { kbit_per_s: 501, ..own }, Limit::Rate),
            (Limits { kbit_per_s: 0, ..own }, Limit::Rate),
            (Limits { inside_only: false, ..own }, Limit::Reach),
            (Limits { only_to: None, ..own }, Limit::Reach),
            (Limits { only_to: other, ..own }, Limit::Reach),
        ] {
            assert_eq!(wider.wider_than(&own), Some(limit), "{wider:?}");
        }
    }
}

//! How many names a publisher may have here, by the membership that it shows (spec 3.1).
//!
//! A limit is shared by whom it is about and all whom it admitted: an entry counts on its
//! publisher's account, and on that of each who admitted the publisher and has a limit himself.
//! Entries keep these names, so that counts outlive sessions and restarts.

use rhumb_trust::{MAX_DEPTH, Membership};
use rhumb_wire::Name;

/// Who may have how many names: a publisher, and those who handed its domain's word down to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NameLimits([Option<(Name, u32)>; MAX_DEPTH]);

/// Names, besides its publisher's, on whose accounts an entry counts. Most entries have none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Givers(Box<[Name]>);

impl NameLimits {
    /// Nothing is bounded.
    pub const NONE: Self = Self([None; MAX_DEPTH]);

    /// What a membership leaves its member, which is whoever showed it.
    pub fn of(membership: &Membership) -> Self {
        let mut limits = [None; MAX_DEPTH];
        let bind = membership.shares().filter(|(_, limits)| limits.names > 0);
        for (place, (name, share)) in limits.iter_mut().zip(bind) {
            *place = Some((name, share.names));
        }
        Self(limits)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Name, u32)> {
        self.0.into_iter().flatten()
    }

    /// On whose accounts the entries of a publisher count.
    pub(crate) fn givers(&self, publisher: &Name) -> Givers {
        Givers::new(self.iter().map(|(name, _)| name).filter(|name| name != publisher))
    }
}

impl Givers {
    pub(crate) fn new(names: impl Iterator<Item = Name>) -> Self {
        Self(names.take(MAX_GIVERS).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Name> {
        self.0.iter().copied()
    }

    pub(crate) fn contain(&self, name: &Name) -> bool {
        self.0.contains(name)
    }
}

/// All but the member itself.
pub(crate) const MAX_GIVERS: usize = MAX_DEPTH - 1;

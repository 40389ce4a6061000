//! The address families that a session may carry, and values kept one per family.

use std::ops::{Index, IndexMut};

use rustbgpd_wire::{Afi, Prefix, Safi};

/// An address family with unicast forwarding (AFI and SAFI of RFC 4760).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4 unicast: AFI 1, SAFI 1.
    Ipv4,
    /// IPv6 unicast: AFI 2, SAFI 1.
    Ipv6,
}

impl Family {
    /// Both, in the order of their AFI.
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// The family that a prefix is of.
    #[must_use]
    pub const fn of(prefix: &Prefix) -> Self {
        match prefix {
            Prefix::V4(_) => Self::Ipv4,
            Prefix::V6(_) => Self::Ipv6,
        }
    }

    pub(crate) const fn afi(self) -> Afi {
        match self {
            Self::Ipv4 => Afi::Ipv4,
            Self::Ipv6 => Afi::Ipv6,
        }
    }

    /// From the numbers of a message; nothing for families that are not carried here.
    pub(crate) const fn from_raw(afi: u16, safi: u8) -> Option<Self> {
        match (afi, safi) {
            (1, 1) => Some(Self::Ipv4),
            (2, 1) => Some(Self::Ipv6),
            _ => None,
        }
    }

    pub(crate) fn from_wire(afi: Afi, safi: Safi) -> Option<Self> {
        Self::from_raw(afi as u16, safi as u8)
    }

    /// AFI and SAFI as messages have them.
    pub(crate) const fn wire(self) -> (Afi, Safi) {
        (self.afi(), Safi::Unicast)
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "IPv4 unicast",
            Self::Ipv6 => "IPv6 unicast",
        })
    }
}

/// One value for each family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PerFamily<T>([T; 2]);

impl<T> PerFamily<T> {
    pub(crate) fn from_fn(mut value: impl FnMut(Family) -> T) -> Self {
        Self(Family::ALL.map(&mut value))
    }
}

impl<T> Index<Family> for PerFamily<T> {
    type Output = T;

    fn index(&self, family: Family) -> &T {
        &self.0[family as usize]
    }
}

impl<T> IndexMut<Family> for PerFamily<T> {
    fn index_mut(&mut self, family: Family) -> &mut T {
        &mut self.0[family as usize]
    }
}

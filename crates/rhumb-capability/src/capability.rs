//! A capability without its secret: who may pass which waypoint, when, and
//! what was restricted on the way to the sender.

use std::fmt;
use std::net::IpAddr;

use crate::header::{Family, MAX_LEVELS, capability_len};
use crate::{BINDING_LEN, CapabilityError, Prefix, Scheme, Suite};

/// A resource principal: whom a waypoint sends the bill. Numbers are the operator's to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal(pub u32);

/// What a delegator calls a delegation, 24 bits: shown on the bill, and what a revocation names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DelegationId(u32);

/// A generation of a waypoint's master key, modulo 256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(pub u8);

/// A key window: Unix seconds, shifted right by the waypoint's [`bits`](crate::WindowClock::bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Window(pub u32);

/// The byte of flags of a capability. All eight are reserved: zero, and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

/// One restriction: to which destinations, and under which id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Delegation {
    /// Where packets may go.
    pub prefix: Prefix,
    /// Whose they are.
    pub id: DelegationId,
}

/// The restrictions of a capability, the first delegator's
/// first: at most three, each within the one before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Delegations {
    levels: [Option<Delegation>; MAX_LEVELS],
}

/// A capability: what its secret is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Capability {
    /// The waypoint that takes it.
    pub waypoint: IpAddr,
    /// Who pays.
    pub principal: Principal,
    /// Reserved.
    pub flags: Flags,
    /// When it is taken.
    pub window: Window,
    /// Which master key of the waypoint it comes from.
    pub epoch: Epoch,
    /// How bindings are computed.
    pub suite: Suite,
    /// How it is delegated.
    pub scheme: Scheme,
    /// What it was restricted to.
    pub delegations: Delegations,
}

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);

    /// The flags of a byte; `None` when it has one that is reserved.
    pub fn from_bits(bits: u8) -> Option<Self> {
        (bits == 0).then_some(Self::NONE)
    }

    /// The byte.
    pub fn bits(self) -> u8 {
        self.0
    }
}

impl DelegationId {
    /// The largest id.
    pub const MAX: u32 = (1 << 24) - 1;

    /// `None` above 24 bits.
    pub fn new(id: u32) -> Option<Self> {
        (id <= Self::MAX).then_some(Self(id))
    }

    /// The number.
    pub fn as_u32(self) -> u32 {
        self.0
    }

    pub(crate) fn to_bytes(self) -> [u8; 3] {
        let [_, id @ ..] = self.0.to_be_bytes();
        id
    }

    pub(crate) fn from_bytes([a, b, c]: [u8; 3]) -> Self {
        Self(u32::from_be_bytes([0, a, b, c]))
    }
}

impl Delegations {
    /// How many.
    pub fn len(&self) -> usize {
        self.levels.iter().flatten().count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.levels[0].is_none()
    }

    /// In order, the widest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Delegation> {
        self.levels.iter().flatten()
    }

    /// The last one, which is the narrowest.
    pub fn last(&self) -> Option<&Delegation> {
        self.iter().next_back()
    }

    /// Adds one.
    ///
    /// # Errors
    /// When there are three, or it is not within the last.
    pub fn push(&mut self, delegation: Delegation) -> Result<(), CapabilityError> {
        if self.last().is_some_and(|last| !last.prefix.contains_prefix(&delegation.prefix)) {
            return Err(CapabilityError::NotNested);
        }
        let count = self.len();
        let limit = MAX_LEVELS as u64;
        let too_many = CapabilityError::TooLarge { what: "the number of delegations", limit };
        *self.levels.get_mut(count).ok_or(too_many)? = Some(delegation);
        Ok(())
    }

    /// In place of all.
    pub(crate) fn only(delegation: Delegation) -> Self {
        Self { levels: [Some(delegation), None, None] }
    }
}

impl Capability {
    /// The family of its addresses.
    pub fn family(&self) -> Family {
        Family::of(self.waypoint)
    }

    /// Bytes that it takes in a packet.
    pub fn wire_len(&self) -> usize {
        capability_len(self.family(), self.delegations.len())
    }

    /// Writes it as a packet carries it, its binding zero. `out` has exactly
    /// [`Capability::wire_len`] bytes.
    pub(crate) fn emit(&self, out: &mut [u8]) {
        let mut writer = Writer { rest: out };
        writer.address(self.waypoint);
        writer.put(&self.principal.0.to_be_bytes());
        let levels = self.delegations.len() as u8;
        writer.put(&[self.window.0 as u8, self.epoch.0]);
        writer.put(&[self.scheme.number() << 4 | levels, self.flags.0]);
        for delegation in self.delegations.iter() {
            writer.address(delegation.prefix.address());
            writer.put(&[delegation.prefix.len()]);
            writer.put(&delegation.id.to_bytes());
        }
        writer.put(&[0; BINDING_LEN]);
    }
}

/// Fills a slice from its front.
pub(crate) struct Writer<'a> {
    pub(crate) rest: &'a mut [u8],
}

impl Writer<'_> {
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let (head, tail) = std::mem::take(&mut self.rest).split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        self.rest = tail;
    }

    pub(crate) fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(v4) => self.put(&v4.octets()),
            IpAddr::V6(v6) => self.put(&v6.octets()),
        }
    }
}

impl fmt::Debug for Delegations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for DelegationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Delegation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as {}", self.prefix, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delegations_nest_and_end_at_three() {
        let delegation = |text: &str, id| Delegation {
            prefix: text.parse().unwrap(),
            id: DelegationId::new(id).unwrap(),
        };
        let mut delegations = Delegations::default();
        assert!(delegations.is_empty());
        delegations.push(delegation("10.0.0.0/8", 1)).unwrap();
        for wider in ["0.0.0.0/0", "11.0.0.0/16", "2001:db8::/64"] {
            let refused = delegations.push(delegation(wider, 2));
            assert_eq!(refused, Err(CapabilityError::NotNested), "{wider}");
        }
        delegations.push(delegation("10.0.0.0/8", 2)).unwrap();
        delegations.push(delegation("10.1.0.0/16", 3)).unwrap();
        let full = delegations.push(delegation("10.1.0.0/16", 4));
        assert!(matches!(full, Err(CapabilityError::TooLarge { limit: 3, .. })));
        assert_eq!(delegations.last().map(|last| last.id.as_u32()), Some(3));
        assert_eq!(delegations.len(), 3);
    }

    #[test]
    fn ids_have_24_bits_and_flags_none() {
        assert_eq!(DelegationId::new(1 << 24), None);
        let id = DelegationId::new(0x01_02_03).unwrap();
        assert_eq!(DelegationId::from_bytes(id.to_bytes()), id);
        assert_eq!(id.to_bytes(), [1, 2, 3]);
        assert_eq!((0..=255).filter_map(Flags::from_bits).count(), 1);
    }
}

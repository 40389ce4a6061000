//! A capability with its secret: what stamps packets, and what delegates.

use std::fmt;
use std::net::IpAddr;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::derive::{binding_key, delegation_input};
use crate::prf::{BLOCK, prf};
use crate::reference::{self, XorKeys};
use crate::{
    Capability, CapabilityError, Delegation, DelegationId, Delegations, KeyRecord, Prefix, Scheme,
    Secret,
};

/// A capability and what makes bindings under it. Not cloned, not shown, wiped when dropped.
#[derive(PartialEq, Eq)]
pub struct Credential {
    capability: Capability,
    held: Held,
    not_after_s: u64,
}

/// The secret, as far as the holder has it.
#[derive(PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub(crate) enum Held {
    /// Of the caveat chain or the bit chain, and undelegated ones of all schemes.
    One(Secret),
    /// Of a delegation by XOR: the key of bindings, and what longer prefixes come from.
    Two(Secret, Secret),
}

impl From<KeyRecord> for Credential {
    fn from(record: KeyRecord) -> Self {
        let KeyRecord { capability, secret, not_after_s } = record;
        Self { capability, held: Held::One(secret), not_after_s }
    }
}

impl Credential {
    pub(crate) fn from_parts(capability: Capability, held: Held, not_after_s: u64) -> Self {
        Self { capability, held, not_after_s }
    }

    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// What it is for.
    pub fn capability(&self) -> &Capability {
        &self.capability
    }

    /// The last second in which a waypoint may take it.
    pub fn not_after_s(&self) -> u64 {
        self.not_after_s
    }

    /// Whether packets to `destination` may be stamped with it.
    pub fn allows(&self, destination: IpAddr) -> bool {
        self.capability.delegations.iter().all(|level| level.prefix.contains(destination))
    }

    /// The same capability for destinations in `prefix` alone, under the id given. Its holder can
    /// restrict it further, and can undo nothing.
    ///
    /// # Errors
    /// When `prefix` is not within what was delegated already, when there are three
    /// levels, or when a scheme of the paper forbids it: another id for a
    /// sub-delegate, or an XOR delegation to a single address.
    pub fn delegate(&self, prefix: Prefix, id: DelegationId) -> Result<Self, CapabilityError> {
        let delegation = Delegation { prefix, id };
        let (delegations, held) = match self.capability.scheme {
            Scheme::CaveatChain => self.delegate_caveat(delegation)?,
            Scheme::BitChain | Scheme::Xor => self.delegate_reference(delegation)?,
        };
        let capability = Capability { delegations, ..self.capability };
        Ok(Self { capability, held, not_after_s: self.not_after_s })
    }

    /// A reply capability: for packets to `peer` alone. `peer` hands it to
    /// whom it talks to, whose answers then pass.
    ///
    /// # Errors
    /// As [`Credential::delegate`].
    pub fn reply(&self, peer: IpAddr, id: DelegationId) -> Result<Self, CapabilityError> {
        self.delegate(Prefix::host(peer), id)
    }

    fn delegate_caveat(
        &self,
        delegation: Delegation,
    ) -> Result<(Delegations, Held), CapabilityError> {
        if Prefix::host(self.capability.waypoint).len()
            != Prefix::host(delegation.prefix.address()).len()
        {
            return Err(CapabilityError::Mixed("family of addresses"));
        }
        let mut delegations = self.capability.delegations;
        let level = delegations.len();
        delegations.push(delegation)?;
        let Held::One(secret) = &self.held else {
            return Err(CapabilityError::Malformed("credential"));
        };
        let capability = Capability { delegations, ..self.capability };
        let mut wire = [0; crate::header::capability_len(crate::Family::V6, crate::MAX_LEVELS)];
        capability.emit(&mut wire[..capability.wire_len()]);
        let input = delegation_input(&wire, capability.family(), level);
        let secret = prf(capability.suite, secret.expose(), &input);
        Ok((delegations, Held::One(Secret::new(secret))))
    }

    fn delegate_reference(
        &self,
        delegation: Delegation,
    ) -> Result<(Delegations, Held), CapabilityError> {
        let Capability { suite, scheme, delegations: before, .. } = self.capability;
        if !delegation.prefix.address().is_ipv4() {
            return Err(CapabilityError::SchemeRefuses("the paper's schemes are for IPv4"));
        }
        if scheme == Scheme::Xor && delegation.prefix.is_host() {
            return Err(CapabilityError::SchemeRefuses("no reply capabilities by XOR"));
        }
        if let Some(last) = before.last() {
            if last.id != delegation.id {
                return Err(CapabilityError::SchemeRefuses("sub-delegates share the id"));
            }
            if !last.prefix.contains_prefix(&delegation.prefix) {
                return Err(CapabilityError::NotNested);
            }
        }
        let from = before.last().map(|last| last.prefix.len());
        let held = match (scheme, &self.held, from) {
            (Scheme::Xor, Held::One(secret), None) => {
                held_two(&reference::xor_keys(suite, secret.expose(), &delegation))
            }
            (Scheme::Xor, Held::Two(key, tail), Some(from)) => {
                let mut keys = XorKeys { key: *key.expose(), tail: *tail.expose() };
                reference::xor_extend(suite, &mut keys, &delegation.prefix, from);
                held_two(&keys)
            }
            (Scheme::BitChain, Held::One(secret), None) => {
                Held::One(Secret::new(reference::bit_chain(suite, secret.expose(), &delegation)))
            }
            (Scheme::BitChain, Held::One(secret), Some(from)) => {
                let mut state = Zeroizing::new(*secret.expose());
                reference::bit_chain_extend(suite, &mut state, &delegation.prefix, from);
                Held::One(Secret::new(*state))
            }
            _ => return Err(CapabilityError::Malformed("credential")),
        };
        Ok((Delegations::only(delegation), held))
    }

    /// What bindings are made with.
    pub(crate) fn binding_key(&self) -> Zeroizing<[u8; BLOCK]> {
        match (&self.held, self.capability.scheme) {
            (Held::One(secret), Scheme::CaveatChain) => {
                binding_key(self.capability.suite, secret.expose())
            }
            (Held::One(secret) | Held::Two(secret, _), _) => Zeroizing::new(*secret.expose()),
        }
    }
}

fn held_two(keys: &XorKeys) -> Held {
    Held::Two(Secret::new(keys.key), Secret::new(keys.tail))
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("capability", &self.capability)
            .field("not_after_s", &self.not_after_s)
            .finish_non_exhaustive()
    }
}

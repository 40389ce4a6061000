//! What an operator mints for a principal: a capability with its secret. How it travels is the
//! matter of whoever carries it: `docs/keyserver.md` for DNS, [`file`](mod@crate::file) for disks.

use crate::{Capability, Secret};

/// An undelegated capability and its secret, as minted. It becomes a
/// [`Credential`](crate::Credential).
#[derive(Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// What the secret is for.
    pub capability: Capability,
    /// The s of the capability.
    pub secret: Secret,
    /// The last second in which a waypoint may take it.
    pub not_after_s: u64,
}

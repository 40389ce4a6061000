//! From a waypoint's master key to the key of a binding. `docs/platypus.md`, section 4.
//!
//! ```text
//! k  = PRF(master, "K" | suite | epoch)
//! s  = PRF(k, "S" | scheme | flags | waypoint | principal | window)    double MAC, first half
//! s' = PRF(s, "D" | level | prefix | length | id)                     caveat chain, level from 1
//! m  = PRF(s, "M")                       caveat chain: what bindings are made with
//! ```

use std::fmt;

use zeroize::Zeroizing;

use crate::prf::{BLOCK, PrfInput, prf};
use crate::side_by_side::{LANES, LongKey, Row};
use crate::{Capability, CapabilityError, Epoch, Family, KeyRecord, Scheme, Secret, Suite, Window};

/// A waypoint's master key of one epoch. Everything else comes from it.
pub struct Master(Secret);

impl Master {
    /// Bytes of a master key.
    pub const LEN: usize = Secret::LEN;

    /// Takes random bytes over. The caller wipes its copy.
    pub fn new(random: [u8; Self::LEN]) -> Self {
        Self(Secret::new(random))
    }

    /// Its bytes, for whoever writes them somewhere safe.
    pub fn expose(&self) -> &[u8; Self::LEN] {
        self.0.expose()
    }
}

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Master(..)")
    }
}

/// The keys of an epoch: what mints capabilities and what verifies them.
pub struct EpochKeys {
    epoch: Epoch,
    /// One per suite, in the order of their numbers.
    keys: [LongKey; Suite::ALL.len()],
}

impl EpochKeys {
    /// The keys of `epoch`.
    pub fn new(epoch: Epoch, master: &Master) -> Self {
        let keys = Suite::ALL.map(|suite| {
            let input = PrfInput::new(&[b"K", &[suite.number(), epoch.0]]);
            LongKey::new(&prf(suite, master.expose(), &input))
        });
        Self { epoch, keys }
    }

    /// Which epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What a principal needs to stamp, taken until `not_after_s`
    /// ([`WindowClock::not_after_s`](crate::WindowClock::not_after_s)).
    ///
    /// # Errors
    /// When the capability is already delegated, of another epoch,
    /// or of a scheme of the paper's and not IPv4.
    pub fn mint(
        &self,
        capability: Capability,
        not_after_s: u64,
    ) -> Result<KeyRecord, CapabilityError> {
        if !capability.delegations.is_empty() {
            return Err(CapabilityError::BadParameter("a delegated capability"));
        }
        if capability.epoch != self.epoch {
            return Err(CapabilityError::BadParameter("the epoch"));
        }
        if capability.scheme != Scheme::CaveatChain && capability.family() != Family::V4 {
            return Err(CapabilityError::SchemeRefuses("the paper's schemes are for IPv4"));
        }
        let mut wire = [0; UNDELEGATED_MAX];
        capability.emit(&mut wire[..capability.wire_len()]);
        let input = secret_input(&wire, capability.family(), capability.window);
        let secret = Secret::new(prf(capability.suite, self.key(capability.suite), &input));
        Ok(KeyRecord { capability, secret, not_after_s })
    }

    pub(crate) fn key(&self, suite: Suite) -> &[u8; BLOCK] {
        self.keys[suite.index()].expose()
    }

    pub(crate) fn long_key(&self, suite: Suite) -> &LongKey {
        &self.keys[suite.index()]
    }
}

impl fmt::Debug for EpochKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpochKeys").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// The input for s, of a capability as it is on the wire.
#[inline]
pub(crate) fn secret_input(wire: &[u8], family: Family, window: Window) -> PrfInput {
    let width = family.address_len();
    let head = [b'S', wire[width + 6] >> 4, wire[width + 7]];
    let tail = window.0.to_be_bytes();
    match family {
        Family::V4 => PrfInput::with_wire(head, first::<8>(wire), tail),
        Family::V6 => PrfInput::with_wire(head, first::<20>(wire), tail),
    }
}

/// The same of an IPv4 capability, which is one block.
#[inline(always)]
pub(crate) fn secret_block_v4(wire: &[u8; 12], window: Window) -> [u8; BLOCK] {
    let [a, b, c, d, e, f, g, h, _, _, scheme_levels, flags] = *wire;
    let head = [b'S', scheme_levels >> 4, flags];
    PrfInput::one_block(head, [a, b, c, d, e, f, g, h], window.0.to_be_bytes())
}

/// The input for s of delegation `level`, from 0, of a capability as it is on the wire.
#[inline]
pub(crate) fn delegation_input(wire: &[u8], family: Family, level: usize) -> PrfInput {
    let len = family.address_len() + 4;
    let wire = &wire[family.address_len() + 8 + level * len..];
    // The first byte of the prefix stands in the head, and the last four bytes are length and id.
    let head = [b'D', level as u8 + 1, wire[0]];
    match family {
        Family::V4 => PrfInput::with_wire(head, first::<3>(&wire[1..]), *first(&wire[4..])),
        Family::V6 => PrfInput::with_wire(head, first::<15>(&wire[1..]), *first(&wire[16..])),
    }
}

#[inline(always)]
fn first<const N: usize>(wire: &[u8]) -> &[u8; N] {
    wire.first_chunk().expect("invariant: a capability is longer")
}

/// The input for m, of all lanes.
pub(crate) const BINDING_KEY_INPUT: Row = {
    let mut block = [0; BLOCK];
    (block[0], block[1]) = (1, b'M');
    Row([block; LANES])
};

/// The key that bindings are made with under the caveat chain.
pub(crate) fn binding_key(suite: Suite, secret: &[u8; BLOCK]) -> Zeroizing<[u8; BLOCK]> {
    Zeroizing::new(prf(suite, secret, &PrfInput::new(&[b"M"])))
}

const UNDELEGATED_MAX: usize = crate::header::capability_len(Family::V6, 0);

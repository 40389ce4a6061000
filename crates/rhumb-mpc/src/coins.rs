//! All randomness of a session: one seed, given by the caller, stretched
//! by SHA-512 with a label and a number per use.
//!
//! Invariant: a seed makes one session. [`Session::new`](crate::Session::new)
//! consumes it, and it cannot be copied.

use aws_lc_rs::digest::{Context, SHA256, SHA512};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Thirty-two bytes from the system's generator. Whoever reuses
/// them gives the secrets of both sessions away.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Takes them over.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Sixty-four bytes that are random to everybody else. `label`
    /// and `number` are never the same for two uses.
    pub(crate) fn derive(&self, label: &[u8], number: u64) -> [u8; 64] {
        let mut context = Context::new(&SHA512);
        for part in [&b"rhumb-mpc coins"[..], &self.0, &number.to_le_bytes(), label] {
            context.update(part);
        }
        let mut bytes = [0; 64];
        bytes.copy_from_slice(context.finish().as_ref());
        bytes
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// SHA-256 of a label and parts, each with its length before it.
pub(crate) fn digest(label: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in [&[label], parts].concat() {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    bytes
}

/// The first sixteen bytes, as a number.
pub(crate) fn low_half(digest: &[u8; 32]) -> u128 {
    u128::from_le_bytes(*digest.first_chunk().expect("invariant: 32 bytes have 16"))
}

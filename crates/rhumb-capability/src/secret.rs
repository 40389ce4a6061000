//! Sixteen secret bytes: wiped when dropped, never shown, compared in constant time.

use std::fmt;

use data_encoding::HEXLOWER;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// A key of a capability.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; Secret::LEN]);

impl Secret {
    /// Its bytes.
    pub const LEN: usize = 16;

    /// Takes bytes over. The caller wipes its copy.
    pub fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes, for whoever writes them somewhere safe.
    pub fn expose(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    pub(crate) fn to_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(HEXLOWER.encode(&self.0))
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(HEXLOWER.decode(text.as_bytes()).ok()?);
        Some(Self(bytes.as_slice().try_into().ok()?))
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

//! One lane after the other, by the `aes` crate.

use std::mem::ManuallyDrop;

use super::LANES;
use crate::prf::{AesKey, BLOCK};

/// CBC-MAC of each lane's blocks under its key.
pub(super) fn cbc_macs(
    keys: &[[u8; BLOCK]; LANES],
    messages: &[&[[u8; BLOCK]]; LANES],
) -> [[u8; BLOCK]; LANES] {
    std::array::from_fn(|lane| {
        if messages[lane].is_empty() {
            return [0; BLOCK];
        }
        // Not dropped: that would wipe round keys byte by byte, which takes longer than to use them.
        let key = ManuallyDrop::new(AesKey::new(&keys[lane]));
        key.cbc_mac(messages[lane])
    })
}

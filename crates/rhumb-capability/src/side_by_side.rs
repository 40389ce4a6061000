//! AES-128 CBC-MACs of eight packets side by side, each under a key of its own that is used for this alone: while one
//! packet's cipher waits for itself, the processor works on the others.
//!
//! Invariant: `portable` and `x86_64` give the same bytes. `unsafe` stands only here, where the latter is called.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use crate::prf::BLOCK;

/// Packets side by side.
pub(crate) const LANES: usize = 8;

/// CBC-MAC of each lane's blocks under its key; zeros where there are none.
#[inline]
#[allow(unsafe_code, reason = "a function for processors with AES is called on one")]
pub(crate) fn cbc_macs(
    keys: &[[u8; BLOCK]; LANES],
    messages: &[&[[u8; BLOCK]]; LANES],
) -> [[u8; BLOCK]; LANES] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("aes") {
        // SAFETY: the only condition of `x86_64::cbc_macs` is that the processor has what it was compiled for: AES, which
        // the line above has asked for, and SSE2, which is part of x86-64.
        return unsafe { x86_64::cbc_macs(keys, messages) };
    }
    portable::cbc_macs(keys, messages)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ways_give_the_same(
            keys in prop::array::uniform8(any::<[u8; BLOCK]>()),
            messages in prop::array::uniform8(prop::collection::vec(any::<[u8; BLOCK]>(), 0..7)),
        ) {
            let messages = messages.each_ref().map(Vec::as_slice);
            prop_assert_eq!(cbc_macs(&keys, &messages), portable::cbc_macs(&keys, &messages));
        }
    }

    /// FIPS 197, appendix C.1, in each lane: the MAC of one block is the block encrypted.
    #[test]
    fn one_block_is_encrypted() {
        let key = std::array::from_fn(|at| at as u8);
        let block = [std::array::from_fn(|at| (at * 0x11) as u8)];
        let macs = cbc_macs(&[key; LANES], &[&block; LANES]);
        let expected = 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128.to_be_bytes();
        assert_eq!(macs, [expected; LANES]);
    }
}

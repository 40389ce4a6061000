//! AES-128 CBC-MACs of sixteen packets side by side, each under a key of its own that is used for
//! this alone: while one packet's cipher waits for itself, the processor works on the others.
//!
//! Invariant: `portable`, `narrow` and `wide` give the same bytes; the latter two
//! are called on processors that have what they were compiled for, and on no
//! others. `unsafe` stands only here and in `wide`.

#[cfg(target_arch = "x86_64")]
mod narrow;
mod portable;
#[cfg(target_arch = "x86_64")]
mod wide;

use zeroize::Zeroize;

use crate::prf::BLOCK;

/// Packets side by side: four wide registers of four blocks.
/// Fewer would leave the cipher waiting for itself.
pub(crate) const LANES: usize = 16;

/// A block of each lane, next to each other, so that a wide register takes four of them at once.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug, PartialEq))]
#[repr(align(64))]
pub(crate) struct Row(pub(crate) [[u8; BLOCK]; LANES]);

impl Row {
    pub(crate) const ZERO: Self = Self([[0; BLOCK]; LANES]);
}

impl Zeroize for Row {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

/// CBC-MAC of each lane's message under its key: of its blocks in the
/// first `lens` rows. Zeros where there are none.
///
/// # Panics
/// When a message has more blocks than there are rows.
#[inline]
#[allow(unsafe_code, reason = "functions for processors with AES are called on those")]
pub(crate) fn cbc_macs(keys: &Row, rows: &[Row], lens: &[u8; LANES]) -> Row {
    let most = lens.iter().copied().max().unwrap_or(0);
    let rows = &rows[..usize::from(most)];
    #[cfg(target_arch = "x86_64")]
    {
        if wide::is_possible() {
            // SAFETY: the only condition of `wide::cbc_macs` is that the processor has what it was
            // compiled for, which the line above has asked for.
            return unsafe { wide::cbc_macs(keys, rows, lens) };
        }
        if narrow::is_possible() {
            // SAFETY: likewise.
            return unsafe { narrow::cbc_macs(keys, rows, lens) };
        }
    }
    portable::cbc_macs(keys, rows, lens)
}

/// A key that lasts, with what was made of it once. Wiped when dropped.
pub(crate) struct LongKey {
    key: [u8; BLOCK],
    /// Zeros where the processor does not make it.
    schedule: Schedule,
}

impl LongKey {
    #[allow(unsafe_code, reason = "a function for processors with AES is called on those")]
    pub(crate) fn new(key: &[u8; BLOCK]) -> Self {
        #[cfg(target_arch = "x86_64")]
        if narrow::is_possible() {
            // SAFETY: `narrow::schedule_of` asks for what the line above has asked for.
            return Self { key: *key, schedule: unsafe { narrow::schedule_of(key) } };
        }
        Self { key: *key, schedule: [[0; BLOCK]; ROUND_KEYS] }
    }

    pub(crate) fn expose(&self) -> &[u8; BLOCK] {
        &self.key
    }

    /// [`cbc_macs`] with this key in all lanes.
    ///
    /// # Panics
    /// As [`cbc_macs`].
    #[inline]
    #[allow(unsafe_code, reason = "functions for processors with AES are called on those")]
    pub(crate) fn cbc_macs(&self, rows: &[Row], lens: &[u8; LANES]) -> Row {
        let most = lens.iter().copied().max().unwrap_or(0);
        let rows = &rows[..usize::from(most)];
        #[cfg(target_arch = "x86_64")]
        if narrow::is_possible() {
            if wide::is_possible() {
                // SAFETY: `wide::cbc_macs_under` asks for what the line above has asked for.
                return unsafe { wide::cbc_macs_under(&self.schedule, rows, lens) };
            }
            // SAFETY: `narrow::cbc_macs_under` likewise.
            return unsafe { narrow::cbc_macs_under(&self.schedule, rows, lens) };
        }
        portable::cbc_macs_under(&self.key, rows, lens)
    }
}

impl Drop for LongKey {
    fn drop(&mut self) {
        self.key.zeroize();
        self.schedule.zeroize();
    }
}

/// Asks for a line of memory that is wanted a while later, so that others are worked on meanwhile.
#[inline]
#[allow(unsafe_code, reason = "the instruction takes a pointer")]
pub(crate) fn prefetch<T>(line: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64. The instruction changes nothing
    // that a program can see, whatever the pointer.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(line).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// The round keys of one key, the key itself first.
type Schedule = [[u8; BLOCK]; ROUND_KEYS];
/// Rounds of AES-128, and one key before them.
const ROUND_KEYS: usize = 11;
/// What sets the rounds of the key schedule apart (FIPS 197, section 5.2).
#[cfg(target_arch = "x86_64")]
const ROUND_CONSTANTS: [i32; ROUND_KEYS - 1] =
    [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1B, 0x36];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row() -> impl Strategy<Value = Row> {
        prop::array::uniform16(any::<[u8; BLOCK]>()).prop_map(Row)
    }

    proptest! {
        #[test]
        fn all_ways_give_the_same(
            keys in row(),
            rows in prop::collection::vec(row(), 7),
            lens in prop_oneof![prop::array::uniform16(0..8_u8), (0..8_u8).prop_map(|len| [len; LANES])],
        ) {
            let portable = portable::cbc_macs(&keys, &rows, &lens);
            prop_assert_eq!(cbc_macs(&keys, &rows, &lens), portable);
            let under_first = portable::cbc_macs_under(&keys.0[0], &rows, &lens);
            prop_assert_eq!(LongKey::new(&keys.0[0]).cbc_macs(&rows, &lens), under_first);
            #[cfg(target_arch = "x86_64")]
            if narrow::is_possible() {
                let most = usize::from(lens.into_iter().max().unwrap());
                #[allow(unsafe_code, reason = "as above")]
                // SAFETY: as in `super::cbc_macs`.
                let narrow = unsafe { narrow::cbc_macs(&keys, &rows[..most], &lens) };
                prop_assert_eq!(narrow, portable);
                #[allow(unsafe_code, reason = "as above")]
                // SAFETY: as in `super::LongKey`.
                let narrow = unsafe {
                    narrow::cbc_macs_under(&narrow::schedule_of(&keys.0[0]), &rows[..most], &lens)
                };
                prop_assert_eq!(narrow, under_first);
            }
        }
    }

    /// FIPS 197, appendix C.1, in each lane: the MAC of one block is the block encrypted.
    #[test]
    fn one_block_is_encrypted() {
        let key = Row([std::array::from_fn(|at| at as u8); LANES]);
        let block = Row([std::array::from_fn(|at| (at * 0x11) as u8); LANES]);
        let expected = 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128.to_be_bytes();
        assert_eq!(cbc_macs(&key, &[block], &[1; LANES]), Row([expected; LANES]));
    }
}

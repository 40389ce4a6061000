//! Round keys of AES (FIPS 197, section 5.2) and powers of the hash key, by a backend of one block
//! to a register: none has a table that is indexed by a secret.
//!
//! `schedule!` makes `fill` over the operations of a backend that has used `algorithm!`, for the
//! same reason as there.

macro_rules! schedule {
    ($features:literal) => {
        /// Computes all tables of a key of 16 or 32 bytes.
        #[target_feature(enable = $features)]
        pub(super) fn fill(tables: &mut Tables, key: &[u8]) {
            expand(tables, key);
            let [hash_key] = encrypt(tables, [zero()], |_| {});
            let [hash_key] = to_numbers(hash_key);
            let hash_key = broadcast(super::schedule::double(hash_key.swap_bytes()));
            let mut power = hash_key;
            for exponent in 1..=super::POWERS {
                [tables.powers[super::POWERS - exponent]] = to_blocks(power);
                power = reduce(Product::of(power, hash_key));
            }
        }

        #[target_feature(enable = $features)]
        fn expand(tables: &mut Tables, key: &[u8]) {
            let words = tables.round_keys.as_flattened_mut().as_chunks_mut::<4>().0;
            let key_words = key.as_chunks::<4>().0;
            words[..key_words.len()].copy_from_slice(key_words);
            let mut round_constant = 1;
            for at in key_words.len()..4 * (key_words.len() + 7) {
                let mut word = u32::from_le_bytes(words[at - 1]);
                if at % key_words.len() == 0 {
                    word = substitute(word.rotate_right(8)) ^ round_constant;
                    // Doubled in the field of AES; the constants are public.
                    round_constant =
                        if round_constant == 0x80 { 0x1B } else { round_constant << 1 };
                } else if key_words.len() > 6 && at % key_words.len() == 4 {
                    word = substitute(word);
                }
                let before = u32::from_le_bytes(words[at - key_words.len()]);
                words[at] = (before ^ word).to_le_bytes();
            }
        }

        /// The S-box on each byte of a word: with the same word in all columns shifting rows
        /// changes nothing, and a last round without a key substitutes the bytes.
        #[inline]
        #[target_feature(enable = $features)]
        fn substitute(word: u32) -> u32 {
            let columns = broadcast(u128::from(word) * super::schedule::EACH_COLUMN);
            let [substituted] = to_numbers(last_round(columns, zero()));
            substituted as u32
        }
    };
}

/// Times x in the field of POLYVAL (RFC 8452, appendix A: `mulX_POLYVAL`).
#[inline]
pub(super) fn double(element: u128) -> u128 {
    let carry = 0_u128.wrapping_sub(element >> 127);
    (element << 1) ^ (carry & (POLYNOMIAL << 64 | 1))
}

/// Of x^128 + x^127 + x^126 + x^121 + 1, what stands between the ends, divided by x^64.
pub(super) const POLYNOMIAL: u128 = 0xC200_0000_0000_0000;
/// A one in each of four words.
pub(super) const EACH_COLUMN: u128 = 1 | 1 << 32 | 1 << 64 | 1 << 96;

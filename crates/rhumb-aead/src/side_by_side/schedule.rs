//! Round keys of AES (FIPS 197, section 5.2) and powers of the hash key, by AES-NI and PCLMULQDQ:
//! neither has a table that is indexed by a secret.

use std::arch::x86_64::{
    __m128i, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_clmulepi64_si128, _mm_cvtsi128_si32,
    _mm_set_epi64x, _mm_set1_epi32, _mm_setzero_si128, _mm_shuffle_epi32, _mm_xor_si128,
};

use super::{BLOCK, POWERS, Tables};

/// Whether this processor has what is needed.
#[inline]
pub(super) fn is_possible() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

/// Computes all tables of a key of 16 or 32 bytes.
#[target_feature(enable = "aes,pclmulqdq")]
pub(super) fn fill(tables: &mut Tables, key: &[u8]) {
    expand(tables, key);
    let mut hash_key = register(u128::from_le_bytes(tables.round_keys[0]));
    let (middle_keys, last_key) = tables.later_round_keys();
    for key in middle_keys {
        hash_key = _mm_aesenc_si128(hash_key, register(u128::from_le_bytes(*key)));
    }
    hash_key = _mm_aesenclast_si128(hash_key, register(u128::from_le_bytes(*last_key)));
    let hash_key = register(double(number(hash_key).swap_bytes()));
    let mut power = hash_key;
    for exponent in 1..=POWERS {
        tables.powers[POWERS - exponent] = number(power).to_le_bytes();
        power = multiply(power, hash_key);
    }
}

#[target_feature(enable = "aes")]
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
            round_constant = if round_constant == 0x80 { 0x1B } else { round_constant << 1 };
        } else if key_words.len() > 6 && at % key_words.len() == 4 {
            word = substitute(word);
        }
        let before = u32::from_le_bytes(words[at - key_words.len()]);
        words[at] = (before ^ word).to_le_bytes();
    }
}

/// The S-box on each byte of a word: with the same word in all columns shifting rows changes
/// nothing, and a last round without a key substitutes the bytes.
#[inline]
#[target_feature(enable = "aes")]
fn substitute(word: u32) -> u32 {
    let columns = _mm_set1_epi32(word as i32);
    _mm_cvtsi128_si32(_mm_aesenclast_si128(columns, _mm_setzero_si128())) as u32
}

/// Times x in the field of POLYVAL (RFC 8452, appendix A: `mulX_POLYVAL`).
#[inline]
fn double(element: u128) -> u128 {
    let carry = 0_u128.wrapping_sub(element >> 127);
    (element << 1) ^ (carry & (POLYNOMIAL << 64 | 1))
}

/// The product in the field of POLYVAL (RFC 8452, section 3: `dot`).
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn multiply(one: __m128i, other: __m128i) -> __m128i {
    let low = _mm_clmulepi64_si128::<0x00>(one, other);
    let high = _mm_clmulepi64_si128::<0x11>(one, other);
    let middle = _mm_xor_si128(
        _mm_clmulepi64_si128::<0x01>(one, other),
        _mm_clmulepi64_si128::<0x10>(one, other),
    );
    let polynomial = register(POLYNOMIAL);
    let middle = fold(low, middle, polynomial);
    fold(middle, high, polynomial)
}

/// Adds what multiplies `low` by x^-64 to what stands 64 bits above it.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn fold(low: __m128i, above: __m128i, polynomial: __m128i) -> __m128i {
    let product = _mm_clmulepi64_si128::<0x00>(low, polynomial);
    let swapped = _mm_shuffle_epi32::<0b01_00_11_10>(low);
    _mm_xor_si128(above, _mm_xor_si128(product, swapped))
}

#[inline]
#[target_feature(enable = "sse2")]
fn register(number: u128) -> __m128i {
    _mm_set_epi64x((number >> 64) as i64, number as i64)
}

#[inline]
#[target_feature(enable = "sse2")]
fn number(register: __m128i) -> u128 {
    // SAFETY: both are 16 bytes without padding, and every value of either is one of the other.
    unsafe { std::mem::transmute::<__m128i, u128>(register) }
}

/// Of x^128 + x^127 + x^126 + x^121 + 1, what stands between the ends, divided by x^64.
pub(super) const POLYNOMIAL: u128 = 0xC200_0000_0000_0000;
const _: () = assert!(size_of::<__m128i>() == BLOCK);

//! All lanes at once, by the processor's AES instructions.

use std::arch::x86_64::{
    __m128i, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_aeskeygenassist_si128, _mm_cvtsi128_si64,
    _mm_set_epi64x, _mm_setzero_si128, _mm_shuffle_epi32, _mm_slli_si128, _mm_unpackhi_epi64,
    _mm_xor_si128,
};

use super::LANES;
use crate::prf::BLOCK;

/// CBC-MAC of each lane's blocks under its key.
#[target_feature(enable = "aes,sse2")]
pub(super) fn cbc_macs(
    keys: &[[u8; BLOCK]; LANES],
    messages: &[&[[u8; BLOCK]]; LANES],
) -> [[u8; BLOCK]; LANES] {
    let mut round_keys = [[_mm_setzero_si128(); LANES]; ROUND_KEYS];
    expand(keys, &mut round_keys);
    let mut states = [_mm_setzero_si128(); LANES];
    let most = messages.iter().map(|blocks| blocks.len()).max().unwrap_or(0);
    for number in 0..most {
        let mut next = states;
        for lane in 0..LANES {
            if let Some(block) = messages[lane].get(number) {
                next[lane] = _mm_xor_si128(next[lane], load(block));
            }
            next[lane] = _mm_xor_si128(next[lane], round_keys[0][lane]);
        }
        for keys in &round_keys[1..ROUND_KEYS - 1] {
            for lane in 0..LANES {
                next[lane] = _mm_aesenc_si128(next[lane], keys[lane]);
            }
        }
        for lane in 0..LANES {
            let last = _mm_aesenclast_si128(next[lane], round_keys[ROUND_KEYS - 1][lane]);
            states[lane] = if number < messages[lane].len() { last } else { states[lane] };
        }
    }
    let mut macs = [[0; BLOCK]; LANES];
    for (mac, state) in macs.iter_mut().zip(states) {
        *mac = store(state);
    }
    macs
}

/// The key schedules of all lanes, round by round (FIPS 197, section 5.2).
#[inline]
#[target_feature(enable = "aes,sse2")]
fn expand(keys: &[[u8; BLOCK]; LANES], round_keys: &mut [[__m128i; LANES]; ROUND_KEYS]) {
    for lane in 0..LANES {
        round_keys[0][lane] = load(&keys[lane]);
    }
    expand_round::<0x01>(round_keys, 1);
    expand_round::<0x02>(round_keys, 2);
    expand_round::<0x04>(round_keys, 3);
    expand_round::<0x08>(round_keys, 4);
    expand_round::<0x10>(round_keys, 5);
    expand_round::<0x20>(round_keys, 6);
    expand_round::<0x40>(round_keys, 7);
    expand_round::<0x80>(round_keys, 8);
    expand_round::<0x1B>(round_keys, 9);
    expand_round::<0x36>(round_keys, 10);
}

#[inline]
#[target_feature(enable = "aes,sse2")]
fn expand_round<const CONSTANT: i32>(
    round_keys: &mut [[__m128i; LANES]; ROUND_KEYS],
    round: usize,
) {
    for (mut key, next) in round_keys[round - 1].into_iter().zip(&mut round_keys[round]) {
        let word = _mm_shuffle_epi32::<0xFF>(_mm_aeskeygenassist_si128::<CONSTANT>(key));
        key = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
        key = _mm_xor_si128(key, _mm_slli_si128::<8>(key));
        *next = _mm_xor_si128(key, word);
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn load(bytes: &[u8; BLOCK]) -> __m128i {
    let value = u128::from_le_bytes(*bytes);
    _mm_set_epi64x((value >> 64) as i64, value as i64)
}

#[inline]
#[target_feature(enable = "sse2")]
fn store(value: __m128i) -> [u8; BLOCK] {
    let (low, high) =
        (_mm_cvtsi128_si64(value), _mm_cvtsi128_si64(_mm_unpackhi_epi64(value, value)));
    (u128::from(high as u64) << 64 | u128::from(low as u64)).to_le_bytes()
}

/// Of AES-128.
const ROUND_KEYS: usize = 11;

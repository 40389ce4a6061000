//! Eight lanes at once, by AES instructions that take one block each: what
//! any processor for x86-64 has since 2011 or so.

use std::arch::x86_64::{
    __m128i, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_cvtsi128_si64, _mm_set_epi64x,
    _mm_set1_epi32, _mm_setzero_si128, _mm_shuffle_epi8, _mm_slli_si128, _mm_unpackhi_epi64,
    _mm_xor_si128,
};

use super::{LANES, ROUND_CONSTANTS, ROUND_KEYS, Row, Schedule};
use crate::prf::BLOCK;

/// Whether this processor has what is needed.
#[inline]
pub(super) fn is_possible() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("ssse3")
}

/// CBC-MAC of each lane's blocks under its key.
#[target_feature(enable = "aes,ssse3")]
pub(super) fn cbc_macs(keys: &Row, rows: &[Row], lens: &[u8; LANES]) -> Row {
    let mut macs = Row::ZERO;
    for first in (0..LANES).step_by(AT_ONCE) {
        let mut schedule = [[_mm_setzero_si128(); AT_ONCE]; ROUND_KEYS];
        for (key, bytes) in schedule[0].iter_mut().zip(&keys.0[first..]) {
            *key = load(bytes);
        }
        expand(&mut schedule);
        chain(first, &schedule, rows, lens, &mut macs);
    }
    macs
}

/// The same with one key for all lanes.
#[target_feature(enable = "aes,ssse3")]
pub(super) fn cbc_macs_under(key: &Schedule, rows: &[Row], lens: &[u8; LANES]) -> Row {
    let mut schedule = [[_mm_setzero_si128(); AT_ONCE]; ROUND_KEYS];
    for (to, from) in schedule.iter_mut().zip(key) {
        *to = [load(from); AT_ONCE];
    }
    let mut macs = Row::ZERO;
    for first in (0..LANES).step_by(AT_ONCE) {
        chain(first, &schedule, rows, lens, &mut macs);
    }
    macs
}

/// The schedule of one key.
#[target_feature(enable = "aes,ssse3")]
pub(super) fn schedule_of(key: &[u8; BLOCK]) -> Schedule {
    let mut schedule = [[load(key); AT_ONCE]; ROUND_KEYS];
    expand(&mut schedule);
    let mut all = [[0; BLOCK]; ROUND_KEYS];
    for (to, from) in all.iter_mut().zip(&schedule) {
        *to = store(from[0]);
    }
    all
}

/// The MACs of the lanes from `first` on.
#[inline]
#[target_feature(enable = "aes,ssse3")]
fn chain(
    first: usize,
    schedule: &[[__m128i; AT_ONCE]; ROUND_KEYS],
    rows: &[Row],
    lens: &[u8; LANES],
    macs: &mut Row,
) {
    let mut states = [_mm_setzero_si128(); AT_ONCE];
    for (number, row) in rows.iter().enumerate() {
        let mut next = states;
        for lane in 0..AT_ONCE {
            next[lane] = _mm_xor_si128(next[lane], load(&row.0[first + lane]));
            next[lane] = _mm_xor_si128(next[lane], schedule[0][lane]);
        }
        for keys in &schedule[1..ROUND_KEYS - 1] {
            for lane in 0..AT_ONCE {
                next[lane] = _mm_aesenc_si128(next[lane], keys[lane]);
            }
        }
        for lane in 0..AT_ONCE {
            let last = _mm_aesenclast_si128(next[lane], schedule[ROUND_KEYS - 1][lane]);
            let is_longer = usize::from(lens[first + lane]) > number;
            states[lane] = if is_longer { last } else { states[lane] };
        }
    }
    for (mac, state) in macs.0[first..].iter_mut().zip(states) {
        *mac = store(state);
    }
}

/// The key schedules of all lanes, round by round (FIPS 197, section 5.2).
#[inline]
#[target_feature(enable = "aes,ssse3")]
fn expand(schedule: &mut [[__m128i; AT_ONCE]; ROUND_KEYS]) {
    let last_word = _mm_set1_epi32(LAST_WORD_ROTATED);
    for (round, constant) in ROUND_CONSTANTS.into_iter().enumerate() {
        let constant = _mm_set1_epi32(constant);
        let before = schedule[round];
        for (key, next) in before.into_iter().zip(&mut schedule[round + 1]) {
            let sums = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
            let sums = _mm_xor_si128(sums, _mm_slli_si128::<8>(sums));
            // The last round of the cipher is the S-box and an exclusive
            // or; of four equal words it moves no byte.
            let word = _mm_shuffle_epi8(key, last_word);
            *next = _mm_aesenclast_si128(word, _mm_xor_si128(sums, constant));
        }
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

/// As many as there are registers for.
const AT_ONCE: usize = 8;
/// Takes the last word, its first byte last.
const LAST_WORD_ROTATED: i32 = 0x0C0F_0E0D;

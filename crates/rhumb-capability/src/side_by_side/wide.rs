//! All lanes at once, by AES instructions that take four blocks each (VAES with AVX-512).
//!
//! Round keys are made between the rounds of the first block,
//! which would have to wait for them otherwise.

use std::arch::x86_64::{
    __m512i, _mm_set_epi32, _mm512_aesenc_epi128, _mm512_aesenclast_epi128, _mm512_broadcast_i32x4,
    _mm512_loadu_si512, _mm512_mask_mov_epi64, _mm512_set_epi64, _mm512_set1_epi32,
    _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_storeu_si512, _mm512_ternarylogic_epi64,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    _mm512_xor_si512,
};
use std::hint::black_box;

use super::{LANES, ROUND_CONSTANTS, ROUND_KEYS, Row, Schedule};
use crate::prf::BLOCK;

/// Whether this processor has what is needed.
#[inline]
pub(super) fn is_possible() -> bool {
    std::arch::is_x86_feature_detected!("vaes")
        && std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
}

/// CBC-MAC of each lane's blocks under its key.
#[target_feature(enable = "vaes,avx512f,avx512bw")]
pub(super) fn cbc_macs(keys: &Row, rows: &[Row], lens: &[u8; LANES]) -> Row {
    let Some((first, rest)) = rows.split_first() else { return Row::ZERO };
    let (keys, blocks, nothing) = (load(keys), load(first), [_mm512_setzero_si512(); REGISTERS]);
    let mut schedule = [nothing; ROUND_KEYS];
    let mut states = if rest.is_empty() {
        start(keys, blocks, |_, _| {})
    } else {
        start(keys, blocks, |round, keys| schedule[round] = keys)
    };
    if lens.contains(&0) {
        keep(&mut states, &nothing, lens, 0);
    }
    go_on(&mut states, &schedule, rest, lens);
    store(&states)
}

/// The same with one key for all lanes.
#[target_feature(enable = "vaes,avx512f,avx512bw")]
pub(super) fn cbc_macs_under(key: &Schedule, rows: &[Row], lens: &[u8; LANES]) -> Row {
    let mut schedule = [_mm512_setzero_si512(); ROUND_KEYS];
    for (to, from) in schedule.iter_mut().zip(key) {
        let [low, high] = halves(from);
        *to = _mm512_set_epi64(high, low, high, low, high, low, high, low);
    }
    let least = usize::from(lens.iter().copied().min().unwrap_or(0));
    let mut states = [_mm512_setzero_si512(); REGISTERS];
    for (number, row) in rows.iter().enumerate() {
        let (before, blocks) = (states, load(row));
        for at in 0..REGISTERS {
            states[at] = exclusive_or(states[at], blocks[at], schedule[0]);
        }
        for key in &schedule[1..ROUND_KEYS - 1] {
            for state in &mut states {
                *state = _mm512_aesenc_epi128(*state, *key);
            }
        }
        for state in &mut states {
            *state = _mm512_aesenclast_epi128(*state, schedule[ROUND_KEYS - 1]);
        }
        if least <= number {
            keep(&mut states, &before, lens, number);
        }
    }
    store(&states)
}

/// A block as two numbers.
#[inline]
fn halves(block: &[u8; BLOCK]) -> [i64; 2] {
    let whole = u128::from_le_bytes(*block);
    [whole as i64, (whole >> 64) as i64]
}

/// Takes the blocks that follow the first.
#[inline]
#[target_feature(enable = "vaes,avx512f,avx512bw")]
fn go_on(
    states: &mut Registers,
    schedule: &[Registers; ROUND_KEYS],
    rest: &[Row],
    lens: &[u8; LANES],
) {
    let least = usize::from(lens.iter().copied().min().unwrap_or(0));
    for (number, row) in (1..).zip(rest) {
        // There are more round keys than registers. Not known to be the same each time, they are
        // read where they are used, and not copied first.
        let schedule = black_box(schedule);
        let (before, blocks) = (*states, load(row));
        for at in 0..REGISTERS {
            states[at] = exclusive_or(states[at], blocks[at], schedule[0][at]);
        }
        for keys in &schedule[1..ROUND_KEYS - 1] {
            for at in 0..REGISTERS {
                states[at] = _mm512_aesenc_epi128(states[at], keys[at]);
            }
        }
        for at in 0..REGISTERS {
            states[at] = _mm512_aesenclast_epi128(states[at], schedule[ROUND_KEYS - 1][at]);
        }
        if least <= number {
            keep(states, &before, lens, number);
        }
    }
}

/// Encrypts the first blocks, and makes the round keys meanwhile (FIPS
/// 197, section 5.2): `take` gets them, by round.
///
/// The schedule goes on in registers of which each has one of the four words of all lanes: an
/// exclusive or for each of them in place of two and two shifts in each register of keys.
#[inline]
#[target_feature(enable = "vaes,avx512f,avx512bw")]
fn start(keys: Registers, blocks: Registers, mut take: impl FnMut(usize, Registers)) -> Registers {
    let last_word = _mm512_broadcast_i32x4(_mm_set_epi32(
        LAST_WORDS_ROTATED[3],
        LAST_WORDS_ROTATED[2],
        LAST_WORDS_ROTATED[1],
        LAST_WORDS_ROTATED[0],
    ));
    let (mut words, mut states) = (transpose(keys), blocks);
    take(0, keys);
    for at in 0..REGISTERS {
        states[at] = _mm512_xor_si512(states[at], keys[at]);
    }
    for (before, constant) in ROUND_CONSTANTS.into_iter().enumerate() {
        // The last round of the cipher is the S-box and an exclusive or, once
        // its moving of bytes has been made up for.
        let [a, b, c, d] = words;
        let rotated = _mm512_shuffle_epi8(d, last_word);
        let word = _mm512_aesenclast_epi128(rotated, _mm512_set1_epi32(constant));
        let new_b = exclusive_or(b, a, word);
        words = [
            _mm512_xor_si512(a, word),
            new_b,
            _mm512_xor_si512(c, new_b),
            exclusive_or(d, c, new_b),
        ];
        let keys = transpose(words);
        take(before + 1, keys);
        for at in 0..REGISTERS {
            states[at] = if before + 2 < ROUND_KEYS {
                _mm512_aesenc_epi128(states[at], keys[at])
            } else {
                _mm512_aesenclast_epi128(states[at], keys[at])
            };
        }
    }
    states
}

/// Four registers of four blocks of four words: of each
/// block word `n` goes to register `n`, and back.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose([a, b, c, d]: Registers) -> Registers {
    let (low, high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (other_low, other_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(low, other_low),
        _mm512_unpackhi_epi64(low, other_low),
        _mm512_unpacklo_epi64(high, other_high),
        _mm512_unpackhi_epi64(high, other_high),
    ]
}

/// Gives lanes whose message ended before block `number` their states back.
#[inline]
#[target_feature(enable = "avx512f")]
fn keep(states: &mut Registers, before: &Registers, lens: &[u8; LANES], number: usize) {
    for at in 0..REGISTERS {
        let mut ended = 0;
        for (lane, len) in lens[at * BLOCKS..(at + 1) * BLOCKS].iter().enumerate() {
            // Two bits for a block, since a mask is of 64-bit words.
            ended |= if usize::from(*len) > number { 0 } else { 0b11 << (2 * lane) };
        }
        states[at] = _mm512_mask_mov_epi64(states[at], ended, before[at]);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn exclusive_or(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    /// Of three bits, whether an odd number is set.
    const ODD: i32 = 0x96;
    _mm512_ternarylogic_epi64::<ODD>(a, b, c)
}

#[inline]
#[target_feature(enable = "avx512f")]
#[allow(unsafe_code, reason = "wide registers are read by pointer")]
fn load(row: &Row) -> Registers {
    let mut registers = [_mm512_setzero_si512(); REGISTERS];
    for (register, blocks) in registers.iter_mut().zip(row.0.as_chunks::<BLOCKS>().0) {
        // SAFETY: `blocks` are 64 bytes that may be read, and any alignment will do.
        *register = unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) };
    }
    registers
}

#[inline]
#[target_feature(enable = "avx512f")]
#[allow(unsafe_code, reason = "wide registers are written by pointer")]
fn store(registers: &Registers) -> Row {
    let mut row = Row::ZERO;
    for (register, blocks) in registers.iter().zip(row.0.as_chunks_mut::<BLOCKS>().0) {
        // SAFETY: `blocks` are 64 bytes that may be written, and any alignment will do.
        unsafe { _mm512_storeu_si512(blocks.as_mut_ptr().cast(), *register) };
    }
    row
}

/// Blocks of a register.
const BLOCKS: usize = 4;
const REGISTERS: usize = LANES / BLOCKS;
type Registers = [__m512i; REGISTERS];
/// Where each byte of four words comes from, that they be rotated when the cipher has moved its
/// rows (FIPS 197, section 5.1.2).
const LAST_WORDS_ROTATED: [i32; 4] = {
    let mut words = [0; 4];
    let mut at = 0;
    while at < 16 {
        let (row, column) = (at % 4, at / 4);
        let from = (row + 1) % 4 + 4 * ((column + 4 - row) % 4);
        words[column] |= (from as i32) << (8 * row);
        at += 1;
    }
    words
};

//! All lanes at once, by AES instructions that take four blocks each (VAES with AVX-512).
//!
//! Round keys are made between the rounds of the first block, which would have to wait for them otherwise.

use std::arch::x86_64::{
    __m512i, _mm512_aesenc_epi128, _mm512_aesenclast_epi128, _mm512_bslli_epi128,
    _mm512_loadu_si512, _mm512_mask_mov_epi64, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_shuffle_epi8, _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

use super::{LANES, ROUND_CONSTANTS, ROUND_KEYS, Row};

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
    let least = usize::from(lens.iter().copied().min().unwrap_or(0));
    let mut schedule = [[_mm512_setzero_si512(); REGISTERS]; ROUND_KEYS];
    let (keys, blocks) = (load(keys), load(first));
    let mut states = start(&keys, &blocks, &mut schedule);
    if least == 0 {
        keep(&mut states, &[_mm512_setzero_si512(); REGISTERS], lens, 0);
    }
    for (number, row) in rest.iter().enumerate() {
        let before = states;
        let blocks = load(row);
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
        if least <= number + 1 {
            keep(&mut states, &before, lens, number + 1);
        }
    }
    store(&states)
}

/// Encrypts the first block, and leaves the schedule of the keys behind (FIPS 197, section 5.2).
#[inline]
#[target_feature(enable = "vaes,avx512f,avx512bw")]
fn start(keys: &Registers, blocks: &Registers, schedule: &mut [Registers; ROUND_KEYS]) -> Registers {
    let last_word = _mm512_set1_epi32(LAST_WORD_ROTATED);
    let (mut keys, mut states) = (*keys, *blocks);
    schedule[0] = keys;
    for at in 0..REGISTERS {
        states[at] = _mm512_xor_si512(states[at], keys[at]);
    }
    for (round, constant) in ROUND_CONSTANTS.into_iter().enumerate() {
        let constant = _mm512_set1_epi32(constant);
        for at in 0..REGISTERS {
            let key = keys[at];
            let sums = _mm512_xor_si512(key, _mm512_bslli_epi128::<4>(key));
            let sums = exclusive_or(sums, _mm512_bslli_epi128::<8>(sums), constant);
            // The last round of the cipher is the S-box and an exclusive or; of four equal words it moves no byte.
            keys[at] = _mm512_aesenclast_epi128(_mm512_shuffle_epi8(key, last_word), sums);
            states[at] = if round + 2 < ROUND_KEYS {
                _mm512_aesenc_epi128(states[at], keys[at])
            } else {
                _mm512_aesenclast_epi128(states[at], keys[at])
            };
        }
        schedule[round + 1] = keys;
    }
    states
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
/// Takes the last word, its first byte last.
const LAST_WORD_ROTATED: i32 = 0x0C0F_0E0D;

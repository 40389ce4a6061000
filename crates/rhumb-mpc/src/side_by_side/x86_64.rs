//! Four blocks to a register: AVX-512 with the vector AES instructions.
//!
//! All functions but the constants have one condition:
//! the processor has AVX-512 F and BW, and VAES.

#![allow(
    clippy::needless_range_loop,
    reason = "registers stand in arrays of a fixed length, and one number finds what belongs together in several"
)]

use std::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm512_add_epi64, _mm512_aesenc_epi128, _mm512_aesenclast_epi128,
    _mm512_broadcast_i32x4, _mm512_bslli_epi128, _mm512_loadu_si512, _mm512_maskz_mov_epi64,
    _mm512_or_si512, _mm512_set_epi64, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_shuffle_epi8, _mm512_shuffle_epi32, _mm512_slli_epi64, _mm512_srli_epi64,
    _mm512_storeu_si512, _mm512_unpacklo_epi64, _mm512_xor_si512,
};

use super::{
    Aligned, Quad, ROW_BLOCKS, Row, Squares, add_kept_streams, add_selected_lanes, fold_rows,
    turn_rows,
};

/// The round keys of one key.
pub(super) type Schedule = [[u64; 2]; ROUND_KEYS];
/// Before it is made.
pub(super) const NO_SCHEDULE: Schedule = [[0; 2]; ROUND_KEYS];

/// Registers that are worked on at a time: an instruction of AES takes four times as long as it
/// keeps its unit busy, of which there are two.
const AT_ONCE: usize = 8;
const ROUND_KEYS: usize = 11;

#[target_feature(enable = "avx512f,avx512bw,vaes")]
pub(super) fn expand_all(keys: &[u128], schedules: &mut [Schedule]) {
    for (keys, schedules) in keys.chunks(4).zip(schedules.chunks_mut(4)) {
        let mut quad = [0; 8];
        for (words, key) in quad.as_chunks_mut::<2>().0.iter_mut().zip(keys) {
            *words = [*key as u64, (*key >> 64) as u64];
        }
        for (round, round_keys) in expand(load(&quad)).into_iter().enumerate() {
            let mut words = [0; 8];
            store(&mut words, round_keys);
            for (schedule, words) in schedules.iter_mut().zip(words.as_chunks::<2>().0) {
                schedule[round] = *words;
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,vaes")]
pub(super) fn children(seeds: &[u128], blocks: [u128; 2], children: &mut [[u128; 2]]) {
    for (seeds, children) in seeds.chunks(4).zip(children.chunks_mut(4)) {
        let mut quad = [0; 8];
        for (words, seed) in quad.as_chunks_mut::<2>().0.iter_mut().zip(seeds) {
            *words = [*seed as u64, (*seed >> 64) as u64];
        }
        let schedule = expand(load(&quad));
        for (side, block) in blocks.into_iter().enumerate() {
            let block = broadcast(&[block as u64, (block >> 64) as u64]);
            let mut state = _mm512_xor_si512(block, schedule[0]);
            for keys in &schedule[1..ROUND_KEYS - 1] {
                state = _mm512_aesenc_epi128(state, *keys);
            }
            store(&mut quad, _mm512_aesenclast_epi128(state, schedule[ROUND_KEYS - 1]));
            for (pair, words) in children.iter_mut().zip(quad.as_chunks::<2>().0) {
                pair[side] = u128::from(words[1]) << 64 | u128::from(words[0]);
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,vaes")]
pub(super) fn stretch(schedules: &[Schedule], first: u128, streams: &mut [Quad]) {
    let quads = streams.len() / schedules.len();
    if quads == ROW_BLOCKS / 4 {
        return stretch_rows(schedules, first, streams);
    }
    let [low, high] = [first as u64, (first >> 64) as u64].map(|half| half as i64);
    let base = _mm512_set_epi64(high, low + 3, high, low + 2, high, low + 1, high, low);
    let step = _mm512_set_epi64(0, 4, 0, 4, 0, 4, 0, 4);
    let (mut counter, mut schedule, mut quad) = (base, 0, 0);
    for streams in streams.chunks_mut(AT_ONCE) {
        let mut states = [base; AT_ONCE];
        let mut keys = [&schedules[0]; AT_ONCE];
        for at in 0..streams.len() {
            if quad == quads {
                (counter, schedule, quad) = (base, schedule + 1, 0);
            }
            keys[at] = &schedules[schedule];
            states[at] = counter;
            counter = _mm512_add_epi64(counter, step);
            quad += 1;
        }
        for at in 0..AT_ONCE {
            states[at] = _mm512_xor_si512(states[at], broadcast(&keys[at][0]));
        }
        for round in 1..ROUND_KEYS - 1 {
            for at in 0..AT_ONCE {
                states[at] = _mm512_aesenc_epi128(states[at], broadcast(&keys[at][round]));
            }
        }
        for at in 0..AT_ONCE {
            let last = broadcast(&keys[at][ROUND_KEYS - 1]);
            states[at] = _mm512_aesenclast_epi128(states[at], last);
        }
        for (stream, state) in streams.iter_mut().zip(states) {
            store(stream, state);
        }
    }
}

/// The same for a row of each stream: a round key is loaded once for it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn stretch_rows(schedules: &[Schedule], first: u128, streams: &mut [Quad]) {
    for (schedules, streams) in schedules.chunks(4).zip(streams.chunks_mut(ROW_BLOCKS)) {
        match schedules {
            [a, b, c, d] => stretch_some([a, b, c, d], first, streams),
            [a, b, c] => stretch_some([a, b, c], first, streams),
            [a, b] => stretch_some([a, b], first, streams),
            others => others.iter().zip(streams.chunks_exact_mut(4)).for_each(|(one, streams)| {
                stretch_some([one], first, streams);
            }),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn stretch_some<const COUNT: usize>(
    schedules: [&Schedule; COUNT],
    first: u128,
    streams: &mut [Quad],
) {
    let [low, high] = [first as u64, (first >> 64) as u64].map(|half| half as i64);
    let mut counters =
        [_mm512_set_epi64(high, low + 3, high, low + 2, high, low + 1, high, low); 4];
    for at in 1..4 {
        let step = _mm512_set_epi64(0, 4, 0, 4, 0, 4, 0, 4);
        counters[at] = _mm512_add_epi64(counters[at - 1], step);
    }
    let mut states = [[_mm512_setzero_si512(); 4]; COUNT];
    for number in 0..COUNT {
        let key = broadcast(&schedules[number][0]);
        for at in 0..4 {
            states[number][at] = _mm512_xor_si512(counters[at], key);
        }
    }
    for round in 1..ROUND_KEYS - 1 {
        for number in 0..COUNT {
            let key = broadcast(&schedules[number][round]);
            for at in 0..4 {
                states[number][at] = _mm512_aesenc_epi128(states[number][at], key);
            }
        }
    }
    for number in 0..COUNT {
        let key = broadcast(&schedules[number][ROUND_KEYS - 1]);
        for at in 0..4 {
            states[number][at] = _mm512_aesenclast_epi128(states[number][at], key);
        }
    }
    for (stream, state) in streams.iter_mut().zip(states.as_flattened()) {
        store(stream, *state);
    }
}

#[target_feature(enable = "avx512f,avx512bw,vaes")]
pub(super) fn turn(squares: &mut Squares) {
    turn_rows(squares);
}

#[target_feature(enable = "avx512f,avx512bw,vaes")]
pub(super) fn fold(streams: &mut [Row], rows: &mut [Row]) {
    fold_rows(streams, rows);
}

#[target_feature(enable = "avx512f,avx512bw,vaes")]
pub(super) fn add_selected(sums: &mut [Aligned<Quad>], bits: &[u64], vectors: &[Aligned<Quad>]) {
    add_selected_lanes(sums, bits, vectors);
}

#[target_feature(enable = "avx512f,avx512bw,vaes")]
pub(super) fn add_streams(streams: &[Quad], keep: &[u64], all: &mut [Quad], each: &mut [Quad]) {
    add_kept_streams(streams, keep, all, each);
}

#[target_feature(enable = "avx512f,avx512bw,vaes")]
pub(super) fn hash(rows: &mut [Row], keys: &[u128; ROW_BLOCKS]) {
    let schedule = expand_columns(keys);
    let none = _mm512_setzero_si512();
    for rows in rows.chunks_mut(2) {
        // An odd row at the end is worked on twice.
        let last = rows.len() - 1;
        let hashed = hash_rows(&rows[0], &rows[last], none, &schedule);
        for (quad, hashed) in rows.as_flattened_mut().iter_mut().zip(hashed) {
            store(quad, hashed);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,vaes")]
pub(super) fn hash_to_bits(
    squares: &Squares,
    delta: u128,
    keys: &[u128; ROW_BLOCKS],
) -> [u64; 2 * ROW_BLOCKS] {
    let schedule = expand_columns(keys);
    let [low, high] = [delta as u64, (delta >> 64) as u64].map(|half| half as i64);
    let delta = _mm512_set_epi64(high, low, high, low, high, low, high, low);
    // Bits of rows 0 to 63 in the low half of each block, then of
    // the others; the high halves are of no use.
    let mut words = [[_mm512_setzero_si512(); 4]; 2];
    for (rows, words) in squares.chunks_exact(64).zip(&mut words) {
        for rows in rows.as_chunks::<2>().0 {
            let hashed = hash_rows(&rows[0], &rows[1], delta, &schedule);
            for (at, hashed) in hashed.into_iter().enumerate() {
                let shifted = _mm512_srli_epi64::<1>(words[at % 4]);
                words[at % 4] = _mm512_or_si512(shifted, _mm512_slli_epi64::<63>(hashed));
            }
        }
    }
    let mut bits = [0; 2 * ROW_BLOCKS];
    for (at, quad) in bits.as_chunks_mut().0.iter_mut().enumerate() {
        store(quad, _mm512_unpacklo_epi64(words[0][at], words[1][at]));
    }
    bits
}

/// Two rows plus `delta`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn hash_rows(
    first: &Row,
    second: &Row,
    delta: __m512i,
    schedule: &[[__m512i; 4]; ROUND_KEYS],
) -> [__m512i; AT_ONCE] {
    let mut mixed = [delta; AT_ONCE];
    for (at, quad) in first.iter().chain(second).enumerate() {
        let value = _mm512_xor_si512(load(quad), delta);
        let turned = _mm512_shuffle_epi32::<0b01_00_11_10>(value);
        mixed[at] = _mm512_xor_si512(turned, _mm512_maskz_mov_epi64(HIGH_HALVES, value));
    }
    let mut states = mixed;
    for at in 0..AT_ONCE {
        states[at] = _mm512_xor_si512(states[at], schedule[0][at % 4]);
    }
    for keys in &schedule[1..ROUND_KEYS - 1] {
        for at in 0..AT_ONCE {
            states[at] = _mm512_aesenc_epi128(states[at], keys[at % 4]);
        }
    }
    for at in 0..AT_ONCE {
        let last = _mm512_aesenclast_epi128(states[at], schedule[ROUND_KEYS - 1][at % 4]);
        states[at] = _mm512_xor_si512(last, mixed[at]);
    }
    states
}

/// The schedules of sixteen keys, round by round.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn expand_columns(keys: &[u128; ROW_BLOCKS]) -> [[__m512i; 4]; ROUND_KEYS] {
    let mut schedule = [[_mm512_setzero_si512(); 4]; ROUND_KEYS];
    for (at, keys) in keys.as_chunks::<4>().0.iter().enumerate() {
        let mut quad = [0; 8];
        for (words, key) in quad.as_chunks_mut::<2>().0.iter_mut().zip(keys) {
            *words = [*key as u64, (*key >> 64) as u64];
        }
        for (round, round_keys) in expand(load(&quad)).into_iter().enumerate() {
            schedule[round][at] = round_keys;
        }
    }
    schedule
}

/// The key schedules of four keys (FIPS 197, section 5.2).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn expand(keys: __m512i) -> [__m512i; ROUND_KEYS] {
    let mut schedule = [keys; ROUND_KEYS];
    let mut constant = 1;
    for round in 1..ROUND_KEYS {
        schedule[round] = expand_round(schedule[round - 1], constant);
        // Doubled in the field of AES; the constants are public.
        constant = if constant == 0x80 { 0x1b } else { constant << 1 };
    }
    schedule
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn expand_round(keys: __m512i, constant: i32) -> __m512i {
    // The last word, its bytes rotated, in all columns: shifting rows then changes nothing, and a
    // last round without a key substitutes the bytes.
    let rotate = _mm512_set1_epi32(0x0c0f_0e0d);
    let rotated = _mm512_shuffle_epi8(keys, rotate);
    let substituted = _mm512_aesenclast_epi128(rotated, _mm512_set1_epi32(constant));
    // Word i of the next key is the sum of words 0 to i, and that.
    let sums = _mm512_xor_si512(keys, _mm512_bslli_epi128::<4>(keys));
    let sums = _mm512_xor_si512(sums, _mm512_bslli_epi128::<8>(sums));
    _mm512_xor_si512(sums, substituted)
}

#[inline]
#[target_feature(enable = "avx512f")]
#[allow(unsafe_code, reason = "loads from memory take a pointer")]
fn load(quad: &Quad) -> __m512i {
    // SAFETY: the reference is to 64 bytes that may be
    // read; unaligned loads have no other condition.
    unsafe { _mm512_loadu_si512(std::ptr::from_ref(quad).cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
#[allow(unsafe_code, reason = "stores to memory take a pointer")]
fn store(quad: &mut Quad, value: __m512i) {
    // SAFETY: the reference is to 64 bytes that may be
    // written; unaligned stores have no other condition.
    unsafe { _mm512_storeu_si512(std::ptr::from_mut(quad).cast(), value) }
}

/// The same block four times.
#[inline]
#[target_feature(enable = "avx512f")]
#[allow(unsafe_code, reason = "loads from memory take a pointer")]
fn broadcast(block: &[u64; 2]) -> __m512i {
    // SAFETY: the reference is to 16 bytes that may be
    // read; unaligned loads have no other condition.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(std::ptr::from_ref(block).cast()) })
}

/// Every second word.
const HIGH_HALVES: u8 = 0b1010_1010;

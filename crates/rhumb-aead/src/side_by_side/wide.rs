//! Four blocks to a register: AVX-512 with the vector instructions for AES and multiplication.
//!
//! All functions but the first have one condition: the processor has what [`is_possible`] asks for.

use std::arch::x86_64::{
    __m128i, __m512i, __mmask64, _mm_set_epi64x, _mm_xor_si128, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_xor_si256, _mm512_add_epi32, _mm512_aesenc_epi128,
    _mm512_aesenclast_epi128, _mm512_broadcast_i32x4, _mm512_castsi128_si512,
    _mm512_castsi512_si256, _mm512_clmulepi64_epi128, _mm512_extracti64x4_epi64,
    _mm512_inserti32x4, _mm512_loadu_si512, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8,
    _mm512_maskz_mov_epi8, _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_shuffle_epi32,
    _mm512_shuffle_i64x2, _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
    _mm512_zextsi128_si512,
};

use super::{Block, Record, Tables};

/// Blocks of a register, and records side by side.
pub(super) const LANES: usize = 4;
type Vector = __m512i;

/// Whether this processor has what is needed.
#[inline]
pub(super) fn is_possible() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("vaes")
        && std::arch::is_x86_feature_detected!("vpclmulqdq")
}

algorithm!("avx512f,avx512bw,vaes,vpclmulqdq");

#[inline]
#[target_feature(enable = "avx512f")]
fn zero() -> Vector {
    _mm512_setzero_si512()
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor(a: Vector, b: Vector) -> Vector {
    _mm512_xor_si512(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(a: Vector, b: Vector, c: Vector) -> Vector {
    /// Of three bits, whether an odd number is set.
    const ODD: i32 = 0x96;
    _mm512_ternarylogic_epi64::<ODD>(a, b, c)
}

/// Adds within 32 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: Vector, b: Vector) -> Vector {
    _mm512_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn round(state: Vector, key: Vector) -> Vector {
    _mm512_aesenc_epi128(state, key)
}

#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn last_round(state: Vector, key: Vector) -> Vector {
    _mm512_aesenclast_epi128(state, key)
}

/// Products of halves: bit 0 of `HALVES` chooses that of `a`, bit 4 that of `b`.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn multiply_halves<const HALVES: i32>(a: Vector, b: Vector) -> Vector {
    _mm512_clmulepi64_epi128::<HALVES>(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn swap_halves(a: Vector) -> Vector {
    _mm512_shuffle_epi32::<0b01_00_11_10>(a)
}

/// Reverses the bytes of each block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn reverse_bytes(a: Vector) -> Vector {
    let order = broadcast(0x0001_0203_0405_0607_0809_0A0B_0C0D_0E0F);
    _mm512_shuffle_epi8(a, order)
}

#[inline]
#[target_feature(enable = "sse2")]
fn register(number: u128) -> __m128i {
    _mm_set_epi64x((number >> 64) as i64, number as i64)
}

/// The same block in all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast(number: u128) -> Vector {
    _mm512_broadcast_i32x4(register(number))
}

/// A block in the first lane, and zeros in the others.
#[inline]
#[target_feature(enable = "avx512f")]
fn in_first_lane(number: u128) -> Vector {
    _mm512_zextsi128_si512(register(number))
}

/// A block in each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn from_lanes([a, b, c, d]: [u128; LANES]) -> Vector {
    let lanes = _mm512_castsi128_si512(register(a));
    let lanes = _mm512_inserti32x4::<1>(lanes, register(b));
    let lanes = _mm512_inserti32x4::<2>(lanes, register(c));
    _mm512_inserti32x4::<3>(lanes, register(d))
}

/// A number for each lane.
#[inline]
fn each_lane(number: impl Fn(usize) -> u128) -> [u128; LANES] {
    [number(0), number(1), number(2), number(3)]
}

/// Of lane `n` the sum of all lanes of the vector `n`.
#[inline]
#[target_feature(enable = "avx512f")]
fn sums_of_lanes([a, b, c, d]: [Vector; LANES]) -> Vector {
    let low = xor(_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0xEE>(a, b));
    let high = xor(_mm512_shuffle_i64x2::<0x44>(c, d), _mm512_shuffle_i64x2::<0xEE>(c, d));
    xor(_mm512_shuffle_i64x2::<0x88>(low, high), _mm512_shuffle_i64x2::<0xDD>(low, high))
}

/// The sum of all lanes in the first, and zeros in the others.
#[inline]
#[target_feature(enable = "avx512f")]
fn sum_of_lanes(a: Vector) -> Vector {
    let halves = _mm256_xor_si256(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64::<1>(a));
    let sum = _mm_xor_si128(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
    _mm512_zextsi128_si512(sum)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn to_blocks(a: Vector) -> [Block; LANES] {
    let mut blocks = [[0; 16]; LANES];
    // SAFETY: `blocks` are 64 bytes that may be written, and any alignment will do.
    unsafe { _mm512_storeu_si512(blocks.as_mut_ptr().cast(), a) };
    blocks
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_blocks(blocks: &[Block; LANES]) -> Vector {
    // SAFETY: the reference is to 64 bytes that may be read, and any alignment will do.
    unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) }
}

/// # Safety
/// A register's bytes may be read from `from` on.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(from: *const u8) -> Vector {
    // SAFETY: the caller promises that the bytes may be read; any alignment will do.
    unsafe { _mm512_loadu_si512(from.cast()) }
}

/// # Safety
/// A register's bytes may be written from `to` on.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store(to: *mut u8, a: Vector) {
    // SAFETY: the caller promises that the bytes may be written; any alignment will do.
    unsafe { _mm512_storeu_si512(to.cast(), a) }
}

/// Reads `len` bytes, at most a register's; zeros behind them.
///
/// # Safety
/// `len` bytes may be read from `from` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn load_part(from: *const u8, len: usize) -> Vector {
    // SAFETY: bytes that the mask leaves out are not touched, and the
    // caller promises that the others may be read.
    unsafe { _mm512_maskz_loadu_epi8(mask(len), from.cast()) }
}

/// Writes the first `len` bytes, and gives them with zeros behind them.
///
/// # Safety
/// `len` bytes may be written from `to` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn store_part(to: *mut u8, len: usize, a: Vector) -> Vector {
    // SAFETY: bytes that the mask leaves out are not touched, and the
    // caller promises that the others may be written.
    unsafe { _mm512_mask_storeu_epi8(to.cast(), mask(len), a) };
    _mm512_maskz_mov_epi8(mask(len), a)
}

/// A bit for each of the first `len` bytes of a register: 1 to 64.
#[inline]
fn mask(len: usize) -> __mmask64 {
    u64::MAX >> (64 - len)
}

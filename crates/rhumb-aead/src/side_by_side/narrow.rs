//! One block to a register: AES-NI and PCLMULQDQ, in the encoding of AVX.
//!
//! All functions but the first have one condition: the processor has what [`is_possible`] asks for.

use std::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_clmulepi64_si128,
    _mm_loadu_si128, _mm_set_epi64x, _mm_setzero_si128, _mm_shuffle_epi8, _mm_shuffle_epi32,
    _mm_storeu_si128, _mm_xor_si128,
};

use super::{BLOCK, Block, Record, Tables, read_part, write_part};

/// Blocks of a register, and records side by side.
pub(super) const LANES: usize = 1;
type Vector = __m128i;

/// Whether this processor has what is needed.
#[inline]
pub(super) fn is_possible() -> bool {
    std::arch::is_x86_feature_detected!("avx")
        && std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("pclmulqdq")
}

algorithm!("avx,aes,pclmulqdq");
schedule!("avx,aes,pclmulqdq");

#[inline]
#[target_feature(enable = "avx")]
fn zero() -> Vector {
    _mm_setzero_si128()
}

#[inline]
#[target_feature(enable = "avx")]
fn xor(a: Vector, b: Vector) -> Vector {
    _mm_xor_si128(a, b)
}

#[inline]
#[target_feature(enable = "avx")]
fn xor3(a: Vector, b: Vector, c: Vector) -> Vector {
    xor(xor(a, b), c)
}

/// Adds within 32 bits.
#[inline]
#[target_feature(enable = "avx")]
fn add(a: Vector, b: Vector) -> Vector {
    _mm_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx,aes")]
fn round(state: Vector, key: Vector) -> Vector {
    _mm_aesenc_si128(state, key)
}

#[inline]
#[target_feature(enable = "avx,aes")]
fn last_round(state: Vector, key: Vector) -> Vector {
    _mm_aesenclast_si128(state, key)
}

/// The product of halves: bit 0 of `HALVES` chooses that of `a`, bit 4 that of `b`.
#[inline]
#[target_feature(enable = "avx,pclmulqdq")]
fn multiply_halves<const HALVES: i32>(a: Vector, b: Vector) -> Vector {
    _mm_clmulepi64_si128::<HALVES>(a, b)
}

#[inline]
#[target_feature(enable = "avx")]
fn swap_halves(a: Vector) -> Vector {
    _mm_shuffle_epi32::<0b01_00_11_10>(a)
}

/// Reverses the bytes of the block.
#[inline]
#[target_feature(enable = "avx")]
fn reverse_bytes(a: Vector) -> Vector {
    _mm_shuffle_epi8(a, broadcast(0x0001_0203_0405_0607_0809_0A0B_0C0D_0E0F))
}

/// The block in the only lane.
#[inline]
#[target_feature(enable = "avx")]
fn broadcast(number: u128) -> Vector {
    _mm_set_epi64x((number >> 64) as i64, number as i64)
}

/// Likewise.
#[inline]
#[target_feature(enable = "avx")]
fn in_first_lane(number: u128) -> Vector {
    broadcast(number)
}

/// Likewise.
#[inline]
#[target_feature(enable = "avx")]
fn from_lanes([a]: [u128; LANES]) -> Vector {
    broadcast(a)
}

/// A number for each lane.
#[inline]
fn each_lane(number: impl Fn(usize) -> u128) -> [u128; LANES] {
    [number(0)]
}

/// Of lane `n` the sum of the lanes of the vector `n`: there is one.
#[inline]
#[target_feature(enable = "avx")]
fn sums_of_lanes([a]: [Vector; LANES]) -> Vector {
    a
}

/// The sum of the only lane.
#[inline]
#[target_feature(enable = "avx")]
fn sum_of_lanes(a: Vector) -> Vector {
    a
}

#[inline]
#[target_feature(enable = "avx")]
fn to_blocks(a: Vector) -> [Block; LANES] {
    let mut blocks = [[0; BLOCK]; LANES];
    // SAFETY: `blocks` are 16 bytes that may be written, and any alignment will do.
    unsafe { _mm_storeu_si128(blocks.as_mut_ptr().cast(), a) };
    blocks
}

#[inline]
#[target_feature(enable = "avx")]
fn load_blocks(blocks: &[Block; LANES]) -> Vector {
    // SAFETY: the reference is to 16 bytes that may be read, and any alignment will do.
    unsafe { _mm_loadu_si128(blocks.as_ptr().cast()) }
}

/// # Safety
/// A register's bytes may be read from `from` on.
#[inline]
#[target_feature(enable = "avx")]
unsafe fn load(from: *const u8) -> Vector {
    // SAFETY: the caller promises that the bytes may be read; any alignment will do.
    unsafe { _mm_loadu_si128(from.cast()) }
}

/// # Safety
/// A register's bytes may be written from `to` on.
#[inline]
#[target_feature(enable = "avx")]
unsafe fn store(to: *mut u8, a: Vector) {
    // SAFETY: the caller promises that the bytes may be written; any alignment will do.
    unsafe { _mm_storeu_si128(to.cast(), a) }
}

/// Reads `len` bytes, at most a register's; zeros behind them.
///
/// # Safety
/// `len` bytes may be read from `from` on.
#[inline]
#[target_feature(enable = "avx")]
unsafe fn load_part(from: *const u8, len: usize) -> Vector {
    // SAFETY: the caller promises as many bytes.
    broadcast(unsafe { read_part(from, len) })
}

/// Writes the first `len` bytes, and gives them with zeros behind them.
///
/// # Safety
/// `len` bytes may be written from `to` on.
#[inline]
#[target_feature(enable = "avx,aes,pclmulqdq")]
unsafe fn store_part(to: *mut u8, len: usize, a: Vector) -> Vector {
    let [number] = to_numbers(a);
    // SAFETY: the caller promises as many bytes.
    broadcast(unsafe { write_part(to, len, number) })
}

//! Two blocks to a register: AVX2 with the vector instructions for AES and multiplication.
//!
//! All functions but the first have one condition: the processor has what [`is_possible`] asks for.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_set_epi64x, _mm_xor_si128, _mm256_add_epi32, _mm256_aesenc_epi128,
    _mm256_aesenclast_epi128, _mm256_broadcastsi128_si256, _mm256_castsi256_si128,
    _mm256_clmulepi64_epi128, _mm256_extracti128_si256, _mm256_loadu_si256,
    _mm256_permute2x128_si256, _mm256_set_m128i, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_shuffle_epi32, _mm256_storeu_si256, _mm256_xor_si256, _mm256_zextsi128_si256,
};

use super::{BLOCK, Block, Record, Tables, read_part, write_part};

/// Blocks of a register, and records side by side.
pub(super) const LANES: usize = 2;
type Vector = __m256i;

/// Whether this processor has what is needed.
#[inline]
pub(super) fn is_possible() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("vaes")
        && std::arch::is_x86_feature_detected!("vpclmulqdq")
}

algorithm!("avx2,vaes,vpclmulqdq");

#[inline]
#[target_feature(enable = "avx2")]
fn zero() -> Vector {
    _mm256_setzero_si256()
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor(a: Vector, b: Vector) -> Vector {
    _mm256_xor_si256(a, b)
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor3(a: Vector, b: Vector, c: Vector) -> Vector {
    xor(xor(a, b), c)
}

/// Adds within 32 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn add(a: Vector, b: Vector) -> Vector {
    _mm256_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx2,vaes")]
fn round(state: Vector, key: Vector) -> Vector {
    _mm256_aesenc_epi128(state, key)
}

#[inline]
#[target_feature(enable = "avx2,vaes")]
fn last_round(state: Vector, key: Vector) -> Vector {
    _mm256_aesenclast_epi128(state, key)
}

/// Products of halves: bit 0 of `HALVES` chooses that of `a`, bit 4 that of `b`.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq")]
fn multiply_halves<const HALVES: i32>(a: Vector, b: Vector) -> Vector {
    _mm256_clmulepi64_epi128::<HALVES>(a, b)
}

#[inline]
#[target_feature(enable = "avx2")]
fn swap_halves(a: Vector) -> Vector {
    _mm256_shuffle_epi32::<0b01_00_11_10>(a)
}

/// Reverses the bytes of each block.
#[inline]
#[target_feature(enable = "avx2")]
fn reverse_bytes(a: Vector) -> Vector {
    _mm256_shuffle_epi8(a, broadcast(0x0001_0203_0405_0607_0809_0A0B_0C0D_0E0F))
}

#[inline]
#[target_feature(enable = "sse2")]
fn register(number: u128) -> __m128i {
    _mm_set_epi64x((number >> 64) as i64, number as i64)
}

/// The same block in both lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn broadcast(number: u128) -> Vector {
    _mm256_broadcastsi128_si256(register(number))
}

/// A block in the first lane, and zeros in the other.
#[inline]
#[target_feature(enable = "avx2")]
fn in_first_lane(number: u128) -> Vector {
    _mm256_zextsi128_si256(register(number))
}

/// A block in each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn from_lanes([a, b]: [u128; LANES]) -> Vector {
    _mm256_set_m128i(register(b), register(a))
}

/// A number for each lane.
#[inline]
fn each_lane(number: impl Fn(usize) -> u128) -> [u128; LANES] {
    [number(0), number(1)]
}

/// Of lane `n` the sum of both lanes of the vector `n`.
#[inline]
#[target_feature(enable = "avx2")]
fn sums_of_lanes([a, b]: [Vector; LANES]) -> Vector {
    xor(_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b))
}

/// The sum of both lanes in the first, and zeros in the other.
#[inline]
#[target_feature(enable = "avx2")]
fn sum_of_lanes(a: Vector) -> Vector {
    let sum = _mm_xor_si128(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a));
    _mm256_zextsi128_si256(sum)
}

#[inline]
#[target_feature(enable = "avx2")]
fn to_blocks(a: Vector) -> [Block; LANES] {
    let mut blocks = [[0; BLOCK]; LANES];
    // SAFETY: `blocks` are 32 bytes that may be written, and any alignment will do.
    unsafe { _mm256_storeu_si256(blocks.as_mut_ptr().cast(), a) };
    blocks
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_blocks(blocks: &[Block; LANES]) -> Vector {
    // SAFETY: the reference is to 32 bytes that may be read, and any alignment will do.
    unsafe { _mm256_loadu_si256(blocks.as_ptr().cast()) }
}

/// # Safety
/// A register's bytes may be read from `from` on.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(from: *const u8) -> Vector {
    // SAFETY: the caller promises that the bytes may be read; any alignment will do.
    unsafe { _mm256_loadu_si256(from.cast()) }
}

/// # Safety
/// A register's bytes may be written from `to` on.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(to: *mut u8, a: Vector) {
    // SAFETY: the caller promises that the bytes may be written; any alignment will do.
    unsafe { _mm256_storeu_si256(to.cast(), a) }
}

/// Reads `len` bytes, at most a register's; zeros behind them.
///
/// # Safety
/// `len` bytes may be read from `from` on.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_part(from: *const u8, len: usize) -> Vector {
    // SAFETY: all that is read is among the `len` bytes that the caller promises.
    unsafe {
        if len == WIDTH {
            load(from)
        } else if len < BLOCK {
            in_first_lane(read_part(from, len))
        } else {
            from_lanes([read_part(from, BLOCK), read_part(from.add(BLOCK), len - BLOCK)])
        }
    }
}

/// Writes the first `len` bytes, and gives them with zeros behind them.
///
/// # Safety
/// `len` bytes may be written from `to` on.
#[inline]
#[target_feature(enable = "avx2,vaes,vpclmulqdq")]
unsafe fn store_part(to: *mut u8, len: usize, a: Vector) -> Vector {
    let [low, high] = to_numbers(a);
    // SAFETY: all that is written is among the `len` bytes that the caller promises.
    unsafe {
        if len == WIDTH {
            store(to, a);
            a
        } else if len < BLOCK {
            in_first_lane(write_part(to, len, low))
        } else {
            write_part(to, BLOCK, low);
            from_lanes([low, write_part(to.add(BLOCK), len - BLOCK, high)])
        }
    }
}

//! One block to a register: the instructions of Armv8 for AES and for multiplication without
//! carries.
//!
//! All functions but the first have one condition: the processor has what [`is_possible`] asks for.

use std::arch::aarch64::{
    uint8x16_t, vaddq_u32, vaeseq_u8, vaesmcq_u8, vdupq_n_u8, veorq_u8, vextq_u8, vgetq_lane_u64,
    vld1q_u8, vmull_p64, vreinterpretq_u8_p128, vreinterpretq_u8_u32, vreinterpretq_u32_u8,
    vreinterpretq_u64_u8, vrev64q_u8, vst1q_u8,
};

use super::{BLOCK, Block, Record, Tables, read_part, write_part};

/// Blocks of a register, and records side by side.
pub(super) const LANES: usize = 1;
type Vector = uint8x16_t;

/// Whether this processor has what is needed.
#[inline]
pub(super) fn is_possible() -> bool {
    std::arch::is_aarch64_feature_detected!("neon")
        && std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull")
}

algorithm!("neon,aes");
schedule!("neon,aes");

#[inline]
#[target_feature(enable = "neon,aes")]
fn zero() -> Vector {
    vdupq_n_u8(0)
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn xor(a: Vector, b: Vector) -> Vector {
    veorq_u8(a, b)
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn xor3(a: Vector, b: Vector, c: Vector) -> Vector {
    xor(xor(a, b), c)
}

/// Adds within 32 bits.
#[inline]
#[target_feature(enable = "neon,aes")]
fn add(a: Vector, b: Vector) -> Vector {
    vreinterpretq_u8_u32(vaddq_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)))
}

/// The instruction adds a key before it substitutes bytes and shifts rows, where that of x86-64,
/// by which `algorithm!` is written, adds one behind: so it is given zeros here.
#[inline]
#[target_feature(enable = "neon,aes")]
fn round(state: Vector, key: Vector) -> Vector {
    xor(vaesmcq_u8(vaeseq_u8(state, zero())), key)
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn last_round(state: Vector, key: Vector) -> Vector {
    xor(vaeseq_u8(state, zero()), key)
}

/// The product of halves: bit 0 of `HALVES` chooses that of `a`, bit 4 that of `b`.
#[inline]
#[target_feature(enable = "neon,aes")]
fn multiply_halves<const HALVES: i32>(a: Vector, b: Vector) -> Vector {
    let (a, b) = (vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b));
    let a = if HALVES & 0x01 == 0 { vgetq_lane_u64::<0>(a) } else { vgetq_lane_u64::<1>(a) };
    let b = if HALVES & 0x10 == 0 { vgetq_lane_u64::<0>(b) } else { vgetq_lane_u64::<1>(b) };
    broadcast(vmull_p64(a, b))
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn swap_halves(a: Vector) -> Vector {
    vextq_u8::<8>(a, a)
}

/// Reverses the bytes of the block.
#[inline]
#[target_feature(enable = "neon,aes")]
fn reverse_bytes(a: Vector) -> Vector {
    swap_halves(vrev64q_u8(a))
}

/// The block in the only lane.
#[inline]
#[target_feature(enable = "neon,aes")]
fn broadcast(number: u128) -> Vector {
    vreinterpretq_u8_p128(number)
}

/// Likewise.
#[inline]
#[target_feature(enable = "neon,aes")]
fn in_first_lane(number: u128) -> Vector {
    broadcast(number)
}

/// Likewise.
#[inline]
#[target_feature(enable = "neon,aes")]
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
#[target_feature(enable = "neon,aes")]
fn sums_of_lanes([a]: [Vector; LANES]) -> Vector {
    a
}

/// The sum of the only lane.
#[inline]
#[target_feature(enable = "neon,aes")]
fn sum_of_lanes(a: Vector) -> Vector {
    a
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn to_blocks(a: Vector) -> [Block; LANES] {
    let mut blocks = [[0; BLOCK]; LANES];
    // SAFETY: `blocks` are 16 bytes that may be written, and any alignment will do.
    unsafe { vst1q_u8(blocks.as_mut_ptr().cast(), a) };
    blocks
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn load_blocks(blocks: &[Block; LANES]) -> Vector {
    // SAFETY: the reference is to 16 bytes that may be read, and any alignment will do.
    unsafe { vld1q_u8(blocks.as_ptr().cast()) }
}

/// # Safety
/// A register's bytes may be read from `from` on.
#[inline]
#[target_feature(enable = "neon,aes")]
unsafe fn load(from: *const u8) -> Vector {
    // SAFETY: the caller promises that the bytes may be read; any alignment will do.
    unsafe { vld1q_u8(from) }
}

/// # Safety
/// A register's bytes may be written from `to` on.
#[inline]
#[target_feature(enable = "neon,aes")]
unsafe fn store(to: *mut u8, a: Vector) {
    // SAFETY: the caller promises that the bytes may be written; any alignment will do.
    unsafe { vst1q_u8(to, a) }
}

/// Reads `len` bytes, at most a register's; zeros behind them.
///
/// # Safety
/// `len` bytes may be read from `from` on.
#[inline]
#[target_feature(enable = "neon,aes")]
unsafe fn load_part(from: *const u8, len: usize) -> Vector {
    // SAFETY: the caller promises as many bytes.
    broadcast(unsafe { read_part(from, len) })
}

/// Writes the first `len` bytes, and gives them with zeros behind them.
///
/// # Safety
/// `len` bytes may be written from `to` on.
#[inline]
#[target_feature(enable = "neon,aes")]
unsafe fn store_part(to: *mut u8, len: usize, a: Vector) -> Vector {
    let [number] = to_numbers(a);
    // SAFETY: the caller promises as many bytes.
    broadcast(unsafe { write_part(to, len, number) })
}

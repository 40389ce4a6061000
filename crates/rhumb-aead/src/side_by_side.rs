//! AES-GCM with several blocks to a register: counter mode and GHASH of a record in one pass, and
//! what records of one key have in common side by side (NIST SP 800-38D; RFC 8452 for how GHASH is
//! computed as POLYVAL).
//!
//! Invariant: each backend is called on processors that have what it was compiled for, and on no
//! others; `unsafe` stands only in this module and those below it.

#[macro_use]
mod algorithm;
mod schedule;
mod wide;

use zeroize::Zeroize;

use crate::{NONCE_LEN, Record};

/// A block of AES, a tag, an element of the field.
pub(crate) type Block = [u8; BLOCK];
pub(crate) const BLOCK: usize = 16;
/// Records that the wide backend works on together.
pub(crate) const WIDE_LANES: usize = wide::LANES;

/// What is computed once from a key.
#[repr(C, align(64))]
pub(crate) struct Tables {
    /// Powers of the hash key as POLYVAL has it, from the highest to the first; then zeros, since
    /// whole registers are read from any of them on.
    powers: [Block; POWERS + PADDING],
    round_keys: [Block; MAX_ROUND_KEYS],
    /// Rounds of AES: 10 or 14.
    rounds: usize,
}

impl Tables {
    /// # Panics
    /// When the key has neither 16 nor 32 bytes, and on processors without AES-NI and PCLMULQDQ.
    pub(crate) fn new(key: &[u8]) -> Box<Self> {
        assert!(schedule::is_possible(), "tables are made by AES-NI and PCLMULQDQ");
        let mut tables = Box::new(Self {
            powers: [[0; BLOCK]; POWERS + PADDING],
            round_keys: [[0; BLOCK]; MAX_ROUND_KEYS],
            rounds: key.len() / 4 + 6,
        });
        // SAFETY: the processor has what `schedule::fill` was compiled for, as was asked above.
        unsafe { schedule::fill(&mut tables, key) };
        tables
    }

    /// A power of the hash key.
    #[inline]
    fn power(&self, exponent: usize) -> u128 {
        u128::from_le_bytes(self.powers[POWERS - exponent])
    }

    /// The powers from this one downwards, and zeros behind the first.
    #[inline]
    fn powers_from(&self, exponent: usize) -> &[Block] {
        &self.powers[POWERS - exponent..]
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.powers.zeroize();
        self.round_keys.zeroize();
    }
}

#[inline]
pub(crate) fn is_wide_possible() -> bool {
    wide::is_possible() && schedule::is_possible()
}

/// Encrypts up to [`WIDE_LANES`] records of one key, and gives their tags.
///
/// # Panics
/// On processors that lack what [`is_wide_possible`] asks for.
#[inline]
pub(crate) fn seal_wide(tables: &Tables, group: &mut [Record<'_>]) -> [Block; WIDE_LANES] {
    assert!(wide::is_possible(), "the wide backend is for processors that have it");
    // SAFETY: the processor has what the function was compiled for, as was asked above.
    unsafe { wide::seal(tables, group) }
}

/// Decrypts up to [`WIDE_LANES`] records of one key, and gives the tags that they ought to have.
///
/// # Panics
/// As [`seal_wide`].
#[inline]
pub(crate) fn open_wide(tables: &Tables, group: &mut [Record<'_>]) -> [Block; WIDE_LANES] {
    assert!(wide::is_possible(), "the wide backend is for processors that have it");
    // SAFETY: the processor has what the function was compiled for, as was asked above.
    unsafe { wide::open(tables, group) }
}

/// Where a record's bytes are read and written: as pointers, since both may be the same place.
#[derive(Clone, Copy)]
struct Span {
    from: *const u8,
    to: *mut u8,
    len: usize,
}

impl Span {
    #[inline]
    fn of(record: &mut Record<'_>) -> Self {
        let (to, len) = (record.bytes.as_mut_ptr(), record.bytes.len());
        match record.from {
            Some(from) => Self { from: from.as_ptr(), to, len: len.min(from.len()) },
            None => Self { from: to, to, len },
        }
    }

    /// Up to `len` bytes from the beginning, and the others.
    #[inline]
    fn split(self, len: usize) -> (Self, Self) {
        let len = len.min(self.len);
        // SAFETY: the span has as many bytes, so neither pointer leaves what it points into.
        let (from, to) = unsafe { (self.from.add(len), self.to.add(len)) };
        (Self { len, ..self }, Self { from, to, len: self.len - len })
    }
}

/// A nonce and a counter as a number whose lowest 32 bits are the counter: a counter block with its
/// bytes in reverse.
#[inline]
fn counter_block(nonce: &[u8; NONCE_LEN], counter: u32) -> u128 {
    let mut block = [0; BLOCK];
    block[..NONCE_LEN].copy_from_slice(nonce);
    block[NONCE_LEN..].copy_from_slice(&counter.to_be_bytes());
    u128::from_be_bytes(block)
}

/// Up to a block of bytes and zeros behind them, in reverse.
#[inline]
fn padded_block(bytes: &[u8]) -> u128 {
    // In two pieces that may overlap: a copy of a length that is not known takes a call.
    let (front, back) =
        if let (Some(front), Some(back)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            (u128::from(u64::from_be_bytes(*front)) << 64, u64::from_be_bytes(*back))
        } else {
            return bytes.iter().rev().fold(0, |block, byte| block >> 8 | u128::from(*byte) << 120);
        };
    front | u128::from(back) << 8 * (BLOCK - bytes.len())
}

/// The last block of GHASH: both lengths in bits.
#[inline]
fn lengths_block(aad: &[u8], len: usize) -> u128 {
    (aad.len() as u128) << 67 | (len as u128) << 3
}

/// Registers of a record that are worked on at a time: an instruction of AES takes up to eight
/// times as long as it keeps its unit busy.
const AT_ONCE: usize = 8;
/// As many powers as blocks are hashed without a reduction: those of [`AT_ONCE`] of the widest
/// registers, one of associated data, and the lengths.
const POWERS: usize = AT_ONCE * WIDE_LANES + 2;
/// A register may be read from the last power on, less one that stands for nothing.
const PADDING: usize = WIDE_LANES - 1;
/// Of AES-256.
const MAX_ROUND_KEYS: usize = 15;

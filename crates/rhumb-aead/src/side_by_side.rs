//! AES-GCM with several blocks to a register: counter mode and GHASH of a record in one pass, and
//! what records of one key have in common side by side (NIST SP 800-38D; RFC 8452 for how GHASH is
//! computed as POLYVAL).
//!
//! Invariant: each backend is called on processors that have what it was compiled for, and on no
//! others; `unsafe` stands only in this module and those below it.

// What makes macros stands before what uses them.
#[macro_use]
mod algorithm;
#[macro_use]
mod schedule;

#[cfg(target_arch = "aarch64")]
#[macro_use]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod middle;
#[cfg(target_arch = "x86_64")]
mod narrow;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
#[cfg(test)]
mod secrets;
#[cfg(target_arch = "x86_64")]
mod wide;
#[cfg(target_arch = "x86_64")]
#[macro_use]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as processor;
pub(crate) use processor::Width;
use processor::{narrowest, prefetch, widest};
use subtle::ConstantTimeEq;
#[cfg(target_arch = "x86_64")]
use x86_64 as processor;
use zeroize::Zeroize;

use crate::{NONCE_LEN, Record};

/// A block of AES, a tag, an element of the field.
pub(crate) type Block = [u8; BLOCK];
pub(crate) const BLOCK: usize = 16;

/// What is computed once from a key.
#[repr(C, align(64))]
pub(crate) struct Tables {
    /// Powers of the hash key as POLYVAL has it, from the highest to the first; then zeros, since
    /// whole registers are read from any of them on.
    powers: [Block; POWERS + PADDING],
    round_keys: [Block; MAX_ROUND_KEYS],
    /// Of AES-256, with 14 rounds, or of AES-128, with 10.
    is_long: bool,
    /// Of the registers that are computed with: possible on this processor, since there are no
    /// tables otherwise.
    width: Width,
}

impl Tables {
    /// # Panics
    /// When the key has neither 16 nor 32 bytes, and on processors for which the width is not
    /// possible.
    pub(crate) fn new(width: Width, key: &[u8]) -> Box<Self> {
        assert!(width.is_possible(), "this processor has no such registers");
        let mut tables = Box::new(Self {
            powers: [[0; BLOCK]; POWERS + PADDING],
            round_keys: [[0; BLOCK]; MAX_ROUND_KEYS],
            is_long: key.len() == 32,
            width,
        });
        // SAFETY: the processor has what `fill` was compiled for, as was asked above.
        unsafe { narrowest::fill(&mut tables, key) };
        tables
    }

    #[inline]
    pub(crate) fn width(&self) -> Width {
        self.width
    }

    /// Encrypts up to [`Width::lanes`] records of one key, and writes their tags.
    #[inline]
    pub(crate) fn seal(&self, group: &mut [Record<'_>]) {
        if group.len() == 1 || self.width.is_better_together(group) {
            return self.seal_together(group);
        }
        for record in group {
            self.seal_together(std::slice::from_mut(record));
        }
    }

    /// Decrypts up to [`Width::lanes`] records of one key, and takes back those whose tag differs
    /// from the one that they ought to have: a bit for each, set where the tag held.
    #[inline]
    pub(crate) fn open(&self, group: &mut [Record<'_>]) -> u64 {
        if group.len() == 1 || self.width.is_better_together(group) {
            return self.open_together(group);
        }
        let mut opened = 0;
        for (at, record) in group.iter_mut().enumerate() {
            opened |= self.open_together(std::slice::from_mut(record)) << at;
        }
        opened
    }

    #[inline]
    fn seal_together(&self, group: &mut [Record<'_>]) {
        // SAFETY: the processor has what each function was compiled for, since `Tables::new` has
        // asked whether the width is possible, and nothing else makes tables or changes the width.
        unsafe {
            by_width!(self.width, backend => put(&backend::seal(self, group), group));
        }
    }

    #[inline]
    fn open_together(&self, group: &mut [Record<'_>]) -> u64 {
        // SAFETY: as above.
        unsafe { by_width!(self.width, backend => release(&backend::open(self, group), group)) }
    }

    /// Asks for the lines of memory that a record of this length needs.
    #[inline]
    pub(crate) fn read_ahead(&self, len: usize) {
        let blocks = (len / BLOCK + 2).min(POWERS);
        let first = (POWERS - blocks) * BLOCK / LINE;
        read_ahead_from(self, first);
    }

    /// The keys of all rounds but the last, without what is added before the first round; and that
    /// of the last. Nothing here can fail, which would cost the callers' loops registers.
    #[inline]
    fn later_round_keys(&self) -> (&[Block], &Block) {
        if self.is_long {
            (&self.round_keys[1..14], &self.round_keys[14])
        } else {
            (&self.round_keys[1..10], &self.round_keys[10])
        }
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

/// Asks for the lines of memory that something stands in.
#[inline]
pub(crate) fn read_ahead<T>(what: &T) {
    read_ahead_from(what, 0);
}

/// The same of those from one on.
#[inline]
fn read_ahead_from<T>(what: &T, first: usize) {
    for line in first..size_of::<T>().div_ceil(LINE) {
        prefetch(std::ptr::from_ref(what).cast::<u8>().wrapping_add(line * LINE));
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.powers.zeroize();
        self.round_keys.zeroize();
    }
}

impl Width {
    /// Whether this processor has such registers, and what else is needed.
    #[inline]
    pub(crate) fn is_possible(self) -> bool {
        narrowest::is_possible() && by_width!(self, backend => backend::is_possible())
    }

    /// Records that are worked on together.
    #[inline]
    pub(crate) fn lanes(self) -> usize {
        by_width!(self, backend => backend::LANES)
    }

    /// Whether records are faster together than one by one. What lanes would save, few short
    /// records and such of different lengths do not pay back.
    #[inline]
    fn is_better_together(self, group: &[Record<'_>]) -> bool {
        let register = self.lanes() * BLOCK;
        let (mut least, mut most) = (usize::MAX, 0);
        for record in group {
            (least, most) = (least.min(record.bytes.len()), most.max(record.bytes.len()));
        }
        let is_alike = most == 0 || least > 0 && most <= register || least > register;
        most > 2 * register || group.len() == self.lanes() && is_alike
    }
}

#[inline]
fn put(tags: &[Block], group: &mut [Record<'_>]) {
    group.iter_mut().zip(tags).for_each(|(record, tag)| record.tag = *tag);
}

/// Compares tags with those that were computed, and takes back what was decrypted where they
/// differ.
#[inline]
fn release(tags: &[Block], group: &mut [Record<'_>]) -> u64 {
    let mut opened = 0;
    for (at, (record, tag)) in group.iter_mut().zip(tags).enumerate() {
        let is_equal = are_equal(&record.tag, tag);
        if !is_equal {
            record.bytes.fill(0);
        }
        opened |= u64::from(is_equal) << at;
    }
    opened
}

/// Whether two tags are the same, in a time that tells nothing of them.
#[inline]
fn are_equal(one: &Block, other: &Block) -> bool {
    // As one number: `subtle` compares byte by byte otherwise, for as long as a short record takes.
    let difference = u128::from_ne_bytes(*one) ^ u128::from_ne_bytes(*other);
    let folded = difference as u64 | (difference >> 64) as u64;
    // What comes of it is told to whoever sent the record.
    #[cfg(all(test, target_arch = "x86_64"))]
    let folded = secrets::public(folded);
    folded.ct_eq(&0).into()
}

/// Where a record's bytes are read and written: as pointers, since both may be the same place.
#[derive(Clone, Copy)]
struct Span {
    from: *const u8,
    to: *mut u8,
    len: usize,
}

impl Span {
    /// # Panics
    /// When the record is read from fewer or more bytes than it is written to.
    #[inline]
    fn of(record: &mut Record<'_>) -> Self {
        let (to, len) = (record.bytes.as_mut_ptr(), record.bytes.len());
        let from = match record.from {
            Some(from) => {
                assert_eq!(from.len(), len, "bytes are read from and written to as much");
                from.as_ptr()
            }
            None => to.cast_const(),
        };
        Self { from, to, len }
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
    // In the parts in which nonces are mostly written: other parts would be waited for.
    let [a, b, c, d, rest @ ..] = *nonce;
    let (salt, rest) = (u32::from_be_bytes([a, b, c, d]), u64::from_be_bytes(rest));
    u128::from(salt) << 96 | u128::from(rest) << 32 | u128::from(counter)
}

/// Up to a block of bytes and zeros behind them, in reverse.
#[inline]
fn padded_block(bytes: &[u8]) -> u128 {
    assert!(bytes.len() <= BLOCK, "at most a block");
    // SAFETY: the slice is of so many bytes, which may be read.
    unsafe { read_part(bytes.as_ptr(), bytes.len()) }.swap_bytes()
}

/// Reads up to a block of bytes, the first lowest, and zeros above them. In two pieces that may
/// overlap, since a copy of a length that is not known takes a call.
///
/// # Safety
/// `len` bytes may be read from `from` on, and `len` is at most 16.
#[inline]
unsafe fn read_part(from: *const u8, len: usize) -> u128 {
    // SAFETY: each piece ends at or before `len`.
    unsafe {
        if len == 12 {
            // A header, mostly, as it was just written: other parts would be waited for.
            let low = u128::from(from.cast::<u32>().read_unaligned());
            low | u128::from(from.add(4).cast::<u64>().read_unaligned()) << 32
        } else if len >= 8 {
            let low = u128::from(from.cast::<u64>().read_unaligned());
            let high = u128::from(from.add(len - 8).cast::<u64>().read_unaligned());
            low | high << (8 * (len - 8))
        } else if len >= 4 {
            let low = u64::from(from.cast::<u32>().read_unaligned());
            let high = u64::from(from.add(len - 4).cast::<u32>().read_unaligned());
            u128::from(low | high << (8 * (len - 4)))
        } else if len > 0 {
            // The first, the middle and the last, which are the same where there are fewer.
            let at = |at: usize| u32::from(from.add(at).read()) << (8 * at);
            u128::from(at(0) | at(len / 2) | at(len - 1))
        } else {
            0
        }
    }
}

/// Writes the lowest bytes of `block`, up to all of them, and gives it with zeros above those.
///
/// # Safety
/// `len` bytes may be written from `to` on, and `len` is at most 16.
#[inline]
unsafe fn write_part(to: *mut u8, len: usize, block: u128) -> u128 {
    // SAFETY: each piece ends at or before `len`.
    unsafe {
        if len >= 8 {
            to.cast::<u64>().write_unaligned(block as u64);
            to.add(len - 8).cast::<u64>().write_unaligned((block >> (8 * (len - 8))) as u64);
        } else if len >= 4 {
            to.cast::<u32>().write_unaligned(block as u32);
            to.add(len - 4).cast::<u32>().write_unaligned((block >> (8 * (len - 4))) as u32);
        } else if len > 0 {
            for at in [0, len / 2, len - 1] {
                to.add(at).write((block >> (8 * at)) as u8);
            }
        }
    }
    let above = u128::MAX.checked_shl(8 * len as u32).unwrap_or(0);
    block & !above
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
const POWERS: usize = AT_ONCE * widest::LANES + 2;
/// A register may be read from the last power on, less one that stands for nothing.
const PADDING: usize = widest::LANES - 1;
/// Bytes of a line of memory.
const LINE: usize = 64;
/// Of AES-256.
const MAX_ROUND_KEYS: usize = 15;

//! Randomness and digests: a member's coins come from one seed, a share is a stretched seed.

use aes::Aes128Enc;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aws_lc_rs::digest::{Context, SHA256, SHA512};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// A member's randomness: SHA-512 of a seed of 32 bytes from the system's generator and a counter.
///
/// Invariant: no number is used twice, and a seed makes one member.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Coins {
    seed: [u8; 32],
    next: u64,
}

impl Coins {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { seed, next: 0 }
    }

    /// Sixty-four bytes that are random to everybody else.
    pub(crate) fn draw(&mut self) -> Zeroizing<[u8; 64]> {
        let mut context = Context::new(&SHA512);
        for part in [&b"rhumb-exchange coins"[..], &self.seed, &self.next.to_le_bytes()] {
            context.update(part);
        }
        self.next += 1;
        let mut bytes = Zeroizing::new([0; 64]);
        bytes.copy_from_slice(context.finish().as_ref());
        bytes
    }

    /// So many.
    pub(crate) fn bytes(&mut self, len: usize) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(len + 64));
        while bytes.len() < len {
            bytes.extend_from_slice(&*self.draw());
        }
        bytes.truncate(len);
        bytes
    }
}

/// So many blocks of a stretched seed of 16 bytes, from one of them on: AES-128 in counter mode.
/// The seed is used for nothing else.
pub(crate) fn stretch(seed: &[u8; 16], from: usize, count: usize) -> Zeroizing<Vec<u128>> {
    let cipher = Aes128Enc::new(&(*seed).into());
    let mut stretched = Zeroizing::new(Vec::with_capacity(count));
    let mut blocks = [aes::Block::default(); SIDE_BY_SIDE];
    for first in (from..from + count).step_by(SIDE_BY_SIDE) {
        let blocks = &mut blocks[..(from + count - first).min(SIDE_BY_SIDE)];
        for (number, block) in (first..).zip(blocks.iter_mut()) {
            *block = (number as u128).to_le_bytes().into();
        }
        cipher.encrypt_blocks(blocks);
        stretched.extend(blocks.iter().map(|block| u128::from_le_bytes((*block).into())));
    }
    stretched
}

/// Blocks that the processor's instructions for AES work on at a time.
const SIDE_BY_SIDE: usize = 16;

/// SHA-256 of a label and parts, each with its length before it.
pub(crate) fn digest(label: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in [&[label], parts].concat() {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    bytes
}

/// The first eight bytes of [`digest`], as a number.
pub(crate) fn short_digest(label: &[u8], parts: &[&[u8]]) -> u64 {
    let digest = digest(label, parts);
    u64::from_le_bytes(*digest.first_chunk().expect("invariant: 32 bytes have 8"))
}

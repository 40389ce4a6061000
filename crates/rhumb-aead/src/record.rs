//! A record: one message of AES-GCM, where its bytes are, and its tag (NIST SP 800-38D).

use crate::Key;

/// Bytes of a nonce; the first counter block is the nonce and a one.
pub const NONCE_LEN: usize = 12;
/// Bytes of a tag.
pub const TAG_LEN: usize = 16;

/// One record of a call. Whoever seals gives each record of a key another nonce.
#[derive(Debug)]
// In this order: half of `from` may have no value, and beside `tag` both would be copied as one,
// which is waited for (docs/decisions/0137).
#[repr(C)]
pub struct Record<'a> {
    /// What it is sealed or opened with.
    pub key: &'a Key,
    /// Where the bytes are read, if that is not `bytes`: as many as `bytes` has.
    pub from: Option<&'a [u8]>,
    /// What the tag vouches for beside the bytes.
    pub aad: &'a [u8],
    /// Where the result goes: as long as the plaintext, below 2^36 - 32 bytes.
    pub bytes: &'a mut [u8],
    /// Used once per key.
    pub nonce: [u8; NONCE_LEN],
    /// [`seal`](crate::seal) writes it, [`open`](crate::open) compares it.
    pub tag: [u8; TAG_LEN],
}

impl<'a> Record<'a> {
    /// A record whose bytes are changed where they are. Its tag is zero until it is sealed.
    #[inline]
    pub fn in_place(
        key: &'a Key,
        nonce: [u8; NONCE_LEN],
        aad: &'a [u8],
        bytes: &'a mut [u8],
    ) -> Self {
        Self { key, nonce, aad, from: None, bytes, tag: [0; TAG_LEN] }
    }

    /// A record that is read from `from` and written to `bytes`, which are of one length.
    #[inline]
    pub fn between(
        key: &'a Key,
        nonce: [u8; NONCE_LEN],
        aad: &'a [u8],
        from: &'a [u8],
        bytes: &'a mut [u8],
    ) -> Self {
        Self { key, nonce, aad, from: Some(from), bytes, tag: [0; TAG_LEN] }
    }

    /// The same with a tag, for opening.
    #[inline]
    #[must_use]
    pub fn with_tag(self, tag: [u8; TAG_LEN]) -> Self {
        Self { tag, ..self }
    }
}

impl Record<'_> {
    /// # Panics
    /// When the record says two lengths, or one that AES-GCM has no counters for.
    #[inline]
    pub(crate) fn check(&self) {
        let is_of_one_length = self.from.is_none_or(|from| from.len() == self.bytes.len());
        assert!(is_of_one_length, "bytes are read from and written to as much");
        assert!(self.bytes.len() as u64 <= MAX_LEN, "a record is below 2^36 - 32 bytes");
    }
}

/// Counters of 32 bits, of which a record's bytes have those from 2 to 2^32 - 1: no counter wraps.
const MAX_LEN: u64 = ((1 << 32) - 2) * 16;

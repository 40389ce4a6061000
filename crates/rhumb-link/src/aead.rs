//! One epoch's key of one direction: seals and opens records in place.
//! AES-GCM by `rhumb-aead`, or by aws-lc for those who want that; nonce = salt XOR counter.
//!
//! Invariant: a key never seals twice under one counter. A [`PacketKey`] for sealing lives in
//! exactly one send lane, whose packet numbers only grow (see `lane.rs`), so the 64-bit counter
//! differs each time, and with it the nonce.
//!
//! Built with `--cfg rhumb_null_cipher` the AEAD is a no-op that protects nothing: counters,
//! windows and epochs still move, so a measurement can tell what encryption costs. It is a compiler
//! flag, and not a feature, so that no dependency can switch it on.

use std::sync::OnceLock;

use rhumb_aead::{Algorithm, Backend, Choice, Key, Record};
use rhumb_wire::datagram::{AEAD_TAG_LEN, Counter, RecordHeader};

use crate::Cipher;

/// A key and a salt.
pub(crate) struct PacketKey {
    key: Key,
    salt: [u8; SALT_LEN],
}

impl PacketKey {
    /// Makes a key ready for use: 32 bytes for AES-256, 16 for AES-128.
    pub(crate) fn new(cipher: Cipher, key: &[u8], salt: [u8; SALT_LEN]) -> Self {
        let algorithm = match cipher {
            Cipher::Aes256Gcm => Algorithm::Aes256Gcm,
            Cipher::Aes128Gcm => Algorithm::Aes128Gcm,
        };
        Self { key: Key::new(algorithm, key, cipher_choice()), salt }
    }

    /// Whether datagrams of this length are worked on together.
    #[inline]
    pub(crate) fn is_for_many(&self, datagram_len: usize) -> bool {
        cfg!(not(rhumb_null_cipher)) && self.key.is_for_lanes(datagram_len)
    }

    /// A record whose bytes stand between this header and a tag.
    #[inline]
    pub(crate) fn record<'a>(
        &'a self,
        counter: Counter,
        clear: &'a [u8; RecordHeader::LEN],
        bytes: &'a mut [u8],
    ) -> Record<'a> {
        Record::in_place(&self.key, nonce(&self.salt, counter), clear, bytes)
    }

    /// Asks for the memory that a record of this length needs, so that it has come when it is.
    #[inline]
    pub(crate) fn read_ahead(&self, len: usize) {
        if cfg!(not(rhumb_null_cipher)) {
            self.key.read_ahead(len);
        }
    }

    /// Encrypts `plaintext` in place and returns its tag.
    #[cfg(not(rhumb_null_cipher))]
    #[inline]
    pub(crate) fn seal(
        &self,
        counter: Counter,
        clear: &[u8; RecordHeader::LEN],
        plaintext: &mut [u8],
    ) -> [u8; AEAD_TAG_LEN] {
        self.key.seal(nonce(&self.salt, counter), clear, plaintext)
    }

    /// Opens ciphertext and tag in place: the plaintext's length, or `None` when it is not ours.
    #[cfg(not(rhumb_null_cipher))]
    #[inline]
    pub(crate) fn open(
        &self,
        counter: Counter,
        clear: &[u8; RecordHeader::LEN],
        sealed: &mut [u8],
    ) -> Option<usize> {
        let (ciphertext, tag) = sealed.split_last_chunk_mut::<AEAD_TAG_LEN>()?;
        let is_ours = self.key.open(nonce(&self.salt, counter), clear, ciphertext, tag);
        is_ours.then_some(ciphertext.len())
    }

    /// As [`PacketKey::open`], to the beginning of `plaintext`, which has room for it.
    #[cfg(not(rhumb_null_cipher))]
    #[inline]
    pub(crate) fn open_into(
        &self,
        counter: Counter,
        clear: &[u8; RecordHeader::LEN],
        sealed: &[u8],
        plaintext: &mut [u8],
    ) -> Option<usize> {
        let (ciphertext, tag) = sealed.split_last_chunk::<AEAD_TAG_LEN>()?;
        let plaintext = plaintext.get_mut(..ciphertext.len())?;
        let nonce = nonce(&self.salt, counter);
        let is_ours = self.key.open_into(nonce, clear, ciphertext, tag, plaintext);
        is_ours.then_some(ciphertext.len())
    }

    /// Measurement only: leaves the plaintext as it is.
    #[cfg(rhumb_null_cipher)]
    #[inline]
    pub(crate) fn seal(
        &self,
        counter: Counter,
        _: &[u8; RecordHeader::LEN],
        _: &mut [u8],
    ) -> [u8; AEAD_TAG_LEN] {
        let mut tag = [0; AEAD_TAG_LEN];
        tag[..SALT_LEN].copy_from_slice(&nonce(&self.salt, counter));
        tag
    }

    /// Measurement only: compares the nonce, so that keys of
    /// other epochs and sessions still do not fit.
    #[cfg(rhumb_null_cipher)]
    #[inline]
    pub(crate) fn open(
        &self,
        counter: Counter,
        _: &[u8; RecordHeader::LEN],
        sealed: &mut [u8],
    ) -> Option<usize> {
        let len = sealed.len().checked_sub(AEAD_TAG_LEN)?;
        (sealed[len..len + SALT_LEN] == nonce(&self.salt, counter)).then_some(len)
    }

    /// Measurement only: as [`PacketKey::open`].
    #[cfg(rhumb_null_cipher)]
    #[inline]
    pub(crate) fn open_into(
        &self,
        counter: Counter,
        _: &[u8; RecordHeader::LEN],
        sealed: &[u8],
        plaintext: &mut [u8],
    ) -> Option<usize> {
        let (ciphertext, tag) = sealed.split_last_chunk::<AEAD_TAG_LEN>()?;
        plaintext.get_mut(..ciphertext.len())?.copy_from_slice(ciphertext);
        (tag[..SALT_LEN] == nonce(&self.salt, counter)).then_some(ciphertext.len())
    }
}

/// Has all keys that this process makes from now on compute by `choice`, as `--cipher` wants it:
/// for those who trust no code but aws-lc's with it, or want to compare. The first call counts.
pub fn use_cipher(choice: Choice) {
    CHOICE.get_or_init(|| choice);
}

/// What the keys that are made now compute with. Of [`Choice::Fastest`] it is aws-lc all the same
/// beyond the lengths that `docs/decisions/0106-an-aead-of-our-own.md` gives.
pub fn cipher_backend() -> Backend {
    Backend::of(cipher_choice())
}

/// What [`use_cipher`] was called with, for other keys of this process that protect links.
pub fn cipher_choice() -> Choice {
    CHOICE.get().copied().unwrap_or_default()
}

/// Of the process, and not of a session: it says whose code is trusted here, and changes nothing of
/// what is sent.
static CHOICE: OnceLock<Choice> = OnceLock::new();

#[inline]
pub(crate) fn nonce(salt: &[u8; SALT_LEN], counter: Counter) -> [u8; SALT_LEN] {
    // As one number: byte by byte takes three times the instructions.
    let [a, b, c, d, low @ ..] = *salt;
    let [e, f, g, h, i, j, k, l] = (u64::from_be_bytes(low) ^ counter.as_u64()).to_be_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l]
}

pub(crate) const SALT_LEN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nonce_is_salt_xor_counter() {
        let salt = [1, 2, 3, 4, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF];
        assert_eq!(
            nonce(&salt, Counter::new(0x0102, 0x0304_0506_0708)),
            [1, 2, 3, 4, 0xFE, 2, 3, 4, 5, 6, 7, 0xF7]
        );
    }
}

//! The backend that is aws-lc: one record after the other, whatever the processor.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::{Algorithm, Record};

pub(crate) struct LibraryKey(LessSafeKey);

impl LibraryKey {
    /// # Panics
    /// When the key is not of the algorithm's length.
    pub(crate) fn new(algorithm: Algorithm, key: &[u8]) -> Self {
        let algorithm = match algorithm {
            Algorithm::Aes256Gcm => &AES_256_GCM,
            Algorithm::Aes128Gcm => &AES_128_GCM,
        };
        Self(LessSafeKey::new(UnboundKey::new(algorithm, key).expect("a key of 16 or 32 bytes")))
    }

    /// Encrypts the record's bytes and writes its tag.
    #[inline]
    pub(crate) fn seal(&self, record: &mut Record<'_>) {
        if let Some(from) = record.from {
            record.bytes.copy_from_slice(from);
        }
        let nonce = Nonce::assume_unique_for_key(record.nonce);
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(record.aad), record.bytes)
            .expect("invariant: AES-GCM seals whatever its counters suffice for");
        record.tag = tag.as_ref().try_into().expect("invariant: an AES-GCM tag has 16 bytes");
    }

    /// Decrypts the record's bytes; zeros, when its tag does not hold.
    #[inline]
    pub(crate) fn open(&self, record: &mut Record<'_>) -> bool {
        let nonce = Nonce::assume_unique_for_key(record.nonce);
        let (aad, tag) = (Aad::from(record.aad), &record.tag);
        let is_open = match record.from {
            Some(from) => self.0.open_separate_gather(nonce, aad, from, tag, record.bytes).is_ok(),
            None => self.0.open_in_place_separate_tag(nonce, aad, tag, record.bytes).is_ok(),
        };
        if !is_open {
            record.bytes.fill(0);
        }
        is_open
    }
}

//! A key: made once for one backend, and all that is computed from it ahead.
//!
//! Invariant: a key's secrets are neither copied nor shown, and wiped when it is dropped.

use std::fmt;

use crate::library::LibraryKey;
use crate::side_by_side::{Tables, Width};
use crate::{NONCE_LEN, Record, TAG_LEN};

/// Which cipher, with tags of 16 bytes and nonces of 12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
}

impl Algorithm {
    /// Bytes of a key.
    #[inline]
    pub fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm => 32,
        }
    }
}

/// What users want to compute with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Whatever was measured to be the fastest on such a processor, for each length.
    #[default]
    Fastest,
    /// The first of [`Backend::ALL`] that is possible, whatever the length and whether measured.
    Own,
    /// aws-lc for everything.
    Library,
}

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Four blocks to a register: AVX-512 with VAES and VPCLMULQDQ.
    Avx512,
    /// Two blocks to a register: AVX2 with VAES and VPCLMULQDQ.
    Avx2,
    /// One block to a register: AES-NI, PCLMULQDQ and AVX.
    AesNi,
    /// One block to a register: the instructions of Armv8 for AES and PMULL.
    Neon,
    /// aws-lc.
    Library,
}

impl Backend {
    /// All of them, the fastest first.
    pub const ALL: [Self; 5] = [Self::Avx512, Self::Avx2, Self::AesNi, Self::Neon, Self::Library];

    /// Whether this processor has what it takes.
    #[inline]
    pub fn is_possible(self) -> bool {
        self == Self::Library || Width::of(self).is_some_and(Width::is_possible)
    }

    /// What a choice comes to on this processor.
    pub fn of(choice: Choice) -> Self {
        let mut possible = Self::ALL.into_iter().filter(|it| it.is_possible());
        let found = match choice {
            Choice::Fastest => possible.find(|it| it.longest() > 0),
            Choice::Own => possible.next(),
            Choice::Library => None,
        };
        found.unwrap_or(Self::Library)
    }

    /// The longest record for which this was measured to be as fast as aws-lc.
    fn longest(self) -> usize {
        match self {
            Self::Avx512 => AVX512_LONGEST,
            Self::Avx2 => AVX2_LONGEST,
            Self::AesNi => AESNI_LONGEST,
            Self::Neon => NEON_LONGEST,
            Self::Library => usize::MAX,
        }
    }
}

/// Beyond it aws-lc is as fast on such processors, which works on 48 blocks at a time.
const AVX512_LONGEST: usize = 4096;
/// Such processors have no AVX-512, so aws-lc takes its way for AES-NI there.
const AVX2_LONGEST: usize = usize::MAX;
/// As above.
const AESNI_LONGEST: usize = 1024;
/// Nobody has measured it on such a processor.
const NEON_LONGEST: usize = 0;

/// A key of AES-GCM. Neither `Clone` nor shown by `Debug`; wiped when dropped.
pub struct Key(Inner);

enum Inner {
    Own(Own),
    Library(LibraryKey),
}

struct Own {
    tables: Box<Tables>,
    /// Records that are longer are the library's.
    longest: usize,
    library: Option<LibraryKey>,
}

impl Own {
    fn new(width: Width, key: &[u8]) -> Self {
        Self { tables: Tables::new(width, key), longest: usize::MAX, library: None }
    }
}

impl Key {
    /// Makes a key ready for use.
    ///
    /// # Panics
    /// When `key` is not of [`Algorithm::key_len`] bytes.
    pub fn new(algorithm: Algorithm, key: &[u8], choice: Choice) -> Self {
        let backend = Backend::of(choice);
        let mut made = Self::for_backend(algorithm, key, backend);
        if let Inner::Own(own) = &mut made.0
            && choice == Choice::Fastest
        {
            own.longest = backend.longest();
            own.library = (own.longest < usize::MAX).then(|| LibraryKey::new(algorithm, key));
        }
        made
    }

    /// A key for a given backend whatever the length, for tests and measurements.
    ///
    /// # Panics
    /// When `key` is not of [`Algorithm::key_len`] bytes, or the backend not possible here.
    pub fn for_backend(algorithm: Algorithm, key: &[u8], backend: Backend) -> Self {
        assert_eq!(key.len(), algorithm.key_len(), "a key is as long as its algorithm says");
        assert!(backend.is_possible(), "this processor has no {backend:?}");
        Self(match Width::of(backend) {
            Some(width) => Inner::Own(Own::new(width, key)),
            None => Inner::Library(LibraryKey::new(algorithm, key)),
        })
    }

    /// What computes with this key.
    pub fn backend(&self) -> Backend {
        match &self.0 {
            Inner::Own(own) => own.tables.width().backend(),
            Inner::Library(_) => Backend::Library,
        }
    }

    /// Encrypts one record in place, and gives its tag.
    #[inline]
    pub fn seal(&self, nonce: [u8; NONCE_LEN], aad: &[u8], bytes: &mut [u8]) -> [u8; TAG_LEN] {
        let mut record = Record::in_place(self, nonce, aad, bytes);
        record.check();
        self.seal_group(std::slice::from_mut(&mut record));
        record.tag
    }

    /// Decrypts one record in place. Its bytes are zeros when the tag does not hold.
    #[inline]
    #[must_use]
    pub fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        bytes: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> bool {
        let mut record = Record::in_place(self, nonce, aad, bytes).with_tag(*tag);
        record.check();
        self.open_group(std::slice::from_mut(&mut record)) != 0
    }

    /// Decrypts one record to another buffer, which is all zeros when the tag does not hold.
    ///
    /// # Panics
    /// When the buffers are not of one length.
    #[inline]
    #[must_use]
    pub fn open_into(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        from: &[u8],
        tag: &[u8; TAG_LEN],
        bytes: &mut [u8],
    ) -> bool {
        let mut record = Record::between(self, nonce, aad, from, bytes).with_tag(*tag);
        record.check();
        self.open_group(std::slice::from_mut(&mut record)) != 0
    }

    /// Asks for the memory that a record of this length needs, so that it has come when it is. Not
    /// where that is the library's, which does not say where it has it.
    #[inline]
    pub fn read_ahead(&self, len: usize) {
        if let Inner::Own(own) = &self.0
            && len <= own.longest
        {
            own.tables.read_ahead(len);
        }
    }

    /// How many records of this key, and of this length or near it, are worked on together.
    #[inline]
    pub(crate) fn lanes(&self, len: usize) -> usize {
        match &self.0 {
            Inner::Own(own) if len <= own.longest => own.tables.width().lanes(),
            _ => 1,
        }
    }

    /// Whether a record of this length goes together with others, so that one call for many pays.
    #[inline]
    pub fn is_for_lanes(&self, len: usize) -> bool {
        matches!(&self.0, Inner::Own(own) if len <= own.longest)
    }

    /// Seals records of this key: one, or as many as there are lanes if all are for those.
    #[inline]
    pub(crate) fn seal_group(&self, group: &mut [Record<'_>]) {
        match &self.0 {
            Inner::Own(Own { library: Some(library), longest, .. })
                if group.iter().any(|record| record.bytes.len() > *longest) =>
            {
                group.iter_mut().for_each(|record| library.seal(record));
            }
            Inner::Own(own) => own.tables.seal(group),
            Inner::Library(library) => group.iter_mut().for_each(|record| library.seal(record)),
        }
    }

    /// Opens records likewise: a bit for each, set where the tag held.
    #[inline]
    pub(crate) fn open_group(&self, group: &mut [Record<'_>]) -> u64 {
        let by_library = |library: &LibraryKey, group: &mut [Record<'_>]| {
            let records = group.iter_mut().enumerate();
            records.fold(0, |opened, (at, it)| opened | u64::from(library.open(it)) << at)
        };
        match &self.0 {
            Inner::Own(Own { library: Some(library), longest, .. })
                if group.iter().any(|record| record.bytes.len() > *longest) =>
            {
                by_library(library, group)
            }
            Inner::Own(own) => own.tables.open(group),
            Inner::Library(library) => by_library(library, group),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Key").field("backend", &self.backend()).finish_non_exhaustive()
    }
}

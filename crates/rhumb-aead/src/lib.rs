//! AES-GCM for many records in one call: AES-256-GCM and AES-128-GCM (NIST SP 800-38D) with nonces
//! of 96 bits and tags of 128.
//!
//! Invariants: every backend gives the same bytes and tags as aws-lc; no branch and no address
//! depends on a key, a plaintext or a tag, only on lengths; and nothing is allocated per call.
//!
//! 1. A [`Key`] is made once, for the backend that [`Choice`] and the processor allow.
//! 2. [`Record`]s say where bytes are. [`seal`] and [`open`] take up to [`MAX_RECORDS`]; those of
//!    one key that follow each other are worked on side by side.
//! 3. [`Opened`] tells which tags held. Where one did not, the record's bytes are zeros: neither
//!    plaintext nor ciphertext is left there.
//!
//! What is here to trust is in `side_by_side`, the only module with `unsafe`; `library` is aws-lc.
//! See `docs/decisions/0106-an-aead-of-our-own.md`, and 0110 for aarch64.
//!
//! ```
//! use rhumb_aead::{Algorithm, Choice, Key, Record};
//!
//! let key = Key::new(Algorithm::Aes256Gcm, &[7; 32], Choice::Fastest);
//! let (mut one, mut two) = (*b"one", *b"two");
//! let mut records = [
//!     Record::in_place(&key, [1; 12], b"header", &mut one),
//!     Record::in_place(&key, [2; 12], b"header", &mut two),
//! ];
//! rhumb_aead::seal(&mut records);
//! records[1].tag[0] ^= 1;
//! let opened = rhumb_aead::open(&mut records);
//! assert!(opened.is_open(0) && !opened.is_open(1));
//! assert_eq!((one, two), (*b"one", [0; 3]));
//! ```

#![deny(unsafe_code)]

mod batch;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
mod key;
mod library;
mod record;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
#[path = "nowhere.rs"]
mod side_by_side;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[allow(unsafe_code, reason = "wide registers are for processors with them, and read by pointer")]
mod side_by_side;

pub use batch::{MAX_RECORDS, Opened, open, seal};
pub use key::{Algorithm, Backend, Choice, Key};
pub use record::{NONCE_LEN, Record, TAG_LEN};

/// Asks for the memory that something stands in, so that it has come when it is looked at. It pays
/// where many things that are in no cache are looked at soon; for keys there is
/// [`Key::read_ahead`].
#[inline]
pub fn read_ahead<T>(what: &T) {
    side_by_side::read_ahead(what);
}

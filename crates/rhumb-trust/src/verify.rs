//! What makes a statement believable: its issuer's name hashes from
//! metadata, whose key signed it, and it holds now.
//!
//! Windows are checked before signatures: refusing an expired certificate
//! costs nanoseconds, a signature 50 µs or more.

use std::ops::Deref;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey};
use rhumb_wire::{Certificate, Metadata, Name, PublicKey};

/// A value that the verifier vouches for: nothing else can make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified<T>(T);

impl<T> Copy for Verified<&T> {}

impl<T> Verified<T> {
    /// Only verifiers of this crate vouch.
    pub(crate) fn vouch(value: T) -> Self {
        Self(value)
    }

    /// The value, without the vouching.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// The same, lent.
    pub fn as_ref(&self) -> Verified<&T> {
        Verified(&self.0)
    }
}

impl<T: Clone> Verified<&T> {
    /// A copy of what is lent.
    pub fn cloned(self) -> Verified<T> {
        Verified(self.0.clone())
    }
}

impl<T> Deref for Verified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Why one certificate is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatementError {
    /// Its window begins in the future, beyond the allowance for clocks.
    #[error("not valid for another {starts_in_s} s")]
    NotYetValid {
        /// Seconds until it begins.
        starts_in_s: u64,
    },
    /// Its window has ended, beyond the allowance for clocks.
    #[error("expired {ended_ago_s} s ago")]
    Expired {
        /// Seconds since it ended.
        ended_ago_s: u64,
    },
    /// It lasts longer than any of its kind may.
    #[error("lasts longer than it may")]
    TooLong,
    /// The metadata given are not those of the issuer's name.
    #[error("the metadata are not those of the issuer's name")]
    WrongMetadata,
    /// The signature is not the issuer's.
    #[error("the signature is not the issuer's")]
    BadSignature,
}

/// The name of metadata: the SHA-256 of their one encoding.
pub fn name_of(metadata: &Metadata) -> Name {
    let hash = digest(&SHA256, &metadata.emit());
    Name(hash.as_ref().try_into().expect("invariant: SHA-256 is 32 bytes"))
}

/// What tells a chain from every other, verified or not:
/// the SHA-256 of its origin and its certificates.
pub fn fingerprint_of(origin: &Name, certificates: &[Certificate]) -> [u8; 32] {
    let mut bytes = origin.0.to_vec();
    certificates.iter().for_each(|certificate| certificate.emit(&mut bytes));
    let hash = digest(&SHA256, &bytes);
    hash.as_ref().try_into().expect("invariant: SHA-256 is 32 bytes")
}

/// Believes one certificate that stands alone, or says why not.
///
/// # Errors
/// When it does not hold at `now_s` (within [`CLOCK_SKEW_S`]), `issuer` are not its issuer's
/// metadata, or the signature is not that key's.
pub fn verify_statement(
    certificate: &Certificate,
    issuer: &Metadata,
    now_s: u64,
) -> Result<Verified<Certificate>, StatementError> {
    check_window(certificate, now_s)?;
    if name_of(issuer) != certificate.issuer {
        return Err(StatementError::WrongMetadata);
    }
    check_signature(certificate, &issuer.key)?;
    Ok(Verified::vouch(certificate.clone()))
}

/// Whether a certificate holds at `now_s`, give or take [`CLOCK_SKEW_S`].
///
/// # Errors
/// When it does not.
pub fn check_window(certificate: &Certificate, now_s: u64) -> Result<(), StatementError> {
    check_times(certificate.not_before_s, certificate.not_after_s, now_s)
}

/// As [`check_window`], of anything that says when it holds.
pub(crate) fn check_times(
    not_before_s: u64,
    not_after_s: u64,
    now_s: u64,
) -> Result<(), StatementError> {
    let starts_in_s = not_before_s.saturating_sub(now_s);
    if starts_in_s > CLOCK_SKEW_S {
        return Err(StatementError::NotYetValid { starts_in_s });
    }
    let ended_ago_s = now_s.saturating_sub(not_after_s);
    if ended_ago_s > CLOCK_SKEW_S {
        return Err(StatementError::Expired { ended_ago_s });
    }
    Ok(())
}

/// Whether a sequence is ahead of a time, give or take [`CLOCK_SKEW_S`]: issuers count in
/// milliseconds since 1970.
pub(crate) fn is_ahead(sequence: u64, now_s: u64) -> bool {
    sequence / 1000 > now_s.saturating_add(CLOCK_SKEW_S)
}

pub(crate) fn check_signature(
    certificate: &Certificate,
    key: &PublicKey,
) -> Result<(), StatementError> {
    check_signed(&certificate.signed_bytes(), &certificate.signature, key)
}

/// Whether this key signed these bytes.
pub(crate) fn check_signed(
    message: &[u8],
    signature: &[u8],
    key: &PublicKey,
) -> Result<(), StatementError> {
    let verified = match key {
        PublicKey::EcdsaP256(point) => {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
        }
        PublicKey::Ed25519(point) => {
            UnparsedPublicKey::new(&ED25519, point).verify(message, signature)
        }
    };
    verified.map_err(|_| StatementError::BadSignature)
}

/// How far two honest clocks may be apart. Leases last minutes, so
/// this is a tenth of the shortest in common use.
pub const CLOCK_SKEW_S: u64 = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, Window};
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
    use rhumb_wire::{Role, Statement};

    #[test]
    fn windows_hold_from_both_sides() {
        let identity = Identity::generate(Role::Node, 0).unwrap();
        let window = Window { not_before_s: 1000, not_after_s: 2000 };
        let certificate = identity.certify(Statement::Withdrawal, 1, window).unwrap();
        let at = |now_s| verify_statement(&certificate, identity.metadata(), now_s).err();
        assert_eq!(at(1000 - CLOCK_SKEW_S), None);
        assert_eq!(
            at(1000 - CLOCK_SKEW_S - 1),
            Some(StatementError::NotYetValid { starts_in_s: CLOCK_SKEW_S + 1 })
        );
        assert_eq!(at(2000 + CLOCK_SKEW_S), None);
        assert_eq!(
            at(2000 + CLOCK_SKEW_S + 1),
            Some(StatementError::Expired { ended_ago_s: CLOCK_SKEW_S + 1 })
        );
    }

    #[test]
    fn any_flipped_bit_is_refused() {
        let identity = Identity::generate(Role::Node, 0).unwrap();
        let certificate =
            identity.certify(Statement::Withdrawal, 7, Window::starting(1000, 600)).unwrap();
        let mut bytes = Vec::new();
        certificate.emit(&mut bytes);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let Ok(flipped) = Certificate::parse(&flipped) else { continue };
            assert!(verify_statement(&flipped, identity.metadata(), 1000).is_err(), "bit {bit}");
        }
        assert!(verify_statement(&certificate, identity.metadata(), 1000).is_ok());
    }

    #[test]
    fn the_metadata_of_another_are_refused() {
        let (a, b) = (
            Identity::generate(Role::Node, 0).unwrap(),
            Identity::generate(Role::Node, 0).unwrap(),
        );
        let certificate = a.certify(Statement::Withdrawal, 1, Window::starting(0, 9)).unwrap();
        assert_eq!(
            verify_statement(&certificate, b.metadata(), 0),
            Err(StatementError::WrongMetadata)
        );
    }

    #[test]
    fn ed25519_keys_certify_too() {
        let pair = Ed25519KeyPair::from_pkcs8(
            Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap().as_ref(),
        )
        .unwrap();
        let key = PublicKey::Ed25519(pair.public_key().as_ref().try_into().unwrap());
        let metadata = Metadata::new(Role::Domain, key, 5);
        let mut certificate = Identity::generate(Role::Node, 0)
            .unwrap()
            .certify(Statement::Withdrawal, 1, Window::starting(0, 9))
            .unwrap();
        certificate.issuer = name_of(&metadata);
        certificate.signature = pair.sign(&certificate.signed_bytes()).as_ref().try_into().unwrap();
        assert!(verify_statement(&certificate, &metadata, 0).is_ok());
        certificate.sequence = 2;
        assert_eq!(verify_statement(&certificate, &metadata, 0), Err(StatementError::BadSignature));
    }
}

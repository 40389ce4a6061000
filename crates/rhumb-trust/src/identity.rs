//! A name that one holds: the private key, the metadata with its
//! public half, and the making of certificates.
//!
//! Keys are ECDSA on P-256, so that the DTLS handshake itself proves them.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use rhumb_wire::certificate::SIGNATURE_LEN;
use rhumb_wire::{Certificate, Metadata, Name, PublicKey, Role, Statement};
use zeroize::Zeroizing;

use crate::verify::{check_signature, name_of};
use crate::{Membership, MembershipError, TrustError};

/// A name and the private key that speaks for it. Not `Clone`: share it by `Arc`.
pub struct Identity {
    name: Name,
    metadata: Arc<Metadata>,
    key_pair: EcdsaKeyPair,
    pkcs8_der: Zeroizing<Vec<u8>>,
    /// What it shows of a trust domain.
    membership: Option<Membership>,
}

/// When a certificate holds: from the first to the last second, since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First second.
    pub not_before_s: u64,
    /// Last second.
    pub not_after_s: u64,
}

impl Window {
    /// The `lifetime_s` seconds that begin now.
    pub fn starting(now_s: u64, lifetime_s: u64) -> Self {
        Self { not_before_s: now_s, not_after_s: now_s.saturating_add(lifetime_s) }
    }
}

impl Identity {
    /// Makes a fresh key and the plain metadata of its name.
    ///
    /// # Errors
    /// When the library cannot make a key.
    pub fn generate(role: Role, created_s: u64) -> Result<Self, TrustError> {
        Self::generate_with(|key| Metadata::new(role, key, created_s))
    }

    /// Makes a fresh key; `describe` makes metadata around
    /// its public half, with attributes as it likes.
    ///
    /// # Errors
    /// When the library cannot make a key, or the metadata hold another.
    pub fn generate_with(describe: impl FnOnce(PublicKey) -> Metadata) -> Result<Self, TrustError> {
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
                .map_err(|_| TrustError::Crypto)?;
        let pkcs8_der = Zeroizing::new(document.as_ref().to_vec());
        let key = public_key(&key_pair(&pkcs8_der)?)?;
        Self::from_parts(describe(key), pkcs8_der)
    }

    /// Puts metadata and private key (PKCS #8 DER) together.
    ///
    /// # Errors
    /// When the key is not the one that the metadata hold.
    pub fn from_parts(
        metadata: Metadata,
        pkcs8_der: Zeroizing<Vec<u8>>,
    ) -> Result<Self, TrustError> {
        let key_pair = key_pair(&pkcs8_der)?;
        if metadata.key != public_key(&key_pair)? {
            return Err(TrustError::BadKey);
        }
        let (name, metadata) = (name_of(&metadata), Arc::new(metadata));
        Ok(Self { name, metadata, key_pair, pkcs8_der, membership: None })
    }

    /// Shows in handshakes that it belongs to a trust domain.
    ///
    /// # Errors
    /// When the membership is another name's.
    pub fn with_membership(self, membership: Membership) -> Result<Self, MembershipError> {
        match membership.member() {
            member if member == self.name => Ok(Self { membership: Some(membership), ..self }),
            named => Err(MembershipError::OtherMember { named, actual: self.name }),
        }
    }

    /// The same name and key, once more, with another membership to show, or none.
    ///
    /// # Errors
    /// When the membership is another name's, or the library refuses the key.
    pub fn showing(&self, membership: Option<Membership>) -> Result<Self, MembershipError> {
        let key = Zeroizing::new(self.pkcs8_der.to_vec());
        let again =
            Self::from_parts((*self.metadata).clone(), key).map_err(|_| MembershipError::Crypto)?;
        match membership {
            Some(membership) => again.with_membership(membership),
            None => Ok(again),
        }
    }

    /// What it shows of a trust domain.
    pub fn membership(&self) -> Option<&Membership> {
        self.membership.as_ref()
    }

    /// The name held.
    pub fn name(&self) -> Name {
        self.name
    }

    /// What the name is the hash of.
    pub fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }

    /// The private key, PKCS #8 DER: for the DTLS library and the key file only.
    pub fn pkcs8_der(&self) -> &[u8] {
        &self.pkcs8_der
    }

    /// Signs a statement of this name's holder.
    ///
    /// # Errors
    /// When the library cannot sign.
    pub fn certify(
        &self,
        statement: Statement,
        sequence: u64,
        window: Window,
    ) -> Result<Certificate, TrustError> {
        let mut certificate = Certificate {
            sequence,
            not_before_s: window.not_before_s,
            not_after_s: window.not_after_s,
            issuer: self.name,
            statement,
            signature: [0; SIGNATURE_LEN],
        };
        certificate.signature = self.sign(&SystemRandom::new(), &certificate.signed_bytes())?;
        Ok(certificate)
    }

    /// A signature over bytes that begin with a context of their own.
    pub(crate) fn sign(
        &self,
        random: &SystemRandom,
        message: &[u8],
    ) -> Result<[u8; SIGNATURE_LEN], TrustError> {
        let signature = self.key_pair.sign(random, message).map_err(|_| TrustError::Crypto)?;
        signature.as_ref().try_into().map_err(|_| TrustError::Crypto)
    }

    /// Whether this name's holder signed a certificate, be it in force or not: what an earlier
    /// process said when its clock was ahead counts as much as what this one says.
    pub fn has_signed(&self, certificate: &Certificate) -> bool {
        certificate.issuer == self.name && check_signature(certificate, &self.metadata.key).is_ok()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("name", &self.name).finish_non_exhaustive()
    }
}

fn key_pair(pkcs8_der: &[u8]) -> Result<EcdsaKeyPair, TrustError> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8_der)
        .map_err(|_| TrustError::BadKey)
}

/// The SEC 1 compressed form of the key pair's point: the parity of y, then x.
fn public_key(key_pair: &EcdsaKeyPair) -> Result<PublicKey, TrustError> {
    let [4, point @ ..] = key_pair.public_key().as_ref() else { return Err(TrustError::BadKey) };
    let (x, y) = point.split_at_checked(32).ok_or(TrustError::BadKey)?;
    let mut compressed = [0; 33];
    compressed[0] = 2 + (y.last().ok_or(TrustError::BadKey)? & 1);
    compressed[1..].copy_from_slice(x);
    Ok(PublicKey::EcdsaP256(compressed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_key() {
        let identity = Identity::generate(Role::Node, 1).unwrap();
        let text = format!("{identity:?}");
        assert!(text.contains(&identity.name().short()));
        assert!(text.len() < 60, "{text}");
    }

    #[test]
    fn a_name_knows_its_own_word_whenever_it_was_said() {
        let identity = Identity::generate(Role::Node, 1).unwrap();
        let other = Identity::generate(Role::Node, 1).unwrap();
        let window = Window { not_before_s: u64::MAX - 1, not_after_s: u64::MAX };
        let said = identity.certify(Statement::Withdrawal, 7, window).unwrap();
        assert!(identity.has_signed(&said));
        assert!(!other.has_signed(&said));
        assert!(!identity.has_signed(&Certificate { sequence: 8, ..said.clone() }));
        let claimed = other.certify(Statement::Withdrawal, 7, window).unwrap();
        assert!(!identity.has_signed(&Certificate { issuer: identity.name(), ..claimed }));
    }

    #[test]
    fn a_key_of_another_name_is_refused() {
        let (a, b) = (
            Identity::generate(Role::Node, 1).unwrap(),
            Identity::generate(Role::Node, 1).unwrap(),
        );
        let der = Zeroizing::new(b.pkcs8_der().to_vec());
        assert!(matches!(
            Identity::from_parts((**a.metadata()).clone(), der),
            Err(TrustError::BadKey)
        ));
    }
}

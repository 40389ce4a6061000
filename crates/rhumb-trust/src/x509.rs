//! How a handshake proves a name, on links and on channels: a self-signed X.509 certificate of the
//! identity's key carries the metadata that the name is the hash of.
//!
//! The handshake proves possession of the certificate's key; this file adds that the metadata hold
//! that very key. The certificate is read by the same parser that the handshake library reads it
//! with, so both see the same key.

use std::sync::Arc;

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rhumb_wire::{Metadata, Name, PublicKey, WireError};
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Encode};

use crate::{AdCert, Identity, Membership, TrustError, Who, name_of};

/// A name that a certificate claims. It is proven once the handshake has completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The name.
    pub name: Name,
    /// What it is the hash of.
    pub metadata: Arc<Metadata>,
    /// What it shows of a trust domain, unverified; none if that is not of a form that we know.
    pub membership: Option<Arc<Membership>>,
}

impl Claim {
    /// What rules of access are asked about.
    pub fn who(&self, now_s: u64) -> Who<'_> {
        let Self { name, metadata, membership } = self;
        Who { name, metadata, membership: membership.as_deref(), now_s }
    }
}

/// Why a certificate proves no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// It is not an X.509 certificate.
    #[error("not an X.509 certificate")]
    Malformed,
    /// It carries no metadata, or more than once.
    #[error("the certificate does not carry metadata once")]
    NoMetadata,
    /// The extension that holds them is critical.
    #[error("the extension with the metadata is critical")]
    CriticalMetadata,
    /// Its metadata are not in their one encoding.
    #[error("metadata: {0}")]
    Metadata(WireError),
    /// Its key is not a P-256 key.
    #[error("the certificate's key is not on P-256")]
    UnsupportedKey,
    /// Its key is not the one that its metadata hold.
    #[error("the certificate's key is not the metadata's")]
    KeyMismatch,
    /// The peer showed none.
    #[error("there is no certificate")]
    NoCertificate,
    /// It is our own name: we are talking to ourselves, or to a mirror.
    #[error("it is our own name")]
    OwnName,
}

/// The certificate of an identity, DER, with the membership that it shows.
///
/// # Errors
///
/// [`TrustError::Crypto`] when the library refuses the key.
pub fn make(identity: &Identity) -> Result<Vec<u8>, TrustError> {
    make_for(identity, None)
}

/// As [`make`], to answer for the owner of `served`, whose word it shows.
///
/// # Errors
///
/// [`TrustError::Crypto`] when the library refuses the key.
pub fn make_for(identity: &Identity, served: Option<&AdCert>) -> Result<Vec<u8>, TrustError> {
    let key = KeyPair::try_from(identity.pkcs8_der()).map_err(|_| TrustError::Crypto)?;
    let mut params = CertificateParams::default();
    // Nothing but the extension says who we are, and a validity would be one more clock to trust.
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions =
        vec![CustomExtension::from_oid_content(METADATA_ARCS, identity.metadata().emit())];
    let membership = identity.membership();
    let shown = membership.map(|it| CustomExtension::from_oid_content(MEMBERSHIP_ARCS, it.emit()));
    params.custom_extensions.extend(shown);
    let served = served.map(|it| CustomExtension::from_oid_content(AD_CERT_ARCS, it.emit()));
    params.custom_extensions.extend(served);
    let certificate = params.self_signed(&key).map_err(|_| TrustError::Crypto)?;
    Ok(certificate.der().to_vec())
}

/// The name that a certificate claims, if its own contents agree.
///
/// # Errors
///
/// Why it proves no name.
pub fn read(der: &[u8]) -> Result<Claim, IdentityError> {
    read_with_key(der).map(|(claim, _)| claim)
}

/// As [`read`], with the certificate's SubjectPublicKeyInfo, DER: what a
/// handshake's signature is to be verified with.
///
/// # Errors
///
/// Why it proves no name.
pub fn read_with_key(der: &[u8]) -> Result<(Claim, Vec<u8>), IdentityError> {
    let certificate = Certificate::from_der(der).map_err(|_| IdentityError::Malformed)?;
    let body = certificate.tbs_certificate();
    let mut extensions = body
        .extensions()
        .into_iter()
        .flatten()
        .filter(|extension| extension.extn_id == METADATA_OID);
    let (Some(extension), None) = (extensions.next(), extensions.next()) else {
        return Err(IdentityError::NoMetadata);
    };
    if extension.critical {
        return Err(IdentityError::CriticalMetadata);
    }
    let metadata =
        Metadata::parse(extension.extn_value.as_bytes()).map_err(IdentityError::Metadata)?;
    if metadata.key != public_key(body.subject_public_key_info())? {
        return Err(IdentityError::KeyMismatch);
    }
    let key = body.subject_public_key_info().to_der().map_err(|_| IdentityError::Malformed)?;
    let membership = body.extensions().and_then(|extensions| membership_in(extensions));
    Ok((Claim { name: name_of(&metadata), metadata: Arc::new(metadata), membership }, key))
}

/// The word of another name's owner that a certificate shows: whoever is asked for speaks for that
/// name, if its server is the name that the certificate proves and it holds now. `None` without one
/// that an owner has signed. Reading it costs a verification, so it is asked for where it matters.
pub fn ad_cert_in(der: &[u8]) -> Option<AdCert> {
    let certificate = Certificate::from_der(der).ok()?;
    let extensions = certificate.tbs_certificate().extensions()?;
    let mut shown = extensions.iter().filter(|extension| extension.extn_id == AD_CERT_OID);
    let (Some(extension), None) = (shown.next(), shown.next()) else { return None };
    AdCert::parse(extension.extn_value.as_bytes()).ok()
}

/// What is shown of a trust domain. A form that we do not know is nothing to us: its holder is
/// treated as one who shows none.
fn membership_in(extensions: &[x509_cert::ext::Extension]) -> Option<Arc<Membership>> {
    let mut shown = extensions.iter().filter(|extension| extension.extn_id == MEMBERSHIP_OID);
    let (Some(extension), None) = (shown.next(), shown.next()) else { return None };
    Membership::parse(extension.extn_value.as_bytes()).ok().map(Arc::new)
}

/// The key in the form that metadata hold it: a compressed point.
fn public_key(
    info: &x509_cert::spki::SubjectPublicKeyInfoOwned,
) -> Result<PublicKey, IdentityError> {
    let curve = info
        .algorithm
        .parameters
        .as_ref()
        .and_then(|parameters| parameters.decode_as::<ObjectIdentifier>().ok());
    if info.algorithm.oid != EC_PUBLIC_KEY_OID || curve != Some(P256_OID) {
        return Err(IdentityError::UnsupportedKey);
    }
    let point = info.subject_public_key.as_bytes().ok_or(IdentityError::UnsupportedKey)?;
    match point {
        [2 | 3, ..] => point.try_into().map(PublicKey::EcdsaP256),
        [4, x_and_y @ ..] if x_and_y.len() == 64 => {
            let mut compressed = [0; 33];
            compressed[0] = 2 + (x_and_y[63] & 1);
            compressed[1..].copy_from_slice(&x_and_y[..32]);
            Ok(PublicKey::EcdsaP256(compressed))
        }
        _ => return Err(IdentityError::UnsupportedKey),
    }
    .map_err(|_| IdentityError::UnsupportedKey)
}

/// 2.25.74088145, from the arc that UUIDs may be used under. The value is the metadata as they are.
const METADATA_ARCS: &[u64] = &[2, 25, 74_088_145];
const METADATA_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.25.74088145");
/// 2.25.74088146. The value is the membership as it is.
const MEMBERSHIP_ARCS: &[u64] = &[2, 25, 74_088_146];
const MEMBERSHIP_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.25.74088146");
/// 2.25.74088147. The value is the AdCert as it is.
const AD_CERT_ARCS: &[u64] = &[2, 25, 74_088_147];
const AD_CERT_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.25.74088147");
const EC_PUBLIC_KEY_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rhumb_wire::Role;

    fn certificate(key: &KeyPair, extensions: Vec<CustomExtension>) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.custom_extensions = extensions;
        params.self_signed(key).unwrap().der().to_vec()
    }

    fn metadata_extension(content: Vec<u8>) -> CustomExtension {
        CustomExtension::from_oid_content(METADATA_ARCS, content)
    }

    #[test]
    fn our_own_certificate_proves_our_name() {
        let identity = Identity::generate(Role::Router, 7).unwrap();
        let claim = read(&make(&identity).unwrap()).unwrap();
        assert_eq!((claim.name, &claim.metadata), (identity.name(), identity.metadata()));
    }

    #[test]
    fn a_server_shows_for_whom_it_answers() {
        let server = Identity::generate(Role::Node, 1).unwrap();
        let owner = Identity::generate(Role::Capsule, 1).unwrap();
        let window = crate::Window::starting(0, 9);
        let ad_cert = AdCert::sign(&owner, server.name(), 1, window).unwrap();
        let der = make_for(&server, Some(&ad_cert)).unwrap();
        assert_eq!(read(&der).unwrap().name, server.name());
        assert_eq!(ad_cert_in(&der), Some(ad_cert.clone()));
        assert_eq!(ad_cert_in(&make(&server).unwrap()), None);
        let key = KeyPair::try_from(server.pkcs8_der()).unwrap();
        let extension = || CustomExtension::from_oid_content(AD_CERT_ARCS, ad_cert.emit());
        assert_eq!(ad_cert_in(&certificate(&key, vec![extension(), extension()])), None);
        let mut forged = ad_cert.emit();
        *forged.last_mut().unwrap() ^= 1;
        let forged = CustomExtension::from_oid_content(AD_CERT_ARCS, forged);
        assert_eq!(ad_cert_in(&certificate(&key, vec![forged])), None);
    }

    #[test]
    fn what_proves_no_name_is_refused_with_its_reason() {
        let identity = Identity::generate(Role::Node, 1).unwrap();
        let other = Identity::generate(Role::Node, 1).unwrap();
        let key = KeyPair::try_from(identity.pkcs8_der()).unwrap();
        let metadata = identity.metadata().emit();

        let none = certificate(&key, vec![]);
        assert_eq!(read(&none), Err(IdentityError::NoMetadata));
        let twice =
            vec![metadata_extension(metadata.clone()), metadata_extension(metadata.clone())];
        assert_eq!(read(&certificate(&key, twice)), Err(IdentityError::NoMetadata));
        let mut critical = metadata_extension(metadata.clone());
        critical.set_criticality(true);
        let critical = certificate(&key, vec![critical]);
        assert_eq!(read(&critical), Err(IdentityError::CriticalMetadata));
        let foreign = certificate(&key, vec![metadata_extension(other.metadata().emit())]);
        assert_eq!(read(&foreign), Err(IdentityError::KeyMismatch));
        let mut longer = metadata.clone();
        longer.push(0);
        let longer = certificate(&key, vec![metadata_extension(longer)]);
        assert_eq!(read(&longer), Err(IdentityError::Metadata(WireError::TrailingBytes)));
        let p384 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        let p384 = certificate(&p384, vec![metadata_extension(metadata)]);
        assert_eq!(read(&p384), Err(IdentityError::UnsupportedKey));
        assert_eq!(read(b"no certificate"), Err(IdentityError::Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(at in 0usize..400, value: u8, cut in 0usize..400) {
            let identity = Identity::generate(Role::Node, 1).unwrap();
            let mut der = make(&identity).unwrap();
            let len = der.len();
            der[at % len] = value;
            der.truncate(len - cut % len);
            // A changed byte may sit where nothing is read; the name proven is ours or none.
            if let Ok(claim) = read(&der) {
                prop_assert_eq!(claim.metadata.key, identity.metadata().key);
            }
        }
    }
}

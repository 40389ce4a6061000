//! How the two ends of a connection prove their names to each other, in TLS 1.3: by the certificate
//! of links and channels, which carries the metadata that a name is the hash of, and, where a
//! server answers for another name, the word of that name's owner.
//!
//! A certificate is checked against the one name that the connection is with, inside of the
//! handshake: nothing of a program leaves before it is proven. `rustls-webpki` is not asked; a
//! signature is verified with the key that our own parser has read.

use std::fmt;
use std::sync::{Arc, OnceLock};

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rhumb_trust::{AdCert, AdCertError, CLOCK_SKEW_S, Identity, Membership, Now, x509};
use rhumb_wire::Name;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
    UnixTime,
};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};

use crate::error::{EndError, ProofError};

/// The names that this end can prove, and the key that proves them.
pub(crate) struct Credentials {
    pub(crate) identity: Arc<Identity>,
    pub(crate) provider: Arc<CryptoProvider>,
    key: Arc<dyn SigningKey>,
}

/// The certificate for one name: this end's own, or one that it answers for.
pub(crate) type Shown = Arc<SingleCertAndKey>;

impl Credentials {
    pub(crate) fn new(identity: Arc<Identity>) -> Result<Self, EndError> {
        let provider = CryptoProvider {
            cipher_suites: vec![
                // The first is QUIC's own for a handshake's first packets, and cheaper on the way.
                aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
                aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384,
                aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            ],
            // What is recorded today is not to be read by tomorrow's machines; stacks without the
            // hybrid are met halfway.
            kx_groups: vec![
                aws_lc_rs::kx_group::X25519MLKEM768,
                aws_lc_rs::kx_group::X25519,
                aws_lc_rs::kx_group::SECP256R1,
            ],
            ..aws_lc_rs::default_provider()
        };
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.pkcs8_der().to_vec()));
        let key = provider.key_provider.load_private_key(der).map_err(|_| EndError::Library)?;
        Ok(Self { identity, provider: Arc::new(provider), key })
    }

    /// What is shown for this end's own name, or for the owner of `served`.
    pub(crate) fn shown(&self, served: Option<&AdCert>) -> Result<Shown, EndError> {
        let der = x509::make_for(&self.identity, served).map_err(|_| EndError::Library)?;
        let certified = CertifiedKey::new(vec![CertificateDer::from(der)], Arc::clone(&self.key));
        Ok(Arc::new(SingleCertAndKey::from(certified)))
    }

    /// Of the side that begins. Nothing is resumed: each connection proves both names anew.
    pub(crate) fn client(
        &self,
        shown: &Shown,
        verifier: Arc<Verifier>,
        protocols: &[&[u8]],
    ) -> Result<QuicClientConfig, EndError> {
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(TLS_1_3)
            .map_err(|_| EndError::Library)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::clone(shown) as _);
        config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
        config.resumption = Resumption::disabled();
        // Routers see the names of PDUs, and need no more.
        config.enable_sni = false;
        QuicClientConfig::try_from(config).map_err(|_| EndError::Library)
    }

    /// Of the side that answers.
    pub(crate) fn server(
        &self,
        shown: &Shown,
        verifier: Arc<Verifier>,
        protocols: &[&[u8]],
    ) -> Result<QuicServerConfig, EndError> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(TLS_1_3)
            .map_err(|_| EndError::Library)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::clone(shown) as _);
        config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        QuicServerConfig::try_from(config).map_err(|_| EndError::Library)
    }

    /// Checks that the other end is `expected`, by what holds at `now`.
    pub(crate) fn verifier(&self, expected: Name, now: Now) -> Arc<Verifier> {
        let signatures = self.provider.signature_verification_algorithms;
        let (ours, now_s) = (self.identity.name(), now.unix_s());
        Arc::new(Verifier { expected, ours, now_s, signatures, outcome: OnceLock::new() })
    }
}

impl Credentials {
    /// Believes nobody.
    pub(crate) fn nobody(&self) -> Arc<Verifier> {
        let signatures = self.provider.signature_verification_algorithms;
        let (ours, expected) = (self.identity.name(), self.identity.name());
        Arc::new(Verifier { expected, ours, now_s: 0, signatures, outcome: OnceLock::new() })
    }
}

/// What the other end proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proof {
    /// Whose key it has, and what that shows of a domain.
    by: x509::Claim,
    /// The word of the owner for whom it speaks, when the name is not its own.
    served: Option<AdCert>,
}

impl Proof {
    /// The last second in which it speaks for the name: for ever, when the name is its own.
    pub(crate) fn until_s(&self) -> u64 {
        let until_s = |it: &AdCert| it.certificate().not_after_s.saturating_add(CLOCK_SKEW_S);
        self.served.as_ref().map_or(u64::MAX, until_s)
    }

    /// Whose key it has.
    pub(crate) fn claim(&self) -> &x509::Claim {
        &self.by
    }

    /// The owner for whom it speaks.
    pub(crate) fn served(&self) -> Option<&AdCert> {
        self.served.as_ref()
    }

    /// What it shows of a domain, unverified.
    pub(crate) fn membership(&self) -> Option<&Membership> {
        self.by.membership.as_deref()
    }
}

/// Checks one handshake, and keeps what came of it.
pub(crate) struct Verifier {
    expected: Name,
    ours: Name,
    now_s: u64,
    signatures: WebPkiSupportedAlgorithms,
    outcome: OnceLock<Result<Proof, ProofError>>,
}

impl Verifier {
    /// What the certificate proved; `None` before there was one.
    pub(crate) fn outcome(&self) -> Option<Result<&Proof, ProofError>> {
        self.outcome.get().map(|outcome| outcome.as_ref().map_err(|error| *error))
    }

    /// What the other end proved, once it has.
    pub(crate) fn proof(&self) -> Option<&Proof> {
        self.outcome().and_then(Result::ok)
    }

    fn check(&self, der: &CertificateDer<'_>) -> Result<(), Error> {
        let outcome = self.examine(der);
        let outcome = self.outcome.get_or_init(|| outcome);
        match outcome {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
            }
        }
    }

    fn examine(&self, der: &CertificateDer<'_>) -> Result<Proof, ProofError> {
        let by = x509::read(der).map_err(ProofError::Identity)?;
        let found = by.name;
        if found == self.ours {
            return Err(ProofError::OwnName);
        }
        if found == self.expected {
            return Ok(Proof { by, served: None });
        }
        let wrong = ProofError::WrongName { expected: self.expected, found };
        let ad_cert = x509::ad_cert_in(der).ok_or(wrong)?;
        if ad_cert.owner() != self.expected {
            return Err(wrong);
        }
        let (owner, server) = (self.expected, found);
        match ad_cert.check(found, self.now_s) {
            Ok(()) => Ok(Proof { by, served: Some(ad_cert) }),
            Err(AdCertError::OtherServer { .. }) => Err(wrong),
            Err(_) => Err(ProofError::NotInForce { owner, server }),
        }
    }

    /// With the key as our own parser sees it, so that the name and the signature are of one key.
    fn check_signature(
        &self,
        message: &[u8],
        der: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let (_, key) = x509::read_with_key(der).map_err(|_| {
            Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)
        })?;
        let key = SubjectPublicKeyInfoDer::from(key);
        rustls::crypto::verify_tls13_signature_with_raw_key(message, &key, signed, &self.signatures)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("expected", &self.expected).finish_non_exhaustive()
    }
}

/// What is spoken, and its version.
pub(crate) const FIRST: &[u8] = b"rhumb-end/1";
/// The same, and packets as records.
pub(crate) const PACKETS_TOO: &[u8] = b"rhumb-end/2";
const TLS_1_3: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];
/// What names' keys sign with.
const SCHEMES: [SignatureScheme; 1] = [SignatureScheme::ECDSA_NISTP256_SHA256];

//! How a TLS handshake proves both names of a link: by the certificates that DTLS shows, too
//! (`docs/spec.md`, section 4.3).
//!
//! One version, no resumption, no data before the handshake is over: each stream proves both names
//! anew. The certificate's own parser reads the key, so that name and signature are of one key.

use std::fmt;
use std::sync::Arc;

use rhumb_link::LinkError;
use rhumb_trust::x509::{self, Claim, IdentityError};
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
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, OtherError, ServerConfig,
    SignatureScheme, SupportedCipherSuite,
};

use crate::StreamError;

/// A key, and the certificate that is shown with it now.
pub(crate) struct Credentials {
    name: Name,
    provider: Arc<CryptoProvider>,
    key: Arc<dyn SigningKey>,
    certificate: Arc<SingleCertAndKey>,
    server: Arc<ServerConfig>,
    /// The number of the certificate.
    pub(crate) number: u32,
}

impl Credentials {
    /// Of a private key and its certificate.
    pub(crate) fn new(name: Name, pkcs8: &[u8], certificate: Vec<u8>) -> Result<Self, StreamError> {
        Self::offering(&SUITES, name, pkcs8, certificate)
    }

    /// Likewise, with these ciphers; records are ours, of those of [`SUITES`] alone.
    pub(crate) fn offering(
        suites: &[SupportedCipherSuite],
        name: Name,
        pkcs8: &[u8],
        certificate: Vec<u8>,
    ) -> Result<Self, StreamError> {
        let provider = Arc::new(CryptoProvider {
            cipher_suites: suites.to_vec(),
            kx_groups: vec![aws_lc_rs::kx_group::X25519, aws_lc_rs::kx_group::SECP256R1],
            ..aws_lc_rs::default_provider()
        });
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8.to_vec()));
        let key = provider.key_provider.load_private_key(key)?;
        let certificate = shown(certificate, &key);
        let server = server(&provider, name, &certificate)?;
        Ok(Self { name, provider, key, certificate, server, number: 0 })
    }

    /// Shows another certificate of the same key from now on.
    pub(crate) fn show(&mut self, certificate: Vec<u8>, number: u32) -> Result<(), StreamError> {
        let certificate = shown(certificate, &self.key);
        self.server = server(&self.provider, self.name, &certificate)?;
        self.certificate = certificate;
        self.number = number;
        Ok(())
    }

    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }

    /// To dial with; the name that has to answer, if any.
    pub(crate) fn client(&self, expected: Option<Name>) -> Result<Arc<ClientConfig>, StreamError> {
        let verifier = Arc::new(Verifier::new(&self.provider, self.name, expected));
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(TLS_1_3)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::clone(&self.certificate) as _);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        config.enable_secret_extraction = true;
        Ok(Arc::new(config))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.name.short())
    }
}

/// The name that a finished handshake has proven.
pub(crate) fn proven(certificates: Option<&[CertificateDer<'_>]>) -> Result<Claim, LinkError> {
    let [der, ..] = certificates.unwrap_or_default() else {
        return Err(LinkError::Identity(IdentityError::NoCertificate));
    };
    x509::read(der).map_err(LinkError::Identity)
}

/// What a handshake failed for, if a name was the reason.
pub(crate) fn reason_of(error: &Error) -> Option<LinkError> {
    let Error::Other(OtherError(error)) = error else { return None };
    error.downcast_ref::<Refused>().map(|Refused(error)| error.clone())
}

/// A name that will not do, on its way through rustls.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(LinkError);

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Self::Other(OtherError(Arc::new(refused)))
    }
}

/// Takes whoever proves a name, but for our own, or the one that is expected and no other.
#[derive(Debug)]
struct Verifier {
    own: Name,
    expected: Option<Name>,
    signatures: WebPkiSupportedAlgorithms,
}

impl Verifier {
    fn new(provider: &CryptoProvider, own: Name, expected: Option<Name>) -> Self {
        Self { own, expected, signatures: provider.signature_verification_algorithms }
    }

    fn look_at(&self, der: &CertificateDer<'_>) -> Result<(), Refused> {
        let refused = |error| Err(Refused(error));
        let actual = match x509::read(der) {
            Ok(claim) => claim.name,
            Err(error) => return refused(LinkError::Identity(error)),
        };
        match self.expected {
            Some(expected) if expected != actual => {
                refused(LinkError::UnexpectedName { expected, actual })
            }
            _ if actual == self.own => refused(LinkError::Identity(IdentityError::OwnName)),
            _ => Ok(()),
        }
    }

    fn verify(
        &self,
        message: &[u8],
        der: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let read = x509::read_with_key(der);
        let (_, key) = read.map_err(|error| Refused(LinkError::Identity(error)))?;
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
        self.look_at(end_entity)?;
        Ok(ServerCertVerified::assertion())
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
        self.verify(message, certificate, signed)
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
        self.look_at(end_entity)?;
        Ok(ClientCertVerified::assertion())
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
        self.verify(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }
}

fn shown(certificate: Vec<u8>, key: &Arc<dyn SigningKey>) -> Arc<SingleCertAndKey> {
    let certificate = vec![CertificateDer::from(certificate)];
    Arc::new(SingleCertAndKey::from(CertifiedKey::new(certificate, Arc::clone(key))))
}

fn server(
    provider: &Arc<CryptoProvider>,
    own: Name,
    certificate: &Arc<SingleCertAndKey>,
) -> Result<Arc<ServerConfig>, StreamError> {
    let verifier = Arc::new(Verifier::new(provider, own, None));
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(TLS_1_3)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::clone(certificate) as _);
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    // Records are ours once the handshake is over.
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}

/// What both ends say that they speak (ALPN): a port may be shared with what speaks something else.
pub(crate) const PROTOCOL: &[u8] = b"rhumb/1";
/// What is offered, the best first.
pub(crate) const SUITES: [SupportedCipherSuite; 2] = [
    aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384,
    aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
];
const TLS_1_3: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];
/// What names' keys sign with.
const SCHEMES: [SignatureScheme; 1] = [SignatureScheme::ECDSA_NISTP256_SHA256];

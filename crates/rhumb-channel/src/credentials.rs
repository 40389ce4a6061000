//! How a TLS handshake proves names: the same self-signed certificate as on links carries the
//! metadata that a name is the hash of.
//!
//! One protocol version, one cipher suite, one key exchange: both ends are ours, so there is
//! nothing to negotiate down to. The key exchange is a hybrid with ML-KEM, because party two's
//! traffic crosses the exchange's own fabric: recorded today and opened by a quantum computer
//! later, it would join the shares of both parties.

use std::fmt;
use std::sync::Arc;

use rhumb_trust::Identity;
use rhumb_trust::x509::{self, IdentityError};
use rhumb_wire::{Metadata, Name};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
    UnixTime,
};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};

use crate::Protocol;
use crate::error::{ChannelError, Refusal};

/// A name, ready to prove itself.
#[derive(Clone)]
pub struct Credentials {
    name: Name,
    provider: Arc<CryptoProvider>,
    key: Arc<SingleCertAndKey>,
}

impl Credentials {
    /// Those of an identity.
    ///
    /// # Errors
    ///
    /// [`ChannelError::Certificate`] when the libraries refuse its key.
    pub fn new(identity: &Identity) -> Result<Self, ChannelError> {
        let provider = CryptoProvider {
            cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384],
            kx_groups: vec![aws_lc_rs::kx_group::X25519MLKEM768],
            ..aws_lc_rs::default_provider()
        };
        let der = x509::make(identity).map_err(|_| ChannelError::Certificate)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.pkcs8_der().to_vec()));
        let key = provider.key_provider.load_private_key(key)?;
        let certified = CertifiedKey::new(vec![CertificateDer::from(der)], key);
        Ok(Self {
            name: identity.name(),
            provider: Arc::new(provider),
            key: Arc::new(SingleCertAndKey::from(certified)),
        })
    }

    /// The name that they prove.
    #[must_use]
    pub fn name(&self) -> Name {
        self.name
    }

    /// Without a name that is expected, whoever answers is taken. Sessions are never resumed: each
    /// channel proves both names anew.
    pub(crate) fn client(
        &self,
        expected: Option<Name>,
        protocol: &Protocol,
    ) -> Result<Arc<ClientConfig>, ChannelError> {
        let verifier = Arc::new(Expects { name: expected, signatures: self.signatures() });
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(TLS_1_3)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::clone(&self.key) as _);
        config.alpn_protocols = vec![protocol.name.as_bytes().to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Arc::new(config))
    }

    pub(crate) fn server(
        &self,
        protocols: &[Protocol],
        admits: Admits,
    ) -> Result<Arc<ServerConfig>, ChannelError> {
        let verifier = Arc::new(Admission { admits, signatures: self.signatures() });
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(TLS_1_3)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::clone(&self.key) as _);
        config.alpn_protocols =
            protocols.iter().map(|protocol| protocol.name.as_bytes().to_vec()).collect();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    fn signatures(&self) -> WebPkiSupportedAlgorithms {
        self.provider.signature_verification_algorithms
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.name.short())
    }
}

/// Who is admitted. Asked in each handshake, so that a roster may change.
pub(crate) type Admits = Arc<dyn Fn(Name) -> bool + Send + Sync>;

/// The name that a finished handshake has proven.
pub(crate) fn proven(
    certificates: Option<&[CertificateDer<'_>]>,
) -> Result<(Name, Arc<Metadata>), ChannelError> {
    let [der, ..] = certificates.unwrap_or_default() else {
        return Err(ChannelError::Identity(IdentityError::NoCertificate));
    };
    let claim = x509::read(der).map_err(ChannelError::Identity)?;
    Ok((claim.name, claim.metadata))
}

/// A client's: one name must answer, or anybody who proves one.
#[derive(Debug)]
struct Expects {
    name: Option<Name>,
    signatures: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Expects {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = x509::read(end_entity).map_err(Refusal::Identity)?.name;
        match self.name {
            Some(expected) if found != expected => {
                Err(Refusal::WrongName { expected, found }.into())
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
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
        verify_signature(message, certificate, signed, &self.signatures)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }
}

/// A server's: only names that it knows.
struct Admission {
    admits: Admits,
    signatures: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for Admission {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let name = x509::read(end_entity).map_err(Refusal::Identity)?.name;
        if !(self.admits)(name) {
            return Err(Refusal::Stranger(name).into());
        }
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
        verify_signature(message, certificate, signed, &self.signatures)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admission(..)")
    }
}

/// With the key as our own parser sees it, so that the name and the signature are of one key.
fn verify_signature(
    message: &[u8],
    der: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    signatures: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let (_, key) = x509::read_with_key(der).map_err(Refusal::Identity)?;
    let key = SubjectPublicKeyInfoDer::from(key);
    rustls::crypto::verify_tls13_signature_with_raw_key(message, &key, signed, signatures)
}

const TLS_1_3: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];
/// What names' keys sign with.
const SCHEMES: [SignatureScheme; 1] = [SignatureScheme::ECDSA_NISTP256_SHA256];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Listener, connect};
    use rhumb_wire::Role;

    const PROTOCOL: Protocol =
        Protocol { name: "test/1", max_received: 9, max_sent: 9, max_queue: 99 };

    fn credentials() -> Credentials {
        Credentials::new(&Identity::generate(Role::Node, 1).unwrap()).unwrap()
    }

    /// The certificate of `of`, which is public, and the key of another.
    fn impostor(of: &Credentials) -> Credentials {
        let other = credentials();
        let certificate = |credentials: &Credentials| {
            let hello: &dyn rustls::client::ResolvesClientCert = &*credentials.key;
            hello.resolve(&[], &[]).unwrap()
        };
        let mixed =
            CertifiedKey::new(certificate(of).cert.clone(), Arc::clone(&certificate(&other).key));
        Credentials { key: Arc::new(SingleCertAndKey::from(mixed)), ..other }
    }

    #[tokio::test]
    async fn a_certificate_without_its_key_proves_nothing() {
        let (server, member) = (credentials(), credentials());
        let any = "127.0.0.1:0".parse().unwrap();
        for (listening, calling) in
            [(impostor(&server), member.clone()), (server.clone(), impostor(&member))]
        {
            let name = member.name();
            let admits = move |who| who == name;
            let mut listener = Listener::bind(any, &listening, &[PROTOCOL], admits).await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move { listener.accept().await });
            assert!(connect(&calling, address, server.name(), &PROTOCOL).await.is_err());
        }
    }
}

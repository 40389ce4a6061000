//! Whom to believe of a cluster's nodes, where they are spoken to in TLS: those whose certificate
//! was signed by one of a file, and names the address that the node is reached at. Nodes tell each
//! other's addresses, so names would prove nothing.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::{TLS12, TLS13};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error as TlsError, InvalidMessage,
    RootCertStore,
};

/// The certificates that sign those of a cluster's nodes.
#[derive(Clone)]
pub struct TrustAnchors(Arc<ClientConfig>);

/// Why a text holds no certificates to believe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustAnchorsError {
    /// There is none in it.
    #[error(
        "there is no certificate in it; write those that sign the nodes' ones, as PEM, which begins \
         with -----BEGIN CERTIFICATE-----"
    )]
    Empty,
    /// One is cut off, or is none.
    #[error("a certificate in it is damaged; copy it again, as PEM")]
    Damaged,
}

/// Why a node is not spoken to, though it is there.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFault {
    /// Nobody who is believed has signed its certificate.
    #[error(
        "shows a certificate that none of those in `store_ca` has signed; name the one that signs \
         those of the nodes"
    )]
    Issuer,
    /// Its certificate is over, or has not begun.
    #[error("shows a certificate that is not valid now; renew it, or set the clocks right")]
    Time,
    /// Its certificate names others.
    #[error(
        "shows a certificate of {}, not of that address; sign one with the IP address of the node as \
         subject alternative name",
        names_or_nobody(.names)
    )]
    Address {
        /// What it names, as the library writes it.
        names: Vec<String>,
    },
    /// Its certificate is not to be used for any other reason.
    #[error("shows a certificate that cannot be used: {0}")]
    Certificate(CertificateError),
    /// It was asked for TLS, and answers in something else.
    #[error(
        "does not speak TLS; enable `client_encryption_options` at the nodes, or name their port \
         that does (never plain text: `store_ca` is set)"
    )]
    NotThere,
    /// It was spoken to in plain text, and does not answer.
    #[error(
        "ends connections in plain text; where the nodes speak TLS, name the certificates that sign \
         theirs with `store_ca`"
    )]
    Wanted,
    /// It wants the RIB to show one, too.
    #[error(
        "asks for a certificate of the RIB, which has none; set `require_client_auth: false` at \
         the nodes, and give the RIB a password"
    )]
    ClientCertificate,
    /// Both speak TLS, and do not come together.
    #[error("ends the TLS handshake: {0}; TLS 1.2 or 1.3 is needed")]
    Handshake(TlsError),
}

impl TrustAnchors {
    /// Reads certificates in PEM. What else stands in the text is left out.
    ///
    /// # Errors
    /// When there is none, or one is damaged.
    pub fn parse(pem: &[u8]) -> Result<Self, TrustAnchorsError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|_| TrustAnchorsError::Damaged)?;
            roots.add(certificate).map_err(|_| TrustAnchorsError::Damaged)?;
        }
        if roots.is_empty() {
            return Err(TrustAnchorsError::Empty);
        }
        let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .expect("invariant: the provider has cipher suites of both")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        self.0.clone()
    }
}

impl fmt::Debug for TrustAnchors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TrustAnchors(..)")
    }
}

impl TlsFault {
    /// What a handshake, or the first read after it, failed of. What is wrong below TLS is returned
    /// as it is.
    pub(crate) fn of(error: io::Error) -> Result<Self, io::Error> {
        match error.get_ref().and_then(|it| it.downcast_ref::<TlsError>()) {
            Some(error) => Ok(Self::of_tls(error)),
            None => Err(error),
        }
    }

    fn of_tls(error: &TlsError) -> Self {
        use CertificateError as C;
        let certificate = match error {
            TlsError::InvalidCertificate(certificate) => certificate,
            TlsError::InvalidMessage(InvalidMessage::InvalidContentType) => return Self::NotThere,
            // The second is what TLS 1.2 has for it: there is none of ours that could be bad.
            TlsError::AlertReceived(
                AlertDescription::CertificateRequired | AlertDescription::BadCertificate,
            ) => return Self::ClientCertificate,
            other => return Self::Handshake(other.clone()),
        };
        match certificate {
            C::UnknownIssuer | C::BadSignature => Self::Issuer,
            C::Expired | C::ExpiredContext { .. } => Self::Time,
            C::NotValidYet | C::NotValidYetContext { .. } => Self::Time,
            C::NotValidForName => Self::Address { names: Vec::new() },
            C::NotValidForNameContext { presented, .. } => {
                Self::Address { names: presented.clone() }
            }
            other => Self::Certificate(other.clone()),
        }
    }
}

fn names_or_nobody(names: &[String]) -> String {
    match names {
        [] => "nobody".to_owned(),
        names => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_no_certificate_says_so() {
        for text in
            ["", "rib:secret", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
        {
            assert_eq!(TrustAnchors::parse(text.as_bytes()).err(), Some(TrustAnchorsError::Empty));
        }
        for text in [
            "-----BEGIN CERTIFICATE-----\nAAAA\n",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            assert_eq!(
                TrustAnchors::parse(text.as_bytes()).err(),
                Some(TrustAnchorsError::Damaged)
            );
        }
    }
}

//! Certificates of nodes, and who signs them.

use data_encoding::BASE64;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// Signs certificates of nodes.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Vec<u8>,
}

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Valid {
    Now,
    Formerly,
    Later,
}

/// A certificate and its key, as DER.
pub(crate) struct Certified {
    pub(crate) key: Vec<u8>,
    pub(crate) certificate: Vec<u8>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("signed").der().to_vec();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// As a file of certificates to believe.
    pub(crate) fn pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// As DER.
    pub(crate) fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// Of a node at an address.
    pub(crate) fn sign(&self, address: &str, valid: Valid) -> Certified {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([address.to_owned()]).expect("an address");
        (params.not_before, params.not_after) = match valid {
            Valid::Now => (date_time_ymd(2020, 1, 1), date_time_ymd(2100, 1, 1)),
            Valid::Formerly => (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1)),
            Valid::Later => (date_time_ymd(2100, 1, 1), date_time_ymd(2101, 1, 1)),
        };
        let certificate = params.signed_by(&key, &self.issuer).expect("signed").der().to_vec();
        Certified { key: key.serialize_der(), certificate }
    }
}

impl Certified {
    /// Key and certificate in one file.
    pub(crate) fn pem(&self) -> String {
        pem("PRIVATE KEY", &self.key) + &pem("CERTIFICATE", &self.certificate)
    }
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = BASE64.encode(der);
    let lines: Vec<&str> =
        (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

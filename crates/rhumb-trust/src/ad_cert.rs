//! AdCerts as things to hand over: the owner's word for a server together with the
//! owner's metadata, which is all that the server needs to answer for a name whose key
//! stays at home. In a file it is text, and public:
//!
//! ```text
//! rhumb-adcert 1
//! name <52 characters>
//! metadata <hex>
//! certificate <hex>
//! ```
//!
//! INVARIANT: an [`AdCert`] is signed by the key of its metadata. Whether it holds now, and for
//! whom, is for [`AdCert::check`] to say.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rhumb_wire::{Certificate, Metadata, Name, Statement, WireError};

use crate::verify::check_window;
use crate::words::{self, Fault, MAX_FILE_LEN, Words};
use crate::{Identity, StatementError, Window};

/// An owner's word that a server answers for its name, and the owner's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdCert {
    /// One certificate.
    words: Words,
    server: Name,
}

impl AdCert {
    /// Lets `server` answer for `owner` in `window`, and nobody else. Of two by one owner the one
    /// with the higher sequence is in force; owners use milliseconds since 1970.
    ///
    /// # Errors
    /// When `server` is the owner itself, which needs no AdCert, or the library cannot sign.
    pub fn sign(
        owner: &Identity,
        server: Name,
        sequence: u64,
        window: Window,
    ) -> Result<Self, AdCertError> {
        Self::sign_as(owner, Statement::Service { server, several: false }, sequence, window)
    }

    /// As [`AdCert::sign`], beside other servers that are let in this way: whoever sends is led to
    /// the nearest that is there.
    ///
    /// # Errors
    /// As there.
    pub fn sign_one_of_several(
        owner: &Identity,
        server: Name,
        sequence: u64,
        window: Window,
    ) -> Result<Self, AdCertError> {
        Self::sign_as(owner, Statement::Service { server, several: true }, sequence, window)
    }

    fn sign_as(
        owner: &Identity,
        service: Statement,
        sequence: u64,
        window: Window,
    ) -> Result<Self, AdCertError> {
        let certificate =
            owner.certify(service, sequence, window).map_err(|_| AdCertError::Crypto)?;
        Self::new((**owner.metadata()).clone(), certificate)
    }

    /// Puts an owner's metadata and its certificate together.
    ///
    /// # Errors
    /// When the certificate names no server, or is not the owner's.
    pub fn new(metadata: Metadata, certificate: Certificate) -> Result<Self, AdCertError> {
        let Statement::Service { server, .. } = certificate.statement else {
            return Err(AdCertError::NoServer);
        };
        if server == certificate.issuer {
            return Err(AdCertError::NoServer);
        }
        let words = Words::new(metadata, vec![certificate]).map_err(AdCertError::Statement)?;
        Ok(Self { words, server })
    }

    /// Whose name is served.
    pub fn owner(&self) -> Name {
        self.certificate().issuer
    }

    /// Who answers for it.
    pub fn server(&self) -> Name {
        self.server
    }

    /// What the owner's name is the hash of.
    pub fn metadata(&self) -> &Arc<Metadata> {
        self.words.metadata()
    }

    /// What the owner signed.
    pub fn certificate(&self) -> &Certificate {
        &self.words.certificates()[0]
    }

    /// Whether `server` may answer by it at `now_s`, give or take
    /// [`CLOCK_SKEW_S`](crate::CLOCK_SKEW_S).
    ///
    /// # Errors
    /// When it is for another server, or does not hold at that time.
    pub fn check(&self, server: Name, now_s: u64) -> Result<(), AdCertError> {
        if server != self.server {
            let (owner, named) = (self.owner(), self.server);
            return Err(AdCertError::OtherServer { owner, named, actual: server });
        }
        check_window(self.certificate(), now_s).map_err(AdCertError::Statement)
    }

    /// Its one encoding: a list of the owner's metadata, and one of the certificate.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        Metadata::emit_list(std::slice::from_ref(&**self.metadata()), &mut bytes);
        Certificate::emit_list(self.words.certificates(), &mut bytes);
        bytes
    }

    /// Reads what [`AdCert::emit`] gives, and verifies that it is its owner's.
    ///
    /// # Errors
    /// When it is none, or what it says is not signed by whom it says.
    pub fn parse(bytes: &[u8]) -> Result<Self, AdCertError> {
        let (metadata, certificates) =
            Certificate::parse_with_issuers(bytes).map_err(AdCertError::Encoding)?;
        match (<[Metadata; 1]>::try_from(metadata), <[Certificate; 1]>::try_from(certificates)) {
            (Ok([metadata]), Ok([certificate])) => Self::new(metadata, certificate),
            _ => Err(AdCertError::NoServer),
        }
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        self.words.to_text(MAGIC)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// When it is none, or what it says is not signed by whom it says.
    pub fn from_text(text: &str) -> Result<Self, AdCertError> {
        let words = Words::from_text(text, MAGIC, 1).map_err(|fault| match fault {
            Fault::Line(line) => AdCertError::Malformed { line },
            Fault::Statement(error) => AdCertError::Statement(error),
        })?;
        let certificate = words.certificates()[0].clone();
        Self::new((**words.metadata()).clone(), certificate)
    }

    /// Writes a new file, durably.
    ///
    /// # Errors
    /// When the file exists or cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), AdCertError> {
        let io_error = |source| AdCertError::File { path: path.to_owned(), source };
        words::write_new(path, &self.to_text()).map_err(io_error)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, and as [`AdCert::from_text`].
    pub fn load(path: &Path) -> Result<Self, AdCertError> {
        let io_error = |source| AdCertError::File { path: path.to_owned(), source };
        let text = words::read(path, MAX_FILE_LEN).map_err(io_error)?;
        Self::from_text(&text.ok_or(AdCertError::Malformed { line: 1 })?)
    }
}

/// Why an AdCert cannot be had, or does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdCertError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is none, or it is damaged.
    #[error("this {}", damage(*.line))]
    Malformed {
        /// The first line that is wrong or missing, counted from 1.
        line: usize,
    },
    /// What should be its encoding is none.
    #[error("this is no AdCert: {0}")]
    Encoding(#[source] WireError),
    /// The cryptographic library refused to sign.
    #[error("the cryptographic library failed")]
    Crypto,
    /// The certificate says something else than who answers, or that the owner answers for itself.
    #[error("this certificate names no other server than its owner")]
    NoServer,
    /// It lets another server answer.
    #[error("this AdCert of {owner} is for the server {named}, not for {actual}")]
    OtherServer {
        /// Whose name.
        owner: Name,
        /// Who may answer.
        named: Name,
        /// Who wanted to.
        actual: Name,
    },
    /// It does not hold, or is not its owner's.
    #[error("this AdCert does not hold: {0}")]
    Statement(StatementError),
}

fn damage(line: usize) -> String {
    if line == 1 { "is no AdCert".to_owned() } else { format!("AdCert is damaged in line {line}") }
}

const MAGIC: &str = "rhumb-adcert 1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CLOCK_SKEW_S;
    use rhumb_wire::{Role, Scope};

    const SERVER: Name = Name([7; 32]);

    fn owner() -> Identity {
        Identity::generate(Role::Capsule, 3).unwrap()
    }

    fn signed() -> AdCert {
        AdCert::sign(&owner(), SERVER, 5, Window::starting(1000, 600)).unwrap()
    }

    #[test]
    fn a_file_holds_all_of_it_and_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.adcert");
        let ad_cert = signed();
        ad_cert.save(&path).unwrap();
        assert_eq!(AdCert::load(&path).unwrap(), ad_cert);
        assert!(matches!(signed().save(&path), Err(AdCertError::File { .. })));
        std::fs::write(&path, [0xff; 99]).unwrap();
        assert!(matches!(AdCert::load(&path), Err(AdCertError::Malformed { line: 1 })));
    }

    #[test]
    fn every_damaged_line_is_named() {
        let text = signed().to_text();
        let line_of = |text: &str| match AdCert::from_text(text) {
            Err(AdCertError::Malformed { line }) => Some(line),
            _ => None,
        };
        assert_eq!(line_of(&text), None);
        for (number, line) in text.lines().enumerate() {
            assert_eq!(line_of(&text.replace(line, "x")), Some(number + 1));
            let short: String = text.lines().take(number).flat_map(|l| [l, "\n"]).collect();
            assert_eq!(line_of(&short), Some(number + 1));
        }
        assert_eq!(line_of(&format!("{text}more\n")), Some(5));
    }

    #[test]
    fn it_is_for_one_server_and_one_time() {
        let ad_cert = signed();
        assert!(ad_cert.check(SERVER, 1000).is_ok());
        assert!(matches!(
            ad_cert.check(Name([8; 32]), 1000),
            Err(AdCertError::OtherServer { named: SERVER, actual: Name([8, ..]), .. })
        ));
        let early = ad_cert.check(SERVER, 1000 - CLOCK_SKEW_S - 1).unwrap_err();
        assert!(matches!(early, AdCertError::Statement(StatementError::NotYetValid { .. })));
        let late = ad_cert.check(SERVER, 1600 + CLOCK_SKEW_S + 1).unwrap_err();
        assert!(matches!(late, AdCertError::Statement(StatementError::Expired { .. })));
    }

    #[test]
    fn its_encoding_is_one_owner_and_one_certificate() {
        let ad_cert = signed();
        let bytes = ad_cert.emit();
        assert_eq!(AdCert::parse(&bytes).unwrap(), ad_cert);
        for cut in 0..bytes.len() {
            assert!(AdCert::parse(&bytes[..cut]).is_err());
        }
        let mut two = Vec::new();
        Metadata::emit_list(
            &[(**ad_cert.metadata()).clone(), (**owner().metadata()).clone()],
            &mut two,
        );
        Certificate::emit_list(&[ad_cert.certificate().clone()], &mut two);
        assert!(AdCert::parse(&two).is_err());
        for at in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[at] ^= 1;
            assert!(AdCert::parse(&altered).is_err(), "byte {at}");
        }
    }

    #[test]
    fn what_its_owner_did_not_sign_is_none() {
        let (ad_cert, other) = (signed(), owner());
        let metadata = || (**ad_cert.metadata()).clone();
        let mut forged = ad_cert.certificate().clone();
        forged.sequence += 1;
        let bad = |result| matches!(result, Err(AdCertError::Statement(_)));
        assert!(bad(AdCert::new(metadata(), forged)));
        assert!(bad(AdCert::new((**other.metadata()).clone(), ad_cert.certificate().clone())));
        let route = Statement::Route { via: SERVER, scope: Scope::Any };
        let route = other.certify(route, 1, Window::starting(1000, 600)).unwrap();
        let refused = AdCert::new((**other.metadata()).clone(), route);
        assert!(matches!(refused, Err(AdCertError::NoServer)));
    }
}

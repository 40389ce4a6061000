//! Removals: a domain's word that a membership it gave counts no longer, with all that is needed to
//! verify it (GDP paper, section 6.1). In a file it is text, and public:
//!
//! ```text
//! rhumb-removal 1
//! removed <52 characters>
//! removal <hex>
//! ```
//!
//! A removal counts against a membership whose issuers include its own, about the member or any
//! issuer after it, if the certificate about that name has no higher sequence. So whoever is
//! removed takes along whom it admitted, nobody reaches whom he did not admit, and whoever is
//! admitted again later is a member again.
//!
//! INVARIANT: a [`Removal`] is by who may say so, as its certificates go. Whether their signatures
//! are their issuers', and it holds now, is for [`Removal::verify`] to say.

use std::io;
use std::path::{Path, PathBuf};

use rhumb_wire::rib::RemovalLists;
use rhumb_wire::{Certificate, Metadata, Name, Rights, Role, Statement, WireError};

use crate::verify::{Verified, check_signature, check_window, is_ahead, name_of};
use crate::{
    Identity, MAX_DEPTH, Membership, MembershipError, StatementError, Window, lasts_too_long, words,
};

/// An issuer's word that whoever it names is a member no longer, as of its sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// As what its issuer may admit others; none for the domain itself.
    authority: Option<Membership>,
    issuer: Metadata,
    certificate: Certificate,
    removed: Name,
}

impl Removal {
    /// `issuer` removes `removed`: as the domain itself, or by what it was admitted with.
    ///
    /// # Errors
    /// When `issuer` is no domain and has no right to admit, `removed` is itself or one of whom it
    /// was admitted by, or the library cannot sign.
    pub fn sign(
        issuer: &Identity,
        authority: Option<&Membership>,
        removed: Name,
        sequence: u64,
        window: Window,
    ) -> Result<Self, RemovalError> {
        let statement = Statement::Removal { member: removed };
        let certificate =
            issuer.certify(statement, sequence, window).map_err(|_| RemovalError::Crypto)?;
        Self::new(authority.cloned(), (**issuer.metadata()).clone(), certificate)
    }

    /// As it travels.
    ///
    /// # Errors
    /// When these are no removal, with what gives its issuer the right to it.
    pub fn from_lists((mut issuers, mut certificates): RemovalLists) -> Result<Self, RemovalError> {
        let (Some(issuer), Some(certificate)) = (issuers.pop(), certificates.pop()) else {
            return Err(RemovalError::NoAuthority);
        };
        let authority = match (issuers.is_empty(), certificates.is_empty()) {
            (true, true) => None,
            _ => {
                let given = Membership::from_lists(issuers, certificates);
                Some(given.map_err(RemovalError::Authority)?)
            }
        };
        Self::new(authority, issuer, certificate)
    }

    /// The lists that [`Removal::from_lists`] takes.
    pub fn lists(&self) -> RemovalLists {
        let (issuers, certificates) = match &self.authority {
            Some(authority) => (authority.issuers(), authority.certificates()),
            None => (&[][..], &[][..]),
        };
        let issuers = issuers.iter().chain([&self.issuer]).cloned().collect();
        (issuers, certificates.iter().chain([&self.certificate]).cloned().collect())
    }

    /// Parses what [`Removal::emit`] gives.
    ///
    /// # Errors
    /// When `bytes` are no removal.
    pub fn parse(bytes: &[u8]) -> Result<Self, RemovalError> {
        let lists = Certificate::parse_with_issuers(bytes).map_err(RemovalError::Encoding)?;
        Self::from_lists(lists)
    }

    /// Its one encoding: a metadata list and a certificate list.
    pub fn emit(&self) -> Vec<u8> {
        let (issuers, certificates) = self.lists();
        let mut bytes = Vec::new();
        Metadata::emit_list(&issuers, &mut bytes);
        Certificate::emit_list(&certificates, &mut bytes);
        bytes
    }

    fn new(
        authority: Option<Membership>,
        issuer: Metadata,
        certificate: Certificate,
    ) -> Result<Self, RemovalError> {
        let Statement::Removal { member: removed } = certificate.statement else {
            return Err(RemovalError::NotOne);
        };
        let name = name_of(&issuer);
        let may = match &authority {
            Some(authority) => {
                authority.certificates().len() < MAX_DEPTH
                    && authority.member() == name
                    && authority.rights().hold(Rights::ADMIT)
            }
            None => issuer.role == Role::Domain,
        };
        if !may || certificate.issuer != name {
            return Err(RemovalError::NoAuthority);
        }
        let above = authority.iter().flat_map(Membership::certificates).map(|it| it.issuer);
        if above.chain([name]).any(|above| above == removed) {
            return Err(RemovalError::NotBelow);
        }
        if lasts_too_long(&certificate, Some(issuer.role)) {
            return Err(RemovalError::TooLong);
        }
        Ok(Self { authority, issuer, certificate, removed })
    }

    /// Who says so.
    pub fn issuer(&self) -> Name {
        self.certificate.issuer
    }

    /// Who is a member no longer.
    pub fn removed(&self) -> Name {
        self.removed
    }

    /// What the issuer signed.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// As what its issuer may admit others; none for the domain itself.
    pub fn authority(&self) -> Option<&Membership> {
        self.authority.as_ref()
    }

    /// Whether it is by this domain, or by whom that admitted to admit others.
    pub fn is_of(&self, domain: &Name) -> bool {
        self.issuer() == *domain || self.authority.as_ref().is_some_and(|it| it.is_of(domain))
    }

    /// How many signatures [`Removal::verify`] looks at.
    pub fn signatures(&self) -> usize {
        self.authority.as_ref().map_or(0, |it| it.certificates().len()) + 1
    }

    /// Believes it, or says why not. That whoever issued it may admit nobody any more by now does
    /// not make it void: what it said is about whom it admitted.
    ///
    /// # Errors
    /// When it does not hold at `now_s`, give or take [`CLOCK_SKEW_S`](crate::CLOCK_SKEW_S), is of
    /// a sequence that is ahead of that, so that nobody could be admitted again, or a signature is
    /// not its issuer's.
    pub fn verify(self, now_s: u64) -> Result<Verified<Self>, RemovalError> {
        check_window(&self.certificate, now_s).map_err(RemovalError::Statement)?;
        if is_ahead(self.certificate.sequence, now_s) {
            return Err(RemovalError::Ahead);
        }
        self.recall()
    }

    /// Believes again what was verified when it was kept: it is looked at whether it is what was
    /// signed, and not at what time it is, since a clock that is wrong now must let nobody in.
    ///
    /// # Errors
    /// When a signature is not its issuer's.
    pub fn recall(self) -> Result<Verified<Self>, RemovalError> {
        check_signature(&self.certificate, &self.issuer.key).map_err(RemovalError::Statement)?;
        match self.authority.as_ref().is_none_or(Membership::is_signed) {
            true => Ok(Verified::vouch(self)),
            false => Err(RemovalError::Statement(StatementError::BadSignature)),
        }
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        words::about_to_text(MAGIC, LABELS, self.removed, &self.emit())
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// When it is none.
    pub fn from_text(text: &str) -> Result<Self, RemovalError> {
        let malformed = |line| RemovalError::Malformed { line };
        let (removed, bytes) = words::about_from_text(text, MAGIC, LABELS).map_err(malformed)?;
        let removal = Self::parse(&bytes)?;
        match removed.parse() == Ok(removal.removed) {
            true => Ok(removal),
            false => Err(malformed(2)),
        }
    }

    /// Writes a new file, durably.
    ///
    /// # Errors
    /// When the file exists or cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), RemovalError> {
        let io_error = |source| RemovalError::File { path: path.to_owned(), source };
        words::write_new(path, &self.to_text()).map_err(io_error)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, and as [`Removal::from_text`].
    pub fn load(path: &Path) -> Result<Self, RemovalError> {
        let io_error = |source| RemovalError::File { path: path.to_owned(), source };
        let text = words::read(path, MAX_FILE_LEN).map_err(io_error)?;
        Self::from_text(&text.ok_or(RemovalError::Malformed { line: 1 })?)
    }

    /// Whether it counts against a membership.
    pub fn counts_against(&self, membership: &Membership) -> bool {
        let below = membership.certificates().iter().skip_while(|it| it.issuer != self.issuer());
        let said = &self.certificate;
        below.into_iter().any(|it| {
            it.sequence <= said.sequence
                && matches!(it.statement, Statement::Member { member, .. } if member == self.removed)
        })
    }
}

/// Why a removal cannot be had, or is not believed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemovalError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is none, or it is damaged.
    #[error("line {line} is not that of a removal file")]
    Malformed {
        /// The first line that is wrong or missing, counted from 1.
        line: usize,
    },
    /// Its bytes are not lists of metadata and of certificates.
    #[error("the removal is damaged: {0}")]
    Encoding(WireError),
    /// The cryptographic library refused to sign.
    #[error("the cryptographic library failed")]
    Crypto,
    /// The last certificate removes nobody.
    #[error("the last certificate is no removal")]
    NotOne,
    /// What is to give the issuer its right does not.
    #[error("as what its issuer may admit: {0}")]
    Authority(MembershipError),
    /// The issuer is no domain, and nobody with the right to admit.
    #[error("only a domain removes, or whom it admitted to admit others")]
    NoAuthority,
    /// The issuer removes itself, or one of those by whom it was admitted.
    #[error("only whom its issuer could admit can be removed")]
    NotBelow,
    /// It lasts for more than a year and a day.
    #[error("a removal lasts 366 days at most")]
    TooLong,
    /// Its sequence is one that nobody could be admitted again after.
    #[error("its sequence is ahead of the time")]
    Ahead,
    /// It does not hold, or is not the issuer's.
    #[error(transparent)]
    Statement(StatementError),
}

const MAGIC: &str = "rhumb-removal 1";
const LABELS: [&str; 2] = ["removed", "removal"];
/// Far more than the longest, which has four issuers with all attributes that there may be.
const MAX_FILE_LEN: u64 = 64 * 1024;

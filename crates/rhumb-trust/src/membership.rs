//! Memberships: a trust domain's word that a name belongs to it, and what it may do there, with
//! all that is needed to verify it (GDP paper, section 6.1). Whoever has one shows it in his
//! handshakes. In a file it is text, and public:
//!
//! ```text
//! rhumb-membership 1
//! member <52 characters>
//! membership <hex>
//! ```
//!
//! The word may be handed down: the domain admits a working key, with the right to admit, and that
//! admits the member. Each gives no more than it has: of rights, of names, of rate, and of whom
//! to send to.
//!
//! INVARIANT: a [`Membership`] has the structure of one. Whether its signatures are its issuers',
//! it holds now, and for whom, is for [`Membership::check`] to say.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rhumb_wire::{Certificate, Limit, Limits, Metadata, Name, Rights, Role, Statement, WireError};

use crate::verify::{CLOCK_SKEW_S, check_signature, check_window, is_ahead, name_of};
use crate::{Identity, StatementError, Window, lasts_too_long, words};

/// Certificates that lead from a domain to a member, with their issuers' metadata.
#[derive(Debug, Clone)]
pub struct Membership {
    /// The domain's, then those of whom it admitted to admit others.
    issuers: Vec<Metadata>,
    /// One by each issuer, about the next, and the last one about the member.
    certificates: Vec<Certificate>,
    member: Name,
    rights: Rights,
    limits: Limits,
    /// Whether the signatures are the issuers': found out once.
    is_signed: OnceLock<bool>,
}

impl PartialEq for Membership {
    fn eq(&self, other: &Self) -> bool {
        (&self.issuers, &self.certificates) == (&other.issuers, &other.certificates)
    }
}

impl Eq for Membership {}

impl Membership {
    /// `issuer` admits `member`, within its own limits: as the domain itself, or by what it was
    /// admitted with.
    ///
    /// # Errors
    /// When `issuer` is no domain and has no right to admit, gives a right that it has not, or the
    /// library cannot sign.
    pub fn sign(
        issuer: &Identity,
        admitted_by: Option<&Self>,
        member: Name,
        rights: Rights,
        sequence: u64,
        window: Window,
    ) -> Result<Self, MembershipError> {
        let limits = admitted_by.map_or(Limits::NONE, Self::limits);
        Self::sign_within(limits, (issuer, admitted_by), member, rights, sequence, window)
    }

    /// As [`Membership::sign`], within narrower limits than the issuer's own.
    ///
    /// # Errors
    /// As [`Membership::sign`], and when these limits are wider than the issuer's.
    pub fn sign_within(
        limits: Limits,
        (issuer, admitted_by): (&Identity, Option<&Self>),
        member: Name,
        rights: Rights,
        sequence: u64,
        window: Window,
    ) -> Result<Self, MembershipError> {
        let statement = Statement::Member { member, rights, limits };
        let certificate =
            issuer.certify(statement, sequence, window).map_err(|_| MembershipError::Crypto)?;
        let (mut issuers, mut certificates) = match admitted_by {
            Some(own) if own.member != issuer.name() => {
                let (named, actual) = (own.member, issuer.name());
                return Err(MembershipError::OtherMember { named, actual });
            }
            Some(own) => (own.issuers.clone(), own.certificates.clone()),
            None => (Vec::new(), Vec::new()),
        };
        issuers.push((**issuer.metadata()).clone());
        certificates.push(certificate);
        Self::from_lists(issuers, certificates)
    }

    /// Of these certificates, with the metadata of their issuers.
    ///
    /// # Errors
    /// When they lead from no domain to a member, or one gives more than it has.
    pub fn from_lists(
        issuers: Vec<Metadata>,
        certificates: Vec<Certificate>,
    ) -> Result<Self, MembershipError> {
        let (member, rights, limits) = check_structure(&issuers, &certificates)?;
        Ok(Self { issuers, certificates, member, rights, limits, is_signed: OnceLock::new() })
    }

    /// Parses what [`Membership::emit`] gives.
    ///
    /// # Errors
    /// When `bytes` are no membership.
    pub fn parse(bytes: &[u8]) -> Result<Self, MembershipError> {
        let (issuers, certificates) =
            Certificate::parse_with_issuers(bytes).map_err(MembershipError::Encoding)?;
        Self::from_lists(issuers, certificates)
    }

    /// Its one encoding: a metadata list and a certificate list.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        Metadata::emit_list(&self.issuers, &mut bytes);
        Certificate::emit_list(&self.certificates, &mut bytes);
        bytes
    }

    /// The domain.
    pub fn domain(&self) -> Name {
        self.certificates[0].issuer
    }

    /// Whether this domain is the one that it is of, or one that that admitted, by which the member
    /// belongs to both.
    pub fn is_of(&self, domain: &Name) -> bool {
        let of_role = self.issuers.iter().map(|issuer| issuer.role == Role::Domain);
        let mut issuers = self.certificates.iter().map(|it| it.issuer).zip(of_role);
        issuers.any(|(issuer, is_domain)| is_domain && issuer == *domain)
    }

    /// That of somebody whom the domain's word was handed down to before it came to the member, or
    /// of the member; none of whom it was not handed to.
    pub fn of_admitter(&self, name: &Name) -> Option<Self> {
        let len = self.shares().position(|(share, _)| share == *name)? + 1;
        Self::from_lists(self.issuers[..len].to_vec(), self.certificates[..len].to_vec()).ok()
    }

    /// Who belongs to it.
    pub fn member(&self) -> Name {
        self.member
    }

    /// What the member may do.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// How much of it: no limit that any of its issuers has is wider.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Each to whom the domain's word was handed down, the member last, and how much each may have
    /// together with all whom it admitted.
    pub fn shares(&self) -> impl Iterator<Item = (Name, Limits)> {
        self.certificates.iter().filter_map(|certificate| match certificate.statement {
            Statement::Member { member, limits, .. } => Some((member, limits)),
            _ => None,
        })
    }

    /// The domain nearest to the member: the last issuer that is one. Inside of which its limits
    /// leave it, if they do.
    pub fn nearest_domain(&self) -> Name {
        let mut issuers = self.certificates.iter().zip(&self.issuers).rev();
        let nearest = issuers.find(|(_, issuer)| issuer.role == Role::Domain);
        nearest.map_or(self.domain(), |(certificate, _)| certificate.issuer)
    }

    /// Whether its limits leave it to send to `name`, which shows `of_it` of a domain.
    pub fn lets_send_to(&self, name: &Name, of_it: Option<&Self>) -> bool {
        let Limits { inside_only, only_to, .. } = self.limits;
        let is_inside = || of_it.is_some_and(|it| it.is_of(&self.nearest_domain()));
        only_to.is_none_or(|only| only == *name) && (!inside_only || is_inside())
    }

    /// Metadata of each certificate's issuer.
    pub fn issuers(&self) -> &[Metadata] {
        &self.issuers
    }

    /// The certificates, from the domain's to the one about the member.
    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }

    /// The last second in which all of it holds.
    pub fn not_after_s(&self) -> u64 {
        self.certificates.iter().map(|it| it.not_after_s).min().unwrap_or(0)
    }

    /// Whether some of it holds no more, give or take [`CLOCK_SKEW_S`].
    pub fn has_ended(&self, now_s: u64) -> bool {
        self.not_after_s().saturating_add(CLOCK_SKEW_S) < now_s
    }

    /// Whether `name` is its member at `now_s`, give or take
    /// [`CLOCK_SKEW_S`], by the word of its domain. Signatures are verified the
    /// first time.
    ///
    /// # Errors
    /// When it is about another name, does not hold at that time, or a signature is not its
    /// issuer's.
    pub fn check(&self, name: &Name, now_s: u64) -> Result<(), MembershipError> {
        if *name != self.member {
            return Err(MembershipError::OtherMember { named: self.member, actual: *name });
        }
        for certificate in &self.certificates {
            check_window(certificate, now_s).map_err(MembershipError::Statement)?;
        }
        // A removal could not reach it: removals are of no later sequence than their time.
        if let Some(at) = self.certificates.iter().position(|it| is_ahead(it.sequence, now_s)) {
            return Err(MembershipError::Ahead { at });
        }
        match self.is_signed() {
            true => Ok(()),
            false => Err(MembershipError::Statement(StatementError::BadSignature)),
        }
    }

    /// Whether each certificate is signed by its issuer: found out the first time, which costs as
    /// many signatures, and known from then on.
    pub fn is_signed(&self) -> bool {
        *self.is_signed.get_or_init(|| {
            let mut signed = self.certificates.iter().zip(&self.issuers);
            signed.all(|(certificate, issuer)| check_signature(certificate, &issuer.key).is_ok())
        })
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        words::about_to_text(MAGIC, LABELS, self.member, &self.emit())
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// When it is none, or a signature is not its issuer's.
    pub fn from_text(text: &str) -> Result<Self, MembershipError> {
        let malformed = |line| MembershipError::Malformed { line };
        let (member, bytes) = words::about_from_text(text, MAGIC, LABELS).map_err(malformed)?;
        let membership = Self::parse(&bytes)?;
        if member.parse() != Ok(membership.member) {
            return Err(malformed(2));
        }
        match membership.is_signed() {
            true => Ok(membership),
            false => Err(MembershipError::Statement(StatementError::BadSignature)),
        }
    }

    /// Writes a new file, durably.
    ///
    /// # Errors
    /// When the file exists or cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), MembershipError> {
        let io_error = |source| MembershipError::File { path: path.to_owned(), source };
        words::write_new(path, &self.to_text()).map_err(io_error)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, and as [`Membership::from_text`].
    pub fn load(path: &Path) -> Result<Self, MembershipError> {
        let io_error = |source| MembershipError::File { path: path.to_owned(), source };
        let text = words::read(path, MAX_FILE_LEN).map_err(io_error)?;
        Self::from_text(&text.ok_or(MembershipError::Malformed { line: 1 })?)
    }
}

/// From a domain, step by step, to the member, each giving no more than it has: whom the last
/// certificate is about, and what it gives.
fn check_structure(
    issuers: &[Metadata],
    certificates: &[Certificate],
) -> Result<(Name, Rights, Limits), MembershipError> {
    if certificates.is_empty()
        || certificates.len() > MAX_DEPTH
        || issuers.len() != certificates.len()
    {
        return Err(MembershipError::Depth { len: certificates.len() });
    }
    if issuers[0].role != Role::Domain {
        return Err(MembershipError::NoDomain);
    }
    let mut seen = vec![name_of(&issuers[0])];
    let mut given = None;
    for (at, (certificate, issuer)) in certificates.iter().zip(issuers).enumerate() {
        let Statement::Member { member, rights, limits } = certificate.statement else {
            return Err(MembershipError::Broken { at });
        };
        let is_next =
            seen.last() == Some(&certificate.issuer) && name_of(issuer) == certificate.issuer;
        if !is_next || seen.contains(&member) {
            return Err(MembershipError::Broken { at });
        }
        if let Some((own, within)) = given {
            let own: Rights = own;
            if !own.hold(Rights::ADMIT) || !own.hold(rights) {
                return Err(MembershipError::TooMuch { at });
            }
            if let Some(limit) = limits.wider_than(&within) {
                return Err(MembershipError::Wider { at, limit });
            }
        }
        if lasts_too_long(certificate, Some(issuer.role)) {
            return Err(MembershipError::TooLong { at });
        }
        seen.push(member);
        given = Some((rights, limits));
    }
    let member = seen[certificates.len()];
    let given = given.map(|(rights, limits)| (member, rights, limits));
    given.ok_or(MembershipError::Depth { len: 0 })
}

/// Why a membership cannot be had, or does not serve. `at` counts certificates from the domain's,
/// from 0.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is none, or it is damaged.
    #[error("line {line} is not that of a membership file")]
    Malformed {
        /// The first line that is wrong or missing, counted from 1.
        line: usize,
    },
    /// Its bytes are not lists of metadata and of certificates.
    #[error("the membership is damaged: {0}")]
    Encoding(WireError),
    /// The cryptographic library refused to sign.
    #[error("the cryptographic library failed")]
    Crypto,
    /// It has no certificate, more than may hand a domain's word down, or lacks a key.
    #[error("a membership has 1 to {MAX_DEPTH} certificates and the metadata of each issuer")]
    Depth {
        /// How many certificates there are.
        len: usize,
    },
    /// The first issuer is no trust domain.
    #[error("the first issuer is no domain: its key was made for another role")]
    NoDomain,
    /// A certificate is about something else, is not by whom the one before is about, or leads
    /// back.
    #[error("certificate {} does not follow from the one before", .at + 1)]
    Broken {
        /// Which one.
        at: usize,
    },
    /// A certificate gives a right that its issuer has not, or its issuer may not admit anybody.
    #[error("certificate {} gives more than its issuer may", .at + 1)]
    TooMuch {
        /// Which one.
        at: usize,
    },
    /// A certificate leaves more of something than its issuer has.
    #[error("certificate {} leaves more {limit} than its issuer has", .at + 1)]
    Wider {
        /// Which one.
        at: usize,
        /// Of what.
        limit: Limit,
    },
    /// A certificate lasts for more than a year and a day.
    #[error("certificate {} lasts longer than 366 days", .at + 1)]
    TooLong {
        /// Which one.
        at: usize,
    },
    /// The sequence of a certificate is ahead of the time: no removal would count against it.
    #[error("certificate {} is of a sequence that is ahead of the time", .at + 1)]
    Ahead {
        /// Which one.
        at: usize,
    },
    /// It is about another name.
    #[error("this membership is that of {named}, not of {actual}")]
    OtherMember {
        /// Whom it is about.
        named: Name,
        /// Whom it was shown for.
        actual: Name,
    },
    /// A certificate does not hold or is not the issuer's.
    #[error(transparent)]
    Statement(StatementError),
}

/// The most certificates between a domain and its member, the last one included: a domain, its
/// working key, a site, a department. Each costs a signature for whoever verifies it.
pub const MAX_DEPTH: usize = 4;

const MAGIC: &str = "rhumb-membership 1";
const LABELS: [&str; 2] = ["member", "membership"];
/// Far more than the longest, which has four issuers with all attributes that there may be.
const MAX_FILE_LEN: u64 = 64 * 1024;

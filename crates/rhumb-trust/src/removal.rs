//! Removals: a domain's word that a membership it gave counts no longer, with all that is needed to
//! verify it, and the register of those that somebody has heard of (GDP paper, section 6.1).
//!
//! A removal counts against a membership whose issuers include its own, about the member or any
//! issuer after it, if the certificate about that name has no higher sequence. So whoever is
//! removed takes along whom it admitted, nobody reaches whom he did not admit, and whoever is
//! admitted again later is a member again.
//!
//! INVARIANT: in a [`Removals`] is nothing that was not verified, and no more than its bounds.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rhumb_wire::rib::RemovalLists;
use rhumb_wire::{Certificate, Metadata, Name, Rights, Role, Statement, WireError};

use crate::verify::{CLOCK_SKEW_S, Verified, check_signature, check_window, is_ahead, name_of};
use crate::{
    Identity, MAX_DEPTH, Membership, MembershipError, StatementError, Window, lasts_too_long,
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
    /// When it does not hold at `now_s`, give or take [`CLOCK_SKEW_S`], is of a sequence that is
    /// ahead of that, so that nobody could be admitted again, or a signature is not its issuer's.
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

/// The removals that somebody has heard of. Clones are the same register: whoever judges by one
/// judges by what is noted in any.
#[derive(Clone, Default)]
pub struct Removals(Arc<RwLock<Register>>);

#[derive(Default)]
struct Register {
    /// By issuer and by whom it removed.
    heard: HashMap<(Name, Name), Arc<Verified<Removal>>>,
    /// How many there are by each that was admitted to admit others, and by all of these.
    by_admitters: HashMap<Name, usize>,
    of_admitters: usize,
    revision: u64,
}

/// What became of a removal that was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// It counts from now on.
    New,
    /// It or a newer one counted already.
    Known,
    /// There is no room for another one of its issuer.
    Full,
}

impl Removals {
    /// Has a removal count.
    pub fn note(&self, removal: Verified<Removal>) -> Noted {
        self.write().note(removal)
    }

    /// What would become of a removal.
    pub fn would(&self, removal: &Removal) -> Noted {
        self.read().would(removal)
    }

    /// By whom the membership of somebody was taken back, if it was.
    pub fn against(&self, membership: &Membership) -> Option<Name> {
        let register = self.read();
        if register.heard.is_empty() {
            return None;
        }
        let certificates = membership.certificates();
        let by = |(at, issuer): (usize, Name)| {
            let about = certificates[at..].iter().filter_map(|it| match it.statement {
                Statement::Member { member, .. } => Some(member),
                _ => None,
            });
            let mut said = about.filter_map(|member| register.heard.get(&(issuer, member)));
            said.any(|removal| removal.counts_against(membership)).then_some(issuer)
        };
        certificates.iter().map(|it| it.issuer).enumerate().find_map(by)
    }

    /// The removal of this name by this issuer.
    pub fn find(&self, issuer: Name, removed: Name) -> Option<Arc<Verified<Removal>>> {
        self.read().heard.get(&(issuer, removed)).cloned()
    }

    /// All that count.
    pub fn all(&self) -> Vec<Arc<Verified<Removal>>> {
        self.read().heard.values().cloned().collect()
    }

    /// How many count.
    pub fn len(&self) -> usize {
        self.read().heard.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Another number whenever there are others.
    pub fn revision(&self) -> u64 {
        self.read().revision
    }

    /// Forgets those that have ended: with them has ended whatever they could count against. Looks
    /// at all there are.
    pub fn sweep(&self, now_s: u64) -> Vec<Arc<Verified<Removal>>> {
        let has_ended = |removal: &Removal| {
            removal.certificate.not_after_s.saturating_add(CLOCK_SKEW_S) < now_s
        };
        if !self.read().heard.values().any(|it| has_ended(it)) {
            return Vec::new();
        }
        let mut register = self.write();
        let ended = register.heard.values().filter(|it| has_ended(it));
        let ended: Vec<_> = ended.cloned().collect();
        ended.iter().for_each(|removal| register.forget(removal));
        ended
    }

    fn read(&self) -> RwLockReadGuard<'_, Register> {
        // Whoever panicked while writing left a whole removal or none.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Register> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Register {
    fn would(&self, removal: &Removal) -> Noted {
        match self.heard.get(&(removal.issuer(), removal.removed)) {
            Some(known) if known.certificate.sequence >= removal.certificate.sequence => {
                return Noted::Known;
            }
            Some(_) => return Noted::New,
            None => {}
        }
        let own = self.by_admitters.get(&removal.issuer()).copied().unwrap_or(0);
        let is_full = match &removal.authority {
            Some(_) => own >= MAX_OF_AN_ADMITTER || self.of_admitters >= MAX_REMOVALS / 2,
            None => self.heard.len() - self.of_admitters >= MAX_REMOVALS / 2,
        };
        if is_full { Noted::Full } else { Noted::New }
    }

    fn note(&mut self, removal: Verified<Removal>) -> Noted {
        let noted = self.would(&removal);
        if noted == Noted::New {
            let key = (removal.issuer(), removal.removed);
            if let Some(before) = self.heard.get(&key).cloned() {
                self.forget(&before);
            }
            if removal.authority.is_some() {
                *self.by_admitters.entry(key.0).or_default() += 1;
                self.of_admitters += 1;
            }
            self.heard.insert(key, Arc::new(removal));
            self.revision += 1;
        }
        noted
    }

    fn forget(&mut self, removal: &Removal) {
        let issuer = removal.issuer();
        self.heard.remove(&(issuer, removal.removed));
        self.revision += 1;
        if removal.authority.is_none() {
            return;
        }
        self.of_admitters -= 1;
        if let Some(own) = self.by_admitters.get_mut(&issuer) {
            *own -= 1;
            if *own == 0 {
                self.by_admitters.remove(&issuer);
            }
        }
    }
}

impl fmt::Debug for Removals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Removals({})", self.len())
    }
}

/// The same register, or two in which nothing is.
impl PartialEq for Removals {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.is_empty() && other.is_empty())
    }
}

impl Eq for Removals {}

/// Why a removal cannot be had, or is not believed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemovalError {
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

/// About 60 MB when full, half of which is for domains' own: a router that judges members of a
/// domain of a million has room for one in thirty.
const MAX_REMOVALS: usize = 1 << 16;
/// What one that was admitted to admit others may fill: eight can fill what is for all of them.
const MAX_OF_AN_ADMITTER: usize = 1 << 12;

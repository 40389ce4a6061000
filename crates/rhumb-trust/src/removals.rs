//! The register of removals that somebody has heard of, by which he judges memberships.
//!
//! INVARIANT: in it is nothing that was not verified, and no more than its bounds: no one who was
//! admitted to admit others keeps another from removing somebody, nor all of them their domain.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rhumb_wire::{Name, Statement};

use crate::{CLOCK_SKEW_S, Membership, Removal, Verified};

/// The removals that somebody has heard of. Clones are the same register: whoever judges by one
/// judges by what is noted in any.
#[derive(Clone)]
pub struct Removals(Arc<RwLock<Register>>);

struct Register {
    /// The most there are, half of them domains' own.
    most: usize,
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

impl Default for Removals {
    fn default() -> Self {
        Self::of_at_most(MAX_REMOVALS)
    }
}

impl Removals {
    /// A register with room for so many, half of them for domains' own; of the others one that was
    /// admitted to admit others may fill an eighth.
    pub fn of_at_most(most: usize) -> Self {
        let (heard, by_admitters) = (HashMap::new(), HashMap::new());
        let register = Register { most, heard, by_admitters, of_admitters: 0, revision: 0 };
        Self(Arc::new(RwLock::new(register)))
    }

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
            removal.certificate().not_after_s.saturating_add(CLOCK_SKEW_S) < now_s
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
        match self.heard.get(&(removal.issuer(), removal.removed())) {
            Some(known) if known.certificate().sequence >= removal.certificate().sequence => {
                return Noted::Known;
            }
            Some(_) => return Noted::New,
            None => {}
        }
        let half = self.most / 2;
        let own = self.by_admitters.get(&removal.issuer()).copied().unwrap_or(0);
        let is_full = match removal.authority() {
            Some(_) => own >= half / PART_OF_AN_ADMITTER || self.of_admitters >= half,
            None => self.heard.len() - self.of_admitters >= half,
        };
        if is_full { Noted::Full } else { Noted::New }
    }

    fn note(&mut self, removal: Verified<Removal>) -> Noted {
        let noted = self.would(&removal);
        if noted == Noted::New {
            let key = (removal.issuer(), removal.removed());
            if let Some(before) = self.heard.get(&key).cloned() {
                self.forget(&before);
            }
            if removal.authority().is_some() {
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
        self.heard.remove(&(issuer, removal.removed()));
        self.revision += 1;
        if removal.authority().is_none() {
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

/// About 60 MB when full, half of which is for domains' own: a router that judges members of a
/// domain of a million has room for one in thirty.
const MAX_REMOVALS: usize = 1 << 16;
/// Of what is for all that were admitted to admit others, one may fill an eighth.
const PART_OF_AN_ADMITTER: usize = 8;

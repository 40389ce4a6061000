//! Orders to publish: verified, then staged, then committed together.
//!
//! 1. Shape, windows, lifetimes, known keys, sequences, quotas: all cheap, so they come first.
//! 2. Signatures, within the asker's allowance; not again for the very statements that are stored already.
//! 3. The order joins those staged before it, and sees what they change.
//! 4. The commit writes all staged orders in one transaction; only then are they acknowledged.
//!
//! INVARIANT: an order is taken whole or not at all; nothing unverified is ever staged.

use std::collections::{BTreeMap, HashMap};

use rhumb_trust::{
    ChainError, StatementError, check_window, name_of, verify_chain, verify_statement,
};
use rhumb_wire::rib::{Refusal, RequestId, RibResponse, RibResponseBody};
use rhumb_wire::{Certificate, Metadata, Name, Statement};

use crate::entry::{Admission, MAX_LIFETIME_S};
use crate::rib::{Asker, Rib};
use crate::store::Store;
use crate::{Entry, RibError};

/// Verified orders that wait for the commit.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    /// In name order, which is the store's.
    entries: BTreeMap<Name, Entry>,
    orders: Vec<RequestId>,
    statements: u64,
    created: u64,
    /// How many more names each publisher will hold.
    gained: HashMap<Name, i64>,
}

impl Staged {
    pub(crate) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }
}

/// An entry that an order changes.
struct Draft {
    name: Name,
    entry: Entry,
    /// Who held it; `None` when it is new.
    holder: Option<Name>,
}

impl<S: Store> Rib<S> {
    /// Verifies and stages an order; returns why not, otherwise.
    pub(crate) fn stage(
        &mut self,
        asker: &Asker,
        id: RequestId,
        metadata: Vec<Metadata>,
        certificates: Vec<Certificate>,
        now_s: u64,
    ) -> Result<(), Refusal> {
        check_shape(&certificates)?;
        for certificate in &certificates {
            check_time(certificate, now_s)?;
        }
        let sent: HashMap<Name, Metadata> =
            metadata.into_iter().map(|metadata| (name_of(&metadata), metadata)).collect();
        let mut issuers = Vec::with_capacity(certificates.len());
        let mut drafts = Vec::new();
        for certificate in &certificates {
            let name = certificate.issuer;
            let (mut entry, holder) = self.draft_of(name, asker.name, &sent)?;
            issuers.push(entry.metadata.clone());
            if entry.admit(certificate, asker.name, now_s)? == Admission::Stored {
                drafts.push(Draft { name, entry, holder });
            }
        }
        if !drafts.is_empty() {
            self.check_quota(asker.name, &drafts)?;
            self.check_signatures(asker, certificates, &issuers, now_s)?;
        }
        self.take(asker.name, id, drafts);
        Ok(())
    }

    /// Makes all staged orders durable, in one transaction, and returns the answers to them in the order of their staging.
    /// Work is bounded by what was staged: call it once per batch of requests.
    pub fn commit(&mut self) -> Vec<RibResponse> {
        let staged = std::mem::take(&mut self.staged);
        let written = self.write(staged.entries);
        let body = match written {
            Ok(()) => {
                self.counters.publishes_stored += staged.orders.len() as u64;
                self.counters.statements_stored += staged.statements;
                RibResponseBody::Stored
            }
            Err(refusal) => {
                for _ in &staged.orders {
                    self.counters.count_refusal(refusal);
                }
                RibResponseBody::Refused(refusal)
            }
        };
        staged.orders.into_iter().map(|id| RibResponse { id, body: body.clone() }).collect()
    }

    fn write(&mut self, entries: BTreeMap<Name, Entry>) -> Result<(), Refusal> {
        if entries.is_empty() {
            return Ok(());
        }
        let changes = entries.into_iter().map(|(name, entry)| (name, Some(entry))).collect();
        self.store.commit(changes).map_err(|error| self.store_failed(error))?;
        self.counters.commits += 1;
        Ok(())
    }

    /// The entry of `name` as it will be after the orders staged so far, and who holds it.
    fn draft_of(
        &mut self,
        name: Name,
        publisher: Name,
        sent: &HashMap<Name, Metadata>,
    ) -> Result<(Entry, Option<Name>), Refusal> {
        if let Some(entry) = self.staged.entries.get(&name) {
            return Ok((entry.clone(), Some(entry.publisher())));
        }
        if let Some(entry) = self.store.entry(&name).map_err(|error| self.store_failed(error))? {
            return Ok(((*entry).clone(), Some(entry.publisher())));
        }
        let metadata = sent.get(&name).ok_or(Refusal::UnknownIssuer)?;
        Ok((Entry::new(metadata.clone(), publisher), None))
    }

    fn check_quota(&mut self, publisher: Name, drafts: &[Draft]) -> Result<(), Refusal> {
        let created = drafts.iter().filter(|draft| draft.holder.is_none()).count() as u64;
        if created > 0 {
            let names = self.store.store().names().map_err(|error| self.store_failed(error))?;
            if names + self.staged.created + created > self.config.max_names {
                return Err(Refusal::QuotaExceeded);
            }
        }
        let gained = drafts.iter().filter(|draft| draft.holder != Some(publisher)).count() as u64;
        if gained > 0 {
            let held =
                self.store.store().held_by(&publisher).map_err(|error| self.store_failed(error))?;
            let staged = self.staged.gained.get(&publisher).copied().unwrap_or(0);
            let held = held.saturating_add_signed(staged) + gained;
            if held > self.config.max_names_per_publisher {
                return Err(Refusal::QuotaExceeded);
            }
        }
        Ok(())
    }

    fn check_signatures(
        &mut self,
        asker: &Asker,
        certificates: Vec<Certificate>,
        issuers: &[Metadata],
        now_s: u64,
    ) -> Result<(), Refusal> {
        if !self.may_cause(asker.name, certificates.len() as u32, now_s) {
            return Err(Refusal::QuotaExceeded);
        }
        if let ([certificate], [issuer]) = (&certificates[..], issuers) {
            return verify_statement(certificate, issuer, now_s).map(|_| ()).map_err(refusal_of);
        }
        let origin = certificates[0].issuer;
        let keys: HashMap<Name, _> =
            certificates.iter().zip(issuers).map(|(c, issuer)| (c.issuer, issuer.key)).collect();
        let verified = verify_chain(origin, certificates, |name| keys.get(name).copied(), now_s);
        verified.map(|_| ()).map_err(|error| match error {
            ChainError::Statement { error, .. } => refusal_of(error),
            ChainError::UnknownIssuer { .. } => Refusal::UnknownIssuer,
            _ => Refusal::Malformed,
        })
    }

    fn take(&mut self, publisher: Name, id: RequestId, drafts: Vec<Draft>) {
        let staged = &mut self.staged;
        staged.orders.push(id);
        staged.statements += drafts.len() as u64;
        for Draft { name, entry, holder } in drafts {
            match holder {
                Some(holder) => *staged.gained.entry(holder).or_default() -= 1,
                None => staged.created += 1,
            }
            *staged.gained.entry(publisher).or_default() += 1;
            staged.entries.insert(name, entry);
        }
    }

    pub(crate) fn store_failed(&mut self, error: RibError) -> Refusal {
        self.counters.store_failures += 1;
        self.last_error = Some(error);
        Refusal::StoreFailed
    }
}

/// One statement that can be published, or several that form a chain.
fn check_shape(certificates: &[Certificate]) -> Result<(), Refusal> {
    if certificates.iter().any(|c| matches!(c.statement, Statement::Absence { .. })) {
        return Err(Refusal::NotPublishable);
    }
    let linked =
        certificates.windows(2).all(|pair| pair[0].statement.hands_on_to() == Some(pair[1].issuer));
    let ends_well = match certificates {
        [] => false,
        [_] => true,
        [.., last] => last.statement != Statement::Withdrawal,
    };
    let to_itself = certificates.iter().any(|c| c.statement.hands_on_to() == Some(c.issuer));
    if linked && ends_well && !to_itself { Ok(()) } else { Err(Refusal::Malformed) }
}

fn check_time(certificate: &Certificate, now_s: u64) -> Result<(), Refusal> {
    check_window(certificate, now_s).map_err(refusal_of)?;
    if certificate.not_after_s - certificate.not_before_s > MAX_LIFETIME_S {
        return Err(Refusal::LifetimeTooLong);
    }
    Ok(())
}

fn refusal_of(error: StatementError) -> Refusal {
    match error {
        StatementError::NotYetValid { .. } => Refusal::NotYetValid,
        StatementError::Expired { .. } => Refusal::Expired,
        StatementError::WrongMetadata => Refusal::UnknownIssuer,
        _ => Refusal::BadSignature,
    }
}

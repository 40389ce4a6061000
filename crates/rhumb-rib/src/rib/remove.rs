//! Removals: who is a member of a domain no longer, by its own word.
//!
//! 1. One is taken from whoever brings it, if it is by a domain that this directory is of, or that
//!    its rules are about, or by whom that admitted to admit others: [`Rib::take_removal`].
//! 2. It is verified and made durable as orders are, and then counts: here, since the rules judge
//!    by the register that it is entered in, and where it is told.
//! 3. It is kept for as long as what it may count against lasts.
//!
//! INVARIANT: what was acknowledged as stored counts until it ends, also after the process was
//! killed. Nobody who is not of the domain takes any room.

use std::sync::Arc;

use rhumb_trust::{Noted, Removal, RemovalError, Verified, check_window};
use rhumb_wire::rib::{Refusal, RequestId, RibResponse, RibResponseBody};
use rhumb_wire::{Certificate, Metadata, Name, Statement};

use super::commit::StagedRemovals;
use super::publish::{NotTaken, refusal_of};
use crate::pushes::Target;
use crate::removals::MAX_REMOVAL_LEN;
use crate::rib::{Asker, OrderId, Rib};
use crate::share::Payer;
use crate::signatures::bytes_of;
use crate::store::Store;
use crate::{DropReason, RibError};

/// A removal whose signatures are to be checked.
#[derive(Debug)]
pub(crate) struct UnverifiedRemoval {
    order: OrderId,
    request: RequestId,
    removal: Removal,
    now_s: u64,
}

impl UnverifiedRemoval {
    /// Does the work: 60 µs for each certificate.
    pub(crate) fn check(self) -> CheckedRemoval {
        let Self { order, request, removal, now_s } = self;
        let certificates = removal.lists().1;
        let result = removal.verify(now_s).map_err(|error| (why(&error), certificates));
        CheckedRemoval { order, request, result }
    }
}

/// What came of that; certificates are those that were refused.
#[derive(Debug)]
pub(crate) struct CheckedRemoval {
    order: OrderId,
    request: RequestId,
    result: Result<Verified<Removal>, (Refusal, Vec<Certificate>)>,
}

/// Whether an order is to remove somebody.
pub(crate) fn is_removal(certificates: &[Certificate]) -> bool {
    let last = certificates.last();
    last.is_some_and(|it| matches!(it.statement, Statement::Removal { .. }))
}

impl<S: Store> Rib<S> {
    /// Has all removals of an earlier run count again.
    pub(super) fn recall_removals(&mut self) {
        let stored = match self.store.store().removals() {
            Ok(stored) => stored,
            Err(error) => {
                self.store_failed(error);
                return;
            }
        };
        self.hear_removals(stored);
    }

    /// Has removals count that are stored already.
    pub fn hear_removals(&mut self, stored: Vec<Option<Removal>>) {
        for removal in stored {
            match removal.and_then(|it| it.recall().ok()) {
                Some(removal) => _ = self.removal_counts(Arc::new(removal)),
                None => self.last_error = Some(RibError::DamagedRemoval),
            }
        }
    }

    /// Checks an order to remove somebody, and leaves its signatures to be verified.
    pub(crate) fn take_removal(
        &mut self,
        asker: &Asker,
        request: RequestId,
        lists: (Vec<Metadata>, Vec<Certificate>),
        now_s: u64,
    ) -> Result<OrderId, NotTaken> {
        let certificates = lists.1.clone();
        let removal = Removal::from_lists(lists).map_err(|error| why(&error))?;
        let authority = removal.authority();
        let is_ours = self.domains().any(|domain| removal.is_of(&domain));
        let was_removed = authority.is_some_and(|it| self.access().removals.against(it).is_some());
        if !is_ours || was_removed {
            let refusal = Refusal::NotAuthorised;
            self.admission.note_refused(asker.source, removal.issuer(), refusal, now_s);
            return Err(refusal.into());
        }
        for certificate in &certificates {
            check_window(certificate, now_s).map_err(refusal_of)?;
        }
        if removal.emit().len() > MAX_REMOVAL_LEN {
            return Err(Refusal::NotPublishable.into());
        }
        self.newer_removal(&removal)?;
        if self.forgeries.contains(&bytes_of(&certificates)) {
            return Err(Refusal::BadSignature.into());
        }
        let payer = Payer::of(asker);
        if !self.verifications.has_room(
            &payer,
            self.orders_waiting(),
            self.config.max_orders_waiting,
        ) {
            return Err(NotTaken::Dropped(DropReason::TooManyOrders));
        }
        if !self.may_verify(payer, removal.signatures(), now_s) {
            return Err(Refusal::QuotaExceeded.into());
        }
        let order = self.new_order_id();
        let unverified = UnverifiedRemoval { order, request, removal, now_s };
        self.push_removal(payer, asker.name, unverified);
        Ok(order)
    }

    /// The domains whose removals count here.
    fn domains(&self) -> impl Iterator<Item = Name> {
        self.config.domain.into_iter().chain(self.access().domains())
    }

    /// Refuses what is older than what counts, or has no room.
    fn newer_removal(&self, removal: &Removal) -> Result<(), NotTaken> {
        let removals = &self.access().removals;
        match (removals.would(removal), removals.find(removal.issuer(), removal.removed())) {
            (Noted::Known, Some(newer)) if newer.certificate() != removal.certificate() => {
                Err(NotTaken::Superseded(Box::new(newer.certificate().clone())))
            }
            (Noted::Full, _) => Err(Refusal::QuotaExceeded.into()),
            _ => Ok(()),
        }
    }

    /// A removal was verified: it is staged, or refused.
    pub(crate) fn removal_verified(&mut self, checked: CheckedRemoval) {
        let CheckedRemoval { order, request, result } = checked;
        let removal = match result {
            Ok(removal) => removal,
            Err((refusal, certificates)) => {
                if refusal == Refusal::BadSignature {
                    self.forgeries.note(bytes_of(&certificates));
                }
                return self.refuse_order(order, request, refusal);
            }
        };
        match self.newer_removal(&removal) {
            Ok(()) => self.staged_removals.orders.push((order, request, Arc::new(removal))),
            Err(NotTaken::Superseded(newer)) => self.refuse_superseded(order, request, *newer),
            Err(_) => self.refuse_order(order, request, Refusal::QuotaExceeded),
        }
    }

    /// Removals are durable: they count, and are told.
    pub(crate) fn removals_committed(&mut self, staged: StagedRemovals) {
        for (id, request, removal) in staged.orders {
            let key = (removal.issuer(), removal.removed());
            if self.removal_counts(removal) == Noted::Full {
                // Others were quicker.
                self.staged_removals.ended.push(key);
                self.refuse_order(id, request, Refusal::QuotaExceeded);
                continue;
            }
            self.counters.removals_stored += 1;
            let response = RibResponse { id: request, body: RibResponseBody::Stored };
            self.answers.push_back((id, response));
        }
    }

    pub(crate) fn refuse_removals(&mut self, staged: StagedRemovals, refusal: Refusal) {
        for (id, request, _) in staged.orders {
            self.refuse_order(id, request, refusal);
        }
    }

    fn removal_counts(&mut self, removal: Arc<Verified<Removal>>) -> Noted {
        let noted = self.access().removals.note((*removal).clone());
        if noted == Noted::New {
            self.removals.enter(removal);
            self.has_new_removals = true;
            for (asker, payer) in self.removals.hearers() {
                self.pushes.start(Target { asker, subject: REMOVALS }, payer);
            }
        }
        noted
    }

    /// Forgets those that have ended.
    pub(crate) fn sweep_removals(&mut self, now_s: u64) {
        for removal in self.access().removals.sweep(now_s) {
            self.removals.forget(&removal);
            self.staged_removals.ended.push((removal.issuer(), removal.removed()));
        }
    }

    /// Whether since the last call memberships were taken back that counted before.
    pub fn take_new_removals(&mut self) -> bool {
        std::mem::take(&mut self.has_new_removals)
    }

    /// How many removals count.
    pub fn removals(&self) -> usize {
        self.removals.len()
    }
}

fn why(error: &RemovalError) -> Refusal {
    match error {
        RemovalError::NoAuthority | RemovalError::Authority(_) => Refusal::NotAuthorised,
        RemovalError::TooLong => Refusal::LifetimeTooLong,
        RemovalError::Ahead => Refusal::NotYetValid,
        RemovalError::Statement(error) => refusal_of(*error),
        _ => Refusal::Malformed,
    }
}

/// What those are told about who are told of removals: a name that nobody can have, since nothing
/// is known to hash to it.
pub(crate) const REMOVALS: Name = Name([0; 32]);

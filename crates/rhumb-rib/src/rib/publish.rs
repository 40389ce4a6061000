//! Orders to publish: checked, verified elsewhere, then staged for a commit.
//!
//! 1. Shape, windows, rules, lifetimes, known keys,
//!    sequences, quotas: all cheap, so they come first.
//! 2. Signatures, within the payer's budget and in its turn, as a
//!    [`Verification`](crate::Verification) that another thread can run; not again for the very
//!    statements that are stored already, or were found forged.
//! 3. The order joins those staged before it, and sees what they change;
//!    what came in between is checked once more.
//!
//! INVARIANT: an order is taken whole or not at all; nothing unverified is ever staged.

use std::collections::HashMap;
use std::sync::Arc;

use rhumb_trust::{
    ChainError, StatementError, check_window, name_of, verify_chain, verify_statement,
};
use rhumb_wire::rib::{Refusal, RequestId};
use rhumb_wire::{Certificate, Metadata, Name, Statement};

use super::commit::{Draft, Order, Publisher, UnderWay};
use crate::entry::{Admission, max_lifetime_s};
use crate::rib::{Asker, OrderId, Rib};
use crate::share::Payer;
use crate::signatures::bytes_of;
use crate::store::Store;
use crate::{DropReason, Entry, MAX_SERVICE_LIFETIME_S, RibError, Share};

/// An order whose signatures are to be checked by whoever has the time.
#[derive(Debug)]
pub(crate) struct Unverified {
    order: Order,
    sent: HashMap<Name, Metadata>,
    certificates: Vec<Certificate>,
    /// Of each certificate.
    issuers: Vec<Metadata>,
}

impl Unverified {
    pub(crate) fn order(&self) -> &Order {
        &self.order
    }

    /// Does the work: 60 µs for each certificate.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let now_s = self.order.now_s;
        let one = |(certificate, issuer): (&Certificate, &_)| {
            verify_statement(certificate, issuer, now_s).map(|_| ()).map_err(refusal_of)
        };
        if let ([certificate], [issuer]) = (&self.certificates[..], &self.issuers[..]) {
            return one((certificate, issuer));
        }
        if is_place_and_export(&self.certificates) {
            return self.certificates.iter().zip(&self.issuers).try_for_each(one);
        }
        let origin = self.certificates[0].issuer;
        let keys: HashMap<Name, _> =
            self.certificates.iter().zip(&self.issuers).map(|(c, i)| (c.issuer, i.key)).collect();
        let certificates = self.certificates.clone();
        let verified = verify_chain(origin, certificates, |name| keys.get(name).copied(), now_s);
        verified.map(|_| ()).map_err(|error| match error {
            ChainError::Statement { error, .. } => refusal_of(error),
            ChainError::UnknownIssuer { .. } => Refusal::UnknownIssuer,
            _ => Refusal::Malformed,
        })
    }
}

/// Why an order is not taken.
pub(crate) enum NotTaken {
    Refused(Refusal),
    /// Refused as superseded, by this statement.
    Superseded(Box<Certificate>),
    Dropped(DropReason),
}

impl From<Refusal> for NotTaken {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl<S: Store> Rib<S> {
    /// Checks an order, and stages it or leaves its signatures to be verified.
    pub(crate) fn take_order(
        &mut self,
        asker: Asker,
        request: RequestId,
        metadata: Vec<Metadata>,
        certificates: Vec<Certificate>,
        now_s: u64,
    ) -> Result<OrderId, NotTaken> {
        check_shape(&certificates)?;
        check_lifetimes_of_anybody(&certificates)?;
        for certificate in &certificates {
            check_window(certificate, now_s).map_err(refusal_of)?;
        }
        let sent: HashMap<Name, Metadata> =
            metadata.into_iter().map(|metadata| (name_of(&metadata), metadata)).collect();
        let issuers = certificates.iter().map(|it| it.issuer);
        let share = self.judge(&asker, &sent, issuers, now_s)?;
        let (mut drafts, issuers) = self
            .draft((asker.name, share), &sent, &certificates, now_s)
            .map_err(|refusal| self.not_taken(refusal, &certificates))?;
        let by = Publisher { name: asker.name, share, limits: asker.limits };
        if let Err(refusal) = self.place(&by, &mut drafts) {
            if refusal == Refusal::QuotaExceeded && !asker.limits.is_empty() {
                self.admission.note_refused(asker.source, asker.name, refusal, now_s);
            }
            return Err(refusal.into());
        }
        let payer = Payer::of(&asker);
        let bound = self.config.max_orders_waiting;
        if !self.verifications.has_room(&payer, self.orders_waiting(), bound) {
            return Err(NotTaken::Dropped(DropReason::TooManyOrders));
        }
        let id = self.new_order_id();
        let order = Order {
            id,
            request,
            publisher: asker.name,
            max_answer_len: asker.max_answer_len,
            payer,
            share,
            limits: asker.limits,
            serves: certificates.iter().find_map(|it| match it.statement {
                Statement::Service { server, several: true } => Some((it.issuer, server)),
                _ => None,
            }),
            issuers: certificates.iter().map(|certificate| certificate.issuer).collect(),
            now_s,
        };
        if drafts.is_empty() {
            self.staged.add(order, drafts);
        } else {
            if self.forgeries.contains(&bytes_of(&certificates)) {
                return Err(NotTaken::Refused(Refusal::BadSignature));
            }
            if !self.may_verify(payer, certificates.len(), now_s) {
                return Err(NotTaken::Refused(Refusal::QuotaExceeded));
            }
            let verification = Unverified { order, sent, certificates, issuers };
            self.push_order(payer, asker.name, verification);
        }
        Ok(id)
    }

    /// What the next order is called, or the one that is taken up again.
    pub(crate) fn new_order_id(&mut self) -> OrderId {
        self.taken_up.take().unwrap_or_else(|| {
            self.next_order += 1;
            OrderId(self.next_order - 1)
        })
    }

    /// Whether so many signatures may be verified for `payer`, which are counted if so.
    pub(crate) fn may_verify(&mut self, payer: Payer, signatures: usize, now_s: u64) -> bool {
        let per_s = match payer {
            Payer::Admitted(_) => self.config.signatures_per_admitted_per_s,
            Payer::Stranger(_) => self.config.signatures_per_source_per_s,
        };
        self.order_budgets.take(payer, signatures as u32, per_s, now_s)
    }

    /// An order was verified: it is staged, or refused; or given back when what it needs is not at
    /// hand.
    pub(crate) fn order_verified(
        &mut self,
        unverified: Box<Unverified>,
        result: Result<(), Refusal>,
    ) -> Option<Box<Unverified>> {
        self.want_missed();
        let Unverified { order, sent, certificates, .. } = &*unverified;
        if result == Err(Refusal::BadSignature) {
            self.forgeries.note(bytes_of(certificates));
        }
        let by = (order.publisher, order.share);
        let staged = result.and_then(|()| {
            let (mut drafts, _) = self.draft(by, sent, certificates, order.now_s)?;
            let Order { publisher: name, share, limits, .. } = *order;
            self.place(&Publisher { name, share, limits }, &mut drafts)?;
            Ok(drafts)
        });
        let staged = staged.map_err(|refusal| (refusal, self.not_taken(refusal, certificates)));
        if self.store.has_missed() {
            return Some(unverified);
        }
        let Unverified { order, .. } = *unverified;
        match staged {
            Ok(drafts) => self.staged.add(order, drafts),
            Err((_, NotTaken::Superseded(newer))) => {
                self.refuse_superseded(order.id, order.request, *newer);
            }
            Err((refusal, _)) => self.refuse_order(order.id, order.request, refusal),
        }
        None
    }

    /// Why an order is refused: where something newer is the
    /// reason, whoever signed both can go on from there.
    fn not_taken(&mut self, refusal: Refusal, certificates: &[Certificate]) -> NotTaken {
        let newer = match refusal {
            Refusal::Superseded => certificates.iter().find_map(|certificate| {
                let issuer = certificate.issuer;
                let Draft { entry, .. } = self.draft_of(issuer, issuer, &HashMap::new()).ok()?;
                entry.newer_than(certificate).cloned()
            }),
            _ => None,
        };
        newer.map_or(NotTaken::Refused(refusal), |newer| NotTaken::Superseded(Box::new(newer)))
    }

    /// Orders that were taken and are not in a commit yet.
    pub(crate) fn orders_waiting(&self) -> usize {
        let staged = self.staged.len() + self.staged_removals.len();
        let parked = self.parked.verdicts();
        self.verifications.len() + self.verifications_under_way + parked + staged
    }

    /// The entries that the certificates change, and the metadata of all issuers.
    fn draft(
        &mut self,
        (publisher, share): (Name, Share),
        sent: &HashMap<Name, Metadata>,
        certificates: &[Certificate],
        now_s: u64,
    ) -> Result<(Vec<Draft>, Vec<Metadata>), Refusal> {
        let mut drafts: Vec<Draft> = Vec::new();
        let mut issuers = Vec::with_capacity(certificates.len());
        for certificate in certificates {
            let name = certificate.issuer;
            // Of two statements of one issuer the second adds to what the first has changed.
            let drafted = drafts.iter().position(|draft| draft.name == name);
            let mut draft = match drafted.map(|at| drafts.remove(at)) {
                Some(draft) => draft,
                None => self.draft_of(name, publisher, sent)?,
            };
            let entry = &mut draft.entry;
            check_lifetime(certificate, entry.metadata(), share)?;
            issuers.push(entry.metadata.clone());
            let admission = match entry.admit_for(share, certificate, publisher, now_s) {
                Err(Refusal::Superseded) if self.may_step_in(entry, certificate, now_s) => {
                    entry.step_in(certificate, publisher)
                }
                admission => admission?,
            };
            let is_known = admission == Admission::Known;
            draft.is_repeated = match drafted {
                None => is_known && self.is_to_be_told(&draft),
                Some(_) => is_known && draft.is_repeated,
            };
            if !is_known || draft.is_repeated || drafted.is_some() {
                drafts.push(draft);
            }
        }
        Ok((drafts, issuers))
    }

    /// Whether what is there of a draft's name may be so without others having been told, who share
    /// the store: a commit that failed may be there after all.
    pub(crate) fn is_to_be_told(&mut self, draft: &Draft) -> bool {
        let is_being_written = |it: &UnderWay| it.entry(&draft.name).is_some();
        let Some(stored) = &draft.stored else { return false };
        !self.under_way.as_ref().is_some_and(is_being_written)
            && !self.store.was_told(&draft.name, stored)
    }

    /// Whether an older word for a server may take the place of a newer one:
    /// by the newer one's server there is no way.
    fn may_step_in(&mut self, entry: &Entry, older: &Certificate, now_s: u64) -> bool {
        let Some(server) = entry.newer_server(older) else { return false };
        match self.draft_of(server, server, &HashMap::new()) {
            Ok(Draft { entry: server, .. }) => {
                let is_there = server.route(now_s).is_some_and(|route| !self.gone.contains(route));
                !is_there && server.locator(now_s).is_none()
            }
            Err(refusal) => refusal == Refusal::UnknownIssuer,
        }
    }

    /// The entry of `name` as it will be after the orders staged so far.
    pub(crate) fn draft_of(
        &mut self,
        name: Name,
        publisher: Name,
        sent: &HashMap<Name, Metadata>,
    ) -> Result<Draft, Refusal> {
        if let Some(entry) = self.staged.entry(&name) {
            return Ok(Draft::of(name, entry.clone(), None));
        }
        let stored = match self.under_way.as_ref().and_then(|commit| commit.entry(&name)) {
            Some(written) => written.cloned().map(Arc::new),
            None => self.store.entry(&name).map_err(|error| self.store_failed(error))?,
        };
        if let Some(stored) = stored {
            return Ok(Draft::of(name, (*stored).clone(), Some(stored)));
        }
        let metadata = sent.get(&name).ok_or(Refusal::UnknownIssuer)?;
        let entry = Entry::new(metadata.clone(), publisher);
        Ok(Draft { name, entry, stored: None, before: None, grows: false, is_repeated: false })
    }

    pub(crate) fn store_failed(&mut self, error: RibError) -> Refusal {
        // Who meets this is parked, and comes again.
        if !matches!(error, RibError::NotAtHand) {
            self.counters.store_failures += 1;
            self.last_error = Some(error);
        }
        Refusal::StoreFailed
    }
}

/// One statement that can be published, or several that form a chain; or where a name is, and by
/// which domain it is known outside.
fn check_shape(certificates: &[Certificate]) -> Result<(), Refusal> {
    let is_none = |it: &Certificate| {
        use Statement::{Absence, Member, Removal};
        matches!(it.statement, Absence { .. } | Member { .. } | Removal { .. })
            // What a domain says of a neighbour goes to that neighbour, with what it offers.
            || it.statement.exports_by().is_some() && it.statement.is_one_of_several()
    };
    if certificates.iter().any(is_none) {
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
    if (linked && ends_well || is_place_and_export(certificates)) && !to_itself {
        Ok(())
    } else {
        Err(Refusal::Malformed)
    }
}

fn is_place_and_export(certificates: &[Certificate]) -> bool {
    let [place, export] = certificates else { return false };
    place.issuer == export.issuer
        && place.statement.is_way()
        && export.statement.exports_by().is_some()
}

/// What lasts longer than anything may is refused for that before all else: it might also begin
/// later, and then it would be refused for its time first, and for its length when that has come.
fn check_lifetimes_of_anybody(certificates: &[Certificate]) -> Result<(), Refusal> {
    let lifetime_s = |certificate: &Certificate| certificate.not_after_s - certificate.not_before_s;
    match certificates.iter().any(|certificate| lifetime_s(certificate) > MAX_SERVICE_LIFETIME_S) {
        true => Err(Refusal::LifetimeTooLong),
        false => Ok(()),
    }
}

fn check_lifetime(
    certificate: &Certificate,
    issuer: &Metadata,
    share: Share,
) -> Result<(), Refusal> {
    let lifetime_s = certificate.not_after_s - certificate.not_before_s;
    match lifetime_s > max_lifetime_s(&certificate.statement, issuer.role, share) {
        true => Err(Refusal::LifetimeTooLong),
        false => Ok(()),
    }
}

pub(crate) fn refusal_of(error: StatementError) -> Refusal {
    match error {
        StatementError::NotYetValid { .. } => Refusal::NotYetValid,
        StatementError::Expired { .. } => Refusal::Expired,
        StatementError::TooLong => Refusal::LifetimeTooLong,
        StatementError::WrongMetadata => Refusal::UnknownIssuer,
        _ => Refusal::BadSignature,
    }
}

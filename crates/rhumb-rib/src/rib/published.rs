//! Names that owners publish under their own: taken as orders are, and shown to whoever asks.
//!
//! They are kept with the owner's entry, and count with it: on the same share, in the same
//! transactions. Nobody is subscribed to them, and the domain around is neither asked nor told:
//! whoever asked asks again when he wants to know again.

use std::collections::HashMap;

use rhumb_trust::{check_names_window, name_of, verify_names};
use rhumb_wire::rib::{Refusal, RequestId, RibResponse, RibResponseBody};
use rhumb_wire::{Metadata, Name, PublishedNames};

use super::commit::{Draft, Order, Publisher};
use super::publish::{NotTaken, refusal_of};
use crate::DropReason;
use crate::entry::Admission;
use crate::rib::{Asker, OrderId, Outcome, Rib};
use crate::share::Payer;
use crate::store::Store;

/// A list whose signature is to be checked.
#[derive(Debug)]
pub(crate) struct UnverifiedNames {
    order: Order,
    owner: Metadata,
    published: PublishedNames,
}

impl UnverifiedNames {
    pub(crate) fn order(&self) -> &Order {
        &self.order
    }

    /// Does the work: 60 µs.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let verified = verify_names(self.published.clone(), &self.owner, self.order.now_s);
        verified.map(drop).map_err(refusal_of)
    }
}

impl<S: Store> Rib<S> {
    /// Checks a list, and stages it or leaves its signature to be verified.
    pub(crate) fn take_names(
        &mut self,
        asker: Asker,
        request: RequestId,
        metadata: Vec<Metadata>,
        published: PublishedNames,
        now_s: u64,
    ) -> Result<OrderId, NotTaken> {
        check_names_window(&published, now_s).map_err(refusal_of)?;
        let sent: HashMap<Name, Metadata> =
            metadata.into_iter().map(|metadata| (name_of(&metadata), metadata)).collect();
        let share = self.judge(&asker, &sent, [published.owner].into_iter(), now_s)?;
        let by = Publisher { name: asker.name, share, limits: asker.limits };
        let (owner, drafts) = self.draft_names(&by, &sent, &published, now_s)?;
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
            serves: None,
            issuers: vec![published.owner],
            now_s,
        };
        if drafts.is_empty() {
            self.staged.add(order, drafts);
        } else {
            if self.forgeries.contains(&bytes_of(&published)) {
                return Err(Refusal::BadSignature.into());
            }
            if !self.may_verify(payer, 1, now_s) {
                return Err(Refusal::QuotaExceeded.into());
            }
            self.push_names(payer, asker.name, UnverifiedNames { order, owner, published });
        }
        Ok(id)
    }

    /// A list was verified: it is staged, or refused; or given back when what it needs is not at
    /// hand.
    pub(crate) fn names_verified(
        &mut self,
        names: Box<UnverifiedNames>,
        result: Result<(), Refusal>,
    ) -> Option<Box<UnverifiedNames>> {
        self.want_missed();
        let UnverifiedNames { order, owner, published } = &*names;
        if result == Err(Refusal::BadSignature) {
            self.forgeries.note(bytes_of(published).into());
        }
        let Order { publisher: name, share, limits, now_s, .. } = *order;
        let by = Publisher { name, share, limits };
        let sent = HashMap::from([(published.owner, owner.clone())]);
        let drafted = result.and_then(|()| self.draft_names(&by, &sent, published, now_s));
        if self.store.has_missed() {
            return Some(names);
        }
        let UnverifiedNames { order, .. } = *names;
        match drafted {
            Ok((_, drafts)) => {
                self.staged.lists += u64::from(!drafts.is_empty());
                self.staged.add(order, drafts);
            }
            Err(refusal) => self.refuse_order(order.id, order.request, refusal),
        }
        None
    }

    /// The owner's metadata, and its entry as the list changes it, if it does, which has room.
    fn draft_names(
        &mut self,
        by: &Publisher,
        sent: &HashMap<Name, Metadata>,
        published: &PublishedNames,
        now_s: u64,
    ) -> Result<(Metadata, Vec<Draft>), Refusal> {
        let name = published.owner;
        let mut draft = self.draft_of(name, by.name, sent)?;
        let owner = draft.entry.metadata.clone();
        let len_before = draft.entry.published().map_or(0, PublishedNames::emitted_len);
        if draft.entry.admit_names(published, by.name, now_s)? == Admission::Known {
            draft.is_repeated = self.is_to_be_told(&draft);
            let drafts = if draft.is_repeated { vec![draft] } else { Vec::new() };
            return Ok((owner, drafts));
        }
        draft.grows = published.emitted_len() > len_before;
        let mut drafts = vec![draft];
        self.place(by, &mut drafts)?;
        Ok((owner, drafts))
    }

    /// What an owner publishes, in force or not: who asks finds out.
    pub(crate) fn look_up_names(
        &mut self,
        asker: Asker,
        id: RequestId,
        owner: Name,
        now_s: u64,
    ) -> Outcome {
        let entry = match self.store.entry(&owner) {
            Ok(Some(entry)) => entry,
            Ok(None) if owner == self.name() => {
                return self.found_metadata(id, owner, (**self.identity.metadata()).clone());
            }
            Ok(None) => return self.absent(asker, id, owner, now_s),
            Err(error) => {
                let refusal = self.store_failed(error);
                return self.refuse(id, refusal);
            }
        };
        let Some(published) = entry.published().cloned() else {
            return self.found_metadata(id, owner, entry.metadata().clone());
        };
        let room = asker.max_answer_len.min(self.config.max_answer_len);
        let metadata = vec![entry.metadata().clone()];
        let len = HEAD_LEN + published.emitted_len() + 2 + metadata[0].emitted_len();
        let metadata = if len <= room { metadata } else { Vec::new() };
        self.counters.lists_told += 1;
        self.found(RibResponse { id, body: RibResponseBody::Names { metadata, published } })
    }
}

fn bytes_of(published: &PublishedNames) -> Vec<u8> {
    let mut bytes = Vec::new();
    published.emit(&mut bytes);
    bytes
}

/// Kind, identifier and the number of metadata.
const HEAD_LEN: usize = 1 + 4 + 1;

//! What waits for a store that is elsewhere.
//!
//! 1. A request, or an order that was verified, is run as if everything were at hand. If something
//!    is not, whatever came out of it is dropped, and it is parked until that has been read.
//! 2. [`Rib::poll_read`] hands out what is to be read, and [`Rib::handle_read`] takes the answer,
//!    and takes up again who waited for it.
//!
//! INVARIANT: what is run reads all that it needs before it changes anything; so it can be run as
//! often as needed. No more is parked than [`MAX_PARKED`], of which strangers have half, and a
//! source no more than what is left of that.

use std::collections::HashMap;

use rhumb_wire::Name;
use rhumb_wire::rib::{Refusal, RequestId};

use super::commit::UnderWay;
use super::verification::Checked;
use super::{Asker, OrderId, Outcome, Rib};
use crate::RibError;
use crate::share::Payer;
use crate::store::{Answer, Awaited, Change, Doubt, Read, Store, Taken};

/// All that is parked.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    by_id: HashMap<OrderId, Waiter>,
    by_read: HashMap<Read, Vec<OrderId>>,
    by_payer: HashMap<Payer, usize>,
    strangers: usize,
    verdicts: usize,
}

#[derive(Debug)]
struct Waiter {
    what: Waiting,
    payer: Payer,
    asker: Name,
    /// How much of what it needs is still to be read.
    lacks: usize,
    /// How often it has been run.
    runs: u8,
}

/// What is taken up again.
#[derive(Debug)]
pub(crate) enum Waiting {
    Request { asker: Box<Asker>, id: RequestId, data: Box<[u8]>, now_s: u64 },
    Verdict(RequestId, Checked),
}

impl Parked {
    /// Orders that were verified.
    pub(crate) fn verdicts(&self) -> usize {
        self.verdicts
    }

    fn has_room(&self, payer: &Payer) -> bool {
        let own = self.by_payer.get(payer).copied().unwrap_or(0);
        match payer {
            Payer::Admitted(_) => self.by_id.len() < MAX_PARKED && own <= MAX_PARKED / 2,
            Payer::Stranger(_) => own < (MAX_PARKED / 2).saturating_sub(self.strangers),
        }
    }

    fn insert(&mut self, id: OrderId, waiter: Waiter, reads: &[Read]) {
        for read in reads {
            self.by_read.entry(*read).or_default().push(id);
        }
        *self.by_payer.entry(waiter.payer).or_default() += 1;
        self.strangers += usize::from(matches!(waiter.payer, Payer::Stranger(_)));
        self.verdicts += usize::from(matches!(waiter.what, Waiting::Verdict(..)));
        self.by_id.insert(id, waiter);
    }

    fn remove(&mut self, id: OrderId) -> Option<Waiter> {
        let waiter = self.by_id.remove(&id)?;
        if let Some(own) = self.by_payer.get_mut(&waiter.payer) {
            *own -= 1;
            if *own == 0 {
                self.by_payer.remove(&waiter.payer);
            }
        }
        self.strangers -= usize::from(matches!(waiter.payer, Payer::Stranger(_)));
        self.verdicts -= usize::from(matches!(waiter.what, Waiting::Verdict(..)));
        Some(waiter)
    }

    /// Something was read: who lacks nothing more, and who is to be told that it could not be.
    fn take_ready(&mut self, read: &Read, has_failed: bool) -> Vec<(OrderId, Waiter)> {
        let waiting = self.by_read.remove(read).unwrap_or_default();
        let mut ready = Vec::new();
        for id in waiting {
            let Some(waiter) = self.by_id.get_mut(&id) else { continue };
            waiter.lacks -= 1;
            if has_failed || waiter.lacks == 0 {
                ready.extend(self.remove(id).map(|waiter| (id, waiter)));
            }
        }
        ready
    }
}

impl<S: Store> Rib<S> {
    /// Parks a request until what it missed has been read.
    pub(super) fn park_request(&mut self, asker: Asker, data: &[u8], now_s: u64) -> Outcome {
        let Some(id) = data.get(1..).and_then(|rest| rest.first_chunk()) else {
            return Outcome::Noted;
        };
        let id = RequestId(u32::from_be_bytes(*id));
        let payer = Payer::of(&asker);
        let reads = self.store.take_missed();
        if !self.parked.has_room(&payer) {
            return self.refuse(id, Refusal::Overloaded);
        }
        let order = self.new_order_id();
        let name = asker.name;
        let what = Waiting::Request { asker: Box::new(asker), id, data: data.into(), now_s };
        self.park(order, Waiter { what, payer, asker: name, lacks: 0, runs: 1 }, &reads);
        Outcome::Staged(order)
    }

    /// Parks a verified order; there is room for what has been taken.
    pub(super) fn park_verdict(
        &mut self,
        (order, request, payer, asker): (OrderId, RequestId, Payer, Name),
        checked: Checked,
    ) {
        let reads = self.store.take_missed();
        let what = Waiting::Verdict(request, checked);
        self.park(order, Waiter { what, payer, asker, lacks: 0, runs: 1 }, &reads);
    }

    fn park(&mut self, id: OrderId, mut waiter: Waiter, reads: &[Read]) {
        self.counters.parked += 1;
        waiter.lacks = reads.len();
        if let Some(awaited) = self.store.store().awaited() {
            for read in reads {
                awaited.want(*read, waiter.payer, waiter.asker);
            }
        }
        self.parked.insert(id, waiter, reads);
    }

    /// Has read what the directory itself has missed.
    pub(super) fn want_missed(&mut self) {
        let own = self.name();
        let missed = self.store.take_missed();
        if let Some(awaited) = self.store.store().awaited() {
            for read in missed {
                awaited.want(read, Payer::Admitted(own), own);
            }
        }
    }

    /// What is to be read of a store elsewhere, by [`Store::read`] or in the same way; to be given
    /// back by [`Rib::handle_read`]. `None` while as much as may be is being read.
    pub fn poll_read(&mut self) -> Option<Read> {
        self.want_missed();
        self.store.store().awaited()?.poll_read()
    }

    /// Takes what was read, and takes up again who waited for it.
    pub fn handle_read(&mut self, read: Read, answer: Result<Answer, RibError>) {
        self.counters.reads += 1;
        let failed = match answer {
            Ok(answer) => {
                match self.store.take_answer(read, answer) {
                    Taken::Old if self.parked.by_read.contains_key(&read) => {
                        // It has changed meanwhile.
                        self.want_again(read);
                        return;
                    }
                    Taken::Old | Taken::AsKnown => {}
                    Taken::News(name) => self.push_to_subscribers(name),
                }
                None
            }
            Err(error) => {
                if let Some(awaited) = self.store.store().awaited() {
                    awaited.take_end(&read);
                }
                Some(self.read_failed(error))
            }
        };
        for (id, waiter) in self.parked.take_ready(&read, failed.is_some()) {
            match failed {
                Some(refusal) => self.refuse_order(id, waiter.request(), refusal),
                None if waiter.runs >= MAX_RUNS => {
                    self.refuse_order(id, waiter.request(), Refusal::Overloaded);
                }
                None => self.take_up(id, waiter),
            }
        }
    }

    fn want_again(&mut self, read: Read) {
        let waiting = self.parked.by_read.get(&read).and_then(|ids| ids.first());
        let Some(waiter) = waiting.and_then(|id| self.parked.by_id.get(id)) else { return };
        let (payer, asker) = (waiter.payer, waiter.asker);
        if let Some(awaited) = self.store.store().awaited() {
            awaited.want(read, payer, asker);
        }
    }

    /// Runs it once more: it is answered, or parked for what it lacks beside.
    fn take_up(&mut self, id: OrderId, waiter: Waiter) {
        let Waiter { what, payer, asker, runs, .. } = waiter;
        let lacking = |what| Waiter { what, payer, asker, lacks: 0, runs: runs + 1 };
        match what {
            Waiting::Request { asker, id: request, data, now_s } => {
                self.taken_up = Some(id);
                let outcome = self.run_request(*asker, &data, now_s);
                self.taken_up = None;
                if self.store.has_missed() {
                    let reads = self.store.take_missed();
                    let what = Waiting::Request { asker, id: request, data, now_s };
                    return self.park(id, lacking(what), &reads);
                }
                match outcome {
                    Outcome::Answer(response) => self.answers.push_back((id, response)),
                    // It goes on under the same name.
                    Outcome::Staged(_) => {}
                    Outcome::Noted | Outcome::Dropped(_) => self.abandoned.push(id),
                }
            }
            Waiting::Verdict(_, checked) => self.take_checked(checked),
        }
    }

    fn read_failed(&mut self, error: RibError) -> Refusal {
        match error {
            RibError::Overloaded => Refusal::Overloaded,
            error => self.store_failed(error),
        }
    }

    /// Others change what is stored of these names, if any, which is told for the first time: it is
    /// read anew where somebody was told of it, who is told what is new.
    pub fn hear_changes(&mut self, names: &[Name], now_s: u64) {
        self.counters.heard_changes += names.len() as u64;
        self.doubt(names, true, now_s);
    }

    /// The same again, when more of it has been written.
    pub fn hear_changes_again(&mut self, names: &[Name], now_s: u64) {
        self.doubt(names, false, now_s);
    }

    fn doubt(&mut self, names: &[Name], is_first: bool, now_s: u64) {
        if let Some(awaited) = self.store.store().awaited() {
            awaited.note_heard();
        }
        for name in names {
            if self.is_being_changed(name) {
                self.overtaken.insert(*name, now_s);
            }
        }
        self.doubt_names(names, is_first, now_s);
    }

    fn is_being_changed(&self, name: &Name) -> bool {
        let is_written = |commit: &UnderWay| commit.entry(name).is_some();
        self.staged.entry(name).is_some() || self.under_way.as_ref().is_some_and(is_written)
    }

    /// A commit of these names has ended. What it left in memory of those that others changed
    /// meanwhile was worked out from what was there before, so it is read anew.
    pub(crate) fn doubt_overtaken(&mut self, changes: &[Change]) {
        for change in changes {
            if let Some(now_s) = self.overtaken.get(&change.name).copied() {
                self.doubt_names(&[change.name], true, now_s);
            }
        }
        let staged = &self.staged;
        self.overtaken.retain(|name, _| staged.entry(name).is_some());
    }

    fn doubt_names(&mut self, names: &[Name], is_first: bool, now_s: u64) {
        for name in names {
            let doubt = self.store.doubt(name, is_first, now_s);
            if !self.subscriptions.has_any(name) {
                continue;
            }
            match doubt {
                Doubt::Settled => {}
                // To be read; what comes says whether anybody is told.
                Doubt::Compared => _ = self.store.entry(name),
                Doubt::Unknown => self.push_to_subscribers(*name),
            }
        }
    }

    /// Others may have changed anything, without its having been heard of. All that is told lasts
    /// no longer than its statements, and who was told asks again before.
    pub fn miss_changes(&mut self) {
        let under_way = self.under_way.iter().flat_map(UnderWay::being_changed);
        self.overtaken.extend(self.staged.being_changed().chain(under_way));
        self.store.forget_all();
    }

    /// A second has passed.
    pub(crate) fn pass_second(&mut self) {
        [self.counters.entries_at_hand, self.counters.entries_read] = self.store.uses();
        let awaited = self.store.store().awaited();
        if awaited.is_some_and(Awaited::pass_second) {
            self.miss_changes();
        }
    }
}

impl Waiter {
    fn request(&self) -> RequestId {
        match &self.what {
            Waiting::Request { id, .. } | Waiting::Verdict(id, _) => *id,
        }
    }
}

/// Requests that wait for a store, of some 1.4 KB each: 12 MB.
const MAX_PARKED: usize = 1 << 13;
/// One for each entry of the longest answer, and some for entries that changed or were pushed out
/// meanwhile.
const MAX_RUNS: u8 = 96;

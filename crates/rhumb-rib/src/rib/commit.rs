//! Commits: what was verified becomes durable, many
//! orders in one transaction, while look-ups go on.
//!
//! 1. Verified orders are staged: each sees what those before it change.
//! 2. [`Rib::poll_commit`] hands out all that is staged as one [`Commit`], unless one is under way.
//! 3. [`Commit::run`] writes it, on another thread if the store can be shared
//!    ([`Embedded::share`](crate::store::Embedded::share)).
//! 4. [`Rib::handle_committed`] answers the orders, and tells subscribers what changed.
//!
//! INVARIANT: look-ups see what is committed and nothing else; an order is acknowledged only when
//! the commit it is in, and every commit that it builds on, is durable. So when one fails, whatever
//! was staged upon it is refused with it.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, HashSet};
use std::mem;
use std::sync::Arc;

use rhumb_trust::{Removal, Verified};
use rhumb_wire::rib::{Refusal, RequestId, RibResponse, RibResponseBody};
use rhumb_wire::{Certificate, Name};

use crate::limits::NameLimits;
use crate::rib::{OrderId, Rib};
use crate::share::Payer;
use crate::store::{Change, RemovalChange, Store};
use crate::subscriptions::Subscriber;
use crate::{Entry, Footprint, Moves, RibError, Share};

/// What a store is to write, in one transaction.
#[derive(Debug)]
pub struct Commit(Writes);

#[derive(Debug)]
enum Writes {
    Entries(Arc<Vec<Change>>),
    Removals(Vec<RemovalChange>),
}

/// What became of a [`Commit`].
#[derive(Debug)]
pub struct Committed {
    /// Names of which something newer stands, which keeps away what was to be written.
    result: Result<Vec<Name>, RibError>,
}

impl Commit {
    /// Writes it: some milliseconds, most of them for the disk.
    pub fn run<S: Store>(self, store: &mut S) -> Committed {
        let result = match &self.0 {
            Writes::Entries(changes) => store.commit(changes),
            Writes::Removals(changes) => store.commit_removals(changes).map(|()| Vec::new()),
        };
        Committed { result }
    }

    /// The changes of entries that it is of, for who writes them elsewhere.
    pub fn changes(&self) -> &[Change] {
        match &self.0 {
            Writes::Entries(changes) => changes,
            Writes::Removals(_) => &[],
        }
    }

    /// The changes of removals.
    pub fn removals(&self) -> &[RemovalChange] {
        match &self.0 {
            Writes::Entries(_) => &[],
            Writes::Removals(changes) => changes,
        }
    }

    /// It was written elsewhere, as [`Store::commit`] would have, or was not.
    pub fn end(self, result: Result<Vec<Name>, RibError>) -> Committed {
        Committed { result }
    }
}

/// Verified orders that wait for a commit, or are in one.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    /// In name order, which is the store's: as it was before all of them, and as it is to be.
    entries: BTreeMap<Name, (Option<Arc<Entry>>, Entry)>,
    orders: Vec<Order>,
    statements: u64,
    /// Of them, lists of names that their owners publish.
    pub(crate) lists: u64,
    /// What more they take, and of what.
    moves: Moves,
    now_s: u64,
}

/// Verified removals that wait for a commit, or are in one, and those that have ended.
#[derive(Debug, Default)]
pub(crate) struct StagedRemovals {
    pub(crate) orders: Vec<(OrderId, RequestId, Arc<Verified<Removal>>)>,
    pub(crate) ended: Vec<(Name, Name)>,
}

impl StagedRemovals {
    pub(crate) fn is_empty(&self) -> bool {
        self.orders.is_empty() && self.ended.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.orders.len()
    }

    /// What is to be written: the newest of each name by each issuer.
    pub(crate) fn changes(&self) -> Vec<RemovalChange> {
        let mut newest: BTreeMap<_, Option<Arc<Verified<Removal>>>> =
            self.ended.iter().map(|key| (*key, None)).collect();
        for (_, _, removal) in &self.orders {
            let slot = newest.entry((removal.issuer(), removal.removed())).or_default();
            let sequence = |it: &Removal| it.certificate().sequence;
            if slot.as_ref().is_none_or(|other| sequence(other) < sequence(removal)) {
                *slot = Some(removal.clone());
            }
        }
        newest.into_iter().collect()
    }
}

/// A verified order.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) id: OrderId,
    pub(crate) request: RequestId,
    pub(crate) publisher: Name,
    pub(crate) max_answer_len: usize,
    /// Who sent it, which makes it a subscriber, and on whose share it counts if there is room.
    pub(crate) payer: Payer,
    pub(crate) share: Share,
    pub(crate) limits: NameLimits,
    pub(crate) issuers: Vec<Name>,
    /// A name that one of several servers answers for, and that server.
    pub(crate) serves: Option<(Name, Name)>,
    pub(crate) now_s: u64,
}

impl Order {
    /// What it is called here, and by who sent it; on whom it counts, and who that is.
    pub(crate) fn by(&self) -> (OrderId, RequestId, Payer, Name) {
        (self.id, self.request, self.payer, self.publisher)
    }
}

/// Who publishes, on whose share, and how many names it may have.
pub(crate) struct Publisher {
    pub(crate) name: Name,
    pub(crate) share: Share,
    pub(crate) limits: NameLimits,
}

/// An entry that an order changes.
pub(crate) struct Draft {
    pub(crate) name: Name,
    pub(crate) entry: Entry,
    /// As it is stored, or being written; `None` when it is new, or was changed by an order that is
    /// staged.
    pub(crate) stored: Option<Arc<Entry>>,
    /// What it took before; `None` when it is new.
    pub(crate) before: Option<Footprint>,
    /// Whether it needs room as if it were new.
    pub(crate) grows: bool,
    /// It is there as it is, and others that share the store may not have been told.
    pub(crate) is_repeated: bool,
}

impl Draft {
    /// Of an entry that is there.
    pub(crate) fn of(name: Name, entry: Entry, stored: Option<Arc<Entry>>) -> Self {
        let before = Some(Footprint::of(&entry));
        Self { name, entry, stored, before, grows: false, is_repeated: false }
    }
}

/// The commit that is being written.
pub(crate) struct UnderWay {
    /// In name order.
    changes: Arc<Vec<Change>>,
    /// Names whose subscribers are to be told.
    moved: Vec<Name>,
    purpose: Purpose,
}

enum Purpose {
    Orders(Staged),
    Sweep { next: Option<Name> },
    Removals(StagedRemovals),
}

impl Staged {
    pub(crate) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.orders.len()
    }

    pub(crate) fn entry(&self, name: &Name) -> Option<&Entry> {
        self.entries.get(name).map(|(_, after)| after)
    }

    /// Names that it changes, and by when.
    pub(crate) fn being_changed(&self) -> impl Iterator<Item = (Name, u64)> {
        self.entries.keys().map(|name| (*name, self.now_s))
    }

    pub(crate) fn moves(&self) -> &Moves {
        &self.moves
    }

    pub(crate) fn add(&mut self, order: Order, drafts: Vec<Draft>) {
        self.now_s = self.now_s.max(order.now_s);
        self.statements += drafts.len() as u64;
        for Draft { name, entry, stored, before, .. } in drafts {
            self.moves.replace(before.as_ref(), Some(&Footprint::of(&entry)));
            match self.entries.entry(name) {
                Slot::Occupied(mut slot) => slot.get_mut().1 = entry,
                Slot::Vacant(slot) => _ = slot.insert((stored, entry)),
            }
        }
        self.orders.push(order);
    }

    /// Takes out the orders that have to do with these names, and those that have to do with names
    /// of theirs.
    fn take_orders_of(&mut self, names: &[Name]) -> Vec<Order> {
        let mut names: HashSet<Name> = names.iter().copied().collect();
        let mut taken = Vec::new();
        loop {
            let has_to_do = |order: &mut Order| order.issuers.iter().any(|it| names.contains(it));
            let found: Vec<Order> = self.orders.extract_if(.., has_to_do).collect();
            if found.is_empty() {
                break;
            }
            names.extend(found.iter().flat_map(|order| &order.issuers));
            taken.extend(found);
        }
        self.entries.retain(|name, _| !names.contains(name));
        taken
    }
}

impl UnderWay {
    /// What the commit makes of a name, if it touches it; `None` within when it removes the entry.
    pub(crate) fn entry(&self, name: &Name) -> Option<Option<&Entry>> {
        let at = self.changes.binary_search_by_key(name, |change| change.name).ok()?;
        Some(self.changes[at].after.as_ref())
    }

    /// As of what is staged.
    pub(crate) fn being_changed(&self) -> impl Iterator<Item = (Name, u64)> {
        let now_s = self.orders().map_or(0, |staged| staged.now_s);
        self.changes.iter().map(move |change| (change.name, now_s))
    }

    /// The orders in it, if it is of orders.
    pub(crate) fn orders(&self) -> Option<&Staged> {
        match &self.purpose {
            Purpose::Orders(staged) => Some(staged),
            Purpose::Sweep { .. } | Purpose::Removals(_) => None,
        }
    }
}

impl<S: Store> Rib<S> {
    /// All that is staged, to be written by [`Commit::run`]; `None` when
    /// nothing is, or while a commit is under way.
    pub fn poll_commit(&mut self) -> Option<Commit> {
        if self.under_way.is_some() {
            return None;
        }
        // Somebody waits to be shut out.
        if !self.staged_removals.is_empty() {
            let staged = mem::take(&mut self.staged_removals);
            let commit = Commit(Writes::Removals(staged.changes()));
            let (changes, moved) = (Arc::new(Vec::new()), Vec::new());
            self.under_way = Some(UnderWay { changes, moved, purpose: Purpose::Removals(staged) });
            return Some(commit);
        }
        if self.staged.is_empty() {
            return self
                .planned_sweep
                .take()
                .map(|(changes, next)| self.begin(changes, Vec::new(), Purpose::Sweep { next }));
        }
        // What was planned may be about entries that these orders change.
        self.planned_sweep = None;
        let mut staged = mem::take(&mut self.staged);
        if staged.entries.is_empty() {
            // Nothing but repetitions of what is durable already.
            self.stored(staged);
            return None;
        }
        let entries = mem::take(&mut staged.entries);
        let changes: Vec<Change> = entries
            .into_iter()
            .map(|(name, (before, after))| Change { name, before, after: Some(after) })
            .collect();
        let moved = self.moved(&changes, staged.now_s);
        Some(self.begin(changes, moved, Purpose::Orders(staged)))
    }

    fn begin(&mut self, changes: Vec<Change>, moved: Vec<Name>, purpose: Purpose) -> Commit {
        let changes = Arc::new(changes);
        self.under_way = Some(UnderWay { changes: changes.clone(), moved, purpose });
        Commit(Writes::Entries(changes))
    }

    /// Whether orders wait to be written, or anything is being written.
    pub(crate) fn is_writing(&self) -> bool {
        !self.staged.is_empty() || self.under_way.is_some() || self.planned_sweep.is_some()
    }

    /// The names among `changes` of which subscribers were told something that holds no longer, or
    /// may not have been told what has been there already.
    fn moved(&self, changes: &[Change], now_s: u64) -> Vec<Name> {
        let watched = changes.iter().filter(|change| self.subscriptions.has_any(&change.name));
        let differs = |change: &&Change| {
            let Change { before, after, .. } = change;
            if before.as_deref() == after.as_ref() {
                return true;
            }
            let before = before.as_ref().map(|entry| entry.standing(now_s)).unwrap_or_default();
            let after = after.as_ref().map(|entry| entry.standing(now_s)).unwrap_or_default();
            before != after
        };
        watched.filter(differs).map(|change| change.name).collect()
    }

    /// Takes back what became of a commit: its orders are answered,
    /// and what can be looked up is what it left.
    pub fn handle_committed(&mut self, committed: Committed) {
        let Some(UnderWay { changes, moved, purpose }) = self.under_way.take() else { return };
        let unwritten = committed.result.as_deref().unwrap_or_default();
        self.store.settle(&changes, committed.result.is_ok(), unwritten);
        self.doubt_overtaken(&changes);
        if committed.result.is_ok() {
            self.log_changes(&changes, unwritten);
        }
        match (committed.result, purpose) {
            (Ok(unwritten), Purpose::Orders(mut staged)) => {
                self.counters.commits += 1;
                if !unwritten.is_empty() {
                    self.refuse_unwritten(&mut staged, &unwritten);
                }
                self.stored(staged);
                self.note_committed(&changes);
                for name in moved {
                    self.push_to_subscribers(name);
                }
            }
            (Ok(_), Purpose::Sweep { next }) => {
                self.counters.commits += 1;
                self.counters.entries_swept += changes.len() as u64;
                self.swept_to = next;
            }
            (Ok(_), Purpose::Removals(staged)) => {
                self.counters.commits += 1;
                self.removals_committed(staged);
            }
            (Err(error), Purpose::Removals(staged)) => {
                let refusal = self.store_failed(error);
                self.refuse_removals(staged, refusal);
                self.refuse_staged(refusal);
            }
            (Err(error), Purpose::Sweep { .. }) => {
                let refusal = self.store_failed(error);
                self.refuse_staged(refusal);
            }
            (Err(error), Purpose::Orders(staged)) => {
                let refusal = self.store_failed(error);
                self.refuse_all(staged, refusal);
                self.refuse_staged(refusal);
            }
        }
    }

    /// Something newer stands where these names were to be written, of which nothing was known
    /// here; what was staged upon them falls with them.
    fn refuse_unwritten(&mut self, written: &mut Staged, names: &[Name]) {
        let mut refused = written.take_orders_of(names);
        refused.extend(self.staged.take_orders_of(names));
        for order in refused {
            self.refuse_order(order.id, order.request, Refusal::Superseded);
        }
    }

    fn refuse_staged(&mut self, refusal: Refusal) {
        let staged = mem::take(&mut self.staged);
        self.refuse_all(staged, refusal);
        let staged = mem::take(&mut self.staged_removals);
        self.refuse_removals(staged, refusal);
    }

    fn refuse_all(&mut self, staged: Staged, refusal: Refusal) {
        for order in staged.orders {
            self.refuse_order(order.id, order.request, refusal);
        }
    }

    pub(crate) fn refuse_order(&mut self, id: OrderId, request: RequestId, refusal: Refusal) {
        self.counters.count_refusal(refusal);
        let body = RibResponseBody::Refused(refusal);
        self.answers.push_back((id, RibResponse { id: request, body }));
    }

    pub(crate) fn refuse_superseded(
        &mut self,
        id: OrderId,
        request: RequestId,
        newer: Certificate,
    ) {
        self.counters.count_refusal(Refusal::Superseded);
        let body = RibResponseBody::Superseded(newer);
        self.answers.push_back((id, RibResponse { id: request, body }));
    }

    fn stored(&mut self, staged: Staged) {
        self.counters.publishes_stored += staged.orders.len() as u64;
        self.counters.statements_stored += staged.statements;
        self.counters.lists_stored += staged.lists;
        for order in staged.orders {
            let subscriber = Subscriber {
                name: order.publisher,
                payer: order.payer,
                max_answer_len: order.max_answer_len,
            };
            if let Some((name, server)) = order.serves
                && self.has_returned(server, order.now_s)
            {
                self.push_to_subscribers(name);
            }
            // Who publishes for a name hears when it moves elsewhere.
            for issuer in order.issuers {
                self.subscriptions.add(subscriber, issuer, order.now_s);
            }
            let response = RibResponse { id: order.request, body: RibResponseBody::Stored };
            self.answers.push_back((order.id, response));
        }
    }

    /// Whether a server that was gone is at a router again, or may be: told once.
    fn has_returned(&mut self, server: Name, now_s: u64) -> bool {
        let Ok(entry) = self.store.entry(&server) else { return true };
        let mut routes = entry.iter().flat_map(|entry| entry.routes(now_s));
        routes.any(|route| self.gone.take_returned(route))
    }

    /// Verifies what waits, makes all staged orders durable in one transaction and returns the
    /// answers, in the order in which they came about: for who has no other thread. Work is bounded
    /// by the requests handled since the last call.
    pub fn commit(&mut self) -> Vec<RibResponse> {
        self.work();
        std::iter::from_fn(|| self.poll_answer()).map(|(_, response)| response).collect()
    }

    /// Runs whatever there is to read, to verify and to commit.
    pub(crate) fn work(&mut self) {
        self.read_on();
        while let Some(verification) = self.poll_verification() {
            self.handle_verified(verification.run());
            self.read_on();
        }
        while let Some(commit) = self.poll_commit() {
            let committed = commit.run(self.store.store());
            self.handle_committed(committed);
        }
    }

    fn read_on(&mut self) {
        while let Some(read) = self.poll_read() {
            let answer = self.store.store().read(&read);
            self.handle_read(read, answer);
        }
    }

    /// The next answer to an order that was taken earlier.
    pub fn poll_answer(&mut self) -> Option<(OrderId, RibResponse)> {
        self.answers.pop_front()
    }

    /// Takes out what has expired from the next `budget` entries, in one transaction. Returns how
    /// many it looked at: fewer than `budget` at the end of the store, from where the next sweep
    /// begins again. Does nothing while orders are staged.
    pub fn sweep(&mut self, now_s: u64, budget: usize) -> usize {
        let seen = self.plan_sweep(now_s, budget);
        if let Some(commit) = self.poll_commit() {
            let committed = commit.run(self.store.store());
            self.handle_committed(committed);
        }
        seen
    }

    /// As [`Rib::sweep`], but what it would write is left to [`Rib::poll_commit`].
    pub fn plan_sweep(&mut self, now_s: u64, budget: usize) -> usize {
        if self.is_writing() {
            return 0;
        }
        if self.swept_to.is_none() {
            self.sweep_removals(now_s);
        }
        if self.store.store().awaited().is_some() {
            // What expires goes there by itself.
            return 0;
        }
        let entries = match self.store.entries_after(self.swept_to, budget) {
            Ok(entries) => entries,
            Err(error) => {
                if let RibError::DamagedEntry { name } = error {
                    // One damaged entry must not keep all others from the sweep.
                    self.swept_to = Some(name);
                }
                self.store_failed(error);
                return 0;
            }
        };
        let seen = entries.len();
        let next = entries.last().map(|(name, _)| *name).filter(|_| seen == budget);
        let changes: Vec<Change> = entries
            .into_iter()
            .filter_map(|(name, entry)| {
                let mut after = entry.clone();
                let is_past = entry.is_past(now_s);
                let is_smaller = is_past || after.trim(now_s);
                let after = Some(after).filter(|_| !is_past);
                is_smaller.then(|| Change { name, before: Some(Arc::new(entry)), after })
            })
            .collect();
        match changes.is_empty() {
            true => self.swept_to = next,
            false => self.planned_sweep = Some((changes, next)),
        }
        seen
    }
}

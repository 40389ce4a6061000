//! The directory's log of what it holds (`log`): told of each commit, made into heads beside the
//! signatures of others, and shown to whoever asks for a proof.
//!
//! 1. A directory that begins with names reads them all first, a page at a time, while it serves.
//! 2. Whatever a commit changes waits for the next head, which is made within a second or two by
//!    [`Verification::run`](super::verification::Verification), where signatures are checked.
//! 3. [`Rib::prove`] shows what the head says of a name. While a change of that name waits for the
//!    next head, it shows the head alone: so what it shows of a name is what it would answer.
//!
//! Proofs have a budget of their own, for each who asks and for all of a kind, so that a flood of
//! them takes nothing from look-ups.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_trust::{Identity, Now};
use rhumb_wire::Name;
use rhumb_wire::log::{Hash, Head, MapPath};
use rhumb_wire::rib::{Refusal, RequestId, RibResponse, RibResponseBody};

use super::verification::Task;
use super::{Asker, Outcome, Rib};
use crate::log::{Log, Made, Making};
use crate::share::Payer;
use crate::signatures::BudgetsWithin;
use crate::store::{Change, Store};
use crate::{DropReason, Entry, RibError};

/// The log, and what is to be done for it.
pub(crate) struct Logged {
    log: Log,
    begins: Begins,
    /// When more of that is read, or was to be read last.
    read_at: Instant,
    next: Option<Box<Making>>,
    budgets: BudgetsWithin,
}

/// How far what was held before the log began has been read.
enum Begins {
    After(Option<Name>),
    Done,
}

/// How a log is: for status and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogState {
    /// How many heads were made before the last one; nothing before the first.
    pub epoch: Option<u64>,
    /// How many names that one is of.
    pub names: u64,
    /// Bytes that the map takes.
    pub bytes: usize,
}

impl Logged {
    fn new(identity: Arc<Identity>, now: Now) -> Self {
        Self {
            log: Log::new(identity, now.unix_ms),
            begins: Begins::After(None),
            read_at: now.instant,
            next: None,
            budgets: BudgetsWithin::new(),
        }
    }

    /// When there is more to be read. Heads are made when anything happens, or with the next sweep.
    pub(crate) fn due(&self) -> Option<Instant> {
        matches!(self.begins, Begins::After(_)).then_some(self.read_at)
    }

    /// The next head to be made.
    pub(crate) fn take_next(&mut self) -> Option<Task> {
        self.next.take().map(Task::Head)
    }
}

impl<S: Store> Rib<S> {
    /// Keeps a log from now on, of all that it holds. Not over a store that others write, too.
    pub fn keep_log(&mut self, now: Now) {
        if self.config.keeps_log && self.store.store().awaited().is_none() {
            self.logged = Some(Box::new(Logged::new(self.identity.clone(), now)));
        }
    }

    /// How the log is, if there is one.
    pub fn log_state(&self) -> Option<LogState> {
        let log = &self.logged.as_ref()?.log;
        let epoch = log.head().map(|head| head.epoch);
        Some(LogState { epoch, names: log.names(), bytes: log.map_bytes() })
    }

    /// Tells the log what a commit has changed, but for what was not written.
    pub(crate) fn log_changes(&mut self, changes: &[Change], unwritten: &[Name]) {
        let Some(logged) = &mut self.logged else { return };
        for change in changes.iter().filter(|change| !unwritten.contains(&change.name)) {
            let held = change.after.iter().flat_map(Entry::statements);
            logged.log.note(change.name, held);
        }
    }

    /// Reads on what was there before the log, and begins the next head when it is time.
    pub(crate) fn advance_log(&mut self, now: Now) {
        let Some(logged) = &mut self.logged else { return };
        let Begins::After(after) = logged.begins else {
            if logged.next.is_none() {
                logged.next = logged.log.begin(now.unix_ms).map(Box::new);
            }
            return;
        };
        if logged.read_at > now.instant {
            return;
        }
        logged.read_at = now.instant + BETWEEN_PAGES;
        match self.store.entries_after(after, PAGE) {
            Ok(entries) => {
                let is_last = entries.len() < PAGE;
                let last = entries.last().map(|(name, _)| *name);
                for (name, entry) in &entries {
                    logged.log.begin_with(*name, entry.statements());
                }
                logged.begins = if is_last { Begins::Done } else { Begins::After(last) };
            }
            Err(error) => {
                // One damaged entry, which is not served either, keeps nothing else out.
                match error {
                    RibError::DamagedEntry { name } => logged.begins = Begins::After(Some(name)),
                    _ => logged.read_at = now.instant + AFTER_FAILURE,
                }
                self.store_failed(error);
            }
        }
    }

    /// A head was made.
    pub(crate) fn head_made(&mut self, made: Made) {
        let Some(logged) = &mut self.logged else { return };
        match logged.log.end(made) {
            Ok(()) => self.counters.heads_made += 1,
            Err(error) => self.last_error = Some(error.into()),
        }
    }

    /// Shows what the log says of a name.
    pub(crate) fn prove(
        &mut self,
        asker: &Asker,
        id: RequestId,
        name: Name,
        now_s: u64,
    ) -> Outcome {
        let Some(head) = self.logged.as_ref().and_then(|logged| logged.log.head()).copied() else {
            return self.refuse(id, Refusal::NoLog);
        };
        if !self.may_prove(asker, now_s) {
            return self.dropped(DropReason::OverBudget);
        }
        let entry = match self.store.entry(&name) {
            Ok(entry) => entry,
            Err(error) => {
                let refusal = self.store_failed(error);
                return self.refuse(id, refusal);
            }
        };
        let held = entry.iter().flat_map(|entry| entry.statements());
        let room = asker.max_answer_len.min(self.config.max_answer_len);
        let fits = |path: &MapPath| PROOF_HEAD_LEN + path.emitted_len() <= room;
        let path = self.logged.as_ref().and_then(|it| it.log.path(&name, held)).filter(fits);
        self.counters.proofs_shown += 1;
        Outcome::Answer(RibResponse { id, body: RibResponseBody::Proof { head, path } })
    }

    /// Shows that one head is among those before another one.
    pub(crate) fn show_way_back(
        &mut self,
        asker: &Asker,
        id: RequestId,
        (began_ms, from, to): (u64, u64, u64),
        now_s: u64,
    ) -> Outcome {
        if self.logged.is_some() && !self.may_prove(asker, now_s) {
            return self.dropped(DropReason::OverBudget);
        }
        let log = self.logged.as_ref().map(|it| &it.log).filter(|it| it.began_ms() == began_ms);
        let way: Option<Vec<Hash>> = log.and_then(|log| log.way_back(from, to));
        match way {
            Some(way) => Outcome::Answer(RibResponse { id, body: RibResponseBody::WayBack(way) }),
            None => self.refuse(id, Refusal::NoLog),
        }
    }

    fn may_prove(&mut self, asker: &Asker, now_s: u64) -> bool {
        let payer = Payer::of(asker);
        self.logged.as_mut().is_some_and(|logged| {
            logged.budgets.take(payer, PROOFS_PER_ASKER_PER_S, PROOFS_PER_S, now_s)
        })
    }
}

/// Entries read at once while a log begins: some 2 ms, as a part of a sweep.
const PAGE: usize = 256;
/// As long again: half of a thread, so that whoever asks meanwhile waits little.
const BETWEEN_PAGES: Duration = Duration::from_millis(2);
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// What stands before the way in an answer: kind, identifier, head.
const PROOF_HEAD_LEN: usize = 5 + Head::LEN;
/// A router that looks up 6,000 names in a second has one in 64 of them proven.
const PROOFS_PER_ASKER_PER_S: u32 = 100;
/// At about 10 µs each, a hundredth of a core.
const PROOFS_PER_S: u32 = 1000;

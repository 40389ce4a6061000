//! The directory itself: requests in, answers out. No sockets, no clock, no threads.
//!
//! 1. [`Rib::handle_request`] answers look-ups at once, from what is committed, and stages orders to publish.
//! 2. [`Rib::commit`], once per batch of requests, makes all staged orders durable and answers them.
//! 3. [`Rib::sweep`], now and then, takes out what has expired.
//!
//! INVARIANT: whatever was acknowledged as stored, or something newer by the same issuer, is found until it expires, also
//! after the process was killed.

use std::sync::Arc;

use rhumb_trust::Identity;
use rhumb_wire::rib::{
    Refusal, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody,
};
use rhumb_wire::{Metadata, Name};

use crate::RibError;
use crate::absence::Absences;
use crate::allowance::Allowance;
use crate::config::Config;
use crate::counters::{Counters, DropReason};
use crate::generations::Generations;
use crate::lookup::Trail;
use crate::publish::Staged;
use crate::store::{Cached, Change, Store};

/// A directory of verified routes over a store.
pub struct Rib<S> {
    pub(crate) identity: Arc<Identity>,
    pub(crate) config: Config,
    pub(crate) store: Cached<S>,
    pub(crate) staged: Staged,
    pub(crate) absences: Absences,
    pub(crate) counters: Counters,
    pub(crate) last_error: Option<RibError>,
    askers: Generations<Name, Allowance>,
    swept_to: Option<Name>,
}

/// Who asks, as its session proved, and how much data it can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// Its name.
    pub name: Name,
    /// Most bytes of data in an answer; the configured bound holds besides.
    pub max_answer_len: usize,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The answer.
    Answer(RibResponse),
    /// An order that is good, to be answered by the next [`Rib::commit`].
    Staged,
    /// No answer.
    Dropped(DropReason),
}

impl<S: Store> Rib<S> {
    /// A directory that signs absences as `identity`.
    pub fn new(identity: Arc<Identity>, store: S, config: Config) -> Self {
        Self {
            store: Cached::new(store, config.cached_entries),
            absences: Absences::new(config.cached_absences),
            askers: Generations::new(ASKERS),
            staged: Staged::default(),
            counters: Counters::default(),
            last_error: None,
            swept_to: None,
            identity,
            config,
        }
    }

    /// The directory's own name.
    pub fn name(&self) -> Name {
        self.identity.name()
    }

    /// Serves the data of one `RibRequest` PDU from `asker`. Bounded by the reads of one chain, or the verification of
    /// one.
    pub fn handle_request(&mut self, asker: Asker, data: &[u8], now_s: u64) -> Outcome {
        let Ok(RibRequest { id, body }) = RibRequest::parse(data) else {
            return self.refuse_malformed(data);
        };
        match body {
            RibRequestBody::LookUpRoute(name) => self.look_up_route(asker, id, name, now_s),
            RibRequestBody::LookUpMetadata(name) => self.look_up_metadata(asker, id, name, now_s),
            RibRequestBody::Publish { metadata, certificates } => {
                match self.stage(&asker, id, metadata, certificates, now_s) {
                    Ok(()) => Outcome::Staged,
                    Err(refusal) => self.refuse(id, refusal),
                }
            }
        }
    }

    /// Takes out what has expired from the next `budget` entries, in one transaction. Returns how many it looked at: fewer
    /// than `budget` at the end of the store, from where the next sweep begins again. Does nothing while orders are staged.
    pub fn sweep(&mut self, now_s: u64, budget: usize) -> usize {
        if !self.staged.is_empty() {
            return 0;
        }
        let entries = match self.store.store().entries_after(self.swept_to, budget) {
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
        let last = entries.last().map(|(name, _)| *name);
        let changes: Vec<Change> = entries
            .into_iter()
            .filter_map(|(name, mut entry)| match entry.is_past(now_s) {
                true => Some((name, None)),
                false => entry.trim(now_s).then_some((name, Some(entry))),
            })
            .collect();
        let swept = changes.len() as u64;
        if swept > 0 {
            if let Err(error) = self.store.commit(changes) {
                self.store_failed(error);
                return seen;
            }
            self.counters.commits += 1;
            self.counters.entries_swept += swept;
        }
        self.swept_to = last.filter(|_| seen == budget);
        seen
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many names have an entry, those only remembered included.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn stored_names(&mut self) -> Result<u64, RibError> {
        self.store.store().names()
    }

    /// The last failure of the store or of signing, once: for the log. The requests concerned were refused or dropped.
    pub fn poll_error(&mut self) -> Option<RibError> {
        self.last_error.take()
    }

    /// Gives the store back; staged orders are lost, as none of them was acknowledged.
    pub fn into_store(self) -> S {
        self.store.into_store()
    }

    fn look_up_route(&mut self, asker: Asker, id: RequestId, name: Name, now_s: u64) -> Outcome {
        let max_answer_len = asker.max_answer_len.min(self.config.max_answer_len);
        let trail = match Trail::follow(&mut self.store, name, max_answer_len, now_s) {
            Ok(trail) => trail,
            Err(error) => {
                let refusal = self.store_failed(error);
                return self.refuse(id, refusal);
            }
        };
        if !trail.certificates.is_empty() {
            return self.found(RibResponse {
                id,
                body: RibResponseBody::Found {
                    name,
                    metadata: trail.metadata,
                    certificates: trail.certificates,
                },
            });
        }
        // Who asks holds a session with us, and needs no route; so what we know of ourselves is not an absence.
        if name == self.name() {
            return self.found_metadata(id, name, (**self.identity.metadata()).clone());
        }
        self.absent(asker, id, name, now_s)
    }

    fn look_up_metadata(&mut self, asker: Asker, id: RequestId, name: Name, now_s: u64) -> Outcome {
        if name == self.name() {
            return self.found_metadata(id, name, (**self.identity.metadata()).clone());
        }
        match self.store.entry(&name) {
            Ok(Some(entry)) => self.found_metadata(id, name, entry.metadata().clone()),
            Ok(None) => self.absent(asker, id, name, now_s),
            Err(error) => {
                let refusal = self.store_failed(error);
                self.refuse(id, refusal)
            }
        }
    }

    fn found_metadata(&mut self, id: RequestId, name: Name, metadata: Metadata) -> Outcome {
        let (metadata, certificates) = (vec![metadata], Vec::new());
        self.found(RibResponse {
            id,
            body: RibResponseBody::Found { name, metadata, certificates },
        })
    }

    fn found(&mut self, response: RibResponse) -> Outcome {
        self.counters.lookups_found += 1;
        Outcome::Answer(response)
    }

    fn absent(&mut self, asker: Asker, id: RequestId, name: Name, now_s: u64) -> Outcome {
        let certificate = match self.absences.recent(&name, now_s) {
            Some(certificate) => certificate.clone(),
            None => {
                let within = self.may_cause(asker.name, 1, now_s)
                    && self.absences.may_sign(self.config.absences_per_s, now_s);
                if !within {
                    return self.dropped(DropReason::OverBudget);
                }
                match self.absences.sign(&self.identity, name, now_s) {
                    Ok(certificate) => {
                        self.counters.absences_signed += 1;
                        certificate
                    }
                    Err(error) => {
                        self.last_error = Some(error.into());
                        return self.dropped(DropReason::SigningFailed);
                    }
                }
            }
        };
        self.counters.lookups_absent += 1;
        Outcome::Answer(RibResponse { id, body: RibResponseBody::Absent(certificate) })
    }

    /// Whether `asker` may cause so many more signatures to be made or verified in this second.
    pub(crate) fn may_cause(&mut self, asker: Name, signatures: u32, now_s: u64) -> bool {
        let per_s = self.config.signatures_per_asker_per_s;
        if let Some(allowance) = self.askers.get_mut(&asker) {
            return allowance.take(signatures, per_s, now_s);
        }
        let mut allowance = Allowance::default();
        let within = allowance.take(signatures, per_s, now_s);
        self.askers.insert(asker, allowance);
        within
    }

    /// Refuses what cannot be read, if at least it can be told which request that was.
    fn refuse_malformed(&mut self, data: &[u8]) -> Outcome {
        match data.get(1..).and_then(|rest| rest.first_chunk()) {
            Some(id) => self.refuse(RequestId(u32::from_be_bytes(*id)), Refusal::Malformed),
            None => self.dropped(DropReason::UnreadableRequest),
        }
    }

    fn refuse(&mut self, id: RequestId, refusal: Refusal) -> Outcome {
        self.counters.count_refusal(refusal);
        Outcome::Answer(RibResponse { id, body: RibResponseBody::Refused(refusal) })
    }

    fn dropped(&mut self, reason: DropReason) -> Outcome {
        self.counters.count_drop(reason);
        Outcome::Dropped(reason)
    }
}

/// Askers whose allowance is kept. One that was forgotten has a fresh allowance, but for that as many others must have
/// held a session in the same second; a handshake costs them more than it gains them.
const ASKERS: usize = 1 << 14;

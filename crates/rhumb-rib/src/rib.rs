//! The directory itself: requests in, answers out. No sockets, no clock, no threads.
//!
//! 1. [`Rib::handle_request`] answers look-ups at once, from what
//!    is committed, and takes orders to publish.
//! 2. [`Rib::poll_verification`] and [`Rib::poll_commit`] hand out what takes time, to be run on
//!    other threads and given back; [`Rib::poll_answer`] then says what becomes of each order.
//!    [`Rib::commit`] does all of it on this thread.
//! 3. [`Rib::poll_change`] says what to tell those who
//!    were answered something that holds no longer.
//! 4. [`Rib::sweep`], now and then, takes out what has expired.
//!
//! INVARIANT: whatever was acknowledged as stored, or something newer by the same issuer, is found
//! until it expires, also after the process was killed.

mod climb;
pub(crate) mod commit;
pub(crate) mod logged;
mod parked;
mod pass_up;
mod place;
pub(crate) mod publish;
pub(crate) mod published;
mod reach;
pub(crate) mod remove;
pub(crate) mod verification;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use rhumb_directory::Question;
use rhumb_link::Source;
use rhumb_trust::{Access, Identity, Now, Removals, Standing, Who};
use rhumb_wire::rib::{
    Refusal, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody,
};
use rhumb_wire::{Metadata, Name, Statement};

use self::commit::{Staged, StagedRemovals, UnderWay};
use self::logged::Logged;
use self::parked::Parked;
use self::publish::NotTaken;
pub(crate) use self::reach::Reach;
use self::remove::{REMOVALS, is_removal};
use self::verification::Task;
use crate::absence::Absences;
use crate::admission::{Admission, RefusedAsker};
use crate::beyond::Beyond;
use crate::config::Config;
use crate::counters::{Counters, DropReason};
use crate::gone::Gone;
use crate::limits::NameLimits;
use crate::lookup::Trail;
use crate::pushes::{Due, Pushes, Target};
use crate::removals::Book;
use crate::share::Payer;
use crate::signatures::{Budgets, Forgeries, Waiting};
use crate::store::{Cached, Change, Store};
use crate::subscriptions::{Bounds, Subscriber, Subscriptions};
use crate::{Held, RibError};

/// A directory of verified routes over a store.
pub struct Rib<S> {
    pub(crate) identity: Arc<Identity>,
    pub(crate) admission: Admission,
    pub(crate) config: Config,
    pub(crate) store: Cached<S>,
    pub(crate) verifications: Waiting<Task>,
    pub(crate) order_budgets: Budgets,
    pub(crate) forgeries: Forgeries,
    pub(crate) verifications_under_way: usize,
    pub(crate) staged: Staged,
    pub(crate) staged_removals: StagedRemovals,
    pub(crate) under_way: Option<UnderWay>,
    /// Names of commits that others changed in the meantime, and when they did, in seconds.
    pub(crate) overtaken: HashMap<Name, u64>,
    /// What a sweep will write, and where the next one begins.
    pub(crate) planned_sweep: Option<(Vec<Change>, Option<Name>)>,
    pub(crate) swept_to: Option<Name>,
    pub(crate) answers: VecDeque<(OrderId, RibResponse)>,
    pub(crate) next_order: u64,
    /// What waits for a store that is elsewhere.
    pub(crate) parked: Parked,
    /// What is taken up of it just now.
    pub(crate) taken_up: Option<OrderId>,
    /// The domain around, if there is one.
    pub(crate) beyond: Option<Box<Beyond>>,
    /// The domains beside its own, if there are any.
    pub(crate) reach: Option<Box<Reach>>,
    /// The log of what it holds, if it keeps one.
    pub(crate) logged: Option<Box<Logged>>,
    /// Whose turn it is to be verified.
    pub(crate) told_is_next: bool,
    /// Those that wait for an answer and get none.
    pub(crate) abandoned: Vec<OrderId>,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) gone: Gone,
    pub(crate) pushes: Pushes,
    /// Who is a member no longer.
    pub(crate) removals: Book,
    pub(crate) has_new_removals: bool,
    pub(crate) absences: Absences,
    pub(crate) counters: Counters,
    pub(crate) last_error: Option<RibError>,
}

/// Tells an order that was taken from all others of this directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OrderId(pub(crate) u64);

/// A change to tell a subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// Who is told.
    pub asker: Name,
    /// What.
    pub response: RibResponse,
}

/// Who asks, as its session proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// Its name.
    pub name: Name,
    /// Most bytes of data in an answer; the configured bound holds besides.
    pub max_answer_len: usize,
    /// Where its session comes from.
    pub source: Source,
    /// How it is treated.
    pub standing: Standing,
    /// How many names it may have, where its domain says so.
    pub limits: NameLimits,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "most are answers, and each is moved once")]
pub enum Outcome {
    /// The answer.
    Answer(RibResponse),
    /// An order that may be good, to be answered by [`Rib::commit`] or [`Rib::poll_answer`]; or a
    /// look-up that was handed on to the domain around, to be answered by the latter, unless
    /// [`Rib::poll_abandoned`] says that it is not.
    Staged(OrderId),
    /// Something that wants no answer.
    Noted,
    /// No answer.
    Dropped(DropReason),
}

/// How full a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// What entries of the admitted take.
    pub admitted: Held,
    /// What entries of strangers take.
    pub strangers: Held,
    /// What all together may take.
    pub bound: Held,
    /// What strangers may take of that.
    pub strangers_bound: Held,
}

impl Asker {
    /// A stranger, at an address that follows from its name: for tests.
    pub const fn stranger(name: Name, max_answer_len: usize) -> Self {
        let Name([a, b, c, d, ..]) = name;
        let source = Source::V4([a, b, c, d]);
        let (standing, limits) = (Standing::Stranger, NameLimits::NONE);
        Self { name, max_answer_len, source, standing, limits }
    }

    /// Somebody who was admitted, there: for tests.
    pub const fn admitted(name: Name, max_answer_len: usize) -> Self {
        Self { standing: Standing::Admitted, ..Self::stranger(name, max_answer_len) }
    }

    fn subscriber(&self) -> Subscriber {
        let Self { name, max_answer_len, .. } = *self;
        Subscriber { name, max_answer_len, payer: Payer::of(self) }
    }
}

impl<S: Store> Rib<S> {
    /// A directory that signs absences as `identity`.
    pub fn new(identity: Arc<Identity>, store: S, mut config: Config) -> Self {
        // Nobody else's, of whom the configuration was copied.
        config.access.removals = Removals::default();
        let mut rib = Self {
            store: Cached::new(store, config.cached_entries, config.cached_bytes),
            absences: Absences::new(config.cached_absences),
            verifications: Waiting::default(),
            order_budgets: Budgets::new(),
            forgeries: Forgeries::new(),
            verifications_under_way: 0,
            staged: Staged::default(),
            staged_removals: StagedRemovals::default(),
            under_way: None,
            overtaken: HashMap::new(),
            planned_sweep: None,
            swept_to: None,
            answers: VecDeque::new(),
            next_order: 0,
            parked: Parked::default(),
            taken_up: None,
            beyond: None,
            reach: None,
            logged: None,
            told_is_next: false,
            abandoned: Vec::new(),
            subscriptions: Subscriptions::new(Bounds {
                known_per_asker: config.max_subscriptions_per_asker,
                absent_per_asker: config.max_absent_subscriptions_per_asker,
                total: config.max_subscriptions,
            }),
            gone: Gone::default(),
            pushes: Pushes::default(),
            removals: Book::default(),
            has_new_removals: false,
            counters: Counters::default(),
            last_error: None,
            admission: Admission::new(config.access.clone()),
            identity,
            config,
        };
        rib.recall_removals();
        rib
    }

    /// Goes to the RIBs of the domain around, and of domains beside, from now on, if there are any.
    pub fn look_beyond(&mut self, now: Instant) {
        let Some(domain) = self.config.domain else { return };
        let has_neighbours = !self.config.neighbours.is_empty();
        if has_neighbours || !self.config.parents.is_empty() {
            self.beyond = Some(Box::new(Beyond::new(&self.config, now)));
        }
        if has_neighbours {
            self.reach = Some(Box::new(Reach::new(domain, &self.config, now)));
        }
    }

    /// The directory's own name.
    pub fn name(&self) -> Name {
        self.identity.name()
    }

    /// Serves the data of one `RibRequest` PDU from `asker`. Bounded by the reads of one chain, or
    /// one signature of an absence.
    pub fn handle_request(&mut self, asker: Asker, data: &[u8], now_s: u64) -> Outcome {
        self.want_missed();
        let outcome = self.run_request(asker, data, now_s);
        match self.store.has_missed() {
            true => self.park_request(asker, data, now_s),
            false => outcome,
        }
    }

    /// Has what is known of these names, and what `asker` was told of them, come near: it asks for
    /// them next, [`READ_AHEAD`](crate::spread::READ_AHEAD) at most.
    pub(crate) fn read_ahead(&self, asker: &Name, names: &[Name]) {
        self.store.read_ahead(names);
        self.subscriptions.read_ahead(asker, names);
    }

    fn run_request(&mut self, asker: Asker, data: &[u8], now_s: u64) -> Outcome {
        let Ok(RibRequest { id, body }) = RibRequest::parse(data) else {
            return self.refuse_malformed(data);
        };
        if let Some(outcome) = self.answer_outside(&asker, id, &body, now_s) {
            return outcome;
        }
        if asker.standing == Standing::Refused && !is_its_removal(&body, &asker) {
            let refusal = Refusal::NotAuthorised;
            self.admission.note_refused(asker.source, asker.name, refusal, now_s);
            return match body {
                RibRequestBody::Acknowledge | RibRequestBody::Gone { .. } => {
                    self.dropped(DropReason::NotAuthorised)
                }
                _ => self.refuse(id, Refusal::NotAuthorised),
            };
        }
        match body {
            RibRequestBody::LookUpRoute(name) => self.look_up_way(asker, id, (name, 0), now_s),
            RibRequestBody::LookUpWay { name, number } => {
                self.look_up_way(asker, id, (name, number), now_s)
            }
            RibRequestBody::LookUpMetadata(name) => self.look_up_metadata(asker, id, name, now_s),
            RibRequestBody::LookUpExport(name) => self.look_up_export(asker, id, name, now_s),
            RibRequestBody::LookUpAddress(beginning) => {
                self.look_up_address(asker, id, beginning, now_s)
            }
            // It is answered above.
            RibRequestBody::Domains { .. } => self.refuse(id, Refusal::NotAuthorised),
            RibRequestBody::Publish { metadata, certificates } => {
                let taken = match is_removal(&certificates) {
                    true => self.take_removal(&asker, id, (metadata, certificates), now_s),
                    false => self.take_order(asker, id, metadata, certificates, now_s),
                };
                self.outcome_of(id, taken)
            }
            RibRequestBody::PublishNames { metadata, published } => {
                let taken = self.take_names(asker, id, metadata, published, now_s);
                self.outcome_of(id, taken)
            }
            RibRequestBody::LookUpNames(owner) => self.look_up_names(asker, id, owner, now_s),
            RibRequestBody::Prove(name) => self.prove(&asker, id, name, now_s),
            RibRequestBody::WayBack { began_ms, from, to } => {
                self.show_way_back(&asker, id, (began_ms, from, to), now_s)
            }
            RibRequestBody::WhichStore => {
                let body = RibResponseBody::Store(self.config.store);
                Outcome::Answer(RibResponse { id, body })
            }
            RibRequestBody::Gone { name, sequence } => {
                self.note_gone(&asker, name, sequence, now_s)
            }
            RibRequestBody::Removals(since) => {
                let max_answer_len = asker.max_answer_len.min(self.config.max_answer_len);
                let (store, payer) = (self.config.store, Payer::of(&asker));
                let (to, removals) =
                    self.removals.answer(asker.name, payer, max_answer_len, since, store);
                let body = RibResponseBody::Removals { to, removals };
                Outcome::Answer(RibResponse { id, body })
            }
            RibRequestBody::Acknowledge => {
                if !self.pushes.acknowledge(&asker.name, id) {
                    return self.dropped(DropReason::UnexpectedAcknowledgement);
                }
                self.counters.changes_acknowledged += 1;
                Outcome::Noted
            }
        }
    }

    /// What whoever brought an order is told at once.
    fn outcome_of(&mut self, id: RequestId, taken: Result<OrderId, NotTaken>) -> Outcome {
        match taken {
            Ok(order) => Outcome::Staged(order),
            Err(NotTaken::Refused(refusal)) => self.refuse(id, refusal),
            Err(NotTaken::Superseded(newer)) => {
                self.counters.count_refusal(Refusal::Superseded);
                Outcome::Answer(RibResponse { id, body: RibResponseBody::Superseded(*newer) })
            }
            Err(NotTaken::Dropped(reason)) => self.dropped(reason),
        }
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
        self.store.names()
    }

    /// The last failure of the store or of signing, once: for the log. The
    /// requests concerned were refused or dropped.
    pub fn poll_error(&mut self) -> Option<RibError> {
        self.last_error.take()
    }

    /// Gives the store back; staged orders are lost, as none of them was acknowledged.
    pub fn into_store(self) -> S {
        self.store.into_store()
    }

    /// The next change to tell a subscriber, until it is
    /// acknowledged. No more than a few hundred at once.
    pub fn poll_change(&mut self, now: Now) -> Option<Push> {
        loop {
            let (id, Target { asker, subject }) = match self.pushes.poll(now.instant)? {
                Due::Send(id, target) => (id, target),
                Due::GivenUp => {
                    self.counters.changes_given_up += 1;
                    continue;
                }
            };
            let news = match subject == REMOVALS {
                true => self.removals_for(&asker),
                false => self.change_for(&asker, subject, now.unix_s()),
            };
            match news {
                Some(body) => {
                    self.counters.changes_sent += 1;
                    return Some(Push { asker, response: RibResponse { id, body } });
                }
                // It is said as soon as it is at hand.
                None if self.store.has_missed() => self.pushes.hurry(id, now.instant),
                None => self.pushes.end(id),
            }
        }
    }

    /// When [`Rib::poll_change`] may have something, or [`Rib::advance`] something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let log = self.logged.as_ref().and_then(|logged| logged.due());
        self.pushes.poll_timeout().into_iter().chain(log).chain(self.subscriptions.due()).min()
    }

    /// What bounds it.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How the end of a session is treated.
    pub fn standing(&self, who: &Who<'_>) -> Standing {
        self.admission.asker(who)
    }

    /// Whom it serves from now on. What is stored stays until it expires, whoever brought it; and
    /// who was removed stays removed.
    pub fn set_access(&mut self, access: Access) {
        let access = Access { removals: self.access().removals.clone(), ..access };
        self.config.access = access.clone();
        self.admission.set_access(access);
    }

    /// Whom it serves.
    pub fn access(&self) -> &Access {
        self.admission.access()
    }

    /// Who was refused lately, one for each source.
    pub fn refused(&self) -> impl Iterator<Item = RefusedAsker> {
        self.admission.refused()
    }

    /// How many subscriptions there are, with those of sessions that ended just now.
    pub fn subscriptions(&self) -> usize {
        self.subscriptions.len()
    }

    /// Forgets what an asker is subscribed to: its session ended.
    pub fn forget_asker(&mut self, asker: &Name) {
        self.subscriptions.forget(asker);
        self.removals.forget_asker(asker);
    }

    /// Whoever was told something about `name` will be told
    /// what holds now, but for who brought it about.
    pub(crate) fn push_to_subscribers(&mut self, subject: Name) {
        let publisher = self.store.entry(&subject).ok().flatten().map(|entry| entry.publisher());
        for (asker, payer) in self.subscriptions.askers_of(&subject) {
            if Some(asker) != publisher {
                self.pushes.start(Target { asker, subject }, payer);
            }
        }
    }

    /// What `asker` is told of who was removed.
    fn removals_for(&self, asker: &Name) -> Option<RibResponseBody> {
        let (to, removals) = self.removals.news(asker, self.config.store)?;
        Some(RibResponseBody::Removals { to, removals })
    }

    /// What `asker` is told about `subject`: the chain from it outward, or its withdrawal.
    fn change_for(&mut self, asker: &Name, subject: Name, now_s: u64) -> Option<RibResponseBody> {
        let subscriber = self.subscriptions.subscriber(asker, &subject, now_s)?;
        let max_answer_len = subscriber.max_answer_len.min(self.config.max_answer_len);
        let here = (self.config.domain, &self.gone);
        let trail = Trail::follow(&mut self.store, here, (subject, 0), max_answer_len, now_s);
        let Trail { metadata, certificates } = match trail {
            Ok(trail) => trail,
            Err(error) => {
                self.store_failed(error);
                return None;
            }
        };
        let change = match certificates.is_empty() {
            false => {
                Some(RibResponseBody::Changed { name: subject, level: 0, metadata, certificates })
            }
            true => self.change_beyond(subject, max_answer_len, now_s),
        };
        if let Some(RibResponseBody::Changed { certificates, .. }) = &change {
            // Who asked when there was nothing to tell hears from now on as if it asked now.
            self.subscriptions.add_issuers(subscriber, certificates, now_s);
            return change;
        }
        let entry = self.store.entry(&subject).ok().flatten()?;
        let withdrawal = entry.withdrawal(now_s)?.clone();
        Some(RibResponseBody::Changed {
            name: subject,
            level: 0,
            metadata: vec![entry.metadata().clone()],
            certificates: vec![withdrawal],
        })
    }

    /// A router says that a name is not there any more, which the name's own route leads to it; or
    /// that one of several servers of a name is not, of which it has said that.
    fn note_gone(&mut self, asker: &Asker, name: Name, sequence: u64, now_s: u64) -> Outcome {
        let entry = self.store.entry(&name).ok().flatten();
        let route = entry.and_then(|entry| {
            entry.routes(now_s).find(|route| route.sequence == sequence).cloned()
        });
        match route.map(|route| route.statement) {
            Some(Statement::Route { via, .. }) if via == asker.name => {
                self.gone.note(name, sequence);
                Outcome::Noted
            }
            Some(Statement::Service { server, several: true })
                if self.is_gone_from(server, asker.name, now_s) =>
            {
                self.push_to_subscribers(name);
                Outcome::Noted
            }
            _ => self.dropped(DropReason::NotAuthorised),
        }
    }

    /// Whether a server is not at this router any more, by the router's word.
    fn is_gone_from(&mut self, server: Name, router: Name, now_s: u64) -> bool {
        let entry = self.store.entry(&server).ok().flatten();
        entry.is_some_and(|entry| {
            let mut routes = entry.routes(now_s);
            routes.any(|it| it.statement.hands_on_to() == Some(router) && self.gone.contains(it))
        })
    }

    /// The way of this number to a name.
    fn look_up_way(
        &mut self,
        asker: Asker,
        id: RequestId,
        (name, number): (Name, u8),
        now_s: u64,
    ) -> Outcome {
        let max_answer_len = asker.max_answer_len.min(self.config.max_answer_len);
        let here = (self.config.domain, &self.gone);
        let trail = Trail::follow(&mut self.store, here, (name, number), max_answer_len, now_s);
        let trail = match trail {
            Ok(trail) => trail,
            Err(error) => {
                let refusal = self.store_failed(error);
                return self.refuse(id, refusal);
            }
        };
        if trail.is_way() {
            return self.found_trail(asker, id, name, trail, now_s);
        }
        // Who asks holds a session with us, and needs no route; so
        // what we know of ourselves is not an absence.
        if name == self.name() {
            return self.found_metadata(id, name, (**self.identity.metadata()).clone());
        }
        self.climb(asker, id, Question::way(name, number), now_s)
    }

    /// By which certificates a name is known outside of this directory's domain.
    fn look_up_export(&mut self, asker: Asker, id: RequestId, name: Name, now_s: u64) -> Outcome {
        let max_answer_len = asker.max_answer_len.min(self.config.max_answer_len);
        let Some(domain) = self.config.domain else {
            return self.absent(asker, id, name, now_s);
        };
        match Trail::exports(&mut self.store, domain, name, max_answer_len, now_s) {
            Ok(trail) if trail.certificates.is_empty() => match self.evidence_of(name, now_s) {
                Some((metadata, certificates)) => {
                    let trail = Trail { metadata, certificates }.cut(max_answer_len);
                    self.found_trail(asker, id, name, trail, now_s)
                }
                None => self.absent(asker, id, name, now_s),
            },
            Ok(trail) => self.found_trail(asker, id, name, trail, now_s),
            Err(error) => {
                let refusal = self.store_failed(error);
                self.refuse(id, refusal)
            }
        }
    }

    fn found_trail(
        &mut self,
        asker: Asker,
        id: RequestId,
        name: Name,
        trail: Trail,
        now_s: u64,
    ) -> Outcome {
        self.subscriptions.add_issuers(asker.subscriber(), &trail.certificates, now_s);
        let Trail { metadata, certificates } = trail;
        let body = RibResponseBody::Found { name, level: 0, metadata, certificates };
        self.found(RibResponse { id, body })
    }

    fn look_up_metadata(&mut self, asker: Asker, id: RequestId, name: Name, now_s: u64) -> Outcome {
        if name == self.name() {
            return self.found_metadata(id, name, (**self.identity.metadata()).clone());
        }
        match self.store.entry(&name) {
            Ok(Some(entry)) => {
                self.subscriptions.add(asker.subscriber(), name, now_s);
                self.found_metadata(id, name, entry.metadata().clone())
            }
            Ok(None) => self.climb(asker, id, Question::Metadata(name), now_s),
            Err(error) => {
                let refusal = self.store_failed(error);
                self.refuse(id, refusal)
            }
        }
    }

    /// As a look-up of metadata, by the beginning of a name. It is for this RIB's own names: the
    /// domain around is not asked.
    fn look_up_address(
        &mut self,
        asker: Asker,
        id: RequestId,
        beginning: [u8; Name::ADDRESS_LEN],
        now_s: u64,
    ) -> Outcome {
        if self.name().beginning() == beginning {
            return self.look_up_metadata(asker, id, self.name(), now_s);
        }
        match self.store.first_with(beginning) {
            Ok(Some(name)) => self.look_up_metadata(asker, id, name, now_s),
            Ok(None) => self.absent(asker, id, Name::first_of(beginning), now_s),
            Err(error) => {
                let refusal = self.store_failed(error);
                self.refuse(id, refusal)
            }
        }
    }

    pub(crate) fn found_metadata(
        &mut self,
        id: RequestId,
        name: Name,
        metadata: Metadata,
    ) -> Outcome {
        let (metadata, certificates) = (vec![metadata], Vec::new());
        self.found(RibResponse {
            id,
            body: RibResponseBody::Found { name, level: 0, metadata, certificates },
        })
    }

    pub(crate) fn found(&mut self, response: RibResponse) -> Outcome {
        self.counters.lookups_found += 1;
        Outcome::Answer(response)
    }

    pub(crate) fn absent(
        &mut self,
        asker: Asker,
        id: RequestId,
        name: Name,
        now_s: u64,
    ) -> Outcome {
        let certificate = match self.absences.recent(&name, now_s) {
            Some(certificate) => certificate.clone(),
            None => {
                let Config { absences_per_asker_per_s, absences_per_s, .. } = self.config;
                let (payer, each, all) =
                    (Payer::of(&asker), absences_per_asker_per_s, absences_per_s);
                if !self.absences.may_sign(payer, each, all, now_s) {
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
        self.subscriptions.add_absent(asker.subscriber(), name, now_s);
        Outcome::Answer(RibResponse { id, body: RibResponseBody::Absent(certificate) })
    }

    /// Refuses what cannot be read, if at least it can be told which request that was.
    fn refuse_malformed(&mut self, data: &[u8]) -> Outcome {
        match data.get(1..).and_then(|rest| rest.first_chunk()) {
            Some(id) => self.refuse(RequestId(u32::from_be_bytes(*id)), Refusal::Malformed),
            None => self.dropped(DropReason::UnreadableRequest),
        }
    }

    pub(crate) fn refuse(&mut self, id: RequestId, refusal: Refusal) -> Outcome {
        if !self.store.has_missed() {
            self.counters.count_refusal(refusal);
        }
        Outcome::Answer(RibResponse { id, body: RibResponseBody::Refused(refusal) })
    }

    pub(crate) fn dropped(&mut self, reason: DropReason) -> Outcome {
        if !self.store.has_missed() {
            self.counters.count_drop(reason);
        }
        Outcome::Dropped(reason)
    }
}

/// Whether this is a removal by who brings it.
fn is_its_removal(body: &RibRequestBody, asker: &Asker) -> bool {
    match body {
        RibRequestBody::Publish { certificates, .. } => {
            is_removal(certificates)
                && certificates.last().is_some_and(|it| it.issuer == asker.name)
        }
        _ => false,
    }
}

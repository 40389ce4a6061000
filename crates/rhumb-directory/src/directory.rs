//! The RIB client: sessions to RIBs, one question at a
//! time per name, and statements to keep published.
//!
//! 1. `connect_due` says which RIBs want a connection
//!    attempt; the switch reports what became of it.
//! 2. `look_up_route` and `look_up_metadata` ask once, however many PDUs
//!    miss. How a question goes on is in `inquiries`.
//! 3. `publish` keeps a name's statements until the RIBs have stored them: `publications`.
//! 4. `poll_request` hands out what to send; `handle_timeout` repeats what was not answered.
//! 5. A RIB that has another store than before is told everything anew: `stores`.
//! 6. RIBs tell who was removed from domains: `removals`.
//! 7. What RIBs say is compared, and who is proven wrong is asked last: `words`, `conduct`.
//! 8. Answers are held against what RIBs' logs say, and logs against each other: `logs`.
//! 9. `take_answered` pairs a response with its question; a response that pairs with none is not
//!    believed. When the switch has verified it, it says so: `settle`, `deny` or `fail`.
//!
//! A RIB tells those who asked when something changes, for as long as the session lasts that they
//! asked in. So when one ends, what was learnt in it must be asked for again before it can be
//! relied on to its end: `take_unwatched`, `is_watched`.

mod conduct;
mod inquiries;
mod logs;
mod publications;
mod removals;
mod replica;
mod second;
mod stores;
mod words;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::{AttemptId, SessionId};
use rhumb_wire::rib::{Refusal, RequestId, RibRequest, RibRequestBody};
use rhumb_wire::{Certificate, Metadata, Name};

use crate::Remote;
use crate::doubts::Doubts;
use crate::table::{Fill, Table};
use inquiries::{Inquiries, Step};
use logs::Logs;
use publications::Publications;
use removals::Walks;
use replica::Replica;
use stores::Stores;
use words::Words;

pub use conduct::{Conduct, Fault, Suspicion};
pub use logs::{LogCounts, Teller};
pub use publications::{Kind, PublishOutcome, Slot};
pub use words::Checks;

/// The RIBs that are asked and told, and what is under way with them.
pub struct Directory {
    replicas: Vec<Replica>,
    next_id: u32,
    requests: HashMap<RequestId, Request>,
    /// Requests in the order of sending, so that those never answered are forgotten.
    sent: VecDeque<(Instant, RequestId)>,
    inquiries: Inquiries,
    publications: Publications,
    stores: Stores,
    walks: Walks,
    words: Words,
    logs: Logs,
    /// Of each RIB.
    conducts: Vec<Conduct>,
    /// When which question is to be looked at again.
    timers: BTreeSet<(Instant, Question)>,
    timer_of: HashMap<Question, Instant>,
    /// Names of which a RIB tells us changes, and in which epoch it was asked
    /// to; not yet, for those that we want it of.
    watched: Table<Name, Option<u64>>,
    epoch: u64,
    is_unwatched: bool,
    doubts: Doubts,
    concluded: VecDeque<(Question, Option<Instant>)>,
    queue: VecDeque<(SessionId, Vec<u8>)>,
}

struct Request {
    question: Question,
    replica: usize,
    session: SessionId,
    sent_at: Instant,
}

/// What a RIB is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Question {
    /// The way to this name.
    Route(Name),
    /// Another way to this name, of several: the one of this number, from 1 on.
    Way(Name, u8),
    /// What belongs to this name.
    Metadata(Name),
    /// By which domains is this name known outside, as far as that of the RIBs asked?
    Export(Name),
    /// The statements of this slot are to be stored.
    Publish(Slot),
    /// Which store this RIB has.
    Store(usize),
    /// Who was removed since this RIB told of it last.
    Removals(usize),
    /// What this RIB alone says of the way to a name.
    Check(Name, usize),
    /// Whether this RIB takes what another one, or itself, has shown of a name.
    Show(Name, usize),
    /// What this RIB's log says of a name.
    Prove(Name, usize),
    /// How one head of this RIB's log leads to another.
    Link(usize),
}

impl Question {
    /// The way of this number to a name, the first being 0.
    pub fn way(name: Name, number: u8) -> Self {
        match number {
            0 => Self::Route(name),
            number => Self::Way(name, number),
        }
    }

    /// Of the way that is asked for: 0 where it is the first, or none.
    pub fn number(&self) -> u8 {
        match self {
            Self::Way(_, number) => *number,
            _ => 0,
        }
    }
}

/// What a response answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// The question, and the number of the RIB.
    Question(Question, usize),
    /// Another RIB was quicker, or the question was given up.
    TooLate,
    /// Nothing that we asked.
    Nothing,
}

/// Why an answer does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// It did not verify, or was about something else: the RIB is not to be believed.
    Refused,
    /// It was older than what is known: the RIB lies, or has not heard of it yet.
    Old,
    /// It could not be verified now.
    Unverified,
}

// Sessions.
impl Directory {
    /// These RIBs, of which at most so many names are watched, and with which the statements of at
    /// most so many issuers are kept published.
    pub fn new(ribs: &[Remote], max_watched: usize, max_publications: usize, now: Instant) -> Self {
        Self {
            replicas: ribs.iter().map(|&remote| Replica::new(remote, now)).collect(),
            next_id: 0,
            requests: HashMap::new(),
            sent: VecDeque::new(),
            inquiries: Inquiries::default(),
            publications: Publications::new(max_publications),
            stores: Stores::new(ribs.len()),
            walks: Walks::new(ribs.len()),
            words: Words::new(ribs.len()),
            logs: Logs::new(ribs.len()),
            conducts: vec![Conduct::default(); ribs.len()],
            timers: BTreeSet::new(),
            timer_of: HashMap::new(),
            watched: Table::new(max_watched),
            epoch: 0,
            is_unwatched: false,
            doubts: Doubts::new(),
            concluded: VecDeque::new(),
            queue: VecDeque::new(),
        }
    }

    /// RIBs that want to be connected to now. The caller reports
    /// each attempt with [`Directory::connecting`].
    pub fn connect_due(&self, now: Instant) -> Vec<(usize, Remote)> {
        let ribs = self.replicas.iter().enumerate();
        ribs.filter_map(|(index, rib)| Some((index, rib.kept.connect_due(now)?))).collect()
    }

    /// An attempt to reach a RIB has begun.
    pub fn connecting(&mut self, index: usize, attempt: AttemptId) {
        self.replicas[index].kept.connecting(attempt);
    }

    /// Whether a complaint about the way to a name is a reason to ask for a newer one.
    pub fn is_worth_asking(&mut self, name: Name, now: Instant) -> bool {
        self.doubts.is_worth_asking(name, now)
    }

    /// Whether `attempt` was to a RIB, which is ready now.
    pub fn established(&mut self, attempt: AttemptId, session: SessionId, now: Instant) -> bool {
        let is_first = !self.is_ready();
        let Some(index) = self.connecting_replica(attempt) else { return false };
        let rib = &mut self.replicas[index];
        rib.kept.established(session, now);
        rib.silence.end();
        self.publications.replica_ready(index, now);
        self.ask_store(index, now);
        self.begin_walk(index, now);
        if is_first {
            self.lose_watch();
        }
        true
    }

    /// Whether `attempt` was to a RIB; it is tried again later.
    pub fn failed(&mut self, attempt: AttemptId, now: Instant) -> Option<SocketAddr> {
        let index = self.connecting_replica(attempt)?;
        let rib = &mut self.replicas[index];
        rib.kept.failed(now);
        Some(rib.kept.address())
    }

    /// Whether the session was to a RIB; it is connected to again,
    /// and what it was asked goes to others at once.
    pub fn closed(&mut self, session: SessionId, now: Instant) -> Option<SocketAddr> {
        let index = self.replicas.iter().position(|rib| rib.session() == Some(session))?;
        let rib = &mut self.replicas[index];
        rib.kept.closed(now);
        rib.silence.end();
        let address = rib.kept.address();
        self.stores.closed(index);
        self.walks.closed(index);
        self.words.forget(index);
        self.logs.closed(index);
        for question in self.inquiries.asked_of(index) {
            let step = self.inquiries.note_failed(&question, index);
            self.take(question, step, now);
        }
        if self.is_ready() {
            self.lose_watch();
        }
        Some(address)
    }

    /// The number of the RIB at the other end of a session.
    pub fn is_rib(&self, session: SessionId) -> bool {
        self.replicas.iter().any(|rib| rib.session() == Some(session))
    }

    /// The session with the RIB of this number.
    pub fn session_of(&self, index: usize) -> Option<SessionId> {
        self.replicas.get(index)?.session()
    }

    /// How long the RIB that is asked first takes to answer, if it ever did.
    pub fn answer_time(&self) -> Option<Duration> {
        let ready = self.replicas.iter().filter(|rib| rib.session().is_some());
        ready.filter_map(|rib| rib.times.measured()).min()
    }

    /// Whether any RIB can be asked.
    pub fn is_ready(&self) -> bool {
        self.replicas.iter().any(|rib| rib.session().is_some())
    }

    /// Each RIB's address and session, and for how long it has answered nothing that it was asked.
    pub fn ribs(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (SocketAddr, Option<SessionId>, Option<Duration>)> {
        let rib = move |rib: &Replica| (rib.kept.address(), rib.session(), rib.silence.lasts(now));
        self.replicas.iter().map(rib)
    }

    /// The next RIB that has begun to leave unanswered what it is asked.
    pub fn poll_silent(&mut self, now: Instant) -> Option<SocketAddr> {
        let rib = self.replicas.iter_mut().find_map(|rib| rib.silence.is_news(now).then_some(rib));
        rib.map(|rib| rib.kept.address())
    }

    /// How each RIB has behaved, in the order of [`Directory::ribs`].
    pub fn conducts(&self) -> &[Conduct] {
        &self.conducts
    }

    /// The next RIB of which a fault was proven that was not told of yet.
    pub fn poll_fault(&mut self) -> Option<(SocketAddr, Fault)> {
        let mut all = self.conducts.iter_mut().enumerate();
        let (index, fault) = all.find_map(|(at, conduct)| Some((at, conduct.take_news()?)))?;
        Some((self.replicas[index].kept.address(), fault))
    }

    fn is_suspected(&self, index: usize, now: Instant) -> bool {
        self.conducts[index].suspicion(now).is_some()
    }

    fn connecting_replica(&self, attempt: AttemptId) -> Option<usize> {
        self.replicas.iter().position(|rib| rib.kept.is_attempted(attempt))
    }
}

// Questions.
impl Directory {
    /// Asks where a name is, unless that is being asked already. Whether it is being asked now.
    pub fn look_up_route(&mut self, name: Name, now: Instant) -> bool {
        self.look_up(Question::Route(name), now)
    }

    /// Asks for a name's metadata, unless that is being
    /// asked already. Whether it is being asked now.
    pub fn look_up_metadata(&mut self, name: Name, now: Instant) -> bool {
        self.look_up(Question::Metadata(name), now)
    }

    /// Whether this is being asked already.
    pub fn is_asking(&self, question: &Question) -> bool {
        self.inquiries.contains(question)
    }

    /// Asks, unless that is being asked already. Whether it is being asked now.
    pub fn look_up(&mut self, question: Question, now: Instant) -> bool {
        if self.inquiries.contains(&question) {
            return true;
        }
        if self.inquiries.len() >= MAX_INQUIRIES || !self.is_ready() {
            return false;
        }
        self.inquiries.open(question, now);
        self.take(question, Step::AskAgain, now);
        true
    }

    /// The question that a response from `session` answers, if it is still open.
    pub fn take_answered(&mut self, id: RequestId, session: SessionId, now: Instant) -> Answered {
        if self.requests.get(&id).is_none_or(|request| request.session != session) {
            return Answered::Nothing;
        }
        let Some(request) = self.requests.remove(&id) else { return Answered::Nothing };
        let Request { question, replica, sent_at, .. } = request;
        self.replicas[replica].silence.end();
        if matches!(
            question,
            Question::Publish(_)
                | Question::Store(_)
                | Question::Removals(_)
                | Question::Check(..)
                | Question::Show(..)
                | Question::Prove(..)
                | Question::Link(_)
        ) {
            return Answered::Question(question, replica);
        }
        self.replicas[replica].times.note(now.saturating_duration_since(sent_at));
        match self.inquiries.note_answered(&question, id) {
            true => Answered::Question(question, replica),
            false => Answered::TooLate,
        }
    }

    /// A question is answered, and the answer is good.
    pub fn settle(&mut self, question: &Question) {
        // Whoever denied what another one has proven is asked last for a while.
        for replica in self.inquiries.deniers(question) {
            self.replicas[replica].times.penalise();
        }
        self.end(question);
    }

    /// A RIB says that there is no answer, for as long as it says.
    pub fn deny(&mut self, question: Question, replica: usize, until: Instant, now: Instant) {
        let others = self.replicas.iter().enumerate().filter(|(at, _)| *at != replica);
        let mut trusted =
            others.filter(|(at, it)| it.session().is_some() && !self.is_suspected(*at, now));
        if self.is_suspected(replica, now) && trusted.next().is_some() {
            // Its denials count where there is nobody better to ask.
            let step = self.inquiries.note_failed(&question, replica);
            return self.take(question, step, now);
        }
        let hedge = self.replicas.iter().map(|rib| rib.times.hedge_after()).max();
        let believed_at = now + hedge.unwrap_or_default();
        let step = self.inquiries.note_denied(&question, replica, until, believed_at);
        self.take(question, step, now);
    }

    /// A RIB's answer does not count.
    pub fn fail(&mut self, question: Question, replica: usize, why: NoAnswer, now: Instant) {
        if why != NoAnswer::Unverified {
            self.replicas[replica].times.penalise();
        }
        if matches!(question, Question::Check(..)) {
            return;
        }
        let step = self.inquiries.note_failed(&question, replica);
        self.take(question, step, now);
        if why != NoAnswer::Refused && !self.inquiries.is_waiting(&question) {
            // Whoever needs the answer asks again, and by then
            // it can be verified, or the RIB has heard.
            self.close(&question);
        }
    }

    /// The next question that ended without an answer that counts. If that is because no RIB knows
    /// the name, until when.
    pub fn poll_concluded(&mut self) -> Option<(Question, Option<Instant>)> {
        self.concluded.pop_front()
    }

    /// Goes one step on with a question.
    fn take(&mut self, question: Question, step: Step, now: Instant) {
        match step {
            Step::AskNext | Step::AskAgain => {
                if !self.ask_next(question, now) {
                    self.inquiries.note_all_asked(&question);
                    if let Step::Absent(until) = self.inquiries.when_all_asked(&question) {
                        return self.conclude_absent(question, until);
                    }
                    if !self.is_ready() {
                        // Nobody can be asked: whoever needs the answer asks again.
                        return self.close(&question);
                    }
                }
            }
            Step::AskAll => {
                while self.ask_next(question, now) {}
                self.inquiries.note_all_asked(&question);
                if let Step::Absent(until) = self.inquiries.when_all_asked(&question) {
                    return self.conclude_absent(question, until);
                }
            }
            Step::Absent(until) => return self.conclude_absent(question, until),
            Step::GiveUp => return self.close(&question),
            Step::Nothing => {}
        }
        let due = self.inquiries.due(&question);
        self.set_timer(question, due);
    }

    /// Puts a question to the RIB that answers soonest of those that
    /// were not asked yet. Whether there was one.
    fn ask_next(&mut self, question: Question, now: Instant) -> bool {
        let asked = self.inquiries.asked(&question);
        let body = match question {
            Question::Route(name) => RibRequestBody::LookUpRoute(name),
            Question::Way(name, number) => RibRequestBody::LookUpWay { name, number },
            Question::Metadata(name) => RibRequestBody::LookUpMetadata(name),
            Question::Export(name) => RibRequestBody::LookUpExport(name),
            Question::Publish(_)
            | Question::Store(_)
            | Question::Removals(_)
            | Question::Check(..)
            | Question::Show(..)
            | Question::Prove(..)
            | Question::Link(_) => return false,
        };
        let next = self
            .replicas
            .iter()
            .enumerate()
            .filter(|(index, rib)| rib.session().is_some() && !asked.contains(index))
            .min_by_key(|(index, rib)| {
                (self.is_suspected(*index, now), rib.times.smoothed(), *index)
            });
        let Some((index, rib)) = next else { return false };
        let hedge_at = now + rib.times.hedge_after();
        let Some(id) = self.send(index, question, body, now) else { return false };
        self.inquiries.note_asked(&question, (index, id), now, hedge_at);
        true
    }

    fn conclude_absent(&mut self, question: Question, until: Instant) {
        self.concluded.push_back((question, Some(until)));
        self.end(&question);
    }

    fn close(&mut self, question: &Question) {
        self.concluded.push_back((*question, None));
        self.end(question);
    }

    fn end(&mut self, question: &Question) {
        self.inquiries.close(question);
        self.set_timer(*question, None);
    }
}

// Publications.
impl Directory {
    /// Whether there is room to keep an issuer's statements published.
    pub fn can_publish(&self, issuer: &Name) -> bool {
        self.publications.has_room(issuer)
    }

    /// How many issuers' statements are kept published.
    pub fn publications(&self) -> usize {
        self.publications.len()
    }

    /// Keeps the newest statements of an issuer published, `until` they
    /// end. The caller has seen that there is room.
    pub fn publish(
        &mut self,
        metadata: Arc<Metadata>,
        certificates: Vec<Certificate>,
        until: Instant,
        now: Instant,
    ) {
        let Some(slot) = certificates.first().map(Slot::of) else { return };
        let first_id = RequestId(self.next_id);
        let replicas = self.replicas.len();
        self.publications.insert(slot, metadata, certificates, until, first_id, replicas);
        for replica in 0..replicas {
            self.send_publication(slot, replica, now);
        }
    }

    /// What a RIB's answer to a publication means.
    pub fn published(
        &mut self,
        slot: Slot,
        (replica, id): (usize, RequestId),
        answer: Result<(), Refusal>,
        now: Instant,
    ) -> PublishOutcome {
        let ready: Vec<bool> = self.replicas.iter().map(|rib| rib.session().is_some()).collect();
        let is_ready = |replica: usize| ready[replica];
        let outcome = self.publications.answered(&slot, (replica, id), answer, now, is_ready);
        let due = self.publications.due(&slot);
        self.set_timer(Question::Publish(slot), due);
        outcome
    }

    fn send_publication(&mut self, slot: Slot, replica: usize, now: Instant) {
        if self.replicas[replica].session().is_none() {
            self.publications.wait_for(&slot, replica);
        } else if let Some(body) = self.publications.send(&slot, replica, now) {
            self.send(replica, Question::Publish(slot), body, now);
        }
        let due = self.publications.due(&slot);
        self.set_timer(Question::Publish(slot), due);
    }
}

// Changes.
impl Directory {
    /// Whether a RIB tells us of changes of `name`, as far as we know. Whoever asks wants it to, so
    /// the name counts as in use from its answer on.
    pub fn is_watched(&mut self, name: &Name) -> bool {
        match self.watched.get(name) {
            Some(epoch) => *epoch == Some(self.epoch),
            None => {
                self.watched.insert(*name, None);
                false
            }
        }
    }

    /// A RIB answered something about `name`, and will tell us when it changes.
    pub fn note_watched(&mut self, name: Name) {
        match self.watched.get(&name) {
            Some(epoch) => *epoch = Some(self.epoch),
            None => self.watched.insert(name, Some(self.epoch)),
        }
    }

    /// Marks names as in use, of which RIBs shall go on to tell us changes.
    pub fn keep_watched(&mut self, names: impl IntoIterator<Item = Name>) {
        for name in names {
            self.watched.get(&name);
        }
    }

    /// How many names are watched.
    pub fn watched_fill(&self) -> Fill {
        self.watched.fill()
    }

    /// Whether since the last call a session ended in which RIBs told us of changes.
    pub fn take_unwatched(&mut self) -> bool {
        std::mem::take(&mut self.is_unwatched)
    }

    /// Tells the RIBs that a name is not here any more, to where its route of this sequence leads.
    pub fn tell_gone(&mut self, name: Name, sequence: u64) {
        let ready: Vec<SessionId> = self.replicas.iter().filter_map(Replica::session).collect();
        for session in ready {
            let id = RequestId(self.next_id);
            self.next_id = self.next_id.wrapping_add(1);
            let mut data = Vec::new();
            RibRequest { id, body: RibRequestBody::Gone { name, sequence } }.emit(&mut data);
            self.queue.push_back((session, data));
        }
    }

    /// Tells a RIB that its change has arrived.
    pub fn acknowledge(&mut self, session: SessionId, id: RequestId) {
        let mut data = Vec::new();
        RibRequest { id, body: RibRequestBody::Acknowledge }.emit(&mut data);
        self.queue.push_back((session, data));
    }

    fn lose_watch(&mut self) {
        self.epoch += 1;
        self.is_unwatched = true;
    }
}

// Time, and what is sent.
impl Directory {
    /// The next request to send: the session and the data of the PDU.
    pub fn poll_request(&mut self) -> Option<(SessionId, Vec<u8>)> {
        self.queue.pop_front()
    }

    /// Repeats, hedges and gives up what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, question)) = self.timers.first()
            && at <= now
        {
            self.set_timer(question, None);
            if let Question::Publish(slot) = question {
                for replica in self.publications.repeats(&slot, now) {
                    self.send_publication(slot, replica, now);
                }
                let due = self.publications.due(&slot);
                self.set_timer(question, due);
                continue;
            }
            let (step, silent) = self.inquiries.handle_timeout(&question, now);
            for replica in silent {
                self.replicas[replica].times.note(inquiries::ROUND);
                self.conducts[replica].note_unanswered();
            }
            self.take(question, step, now);
        }
        self.ask_stores_again(now);
        self.ask_removals_again(now);
        self.prove_again(now);
        for (replica, slot) in self.publications.take_backlog(now) {
            self.send_publication(slot, replica, now);
        }
    }

    /// When [`Directory::handle_timeout`] and [`Directory::connect_due`] are to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let reconnect = self.replicas.iter().filter_map(|rib| rib.kept.retry_at());
        let backlog = self.publications.backlog_due();
        timer
            .into_iter()
            .chain(reconnect)
            .chain(backlog)
            .chain(self.stores.due())
            .chain(self.walks.due())
            .chain(self.logs.due())
            .min()
    }

    fn set_timer(&mut self, question: Question, due: Option<Instant>) {
        let before = match due {
            Some(due) => self.timer_of.insert(question, due),
            None => self.timer_of.remove(&question),
        };
        if before == due {
            return;
        }
        if let Some(before) = before {
            self.timers.remove(&(before, question));
        }
        if let Some(due) = due {
            self.timers.insert((due, question));
        }
    }

    fn send(
        &mut self,
        replica: usize,
        question: Question,
        body: RibRequestBody,
        now: Instant,
    ) -> Option<RequestId> {
        let session = self.replicas[replica].session()?;
        self.replicas[replica].silence.note_asked(now);
        let id = RequestId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        let mut data = Vec::new();
        RibRequest { id, body }.emit(&mut data);
        while let Some(&(at, old)) = self.sent.front()
            && at + FORGET_AFTER <= now
        {
            self.sent.pop_front();
            self.requests.remove(&old);
        }
        self.requests.insert(id, Request { question, replica, session, sent_at: now });
        self.sent.push_back((now, id));
        self.queue.push_back((session, data));
        Some(id)
    }
}

/// An answer that comes later than this is taken for one that nobody asked for.
const FORGET_AFTER: Duration = Duration::from_secs(10);
/// Questions under way at once; beyond, PDUs are told to come back later.
const MAX_INQUIRIES: usize = 4096;

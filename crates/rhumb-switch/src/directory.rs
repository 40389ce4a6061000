//! The RIB client: sessions to RIBs, one question at a time per name, and statements to keep published.
//!
//! 1. `connect_due` says which RIBs want a connection attempt; the switch reports what became of it.
//! 2. `look_up_route` and `look_up_metadata` ask once, however many PDUs miss.
//! 3. `publish` keeps a name's statements until the RIB has stored them.
//! 4. `poll_request` hands out what to send; `handle_timeout` repeats what was not answered, at another RIB if there is one.
//! 5. `take_answered` pairs a response with its question; a response that pairs with none is not believed.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::{AttemptId, SessionId};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody};
use rhumb_wire::{Certificate, Metadata, Name};

use crate::Remote;

pub(crate) struct Directory {
    ribs: Vec<Rib>,
    next_id: u32,
    pending: BTreeMap<RequestId, Pending>,
    asked: HashSet<Question>,
    publications: HashMap<Name, Publication>,
    queue: VecDeque<(SessionId, Vec<u8>)>,
}

struct Rib {
    remote: Remote,
    state: RibState,
    failures: u32,
}

enum RibState {
    Waiting { until: Instant },
    Connecting(AttemptId),
    Ready(SessionId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    Route(Name),
    Metadata(Name),
    /// The statements of this issuer are to be stored.
    Publish(Name),
}

struct Pending {
    question: Question,
    session: SessionId,
    tries: u32,
    retry_at: Instant,
}

/// Statements of one issuer that the RIB is to hold.
struct Publication {
    metadata: Arc<Metadata>,
    certificates: Vec<Certificate>,
}

impl Directory {
    pub(crate) fn new(ribs: &[Remote], now: Instant) -> Self {
        let state = || RibState::Waiting { until: now };
        Self {
            ribs: ribs.iter().map(|&remote| Rib { remote, state: state(), failures: 0 }).collect(),
            next_id: 0,
            pending: BTreeMap::new(),
            asked: HashSet::new(),
            publications: HashMap::new(),
            queue: VecDeque::new(),
        }
    }

    /// RIBs that want to be connected to now. The caller reports each attempt with [`Directory::connecting`].
    pub(crate) fn connect_due(&self, now: Instant) -> Vec<(usize, Remote)> {
        let due = |rib: &Rib| matches!(rib.state, RibState::Waiting { until } if until <= now);
        self.ribs
            .iter()
            .enumerate()
            .filter(|(_, rib)| due(rib))
            .map(|(i, rib)| (i, rib.remote))
            .collect()
    }

    pub(crate) fn connecting(&mut self, index: usize, attempt: AttemptId) {
        self.ribs[index].state = RibState::Connecting(attempt);
    }

    /// Whether `attempt` was to a RIB, which is ready now.
    pub(crate) fn established(
        &mut self,
        attempt: AttemptId,
        session: SessionId,
        now: Instant,
    ) -> bool {
        let Some(rib) = self.rib_connecting(attempt) else { return false };
        rib.state = RibState::Ready(session);
        rib.failures = 0;
        // Whatever waited for a RIB is asked at once.
        let waiting: Vec<_> = self.publications.keys().copied().map(Question::Publish).collect();
        for question in waiting {
            if !self.asked.contains(&question) {
                self.ask(question, now);
            }
        }
        true
    }

    /// Whether `attempt` was to a RIB; it is tried again later.
    pub(crate) fn failed(&mut self, attempt: AttemptId, now: Instant) -> Option<SocketAddr> {
        let rib = self.rib_connecting(attempt)?;
        rib.failures += 1;
        rib.state = RibState::Waiting { until: now + reconnect_delay(rib.failures) };
        Some(rib.remote.address)
    }

    /// Whether the session was to a RIB; it is connected to again.
    pub(crate) fn closed(&mut self, session: SessionId, now: Instant) -> Option<SocketAddr> {
        let rib = self
            .ribs
            .iter_mut()
            .find(|rib| matches!(rib.state, RibState::Ready(s) if s == session))?;
        rib.state = RibState::Waiting { until: now + reconnect_delay(1) };
        Some(rib.remote.address)
    }

    pub(crate) fn is_rib(&self, session: SessionId) -> bool {
        self.ready_sessions().any(|ready| ready == session)
    }

    /// Whether any RIB can be asked.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready_sessions().next().is_some()
    }

    /// Each RIB's address and session.
    pub(crate) fn ribs(&self) -> impl Iterator<Item = (SocketAddr, Option<SessionId>)> {
        self.ribs.iter().map(|rib| match rib.state {
            RibState::Ready(session) => (rib.remote.address, Some(session)),
            _ => (rib.remote.address, None),
        })
    }

    /// Asks where a name is, unless that is being asked already. Whether it is being asked now.
    pub(crate) fn look_up_route(&mut self, name: Name, now: Instant) -> bool {
        self.look_up(Question::Route(name), now)
    }

    /// Asks for a name's metadata, unless that is being asked already. Whether it is being asked now.
    pub(crate) fn look_up_metadata(&mut self, name: Name, now: Instant) -> bool {
        self.look_up(Question::Metadata(name), now)
    }

    fn look_up(&mut self, question: Question, now: Instant) -> bool {
        if self.asked.contains(&question) {
            return true;
        }
        if self.pending.len() >= MAX_PENDING || !self.is_ready() {
            return false;
        }
        self.ask(question, now);
        true
    }

    /// Keeps the newest statements of an issuer published.
    pub(crate) fn publish(
        &mut self,
        metadata: Arc<Metadata>,
        certificates: Vec<Certificate>,
        now: Instant,
    ) {
        let Some(issuer) = certificates.first().map(|certificate| certificate.issuer) else {
            return;
        };
        self.publications.insert(issuer, Publication { metadata, certificates });
        self.pending.retain(|_, pending| pending.question != Question::Publish(issuer));
        self.ask(Question::Publish(issuer), now);
    }

    /// The question that a response from `session` answers; it is closed with this.
    pub(crate) fn take_answered(&mut self, id: RequestId, session: SessionId) -> Option<Question> {
        if self.pending.get(&id)?.session != session {
            return None;
        }
        let question = self.pending.remove(&id)?.question;
        self.asked.remove(&question);
        if let Question::Publish(issuer) = question {
            self.publications.remove(&issuer);
        }
        Some(question)
    }

    /// The next request to send: the session and the data of the PDU.
    pub(crate) fn poll_request(&mut self) -> Option<(SessionId, Vec<u8>)> {
        self.queue.pop_front()
    }

    /// Repeats requests that were not answered in time.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let late: Vec<RequestId> =
            self.pending.iter().filter(|(_, p)| p.retry_at <= now).map(|(id, _)| *id).collect();
        for id in late {
            let Some(pending) = self.pending.remove(&id) else { continue };
            let publishing = matches!(pending.question, Question::Publish(_));
            if publishing || pending.tries < MAX_TRIES {
                self.ask_again(pending.question, pending.tries, now);
            } else {
                self.asked.remove(&pending.question);
            }
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let retry = self.pending.values().map(|pending| pending.retry_at).min();
        let reconnect = self.ribs.iter().filter_map(|rib| match rib.state {
            RibState::Waiting { until } => Some(until),
            _ => None,
        });
        retry.into_iter().chain(reconnect).min()
    }

    fn ask(&mut self, question: Question, now: Instant) {
        self.asked.insert(question);
        self.ask_again(question, 0, now);
    }

    /// Sends a question for the `tries`-th time, each time to the next RIB that is ready.
    fn ask_again(&mut self, question: Question, tries: u32, now: Instant) {
        let ready: Vec<SessionId> = self.ready_sessions().collect();
        let Some(&session) = ready.get(tries as usize % ready.len().max(1)) else {
            // Nobody can be asked. Publications wait for a RIB; look-ups are asked again by whoever needs them.
            self.asked.remove(&question);
            return;
        };
        let body = match question {
            Question::Route(name) => RibRequestBody::LookUpRoute(name),
            Question::Metadata(name) => RibRequestBody::LookUpMetadata(name),
            Question::Publish(issuer) => match self.publications.get(&issuer) {
                Some(publication) => RibRequestBody::Publish {
                    metadata: vec![(*publication.metadata).clone()],
                    certificates: publication.certificates.clone(),
                },
                None => return,
            },
        };
        let id = RequestId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        let mut data = Vec::new();
        RibRequest { id, body }.emit(&mut data);
        let retry_at = now + REQUEST_TIMEOUT * 2u32.pow(tries.min(3));
        self.pending.insert(id, Pending { question, session, tries: tries + 1, retry_at });
        self.queue.push_back((session, data));
    }

    fn ready_sessions(&self) -> impl Iterator<Item = SessionId> {
        self.ribs.iter().filter_map(|rib| match rib.state {
            RibState::Ready(session) => Some(session),
            _ => None,
        })
    }

    fn rib_connecting(&mut self, attempt: AttemptId) -> Option<&mut Rib> {
        self.ribs
            .iter_mut()
            .find(|rib| matches!(rib.state, RibState::Connecting(a) if a == attempt))
    }
}

/// 100 ms, doubled per failure up to 3.2 s: a RIB that restarts is found soon, one that is gone costs little.
pub(crate) fn reconnect_delay(failures: u32) -> Duration {
    Duration::from_millis(100) * 2u32.pow(failures.clamp(1, 6) - 1)
}

/// Ten times a busy local RIB's answer; doubled per try.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(200);
/// Look-ups are given up after these; whoever still needs the answer causes a new one.
const MAX_TRIES: u32 = 4;
/// Questions under way at once; beyond, PDUs are told to come back later.
const MAX_PENDING: usize = 4096;

//! A principal's side: has the key of each waypoint's window before it is needed.
//!
//! 1. [`KeyClient::poll_query`] says what to ask a resolver next: first the keys of the present
//!    windows, then, at a random time in the second half of a window, those of the next. Random, so
//!    that not all principals ask at once.
//! 2. [`KeyClient::handle_answer`] believes what opens with the shared key, whoever sent it, and
//!    goes on waiting otherwise: a forged answer, or what a cache had left, delays nothing.
//! 3. What is not answered in time is asked again, of the next resolver, after a pause that doubles
//!    up to [`LONGEST_PAUSE_MS`]; what is truncated, over TCP.
//! 4. [`KeyClient::credential`] gives the key for a time: that of its window, or, while a
//!    waypoint's grace lasts, the one before.
//!
//! Invariant: one query is under way at a time. A dead
//! resolver costs nothing as long as the keys last.

use std::net::IpAddr;

use domain::base::iana::{Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, ToName};
use domain::rdata::Txt;
use rhumb_capability::{Credential, Flags, Window, WindowClock};

use crate::principal::PrincipalFile;
use crate::question::KeyQuestion;
use crate::record;
use crate::server::Transport;
use crate::zone::Zone;

/// Fetches and keeps the keys of one principal.
#[derive(Debug)]
pub struct KeyClient {
    file: PrincipalFile,
    zone: Zone,
    held: Vec<Credential>,
    fetches: Vec<Fetch>,
    pending: Option<Pending>,
    counters: ClientCounters,
}

/// What to send, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The message.
    pub message: Vec<u8>,
    /// Which resolver: this number modulo how many there are.
    pub resolver: usize,
    /// Over UDP or TCP.
    pub transport: Transport,
    /// When to stop waiting for the answer, in milliseconds of Unix time.
    pub deadline_ms: u64,
}

/// What came of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// A key for this window of this waypoint.
    Key(IpAddr, Window),
    /// The resolver says that there is none.
    Absent,
    /// The resolver failed, or refuses.
    Failed,
    /// Ask again over TCP: [`KeyClient::poll_query`] has the query.
    Truncated,
    /// Not an answer to what was asked, or one that does not open. Wait on.
    Ignored,
}

/// What happened, for metrics.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct ClientCounters {
    /// Queries made.
    pub queries: u64,
    /// Keys fetched.
    pub keys: u64,
    /// Answers that there is no key.
    pub absent: u64,
    /// Failures of a resolver.
    pub failed: u64,
    /// Answers that did not open: forged, or from an old cache.
    pub ignored: u64,
    /// Queries without an answer in time.
    pub unanswered: u64,
}

impl ClientCounters {
    /// Adds those of another client.
    pub fn add(&mut self, other: &Self) {
        let Self { queries, keys, absent, failed, ignored, unanswered } = other;
        self.queries += queries;
        self.keys += keys;
        self.absent += absent;
        self.failed += failed;
        self.ignored += ignored;
        self.unanswered += unanswered;
    }
}

#[derive(Debug)]
struct Fetch {
    question: KeyQuestion,
    due_ms: u64,
    attempts: u32,
    transport: Transport,
    /// Whether its window has begun.
    is_urgent: bool,
}

#[derive(Debug)]
struct Pending {
    question: KeyQuestion,
    id: u16,
    deadline_ms: u64,
}

impl KeyClient {
    /// A client without any key yet.
    #[must_use]
    pub fn new(file: PrincipalFile) -> Self {
        let zone = file.zone().clone();
        Self {
            file,
            zone,
            held: Vec::new(),
            fetches: Vec::new(),
            pending: None,
            counters: ClientCounters::default(),
        }
    }

    /// The next query, if it is time for one. `random` gives random numbers.
    pub fn poll_query(&mut self, now_ms: u64, mut random: impl FnMut() -> u64) -> Option<Query> {
        self.plan(now_ms, &mut random);
        if self.pending.as_ref().is_some_and(|pending| pending.deadline_ms <= now_ms) {
            self.counters.unanswered += 1;
            self.give_up(now_ms, &mut random);
        }
        if self.pending.is_some() {
            return None;
        }
        let due = self.fetches.iter().filter(|fetch| fetch.due_ms <= now_ms);
        let fetch = due.min_by_key(|fetch| (!fetch.is_urgent, fetch.due_ms))?;
        let id = random() as u16;
        let patience_ms = match fetch.transport {
            Transport::Datagram => DATAGRAM_PATIENCE_MS,
            Transport::Stream => STREAM_PATIENCE_MS,
        };
        let query = Query {
            message: self.message(&fetch.question, id),
            resolver: fetch.attempts as usize,
            transport: fetch.transport,
            deadline_ms: now_ms + patience_ms,
        };
        let question = fetch.question;
        self.pending = Some(Pending { question, id, deadline_ms: query.deadline_ms });
        self.counters.queries += 1;
        Some(query)
    }

    /// Takes what came back.
    pub fn handle_answer(
        &mut self,
        message: &[u8],
        now_ms: u64,
        mut random: impl FnMut() -> u64,
    ) -> Answered {
        let Some(question) = self.pending.as_ref().and_then(|pending| self.fits(pending, message))
        else {
            self.counters.ignored += 1;
            return Answered::Ignored;
        };
        let Ok(parsed) = Message::from_octets(message) else { return Answered::Ignored };
        let header = parsed.header();
        if header.tc() {
            self.pending = None;
            for fetch in self.fetches.iter_mut().filter(|fetch| fetch.question == question) {
                // A stream that is truncated is a resolver that fails.
                if fetch.transport == Transport::Stream {
                    fetch.due_ms = now_ms + FIRST_PAUSE_MS;
                    fetch.attempts += 1;
                }
                fetch.transport = Transport::Stream;
            }
            return Answered::Truncated;
        }
        match header.rcode() {
            Rcode::NOERROR => match self.open(&question, &parsed) {
                Some(credential) => {
                    self.pending = None;
                    self.fetches.retain(|fetch| fetch.question != question);
                    self.held.push(credential);
                    self.counters.keys += 1;
                    Answered::Key(question.waypoint, question.window)
                }
                None => {
                    self.counters.ignored += 1;
                    Answered::Ignored
                }
            },
            Rcode::NXDOMAIN => {
                self.counters.absent += 1;
                self.give_up(now_ms, &mut random);
                Answered::Absent
            }
            _ => {
                self.counters.failed += 1;
                self.give_up(now_ms, &mut random);
                Answered::Failed
            }
        }
    }

    /// Fetches the keys of the next windows at once: for who hands them on,
    /// and does not wait for the end of a window.
    pub fn hurry(&mut self, now_ms: u64, mut random: impl FnMut() -> u64) {
        self.plan(now_ms, &mut random);
        for fetch in self.fetches.iter_mut().filter(|fetch| fetch.attempts == 0) {
            fetch.due_ms = fetch.due_ms.min(now_ms);
        }
    }

    /// The query under way cannot be sent, or its connection broke: it is asked again, later.
    pub fn handle_failure(&mut self, now_ms: u64, mut random: impl FnMut() -> u64) {
        if self.pending.is_some() {
            self.counters.failed += 1;
            self.give_up(now_ms, &mut random);
        }
    }

    /// When to call [`KeyClient::poll_query`] again at the latest, in milliseconds of Unix time.
    #[must_use]
    pub fn poll_timeout(&self, now_ms: u64) -> u64 {
        if let Some(pending) = &self.pending {
            return pending.deadline_ms;
        }
        let rollovers = self.file.waypoints().iter().map(|waypoint| {
            let clock = &waypoint.clock;
            clock.end_s(clock.at(now_ms * 1000)) * 1000
        });
        self.fetches.iter().map(|fetch| fetch.due_ms).chain(rollovers).min().unwrap_or(u64::MAX)
    }

    /// The key to use at a waypoint now; `None` when there is none that it would take.
    #[must_use]
    pub fn credential(&self, waypoint: IpAddr, now_ms: u64) -> Option<&Credential> {
        let clock = self.clock(waypoint)?;
        let current = clock.at(now_ms * 1000);
        let of = |window: Window| {
            self.held.iter().find(|held| {
                let capability = held.capability();
                capability.waypoint == waypoint && capability.window == window
            })
        };
        let before = || {
            let before = Window(current.0.checked_sub(1)?);
            of(before).filter(|held| now_ms < held.not_after_s() * 1000)
        };
        of(current).or_else(before)
    }

    /// The key of the window after the present one, when it is there already.
    #[must_use]
    pub fn next_credential(&self, waypoint: IpAddr, now_ms: u64) -> Option<&Credential> {
        let next = self.clock(waypoint)?.at(now_ms * 1000).0.checked_add(1)?;
        self.held.iter().find(|held| {
            let capability = held.capability();
            capability.waypoint == waypoint && capability.window.0 == next
        })
    }

    /// Whose keys.
    #[must_use]
    pub fn file(&self) -> &PrincipalFile {
        &self.file
    }

    /// What happened.
    #[must_use]
    pub fn counters(&self) -> ClientCounters {
        self.counters
    }

    /// Forgets what is over, and plans a fetch for each key that is missing.
    fn plan(&mut self, now_ms: u64, random: &mut impl FnMut() -> u64) {
        self.held.retain(|held| now_ms < held.not_after_s() * 1000);
        for known in self.file.waypoints() {
            let clock = &known.clock;
            let current = clock.at(now_ms * 1000);
            let question = |window| KeyQuestion {
                waypoint: known.address,
                principal: self.file.principal(),
                flags: Flags::NONE,
                window,
            };
            self.fetches.retain(|fetch| {
                fetch.question.waypoint != known.address || fetch.question.window >= current
            });
            for (window, is_urgent) in [(current, true), (Window(current.0 + 1), false)] {
                let is_held = self.held.iter().any(|held| {
                    let capability = held.capability();
                    (capability.waypoint, capability.window) == (known.address, window)
                });
                if is_held {
                    continue;
                }
                let planned =
                    self.fetches.iter_mut().find(|fetch| fetch.question == question(window));
                match planned {
                    // It was planned for later, and is needed now.
                    Some(fetch) if is_urgent && !fetch.is_urgent => {
                        fetch.is_urgent = true;
                        fetch.due_ms = fetch.due_ms.min(now_ms);
                    }
                    Some(_) => {}
                    None => {
                        let due_ms = if is_urgent {
                            now_ms
                        } else {
                            prefetch_ms(clock, current, now_ms, random())
                        };
                        let transport = Transport::Datagram;
                        let question = question(window);
                        self.fetches.push(Fetch {
                            question,
                            due_ms,
                            attempts: 0,
                            transport,
                            is_urgent,
                        });
                    }
                }
            }
        }
    }

    fn give_up(&mut self, now_ms: u64, random: &mut impl FnMut() -> u64) {
        let Some(pending) = self.pending.take() else { return };
        for fetch in self.fetches.iter_mut().filter(|fetch| fetch.question == pending.question) {
            let pause_ms = (FIRST_PAUSE_MS << fetch.attempts.min(10)).min(LONGEST_PAUSE_MS);
            // Between three and five quarters of it.
            fetch.due_ms = now_ms + pause_ms * 3 / 4 + random() % (pause_ms / 2);
            fetch.attempts = fetch.attempts.saturating_add(1);
            fetch.transport = Transport::Datagram;
        }
    }

    /// The question that a message answers, if it is the one under way.
    fn fits(&self, pending: &Pending, message: &[u8]) -> Option<KeyQuestion> {
        let parsed = Message::from_octets(message).ok()?;
        let header = parsed.header();
        if !header.qr() || header.id() != pending.id {
            return None;
        }
        let asked = parsed.sole_question().ok()?;
        let name: Name<Vec<u8>> = asked.qname().to_name();
        let is_ours =
            asked.qtype() == Rtype::TXT && name.name_eq(&self.zone.name(&pending.question.label()));
        is_ours.then_some(pending.question)
    }

    fn open(&self, question: &KeyQuestion, message: &Message<&[u8]>) -> Option<Credential> {
        let name = self.zone.query_name(&question.label());
        let texts = message.answer().ok()?.limit_to::<Txt<_>>().flatten();
        let mut sealed = texts
            .map(|text| text.data().iter().flat_map(<[u8]>::iter).copied().collect::<Vec<u8>>());
        sealed
            .find_map(|sealed| record::open(&sealed, self.file.key(), question, &name))
            .map(Credential::from)
    }

    fn message(&self, question: &KeyQuestion, id: u16) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(id);
        builder.header_mut().set_rd(true);
        let mut section = builder.question();
        let name = self.zone.name(&question.label());
        section.push((name, Rtype::TXT)).expect("invariant: a Vec grows");
        let mut additional = section.additional();
        let pushed = additional.opt(|opt| {
            opt.set_udp_payload_size(PAYLOAD_SIZE);
            Ok(())
        });
        pushed.expect("invariant: a Vec grows");
        additional.finish()
    }

    fn clock(&self, waypoint: IpAddr) -> Option<&WindowClock> {
        let known = self.file.waypoints().iter().find(|known| known.address == waypoint)?;
        Some(&known.clock)
    }
}

/// A time between a half and seven eighths of the window, or soon, when that is over.
fn prefetch_ms(clock: &WindowClock, current: Window, now_ms: u64, random: u64) -> u64 {
    let start_ms = clock.start_s(current) * 1000;
    let length_ms = 1000 << clock.bits();
    let from_ms = now_ms.max(start_ms + length_ms / 2);
    let until_ms = start_ms + length_ms / 8 * 7;
    match until_ms.checked_sub(from_ms) {
        Some(span_ms) if span_ms > 0 => from_ms + random % span_ms,
        _ => now_ms,
    }
}

/// A resolver that has to ask others answers within this.
const DATAGRAM_PATIENCE_MS: u64 = 2_000;
/// The same, with a connection to make.
const STREAM_PATIENCE_MS: u64 = 5_000;
/// Resolvers that fail have often recovered by then.
const FIRST_PAUSE_MS: u64 = 1_000;
/// Longer than a negative answer is kept ([`SOA minimum`](crate::Zone)),
/// shorter than the least grace that makes sense.
pub const LONGEST_PAUSE_MS: u64 = 30_000;
/// As the server's own.
const PAYLOAD_SIZE: u16 = 1232;

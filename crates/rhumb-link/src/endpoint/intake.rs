//! Who gets to see a handshake datagram. Strangers are told
//! apart here, before anything is kept for them.
//!
//! 1. An initial without a good token is answered by a
//!    retry, which is smaller, and nothing is kept.
//! 2. With a good token the address is proven, and an exchange begins.
//! 3. A hello of a foreign peer takes the same way with a
//!    cookie of DTLS's own: `endpoint::foreign`.
//! 4. All later datagrams go to the exchange with their address; to both
//!    exchanges, when both ends began at once: protected datagrams cannot be told
//!    apart, and the library drops those it cannot open.

use std::net::SocketAddr;
use std::time::Instant;

use rhumb_wire::Name;
use rhumb_wire::datagram::{Datagram, HELLO_ID_LEN, RETRY_LEN, TOKEN_LEN};
use rhumb_wire::stream;

use super::{AttemptId, Endpoint, Event};
use crate::dtls::{Library, Style};
use crate::elsewhere::Elsewhere;
use crate::exchange::{
    ATTEMPT_TIME, Evidence, Exchange, HANDSHAKE_TIME, Initiation, PHASES, Progress, Response, Side,
};
use crate::handshake::Handshake;
use crate::hello::random_of;
use crate::peek::{self, Glimpse};
use crate::retry::HelloHash;
use crate::slots::Key;
use crate::timers::Armed;
use crate::{DropReason, HandshakeError, LinkError, Source};

impl Endpoint {
    /// Takes a datagram that is no sealed record.
    ///
    /// # Errors
    /// With the reason, which is counted, when it was
    /// dropped. A bad token is answered all the same.
    pub fn handle_handshake(
        &mut self,
        from: SocketAddr,
        datagram: Datagram<'_>,
        now: Instant,
    ) -> Result<(), DropReason> {
        // Nobody shakes hands for datagrams over a stream.
        if stream::is_address(&from) {
            return Err(self.drops.count(DropReason::UnexpectedHandshake));
        }
        let result = match datagram {
            Datagram::Initial { token, inner } => self.handle_initial(from, token, inner, now),
            Datagram::Retry { hello, token } => self.handle_retry(from, *hello, token, now),
            Datagram::Dtls(bytes) => self.handle_dtls(from, bytes, now),
            Datagram::Record(_) => Err(DropReason::UnexpectedHandshake),
        };
        result.map_err(|reason| self.drops.count(reason))
    }

    /// Begins an exchange as the initiator, or joins the one in progress.
    /// `announced`: a caller wants to know the outcome. `once`: no more than one
    /// datagram goes out before there is an answer.
    pub(super) fn begin(
        &mut self,
        address: SocketAddr,
        expected: Option<Name>,
        announced: bool,
        once: bool,
        phase: usize,
        now: Instant,
    ) -> AttemptId {
        if let Some(current) = self.initiation_in_progress(address) {
            if current.expected == expected {
                current.announced |= announced;
                current.once = current.once.filter(|_| once);
                return current.attempt;
            }
            let attempt = self.next_attempt();
            if announced {
                let error = LinkError::AddressBusy;
                self.events.push_back(Event::Failed { attempt, address, error });
            }
            return attempt;
        }
        let attempt = self.next_attempt();
        let (style, patience) = PHASES[phase];
        let initiation = Initiation {
            attempt,
            announced,
            expected,
            phase,
            give_up: now + ATTEMPT_TIME,
            style,
            hello: Vec::new(),
            token: None,
            retries_left: 0,
            answered: false,
            once: once.then_some(false),
        };
        let exchange = Exchange {
            address,
            side: Side::Initiator(initiation),
            handshake: self.library.initiate(style, now),
            elsewhere: Elsewhere::default(),
            progress: Progress::Handshaking(Evidence::default()),
            shows: self.shows,
            library_due: now,
            deadline: now + patience,
            armed: Armed::default(),
        };
        if let Some(lingering) = self.routes.get(&address).and_then(|route| route.initiator) {
            self.discard(lingering);
        }
        let id = self.exchanges.insert(exchange);
        self.routes.entry(address).or_default().initiator = Some(id);
        self.step(id, now, |exchange| exchange.handshake.handle_timeout(now));
        attempt
    }

    fn handle_initial(
        &mut self,
        from: SocketAddr,
        token: Option<&[u8; TOKEN_LEN]>,
        inner: &[u8],
        now: Instant,
    ) -> Result<(), DropReason> {
        if !self.config.accept {
            return Err(DropReason::NotAccepting);
        }
        if peek::glimpse(inner)? != (Glimpse::ClientHello { first: true }) {
            return Err(DropReason::UnexpectedHandshake);
        }
        // Whoever could begin nothing is refused before hello and token cost a hash. This changes
        // nothing, since nobody is proven to be there.
        if token.is_some() && !self.may_begin(from, now) && !self.is_in_progress(from, inner) {
            return Err(DropReason::HandshakeRate);
        }
        let hello = HelloHash::of(inner);
        if !token.is_some_and(|token| self.tokens.verify(token, from, &hello, now)) {
            if inner.len() < RETRY_LEN {
                return Err(DropReason::Amplification);
            }
            let mut retry = Vec::with_capacity(RETRY_LEN);
            Datagram::emit_retry(&hello.id(), &self.tokens.issue(from, &hello, now), &mut retry);
            self.outgoing.push(from, &retry);
            return if token.is_some() { Err(DropReason::BadToken) } else { Ok(()) };
        }
        if let Some(id) = self.response_to(from, &hello) {
            self.feed(id, inner, now);
            return Ok(());
        }
        // The address is proven, so whoever is there has begun anew.
        let make = move |library: &Library| Ok(library.respond(now));
        self.begin_response(from, hello, make, inner, now)
    }

    fn handle_retry(
        &mut self,
        from: SocketAddr,
        hello: [u8; HELLO_ID_LEN],
        token: &[u8; TOKEN_LEN],
        now: Instant,
    ) -> Result<(), DropReason> {
        let initiation = self.initiation_in_progress(from).ok_or(DropReason::UnexpectedRetry)?;
        // Whoever did not see our hello can neither write a
        // retry for it nor have the responder write one.
        if initiation.style != Style::Native
            || initiation.answered
            || initiation.retries_left == 0
            || HelloHash::of(&initiation.hello).id() != hello
        {
            return Err(DropReason::UnexpectedRetry);
        }
        initiation.once = None;
        initiation.retries_left -= 1;
        initiation.token = Some(*token);
        let initial = initiation.initial();
        self.outgoing.push(from, &initial);
        self.extend_initiation(from, now);
        Ok(())
    }

    fn handle_dtls(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), DropReason> {
        let glimpse = peek::glimpse(bytes)?;
        let route = self.routes.get(&from).copied().unwrap_or_default();
        match glimpse {
            Glimpse::ClientHello { .. } => self.handle_foreign_hello(from, bytes, now),
            Glimpse::ServerHello | Glimpse::CookieRequest => {
                let id = route.initiator.ok_or(DropReason::UnexpectedHandshake)?;
                // Who has a token needs no cookie: a stranger had the
                // peer send this, by a hello in our name.
                if glimpse == Glimpse::CookieRequest
                    && self.initiation_in_progress(from).is_some_and(|it| it.style == Style::Native)
                {
                    return Err(DropReason::UnexpectedHandshake);
                }
                if let Some(initiation) = self.initiation_in_progress(from)
                    && !initiation.answered
                {
                    initiation.answered = true;
                    initiation.once = None;
                    self.extend_initiation(from, now);
                }
                self.feed(id, bytes, now);
                Ok(())
            }
            Glimpse::Other => {
                // Before the first answer the library takes anything else for a fatal error.
                let unanswered =
                    self.initiation_in_progress(from).is_some_and(|current| !current.answered);
                let initiator = route.initiator.filter(|_| !unanswered);
                if initiator.is_none() && route.responder.is_none() {
                    return Err(DropReason::UnexpectedHandshake);
                }
                for id in initiator.into_iter().chain(route.responder) {
                    self.feed(id, bytes, now);
                }
                Ok(())
            }
        }
    }

    /// Makes an exchange for a hello from a proven address, in place of the
    /// one that was there, and gives it the hello.
    pub(super) fn begin_response(
        &mut self,
        from: SocketAddr,
        hello: HelloHash,
        make: impl FnOnce(&Library) -> Result<Box<dyn Handshake>, HandshakeError> + Send + 'static,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), DropReason> {
        if self.has_too_many_jobs() {
            return Err(DropReason::HalfOpenLimit);
        }
        let is_known = self.census.is_known(Source::of(from));
        let ticket = self.admission.admit(from, is_known, now)?;
        if let Some(former) = self.routes.get(&from).and_then(|route| route.responder) {
            self.discard(former);
        }
        let Ok((handshake, subject)) = self.make_handshake(make, now) else {
            self.admission.release(ticket);
            return Err(DropReason::HelloRefused);
        };
        let id = self.exchanges.insert(Exchange {
            address: from,
            side: Side::Responder(Response {
                hello,
                random: random_of(bytes),
                ticket: Some(ticket),
            }),
            handshake,
            elsewhere: Elsewhere::default(),
            progress: Progress::Handshaking(Evidence::default()),
            shows: self.shows,
            library_due: now + HANDSHAKE_TIME,
            deadline: now + HANDSHAKE_TIME,
            armed: Armed::default(),
        });
        self.routes.entry(from).or_default().responder = Some(id);
        match subject {
            Some(subject) => self.send_out(id, subject, bytes, now),
            None => self.feed(id, bytes, now),
        }
        Ok(())
    }

    /// Gives a datagram to the library, record by record: `dimpl` 0.9 drops a datagram whose first
    /// record it has seen, even if a retransmission brings what was lost behind it.
    pub(super) fn feed(&mut self, id: Key, bytes: &[u8], now: Instant) {
        if self.feed_elsewhere(id, bytes, now) {
            return;
        }
        for record in peek::records(bytes) {
            self.step(id, now, |exchange| exchange.handshake.handle(record, now));
        }
    }

    /// Somebody is there: an initiator waits longer for the rest.
    fn extend_initiation(&mut self, address: SocketAddr, now: Instant) {
        if let Some(id) = self.routes.get(&address).and_then(|route| route.initiator)
            && let Some(exchange) = self.exchanges.get_mut(id)
        {
            let later = exchange.deadline.max(now + HANDSHAKE_TIME);
            exchange.wait_until(later);
        }
    }

    fn initiation_in_progress(&mut self, address: SocketAddr) -> Option<&mut Initiation> {
        let id = self.routes.get(&address)?.initiator?;
        let exchange = self.exchanges.get_mut(id).filter(|exchange| !exchange.is_established())?;
        match &mut exchange.side {
            Side::Initiator(initiation) => Some(initiation),
            Side::Responder(_) => None,
        }
    }

    /// Whether rates let somebody at `address` begin, who need not be there.
    fn may_begin(&self, address: SocketAddr, now: Instant) -> bool {
        let is_known = self.census.is_known(Source::of(address));
        self.admission.may_begin(address, is_known, now)
    }

    /// Whether this looks like the hello that somebody at `address` began with.
    fn is_in_progress(&self, address: SocketAddr, hello: &[u8]) -> bool {
        let id = self.routes.get(&address).and_then(|route| route.responder);
        match id.and_then(|id| self.exchanges.get(id)).map(|exchange| &exchange.side) {
            Some(Side::Responder(response)) => response.random == random_of(hello),
            _ => false,
        }
    }

    /// The exchange that somebody at `address` began with this hello.
    pub(super) fn response_to(&self, address: SocketAddr, hello: &HelloHash) -> Option<Key> {
        let id = self.routes.get(&address)?.responder?;
        match &self.exchanges.get(id)?.side {
            Side::Responder(response) if response.hello == *hello => Some(id),
            _ => None,
        }
    }

    pub(super) fn next_attempt(&mut self) -> AttemptId {
        self.attempts += 1;
        AttemptId(self.attempts)
    }
}

//! Who gets to see a handshake datagram. Strangers are told apart here, before anything is kept for them.
//!
//! 1. An initial without a good token is answered by a retry, which is smaller, and nothing is kept.
//! 2. With a good token the address is proven, and an exchange begins.
//! 3. A hello of a foreign peer begins an exchange whose answers stay within the bytes received, until the library's
//!    cookie has come back.
//! 4. All later datagrams go to the exchange with their address; to both exchanges, when both ends began at once:
//!    protected datagrams cannot be told apart, and the library drops those it cannot open.

use std::net::SocketAddr;
use std::time::Instant;

use rhumb_wire::Name;
use rhumb_wire::datagram::{Datagram, TOKEN_LEN};

use super::{AttemptId, Endpoint, Event};
use crate::dtls::Style;
use crate::exchange::{
    ATTEMPT_TIME, Evidence, Exchange, HANDSHAKE_TIME, Initiation, PHASES, Progress, Response, Side,
};
use crate::peek::{self, Glimpse};
use crate::retry::HelloHash;
use crate::slots::Key;
use crate::timers::Armed;
use crate::{DropReason, LinkError};

impl Endpoint {
    /// Takes a datagram that is no sealed record.
    ///
    /// # Errors
    /// With the reason, which is counted, when it was dropped. A bad token is answered all the same.
    pub fn handle_handshake(
        &mut self,
        from: SocketAddr,
        datagram: Datagram<'_>,
        now: Instant,
    ) -> Result<(), DropReason> {
        let result = match datagram {
            Datagram::Initial { token, inner } => self.handle_initial(from, token, inner, now),
            Datagram::Retry(token) => self.handle_retry(from, token, now),
            Datagram::Dtls(bytes) => self.handle_dtls(from, bytes, now),
            Datagram::Record(_) => Err(DropReason::UnexpectedHandshake),
        };
        result.map_err(|reason| self.drops.count(reason))
    }

    /// Begins an exchange as the initiator, or joins the one in progress. `announced`: a caller wants to know the outcome.
    pub(super) fn begin(
        &mut self,
        address: SocketAddr,
        expected: Option<Name>,
        announced: bool,
        now: Instant,
    ) -> AttemptId {
        if let Some(current) = self.initiation_in_progress(address) {
            if current.expected == expected {
                current.announced |= announced;
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
        let (style, patience) = PHASES[0];
        let initiation = Initiation {
            attempt,
            announced,
            expected,
            phase: 0,
            give_up: now + ATTEMPT_TIME,
            style,
            hello: Vec::new(),
            token: None,
            retries_left: 0,
            answered: false,
        };
        let exchange = Exchange {
            address,
            side: Side::Initiator(initiation),
            handshake: self.library.initiate(style, now),
            progress: Progress::Handshaking(Evidence::default()),
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
        let hello = HelloHash::of(inner);
        if !token.is_some_and(|token| self.tokens.verify(token, from, &hello, now)) {
            let mut retry = Vec::with_capacity(RETRY_LEN);
            Datagram::emit_retry(&self.tokens.issue(from, &hello, now), &mut retry);
            self.outgoing.push(from, &retry);
            return if token.is_some() { Err(DropReason::BadToken) } else { Ok(()) };
        }
        match self.response_in_progress(from) {
            Some((id, began)) if began == hello => {
                self.feed(id, inner, now);
                Ok(())
            }
            // The address is proven, so whoever is there has begun anew.
            _ => self.begin_response(Style::Native, from, hello, inner, now),
        }
    }

    fn handle_retry(
        &mut self,
        from: SocketAddr,
        token: &[u8; TOKEN_LEN],
        now: Instant,
    ) -> Result<(), DropReason> {
        let initiation = self.initiation_in_progress(from).ok_or(DropReason::UnexpectedRetry)?;
        if initiation.style != Style::Native || initiation.answered || initiation.retries_left == 0
        {
            return Err(DropReason::UnexpectedRetry);
        }
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
            Glimpse::ClientHello { first } => self.handle_hello(from, first, bytes, now),
            Glimpse::ServerHello => {
                let id = route.initiator.ok_or(DropReason::UnexpectedHandshake)?;
                if let Some(initiation) = self.initiation_in_progress(from)
                    && !initiation.answered
                {
                    initiation.answered = true;
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

    /// A hello that is not wrapped: of a foreign peer, or the answer to the library's cookie.
    fn handle_hello(
        &mut self,
        from: SocketAddr,
        first: bool,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), DropReason> {
        let known = self.routes.get(&from).and_then(|route| route.responder);
        if !first {
            self.feed(known.ok_or(DropReason::UnexpectedHandshake)?, bytes, now);
            return Ok(());
        }
        let hello = HelloHash::of(bytes);
        match (known, self.response_in_progress(from)) {
            (Some(id), Some((_, began))) if began == hello => {
                self.feed(id, bytes, now);
                Ok(())
            }
            // Anyone can write a hello from that address: it does not end what is in progress.
            (Some(_), Some(_)) => Err(DropReason::UnexpectedHandshake),
            _ if !self.config.accept => Err(DropReason::NotAccepting),
            _ => self.begin_response(Style::Foreign, from, hello, bytes, now),
        }
    }

    fn begin_response(
        &mut self,
        style: Style,
        from: SocketAddr,
        hello: HelloHash,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), DropReason> {
        if let Some(former) = self.routes.get(&from).and_then(|route| route.responder) {
            self.discard(former);
        }
        let ticket = self.admission.admit(style, from)?;
        let response = Response {
            hello,
            ticket: Some(ticket),
            proven: style == Style::Native,
            received: 0,
            sent: 0,
        };
        let id = self.exchanges.insert(Exchange {
            address: from,
            side: Side::Responder(response),
            handshake: self.library.respond(style, now),
            progress: Progress::Handshaking(Evidence::default()),
            library_due: now + HANDSHAKE_TIME,
            deadline: now + HANDSHAKE_TIME,
            armed: Armed::default(),
        });
        self.routes.entry(from).or_default().responder = Some(id);
        self.feed(id, bytes, now);
        Ok(())
    }

    /// Gives a datagram to the library, record by record: `dimpl` 0.9 drops a datagram whose first record it has seen,
    /// even if a retransmission brings what was lost behind it.
    fn feed(&mut self, id: Key, bytes: &[u8], now: Instant) {
        for record in peek::records(bytes) {
            self.step(id, now, |exchange| {
                if let Side::Responder(response) = &mut exchange.side {
                    response.received += record.len();
                }
                exchange.handshake.handle(record, now)
            });
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

    /// The exchange that somebody at `address` began, and the hello it began with, while it has led to no session.
    fn response_in_progress(&self, address: SocketAddr) -> Option<(Key, HelloHash)> {
        let id = self.routes.get(&address)?.responder?;
        let exchange = self.exchanges.get(id).filter(|exchange| !exchange.is_established())?;
        match &exchange.side {
            Side::Responder(response) => Some((id, response.hello)),
            Side::Initiator(_) => None,
        }
    }

    fn next_attempt(&mut self) -> AttemptId {
        self.attempts += 1;
        AttemptId(self.attempts)
    }
}

/// Header and token.
const RETRY_LEN: usize = 4 + TOKEN_LEN;

//! What becomes of what the handshake library says: from its outputs to a session.
//!
//! 1. Datagrams are sent, wrapped or held back as the exchange demands.
//! 2. When keys are exported and both sides have proven theirs, the peer's certificate is read: its name is proven, a
//!    receive lane is made, our session parameters go out.
//! 3. The peer's parameters make a session, or renew the one with that name.
//! 4. A fault ends the exchange; an initiator goes on with its next phase, unless the peer proved to be somebody else.

use std::time::Instant;

use rhumb_wire::Name;
use rhumb_wire::datagram::{SessionIndex, SessionParameters};

use super::{Endpoint, Event};
use crate::certificate;
use crate::exchange::{
    AGREEMENT_TIME, Agreement, Evidence, Exchange, LINGER, PHASES, Progress, RETRIES_PER_HELLO,
    Repeat, Side,
};
use crate::handshake::Output;
use crate::lane::{ReceiveLane, SendLane};
use crate::lane_table::LaneEntry;
use crate::session::{ReceiveLanes, SILENCE, Session, renewal_time};
use crate::slots::Key;
use crate::timers::{Armed, Owner};
use crate::{
    DropReason, HandshakeError, IdentityError, Incompatibility, LinkError, MIN_DATAGRAM_LEN, Peer,
    SessionId, dtls::Style, peek,
};

impl Endpoint {
    /// Lets something happen to an exchange, and does what follows from it.
    pub(super) fn step(
        &mut self,
        id: Key,
        now: Instant,
        act: impl FnOnce(&mut Exchange) -> Result<(), HandshakeError>,
    ) {
        let Some(mut exchange) = self.exchanges.borrow(id) else { return };
        let result = act(&mut exchange).map_err(LinkError::Handshake);
        self.resume(id, exchange, result, now);
    }

    /// Goes on with an exchange that something happened to, and puts it back, or forgets it.
    pub(super) fn resume(
        &mut self,
        id: Key,
        mut exchange: Exchange,
        result: Result<(), LinkError>,
        now: Instant,
    ) {
        let mut result = result.and_then(|()| self.poll_library(id, &mut exchange, now));
        // At most one turn for each phase left.
        while let Err(error) = result {
            if exchange.is_established() {
                return self.forget(id, exchange);
            }
            match &exchange.side {
                Side::Initiator(initiation)
                    if is_worth_another_phase(&error) && initiation.phase + 1 < PHASES.len() =>
                {
                    self.next_phase(&mut exchange, now);
                    let begun = exchange.handshake.handle_timeout(now);
                    result = begun
                        .map_err(LinkError::Handshake)
                        .and_then(|()| self.poll_library(id, &mut exchange, now));
                }
                _ => return self.fail(id, exchange, error),
            }
        }
        let due = exchange.due();
        self.timers.arm(Owner::Exchange(id), &mut exchange.armed, due);
        self.exchanges.restore(id, exchange);
    }

    /// Forgets an exchange without a word. Its session, if it has made one, stays.
    pub(super) fn discard(&mut self, id: Key) {
        if let Some(exchange) = self.exchanges.borrow(id) {
            self.forget(id, exchange);
        }
    }

    /// Sends our parameters inside the handshake's connection.
    pub(super) fn send_parameters(&mut self, exchange: &mut Exchange) -> Result<(), LinkError> {
        let index = match &exchange.progress {
            Progress::Handshaking(_) => return Ok(()),
            Progress::Agreeing(agreement) => agreement.index,
            Progress::Established { index, .. } => *index,
        };
        let max_datagram_len = self.config.max_datagram_len;
        let parameters = SessionParameters { index, max_datagram_len }.emit();
        exchange.handshake.send(&parameters).map_err(LinkError::Handshake)
    }

    fn poll_library(
        &mut self,
        id: Key,
        exchange: &mut Exchange,
        now: Instant,
    ) -> Result<(), LinkError> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.poll_into(id, exchange, &mut scratch, now);
        self.scratch = scratch;
        result
    }

    fn poll_into(
        &mut self,
        id: Key,
        exchange: &mut Exchange,
        scratch: &mut [u8],
        now: Instant,
    ) -> Result<(), LinkError> {
        let mut greet = None;
        loop {
            match exchange.handshake.poll(scratch).map_err(LinkError::Handshake)? {
                Output::Datagram(datagram) => self.transmit(exchange, datagram),
                Output::Message(message) => {
                    greet = greet.or(self.handle_message(exchange, message, now)?);
                }
                Output::Closed => return Err(LinkError::Incompatible(Incompatibility::Closed)),
                Output::Wait(at) => {
                    exchange.library_due = at;
                    match &exchange.progress {
                        Progress::Handshaking(evidence) if evidence.connected => {
                            return Err(LinkError::Incompatible(Incompatibility::NoKeys));
                        }
                        _ => {}
                    }
                    // After the library's datagrams, our parameters among them, without which it would be early.
                    if let Some(session) = greet {
                        self.send_keep_alive(session, now);
                    }
                    return Ok(());
                }
                output => {
                    let Progress::Handshaking(evidence) = &mut exchange.progress else { continue };
                    match output {
                        Output::Certificate(der) => evidence.claim = Some(certificate::read(der)),
                        Output::Keys(keys) => evidence.keys = keys,
                        _ => evidence.connected = true,
                    }
                    if evidence.connected && evidence.keys.is_some() {
                        self.agree(id, exchange, now)?;
                    }
                }
            }
        }
    }

    /// Sends a datagram of the library, as the side and the state of the exchange demand.
    fn transmit(&mut self, exchange: &mut Exchange, datagram: &[u8]) {
        match &mut exchange.side {
            Side::Initiator(initiation)
                if initiation.style == Style::Native && !initiation.answered =>
            {
                initiation.hello.clear();
                initiation.hello.extend_from_slice(datagram);
                initiation.retries_left = RETRIES_PER_HELLO;
                self.outgoing.push(exchange.address, &initiation.initial());
                return;
            }
            Side::Responder(response) if !response.proven => {
                if peek::asks_for_cookie(datagram) || peek::is_plaintext_alert(datagram) {
                    response.sent += datagram.len();
                    if response.sent > response.received {
                        self.drops.count(DropReason::Amplification);
                        return;
                    }
                } else {
                    response.proven = true;
                }
            }
            _ => {}
        }
        self.outgoing.push(exchange.address, datagram);
    }

    /// Both sides have proven their keys: finds out whose they are, and makes room for the peer's records.
    fn agree(&mut self, id: Key, exchange: &mut Exchange, now: Instant) -> Result<(), LinkError> {
        let Progress::Handshaking(evidence) = &mut exchange.progress else { return Ok(()) };
        let Evidence { claim, keys, .. } = std::mem::take(evidence);
        let keys = keys.ok_or(LinkError::Incompatible(Incompatibility::NoKeys))?;
        let peer =
            claim.unwrap_or(Err(IdentityError::NoCertificate)).map_err(LinkError::Identity)?;
        if peer.name == self.name {
            return Err(LinkError::Identity(IdentityError::OwnName));
        }
        if let Side::Initiator(initiation) = &exchange.side
            && let Some(expected) = initiation.expected
            && expected != peer.name
        {
            return Err(LinkError::UnexpectedName { expected, actual: peer.name });
        }
        if !self.has_room_for(&peer.name) {
            return Err(LinkError::SessionLimit);
        }
        let (secret, theirs) = keys.lane_secrets(exchange.is_client(), ONLY_LANE);
        let entry = LaneEntry {
            lane: ReceiveLane::new(self.config.cipher, theirs, now),
            session: None,
            address: exchange.address,
            unconfirmed: Some(id),
        };
        let index = self.lanes.insert(entry).ok_or(LinkError::SessionLimit)?;
        let repeat = Some(Repeat::first(now));
        exchange.progress = Progress::Agreeing(Agreement { peer, secret, index, repeat });
        exchange.deadline = now + AGREEMENT_TIME;
        self.send_parameters(exchange)
    }

    /// Takes the peer's parameters. Returns the session in which it waits for a record of ours.
    fn handle_message(
        &mut self,
        exchange: &mut Exchange,
        message: &[u8],
        now: Instant,
    ) -> Result<Option<SessionId>, LinkError> {
        let parameters = SessionParameters::parse(message)
            .map_err(|error| LinkError::Incompatible(Incompatibility::Parameters(error)))?;
        match &exchange.progress {
            Progress::Handshaking(_) => Ok(None),
            Progress::Agreeing(_) => self.establish(exchange, parameters, now),
            // It has not opened a record of ours yet. It has our parameters, or we are repeating them.
            Progress::Established { session, .. } => Ok(Some(*session)),
        }
    }

    /// The peer's parameters are here: makes or renews the session.
    fn establish(
        &mut self,
        exchange: &mut Exchange,
        parameters: SessionParameters,
        now: Instant,
    ) -> Result<Option<SessionId>, LinkError> {
        if parameters.index.as_u32() == 0 {
            return Err(LinkError::Incompatible(Incompatibility::NoIndex));
        }
        if parameters.max_datagram_len < MIN_DATAGRAM_LEN {
            let limit = Incompatibility::DatagramLimit(parameters.max_datagram_len);
            return Err(LinkError::Incompatible(limit));
        }
        let Progress::Agreeing(Agreement { peer: claim, secret, index, repeat }) =
            std::mem::replace(&mut exchange.progress, Progress::Handshaking(Evidence::default()))
        else {
            return Ok(None);
        };
        let send = SendLane::new(self.config.cipher, secret, parameters.index, now);
        let peer = Peer {
            name: claim.name,
            metadata: claim.metadata,
            address: exchange.address,
            max_datagram_len: parameters.max_datagram_len,
            initiator: exchange.is_client(),
            established_at: now,
            renewed_at: now,
        };
        let renewed = self.by_name.get(&peer.name).copied();
        let name = peer.name;
        let session = match renewed {
            Some(session) => {
                self.renew_session(session, peer, send, index, now);
                session
            }
            None => self.make_session(peer, send, index, now)?,
        };
        if let Some(entry) = self.lanes.get_mut(index) {
            entry.session = Some(session);
        }
        exchange.deadline = now + if repeat.is_some() { SILENCE } else { LINGER };
        exchange.progress = Progress::Established { session, index, repeat };
        let attempt = match &mut exchange.side {
            Side::Initiator(initiation) => initiation.announced.then_some(initiation.attempt),
            Side::Responder(response) => {
                if let Some(ticket) = response.ticket.take() {
                    self.admission.release(ticket);
                }
                None
            }
        };
        let renewed = renewed.is_some();
        self.events.push_back(Event::Established { session, attempt, peer: name, renewed });
        Ok(Some(session))
    }

    fn make_session(
        &mut self,
        peer: Peer,
        send: SendLane,
        index: SessionIndex,
        now: Instant,
    ) -> Result<SessionId, LinkError> {
        if !self.has_room_for(&peer.name) {
            self.lanes.remove(index);
            return Err(LinkError::SessionLimit);
        }
        let name = peer.name;
        let renew_at = renewal_time(&name, peer.initiator, now);
        let receive = ReceiveLanes { newest: index, older: None };
        let session = Session { peer, send, receive, renew_at, armed: Armed::default() };
        let due = session.due(&self.lanes);
        let key = self.sessions.insert(session);
        if let Some(session) = self.sessions.get_mut(key) {
            self.timers.arm(Owner::Session(key), &mut session.armed, due);
        }
        self.by_name.insert(name, SessionId(key));
        Ok(SessionId(key))
    }

    fn renew_session(
        &mut self,
        id: SessionId,
        peer: Peer,
        send: SendLane,
        index: SessionIndex,
        now: Instant,
    ) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        session.renew_at = renewal_time(&peer.name, peer.initiator, now);
        session.peer = Peer { established_at: session.peer.established_at, ..peer };
        session.send = send;
        if let Some(retired) = session.receive.push(index, &self.lanes) {
            self.lanes.remove(retired);
        }
    }

    fn has_room_for(&self, name: &Name) -> bool {
        self.by_name.contains_key(name) || self.sessions.len() < self.config.limits.sessions
    }

    fn next_phase(&mut self, exchange: &mut Exchange, now: Instant) {
        if let Some(index) = exchange.pending_lane() {
            self.lanes.remove(index);
        }
        let Side::Initiator(initiation) = &mut exchange.side else { return };
        initiation.phase += 1;
        let (style, patience) = PHASES[initiation.phase];
        initiation.style = style;
        initiation.token = None;
        initiation.retries_left = 0;
        initiation.answered = false;
        exchange.handshake = self.library.initiate(style, now);
        exchange.progress = Progress::Handshaking(Evidence::default());
        exchange.deadline = now + patience;
    }

    /// An exchange failed for good: tells whoever wants to know.
    fn fail(&mut self, id: Key, exchange: Exchange, error: LinkError) {
        match &exchange.side {
            Side::Initiator(initiation) if initiation.announced => {
                let (attempt, address) = (initiation.attempt, exchange.address);
                self.events.push_back(Event::Failed { attempt, address, error });
            }
            Side::Initiator(_) => {}
            Side::Responder(_) => {
                self.drops.count(match error {
                    LinkError::Identity(_) => DropReason::IdentityRefused,
                    LinkError::SessionLimit => DropReason::SessionLimit,
                    _ => DropReason::HandshakeFailed,
                });
            }
        }
        self.forget(id, exchange);
    }

    fn forget(&mut self, id: Key, exchange: Exchange) {
        if let Some(index) = exchange.pending_lane() {
            self.lanes.remove(index);
        }
        if let Some(route) = self.routes.get_mut(&exchange.address) {
            let place = match &exchange.side {
                Side::Initiator(_) => &mut route.initiator,
                Side::Responder(_) => &mut route.responder,
            };
            if *place == Some(id) {
                *place = None;
            }
            if route.initiator.is_none() && route.responder.is_none() {
                self.routes.remove(&exchange.address);
            }
        }
        if let Side::Responder(response) = exchange.side
            && let Some(ticket) = response.ticket
        {
            self.admission.release(ticket);
        }
        self.exchanges.remove(id);
    }
}

/// What a stranger could have caused by forging a datagram, or what may be different when tried another way.
fn is_worth_another_phase(error: &LinkError) -> bool {
    matches!(error, LinkError::TimedOut | LinkError::Handshake(_))
}

/// Lanes beyond the first are for routers with several workers.
const ONLY_LANE: u16 = 0;

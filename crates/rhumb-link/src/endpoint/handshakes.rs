//! What becomes of what the handshake library says: from its outputs to a session.
//!
//! 1. Datagrams are sent, wrapped or held back as the exchange demands.
//! 2. When keys are exported and both sides have proven theirs, the peer's certificate is read: its
//!    name is proven, a receive lane is made, our session parameters go out.
//! 3. The peer's parameters make a session. If there is one with that name, it is
//!    renewed once the peer has used the new keys.
//! 4. A fault ends the exchange; an initiator goes on with its next phase,
//!    unless the peer proved to be somebody else.

use std::time::{Duration, Instant};

use rhumb_trust::x509::IdentityError;
use rhumb_wire::datagram::{LANES, SessionParameters};

use super::streams::DIAL_PHASE;
use super::{Endpoint, Event};
use crate::exchange::{
    AGREEMENT_TIME, Agreement, Evidence, Exchange, Initiation, PHASES, Progress, RETRIES_PER_HELLO,
    Repeat, Side,
};
use crate::handshake::Output;
use crate::lane_group::LaneGroup;
use crate::session::LaneEntry;
use crate::slots::Key;
use crate::timers::Owner;
use crate::{
    DropReason, HandshakeError, Incompatibility, LinkError, MIN_DATAGRAM_LEN, Source,
    dtls::{HANDSHAKE_DATAGRAM_LEN, Style},
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
                    if is_worth_another_phase(&error)
                        && initiation.phase + 1 < PHASES.len()
                        && initiation.once.is_none() =>
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
        let Some(index) = exchange.lane() else { return Ok(()) };
        let max_datagram_len = self.config.max_datagram_len;
        let parameters = SessionParameters { index, lanes: LANES, max_datagram_len }.emit();
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
        let mut greet = false;
        // Small datagrams of one flight travel together.
        let mut together = Vec::new();
        loop {
            match exchange.poll(scratch).map_err(LinkError::Handshake)? {
                Output::Datagram(datagram) => {
                    if together.len() + datagram.len() > HANDSHAKE_DATAGRAM_LEN {
                        self.transmit(exchange, &together);
                        together.clear();
                    }
                    together.extend_from_slice(datagram);
                }
                Output::Message(message) => {
                    greet |= self.handle_message(exchange, message, now)?;
                }
                Output::Closed => return Err(LinkError::Incompatible(Incompatibility::Closed)),
                Output::Wait(at) => {
                    self.transmit(exchange, &together);
                    exchange.library_due = at.max(now + LIBRARY_TICK);
                    match &exchange.progress {
                        Progress::Handshaking(evidence) if evidence.connected => {
                            return Err(LinkError::Incompatible(Incompatibility::NoKeys));
                        }
                        _ => {}
                    }
                    // After the library's datagrams, our parameters among
                    // them, without which it would be early.
                    if greet {
                        self.greet(exchange, now);
                    }
                    return Ok(());
                }
                output => {
                    let Progress::Handshaking(evidence) = &mut exchange.progress else { continue };
                    match output {
                        Output::Claim(claim) => evidence.claim = Some(claim),
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
        if datagram.is_empty() {
            return;
        }
        if let Side::Initiator(Initiation { once: Some(was_sent), .. }) = &mut exchange.side
            && std::mem::replace(was_sent, true)
        {
            return;
        }
        match &mut exchange.side {
            Side::Initiator(initiation)
                if initiation.style == Style::Native && !initiation.answered =>
            {
                initiation.hello.clear();
                initiation.hello.extend_from_slice(datagram);
                initiation.retries_left = RETRIES_PER_HELLO;
                self.outgoing.push(exchange.address, &initiation.initial());
            }
            _ => self.outgoing.push(exchange.address, datagram),
        }
    }

    /// Both sides have proven their keys: finds out whose they
    /// are, and makes room for the peer's records.
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
        let source = Source::of(exchange.address);
        self.has_room_for(&peer.who(self.unix_s(now)), source, exchange.is_client())?;
        let (ours, theirs) = keys.lane_secrets(exchange.is_client());
        let entry = LaneEntry {
            group: LaneGroup::new(self.config.cipher, theirs, now),
            session: None,
            address: exchange.address,
            confirmed: false,
            dozes: false,
            exchange: Some(id),
        };
        let index = self.lanes.insert(entry).ok_or(LinkError::SessionLimit)?;
        let (repeat, secrets) = (Some(Repeat::first(now)), Box::new(ours));
        exchange.progress = Progress::Agreeing(Agreement { peer, secrets, index, repeat });
        exchange.wait_until(now + AGREEMENT_TIME);
        self.send_parameters(exchange)
    }

    /// Takes the peer's parameters. Returns whether it waits for a record of ours.
    fn handle_message(
        &mut self,
        exchange: &mut Exchange,
        message: &[u8],
        now: Instant,
    ) -> Result<bool, LinkError> {
        let incompatible = |reason| Err(LinkError::Incompatible(reason));
        let parameters = match SessionParameters::parse(message) {
            Ok(parameters) => parameters,
            Err(error) => return incompatible(Incompatibility::Parameters(error)),
        };
        if parameters.index.as_u32() == 0 {
            return incompatible(Incompatibility::NoIndex);
        }
        if parameters.max_datagram_len < MIN_DATAGRAM_LEN {
            return incompatible(Incompatibility::DatagramLimit(parameters.max_datagram_len));
        }
        let nothing = Progress::Handshaking(Evidence::default());
        match std::mem::replace(&mut exchange.progress, nothing) {
            Progress::Agreeing(agreement) => {
                self.prepare_session(exchange, agreement, parameters, now)?;
                Ok(true)
            }
            // It has not opened a record of ours yet. It has
            // our parameters, or we are repeating them.
            other => {
                exchange.progress = other;
                Ok(!matches!(exchange.progress, Progress::Handshaking(_)))
            }
        }
    }

    fn next_phase(&mut self, exchange: &mut Exchange, now: Instant) {
        if let Some(index) = exchange.pending_lane() {
            self.remove_lanes(index);
        }
        let Side::Initiator(initiation) = &mut exchange.side else { return };
        initiation.phase += 1;
        let (style, patience) = PHASES[initiation.phase];
        initiation.style = style;
        initiation.token = None;
        initiation.retries_left = 0;
        initiation.answered = false;
        exchange.handshake = self.library.initiate(style, now);
        exchange.shows = self.shows;
        exchange.progress = Progress::Handshaking(Evidence::default());
        exchange.wait_until(now + patience);
        if let Side::Initiator(Initiation { attempt, expected, announced: true, phase, .. }) =
            exchange.side
            && phase == DIAL_PHASE
        {
            self.dial_beside(attempt, exchange.address, expected);
        }
    }

    /// An exchange failed for good: tells whoever wants to know.
    fn fail(&mut self, id: Key, exchange: Exchange, error: LinkError) {
        match &exchange.side {
            Side::Initiator(initiation) if initiation.announced => {
                let (attempt, address) = (initiation.attempt, exchange.address);
                if let Some(error) = self.udp_failed(attempt, error) {
                    self.events.push_back(Event::Failed { attempt, address, error });
                }
            }
            Side::Initiator(_) => {}
            Side::Responder(_) => self.count_refused(&error),
        }
        self.forget(id, exchange);
    }

    /// Counts a handshake of somebody else's that made no session.
    pub(super) fn count_refused(&mut self, error: &LinkError) {
        self.drops.count(match error {
            LinkError::Identity(_) => DropReason::IdentityRefused,
            LinkError::SessionLimit => DropReason::SessionLimit,
            LinkError::SourceSessionLimit => DropReason::SourceSessionLimit,
            _ => DropReason::HandshakeFailed,
        });
    }

    pub(super) fn forget(&mut self, id: Key, exchange: Exchange) {
        if let Some(index) = exchange.pending_lane() {
            self.remove_lanes(index);
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

/// What a stranger could have caused by forging a datagram, or
/// what may be different when tried another way.
fn is_worth_another_phase(error: &LinkError) -> bool {
    matches!(error, LinkError::TimedOut | LinkError::Handshake(_))
}

/// How often the library is called at most when nothing arrives. While a part of a flight is
/// missing, `dimpl` 0.9 wants to be called again at once, and sends an acknowledgement each time.
const LIBRARY_TICK: Duration = Duration::from_millis(50);

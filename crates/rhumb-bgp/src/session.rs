//! One neighbour: its connections, the state machine, and what both sides tell each other.
//!
//! 1. [`Session::start`]: from now on the session is sought
//!    ([`Transmit::Connect`]), and connections are taken.
//! 2. [`Session::connected`]: OPEN goes out; two connections at
//!    once are one too many (`session/states.rs`).
//! 3. OPEN comes: what both sides can is agreed on, KEEPALIVE goes out.
//! 4. KEEPALIVE comes: [`Event::Up`]; all routes for the
//!    neighbour are queued (`session/routes.rs`).
//! 5. Messages come and go until an error, silence, or [`Session::stop`]: [`Event::Down`].

mod routes;
mod states;

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use rustbgpd_wire::notification::{cease_subcode, encode_shutdown_communication};
use rustbgpd_wire::{
    Message, NotificationCode, NotificationMessage, Prefix, RouteRefreshMessage,
    RouteRefreshSubtype, encode_message, encode_message_with_limit,
};

use crate::attributes::Attributes;
use crate::config::{Config, ConfigError};
use crate::connection::{Connection, Phase};
use crate::event::{Counters, DownReason, Event};
use crate::export::{self, Withheld};
use crate::family::{Family, PerFamily};
use crate::jitter::Jitter;
use crate::negotiation::Negotiated;
use crate::rib_in::RibIn;
use crate::rib_out::{Format, Next, RibOut};
use crate::session::states::Attempt;

pub use crate::connection::ConnectionId;

/// One neighbour.
#[derive(Debug)]
pub struct Session {
    config: Config,
    jitter: Jitter,
    attempt: Attempt,
    /// At most one connection that we opened, and one that the neighbour opened.
    connections: [Option<Connection>; 2],
    next_connection: u64,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    rib_in: RibIn,
    rib_out: RibOut,
    /// The last route announced: as given, and as the neighbour
    /// gets it. Neighbouring routes share attributes.
    last_export: Option<(Attributes, Attributes)>,
    /// When routes that were kept go, unless they are said again.
    stale_until: PerFamily<Option<Instant>>,
    /// The neighbour says all again.
    is_refreshed: PerFamily<bool>,
    disabled: PerFamily<bool>,
    has_been_up: bool,
    counters: Counters,
}

/// Who opened a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// We did.
    Outgoing,
    /// The neighbour did.
    Incoming,
}

/// What is to be done with transports, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transmit {
    /// Begin to connect to the neighbour, and give up an attempt that is under way.
    /// [`Session::connected`] or [`Session::connect_failed`] says what became of it.
    Connect,
    /// Write these bytes: one message.
    Send(ConnectionId, Bytes),
    /// Close the connection once everything before is written.
    /// Nothing more of it is told to the session.
    Close(ConnectionId),
}

/// The state of a session (RFC 4271, section 8.2.2). Of
/// two connections, that of the one further on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Stopped, or at rest after an error: connections are refused.
    Idle,
    /// Waits for the neighbour, or for the next attempt to connect.
    Active,
    /// An attempt to connect is under way.
    Connect,
    /// OPEN is sent.
    OpenSent,
    /// OPEN has come; KEEPALIVE is awaited.
    OpenConfirm,
    /// Routes come and go.
    Established,
}

impl Session {
    /// A session that is stopped. `seed` spreads the timers of sessions with different ones.
    ///
    /// # Errors
    ///
    /// What [`Config::check`] refuses.
    pub fn new(config: Config, seed: u64) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            config,
            jitter: Jitter::new(seed),
            attempt: Attempt::default(),
            connections: [None, None],
            next_connection: 0,
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            rib_in: RibIn::default(),
            rib_out: RibOut::default(),
            last_export: None,
            stale_until: PerFamily::default(),
            is_refreshed: PerFamily::default(),
            disabled: PerFamily::default(),
            has_been_up: false,
            counters: Counters::default(),
        })
    }

    /// Seeks the session from now on; nothing if it does already.
    pub fn start(&mut self, now: Instant) {
        self.start_seeking(now);
    }

    /// Ends the session, and seeks it no more until [`Session::start`]. The neighbour is told
    /// `words` (RFC 9003; at most 128 bytes of them), and that the session shuts down.
    pub fn stop(&mut self, words: &str, now: Instant) {
        self.attempt.stop();
        self.cease(cease_subcode::ADMINISTRATIVE_SHUTDOWN, words, now);
    }

    /// Ends the session to begin it anew at once. The neighbour is told `words` (RFC 9003).
    pub fn reset(&mut self, words: &str, now: Instant) {
        self.cease(cease_subcode::ADMINISTRATIVE_RESET, words, now);
    }

    /// A connection to the neighbour is up. With nothing returned it is refused: close it.
    pub fn connected(&mut self, side: Side, now: Instant) -> Option<ConnectionId> {
        self.admit(side, now)
    }

    /// The attempt to connect has failed.
    pub fn connect_failed(&mut self, now: Instant) {
        self.attempt_failed(now);
    }

    /// The neighbour or the network closed a connection.
    pub fn disconnected(&mut self, connection: ConnectionId, now: Instant) {
        if let Some(side) = self.side_of(connection) {
            self.end(side, DownReason::Closed, now);
        }
    }

    /// Bytes came, as many and few as they may be. All whole messages in them are handled; at most
    /// one message that is not whole is kept.
    pub fn handle_bytes(&mut self, connection: ConnectionId, input: &[u8], now: Instant) {
        let Some(side) = self.side_of(connection) else { return };
        if let Some(open) = self.connection(side) {
            open.receive(input);
        }
        while let Some(open) = self.connection(side).filter(|open| open.id == connection) {
            match open.next_message() {
                Ok(Some(message)) => {
                    self.counters.messages_received += 1;
                    self.handle_message(side, message, now);
                }
                Ok(None) => return,
                Err(notification) => self.fail(side, notification, now),
            }
        }
    }

    /// The time that [`Session::poll_timeout`] named has come. Bytes
    /// that have come, too, are handed over before.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.seek(now);
        for side in [Side::Outgoing, Side::Incoming] {
            self.handle_connection_timeout(side, now);
        }
        self.drop_stale(now);
    }

    /// When [`Session::handle_timeout`] is to be called next. It changes by any other call.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let connections = self.connections.iter().flatten().filter_map(Connection::timeout);
        let stale = Family::ALL.into_iter().filter_map(|family| self.stale_until[family]);
        connections.chain(stale).chain(self.attempt.timeout()).min()
    }

    /// What to do next with transports: at most one message's worth of work. UPDATE messages are
    /// made here, so whoever has no room to write does not ask; if nothing is taken for twice the
    /// hold time, and 8 minutes, the session ends (RFC 9687).
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let transmit = self.transmits.pop_front().or_else(|| self.next_update(now));
        match &transmit {
            Some(Transmit::Send(..)) => {
                self.counters.messages_sent += 1;
                self.expect_progress(now);
            }
            Some(_) => {}
            None => self.connections.iter_mut().flatten().for_each(|open| open.send_hold_at = None),
        }
        transmit
    }

    /// What happened, in its order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// From now on the neighbour shall have this route, instead of any with the same prefix and
    /// path: before, during and after sessions. `path` tells several routes to a prefix apart where
    /// add-path is configured, and is disregarded elsewhere; to a neighbour that does not take
    /// several ([`Session::sends_paths`]), path 0 alone is sent.
    ///
    /// # Errors
    ///
    /// Why the route stays here; then the neighbour shall have no such route.
    pub fn announce(
        &mut self,
        prefix: Prefix,
        path: u32,
        attributes: &Attributes,
        now: Instant,
    ) -> Result<(), Withheld> {
        let key = (prefix, self.path(&prefix, path));
        let family = Family::of(&prefix);
        if let Some((given, made)) = &self.last_export
            && given.is_same(attributes)
            && made.next_hop().address().is_ipv4() == (family == Family::Ipv4)
        {
            let made = made.clone();
            self.rib_out.announce(key, made);
        } else {
            match export::prepare(&self.config, &prefix, attributes) {
                Ok(canonical) => {
                    let made = self.rib_out.intern(canonical.as_deref(), attributes);
                    self.last_export = Some((attributes.clone(), made.clone()));
                    self.rib_out.announce(key, made);
                }
                Err(withheld) => {
                    self.rib_out.withdraw(key);
                    self.expect_progress_of_backlog(now);
                    return Err(withheld);
                }
            }
        }
        self.expect_progress_of_backlog(now);
        Ok(())
    }

    /// From now on the neighbour shall not have this route. Whether it was announced.
    pub fn withdraw(&mut self, prefix: Prefix, path: u32, now: Instant) -> bool {
        let key = (prefix, self.path(&prefix, path));
        let was_there = self.rib_out.withdraw(key);
        self.expect_progress_of_backlog(now);
        was_there
    }

    /// All routes of a family have been announced: the neighbour is told once it has them
    /// (RFC 4724). For those who do not leave it to the session.
    pub fn end_of_rib(&mut self, family: Family, now: Instant) {
        self.rib_out.end_of_rib(family);
        self.expect_progress_of_backlog(now);
    }

    /// Asks the neighbour for all routes of a family again (RFC 2918). Whether it was asked: the
    /// session is up, and the neighbour answers such requests. Its end is told by
    /// [`Event::Refreshed`] where both sides mark it (RFC 7313).
    pub fn request_refresh(&mut self, family: Family, now: Instant) -> bool {
        let Some((_, negotiated)) = self.established() else { return false };
        if !negotiated.route_refresh || negotiated.family(family).is_none() {
            return false;
        }
        self.send_refresh(family, RouteRefreshSubtype::Normal, now);
        true
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> State {
        let furthest = self.connections.iter().flatten().map(|open| open.phase).max();
        match furthest {
            Some(Phase::Established) => State::Established,
            Some(Phase::OpenConfirm) => State::OpenConfirm,
            Some(Phase::OpenSent) => State::OpenSent,
            None => self.attempt.state(),
        }
    }

    /// What was agreed on, while the session is up.
    #[must_use]
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.established().map(|(_, negotiated)| negotiated)
    }

    /// Whether the session is up and several routes to a prefix may be sent.
    #[must_use]
    pub fn sends_paths(&self, family: Family) -> bool {
        self.negotiated().is_some_and(|negotiated| negotiated.sends_paths(family))
    }

    /// The configuration that the session was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The routes that the neighbour has announced: prefix, path and attributes, by prefix.
    pub fn routes_in(&self, family: Family) -> impl Iterator<Item = (Prefix, u32, &Attributes)> {
        self.rib_in.iter(family).map(|((prefix, path), attributes)| (prefix, path, attributes))
    }

    /// The route that the neighbour has announced to a prefix.
    #[must_use]
    pub fn route_in(&self, prefix: Prefix, path: u32) -> Option<&Attributes> {
        self.rib_in.get((prefix, path))
    }

    /// The routes that the neighbour shall have, as it gets them.
    pub fn routes_out(&self, family: Family) -> impl Iterator<Item = (Prefix, u32, &Attributes)> {
        self.rib_out.iter(family).map(|((prefix, path), attributes)| (prefix, path, attributes))
    }

    /// Number of routes that the neighbour has announced.
    #[must_use]
    pub fn count_in(&self, family: Family) -> usize {
        self.rib_in.len(family)
    }

    /// Number of those that are kept from before a restart of the neighbour, or of a refresh.
    #[must_use]
    pub fn count_stale(&self, family: Family) -> usize {
        self.rib_in.stale(family)
    }

    /// Number of routes that the neighbour shall have.
    #[must_use]
    pub fn count_out(&self, family: Family) -> usize {
        self.rib_out.len(family)
    }

    /// Number of different attributes among the routes that the neighbour has announced.
    #[must_use]
    pub fn distinct_attributes(&self) -> usize {
        self.rib_in.distinct_attributes()
    }

    fn connection(&mut self, side: Side) -> Option<&mut Connection> {
        self.connections[side as usize].as_mut()
    }

    fn side_of(&self, connection: ConnectionId) -> Option<Side> {
        let is_it = |side: &Side| {
            self.connections[*side as usize].as_ref().is_some_and(|open| open.id == connection)
        };
        [Side::Outgoing, Side::Incoming].into_iter().find(is_it)
    }

    fn established(&self) -> Option<(ConnectionId, &Negotiated)> {
        let open =
            self.connections.iter().flatten().find(|open| open.phase == Phase::Established)?;
        Some((open.id, open.negotiated.as_deref()?))
    }

    /// Ends all connections with a word.
    fn cease(&mut self, subcode: u8, words: &str, now: Instant) {
        for side in [Side::Outgoing, Side::Incoming] {
            if self.connection(side).is_some() {
                let data = encode_shutdown_communication(words);
                self.fail(
                    side,
                    NotificationMessage::new(NotificationCode::Cease, subcode, data),
                    now,
                );
            }
        }
    }

    /// Queues a message. One that cannot be written is left out: those made here can.
    fn send(&mut self, side: Side, message: &Message, now: Instant) {
        let Some(open) = self.connection(side) else { return };
        let id = open.id;
        let limit = open.negotiated.as_ref().map(|negotiated| negotiated.max_message());
        let encoded = match limit {
            Some(limit) => encode_message_with_limit(message, limit),
            None => encode_message(message),
        };
        if let Ok(encoded) = encoded {
            self.transmits.push_back(Transmit::Send(id, encoded.freeze()));
            let deadline = self.send_deadline(side, now);
            if let Some(open) = self.connection(side) {
                open.send_hold_at = open.send_hold_at.or(deadline);
            }
        }
    }

    fn send_refresh(&mut self, family: Family, subtype: RouteRefreshSubtype, now: Instant) {
        let Some(side) = self.established().and_then(|(id, _)| self.side_of(id)) else { return };
        let (afi, safi) = family.wire();
        let message = RouteRefreshMessage::new_with_subtype(afi, safi, subtype);
        self.send(side, &Message::RouteRefresh(message), now);
    }

    fn mark_refresh(
        &mut self,
        family: Family,
        mark: RouteRefreshSubtype,
        now: Instant,
    ) -> Option<Transmit> {
        self.send_refresh(family, mark, now);
        self.transmits.pop_front()
    }

    /// The next message out of Adj-RIB-Out.
    fn next_update(&mut self, now: Instant) -> Option<Transmit> {
        let (id, negotiated) = self.established()?;
        let (max_message, four_octet_as) = (negotiated.max_message(), negotiated.four_octet_as);
        let add_path = PerFamily::from_fn(|family| negotiated.sends_paths(family));
        for family in Family::ALL {
            let format = Format { max_message, four_octet_as, add_path: add_path[family] };
            while let Some(next) = self.rib_out.next(family, format) {
                match next {
                    Next::Update(message) | Next::EndOfRib(message) => {
                        self.counters.updates_sent += 1;
                        self.postpone_keepalive(id, now);
                        return Some(Transmit::Send(id, message.into()));
                    }
                    Next::BeginOfRefresh => {
                        return self.mark_refresh(family, RouteRefreshSubtype::BoRR, now);
                    }
                    Next::EndOfRefresh => {
                        return self.mark_refresh(family, RouteRefreshSubtype::EoRR, now);
                    }
                    Next::TooLong => self.counters.too_long += 1,
                }
            }
        }
        None
    }
}

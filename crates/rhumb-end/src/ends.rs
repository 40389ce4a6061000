//! All connections of one end: what comes in goes to the connection that it is of, or begins one.
//!
//! Per payload: halves are joined; QUIC finds the connection by its identifier; the two names must
//! be those that the connection is between, so that a copy under another name, or a redirected one,
//! touches nothing. A first packet is judged before any key is made for it ([`crate::gate`]).

mod arrived;
mod begin;
mod event;
mod lately;
mod packets;
mod standing;
mod streams;
mod transmit;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::{hkdf, hmac};
use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, HashedConnectionIdGenerator,
    TimeSource, VarInt,
};
use rhumb_trust::{Access, AdCert, Identity, Now, Standing};
use rhumb_wire::Name;
use rhumb_wire::payload::{Half, PayloadHeader, PayloadKind};
use serde::{Serialize, Serializer};

use crate::connection::{Connection, Origin, Phase};
use crate::credentials::{Credentials, FIRST, PACKETS_TOO, Shown};
use crate::gate::Gate;
use crate::halves::{Halves, MAX_WAITING};
use crate::numbered::Numbered;
use crate::offers::Offers;
use crate::packets::Waiting;
use crate::shares::Shares;
use crate::{Admits, Carries, DropReason, Drops, EndError};
use arrived::Arrived;
use lately::Lately;

pub use event::Event;
pub use packets::PACKETS;
pub use streams::{Blocked, Ports, Way, WriteError};
pub use transmit::Transmit;

/// A connection; none has the number of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(u64);

/// How an end is set up.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Config {
    /// The longest QUIC datagram that this end's own link can carry or take, 1200 at least.
    pub max_datagram_len: u16,
    /// How long a connection may take to be made.
    pub connect_within: Duration,
    /// Whether packets go as records, if the peer understands it. If not, they go as datagrams.
    pub has_records: bool,
}

/// How a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ConnectionStatus {
    /// This end's name.
    pub local: Name,
    /// The other end's.
    pub peer: Name,
    /// Whether this end began it.
    pub is_ours: bool,
    /// Streams that programs have.
    pub streams: usize,
    /// The estimate of a round trip.
    #[serde(rename = "round_trip_ms", serialize_with = "milliseconds")]
    pub round_trip: Duration,
    /// The longest QUIC datagram that is sent on it.
    pub datagram_len: u16,
    /// Packets that were taken for lost.
    pub lost_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
}

/// How this end proves one of its names.
struct Spoken {
    /// The owner's word, when the name is not its own.
    ad_cert: Option<AdCert>,
    certificate: Shown,
}

/// The connections of one end.
pub struct Ends {
    name: Name,
    config: Config,
    credentials: Credentials,
    /// What is shown for this end's names.
    shown: HashMap<Name, Spoken>,
    access: Access,
    awaits_removals: bool,
    lately: Lately,
    endpoint: Endpoint,
    clock: Arc<Clock>,
    token_key: [u8; 32],
    connections: Numbered<ConnectionId, Connection>,
    by_handle: Numbered<ConnectionHandle, ConnectionId>,
    /// Those between two names, the newest last.
    by_names: HashMap<(Name, Name), Vec<ConnectionId>>,
    /// The one that a record was of last.
    latest_with_record: ConnectionId,
    next_id: u64,
    offers: Offers,
    gate: Gate,
    shares: Shares,
    halves: Halves,
    /// Connections that may have something to send.
    ready: VecDeque<ConnectionId>,
    timers: BTreeSet<(Instant, ConnectionId)>,
    /// Answers that belong to no connection, and second halves.
    outbox: VecDeque<(Transmit, Vec<u8>)>,
    events: VecDeque<Event>,
    drops: Drops,
    scratch: Vec<u8>,
    arrived: Arrived,
}

impl Config {
    /// The defaults, over a link that carries QUIC datagrams of this length.
    pub fn new(max_datagram_len: u16) -> Self {
        Self { max_datagram_len, connect_within: CONNECT_WITHIN, has_records: true }
    }

    /// What is spoken, the best first.
    fn protocols(&self) -> &'static [&'static [u8]] {
        if self.has_records { &[PACKETS_TOO, FIRST] } else { &[FIRST] }
    }
}

impl Ends {
    /// An end under the name of `identity`. `seed` is random, and secret: tokens are made with it.
    ///
    /// # Errors
    /// When a library refuses the key.
    pub fn new(
        identity: Arc<Identity>,
        config: Config,
        seed: &[u8; 32],
        now: Now,
    ) -> Result<Self, EndError> {
        let name = identity.name();
        // Of the key, so that whoever held a connection with a process before this one learns at
        // once that it is gone.
        let derived = |what: &[u8]| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, identity.pkcs8_der());
            hmac::sign(&key, what)
        };
        let reset_key = hmac::Key::new(hmac::HMAC_SHA256, derived(b"rhumb/1 end reset").as_ref());
        let id_key = derived(b"rhumb/1 end ids");
        let id_key = id_key.as_ref().first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
        let mut endpoint = EndpointConfig::new(Arc::new(reset_key));
        endpoint
            .cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(id_key)))
            .supported_versions(vec![QUIC_VERSION])
            .rng_seed(Some(*seed));
        let longest = config.max_datagram_len.max(crate::transport::LEAST_DATAGRAM_LEN);
        endpoint.max_udp_payload_size(longest).map_err(|_| EndError::Library)?;
        let credentials = Credentials::new(identity)?;
        let spoken = Spoken { ad_cert: None, certificate: credentials.shown(None)? };
        let shown = HashMap::from([(name, spoken)]);
        let mut ends = Self {
            name,
            config,
            credentials,
            shown,
            access: Access::default(),
            awaits_removals: false,
            lately: Lately::default(),
            endpoint: Endpoint::new(Arc::new(endpoint), None, true, None),
            clock: Arc::new(Clock(AtomicU64::new(now.unix_ms))),
            token_key: *seed,
            connections: Numbered::default(),
            by_handle: Numbered::default(),
            by_names: HashMap::new(),
            latest_with_record: ConnectionId(0),
            next_id: 0,
            offers: Offers::default(),
            gate: Gate::new(now.instant),
            shares: Shares::new(now.instant),
            halves: Halves::new(MAX_WAITING),
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            drops: Drops::default(),
            scratch: Vec::new(),
            arrived: Arrived::default(),
        };
        ends.begin_to_answer()?;
        Ok(ends)
    }

    /// Speaks for the owner of an AdCert, too; a newer one takes the place of the one before, for
    /// connections that begin from then on.
    ///
    /// # Errors
    /// When the library refuses to make a certificate.
    pub fn serve(&mut self, ad_cert: &AdCert) -> Result<(), EndError> {
        let certificate = self.credentials.shown(Some(ad_cert))?;
        let spoken = Spoken { ad_cert: Some(ad_cert.clone()), certificate };
        self.shown.insert(ad_cert.owner(), spoken);
        Ok(())
    }

    /// Speaks for `name` no more: its connections are closed.
    pub fn stop_serving(&mut self, name: Name, now: Now) {
        if name == self.name || self.shown.remove(&name).is_none() {
            return;
        }
        let of_it = self.connections.iter().filter(|(_, it)| it.local == name);
        for id in of_it.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close(id, DONE, now);
        }
    }

    /// Lets `admits` use a port, in place of who might before. Connections that there are go on.
    pub fn offer(&mut self, carries: Carries, port: u16, admits: Admits) {
        self.offers.offer(carries, port, admits);
    }

    /// Offers a port no more. Streams that there are go on.
    pub fn withdraw(&mut self, carries: Carries, port: u16) {
        self.offers.withdraw(carries, port);
    }

    /// Takes a payload of a connection, [`PayloadKind::Datagram`] apart, that `from`
    /// sent to `to`, by the word of routers; `standing` is the best that this node's rules can make
    /// of `from` before it has proven itself.
    /// Says which connection it was of, if it was of one, for [`Ends::charge`].
    ///
    /// # Errors
    /// Why it was dropped; it is counted.
    pub fn handle(
        &mut self,
        from: Name,
        to: Name,
        (header, body): (PayloadHeader, &[u8]),
        standing: Standing,
        now: Now,
    ) -> Result<Option<ConnectionId>, DropReason> {
        self.clock.set(now);
        let handled = match header.kind {
            PayloadKind::Connection => self.handle_datagram(from, to, body.into(), standing, now),
            PayloadKind::Half => self.handle_half(from, to, header.port, body, standing, now),
            PayloadKind::Record => self.handle_record(from, to, body, now),
            PayloadKind::Datagram => Err(DropReason::Malformed),
        };
        handled.inspect_err(|reason| self.drops.count(*reason))
    }

    fn handle_half(
        &mut self,
        from: Name,
        to: Name,
        number: u16,
        body: &[u8],
        standing: Standing,
        now: Now,
    ) -> Result<Option<ConnectionId>, DropReason> {
        let half = Half::parse(body).map_err(|_| DropReason::Malformed)?;
        match self.halves.join(from, to, number, half, now.instant) {
            Ok(None) => Ok(None),
            Ok(Some(whole)) => self.handle_datagram(from, to, whole[..].into(), standing, now),
            Err(_) => Err(DropReason::HalfGaveWay),
        }
    }

    fn handle_datagram(
        &mut self,
        from: Name,
        to: Name,
        datagram: BytesMut,
        standing: Standing,
        now: Now,
    ) -> Result<Option<ConnectionId>, DropReason> {
        self.scratch.clear();
        let remote = transmit::address_of(&from);
        let event =
            self.endpoint.handle(now.instant, remote, None, None, datagram, &mut self.scratch);
        match event {
            // Noise, late packets of connections that are over, and what waits to be judged.
            None => Ok(None),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let id = self.by_handle.get(&handle).copied().ok_or(DropReason::Malformed)?;
                let Some(connection) = self.connections.get_mut(&id) else { return Ok(None) };
                if connection.peer != from || connection.local != to {
                    return Err(DropReason::OtherNames);
                }
                if !self.shares.has_left(&connection.spent, connection.origin.is_stranger()) {
                    return Err(DropReason::OverShare);
                }
                connection.quic.handle_event(event);
                self.settle(id, now);
                Ok(Some(id))
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.judge(incoming, from, to, standing, now).map(|()| None)
            }
            Some(DatagramEvent::Response(_)) => {
                self.answer(to, from);
                Ok(None)
            }
        }
    }

    /// A payload of a connection took so long to handle.
    pub fn charge(&mut self, id: ConnectionId, took: Duration) {
        if let Some(connection) = self.connections.get_mut(&id) {
            let is_stranger = connection.origin.is_stranger();
            self.shares.charge(&mut connection.spent, is_stranger, took);
        }
    }

    /// The payloads that are handled from now on came together, and others may wait behind them.
    pub fn begin_batch(&mut self, now: Now) {
        self.shares.begin_batch(now.instant);
    }

    /// Begins a connection from one of this end's names, or takes one that there is.
    /// [`Event::Connected`] or [`Event::Ended`] follows, unless it was there.
    ///
    /// # Errors
    /// When `local` is none of this end's names, or `peer` is, or there are too many.
    pub fn connect(&mut self, local: Name, peer: Name, now: Now) -> Result<ConnectionId, EndError> {
        if let Some(id) = self.usable(local, peer) {
            return Ok(id);
        }
        self.clock.set(now);
        self.begin(local, peer, now)
    }

    /// The connection between two names that is made, the newest if there are several.
    pub fn open_between(&self, local: Name, peer: Name) -> Option<ConnectionId> {
        self.usable(local, peer).filter(|id| self.is_open(*id))
    }

    /// As [`Ends::connect`], and begins one though there is one.
    ///
    /// # Errors
    /// As there.
    pub fn connect_anew(
        &mut self,
        local: Name,
        peer: Name,
        now: Now,
    ) -> Result<ConnectionId, EndError> {
        self.clock.set(now);
        self.begin(local, peer, now)
    }

    /// Whether the other end began it, and was not chosen.
    pub fn is_strangers(&self, id: ConnectionId) -> bool {
        let origin = self.connections.get(&id).map(|it| it.origin);
        origin == Some(Origin::Theirs { is_stranger: true })
    }

    /// Whether a name is connected that was chosen: by the rules, or by who may use a port.
    pub fn has_chosen(&self, peer: Name) -> bool {
        let is_chosen = |it: &Connection| match it.origin {
            Origin::Theirs { is_stranger } => !is_stranger,
            Origin::Ours => it.standing == Standing::Admitted,
        };
        let open = self.connections.values().filter(|it| matches!(it.phase, Phase::Open { .. }));
        open.filter(|it| it.peer == peer).any(is_chosen)
    }

    /// Whether a connection is made.
    pub fn is_open(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|it| matches!(it.phase, Phase::Open { .. }))
    }

    /// A program has a handle of a connection: how it ended stays known until as many
    /// [`Ends::let_go`] as there were of these.
    pub fn keep(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.keepers += 1;
        }
    }

    /// See [`Ends::keep`].
    pub fn let_go(&mut self, id: ConnectionId, now: Now) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.keepers = connection.keepers.saturating_sub(1);
            self.settle(id, now);
        }
    }

    /// How a connection ended, if it has.
    pub fn end_of(&self, id: ConnectionId) -> Option<EndError> {
        match self.connections.get(&id).map(|it| &it.phase) {
            Some(Phase::Over(error)) => Some(error.clone()),
            Some(_) => None,
            None => Some(EndError::Closed),
        }
    }

    /// Closes a connection, at once: what is not yet there does not arrive.
    pub fn close(&mut self, id: ConnectionId, code: u64, now: Now) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        connection.quic.close(now.instant, code, Bytes::new());
        self.end(id, EndError::Closed);
        self.settle(id, now);
    }

    /// Closes all connections, as [`Ends::close`] does.
    pub fn close_all(&mut self, now: Now) {
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            self.close(id, DONE, now);
        }
    }

    /// The network says that there is no way to `peer`: what was only beginning fails.
    pub fn unreachable(&mut self, peer: Name, now: Now) {
        let is_it =
            |it: &Connection| it.peer == peer && matches!(it.phase, Phase::Beginning { .. });
        let beginning = self.connections.iter().filter(|(_, it)| is_it(it)).map(|(id, _)| *id);
        for id in beginning.collect::<Vec<_>>() {
            self.give_up(id, EndError::Unreachable(peer), now);
        }
    }

    /// This node has joined a router again: says on all connections that it is there, so that what
    /// was lost is sent again at once.
    pub fn rejoined(&mut self, now: Now) {
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            if let Some(connection) = self.connections.get_mut(&id)
                && matches!(connection.phase, Phase::Open { .. })
            {
                connection.quic.path_changed(now.instant);
                connection.quic.ping();
                self.settle(id, now);
            }
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Now) {
        self.clock.set(now);
        while let Some(&(at, id)) = self.timers.first()
            && at <= now.instant
        {
            self.timers.remove(&(at, id));
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.timer = None;
            connection.quic.handle_timeout(now.instant);
            connection.records.iter_mut().for_each(|it| it.tidy(now.instant));
            let peer = connection.peer;
            let is_beginning = matches!(connection.phase, Phase::Beginning { .. });
            let proof_ends = connection.proof_has_ended(now);
            let is_due = connection.deadline().is_some_and(|at| at <= now.instant);
            let over = match (proof_ends, is_due) {
                (Some(EndError::NotAllowed(_)), _) => {
                    self.turn_away(id, DropReason::SenderRefused, now);
                    continue;
                }
                (Some(error), _) => Some(error),
                (None, true) if is_beginning => Some(EndError::NoAnswer(peer)),
                // Nobody has used it for long.
                (None, true) => Some(EndError::Closed),
                (None, false) => None,
            };
            if let Some(error) = over {
                self.give_up(id, error, now);
            }
            self.settle(id, now);
        }
    }

    /// When to call [`Ends::handle_timeout`] at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// What happened next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether [`Ends::poll_event`] has something to tell.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// What was dropped, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// How many connections are being made, by either end.
    pub fn beginning(&self) -> usize {
        let beginning = |it: &&Connection| matches!(it.phase, Phase::Beginning { .. });
        self.connections.values().filter(beginning).count()
    }

    /// The connections that are made, in no order.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionStatus> + '_ {
        let open = self.connections.values().filter(|it| matches!(it.phase, Phase::Open { .. }));
        open.map(|it| {
            let path = it.quic.stats().path;
            ConnectionStatus {
                local: it.local,
                peer: it.peer,
                is_ours: it.origin == Origin::Ours,
                streams: it.held.len(),
                round_trip: path.rtt,
                datagram_len: path.current_mtu,
                lost_packets: path.lost_packets,
                sent_packets: path.sent_packets,
            }
        })
    }

    /// Ends a connection by this end's own decision.
    fn give_up(&mut self, id: ConnectionId, error: EndError, now: Now) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.quic.close(now.instant, VarInt::from_u32(0), Bytes::new());
            self.end(id, error);
            self.settle(id, now);
        }
    }

    /// Tells once that a connection is over, and why.
    fn end(&mut self, id: ConnectionId, error: EndError) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let was_open = match connection.phase {
            Phase::Over(_) => return,
            Phase::Beginning { .. } => false,
            Phase::Open { .. } => true,
        };
        connection.phase = Phase::Over(error.clone());
        // What has not left does not.
        (connection.records, connection.waiting) = (None, Waiting::default());
        if let Origin::Theirs { is_stranger } = connection.origin {
            self.gate.ended(is_stranger, was_open);
        }
        let names = (connection.local, connection.peer);
        if let Some(ids) = self.by_names.get_mut(&names) {
            ids.retain(|it| *it != id);
            if ids.is_empty() {
                self.by_names.remove(&names);
            }
        }
        // A program hears of those that others could not even begin from the counters alone.
        if was_open || connection.origin == Origin::Ours {
            self.events.push_back(Event::Ended { id, peer: names.1, error });
        }
    }

    /// After anything happened to a connection: hands on what it has to tell, sets its timer, and
    /// notes that it may have something to send. Forgets it when it is over and nobody has a
    /// stream or a handle of it.
    fn settle(&mut self, id: ConnectionId, now: Now) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let handle = connection.handle;
        let mut is_drained = false;
        while let Some(event) = connection.quic.poll_endpoint_events() {
            is_drained |= event.is_drained();
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                connection.quic.handle_event(event);
            }
        }
        if is_drained {
            self.by_handle.remove(&handle);
        }
        self.take_events(id, now);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let is_wanted = !connection.held.is_empty() || connection.keepers > 0;
        if connection.quic.is_drained() && !is_wanted {
            self.forget(id);
            return;
        }
        self.make_ready(id);
        self.set_timer(id);
    }

    /// A connection may have something to send.
    fn make_ready(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !connection.is_ready {
            connection.is_ready = true;
            self.ready.push_back(id);
        }
    }

    fn set_timer(&mut self, id: ConnectionId) {
        self.set_timer_before(id, None);
    }

    /// As [`Ends::set_timer`], and no later than a time.
    fn set_timer_before(&mut self, id: ConnectionId, at: Option<Instant>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let due = [connection.quic.poll_timeout(), connection.deadline(), at];
        let due = due.into_iter().flatten().min();
        if due != connection.timer {
            if let Some(at) = connection.timer {
                self.timers.remove(&(at, id));
            }
            connection.timer = due;
            self.timers.extend(due.map(|at| (at, id)));
        }
    }

    fn forget(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id)
            && let Some(at) = connection.timer
        {
            self.timers.remove(&(at, id));
        }
    }

    /// Hands on what QUIC has to tell of a connection.
    fn take_events(&mut self, id: ConnectionId, now: Now) {
        use quinn_proto::{Event as QuicEvent, StreamEvent};
        while let Some(event) = self.connections.get_mut(&id).and_then(|it| it.quic.poll()) {
            match event {
                QuicEvent::Connected => self.opened(id, now),
                QuicEvent::ConnectionLost { reason } => {
                    if let Some(connection) = self.connections.get(&id) {
                        let error = connection.explain(&reason);
                        self.end(id, error);
                    }
                }
                QuicEvent::Stream(StreamEvent::Opened { dir }) => self.take_streams(id, dir, now),
                QuicEvent::Stream(StreamEvent::Readable { id: stream }) => {
                    self.readable(id, stream, now);
                }
                QuicEvent::Stream(
                    StreamEvent::Writable { id: stream } | StreamEvent::Stopped { id: stream, .. },
                ) => self.writable(id, stream),
                QuicEvent::Stream(StreamEvent::Finished { id: stream }) => {
                    self.events.push_back(Event::Finished { id, stream });
                }
                QuicEvent::Stream(StreamEvent::Available { .. }) => {
                    self.events.push_back(Event::MayOpen { id });
                }
                QuicEvent::DatagramReceived => self.take_datagrams(id, now),
                QuicEvent::DatagramsUnblocked => self.events.push_back(Event::MaySend { id }),
                QuicEvent::HandshakeDataReady => {}
            }
        }
    }
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends").field("name", &self.name).finish_non_exhaustive()
    }
}

/// For people, who compare round trips in these.
fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((time.as_secs_f64() * 1e6).round() / 1e3)
}

/// The civil time, as it was told last: tokens end by it.
#[derive(Debug)]
struct Clock(AtomicU64);

impl Clock {
    fn set(&self, now: Now) {
        self.0.store(now.unix_ms, Ordering::Relaxed);
    }
}

impl TimeSource for Clock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A key for tokens, from the secret that was given.
fn token_key(seed: &[u8; 32]) -> hkdf::Prk {
    hkdf::Salt::new(hkdf::HKDF_SHA256, b"rhumb/1 end tokens").extract(seed)
}

/// The code of a connection that ends because it is done.
const DONE: u64 = 0;
/// RFC 9000.
const QUIC_VERSION: u32 = 1;
/// Twice what a program waits for a name elsewhere; three packets of the handshake may be lost.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Connections between two names: one each way, and as many again while one end begins anew.
const MAX_BETWEEN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::Role;
    use rustls::client::ResolvesClientCert;
    use rustls::sign::{CertifiedKey, SingleCertAndKey};

    /// The certificate of `of`, which is public, with the key of another.
    fn impostor(of: &Credentials, key: &Credentials) -> Shown {
        let parts = |it: &Credentials| it.shown(None).unwrap().resolve(&[], &[]).unwrap();
        let mixed = CertifiedKey::new(parts(of).cert.clone(), Arc::clone(&parts(key).key));
        Arc::new(SingleCertAndKey::from(mixed))
    }

    /// Whether a connection comes about between two ends, of which one may show what is not its.
    fn meet(a_shows_false: bool, b_shows_false: bool) -> [bool; 2] {
        meet_as(|ends, [a, b], key| {
            for (end, is_false) in [(a, a_shows_false), (b, b_shows_false)] {
                if is_false {
                    let name = ends[end].name;
                    let certificate = impostor(&ends[end].credentials, key);
                    ends[end].shown.insert(name, Spoken { ad_cert: None, certificate });
                }
            }
        })
    }

    /// As [`meet`], once the two ends were changed; there is somebody else's key to do it with.
    fn meet_as(change: impl FnOnce(&mut [Ends; 2], [usize; 2], &Credentials)) -> [bool; 2] {
        #[expect(clippy::disallowed_methods, reason = "the first instant")]
        let now = Now { instant: Instant::now(), unix_ms: 1_900_000_000_000 };
        let [a, b, key] = [1, 2, 3].map(|n| Arc::new(Identity::generate(Role::Node, n).unwrap()));
        let key = Credentials::new(key).unwrap();
        let mut ends =
            [&a, &b].map(|it| Ends::new(Arc::clone(it), Config::new(1400), &[7; 32], now).unwrap());
        change(&mut ends, [0, 1], &key);
        ends[1].offer(Carries::Streams, 1, Admits::Everybody);
        let _ = ends[0].connect(a.name(), b.name(), now).unwrap();
        let mut body = Vec::new();
        for step in 0..20 {
            let (from, to) = (step % 2, (step + 1) % 2);
            while let Some(it) = ends[from].poll_transmit(|_| 1400, &mut body, now) {
                let payload = (it.header, &body[..]);
                let _ = ends[to].handle(it.from, it.to, payload, Standing::Stranger, now);
            }
        }
        ends.map(|it| it.connections().next().is_some())
    }

    #[test]
    fn the_hybrid_comes_first_and_stacks_without_it_are_met() {
        use rustls::NamedGroup;
        use rustls::crypto::aws_lc_rs::kx_group::{SECP384R1, X25519, X25519MLKEM768};
        for (group, is_met) in [(X25519MLKEM768, true), (X25519, true), (SECP384R1, false)] {
            for end in [0, 1] {
                let met = meet_as(|ends, _, _| {
                    let provider = &mut ends[end].credentials.provider;
                    assert_eq!(provider.kx_groups[0].name(), NamedGroup::X25519MLKEM768);
                    Arc::make_mut(provider).kx_groups = vec![group];
                });
                assert_eq!(met, [is_met; 2], "{group:?} at end {end}");
            }
        }
    }

    #[test]
    fn a_certificate_without_its_key_proves_nothing() {
        assert_eq!(meet(false, false), [true, true]);
        assert_eq!(meet(false, true), [false, false]);
        // Who begins learns it a little later.
        assert_eq!(meet(true, false), [false, false]);
    }
}

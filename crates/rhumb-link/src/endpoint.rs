//! The public face: one socket's worth of sessions, sans-IO.
//!
//! 1. Datagrams come in: sealed ones by [`Endpoint::open`], all others by
//!    [`Endpoint::handle_handshake`].
//! 2. Datagrams go out: sealed by [`Endpoint::seal`], and what the endpoint itself has to say by
//!    [`Endpoint::poll_transmit`].
//! 3. Time comes in by [`Endpoint::handle_timeout`], whenever [`Endpoint::poll_timeout`] says so.
//! 4. What happened comes out by [`Endpoint::poll_event`].
//!
//! After each of 1 and 3, poll. `open` and `seal` are the fast path: an index
//! into a table, a window, an AEAD, nothing allocated and nothing hashed;
//! everything else is per handshake or per timer.
//!
//! Invariant: a session sends to the address its newest handshake was made with, or
//! that has since answered a challenge sent there, and to no other, wherever
//! datagrams that belong to it come from. To an address that is being checked go path
//! messages, and no more bytes than came from there.

mod elsewhere;
mod foreign;
pub(crate) mod former;
mod guests;
mod handshakes;
mod intake;
mod paths;
mod records;
mod renewals;
mod sharing;
mod showing;
mod sizes;
mod streams;
mod timeouts;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use rhumb_trust::{Access, Identity, Now, x509};
use rhumb_wire::{Batch, Name};

pub use records::Opened;
pub(crate) use records::{NEAR_SESSIONS, holds_pdus};
use sharing::Sharing;

use crate::admission::Admission;
use crate::census::Census;
use crate::cookie::Cookies;
use crate::dtls::Library;
use crate::elsewhere::HandshakeJob;
use crate::exchange::Exchange;
use crate::handshake::MAX_OUTPUT;
use crate::lane_table::LaneTable;
use crate::path::Challenges;
use crate::retry::RetryTokens;
use crate::session::{Lanes, Session};
use crate::slots::{Key, Slots};
use crate::stream::{Dial, StreamOrder};
use crate::timers::Timers;
use crate::{CloseReason, Config, Drops, Limits, LinkError, MIN_DATAGRAM_LEN, Peer, SessionId};

/// Sessions between our name and others, over one socket.
pub struct Endpoint {
    name: Name,
    config: Config,
    library: Arc<Library>,
    /// The number of the certificate that handshakes begun now show.
    shows: u32,
    tokens: RetryTokens,
    cookies: Cookies,
    challenges: Challenges,
    admission: Admission,
    census: Census,
    /// Who is admitted.
    access: Access,
    /// The civil clock at the moment when those rules were given.
    clock: Option<Now>,
    exchanges: Slots<Exchange>,
    /// Steps of exchanges that wait to be done elsewhere.
    handshake_jobs: VecDeque<HandshakeJob>,
    /// The exchanges with each address. Addresses in hello messages
    /// are chosen by strangers, so the map is keyed.
    routes: HashMap<SocketAddr, Route>,
    sessions: Slots<Session>,
    by_name: HashMap<Name, SessionId>,
    lanes: Lanes,
    /// What workers have to be told.
    sharing: Sharing,
    /// Streams that are being dialled.
    dials: HashMap<AttemptId, Dial>,
    /// What is wanted of whoever carries streams.
    stream_orders: VecDeque<StreamOrder>,
    timers: Timers,
    outgoing: Batch,
    events: VecDeque<Event>,
    drops: Drops,
    /// Whether any peer ever took bundles.
    sends_bundles: bool,
    attempts: u64,
    records_from_elsewhere: u64,
    /// Room for one output of the handshake library.
    scratch: Vec<u8>,
}

/// The exchanges with one address: both ends may begin one at once.
#[derive(Debug, Clone, Copy, Default)]
struct Route {
    initiator: Option<Key>,
    responder: Option<Key>,
}

/// An attempt to connect, to tell its outcome by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId(u64);

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A handshake completed: the session can be used, or goes on with fresh keys.
    Established {
        /// The session.
        session: SessionId,
        /// The attempt of ours that made it; none when the
        /// peer began, or when we renewed by ourselves.
        attempt: Option<AttemptId>,
        /// The proven name.
        peer: Name,
        /// Whether there was a session with that name, which now has
        /// fresh keys, and perhaps another address.
        renewed: bool,
    },
    /// An attempt failed for good.
    Failed {
        /// The attempt.
        attempt: AttemptId,
        /// Where it went.
        address: SocketAddr,
        /// Why.
        error: LinkError,
    },
    /// The peer has another address, and showed that it is there.
    /// The session is the same, and so are its keys.
    Moved {
        /// The session.
        session: SessionId,
        /// Where it sent to.
        from: SocketAddr,
        /// Where it sends to.
        to: SocketAddr,
    },
    /// The newest handshake of a session came from another address, and somebody
    /// still sends under the keys from before: another process that holds the peer's
    /// key. Told every half second while that is so.
    Former {
        /// The session.
        session: SessionId,
    },
    /// Datagrams to the peer may be larger from now on, or have to be smaller.
    Resized {
        /// The session.
        session: SessionId,
        /// The largest so far, in bytes of UDP payload.
        before: u16,
        /// The largest from now on.
        now: u16,
    },
    /// The peer of a watched session has left a first question
    /// unanswered: perhaps it is gone. Told once each time.
    Doubtful {
        /// The session.
        session: SessionId,
    },
    /// The peer of a watched session has left several questions unanswered: where others do as
    /// well, they are better now. Told once each time; [`Endpoint::is_suspected`] says whether it
    /// still is.
    Suspected {
        /// Which session.
        session: SessionId,
    },
    /// A session ended.
    Closed {
        /// The session, whose id is stale now.
        session: SessionId,
        /// Its peer.
        peer: Name,
        /// Why.
        reason: CloseReason,
        /// If the peer was watched and fell silent: what was
        /// sealed from then on may not have reached it.
        doubtful_from: Option<Instant>,
    },
}

impl Endpoint {
    /// An endpoint that proves `identity`. `secret` must be fresh
    /// and random: retry tokens are made with it.
    ///
    /// # Errors
    /// When the certificate cannot be made, or `config` is out of bounds.
    // An endpoint keeps its identity's secrets; the caller shows that by handing it over.
    #[allow(clippy::needless_pass_by_value)]
    pub fn new(
        identity: Arc<Identity>,
        config: Config,
        secret: [u8; 32],
        now: Instant,
    ) -> Result<Self, LinkError> {
        if config.max_datagram_len < MIN_DATAGRAM_LEN {
            return Err(LinkError::DatagramLimitTooSmall(config.max_datagram_len));
        }
        let secret = hmac::Key::new(HMAC_SHA256, &secret);
        let retry_key = hmac::sign(&secret, b"rhumb/1 retry");
        let cookie_key = hmac::sign(&secret, b"rhumb/1 cookie");
        let path_key = hmac::sign(&secret, b"rhumb/1 path");
        let first_tag = hmac::sign(&secret, b"rhumb/1 index").as_ref()[0];
        let certificate = x509::make(&identity).map_err(|_| LinkError::Certificate)?;
        #[cfg_attr(not(feature = "repeatable-handshakes"), allow(unused_mut))]
        let mut library = Library::new(certificate, identity.pkcs8_der().to_vec())?;
        #[cfg(feature = "repeatable-handshakes")]
        if config.repeatable_handshakes {
            library.repeat(hmac::sign(&secret, b"rhumb/1 repeatable").as_ref());
        }
        Ok(Self {
            name: identity.name(),
            config,
            library: Arc::new(library),
            shows: 0,
            tokens: RetryTokens::new(retry_key.as_ref(), now),
            cookies: Cookies::new(cookie_key.as_ref(), now),
            challenges: Challenges::new(path_key.as_ref()),
            admission: Admission::new(config.limits),
            census: Census::default(),
            access: Access::default(),
            clock: None,
            exchanges: Slots::new(),
            handshake_jobs: VecDeque::new(),
            routes: HashMap::new(),
            sessions: Slots::new(),
            by_name: HashMap::new(),
            lanes: LaneTable::new(first_tag),
            sharing: Sharing::new(&config),
            dials: HashMap::new(),
            stream_orders: VecDeque::new(),
            timers: Timers::default(),
            outgoing: Batch::new(),
            events: VecDeque::new(),
            drops: Drops::default(),
            sends_bundles: false,
            attempts: 0,
            records_from_elsewhere: 0,
            scratch: vec![0; MAX_OUTPUT],
        })
    }

    /// Begins a handshake with whoever is at `address`. If `expected` is given, any other name is
    /// refused. The outcome is an [`Event`], within 12 s. An attempt in progress with the same
    /// address and expectation is joined.
    pub fn connect(
        &mut self,
        address: SocketAddr,
        expected: Option<Name>,
        now: Instant,
    ) -> AttemptId {
        self.begin(address, expected, true, false, 0, now)
    }

    /// As [`Endpoint::connect`], with an address that nobody vouches for: one datagram goes there,
    /// and no other before there is an answer, for which it waits a second. `as_foreign`: the
    /// datagram is one that foreign peers understand, otherwise one that native ones do. Returns
    /// the length of what was sent, too.
    pub fn connect_once(
        &mut self,
        address: SocketAddr,
        expected: Name,
        as_foreign: bool,
        now: Instant,
    ) -> (AttemptId, usize) {
        let before = self.outgoing.len();
        let attempt = self.begin(address, Some(expected), true, true, usize::from(as_foreign), now);
        let sent = self.outgoing.iter().skip(before).map(|(_, datagram)| datagram.len()).sum();
        (attempt, sent)
    }

    /// Ends a session: tells the peer, once, and forgets it.
    pub fn close(&mut self, session: SessionId, now: Instant) {
        self.send_close(session, now);
        self.end(session, CloseReason::Local);
    }

    /// Ends all sessions and tells the peers, which otherwise find out by 20 s of silence.
    pub fn close_all(&mut self, now: Instant) {
        let sessions: Vec<SessionId> = self.sessions().map(|(session, _)| session).collect();
        for session in sessions {
            self.close(session, now);
        }
    }

    /// Appends what the endpoint has to send: handshakes, keep-alives, closes. Work:
    /// all that earlier calls queued, which is at most a flight for each datagram
    /// handled and a flight for each deadline passed.
    pub fn poll_transmit(&mut self, out: &mut Batch) {
        for (peer, datagram) in self.outgoing.iter() {
            out.push(peer, datagram);
        }
        self.outgoing.clear();
    }

    /// What happened next, in order. Work: one event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`Endpoint::handle_timeout`]. It may
    /// turn out that nothing was due. Work: constant.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Our name.
    pub fn name(&self) -> Name {
        self.name
    }

    /// Who is at the other end of a session; `None` when it has ended.
    pub fn peer(&self, session: SessionId) -> Option<&Peer> {
        self.sessions.get(session.0).map(|session| &session.peer)
    }

    /// The session with a name.
    pub fn session_of(&self, name: &Name) -> Option<SessionId> {
        self.by_name.get(name).copied()
    }

    /// What bounds its sessions and handshakes.
    pub fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// All sessions.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &Peer)> {
        self.sessions.iter().map(|(key, session)| (SessionId(key), &session.peer))
    }

    /// How many datagrams were sealed for a session here since its newest handshake: what its keys
    /// count anyway. What workers seal for it is not among them.
    pub fn sealed(&self, id: SessionId) -> Option<u64> {
        self.sessions.get(id.0).map(|session| session.send.sealed())
    }

    /// Datagrams dropped, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Handshakes that others began and that have not led to a session yet.
    pub fn half_open(&self) -> usize {
        self.admission.half_open()
    }

    /// Records that were opened although they came from another address than their session sent to:
    /// the peer, or what translates its address, has moved, or somebody passes its records on.
    pub fn records_from_elsewhere(&self) -> u64 {
        self.records_from_elsewhere
    }

    /// Forgets a session and its lanes.
    fn end(&mut self, id: SessionId, reason: CloseReason) {
        let Some(session) = self.sessions.remove(id.0) else { return };
        self.by_name.remove(&session.peer.name);
        self.census.leave(id);
        let watch = session.watch.as_ref().filter(|_| reason == CloseReason::Silent);
        let doubtful_from =
            watch.and_then(|watch| watch.doubtful_from(session.last_heard(&self.lanes)));
        for index in session.receive.iter() {
            self.remove_lanes(index);
        }
        self.sharing.ended(id);
        let peer = session.peer.name;
        self.events.push_back(Event::Closed { session: id, peer, reason, doubtful_from });
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("name", &self.name)
            .field("sessions", &self.sessions.len())
            .field("exchanges", &self.exchanges.len())
            .finish_non_exhaustive()
    }
}

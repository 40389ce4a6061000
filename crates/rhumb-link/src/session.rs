//! A session: what two names share once a handshake has completed, renewed in place by later ones.
//!
//! A session sends on the lane of its newest handshake. It receives on that and on two
//! older lanes, because the other end may learn later of the newest handshake, or, when
//! both ends began one at once, hold another one for the newest: then there are two that are
//! new and the one before them. An older lane ends when nothing was opened on it for [`SILENCE`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_trust::{Membership, Who};
use rhumb_wire::datagram::SessionIndex;
use rhumb_wire::{Metadata, Name, stream};

use crate::lane_group::LaneGroup;
use crate::lane_table::LaneTable;
use crate::path::PathCheck;
use crate::path_size::PathSize;
use crate::slots::Key;
use crate::stream::{OnStream, Sending};
use crate::timers::Armed;
use crate::watch::Watch;

/// A session of this endpoint. It stays the same when the
/// session is renewed, and goes stale when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub(crate) Key);

/// Who is at the other end of a session.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Peer {
    /// The proven name.
    pub name: Name,
    /// What the name is the hash of.
    pub metadata: Arc<Metadata>,
    /// What it has shown of a trust domain in its newest handshake, unverified.
    pub membership: Option<Arc<Membership>>,
    /// Where datagrams go: where the newest handshake was made
    /// with, or where the peer has shown to be since; or a stream.
    pub address: SocketAddr,
    /// Where the peer is: the same, but where the session is on a stream, the UDP address whose
    /// owner was dialled, or the other end of the connection that it has made.
    pub at: SocketAddr,
    /// The largest datagram to send to it now, in bytes of UDP payload: as far as is known the path
    /// carries it, and it is no more than the peer receives.
    pub max_datagram_len: u16,
    /// Whether it takes several PDUs in one datagram, as it says after each handshake.
    pub takes_bundles: bool,
    /// Whether we began the newest handshake.
    pub initiator: bool,
    /// When the session began.
    pub established_at: Instant,
    /// When its newest handshake completed.
    pub renewed_at: Instant,
}

impl Peer {
    /// How datagrams go there.
    pub fn transport(&self) -> Transport {
        if stream::is_address(&self.address) { Transport::Tls } else { Transport::Udp }
    }

    /// What rules of access are asked about.
    pub fn who(&self, now_s: u64) -> Who<'_> {
        let Self { name, metadata, membership, .. } = self;
        Who { name, metadata, membership: membership.as_deref(), now_s }
    }
}

/// What a session goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Sealed datagrams.
    Udp,
    /// Frames over TLS on TCP.
    Tls,
}

impl Transport {
    /// In one word, for status and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tls => "tls",
        }
    }
}

/// The lanes that records come in on.
pub(crate) type Lanes = LaneTable<LaneEntry>;

/// The receiving lanes of one handshake, and whose they are.
pub(crate) struct LaneEntry {
    pub(crate) group: LaneGroup,
    /// The session; none until the peer's parameters have arrived.
    pub(crate) session: Option<SessionId>,
    /// Where the session sends to; until there is one, where the handshake is made with.
    pub(crate) address: SocketAddr,
    /// Whether a record was opened, so that the peer is known to have our index.
    pub(crate) confirmed: bool,
    /// Whether the session's watch dozes: then opening wakes it.
    pub(crate) dozes: bool,
    /// The exchange that made it; a stream's handshake is none.
    pub(crate) exchange: Option<Key>,
}

/// What was sent on, and where to, until a handshake from another address took the session over.
pub(crate) struct Former {
    pub(crate) send: Sending,
    pub(crate) address: SocketAddr,
    /// Until when what comes from there may be of the process that made the handshake.
    pub(crate) counts_until: Instant,
    /// When it is told next that somebody is there.
    pub(crate) told_from: Instant,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer said so.
    PeerClosed,
    /// Nothing was heard of the peer for [`SILENCE`], or it left all probes unanswered.
    Silent,
    /// We said so.
    Local,
    /// Its counter ran out before it could be renewed.
    CounterExhausted,
    /// The stream that it was on broke, or was closed without a word.
    Broken,
}

pub(crate) struct Session {
    pub(crate) peer: Peer,
    pub(crate) send: Sending,
    /// While it is on a stream.
    pub(crate) stream: Option<Box<OnStream>>,
    /// What workers last told of the lanes that they send on.
    pub(crate) sent_elsewhere: SentElsewhere,
    pub(crate) receive: ReceiveLanes,
    /// Who sent on the older lane, if that was at another address.
    pub(crate) former: Option<Box<Former>>,
    /// When to begin the next handshake.
    pub(crate) renew_at: Instant,
    pub(crate) armed: Armed,
    /// The address that is being checked, if any. Boxed, because sessions are many and moves few.
    pub(crate) path: Option<Box<PathCheck>>,
    /// When a challenge was sent last to an address that was being checked.
    pub(crate) challenged_at: Option<Instant>,
    /// If the peer is watched.
    pub(crate) watch: Option<Box<Watch>>,
    /// Whether the watch dozes: then sealing wakes it.
    pub(crate) dozes: bool,
    /// How large datagrams to the peer may be.
    /// Boxed: it is looked at seldom, and what is beside it for each record.
    pub(crate) size: Box<PathSize>,
    /// Records sealed with the present keys that are no traffic: keep-alives, and path messages.
    pub(crate) own_records: u64,
}

/// What is known of a session's sending lanes that are not here.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SentElsewhere {
    /// When anything was sealed last.
    pub(crate) at: Option<Instant>,
    /// Whether one of them has so few epochs left that a fresh handshake is due.
    pub(crate) nearly_exhausted: bool,
    /// How often something was, in reports.
    pub(crate) reports: u64,
}

/// The lanes a session receives on: the indexes of lane 0 of each handshake.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveLanes {
    pub(crate) newest: SessionIndex,
    pub(crate) older: [Option<SessionIndex>; 2],
}

impl ReceiveLanes {
    /// Whether an index means one of them.
    pub(crate) fn contains(&self, index: SessionIndex) -> bool {
        self.iter().any(|base| base == index.base())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = SessionIndex> {
        std::iter::once(self.newest).chain(self.older.into_iter().flatten())
    }

    /// When anything was opened last on any of them.
    pub(crate) fn last_opened(&self, lanes: &Lanes) -> Option<Instant> {
        self.iter().filter_map(|index| Some(lanes.get(index)?.group.last_opened())).max()
    }

    /// Takes a newer lane, and returns the one that has to go, if there are too many: that of the
    /// others which was not heard of for the longest time.
    pub(crate) fn push(&mut self, index: SessionIndex, lanes: &Lanes) -> Option<SessionIndex> {
        let last = std::mem::replace(&mut self.newest, index);
        if let Some(free) = self.older.iter_mut().find(|older| older.is_none()) {
            *free = Some(last);
            return None;
        }
        let opened = |index| lanes.get(index).map(|entry| entry.group.last_opened());
        let silent = self.older.iter_mut().flatten().min_by_key(|older| opened(**older))?;
        match opened(*silent) > opened(last) {
            true => Some(last),
            false => Some(std::mem::replace(silent, last)),
        }
    }
}

impl Session {
    /// Its newest handshake was made for datagrams, or on a stream, where nobody watches the peer.
    pub(crate) fn change_transport(&mut self, is_on_stream: bool, now: Instant) {
        match (&self.stream, is_on_stream) {
            (None, true) => {
                self.dozes = false;
                let watch = self.watch.take();
                self.stream = Some(Box::new(OnStream { watch, back: None }));
            }
            (Some(_), false) => {
                let watch = self.stream.take().and_then(|stream| stream.watch);
                self.watch = watch.map(|rested| Box::new(rested.begin_anew(now)));
            }
            _ => {}
        }
    }

    /// The watch of its peer, at work or resting.
    pub(crate) fn watch_mut(&mut self) -> Option<&mut Watch> {
        let resting = self.stream.as_mut().and_then(|stream| stream.watch.as_mut());
        self.watch.as_mut().or(resting).map(|watch| &mut **watch)
    }

    /// When anything was opened last.
    pub(crate) fn last_heard(&self, lanes: &Lanes) -> Instant {
        self.receive.last_opened(lanes).unwrap_or(self.peer.renewed_at)
    }

    /// When anything was sealed last, on any lane.
    pub(crate) fn last_sealed(&self) -> Instant {
        let here = self.send.last_sealed();
        self.sent_elsewhere.at.map_or(here, |elsewhere| elsewhere.max(here))
    }

    /// Grows whenever something is sealed, and, on lanes that are not here, is reported.
    pub(crate) fn sealed(&self) -> u64 {
        self.send.sealed() + self.sent_elsewhere.reports
    }

    /// Differs from what it was when anything was sealed that is not the link's own.
    pub(crate) fn traffic(&self) -> u64 {
        self.sealed().wrapping_sub(self.own_records)
    }

    /// Whether the counter of one of its lanes will run out.
    pub(crate) fn nearly_exhausted(&self) -> bool {
        self.send.nearly_exhausted() || self.sent_elsewhere.nearly_exhausted
    }

    /// When anything has to be done for this session, if nothing is sent or received until then.
    pub(crate) fn due(&self, lanes: &Lanes) -> Instant {
        let heard = self.last_heard(lanes);
        let older = self.receive.older.iter().flatten().filter_map(|index| lanes.get(*index));
        let older_ends = older.map(|entry| entry.group.last_opened() + SILENCE).min();
        [
            Some(self.last_sealed() + KEEP_ALIVE),
            Some(heard + SILENCE),
            Some(self.renew_at),
            older_ends,
            self.path.as_ref().and_then(|check| check.due()),
            self.watch.as_ref().map(|watch| watch.look_at),
            self.size.due(),
            self.stream.as_ref().and_then(|it| Some(it.back.as_ref()?.at)),
        ]
        .into_iter()
        .flatten()
        .min()
        .expect("invariant: the list is not empty")
    }
}

/// When a handshake made now has to be followed by another. The responder waits a little longer: it
/// is there for sessions both ends of which believe that the other began. Names spread the times,
/// so that a router's sessions, all made when it started, are not all renewed at once.
pub(crate) fn renewal_time(peer: &Name, initiator: bool, now: Instant) -> Instant {
    let spread = Duration::from_secs(u64::from(peer.0[31]) / 2);
    now + RENEWAL_INTERVAL - spread + if initiator { Duration::ZERO } else { RESPONDER_PATIENCE }
}

/// How soon our new certificate is shown to the peer number `position` of those who wait for it.
pub(crate) fn showing_time(position: usize, now: Instant) -> Instant {
    let position = u32::try_from(position).unwrap_or(u32::MAX);
    now + Duration::from_secs(1) * position / SHOWINGS_A_SECOND
}

/// A side that has sent nothing for this long sends a keep-alive.
pub const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// A session of which nothing was opened for this long is dead: four keep-alives were lost.
pub const SILENCE: Duration = Duration::from_secs(20);
/// Sessions get fresh keys from a fresh handshake this
/// often, less up to 127 s that depend on the name.
pub const RENEWAL_INTERVAL: Duration = Duration::from_secs(3600);
/// How much later than the initiator the responder renews.
const RESPONDER_PATIENCE: Duration = Duration::from_secs(180);
/// Handshakes begun in a second by an end that has a new certificate to show: each costs it less
/// than half a millisecond, so they take a twentieth of a core meanwhile.
const SHOWINGS_A_SECOND: u32 = 100;
/// How long after a renewal was begun another is, if it did not complete.
pub(crate) const RENEWAL_RETRY: Duration = Duration::from_secs(30);

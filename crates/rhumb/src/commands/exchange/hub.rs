//! Who is connected, and the ways between connections and shards.
//!
//! Invariant: every shard hears of connections in the same order, because they are announced under
//! one lock; and of a connection nothing after its end.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use rhumb_channel::Outbox;
use rhumb_exchange::{Lane, ServerConfig, shard_of};
use rhumb_mpc::Party;
use rhumb_wire::Name;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Numbers connections, so that the end of an old one is not taken for that of its successor.
pub(super) type Connection = u64;

/// What shards are told.
pub(super) enum Input {
    /// A member is connected.
    MemberHere { lane: Lane, connection: Connection, participates: bool, line: Line },
    /// It says something. The permit is its place among what waits.
    MemberSaid {
        lane: Lane,
        connection: Connection,
        message: Vec<u8>,
        _place: OwnedSemaphorePermit,
    },
    /// Its connection has ended.
    MemberGone { lane: Lane, connection: Connection },
    /// A pair with the other party begins.
    PairBegins { connection: Connection, epoch: u64, line: Line },
    /// The other party says something.
    PairSaid { connection: Connection, message: Vec<u8> },
    /// The pair has ended.
    PairEnds { connection: Connection },
    /// How much the exchange prefers each lane's routes: party one's.
    Preferences(Arc<[u8]>),
    /// Another roster, which extends the former one.
    Roster(Arc<ServerConfig>),
    /// Say goodbye.
    End,
}

/// A shard's way to a connection.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) outbox: Outbox,
    pub(super) cut: Arc<Notify>,
}

impl Line {
    /// Sends, or cuts the connection if the other side takes too little.
    pub(super) fn send(&self, message: Vec<u8>) -> bool {
        let sent = self.outbox.try_send(message);
        if let Err(error) = sent {
            tracing::warn!(%error, "a connection is cut");
            self.cut.notify_one();
        }
        sent.is_ok()
    }
}

/// A connected member.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) connection: Connection,
    pub(super) participates: bool,
    pub(super) address: SocketAddr,
    pub(super) since: Instant,
    pub(super) line: Line,
}

/// The other party, as far as there is a pair with it.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) connection: Connection,
    pub(super) name: Name,
    pub(super) address: SocketAddr,
    pub(super) epoch: u64,
    pub(super) since: Instant,
    pub(super) line: Line,
}

/// What is the same for all connections of a server.
pub(super) struct Hub {
    pub(super) party: Party,
    config: RwLock<Arc<ServerConfig>>,
    pub(super) counters: Counters,
    shards: Vec<Sender<Input>>,
    members: Mutex<HashMap<Lane, Member>>,
    pair: Mutex<Option<Pair>>,
    next_connection: AtomicU64,
}

/// What connections came to. All only grow.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Hellos that did not fit.
    pub(super) refused: AtomicU64,
    /// Members that came back before their old connection was known to be gone.
    pub(super) replaced: AtomicU64,
    /// Pairs that began.
    pub(super) pairs: AtomicU64,
    /// Connections that said what they may not, or took too little.
    pub(super) cut: AtomicU64,
}

impl Hub {
    pub(super) fn new(party: Party, config: ServerConfig, shards: Vec<Sender<Input>>) -> Self {
        Self {
            party,
            config: RwLock::new(Arc::new(config)),
            counters: Counters::default(),
            shards,
            members: Mutex::default(),
            pair: Mutex::default(),
            next_connection: AtomicU64::new(1),
        }
    }

    /// What is in force.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another roster is in force, which extends the former one: connections of those who are gone
    /// end, and with more lanes the pair.
    pub(super) fn set_roster(&self, config: ServerConfig) {
        let config = Arc::new(config);
        let (mut members, mut pair) = (self.members(), self.pair());
        let former = {
            let mut in_force = self.config.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *in_force, Arc::clone(&config))
        };
        let roster = &config.common.roster;
        if roster.lanes() > former.common.roster.lanes()
            && let Some(old) = pair.take()
        {
            old.line.cut.notify_one();
            self.tell_all(|| Input::PairEnds { connection: old.connection });
        }
        self.tell_all(|| Input::Roster(Arc::clone(&config)));
        members.retain(|lane, member| {
            if !roster.is_closed(*lane) {
                return true;
            }
            member.line.cut.notify_one();
            self.tell_all(|| Input::MemberGone { lane: *lane, connection: member.connection });
            false
        });
    }

    /// Takes a member in, unless its site is gone meanwhile. A
    /// connection that it had is over: the newest counts.
    pub(super) fn member_here(
        &self,
        lane: Lane,
        participates: bool,
        address: SocketAddr,
        line: &Line,
    ) -> Option<Connection> {
        let connection = self.next_connection.fetch_add(1, Ordering::Relaxed);
        let (since, line) = (Instant::now(), line.clone());
        let member = Member { connection, participates, address, since, line: line.clone() };
        let mut members = self.members();
        if self.config().common.roster.is_closed(lane) {
            return None;
        }
        if let Some(old) = members.insert(lane, member) {
            self.counters.replaced.fetch_add(1, Ordering::Relaxed);
            old.line.cut.notify_one();
            self.tell_all(|| Input::MemberGone { lane, connection: old.connection });
        }
        self.tell_all(|| Input::MemberHere { lane, connection, participates, line: line.clone() });
        Some(connection)
    }

    /// Its connection has ended; nothing, if another has taken its place.
    pub(super) fn member_gone(&self, lane: Lane, connection: Connection) {
        let mut members = self.members();
        if members.get(&lane).is_some_and(|member| member.connection == connection) {
            members.remove(&lane);
            self.tell_all(|| Input::MemberGone { lane, connection });
        }
    }

    /// Begins a pair with the other party, unless there is one with another of its servers, or its
    /// hello was judged by a roster that is in force no more.
    pub(super) fn pair_begins(
        &self,
        name: Name,
        address: SocketAddr,
        (epoch, judged): (u64, &ServerConfig),
        line: &Line,
    ) -> Option<Connection> {
        let mut pair = self.pair();
        if self.config().common.roster.digest() != judged.common.roster.digest() {
            return None;
        }
        if pair.as_ref().is_some_and(|pair| pair.name != name) {
            return None;
        }
        if let Some(old) = pair.take() {
            old.line.cut.notify_one();
            self.tell_all(|| Input::PairEnds { connection: old.connection });
        }
        let connection = self.next_connection.fetch_add(1, Ordering::Relaxed);
        let (since, line) = (Instant::now(), line.clone());
        self.tell_all(|| Input::PairBegins { connection, epoch, line: line.clone() });
        *pair = Some(Pair { connection, name, address, epoch, since, line });
        self.counters.pairs.fetch_add(1, Ordering::Relaxed);
        Some(connection)
    }

    /// The pair has ended; nothing, if another has taken its place.
    pub(super) fn pair_ends(&self, connection: Connection) {
        let mut pair = self.pair();
        if pair.as_ref().is_some_and(|pair| pair.connection == connection) {
            *pair = None;
            self.tell_all(|| Input::PairEnds { connection });
        }
    }

    /// Whether there is a pair, with anybody but `name`.
    pub(super) fn is_paired_with_another(&self, name: Name) -> bool {
        self.pair().as_ref().is_some_and(|pair| pair.name != name)
    }

    /// Tells the shard that a message is for; false if there is no such shard.
    pub(super) fn tell(&self, message: Vec<u8>, input: impl FnOnce(Vec<u8>) -> Input) -> bool {
        let shard = shard_of(&message).ok().map(usize::from);
        let Some(shard) = shard.and_then(|shard| self.shards.get(shard)) else { return false };
        // A shard that has ended ends the server.
        let _ = shard.send(input(message));
        true
    }

    /// Tells every shard.
    pub(super) fn tell_all(&self, input: impl Fn() -> Input) {
        for shard in &self.shards {
            let _ = shard.send(input());
        }
    }

    /// Ends all connections.
    pub(super) fn cut_all(&self) {
        let members = self.members();
        let lines = members.values().map(|member| &member.line);
        lines.for_each(|line| line.cut.notify_one());
        if let Some(pair) = &*self.pair() {
            pair.line.cut.notify_one();
        }
    }

    pub(super) fn members(&self) -> MutexGuard<'_, HashMap<Lane, Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pair(&self) -> MutexGuard<'_, Option<Pair>> {
        self.pair.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Places for what a member has said and no shard has handled yet.
pub(super) fn places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MAX_WAITING))
}

/// Messages of one member that wait for shards; beyond it nothing is read from
/// its connection. Four times what one run takes.
const MAX_WAITING: usize = 64;

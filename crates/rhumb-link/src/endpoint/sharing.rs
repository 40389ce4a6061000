//! Lanes that workers have: what they are given, and what they give back.
//!
//! 1. A handshake is made here, and its first record is opened here, on whatever lane it comes.
//! 2. From then on the lanes of other workers are theirs: each is taken out of here, with its keys
//!    and its window, and put into an update. So are the secrets of the lanes that they send on.
//! 3. A worker opens and seals without us. What is no PDU from the usual address it
//!    gives back, opened: [`Endpoint::take_opened`]. What was opened and sealed it
//!    reports now and then: [`Endpoint::take_report`].
//! 4. A session that moves, is renewed or ends, or whose datagrams may
//!    have another size, is told to all workers.
//!
//! INVARIANT: a lane is in one place, so no counter is used and no window is asked in two.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use rhumb_wire::datagram::{LANES, RecordHeader, RecordKind, SessionIndex, SessionParameters};

use super::{Endpoint, Opened};
use crate::keys::LaneSecrets;
use crate::lane::{SendLane, UnusedLane};
use crate::session::ReceiveLanes;
use crate::stream::StreamOrder;
use crate::worker::{Change, LaneReport, LaneUpdate, OpenedElsewhere};
use crate::{Config, DropReason, SessionId, WatchPeers};

/// What workers have to be told, in order.
pub(super) struct Sharing {
    workers: u8,
    updates: VecDeque<(usize, LaneUpdate)>,
}

impl Sharing {
    pub(super) fn new(config: &Config) -> Self {
        let watches_all = config.watch_peers == WatchPeers::Everybody;
        let workers = if watches_all { 1 } else { config.workers.clamp(1, LANES) };
        Self { workers, updates: VecDeque::new() }
    }

    /// The other workers.
    fn others(&self) -> std::ops::Range<u8> {
        1..self.workers
    }

    /// A session sends to another address from now on.
    pub(super) fn moved(&mut self, session: SessionId, groups: ReceiveLanes, address: SocketAddr) {
        for worker in self.others() {
            self.push(worker, Change::Address { session, groups, address });
        }
    }

    /// Datagrams of a session may have another size from now on.
    pub(super) fn resized(&mut self, session: SessionId, max_datagram_len: u16) {
        for worker in self.others() {
            self.push(worker, Change::Size { session, max_datagram_len });
        }
    }

    /// The peer of a session takes bundles.
    pub(super) fn takes_bundles(&mut self, session: SessionId) {
        for worker in self.others() {
            self.push(worker, Change::Bundles { session });
        }
    }

    /// A session is over.
    pub(super) fn ended(&mut self, session: SessionId) {
        for worker in self.others() {
            self.push(worker, Change::Ended { session });
        }
    }

    fn push(&mut self, worker: u8, change: Change) {
        self.updates.push_back((usize::from(worker), LaneUpdate(change)));
    }
}

impl Endpoint {
    /// What a worker has to be told next, and which: 1 to `workers` - 1 of the configuration.
    /// Updates must reach it in this order and none may be lost. Work: one update.
    pub fn poll_update(&mut self) -> Option<(usize, LaneUpdate)> {
        self.sharing.updates.pop_front()
    }

    /// The worker that has the lane which a record came on; none if it is here, or nowhere.
    #[inline]
    pub fn worker_of(&self, datagram: &[u8]) -> Option<usize> {
        let header = RecordHeader::parse(datagram).ok()?;
        let worker = header.index.lane() % self.sharing.workers;
        let entry = self.lanes.get(header.index).filter(|_| worker != 0)?;
        (!entry.group.has(header.index)).then_some(usize::from(worker))
    }

    /// Takes a record that a worker opened: `datagram` as it was opened in place. What is to be
    /// done with its plaintext is what [`Endpoint::open`] would have said.
    ///
    /// # Errors
    /// With the reason, which is counted, when its session has ended
    /// meanwhile, or it is not what it should be.
    pub fn take_opened(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        record: &OpenedElsewhere,
        now: Instant,
    ) -> Result<Opened, DropReason> {
        let result = self.take_record(from, datagram, record, now);
        result.map_err(|reason| self.drops.count(reason))
    }

    fn take_record(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        record: &OpenedElsewhere,
        now: Instant,
    ) -> Result<Opened, DropReason> {
        let header = record.header;
        let entry = self.lanes.get_mut(header.index).ok_or(DropReason::UnknownSession)?;
        entry.group.note_record(header, record.newest, now);
        let opened = datagram.get(..record.plaintext_end).ok_or(DropReason::Malformed)?;
        match entry.session {
            Some(session) if header.kind == RecordKind::Pdu && from == entry.address => {
                let plaintext = RecordHeader::LEN..opened.len();
                Ok(Opened { session, plaintext, is_bundle: false })
            }
            _ => self.handle_rare(from, header, opened, now),
        }
    }

    /// Takes what a worker tells of its lanes.
    pub fn take_report(&mut self, report: &LaneReport) {
        for (index, newest, at) in &report.opened {
            if let Some(entry) = self.lanes.get_mut(*index) {
                entry.group.note_opened(*index, *newest, *at);
            }
        }
        for (session, at, nearly_exhausted) in &report.sealed {
            if let Some(session) = self.sessions.get_mut(session.0) {
                let sent = &mut session.sent_elsewhere;
                sent.at = sent.at.max(Some(*at));
                sent.nearly_exhausted |= nearly_exhausted;
                sent.reports += 1;
            }
            self.wake_watch(*session, *at);
        }
    }

    /// Of the lanes of one handshake, ours and those of workers; the others' secrets are wiped.
    pub(super) fn split_lanes(
        &self,
        secrets: LaneSecrets,
        peer: &SessionParameters,
        now: Instant,
    ) -> (Box<SendLane>, Vec<(u8, UnusedLane)>) {
        let (cipher, workers) = (self.config.cipher, self.sharing.workers);
        let ours = match (workers, peer.lanes) {
            (1, LANES) => self.config.send_lane % LANES,
            _ => 0,
        };
        let (mut own, mut others) = (None, Vec::new());
        for (lane, secret) in (0..peer.lanes).zip(secrets) {
            let unused = UnusedLane { cipher, secret, index: peer.index.with_lane(lane) };
            if lane == ours {
                own = Some(unused.begin(now));
            } else if lane < workers {
                others.push((lane, unused));
            }
        }
        (own.expect("invariant: our lane is one of the peer's"), others)
    }

    /// Gives workers what they send with on a session, in place of what they had.
    pub(super) fn share_session(&mut self, id: SessionId, lanes: Vec<(u8, UnusedLane)>) {
        let Some(session) = self.sessions.get(id.0) else { return };
        let (address, max_datagram_len) = (session.peer.address, session.peer.max_datagram_len);
        let mut lanes = lanes.into_iter().peekable();
        for worker in self.sharing.others() {
            let lane = lanes.next_if(|(lane, _)| *lane == worker).map(|(_, unused)| unused);
            let change = match lane {
                Some(lane) => Change::Send { session: id, address, max_datagram_len, lane },
                // The peer has one lane, which is ours.
                None => Change::Ended { session: id },
            };
            self.sharing.push(worker, change);
        }
    }

    /// Gives workers their receiving lanes, once the peer is
    /// known to use them and the session is there.
    pub(super) fn share_lanes(&mut self, index: SessionIndex) {
        if self.sharing.workers == 1 {
            return;
        }
        let workers = self.sharing.workers;
        let Some(entry) = self.lanes.get_mut(index).filter(|entry| entry.confirmed) else { return };
        let Some(session) = entry.session else { return };
        for lane in (0..LANES).filter(|lane| lane % workers != 0) {
            let index = index.base().with_lane(lane);
            if entry.group.has(index) {
                let (address, lane) = (entry.address, entry.group.take(index));
                let change = Change::Receive { index, session, address, lane };
                self.sharing.push(index.lane() % workers, change);
            }
        }
    }

    /// Forgets the receiving lanes of one handshake.
    pub(super) fn remove_lanes(&mut self, index: SessionIndex) {
        if self.lanes.get(index).is_some_and(|entry| entry.group.is_stream()) {
            self.stream_orders.push_back(StreamOrder::Close { index: index.base() });
        }
        self.lanes.remove(index);
        for worker in self.sharing.others() {
            self.sharing.push(worker, Change::Forget { index });
        }
    }
}

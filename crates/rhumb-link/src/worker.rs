//! The fast half of an endpoint, for another thread: opens and seals on
//! the lanes that it was given, and nothing else.
//!
//! A worker shares nothing with the endpoint. [`LaneUpdate`]s come in, in order;
//! [`OpenedElsewhere`] and [`LaneReport`]s go back. What the endpoint alone can decide (handshakes,
//! closes, addresses, silence) it decides there.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use rhumb_wire::Batch;
use rhumb_wire::datagram::{LANES, RecordHeader, RecordKind, SessionIndex};

use crate::aead::PacketKey;
use crate::endpoint::{NEAR_SESSIONS, Opened, holds_pdus};
use crate::lane::{Begun, SendLane, UnusedLane};
use crate::lane_group::{LaneGroup, Place};
use crate::lane_table::LaneTable;
use crate::session::ReceiveLanes;
use crate::slots::Slots;
use crate::together::{self, Decrypted, Decryption, Seals};
use crate::{Cipher, DropReason, Drops, SessionId};

/// The lanes of one worker.
pub struct WorkerLanes {
    cipher: Cipher,
    receive: LaneTable<Receiving>,
    /// Entries of `receive`.
    groups: usize,
    send: Slots<Sending>,
    /// Whether any peer ever took bundles.
    sends_bundles: bool,
    /// Lanes on which something was opened since the last report.
    opened: Vec<SessionIndex>,
    /// Sessions on which something was sealed since the last report.
    sealed: Vec<SessionId>,
    drops: Drops,
}

struct Receiving {
    group: LaneGroup,
    session: SessionId,
    /// Where the session sends to.
    address: SocketAddr,
    /// A bit for each lane that stands in `opened`.
    noted: u8,
}

struct Sending {
    address: SocketAddr,
    max_datagram_len: u16,
    takes_bundles: bool,
    /// Made at the first record.
    lane: Option<Box<SendLane>>,
    unused: Option<UnusedLane>,
    /// Whether it stands in `sealed`.
    noted: bool,
}

/// What a worker has to know: lanes that are its own from now on, or are over. It holds keys.
pub struct LaneUpdate(pub(crate) Change);

pub(crate) enum Change {
    /// A receiving lane, which is nowhere else.
    Receive { index: SessionIndex, session: SessionId, address: SocketAddr, lane: Place },
    /// A sending lane, which is nowhere else, in place of
    /// the one that the worker has of that session.
    Send { session: SessionId, address: SocketAddr, max_datagram_len: u16, lane: UnusedLane },
    /// The peer is elsewhere.
    Address { session: SessionId, groups: ReceiveLanes, address: SocketAddr },
    /// The largest datagram to the peer is another.
    Size { session: SessionId, max_datagram_len: u16 },
    /// The peer takes bundles.
    Bundles { session: SessionId },
    /// The receiving lanes of one handshake are over.
    Forget { index: SessionIndex },
    /// The worker sends no more on this session.
    Ended { session: SessionId },
}

/// A record that a worker opened and the endpoint has to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenedElsewhere {
    pub(crate) header: RecordHeader,
    /// The highest packet number of its lane.
    pub(crate) newest: Option<u64>,
    /// Where in the datagram its plaintext ends.
    pub(crate) plaintext_end: usize,
}

impl OpenedElsewhere {
    /// The same of one PDU of a bundle, which stands in a datagram of its own and ends there.
    #[must_use]
    pub fn part(self, plaintext_end: usize) -> Self {
        let header = RecordHeader { kind: RecordKind::Pdu, ..self.header };
        Self { header, plaintext_end, ..self }
    }
}

/// What was opened and sealed since the last report.
#[derive(Debug, Default)]
pub struct LaneReport {
    /// The lanes, the highest packet number of each, and when the last was opened.
    pub(crate) opened: Vec<(SessionIndex, Option<u64>, Instant)>,
    /// The sessions, when the last was sealed, and whether the counter will run out.
    pub(crate) sealed: Vec<(SessionId, Instant, bool)>,
}

/// What became of a datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It was opened, and holds a PDU from where its session sends to. Hand it
    /// to the endpoint if there is no flow for it.
    Pdu(Opened, OpenedElsewhere),
    /// It was opened, and has to be handed to the endpoint.
    Rare(OpenedElsewhere),
    /// It came on no lane of this worker's, and has to be handed over as it is.
    NotOurs,
}

impl WorkerLanes {
    /// A worker without lanes. `cipher` is the endpoint's.
    pub fn new(cipher: Cipher) -> Self {
        Self {
            cipher,
            receive: LaneTable::new(0),
            groups: 0,
            send: Slots::new(),
            sends_bundles: false,
            opened: Vec::new(),
            sealed: Vec::new(),
            drops: Drops::default(),
        }
    }

    /// Takes an update. Work: constant.
    pub fn update(&mut self, update: LaneUpdate, now: Instant) {
        match update.0 {
            Change::Receive { index, session, address, lane } => {
                if self.receive.get(index).is_none() {
                    let group = LaneGroup::empty(self.cipher, now);
                    let receiving = Receiving { group, session, address, noted: 0 };
                    self.receive.put(index, receiving);
                    self.groups += 1;
                }
                if let Some(receiving) = self.receive.get_mut(index) {
                    receiving.group.put(index, lane);
                }
                // So that noting what was opened allocates nothing.
                let most = self.groups * usize::from(LANES);
                self.opened.reserve(most.saturating_sub(self.opened.len()));
            }
            Change::Send { session, address, max_datagram_len, lane } => {
                let noted = self.send.get(session.0).is_some_and(|before| before.noted);
                let unused = Some(lane);
                // Whoever made the newest handshake says so again.
                let takes_bundles = false;
                let lane = None;
                let sending =
                    Sending { address, max_datagram_len, takes_bundles, lane, unused, noted };
                self.send.put(session.0, sending);
                self.sealed.reserve(self.send.len().saturating_sub(self.sealed.len()));
            }
            Change::Address { session, groups, address } => {
                for index in groups.iter() {
                    if let Some(receiving) = self.receive.get_mut(index) {
                        receiving.address = address;
                    }
                }
                if let Some(sending) = self.send.get_mut(session.0) {
                    sending.address = address;
                }
            }
            Change::Size { session, max_datagram_len } => {
                if let Some(sending) = self.send.get_mut(session.0) {
                    sending.max_datagram_len = max_datagram_len;
                }
            }
            Change::Bundles { session } => {
                if let Some(sending) = self.send.get_mut(session.0) {
                    sending.takes_bundles = true;
                    self.sends_bundles = true;
                }
            }
            Change::Forget { index } => {
                self.groups -= usize::from(self.receive.forget(index));
            }
            Change::Ended { session } => self.send.forget(session.0),
        }
    }

    /// Opens a sealed datagram in place. After an error its bytes are garbage.
    ///
    /// # Errors
    /// With the reason, which is counted, when it is no record, or one that was opened before.
    #[inline]
    pub fn open(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        now: Instant,
    ) -> Result<Taken, DropReason> {
        self.open_decrypted(from, datagram, Decryption::NONE, now)
    }

    /// As [`Endpoint::decrypt`](crate::Endpoint::decrypt).
    #[inline]
    pub fn decrypt(&self, batch: &mut Batch, slots: Range<usize>) -> Decrypted {
        together::decrypt(batch, slots, |_, header| {
            self.receive.get(header.index)?.group.key_for(header)
        })
    }

    /// As [`WorkerLanes::open`], of a datagram that may be decrypted already.
    ///
    /// # Errors
    /// As there.
    #[inline(always)] // As Endpoint::open_decrypted.
    pub fn open_decrypted(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        decryption: Decryption,
        now: Instant,
    ) -> Result<Taken, DropReason> {
        let Ok(header) = RecordHeader::parse(datagram) else {
            return Err(self.drops.count(DropReason::Malformed));
        };
        let Some(receiving) = self.receive.get_mut(header.index) else { return Ok(Taken::NotOurs) };
        if !receiving.group.has(header.index) {
            return Ok(Taken::NotOurs);
        }
        let opened = receiving.group.open_decrypted(&header, datagram, decryption, now);
        let plaintext = match opened {
            Ok(plaintext) => plaintext,
            Err(reason) => return Err(self.drops.count(reason)),
        };
        let bit = 1 << header.index.lane();
        if receiving.noted & bit == 0 {
            receiving.noted |= bit;
            self.opened.push(header.index);
        }
        let newest = receiving.group.newest(header.index);
        let record = OpenedElsewhere { header, newest, plaintext_end: plaintext.end };
        if from == receiving.address && holds_pdus(header.kind, &plaintext) {
            let is_bundle = header.kind == RecordKind::Bundle;
            let opened = Opened { session: receiving.session, plaintext, is_bundle };
            return Ok(Taken::Pdu(opened, record));
        }
        Ok(Taken::Rare(record))
    }

    /// Seals a datagram in place and says where to send it. `buffer` is 12 bytes of room, the
    /// plaintext, 16 bytes of room.
    ///
    /// # Errors
    /// With the reason, which is counted, when the session has ended or
    /// the datagram is larger than gets to the peer.
    #[inline]
    pub fn seal(
        &mut self,
        session: SessionId,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<SocketAddr, DropReason> {
        let sealed = self.seal_record(session, RecordKind::Pdu, buffer, now);
        sealed.map_err(|reason| self.drops.count(reason))
    }

    /// As [`WorkerLanes::seal`], of a [bundle](rhumb_wire::bundle), for a session that
    /// [takes](WorkerLanes::bundle_room) them.
    ///
    /// # Errors
    /// As there.
    pub fn seal_bundle(
        &mut self,
        session: SessionId,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<SocketAddr, DropReason> {
        let sealed = self.seal_record(session, RecordKind::Bundle, buffer, now);
        sealed.map_err(|reason| self.drops.count(reason))
    }

    /// As [`Endpoint::seal_all`](crate::Endpoint::seal_all).
    #[inline]
    pub fn seal_all(
        &mut self,
        batch: &mut Batch,
        slots: Range<usize>,
        sessions: &[Option<SessionId>],
        now: Instant,
    ) {
        together::seal(self, batch, slots, sessions, now);
    }

    /// Whether there was ever a peer that takes bundles, so that asking of each is worth it.
    #[inline]
    pub fn sends_bundles(&self) -> bool {
        self.sends_bundles
    }

    /// How large a datagram with a bundle may be; `None` when the peer does not take any.
    #[inline]
    pub fn bundle_room(&self, session: SessionId) -> Option<usize> {
        let sending = self.send.get(session.0).filter(|it| it.takes_bundles)?;
        Some(usize::from(sending.max_datagram_len))
    }

    /// As [`Endpoint::is_far`](crate::Endpoint::is_far).
    #[inline]
    pub fn is_far(&self) -> bool {
        self.groups > NEAR_SESSIONS
    }

    /// As [`Endpoint::read_ahead_to_open`](crate::Endpoint::read_ahead_to_open).
    #[inline]
    pub fn read_ahead_to_open(&self, datagram: &[u8]) {
        if let Ok(header) = RecordHeader::parse(datagram)
            && let Some(receiving) = self.receive.get(header.index)
        {
            receiving.group.read_ahead(&header, datagram.len());
        }
    }

    /// As [`Endpoint::read_ahead_to_seal`](crate::Endpoint::read_ahead_to_seal).
    #[inline]
    pub fn read_ahead_to_seal(&self, session: SessionId, len: usize) {
        if let Some(lane) = self.send.get(session.0).and_then(|it| it.lane.as_ref()) {
            lane.read_ahead(len);
        }
    }

    #[inline]
    fn seal_record(
        &mut self,
        session: SessionId,
        kind: RecordKind,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<SocketAddr, DropReason> {
        let sending = self.send.get_mut(session.0).ok_or(DropReason::StaleSession)?;
        sending.lane_for(buffer, now)?.seal(kind, buffer, now)?;
        if !sending.noted {
            sending.noted = true;
            self.sealed.push(session);
        }
        Ok(sending.address)
    }

    /// Whether this worker can send on a session: not when its peer has one lane.
    pub fn can_send(&self, session: SessionId) -> bool {
        self.send.get(session.0).is_some()
    }

    /// What was opened and sealed since the last report; some seconds apart, lest the endpoint
    /// takes the peer for silent. Work: one step for each lane that was used since.
    pub fn report(&mut self, now: Instant) -> LaneReport {
        let mut report = LaneReport::default();
        for index in self.opened.drain(..) {
            let Some(receiving) = self.receive.get_mut(index) else { continue };
            receiving.noted &= !(1 << index.lane());
            // Whoever sends does so every few seconds, so no key of a past epoch is forgotten here.
            receiving.group.wipe_previous(now);
            let (newest, at) = (receiving.group.newest(index), receiving.group.last_opened());
            report.opened.push((index, newest, at));
        }
        for session in self.sealed.drain(..) {
            let Some(sending) = self.send.get_mut(session.0) else { continue };
            sending.noted = false;
            if let Some(lane) = &sending.lane {
                report.sealed.push((session, lane.last_sealed, lane.nearly_exhausted()));
            }
        }
        report
    }

    /// Datagrams dropped, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }
}

impl Seals for WorkerLanes {
    #[inline]
    fn begin(
        &mut self,
        session: SessionId,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<Begun, DropReason> {
        let sending = self.send.get_mut(session.0).ok_or(DropReason::StaleSession)?;
        let begun = sending.lane_for(buffer, now)?.begin(RecordKind::Pdu, buffer, now)?;
        if !sending.noted {
            sending.noted = true;
            self.sealed.push(session);
        }
        Ok(begun)
    }

    #[inline]
    fn address(&self, session: SessionId) -> Option<&SocketAddr> {
        self.send.get(session.0).map(|sending| &sending.address)
    }

    #[cold]
    fn begin_epoch(&mut self, session: SessionId, now: Instant) -> Result<(), DropReason> {
        let sending = self.send.get_mut(session.0).ok_or(DropReason::StaleSession)?;
        sending.lane.as_mut().map_or(Ok(()), |lane| lane.begin_epoch(now))
    }

    #[cold]
    fn refuse(&mut self, reason: DropReason) {
        self.drops.count(reason);
    }

    #[inline]
    fn key(&self, session: SessionId) -> Option<&PacketKey> {
        Some(self.send.get(session.0)?.lane.as_ref()?.key())
    }
}

impl Sending {
    /// The lane for what is to be sealed, which is made for the first record.
    #[inline]
    fn lane_for(&mut self, buffer: &[u8], now: Instant) -> Result<&mut SendLane, DropReason> {
        if buffer.len() > usize::from(self.max_datagram_len) {
            return Err(DropReason::TooBig);
        }
        if self.lane.is_none() {
            let unused = self.unused.take().ok_or(DropReason::StaleSession)?;
            self.lane = Some(unused.begin(now));
        }
        self.lane.as_deref_mut().ok_or(DropReason::StaleSession)
    }
}

impl LaneReport {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.opened.is_empty() && self.sealed.is_empty()
    }
}

impl fmt::Debug for WorkerLanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerLanes").field("sessions", &self.send.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for LaneUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Change::Receive { .. } => "Receive(..)",
            Change::Send { .. } => "Send(..)",
            Change::Address { .. } => "Address(..)",
            Change::Size { .. } => "Size(..)",
            Change::Bundles { .. } => "Bundles(..)",
            Change::Forget { .. } => "Forget(..)",
            Change::Ended { .. } => "Ended(..)",
        })
    }
}

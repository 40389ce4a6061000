//! The fast path: opening and sealing records, and the rare things a record can cause.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use rhumb_wire::datagram::{
    AEAD_TAG_LEN, PathMessage, RECORD_OVERHEAD, RecordHeader, RecordKind, SessionIndex,
};

use rhumb_wire::{Batch, stream};

use super::Endpoint;
use crate::aead::PacketKey;
use crate::exchange::{LINGER, Progress};
use crate::lane::Begun;
use crate::stream::Sending;
use crate::timers::Owner;
use crate::together::{self, Decrypted, Decryption, Seals};
use crate::{CloseReason, DropReason, SessionId};

/// A datagram that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The session it came on. Stale already when the datagram closed it.
    pub session: SessionId,
    /// Where in the datagram the plaintext stands. Empty: a keep-alive, a close or a path message,
    /// with which there is nothing to do.
    pub plaintext: Range<usize>,
    /// Whether it is a [bundle](rhumb_wire::bundle) of PDUs, and not one PDU.
    pub is_bundle: bool,
}

impl Opened {
    /// What a function has left in memory, by its parts: otherwise what usually comes without a
    /// call would have the same place, and be waited for there (`docs/decisions/0137`).
    #[inline(always)]
    fn anew(result: Result<Self, DropReason>) -> Result<Self, DropReason> {
        let Self { session, plaintext: Range { start, end }, is_bundle } = result?;
        Ok(Self { session, plaintext: start..end, is_bundle })
    }

    /// Of a record with which there is nothing to do.
    pub(super) fn nothing(session: SessionId) -> Self {
        Self { session, plaintext: NOTHING, is_bundle: false }
    }
}

impl Endpoint {
    /// Opens a sealed datagram in place. After an error its bytes are garbage.
    ///
    /// # Errors
    /// With the reason, which is counted, when it is no record of a session or was opened before.
    #[inline]
    pub fn open(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        now: Instant,
    ) -> Result<Opened, DropReason> {
        self.open_decrypted(from, datagram, Decryption::NONE, now)
    }

    /// Decrypts those of these datagrams that are records of sessions, in place and in one call.
    /// Each of them is to be [opened](Endpoint::open_decrypted) then, in the order of their slots.
    #[inline]
    pub fn decrypt(&self, batch: &mut Batch, slots: Range<usize>) -> Decrypted {
        together::decrypt(batch, slots, |from, header| {
            let is_sealed = !stream::is_address(&from);
            let entry = self.lanes.get(header.index).filter(|_| is_sealed)?;
            entry.group.key_for(header)
        })
    }

    /// As [`Endpoint::open`], of a datagram that may be decrypted already.
    ///
    /// # Errors
    /// As there.
    #[inline(always)] // Otherwise what it returns is written in pieces, and waited for.
    pub fn open_decrypted(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        decryption: Decryption,
        now: Instant,
    ) -> Result<Opened, DropReason> {
        let opened = match stream::index_of(&from) {
            None => self.open_record(from, datagram, decryption, now),
            Some(index) => Opened::anew(self.open_frame(index, from, datagram, now)),
        };
        match opened {
            Ok(opened) => Ok(opened),
            Err(reason) => Err(self.drops.count(reason)),
        }
    }

    /// Seals a datagram in place and says where to send it. `buffer` is 12 bytes of room, the
    /// plaintext, 16 bytes of room.
    ///
    /// # Errors
    /// With the reason, which is counted, when the session has ended or the datagram is larger than
    /// gets to the peer, or than it receives.
    #[inline]
    pub fn seal(
        &mut self,
        session: SessionId,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<SocketAddr, DropReason> {
        match self.seal_record(session, RecordKind::Pdu, buffer, now) {
            Ok(address) => Ok(address),
            Err(reason) => Err(self.drops.count(reason)),
        }
    }

    /// As [`Endpoint::seal`], of a [bundle](rhumb_wire::bundle), for a session that
    /// [takes](Endpoint::bundle_room) them.
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

    /// Seals what stands in each of these slots, 64 at most, for the session at its place, in one
    /// call, as [`Endpoint::seal`] does one by one; redirects it to where it goes, and drops what
    /// has no session or is refused, which is counted.
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
        let peer = self.sessions.get(session.0).map(|session| &session.peer)?;
        peer.takes_bundles.then_some(usize::from(peer.max_datagram_len))
    }

    /// Whether there are so many sessions that what records are opened and sealed with is not near
    /// the processor, so that reading ahead pays.
    #[inline]
    pub fn is_far(&self) -> bool {
        self.sessions.len() > NEAR_SESSIONS
    }

    /// Asks for the memory that opening this datagram needs, so that it has come when it is.
    #[inline]
    pub fn read_ahead_to_open(&self, datagram: &[u8]) {
        if let Ok(header) = RecordHeader::parse(datagram)
            && let Some(entry) = self.lanes.get(header.index)
        {
            entry.group.read_ahead(&header, datagram.len());
        }
    }

    /// Asks for the memory that sealing a datagram of this length needs.
    #[inline]
    pub fn read_ahead_to_seal(&self, session: SessionId, len: usize) {
        if let Some(Sending::Sealed(lane)) = self.sessions.get(session.0).map(|it| &it.send) {
            lane.read_ahead(len);
        }
    }

    #[inline(always)] // Called in one place, which is hot.
    fn open_record(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        decryption: Decryption,
        now: Instant,
    ) -> Result<Opened, DropReason> {
        let header = RecordHeader::parse(datagram).map_err(|_| DropReason::Malformed)?;
        let entry = self.lanes.get_mut(header.index).ok_or(DropReason::UnknownSession)?;
        let plaintext = entry.group.open_decrypted(&header, datagram, decryption, now)?;
        let usual = holds_pdus(header.kind, &plaintext)
            && entry.confirmed
            && from == entry.address
            && !entry.dozes;
        let is_bundle = header.kind == RecordKind::Bundle;
        match entry.session {
            Some(session) if usual && (self.config.bundles || !is_bundle) => {
                Ok(Opened { session, plaintext, is_bundle })
            }
            _ => Opened::anew(self.handle_rare(from, header, &datagram[..plaintext.end], now)),
        }
    }

    /// A record was opened that is the first of its lane, or of a lane without a session, or from
    /// elsewhere, or the first in a while, or no PDU.
    /// `opened` is its header and its plaintext.
    #[cold]
    pub(super) fn handle_rare(
        &mut self,
        from: SocketAddr,
        header: RecordHeader,
        opened: &[u8],
        now: Instant,
    ) -> Result<Opened, DropReason> {
        let session = self.confirm(header, now).ok_or(DropReason::Early)?;
        self.share_lanes(header.index);
        if self.is_from_former(session, header.index, from, now) {
            return Err(DropReason::FormerProcess);
        }
        if header.kind == RecordKind::Close {
            if !self.sends_on(session, header.index) {
                return Err(DropReason::StaleClose);
            }
            self.end(session, CloseReason::PeerClosed);
            return Ok(Opened::nothing(session));
        }
        let elsewhere = self.sessions.get(session.0).is_some_and(|it| it.peer.address != from);
        let challenge = if elsewhere {
            let len = opened.len() + AEAD_TAG_LEN;
            self.note_elsewhere(session, header, from, len, now)
        } else {
            None
        };
        let plaintext = RecordHeader::LEN..opened.len();
        if matches!(header.kind, RecordKind::Pdu | RecordKind::Bundle) {
            self.wake_watch(session, now);
            if challenge.is_some() {
                let message = PathMessage { challenge, answer: None };
                self.send_path_message(session, from, message, now);
            }
            let is_bundle = header.kind == RecordKind::Bundle;
            if is_bundle && plaintext.is_empty() {
                self.note_takes_bundles(session, header.index);
                return Ok(Opened::nothing(session));
            }
            return match is_bundle && !self.config.bundles {
                true => Err(DropReason::Malformed),
                false => Ok(Opened { session, plaintext, is_bundle }),
            };
        }
        let message = PathMessage::parse(&opened[plaintext]).map_err(|_| DropReason::Malformed)?;
        self.handle_path_message(session, header, from, message, challenge, now);
        Ok(Opened::nothing(session))
    }

    /// The peer says that it takes bundles. Under older keys that was said by somebody who may have
    /// been replaced.
    fn note_takes_bundles(&mut self, id: SessionId, index: SessionIndex) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        if self.config.bundles && index.base() == session.receive.newest {
            session.peer.takes_bundles = true;
            self.sends_bundles = true;
            self.sharing.takes_bundles(id);
        }
    }

    /// Whether a lane is the one the peer sends on, as far as we know: a close on another is from
    /// before its last handshake, and may have been held back by somebody.
    pub(super) fn sends_on(&self, id: SessionId, index: SessionIndex) -> bool {
        let Some(session) = self.sessions.get(id.0) else { return false };
        let newest = session.receive.newest;
        if session.former.is_some() {
            // Another process has taken the session over: it does not end with the former one.
            return index.base() == newest;
        }
        let opened = |index| self.lanes.get(index).map(|entry| entry.group.last_opened());
        index.base() == newest || opened(index) > opened(newest)
    }

    /// Notes that the peer has our session parameters, and
    /// finds the session that a record belongs to.
    fn confirm(&mut self, header: RecordHeader, now: Instant) -> Option<SessionId> {
        let entry = self.lanes.get_mut(header.index)?;
        let session = entry.session;
        let id = entry.exchange;
        let first = !std::mem::replace(&mut entry.confirmed, true);
        let Some(id) = id else { return session };
        let Some(exchange) = self.exchanges.get_mut(id) else { return session };
        if let Some(repeat) = exchange.repeat_mut() {
            *repeat = None;
        }
        match &exchange.progress {
            Progress::Handshaking(_) => None,
            // It sends under the new keys already, and its parameters are late. If there is a
            // session with that name, its traffic need not wait.
            Progress::Agreeing(agreement) => self.by_name.get(&agreement.peer.name).copied(),
            Progress::Greeting(_) => self.finish_greeting(id, now),
            Progress::Established { .. } => {
                if first {
                    exchange.wait_until(now + LINGER);
                    self.timers.arm(Owner::Exchange(id), &mut exchange.armed, now + LINGER);
                }
                session
            }
        }
    }

    #[inline]
    pub(super) fn seal_record(
        &mut self,
        id: SessionId,
        kind: RecordKind,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<SocketAddr, DropReason> {
        let session = self.sessions.get_mut(id.0).ok_or(DropReason::StaleSession)?;
        // A path message may be larger: that is how a larger size is found to get through.
        if buffer.len() > usize::from(session.peer.max_datagram_len) && kind != RecordKind::Path {
            return Err(DropReason::TooBig);
        }
        match session.send.seal(kind, buffer, now) {
            Ok(()) => {
                let address = session.peer.address;
                let plaintext = RecordHeader::LEN..buffer.len() - AEAD_TAG_LEN;
                if session.dozes && holds_pdus(kind, &plaintext) {
                    self.wake_watch(id, now);
                }
                Ok(address)
            }
            Err(DropReason::CounterExhausted) => {
                self.end(id, CloseReason::CounterExhausted);
                Err(DropReason::CounterExhausted)
            }
            Err(reason) => Err(reason),
        }
    }

    /// Queues an empty record: the peer learns that we are there, and that we have its parameters.
    pub(super) fn send_keep_alive(&mut self, session: SessionId, now: Instant) {
        self.send_empty(session, RecordKind::Pdu, now);
        self.say_takes_bundles(session, now);
    }

    /// Queues an empty bundle, if we take bundles: whoever knows none drops it unopened. It asks
    /// for no answer, so a watch does not wait for one.
    pub(super) fn say_takes_bundles(&mut self, id: SessionId, now: Instant) {
        let is_on_stream = self.sessions.get(id.0).is_some_and(|it| it.stream.is_some());
        if !self.config.bundles || is_on_stream {
            return;
        }
        self.send_empty(id, RecordKind::Bundle, now);
        if let Some(watch) = self.sessions.get_mut(id.0).and_then(|it| it.watch.as_mut()) {
            watch.sealed_one_of_ours();
        }
    }

    /// Queues a close. If it is lost, the peer finds out by our silence.
    pub(super) fn send_close(&mut self, session: SessionId, now: Instant) {
        self.send_empty(session, RecordKind::Close, now);
    }

    fn send_empty(&mut self, session: SessionId, kind: RecordKind, now: Instant) {
        let mut buffer = [0; RECORD_OVERHEAD];
        match self.seal_record(session, kind, &mut buffer, now) {
            Ok(address) => self.outgoing.push(address, &buffer),
            Err(reason) => {
                self.drops.count(reason);
            }
        }
        if let Some(session) = self.sessions.get_mut(session.0) {
            session.own_records += 1;
        }
    }
}

impl Seals for Endpoint {
    #[inline]
    fn begin(
        &mut self,
        id: SessionId,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<Begun, DropReason> {
        let session = self.sessions.get_mut(id.0).ok_or(DropReason::StaleSession)?;
        if buffer.len() > usize::from(session.peer.max_datagram_len) {
            return Err(DropReason::TooBig);
        }
        let begun = match &mut session.send {
            Sending::Sealed(lane) => lane.begin(RecordKind::Pdu, buffer, now)?,
            Sending::Stream(lane) => {
                lane.frame(RecordKind::Pdu, buffer, now)?;
                Begun::Sealed
            }
        };
        if session.dozes && begun != Begun::EpochFirst {
            self.wake_watch(id, now);
        }
        Ok(begun)
    }

    #[inline]
    fn address(&self, id: SessionId) -> Option<&SocketAddr> {
        self.sessions.get(id.0).map(|session| &session.peer.address)
    }

    #[cold]
    fn begin_epoch(&mut self, id: SessionId, now: Instant) -> Result<(), DropReason> {
        let session = self.sessions.get_mut(id.0).ok_or(DropReason::StaleSession)?;
        let Sending::Sealed(lane) = &mut session.send else { return Ok(()) };
        let begun = lane.begin_epoch(now);
        if begun.is_err() {
            self.end(id, CloseReason::CounterExhausted);
        }
        begun
    }

    #[cold]
    fn refuse(&mut self, reason: DropReason) {
        self.drops.count(reason);
    }

    #[inline]
    fn key(&self, id: SessionId) -> Option<&PacketKey> {
        match &self.sessions.get(id.0)?.send {
            Sending::Sealed(lane) => Some(lane.key()),
            Sending::Stream(_) => None,
        }
    }
}

/// Whether a record is for whoever opens it, and not for the link alone.
#[inline]
pub(crate) fn holds_pdus(kind: RecordKind, plaintext: &Range<usize>) -> bool {
    kind == RecordKind::Pdu || kind == RecordKind::Bundle && !plaintext.is_empty()
}

/// So many keys, in and out, with their windows stand in the cache that is nearest but one.
pub(crate) const NEAR_SESSIONS: usize = 64;
/// Of a record that is not for whoever opens it.
const NOTHING: Range<usize> = RecordHeader::LEN..RecordHeader::LEN;

//! What programs want sent: data that are kept for resending, data that are not, and pings.

use std::time::Instant;

use rhumb_trust::Now;
use rhumb_wire::datagram::RECORD_OVERHEAD;
use rhumb_wire::nack::Nack;
use rhumb_wire::payload::{PayloadHeader, PayloadKind};
use rhumb_wire::pdu::LabelledHeader;
use rhumb_wire::{Action, Batch, Name, PduHeader};

use super::event::{Event, Evidence, SendFailure};
use super::labels::Flow;
use super::pending::{PendingKind, Settled};
use super::{Core, MAX_TRANSMIT};
use crate::SendError;

impl Core {
    /// The longest body that one PDU to `to` carries, as far as is known: less is
    /// learned when a router on the path says so.
    pub fn max_body_len(&self, to: Name, now: Now) -> usize {
        let peer = self.membership.session().and_then(|session| self.endpoint.peer(session));
        let peer_max = peer.map_or(u16::MAX, |peer| peer.max_datagram_len);
        let datagram_len = usize::from(self.max_datagram_len.min(peer_max));
        let data_len = datagram_len.saturating_sub(RECORD_OVERHEAD + PduHeader::LEN);
        let learned = self.path_limits.max_data_len(&to, now.instant).unwrap_or(usize::MAX);
        data_len.min(learned).saturating_sub(PayloadHeader::LEN)
    }

    /// Takes a datagram for `port` of `to`. It is sent by [`Core::poll_transmit`] once a
    /// router is joined, and again when a NACK says so; if that does not help,
    /// [`Event::SendFailed`] bears the tag returned here.
    ///
    /// # Errors
    /// [`SendError::TooBig`], [`SendError::NoRoom`] while as many
    /// as can be kept wait, [`SendError::Closed`].
    pub fn send(&mut self, to: Name, port: u16, body: &[u8], now: Now) -> Result<u32, SendError> {
        self.send_as(self.name, to, port, body, now)
    }

    /// As [`Core::send`], in the name of `from`: this node's own or one that it serves.
    ///
    /// # Errors
    /// As [`Core::send`], and [`SendError::NotServed`].
    pub fn send_as(
        &mut self,
        from: Name,
        to: Name,
        port: u16,
        body: &[u8],
        now: Now,
    ) -> Result<u32, SendError> {
        self.may_speak_for(from)?;
        let max = self.max_body_len(to, now);
        if body.len() > max {
            return Err(SendError::TooBig { len: body.len(), max });
        }
        let header = PayloadHeader { kind: PayloadKind::Datagram, port };
        self.scratch.clear();
        self.scratch.extend_from_slice(&header.emit());
        self.scratch.extend_from_slice(body);
        let header = PduHeader::new(Action::Data, from, to);
        self.enqueue(header, PendingKind::Data, now)
    }

    /// Sends a ping that may pass `ttl` routers, with `data_len` bytes: at least 36, so that a
    /// router that answers in the destination's stead can say who it is. [`Event::Pong`] or
    /// [`Event::PingNacked`] bear the tag returned here.
    ///
    /// # Errors
    /// As [`Core::send`].
    pub fn ping(&mut self, to: Name, ttl: u8, data_len: usize, now: Now) -> Result<u32, SendError> {
        let max = self.max_body_len(to, now) + PayloadHeader::LEN;
        let data_len = data_len.max(Nack::MAX_LEN);
        if data_len > max {
            return Err(SendError::TooBig { len: data_len, max });
        }
        self.scratch.clear();
        self.scratch.resize(data_len, 0);
        let header = PduHeader { ttl, ..PduHeader::new(Action::Ping, self.name, to) };
        self.enqueue(header, PendingKind::Ping, now)
    }

    /// Appends a payload, header included, to `out` at once, without keeping a
    /// copy. NACKs about it come as [`Event::Nacked`].
    ///
    /// # Errors
    /// [`SendError::TooBig`], [`SendError::NotJoined`].
    pub fn send_unkept(
        &mut self,
        to: Name,
        payload: &[u8],
        out: &mut Batch,
        now: Now,
    ) -> Result<(), SendError> {
        self.send_unkept_as(self.name, to, [&[], payload], out, now)?;
        self.flush(out, now);
        Ok(())
    }

    /// As [`Core::send_unkept`], in the name of `from`: this node's own or one that it serves. The
    /// header of the payload and its body may stand apart. It may wait to share its datagram with
    /// others, until [`Core::flush`].
    ///
    /// # Errors
    /// As [`Core::send_unkept`], and [`SendError::NotServed`].
    pub fn send_unkept_as(
        &mut self,
        from: Name,
        to: Name,
        [head, body]: [&[u8]; 2],
        out: &mut Batch,
        now: Now,
    ) -> Result<(), SendError> {
        self.may_speak_for(from)?;
        let max = self.max_body_len(to, now) + PayloadHeader::LEN;
        let len = head.len() + body.len();
        if len > max {
            return Err(SendError::TooBig { len, max });
        }
        let session = self.membership.joined().ok_or(SendError::NotJoined)?;
        let tag = self.tags.take();
        self.streams.sent(tag, to, now.instant);
        let named = PduHeader { tag, ..PduHeader::new(Action::Data, from, to) };
        let sealed = match self.labels.of(&Flow { from, to }) {
            Some(label) => {
                let header = LabelledHeader { action: named.action, ttl: named.ttl, tag, label };
                let header = header.emit_before_bytes(len).expect(DATAGRAM_FITS);
                let parts = [&header, head, body];
                let link = (&mut self.endpoint, &mut self.drops);
                self.outbox.push(link, session, parts, out, now.instant)
            }
            None => {
                let payload = [head, body].concat();
                self.scratch.clear();
                named.emit(&payload, &[], &mut self.scratch).expect(DATAGRAM_FITS);
                let parts = [&[], &self.scratch[..]];
                let link = (&mut self.endpoint, &mut self.drops);
                self.outbox.push(link, session, parts, out, now.instant)
            }
        };
        if sealed {
            self.traffic.sent += 1;
        }
        Ok(())
    }

    /// Takes a payload, header included, of a handshake between ends. It is kept, and sent again
    /// when a NACK says so: [`Event::HandshakeFailed`] follows if that does not help.
    ///
    /// # Errors
    /// As [`Core::send_as`].
    pub fn send_handshake(
        &mut self,
        from: Name,
        to: Name,
        payload: &[u8],
        now: Now,
    ) -> Result<u32, SendError> {
        self.may_speak_for(from)?;
        let max = self.max_body_len(to, now) + PayloadHeader::LEN;
        if payload.len() > max {
            return Err(SendError::TooBig { len: payload.len(), max });
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(payload);
        let header = PduHeader::new(Action::Data, from, to);
        self.enqueue(header, PendingKind::Handshake, now)
    }

    /// Whether [`Core::send`] has room for a body of `len` bytes.
    pub fn has_room(&self, len: usize) -> bool {
        self.pending.has_room(PduHeader::LEN + PayloadHeader::LEN + len)
    }

    /// Has the router that stands by find the ways to whom this node talks with, when it is time
    /// to: by empty pings without certificates, which it does not carry.
    pub(super) fn inquire(&mut self, out: &mut Batch, now: Now) {
        let Some(session) = self.membership.poll_inquiry(now.instant) else { return };
        for to in self.correspondents() {
            let tag = self.tags.take();
            let mut ping = Vec::with_capacity(PduHeader::LEN);
            let header = PduHeader { tag, ..PduHeader::new(Action::Ping, self.name, to) };
            header.emit(&[], &[], &mut ping).expect(DATAGRAM_FITS);
            let link = (&mut self.endpoint, &mut self.drops);
            self.outbox.push(link, session, [&[], &ping], out, now.instant);
        }
    }

    /// Whom this node talked with lately, as far as it remembers: a few.
    fn correspondents(&self) -> Vec<Name> {
        let mut few: Vec<Name> = Vec::new();
        let sent_to = self.streams.destinations().chain(self.pending.newest_destinations());
        for name in sent_to.chain(self.labels.newest_sources()) {
            if !few.contains(&name) {
                few.push(name);
            }
            if few.len() >= MAX_INQUIRED {
                break;
            }
        }
        few
    }

    /// Whether another [`Core::poll_transmit`] is worth while at once.
    pub fn has_more_to_send(&self) -> bool {
        self.membership.joined().is_some() && self.pending.unsent() > 0
    }

    /// Puts the data in the scratch buffer into a PDU and keeps it.
    fn enqueue(
        &mut self,
        header: PduHeader,
        kind: PendingKind,
        now: Now,
    ) -> Result<u32, SendError> {
        if self.is_over() {
            return Err(SendError::Closed);
        }
        if !self.pending.has_room(PduHeader::LEN + self.scratch.len()) {
            return Err(SendError::NoRoom);
        }
        let tag = self.tags.take();
        let header = PduHeader { tag, ..header };
        let mut pdu = self.pending.buffer();
        header.emit(&self.scratch, &[], &mut pdu).expect(DATAGRAM_FITS);
        self.pending.push(tag, header.destination, kind, pdu, now.instant);
        Ok(tag)
    }

    fn may_speak_for(&self, name: Name) -> Result<(), SendError> {
        match name == self.name || self.services.holds(&name) {
            true => Ok(()),
            false => Err(SendError::NotServed { name }),
        }
    }

    /// Tells that a PDU is given up.
    pub(super) fn give_up(
        &mut self,
        settled: Settled,
        reporter: Option<Name>,
        evidence: Option<Box<Evidence>>,
        now: Instant,
    ) {
        self.traffic.given_up += 1;
        let Settled { tag, to, kind, sent_at, reason } = settled;
        let event = match (kind, reason) {
            (PendingKind::Ping, Some(reason)) => {
                let rtt = sent_at.map(|at| now.saturating_duration_since(at));
                Event::PingNacked { tag, to, reason, reporter, rtt, retried: false, evidence }
            }
            (PendingKind::Handshake, reason) => {
                let reason = reason.map_or(SendFailure::NotJoined, SendFailure::Nacked);
                Event::HandshakeFailed { to, reason }
            }
            (_, Some(reason)) => Event::SendFailed { tag, to, reason: SendFailure::Nacked(reason) },
            (_, None) => Event::SendFailed { tag, to, reason: SendFailure::NotJoined },
        };
        self.events.push_back(event);
    }
}

const DATAGRAM_FITS: &str = "invariant: what fits a datagram fits the length field";

/// Ways that a router that stands by is asked for: those of most programs,
/// and what it looks up for one session in one go.
const MAX_INQUIRED: usize = 16;

const _: () =
    assert!(MAX_TRANSMIT <= super::pending::MAX_PDUS, "one turn never empties the buffer");

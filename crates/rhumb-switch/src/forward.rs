//! The path of a packet.
//!
//! Per batch: 1. what other switches of the process changed is seen, by one load; 2. every datagram in turn; 3. what the
//! handshakes among them brought about; 4. our own datagrams appended.
//!
//! Per datagram: 1. the clear header finds the session, the replay window is asked, the AEAD opens in place (all in
//! `rhumb-link`). 2. The label finds the flow by one array access, and names by one look-up. 3. The TTL loses one, and
//! the label becomes the next hop's. 4. The PDU is sealed in place for the next session, and the slot redirected.
//! Everything else takes the slow path in `admit`.

use std::net::SocketAddr;

use rhumb_link::SessionId;
use rhumb_trust::Now;
use rhumb_wire::datagram::Datagram;
use rhumb_wire::pdu::{Frame, Label, LabelledPdu, decrement_ttl, relabel};
use rhumb_wire::{Action, Batch, Pdu};

use crate::flows::NextLabel;
use crate::{DropReason, Switch};

impl Switch {
    /// Turns received datagrams into datagrams to send: forwarded ones in their own slots, our own appended, the rest
    /// dropped and counted. Bounded work per datagram; no public-key operation but those of handshakes.
    pub fn handle_batch(&mut self, batch: &mut Batch, now: Now) {
        let mut handshakes = false;
        self.routes.catch_up();
        for index in 0..batch.len() {
            let (from, datagram) = batch.datagram_mut(index);
            let next = match datagram.first().map(|first| first >> 4) {
                Some(0x8 | 0xB | 0xD) => self.handle_record(from, datagram, now),
                _ => {
                    handshakes = true;
                    self.handle_handshake(from, datagram, now);
                    None
                }
            };
            match next {
                Some(peer) => batch.redirect(index, peer),
                None => batch.drop_datagram(index),
            }
        }
        if handshakes {
            self.after_control(now);
        } else {
            self.handle_link_events(now);
        }
        self.poll_transmit(batch);
    }

    /// Opens a sealed datagram and forwards its PDU in place. Returns where the datagram, as it now stands, goes.
    #[inline]
    fn handle_record(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        now: Now,
    ) -> Option<SocketAddr> {
        // The endpoint counts what it refuses.
        let opened = self.endpoint.open(from, datagram, now.instant).ok()?;
        let (session, range) = (opened.session, opened.plaintext);
        if range.is_empty() {
            // Perhaps a close: what is behind it in the batch must not go to a session that has ended.
            self.handle_link_events(now);
            return None;
        }
        let len = datagram.len();
        let next = match Frame::parse(&datagram[range.clone()]) {
            Ok(Frame::Labelled(pdu)) => match self.known_label(session, &pdu, len, now) {
                Some((next, label)) => {
                    relabel(&mut datagram[range], label);
                    next
                }
                None => {
                    self.handle_slow_labelled(session, &pdu, now);
                    return None;
                }
            },
            Ok(Frame::Full(pdu)) => {
                let next = match self.known_flow(session, &pdu, len, now) {
                    Some(next) => next,
                    None => self.handle_slow(session, &pdu, now)?,
                };
                decrement_ttl(&mut datagram[range]);
                next
            }
            Err(_) => {
                self.drop_pdu(DropReason::MalformedPdu);
                return None;
            }
        };
        self.pass_on(next, datagram, now)
    }

    /// The next hop of a PDU whose label is known, whose flow is current, and for which the next hop gave a label too.
    #[inline]
    fn known_label(
        &mut self,
        session: SessionId,
        pdu: &LabelledPdu<'_>,
        len: usize,
        now: Now,
    ) -> Option<(SessionId, Label)> {
        if pdu.header().action == Action::Nack || pdu.ttl() <= 1 {
            return None;
        }
        let flow = self.flows.by_label(pdu.label())?;
        let current = flow.is_current(session, self.routes.generation(), now);
        let NextLabel::Given(next_label) = flow.next_label else { return None };
        (current && flow.ready && len <= usize::from(flow.max_datagram_len))
            .then_some((flow.next, next_label))
    }

    /// The next hop of a PDU whose flow is known, current and needs no certificates.
    #[inline]
    fn known_flow(
        &mut self,
        session: SessionId,
        pdu: &Pdu<'_>,
        len: usize,
        now: Now,
    ) -> Option<SessionId> {
        let carries = matches!(pdu.action(), Action::Data | Action::Ping);
        if !carries || pdu.has_certificates() || pdu.ttl() <= 1 {
            return None;
        }
        let flow = self.flows.by_names(pdu.names())?;
        let current = flow.is_current(session, self.routes.generation(), now);
        // Whoever goes on sending names is told the label again from time to time, by the slow path.
        let told = flow.was_told_within(TELL_LABEL_AGAIN_MS, now);
        (current && flow.ready && told && len <= usize::from(flow.max_datagram_len))
            .then_some(flow.next)
    }

    #[inline]
    fn pass_on(&mut self, next: SessionId, datagram: &mut [u8], now: Now) -> Option<SocketAddr> {
        match self.endpoint.seal(next, datagram, now.instant) {
            Ok(peer) => {
                self.counters.forwarded_pdus += 1;
                self.counters.forwarded_bytes += datagram.len() as u64;
                Some(peer)
            }
            Err(_) => {
                self.drop_pdu(DropReason::NextHopGone);
                None
            }
        }
    }

    fn handle_handshake(&mut self, from: SocketAddr, datagram: &[u8], now: Now) {
        match Datagram::parse(datagram) {
            // A refusal is counted by the endpoint.
            Ok(datagram) => drop(self.endpoint.handle_handshake(from, datagram, now.instant)),
            Err(_) => self.drop_pdu(DropReason::ForeignDatagram),
        }
    }
}

/// A FlowAccept that got lost is repeated no later; one that is ignored costs no more than this.
pub(crate) const TELL_LABEL_AGAIN_MS: u64 = 500;

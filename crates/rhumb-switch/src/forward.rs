//! The path of a packet.
//!
//! Per batch: 1. what other switches of the process changed is seen, by one load; 2. the datagrams,
//! a group of sealed PDUs at a time, and in its turn what is none; 3. what the handshakes among
//! them brought about; 4. our own datagrams appended.
//!
//! Per group, three passes, so that the memory its flows and sessions stand in is waited for
//! together and not one after the other. 1. Open: the clear header finds the session, the replay
//! window is asked, the AEAD opens in place (all in `rhumb-link`); what the flows of a large table
//! stand in is read ahead, all of it at once. 2. Look up: the label finds the flow by one array
//! access, and names by one look-up; the TTL loses one, and the label becomes the next hop's. 3.
//! Seal: in place for the next session, and the slot is redirected. Everything else takes the slow
//! path in `admit`, during the second pass.
//!
//! A close ends a session, so it is no part of a group: PDUs
//! that came before it are passed on before it.

use std::net::SocketAddr;
use std::ops::Range;

use rhumb_link::{Opened, SessionId};
use rhumb_trust::Now;
use rhumb_wire::datagram::Datagram;
use rhumb_wire::pdu::{Frame, Label, LabelledPdu, decrement_ttl, relabel};
use rhumb_wire::{Action, Batch, Pdu};

use crate::border::is_stamped;
use crate::flows::{NAMES_TAKE, NextLabel, Place, Ready, Sought, TELL_LABEL_AGAIN_MS};
use crate::{DropReason, Switch};

impl Switch {
    /// Turns received datagrams into datagrams to send: forwarded ones in their own slots,
    /// our own appended, the rest dropped and counted. Bounded work per datagram; no
    /// public-key operation but those of handshakes, and with
    /// [`handshakes_elsewhere`](rhumb_link::Config::handshakes_elsewhere) only of our own.
    pub fn handle_batch(&mut self, batch: &mut Batch, now: Now) {
        let mut handshakes = false;
        self.routes.catch_up();
        let (mut slot, received) = (0, batch.len());
        while slot < received {
            let end = received.min(slot + GROUP);
            slot += self.handle_pdus(batch, slot..end, now);
            if slot < end {
                handshakes |= self.handle_other(batch, slot, now);
                slot += 1;
            }
        }
        if handshakes {
            self.after_control(now);
        } else {
            self.handle_link_events(now);
        }
        self.poll_transmit(batch);
    }

    /// Handles the sealed PDUs of these slots, at most [`GROUP`], up to the first
    /// datagram that is none. How many there were.
    fn handle_pdus(&mut self, batch: &mut Batch, mut slots: Range<usize>, now: Now) -> usize {
        // Arrays of this call, not lent by the caller: 8 ns a datagram less.
        let mut all_opened = [const { None }; GROUP];
        let mut next_hops = [None; GROUP];
        let are_several = self.workers.are_several();
        for (slot, opened) in slots.clone().zip(&mut all_opened) {
            let (from, datagram) = batch.datagram_mut(slot);
            if datagram.first().is_none_or(|first| first >> 4 != SEALED_PDU) {
                slots.end = slot;
                break;
            }
            if are_several && self.hand_to_its_worker(from, datagram) {
                continue;
            }
            // The endpoint counts what it refuses.
            *opened = self.endpoint.open(from, datagram, now.instant).ok();
        }
        let mut likely = [Place::NOWHERE; GROUP];
        if self.flows.is_far() {
            self.touch_flows(batch, slots.clone(), &all_opened, &mut likely);
        }
        let places = likely.into_iter().zip(&mut next_hops);
        for ((slot, opened), (likely, next)) in slots.clone().zip(all_opened).zip(places) {
            if let Some(opened) = opened {
                *next = self.handle_opened(batch.datagram_mut(slot).1, opened, likely, now);
            }
        }
        if self.transit.are_stamped() {
            self.handle_stamped(batch, slots.clone(), &mut next_hops, now);
        }
        for (slot, next) in slots.clone().zip(next_hops) {
            match next {
                Some(next) => self.pass_on(next, batch, slot, now),
                None => batch.drop_datagram(slot),
            }
        }
        slots.len()
    }

    /// Has what the flows of these PDUs stand in read ahead.
    fn touch_flows(
        &self,
        batch: &mut Batch,
        slots: Range<usize>,
        all_opened: &[Option<Opened>; GROUP],
        likely: &mut [Place; GROUP],
    ) {
        let mut all_sought = [Sought::Nothing; GROUP];
        for ((slot, opened), sought) in slots.zip(all_opened).zip(&mut all_sought) {
            let Some(opened) = opened else { continue };
            if let Ok(frame) = Frame::parse(&batch.datagram_mut(slot).1[opened.plaintext.clone()]) {
                *sought = self.flows.sought(&frame);
            }
        }
        self.flows.touch(&all_sought, likely);
    }

    /// Handles a datagram that is no sealed PDU. Whether it was a handshake, or tried to be one.
    fn handle_other(&mut self, batch: &mut Batch, slot: usize, now: Now) -> bool {
        let (from, datagram) = batch.datagram_mut(slot);
        let is_record = datagram.first().is_some_and(|first| SEALED_OTHERS.contains(&(first >> 4)));
        match is_record {
            // The link's own business; but what is behind a close
            // must not go to the session that it ended.
            true if self.workers.are_several() && self.hand_to_its_worker(from, datagram) => {}
            true => {
                drop(self.endpoint.open(from, datagram, now.instant));
                self.handle_link_events(now);
            }
            false => self.handle_handshake(from, datagram, now),
        }
        batch.drop_datagram(slot);
        !is_record
    }

    /// Handles a sealed datagram that is in no batch. Returns where it goes, as it then stands.
    pub(crate) fn handle_record(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        now: Now,
    ) -> Option<SocketAddr> {
        if self.hand_to_its_worker(from, datagram) {
            return None;
        }
        let opened = self.endpoint.open(from, datagram, now.instant).ok()?;
        self.forward_alone(opened, datagram, now)
    }

    /// Forwards an opened datagram that is in no batch. Returns where it goes, as it then stands.
    #[cold]
    pub(crate) fn forward_alone(
        &mut self,
        opened: Opened,
        datagram: &mut [u8],
        now: Now,
    ) -> Option<SocketAddr> {
        if is_stamped(&datagram[opened.plaintext.clone()]) {
            self.forward_stamped_alone(&opened, datagram, now);
            return None;
        }
        let next = self.handle_opened(datagram, opened, Place::NOWHERE, now)?;
        self.seal_for(next, datagram, now)
    }

    /// Readies an opened datagram for its next hop. Returns the session to seal it for, or, if it
    /// is stamped, the one that it came on.
    #[inline(always)] // Called in two places, of which one is hot.
    fn handle_opened(
        &mut self,
        datagram: &mut [u8],
        opened: Opened,
        likely: Place,
        now: Now,
    ) -> Option<SessionId> {
        let (session, len) = (opened.session, datagram.len());
        let pdu = &mut datagram[opened.plaintext];
        if pdu.is_empty() {
            return None;
        }
        match Frame::parse(pdu) {
            Ok(Frame::Labelled(labelled)) => {
                match self.known_label(session, &labelled, len, |it| it == Ready::Open, now) {
                    Some((next, label)) => {
                        relabel(pdu, label);
                        Some(next)
                    }
                    None => {
                        self.handle_slow_labelled(session, &labelled, now);
                        None
                    }
                }
            }
            Ok(Frame::Full(full)) => {
                let next = match self.known_flow(session, &full, (len, likely), now) {
                    Some(next) => next,
                    None => self.handle_slow(session, &full, now)?,
                };
                decrement_ttl(pdu);
                Some(next)
            }
            Err(_) => self.handle_no_pdu(session, pdu),
        }
    }

    /// The next hop of a PDU whose label is known, whose flow is current, and for which the next
    /// hop gave a label too. `len` is that of its datagram, which has to fit the next link with
    /// names, too, lest the flow cannot go back to them.
    #[inline(always)] // As handle_opened.
    pub(crate) fn known_label(
        &mut self,
        session: SessionId,
        pdu: &LabelledPdu<'_>,
        len: usize,
        is_ready: impl Fn(Ready) -> bool,
        now: Now,
    ) -> Option<(SessionId, Label)> {
        if pdu.header().action == Action::Nack || pdu.ttl() <= 1 {
            return None;
        }
        let flow = self.flows.by_label(pdu.label(), self.routes.seen())?;
        let current = flow.is_current(session, now);
        let NextLabel::Given(next_label) = flow.next_label else { return None };
        let fits = len + NAMES_TAKE <= usize::from(flow.max_datagram_len);
        (current && is_ready(flow.ready) && fits).then_some((flow.next, next_label))
    }

    /// The next hop of a PDU whose flow is known, current and needs no certificates.
    #[inline]
    fn known_flow(
        &mut self,
        session: SessionId,
        pdu: &Pdu<'_>,
        (len, likely): (usize, Place),
        now: Now,
    ) -> Option<SessionId> {
        let carries = matches!(pdu.action(), Action::Data | Action::Ping);
        if !carries || pdu.has_certificates() || pdu.ttl() <= 1 {
            return None;
        }
        let flow = self.flows.by_names(pdu.names(), likely, self.routes.seen())?;
        let current = flow.is_current(session, now);
        // Whoever goes on sending names is told the label
        // again from time to time, by the slow path.
        let told = flow.was_told_within(TELL_LABEL_AGAIN_MS, now);
        let ready = flow.ready == Ready::Open;
        (current && ready && told && len <= usize::from(flow.max_datagram_len)).then_some(flow.next)
    }

    /// Seals the datagram of a slot for `next`, and sends it there.
    #[inline]
    fn pass_on(&mut self, next: SessionId, batch: &mut Batch, slot: usize, now: Now) {
        match self.seal_for(next, batch.datagram_mut(slot).1, now) {
            Some(peer) => batch.redirect(slot, peer),
            None => batch.drop_datagram(slot),
        }
    }

    #[inline(always)] // 20 instructions a datagram: the address is copied once more otherwise.
    pub(crate) fn seal_for(
        &mut self,
        next: SessionId,
        datagram: &mut [u8],
        now: Now,
    ) -> Option<SocketAddr> {
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

    pub(crate) fn handle_handshake(&mut self, from: SocketAddr, datagram: &[u8], now: Now) {
        match Datagram::parse(datagram) {
            // A refusal is counted by the endpoint.
            Ok(datagram) => drop(self.endpoint.handle_handshake(from, datagram, now.instant)),
            Err(_) => self.drop_pdu(DropReason::ForeignDatagram),
        }
    }
}

/// Datagrams that take each pass together: as many as one batch of messages brings, and of the
/// usual size no more than half a second-level cache holds.
const GROUP: usize = 64;
/// The first four bits of a sealed PDU, and of what else is sealed: closes and path messages.
const SEALED_PDU: u8 = 0x8;
const SEALED_OTHERS: [u8; 2] = [0xB, 0xD];

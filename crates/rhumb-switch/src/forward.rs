//! The path of a packet on the switch itself, worker 0.
//!
//! Per batch: 1. what other switches of the process changed is seen, by one load; 2. the datagrams,
//! by the three passes of `passes`; 3. what the handshakes among them brought about; 4. our own
//! datagrams appended. What is of no known flow takes the slow path in `admit`, during the second
//! pass.

use std::net::SocketAddr;
use std::ops::Range;

use rhumb_link::{Decrypted, Decryption, Opened, SessionId};
use rhumb_trust::Now;
use rhumb_wire::datagram::{RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::pdu::{Frame, decrement_ttl, relabel};
use rhumb_wire::{Batch, bundle};

use crate::border::is_stamped;
use crate::bundles::GROUP;
use crate::flows::{Place, Ready, Sought};
use crate::passes::{Worker, is_sealed, pass_batch};
use crate::{DropReason, Switch};

impl Switch {
    /// Turns received datagrams into datagrams to send: forwarded ones in their own slots,
    /// our own appended, the rest dropped and counted. Bounded work per datagram; no
    /// public-key operation but those of handshakes, and with
    /// [`handshakes_elsewhere`](rhumb_link::Config::handshakes_elsewhere) only of our own.
    pub fn handle_batch(&mut self, batch: &mut Batch, now: Now) {
        self.routes.begin(now.instant);
        match pass_batch(self, batch, now) {
            true => self.after_control(now),
            false => self.handle_link_events(now),
        }
        self.poll_transmit(batch);
    }

    /// Handles a sealed datagram that is in no batch. Returns where it goes, as it then stands.
    pub(crate) fn handle_record(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        now: Now,
    ) -> Option<SocketAddr> {
        let (opened, ()) = self.open(from, datagram, Decryption::NONE, now)?;
        self.forward_alone(opened, datagram, now)
    }

    /// Forwards the PDUs of an opened bundle that is in no batch.
    #[cold]
    fn forward_bundle_alone(&mut self, opened: Opened, datagram: &[u8], now: Now) {
        let bundle = &datagram[opened.plaintext];
        let Ok(pdus) = bundle::pdus(bundle) else {
            return self.plane.drop_pdu(DropReason::MalformedPdu);
        };
        for pdu in pdus {
            let plaintext = RecordHeader::LEN..RecordHeader::LEN + pdu.len();
            let mut alone = vec![0; pdu.len() + RECORD_OVERHEAD];
            alone[plaintext.clone()].copy_from_slice(&bundle[pdu]);
            let opened = Opened { session: opened.session, plaintext, is_bundle: false };
            if let Some(peer) = self.forward_alone(opened, &mut alone, now) {
                self.plane.queue(peer, &alone);
            }
        }
    }

    /// Forwards an opened datagram that is in no batch. Returns where it goes, as it then stands.
    #[cold]
    pub(crate) fn forward_alone(
        &mut self,
        opened: Opened,
        datagram: &mut [u8],
        now: Now,
    ) -> Option<SocketAddr> {
        if opened.is_bundle {
            self.forward_bundle_alone(opened, datagram, now);
            return None;
        }
        if is_stamped(&datagram[opened.plaintext.clone()]) {
            self.forward_stamped_alone(&opened, datagram, now);
            return None;
        }
        let next = self.handle_opened(datagram, opened, Place::NOWHERE, now)?;
        self.plane.seal(next, datagram, 1, now)
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
        let (session, about) = (opened.session, (datagram.len(), self.routes.seen()));
        let pdu = &mut datagram[opened.plaintext];
        if pdu.is_empty() {
            return None;
        }
        match Frame::parse(pdu) {
            Ok(Frame::Labelled(labelled)) => {
                let is_open = |it| it == Ready::Open;
                match self.plane.known_label(session, &labelled, about, is_open) {
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
                let next = match self.plane.known_flow(session, &full, about, likely, now) {
                    Some(next) => next,
                    None => self.handle_slow(session, &full, now)?,
                };
                decrement_ttl(pdu);
                Some(next)
            }
            Err(_) => self.handle_no_pdu(session, pdu),
        }
    }
}

impl Worker for Switch {
    type Record = ();

    #[inline]
    fn decrypt(&self, batch: &mut Batch, slots: Range<usize>) -> Decrypted {
        self.plane.link().decrypt(batch, slots)
    }

    #[inline(always)] // As handle_opened.
    fn open(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        decryption: Decryption,
        now: Now,
    ) -> Option<(Opened, Self::Record)> {
        // Of what is another worker's nothing is decrypted here.
        if self.plane.hand_to_its_worker(from, datagram) {
            return None;
        }
        Some((self.plane.open(from, datagram, decryption, now)?, ()))
    }

    #[inline]
    fn are_keys_far(&self) -> bool {
        self.plane.link().is_far()
    }

    #[inline]
    fn read_ahead_to_open(&self, datagram: &[u8]) {
        self.plane.link().read_ahead_to_open(datagram);
    }

    #[inline]
    fn read_ahead_to_seal(&self, next: SessionId, len: usize) {
        self.plane.link().read_ahead_to_seal(next, len);
    }

    #[inline]
    fn is_far(&self) -> bool {
        self.plane.flows().is_far()
    }

    #[inline]
    fn seek(&self, frame: &Frame<'_>) -> Sought {
        self.plane.flows().seek(frame)
    }

    #[inline]
    fn find(&self, sought: Sought) -> Place {
        self.plane.flows().find(sought)
    }

    #[inline]
    fn confirm_all(&mut self, places: &[Place]) {
        if self.routes.changed_lately() {
            let (flows, seen) = (self.plane.flows_mut(), self.routes.seen());
            places.iter().for_each(|place| flows.confirm(*place, seen));
        }
    }

    #[inline(always)] // As handle_opened.
    fn look_up(
        &mut self,
        _from: SocketAddr,
        datagram: &mut [u8],
        (opened, ()): (Opened, Self::Record),
        likely: Place,
        now: Now,
    ) -> Option<SessionId> {
        self.handle_opened(datagram, opened, likely, now)
    }

    #[inline]
    fn handle_aside(
        &mut self,
        batch: &mut Batch,
        slots: Range<usize>,
        next_hops: &mut [Option<SessionId>],
        now: Now,
    ) {
        if self.transit.are_stamped() {
            self.handle_stamped(batch, slots, next_hops, now);
        }
    }

    #[inline]
    fn sends_bundles(&self) -> bool {
        self.plane.link().sends_bundles()
    }

    #[inline]
    fn bundle_room(&self, next: SessionId) -> Option<usize> {
        self.plane.bundle_room(next)
    }

    fn part((): &Self::Record, _: usize) -> Self::Record {}

    fn drop_bundle(&mut self) {
        self.plane.drop_pdu(DropReason::MalformedPdu);
    }

    #[inline]
    fn seal_all(
        &mut self,
        batch: &mut Batch,
        slots: Range<usize>,
        next_hops: &[Option<SessionId>; GROUP],
        now: Now,
    ) {
        self.plane.seal_all(batch, slots, next_hops, now);
    }

    #[inline(always)] // As Plane::seal.
    fn seal(
        &mut self,
        next: SessionId,
        datagram: &mut [u8],
        pdus: usize,
        now: Now,
    ) -> Option<SocketAddr> {
        self.plane.seal(next, datagram, pdus, now)
    }

    fn handle_other(&mut self, from: SocketAddr, datagram: &mut [u8], now: Now) -> bool {
        match is_sealed(datagram) {
            // The link's own business; but what is behind a close
            // must not go to the session that it ended.
            true if self.plane.hand_to_its_worker(from, datagram) => {}
            true => {
                let _ = self.plane.open(from, datagram, Decryption::NONE, now);
                self.handle_link_events(now);
            }
            false => self.plane.handle_handshake(from, datagram, now),
        }
        !is_sealed(datagram)
    }
}

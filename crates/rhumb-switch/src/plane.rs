//! What the switch forwards with: its sessions, its flows, and what it tells its other workers; and
//! what comes of that, to be sent, told and counted.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;

use rhumb_link::{Decryption, Endpoint, Opened, Peer, SessionId};
use rhumb_trust::Now;
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::pdu::{Label, LabelledPdu};
use rhumb_wire::{Action, Batch, Name, Pdu, Role};

use crate::DropReason;
use crate::changes::Seen;
use crate::config::Config;
use crate::counters::Counters;
use crate::event::Event;
use crate::flows::{Flows, NextLabel, Place, Ready};
use crate::hand_over::{FlowCopy, Order, Report, Told};
use crate::passes::{fits, goes_on};
use crate::workers::Workers;

/// The data plane of worker 0.
pub(crate) struct Plane {
    link: Endpoint,
    flows: Flows,
    workers: Workers,
    /// What is to be sent besides what is passed on in its slot.
    outgoing: Batch,
    /// For a PDU that is being made.
    scratch: Vec<u8>,
    events: VecDeque<Event>,
    counters: Counters,
}

impl Plane {
    pub(crate) fn new(link: Endpoint, config: &Config) -> Self {
        Self {
            link,
            flows: Flows::new(config.max_flows),
            workers: Workers::new(&config.link),
            outgoing: Batch::new(),
            scratch: Vec::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    pub(crate) fn link(&self) -> &Endpoint {
        &self.link
    }

    pub(crate) fn link_mut(&mut self) -> &mut Endpoint {
        &mut self.link
    }

    /// Who is at the other end of a session.
    #[inline]
    pub(crate) fn peer(&self, session: SessionId) -> Option<&Peer> {
        self.link.peer(session)
    }

    /// Whether others may be behind a session.
    pub(crate) fn is_router(&self, session: SessionId) -> bool {
        self.peer(session).is_some_and(|peer| peer.metadata.role == Role::Router)
    }

    /// The session with whoever has this name.
    pub(crate) fn session_of(&self, name: &Name) -> Option<SessionId> {
        self.link.session_of(name)
    }

    pub(crate) fn flows(&self) -> &Flows {
        &self.flows
    }

    pub(crate) fn flows_mut(&mut self) -> &mut Flows {
        &mut self.flows
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    pub(crate) fn drop_pdu(&mut self, reason: DropReason) {
        self.counters.count_drop(reason);
    }

    pub(crate) fn count_forwarded(&mut self, datagram_len: usize) {
        self.counters.count_forwarded(datagram_len);
    }

    /// Has whoever runs the switch told.
    pub(crate) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

// Forwarding.
impl Plane {
    /// Opens a sealed datagram in place. The link counts what it refuses.
    #[inline]
    pub(crate) fn open(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        decryption: Decryption,
        now: Now,
    ) -> Option<Opened> {
        self.link.open_decrypted(from, datagram, decryption, now.instant).ok()
    }

    /// Seals a PDU in each of these slots for the session at its place, and redirects it; drops
    /// what has none, or is refused.
    #[inline]
    pub(crate) fn seal_all(
        &mut self,
        batch: &mut Batch,
        slots: Range<usize>,
        next_hops: &[Option<SessionId>],
        now: Now,
    ) {
        self.link.seal_all(batch, slots.clone(), next_hops, now.instant);
        self.counters.count_sealed_in(&batch.slots()[slots], next_hops);
    }

    /// Seals a PDU, or a bundle of so many, in place for `next`. Returns where it goes, as it then
    /// stands.
    #[inline(always)] // 20 instructions a datagram: the address is copied once more otherwise.
    pub(crate) fn seal(
        &mut self,
        next: SessionId,
        datagram: &mut [u8],
        pdus: usize,
        now: Now,
    ) -> Option<SocketAddr> {
        let sealed = match pdus {
            1 => self.link.seal(next, datagram, now.instant),
            _ => self.link.seal_bundle(next, datagram, now.instant),
        };
        match sealed {
            Ok(peer) => {
                self.counters.count_sealed(datagram.len(), pdus);
                Some(peer)
            }
            Err(_) => {
                self.drop_pdu(DropReason::NextHopGone);
                None
            }
        }
    }

    /// How large a datagram with a bundle may be; `None` when the peer does not take any.
    #[inline]
    pub(crate) fn bundle_room(&self, next: SessionId) -> Option<usize> {
        self.link.bundle_room(next)
    }

    /// The next hop of a PDU whose label is known, whose flow is current, and for which the next
    /// hop gave a label too. `len` is that of its datagram.
    #[inline(always)] // As Switch::look_up.
    pub(crate) fn known_label(
        &mut self,
        session: SessionId,
        pdu: &LabelledPdu<'_>,
        (len, seen): (usize, Seen<'_>),
        is_ready: impl Fn(Ready) -> bool,
    ) -> Option<(SessionId, Label)> {
        if !goes_on(pdu) {
            return None;
        }
        let flow = self.flows.by_label(pdu.label(), seen)?;
        let current = flow.is_current(session, seen.at);
        let NextLabel::Given(next_label) = flow.next_label else { return None };
        let goes = current && is_ready(flow.ready) && fits(len, flow.max_datagram_len);
        goes.then_some((flow.next, next_label))
    }

    /// The next hop of a PDU whose flow is known, current and needs no certificates.
    #[inline]
    pub(crate) fn known_flow(
        &mut self,
        session: SessionId,
        pdu: &Pdu<'_>,
        (len, seen): (usize, Seen<'_>),
        likely: Place,
        now: Now,
    ) -> Option<SessionId> {
        let carries = matches!(pdu.action(), Action::Data | Action::Ping);
        if !carries || pdu.has_certificates() || pdu.ttl() <= 1 {
            return None;
        }
        let flow = self.flows.by_names(pdu.names(), likely, seen)?;
        let current = flow.is_current(session, seen.at);
        // Whoever goes on sending names is told the label
        // again from time to time, by the slow path.
        let told = flow.label_told.is_lately(now);
        let ready = flow.ready == Ready::Open;
        (current && ready && told && len <= usize::from(flow.max_datagram_len)).then_some(flow.next)
    }

    /// Takes a datagram of a handshake, or what is nothing that we know.
    pub(crate) fn handle_handshake(&mut self, from: SocketAddr, datagram: &[u8], now: Now) {
        match Datagram::parse(datagram) {
            // A refusal is counted by the link.
            Ok(datagram) => drop(self.link.handle_handshake(from, datagram, now.instant)),
            Err(_) => self.drop_pdu(DropReason::ForeignDatagram),
        }
    }
}

// What is to be sent.
impl Plane {
    /// How many datagrams wait to be sent.
    pub(crate) fn queued(&self) -> usize {
        self.outgoing.len()
    }

    /// Queues a datagram as it is.
    pub(crate) fn queue(&mut self, to: SocketAddr, datagram: &[u8]) {
        self.outgoing.push(to, datagram);
    }

    /// Queues a datagram of `len` bytes for a session, which `fill` writes between the header of
    /// the record and its tag. Whether it was filled and sealed.
    pub(crate) fn queue_sealed(
        &mut self,
        session: SessionId,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> bool,
        now: Now,
    ) -> bool {
        let Some(peer) = self.link.peer(session) else { return false };
        let buffer = self.outgoing.push_with(peer.address, len);
        let sealed = fill(buffer) && self.link.seal(session, buffer, now.instant).is_ok();
        if !sealed {
            let last = self.outgoing.len() - 1;
            self.outgoing.drop_datagram(last);
        }
        sealed
    }

    /// Queues the bytes of a PDU for a session. Whether that could be.
    pub(crate) fn queue_pdu(&mut self, session: SessionId, pdu: &[u8], now: Now) -> bool {
        let fill = |buffer: &mut [u8]| {
            buffer[RecordHeader::LEN..][..pdu.len()].copy_from_slice(pdu);
            true
        };
        self.queue_sealed(session, pdu.len() + RECORD_OVERHEAD, fill, now)
    }

    /// The same for whoever used the session before its newest handshake. Whether that could be.
    pub(crate) fn queue_former(&mut self, session: SessionId, pdu: &[u8], now: Now) -> bool {
        let mut datagram = vec![0; pdu.len() + RECORD_OVERHEAD];
        datagram[RecordHeader::LEN..][..pdu.len()].copy_from_slice(pdu);
        let sealed = self.link.seal_former(session, &mut datagram, now.instant);
        if let Ok(address) = sealed {
            self.queue(address, &datagram);
        }
        sealed.is_ok()
    }

    /// An empty buffer for a PDU, to be given back.
    pub(crate) fn take_scratch(&mut self) -> Vec<u8> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch
    }

    pub(crate) fn give_back(&mut self, scratch: Vec<u8>) {
        self.scratch = scratch;
    }

    /// Appends what was queued, and what the link wants sent.
    pub(crate) fn poll_transmit(&mut self, out: &mut Batch) {
        self.link.poll_transmit(out);
        for (peer, datagram) in self.outgoing.iter() {
            out.push(peer, datagram);
        }
        self.outgoing.clear();
    }
}

// The other workers.
impl Plane {
    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Hands a record to the worker that has its lane; whether there is one.
    #[inline]
    pub(crate) fn hand_to_its_worker(&mut self, from: SocketAddr, datagram: &[u8]) -> bool {
        self.workers.are_several() && self.hand_over(from, datagram)
    }

    #[cold]
    fn hand_over(&mut self, from: SocketAddr, datagram: &[u8]) -> bool {
        let Some(worker) = self.link.worker_of(datagram) else { return false };
        if self.workers.has_room() {
            self.counters.handed_over += 1;
            self.order(worker, Told::Datagram { from, bytes: datagram.to_vec() });
        } else {
            self.drop_pdu(DropReason::HandOverFull);
        }
        true
    }

    /// Gives a worker a copy of a flow that it was asked to forward.
    pub(crate) fn lend_flow(&mut self, worker: usize, label: Label, next_label: Label) {
        let Some(flow) = self.flows.lend(label, worker) else { return };
        let copy = FlowCopy {
            label,
            ingress: flow.ingress,
            next: flow.next,
            next_label,
            until: flow.until,
            max_datagram_len: flow.max_datagram_len,
            as_of: flow.as_of,
            grounds: flow.grounds,
        };
        self.order(worker, Told::Flow(copy));
    }

    pub(crate) fn take_report(&mut self, worker: usize, report: Report) {
        self.link.take_report(&report.lanes);
        for label in &report.used {
            self.flows.mark_used(*label);
        }
        self.workers.note_report(worker, report);
    }

    pub(crate) fn poll_order(&mut self) -> Option<(usize, Order)> {
        self.workers.collect(&mut self.link, &mut self.flows);
        self.workers.poll()
    }

    fn order(&mut self, worker: usize, what: Told) {
        self.workers.collect(&mut self.link, &mut self.flows);
        self.workers.order(worker, what);
    }
}

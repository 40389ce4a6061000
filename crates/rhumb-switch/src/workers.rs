//! A switch and its other workers: what they tell each other, and the switch's side of it.
//!
//! 1. The switch is worker 0: it makes handshakes and
//!    decisions, and forwards what comes on its own lanes.
//! 2. Each other worker is a [`FastPath`]: it opens what comes on its lanes,
//!    forwards the labelled PDUs of flows it has a copy of, and hands everything
//!    else to the switch, opened ([`HandOver`]).
//! 3. The switch handles that as if it had opened it itself. When it forwards a labelled PDU by a
//!    known flow, the worker had no copy, and gets one ([`Order`]). So a copy is made where it is
//!    needed, and one that got lost is made again.
//! 4. A flow that changes is recalled from who has a copy; when something changes that flows rest
//!    on, a worker sees by itself, at its next batch, which of its copies stand.
//! 5. Once a second a worker reports what it used: sessions, which would seem silent, flows, which
//!    would make room for others, and its counters.
//!
//! Nothing that a worker reads for each packet is written by another.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rhumb_link::{Cipher, Drops, Endpoint, OpenedElsewhere};
use rhumb_trust::Now;
use rhumb_wire::pdu::Frame;

use crate::Switch;
use crate::counters::Counters;
use crate::fast_path::FastPath;
use crate::flows::{Flows, Ready};
use crate::hand_over::{HandOver, Handed, Order, Report, Told};
use crate::passes::is_sealed;
use crate::status::WorkerStatus;

/// The switch's other workers.
pub(crate) struct Workers {
    orders: VecDeque<(usize, Order)>,
    /// What each last reported; the first is worker 1.
    reported: Vec<(Counters, Drops)>,
    cipher: Cipher,
}

impl Workers {
    pub(crate) fn new(config: &rhumb_link::Config) -> Self {
        let others = usize::from(config.workers.saturating_sub(1));
        let reported = vec![Default::default(); others];
        Self { orders: VecDeque::new(), reported, cipher: config.cipher }
    }

    /// All of them, the switch among them.
    pub(crate) fn count(&self) -> usize {
        1 + self.reported.len()
    }

    #[inline]
    pub(crate) fn are_several(&self) -> bool {
        !self.reported.is_empty()
    }

    /// What all have done, `own` being the switch's.
    pub(crate) fn total(&self, own: &Counters) -> Counters {
        let mut total = *own;
        self.reported.iter().for_each(|(counters, _)| total.add_worker(counters));
        total
    }

    pub(crate) fn status(&self, own: &Counters) -> Vec<WorkerStatus> {
        let others = self.reported.iter().map(|(counters, _)| WorkerStatus::of(counters));
        std::iter::once(WorkerStatus::of(own)).chain(others).collect()
    }

    /// Datagrams that the links of the others dropped for `reason`.
    pub(crate) fn dropped(&self, reason: rhumb_link::DropReason) -> u64 {
        self.reported.iter().map(|(_, drops)| drops.of(reason)).sum()
    }

    /// Whether another datagram may wait for a worker.
    pub(crate) fn has_room(&self) -> bool {
        self.orders.len() < MAX_ORDERS
    }

    pub(crate) fn order(&mut self, worker: usize, what: Told) {
        self.orders.push_back((worker, Order(what)));
    }

    pub(crate) fn poll(&mut self) -> Option<(usize, Order)> {
        self.orders.pop_front()
    }

    /// What the link and the flows have to tell workers, in front of what is ordered from now on.
    pub(crate) fn collect(&mut self, link: &mut Endpoint, flows: &mut Flows) {
        while let Some((worker, update)) = link.poll_update() {
            self.order(worker, Told::Lanes(update));
        }
        for (label, copies) in flows.take_outdated() {
            for worker in (1..self.count()).filter(|worker| copies & (1 << worker) != 0) {
                self.order(worker, Told::Recall(label));
            }
        }
    }

    pub(crate) fn note_report(&mut self, worker: usize, report: Report) {
        if let Some(reported) = self.reported.get_mut(worker.wrapping_sub(1)) {
            *reported = (report.counters, report.drops);
        }
    }
}

impl Switch {
    /// The workers of this switch, itself among them: what its link's configuration says.
    pub fn workers(&self) -> usize {
        self.plane.workers().count()
    }

    /// Worker `worker`, 1 to [`Switch::workers`] - 1, for another thread. To be made once each,
    /// before any datagram is handled; from then on it has to be given its orders.
    pub fn fast_path(&self, worker: usize, now: Now) -> FastPath {
        let tables = self.routes.shared_tables();
        let (cipher, clock) = (self.plane.workers().cipher, self.routes.clock());
        FastPath::new(worker, self.workers(), cipher, (tables, clock), now)
    }

    /// What a worker has to be told next, and which. Orders must
    /// reach it in this order and none may be lost.
    pub fn poll_order(&mut self) -> Option<(usize, Order)> {
        self.plane.poll_order()
    }

    /// Takes what a worker handed over. What comes of it
    /// is to be sent by [`Switch::poll_transmit`].
    pub fn handle_hand_over(&mut self, handed: HandOver, now: Now) {
        let HandOver { worker, what } = handed;
        match what {
            Handed::Datagram { from, mut bytes } => {
                self.routes.begin(now.instant);
                if is_sealed(&bytes) {
                    if let Some(peer) = self.handle_record(from, &mut bytes, now) {
                        self.plane.queue(peer, &bytes);
                    }
                    self.handle_link_events(now);
                } else {
                    self.plane.handle_handshake(from, &bytes, now);
                    self.after_control(now);
                }
            }
            Handed::Opened { from, bytes, record } => {
                self.routes.begin(now.instant);
                self.take_opened(worker, from, bytes, &record, now);
                self.handle_link_events(now);
            }
            Handed::Report(report) => self.plane.take_report(worker, *report),
        }
    }

    fn take_opened(
        &mut self,
        worker: usize,
        from: SocketAddr,
        mut bytes: Vec<u8>,
        record: &OpenedElsewhere,
        now: Now,
    ) {
        let taken = self.plane.link_mut().take_opened(from, &bytes, record, now.instant);
        // The endpoint counts what it refuses.
        let Ok(opened) = taken else { return };
        let label = match Frame::parse(&bytes[opened.plaintext.clone()]) {
            Ok(Frame::Labelled(pdu)) => {
                let (is_open, about) = (|it| it == Ready::Open, (bytes.len(), self.routes.seen()));
                let known = self.plane.known_label(opened.session, &pdu, about, is_open);
                known.map(|(_, next_label)| (pdu.label(), next_label))
            }
            _ => None,
        };
        if let Some(peer) = self.forward_alone(opened, &mut bytes, now) {
            self.plane.queue(peer, &bytes);
        }
        if let Some((label, next_label)) = label {
            self.plane.lend_flow(worker, label, next_label);
        }
    }
}

/// Orders that wait when no more datagrams are handed to workers: 6 MB of them. Only where the
/// system does not steer datagrams, or joins those of several lanes, are there any.
const MAX_ORDERS: usize = 4096;

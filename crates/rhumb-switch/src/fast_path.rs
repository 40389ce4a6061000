//! The path of a known flow on a worker that is not the switch: the
//! least a thread needs to forward labelled PDUs.
//!
//! Per batch: one load, of the number of the latest change. Per datagram, by the three passes of
//! `passes`: 1. open, on a lane that is this worker's alone; 2. the label finds a copy of the flow
//! by one array access; TTL and label; 3. seal, on a lane that is this worker's alone. No lock, no
//! shared write, no allocation.
//!
//! Whatever is otherwise goes to the switch: see `workers`. The queue there is bounded, and what
//! finds no room is dropped and counted.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::{
    Cipher, Decrypted, Decryption, Drops, Opened, OpenedElsewhere, SessionId, Taken, WorkerLanes,
    read_ahead,
};
use rhumb_trust::Now;
use rhumb_wire::Batch;
use rhumb_wire::datagram::RecordHeader;
use rhumb_wire::pdu::{Frame, Label, relabel};

use crate::DropReason;
use crate::bundles::GROUP;
use crate::changes::{Grounds, Seen};
use crate::clock::{Clock, Moment};
use crate::counters::Counters;
use crate::flows::{NEAR_PLACES, Place, Sought, place_of};
use crate::hand_over::{FlowCopy, HandOver, Handed, Order, Report, Told};
use crate::passes::{Worker, fits, goes_on, is_sealed, pass_batch};
use crate::tables::Tables;

/// A worker of a switch.
pub struct FastPath {
    worker: usize,
    workers: usize,
    lanes: WorkerLanes,
    /// By the place that the switch has given each.
    flows: Vec<Option<LentFlow>>,
    tables: Arc<Tables>,
    /// The switch's.
    clock: Clock,
    /// The number of the latest change, as of this batch.
    latest: u64,
    /// The time of the batch.
    at: Moment,
    /// Where the next report begins to look for flows that were used.
    visited: usize,
    report_due: Instant,
    hand_overs: VecDeque<HandOver>,
    /// Datagrams among them.
    handed: usize,
    /// Records of unknown sessions that may still be handed over in this batch.
    strangers_left: usize,
    counters: Counters,
}

/// A flow as it is kept: one line of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct LentFlow {
    label: Label,
    ingress: SessionId,
    next: SessionId,
    next_label: Label,
    until: Moment,
    as_of: u64,
    grounds: Grounds,
    max_datagram_len: u16,
    /// Since the last report.
    used: bool,
}

impl FastPath {
    pub(crate) fn new(
        worker: usize,
        workers: usize,
        cipher: Cipher,
        (tables, clock): (Arc<Tables>, Clock),
        now: Now,
    ) -> Self {
        let latest = tables.changes().latest();
        Self {
            worker,
            workers,
            lanes: WorkerLanes::new(cipher),
            flows: Vec::new(),
            tables,
            clock,
            latest,
            at: clock.moment(now.instant),
            visited: 0,
            report_due: now.instant + REPORT_INTERVAL,
            hand_overs: VecDeque::with_capacity(MAX_HAND_OVERS + 1),
            handed: 0,
            strangers_left: 0,
            counters: Counters::default(),
        }
    }

    /// Turns received datagrams into datagrams to send: forwarded ones in their
    /// own slots, the rest handed to the switch, or dropped and counted. Bounded
    /// work per datagram; no public-key operation.
    pub fn handle_batch(&mut self, batch: &mut Batch, now: Now) {
        self.begin(now);
        self.strangers_left = MAX_STRANGERS_A_BATCH;
        pass_batch(self, batch, now);
    }

    /// Does what the switch says. What there is to send is appended.
    pub fn handle_order(&mut self, order: Order, out: &mut Batch, now: Now) {
        match order.0 {
            Told::Lanes(update) => self.lanes.update(update, now.instant),
            Told::Flow(copy) => self.keep(copy),
            Told::Recall(label) => {
                if let Some(flow) = self.flows.get_mut(place_of(label)) {
                    flow.take_if(|flow| flow.label == label);
                }
            }
            Told::Datagram { from, mut bytes } => {
                self.begin(now);
                if let Some(peer) = self.forward_alone(from, &mut bytes, now) {
                    out.push(peer, &bytes);
                }
            }
        }
    }

    /// What to give to [`Switch::handle_hand_over`](crate::Switch::handle_hand_over)
    /// next. None may be lost.
    pub fn poll_hand_over(&mut self) -> Option<HandOver> {
        let next = self.hand_overs.pop_front()?;
        self.handed -= usize::from(!next.is_report());
        Some(next)
    }

    /// When to call [`FastPath::handle_timeout`] at the latest.
    pub fn poll_timeout(&self) -> Instant {
        self.report_due
    }

    /// Makes the report that is due.
    pub fn handle_timeout(&mut self, now: Now) {
        if now.instant < self.report_due {
            return;
        }
        self.report_due = now.instant + REPORT_INTERVAL;
        let report = Report {
            lanes: self.lanes.report(now.instant),
            used: self.take_used(),
            counters: self.counters,
            drops: self.lanes.drops().clone(),
        };
        self.push(Handed::Report(Box::new(report)));
    }

    /// What this worker has done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What its links dropped.
    pub fn dropped_datagrams(&self) -> &Drops {
        self.lanes.drops()
    }

    /// Forwards a datagram that the switch sent here, and that goes nowhere else. Returns where it
    /// goes, as it then stands.
    fn forward_alone(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        now: Now,
    ) -> Option<SocketAddr> {
        if !is_sealed(datagram) {
            return None;
        }
        match self.lanes.open(from, datagram, now.instant).ok()? {
            Taken::Pdu(opened, record) if opened.is_bundle => {
                self.hand_over(from, datagram, Some(record));
                None
            }
            Taken::Pdu(opened, record) => {
                let next = self.look_up(from, datagram, (opened, record), Place::NOWHERE, now)?;
                self.seal(next, datagram, 1, now)
            }
            Taken::Rare(record) => {
                self.hand_over(from, datagram, Some(record));
                None
            }
            Taken::NotOurs => None,
        }
    }

    /// The next hop, and its label, of the flow that a PDU
    /// belongs to, if there is a copy that stands.
    #[inline]
    fn flow_for(
        &mut self,
        session: SessionId,
        pdu: &[u8],
        len: usize,
    ) -> Option<(SessionId, Label)> {
        let Ok(Frame::Labelled(pdu)) = Frame::parse(pdu) else { return None };
        if !goes_on(&pdu) {
            return None;
        }
        let seen = Seen { changes: self.tables.changes(), latest: self.latest, at: self.at };
        let flow = self.flows.get_mut(place_of(pdu.label()))?.as_mut()?;
        let stands = flow.label == pdu.label()
            && flow.ingress == session
            && seen.stands(&flow.grounds, &mut flow.as_of)
            && seen.at < flow.until
            && fits(len, flow.max_datagram_len);
        flow.used |= stands;
        stands.then_some((flow.next, flow.next_label))
    }

    /// Sees what time it is, and whether something has changed.
    #[inline]
    fn begin(&mut self, now: Now) {
        self.at = self.clock.moment(now.instant);
        self.latest = self.tables.changes().latest();
    }

    fn keep(&mut self, copy: FlowCopy) {
        if !self.lanes.can_send(copy.next) {
            return;
        }
        let place = place_of(copy.label);
        make_room(&mut self.flows, place);
        self.flows[place] = Some(LentFlow {
            label: copy.label,
            ingress: copy.ingress,
            next: copy.next,
            next_label: copy.next_label,
            until: copy.until,
            as_of: copy.as_of,
            grounds: copy.grounds,
            max_datagram_len: copy.max_datagram_len,
            used: true,
        });
    }

    /// Flows that were used since they were last asked about, among the next [`MAX_PASSED`] places.
    fn take_used(&mut self) -> Vec<Label> {
        let mut used = Vec::new();
        for _ in 0..MAX_PASSED.min(self.flows.len()) {
            self.visited = (self.visited + 1) % self.flows.len();
            let Some(flow) = &mut self.flows[self.visited] else { continue };
            if std::mem::take(&mut flow.used) {
                used.push(flow.label);
            }
        }
        used
    }

    /// Hands over a record that came on no lane of ours.
    #[cold]
    fn pass_on(&mut self, from: SocketAddr, datagram: &[u8]) {
        let lane = RecordHeader::parse(datagram).map_or(0, |header| header.index.lane());
        // Ours, but of no session that we have: it has just begun, or never
        // was. Strangers shall not crowd out others.
        if usize::from(lane) % self.workers == self.worker {
            let Some(left) = self.strangers_left.checked_sub(1) else {
                return self.counters.count_drop(DropReason::HandOverFull);
            };
            self.strangers_left = left;
        }
        self.hand_over(from, datagram, None);
    }

    #[cold]
    fn hand_over(&mut self, from: SocketAddr, datagram: &[u8], record: Option<OpenedElsewhere>) {
        if self.handed >= MAX_HAND_OVERS {
            return self.counters.count_drop(DropReason::HandOverFull);
        }
        self.handed += 1;
        self.counters.handed_over += 1;
        let bytes = datagram.to_vec();
        self.push(match record {
            Some(record) => Handed::Opened { from, bytes, record },
            None => Handed::Datagram { from, bytes },
        });
    }

    fn push(&mut self, what: Handed) {
        self.hand_overs.push_back(HandOver { worker: self.worker, what });
    }
}

impl Worker for FastPath {
    type Record = OpenedElsewhere;

    #[inline]
    fn decrypt(&self, batch: &mut Batch, slots: Range<usize>) -> Decrypted {
        self.lanes.decrypt(batch, slots)
    }

    #[inline(always)] // As Endpoint::open_decrypted.
    fn open(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        decryption: Decryption,
        now: Now,
    ) -> Option<(Opened, Self::Record)> {
        // The link counts what it refuses.
        match self.lanes.open_decrypted(from, datagram, decryption, now.instant).ok()? {
            Taken::Pdu(opened, record) => return Some((opened, record)),
            Taken::Rare(record) => self.hand_over(from, datagram, Some(record)),
            Taken::NotOurs => self.pass_on(from, datagram),
        }
        None
    }

    #[inline]
    fn are_keys_far(&self) -> bool {
        self.lanes.is_far()
    }

    #[inline]
    fn read_ahead_to_open(&self, datagram: &[u8]) {
        self.lanes.read_ahead_to_open(datagram);
    }

    #[inline]
    fn read_ahead_to_seal(&self, next: SessionId, len: usize) {
        self.lanes.read_ahead_to_seal(next, len);
    }

    #[inline]
    fn is_far(&self) -> bool {
        self.flows.len() > NEAR_PLACES
    }

    #[inline]
    fn seek(&self, frame: &Frame<'_>) -> Sought {
        if let Frame::Labelled(pdu) = frame
            && let Some(flow) = self.flows.get(place_of(pdu.label()))
        {
            read_ahead(flow);
        }
        Sought::Nothing
    }

    #[inline]
    fn find(&self, _: Sought) -> Place {
        Place::NOWHERE
    }

    /// Readies a PDU if it has a label whose flow is here, or hands it over.
    #[inline]
    fn look_up(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        (opened, record): (Opened, Self::Record),
        _likely: Place,
        _now: Now,
    ) -> Option<SessionId> {
        let (range, len) = (opened.plaintext, datagram.len());
        if range.is_empty() {
            return None;
        }
        let known = self.flow_for(opened.session, &datagram[range.clone()], len);
        let Some((next, next_label)) = known else {
            self.hand_over(from, datagram, Some(record));
            return None;
        };
        relabel(&mut datagram[range], next_label);
        Some(next)
    }

    #[inline]
    fn sends_bundles(&self) -> bool {
        self.lanes.sends_bundles()
    }

    #[inline]
    fn bundle_room(&self, next: SessionId) -> Option<usize> {
        self.lanes.bundle_room(next)
    }

    fn part(record: &Self::Record, plaintext_end: usize) -> Self::Record {
        record.part(plaintext_end)
    }

    fn drop_bundle(&mut self) {
        self.counters.count_drop(DropReason::MalformedPdu);
    }

    #[inline]
    fn seal_all(
        &mut self,
        batch: &mut Batch,
        slots: Range<usize>,
        next_hops: &[Option<SessionId>; GROUP],
        now: Now,
    ) {
        self.lanes.seal_all(batch, slots.clone(), next_hops, now.instant);
        self.counters.count_sealed_in(&batch.slots()[slots], next_hops);
    }

    #[inline]
    fn seal(
        &mut self,
        next: SessionId,
        datagram: &mut [u8],
        pdus: usize,
        now: Now,
    ) -> Option<SocketAddr> {
        let sealed = match pdus {
            1 => self.lanes.seal(next, datagram, now.instant),
            _ => self.lanes.seal_bundle(next, datagram, now.instant),
        };
        match sealed {
            Ok(peer) => {
                self.counters.count_sealed(datagram.len(), pdus);
                Some(peer)
            }
            Err(_) => {
                self.counters.count_drop(DropReason::NextHopGone);
                None
            }
        }
    }

    fn handle_other(&mut self, from: SocketAddr, datagram: &mut [u8], now: Now) -> bool {
        let is_handshake = !is_sealed(datagram);
        if is_handshake {
            self.hand_over(from, datagram, None);
        } else if let Some((_, record)) = self.open(from, datagram, Decryption::NONE, now) {
            self.hand_over(from, datagram, Some(record));
        }
        is_handshake
    }
}

/// Has a list reach to a place. It grows by an eighth
/// and not by twice, because every worker has one.
fn make_room<T: Copy>(places: &mut Vec<Option<T>>, place: usize) {
    let missing = (place + 1).saturating_sub(places.len());
    if places.capacity() <= place {
        places.reserve_exact(missing.max(places.len() / 8));
    }
    places.resize(places.len() + missing, None);
}

impl fmt::Debug for FastPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastPath").field("worker", &self.worker).finish_non_exhaustive()
    }
}

/// Datagrams that wait for the switch: 1.5 MB, and some milliseconds of its work.
pub const MAX_HAND_OVERS: usize = 1024;
/// Records of unknown sessions handed over from one batch. A session's
/// first records come one by one, and are repeated.
const MAX_STRANGERS_A_BATCH: usize = 8;
/// A fifth of the time after which an end sends a keep-alive, and a twentieth
/// of that after which a peer counts as silent.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// A tenth of a millisecond; a million places are passed in a minute.
const MAX_PASSED: usize = 1 << 14;

const _: () = assert!(size_of::<Option<LentFlow>>() == 64, "a flow is one line of the cache");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::Flows;

    #[test]
    fn three_workers_keep_an_idle_flow_below_512_bytes() {
        let mut places: Vec<Option<LentFlow>> = Vec::new();
        let mut most = 0;
        for place in 0..200_000 {
            make_room(&mut places, place);
            if place > 1000 {
                most = most.max(places.capacity() * size_of::<Option<LentFlow>>() / places.len());
            }
        }
        // Places come in no order.
        make_room(&mut places, 7);
        assert_eq!(places.len(), 200_000);
        let at_most = 64 + 64 / 8;
        assert!(most <= at_most, "{most}");
        let with = |others: usize| Flows::<SessionId>::MAX_BYTES_A_FLOW + others * at_most;
        assert!(with(2) < 512, "{}", with(2));
        assert!(with(3) > 512, "the documents say that it is three: {}", with(3));
    }
}

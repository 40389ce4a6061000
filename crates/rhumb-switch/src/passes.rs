//! The data plane: how every worker forwards, the switch itself and the others.
//!
//! Per batch: a group of sealed PDUs at a time, and in its turn what is none. A close ends a
//! session, so it is no part of a group: PDUs that came before it are passed on before it. The PDUs
//! of a bundle are a group of their own, which is opened already.
//!
//! Per group, three passes, so that the memory its flows and sessions stand in is waited for
//! together and not one after the other. 1. Open: the clear header finds the session, the replay
//! window is asked, the AEAD opens in place (all in `rhumb-link`); what the flows of a large table
//! stand in is read ahead, all of it at once. 2. Look up: the label finds the flow by one array
//! access, and names by one look-up; the TTL loses one, and the label becomes the next hop's. 3.
//! Seal: in place for the next session, and the slot is redirected; small ones for one session
//! together, if it takes bundles.
//!
//! What a worker does with a PDU of no known flow is its own: the switch takes the slow path during
//! the second pass, any other worker hands it to the switch.

use std::net::SocketAddr;
use std::ops::Range;

use rhumb_link::{Opened, SessionId};
use rhumb_trust::Now;
use rhumb_wire::bundle::{self, MAX_BUNDLED, MAX_PDUS};
use rhumb_wire::datagram::{RecordHeader, RecordKind};
use rhumb_wire::pdu::{Frame, LabelledPdu};
use rhumb_wire::{Action, Batch};

use crate::bundles::{GROUP, Plan, take_apart};
use crate::flows::{NAMES_TAKE, Place, Sought};

/// A worker, as the passes see it.
pub(crate) trait Worker {
    /// What a PDU that was opened needs besides, to be handed over.
    type Record;

    /// First pass: opens a sealed PDU in place. What is refused is counted; what is another
    /// worker's is handed over.
    fn open(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        now: Now,
    ) -> Option<(Opened, Self::Record)>;

    /// Whether look-ups wait for memory, so that reading ahead pays.
    fn is_far(&self) -> bool;

    /// What is looked up for a PDU.
    fn sought(&self, frame: &Frame<'_>) -> Sought;

    /// Reads ahead what is sought, and says where it is likely to be.
    fn touch(&self, all_sought: &[Sought], likely: &mut [Place]);

    /// Second pass: readies an opened PDU for its next hop, which is returned.
    fn look_up(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        opened: (Opened, Self::Record),
        likely: Place,
        now: Now,
    ) -> Option<SessionId>;

    /// After the second pass: handles what it has set aside.
    #[inline]
    fn handle_aside(
        &mut self,
        _batch: &mut Batch,
        _slots: Range<usize>,
        _next_hops: &mut [Option<SessionId>],
        _now: Now,
    ) {
    }

    /// Whether there was ever a next hop that takes bundles.
    fn sends_bundles(&self) -> bool;

    /// How large a datagram with a bundle may be; `None` when the peer does not take any.
    fn bundle_room(&self, next: SessionId) -> Option<usize>;

    /// What a PDU of a bundle needs besides, to be handed over in a datagram where it ends there.
    fn part(record: &Self::Record, plaintext_end: usize) -> Self::Record;

    /// What came as a bundle is none, and is dropped.
    fn drop_bundle(&mut self);

    /// Third pass: seals a PDU, or a bundle of so many, in place. Returns where it goes, as it
    /// then stands.
    fn seal(
        &mut self,
        next: SessionId,
        datagram: &mut [u8],
        pdus: usize,
        now: Now,
    ) -> Option<SocketAddr>;

    /// Handles a datagram that is no sealed PDU. Whether it was a handshake, or tried to be one.
    fn handle_other(&mut self, from: SocketAddr, datagram: &mut [u8], now: Now) -> bool;
}

/// Forwards a batch in its own slots; what does not go on is dropped from it. Whether there were
/// handshakes.
#[inline]
pub(crate) fn pass_batch<W: Worker>(worker: &mut W, batch: &mut Batch, now: Now) -> bool {
    let mut handshakes = false;
    let (mut slot, mut received) = (0, batch.len());
    while slot < received {
        let end = received.min(slot + GROUP);
        slot += pass_group(worker, batch, slot..end, now);
        if slot < end {
            let (from, datagram) = batch.datagram_mut(slot);
            if kind_of(datagram) == Some(RecordKind::Bundle) {
                let pdus = pass_bundle(worker, batch, slot, now);
                (slot, received) = (slot + pdus, received + pdus - 1);
                continue;
            }
            handshakes |= worker.handle_other(from, datagram, now);
            batch.drop_datagram(slot);
            slot += 1;
        }
    }
    handshakes
}

/// Forwards the PDUs of a bundle, which take its place. How many slots they are: one, if there is
/// nothing to forward.
fn pass_bundle<W: Worker>(worker: &mut W, batch: &mut Batch, slot: usize, now: Now) -> usize {
    let (from, datagram) = batch.datagram_mut(slot);
    let opened = worker.open(from, datagram, now).filter(|(opened, _)| opened.is_bundle);
    let Some((opened, record)) = opened else {
        batch.drop_datagram(slot);
        return 1;
    };
    let begin = opened.plaintext.start;
    let Ok(pdus) = bundle::pdus(&datagram[opened.plaintext]) else {
        worker.drop_bundle();
        batch.drop_datagram(slot);
        return 1;
    };
    let mut places = [const { 0..0 }; MAX_PDUS];
    let mut count = 0;
    for (place, pdu) in places.iter_mut().zip(pdus) {
        *place = begin + pdu.start..begin + pdu.end;
        count += 1;
    }
    take_apart(batch, slot, &places[..count]);
    let mut all_opened = [const { None }; GROUP];
    for (opened_part, pdu) in all_opened.iter_mut().zip(&places[..count]) {
        let plaintext = RecordHeader::LEN..RecordHeader::LEN + pdu.len();
        let record = W::part(&record, plaintext.end);
        let opened = Opened { session: opened.session, plaintext, is_bundle: false };
        *opened_part = Some((opened, record));
    }
    pass_opened(worker, batch, slot..slot + count, all_opened, now);
    count
}

/// Forwards the sealed PDUs of these slots, at most [`GROUP`], up to the first
/// datagram that is none. How many there were.
fn pass_group<W: Worker>(
    worker: &mut W,
    batch: &mut Batch,
    mut slots: Range<usize>,
    now: Now,
) -> usize {
    // Arrays of this call, not lent by the caller: 8 ns a datagram less.
    let mut all_opened = [const { None }; GROUP];
    for (slot, opened) in slots.clone().zip(&mut all_opened) {
        let (from, datagram) = batch.datagram_mut(slot);
        if kind_of(datagram) != Some(RecordKind::Pdu) {
            slots.end = slot;
            break;
        }
        *opened = worker.open(from, datagram, now);
    }
    let count = slots.len();
    pass_opened(worker, batch, slots, all_opened, now);
    count
}

/// The second pass and the third.
#[inline(always)] // Called in two places, of which one is hot.
fn pass_opened<W: Worker>(
    worker: &mut W,
    batch: &mut Batch,
    slots: Range<usize>,
    all_opened: [Option<(Opened, W::Record)>; GROUP],
    now: Now,
) {
    let mut next_hops = [None; GROUP];
    let mut likely = [Place::NOWHERE; GROUP];
    if worker.is_far() {
        read_ahead(worker, batch, slots.clone(), &all_opened, &mut likely);
    }
    let places = likely.into_iter().zip(&mut next_hops);
    for ((slot, opened), (likely, next)) in slots.clone().zip(all_opened).zip(places) {
        if let Some(opened) = opened {
            let (from, datagram) = batch.datagram_mut(slot);
            *next = worker.look_up(from, datagram, opened, likely, now);
        }
    }
    worker.handle_aside(batch, slots.clone(), &mut next_hops, now);
    if worker.sends_bundles()
        && let Some(plan) = plan_bundles(worker, batch, slots.clone(), &next_hops)
    {
        return seal_in_bundles(worker, batch, slots, (plan, next_hops), now);
    }
    for (slot, next) in slots.zip(next_hops) {
        match next.and_then(|next| worker.seal(next, batch.datagram_mut(slot).1, 1, now)) {
            Some(peer) => batch.redirect(slot, peer),
            None => batch.drop_datagram(slot),
        }
    }
}

/// Which of these PDUs leave together; `None` when none do.
fn plan_bundles<W: Worker>(
    worker: &W,
    batch: &Batch,
    slots: Range<usize>,
    next_hops: &[Option<SessionId>; GROUP],
) -> Option<Plan> {
    let mut plan = None;
    // Most PDUs go where the one before them went.
    let mut last = None;
    for (at, (slot, next)) in slots.zip(next_hops).enumerate() {
        let (Some(next), len) = (*next, batch.slots()[slot].len()) else { continue };
        if len > MAX_BUNDLED {
            plan.iter_mut().for_each(|plan: &mut Plan| plan.close(next));
            continue;
        }
        let room = match last {
            Some((known, room)) if known == next => room,
            _ => worker.bundle_room(next),
        };
        last = Some((next, room));
        if let Some(room) = room {
            plan.get_or_insert_with(Plan::new).add(at, next, len, room);
        }
    }
    plan.filter(|plan| !plan.is_empty())
}

/// The third pass, where some leave together.
fn seal_in_bundles<W: Worker>(
    worker: &mut W,
    batch: &mut Batch,
    slots: Range<usize>,
    (plan, next_hops): (Plan, [Option<SessionId>; GROUP]),
    now: Now,
) {
    let base = slots.start;
    for (slot, next) in slots.clone().zip(next_hops) {
        let at = slot - base;
        if plan.is_member(at) {
            continue;
        }
        let pdus = plan.gather(batch, base, at);
        match next.and_then(|next| worker.seal(next, batch.datagram_mut(slot).1, pdus, now)) {
            Some(peer) => batch.redirect(slot, peer),
            None => batch.drop_datagram(slot),
        }
    }
    // What is in a bundle stands in it now.
    slots.filter(|slot| plan.is_member(slot - base)).for_each(|slot| batch.drop_datagram(slot));
}

/// Has what the flows of these PDUs stand in read ahead.
fn read_ahead<W: Worker>(
    worker: &W,
    batch: &mut Batch,
    slots: Range<usize>,
    all_opened: &[Option<(Opened, W::Record)>; GROUP],
    likely: &mut [Place; GROUP],
) {
    let mut all_sought = [Sought::Nothing; GROUP];
    for ((slot, opened), sought) in slots.zip(all_opened).zip(&mut all_sought) {
        let Some((opened, _)) = opened else { continue };
        if let Ok(frame) = Frame::parse(&batch.datagram_mut(slot).1[opened.plaintext.clone()]) {
            *sought = worker.sought(&frame);
        }
    }
    worker.touch(&all_sought, likely);
}

/// Whether a PDU with a label goes on by its flow, if that stands.
#[inline]
pub(crate) fn goes_on(pdu: &LabelledPdu<'_>) -> bool {
    pdu.header().action != Action::Nack && pdu.ttl() > 1
}

/// Whether the datagram of a PDU with a label fits the next link, also with names: lest the flow
/// cannot go back to them.
#[inline]
pub(crate) fn fits(len: usize, max_datagram_len: u16) -> bool {
    len + NAMES_TAKE <= usize::from(max_datagram_len)
}

/// Whether a datagram is sealed.
pub(crate) fn is_sealed(datagram: &[u8]) -> bool {
    kind_of(datagram).is_some()
}

#[inline]
fn kind_of(datagram: &[u8]) -> Option<RecordKind> {
    datagram.first().and_then(|first| RecordKind::of(*first))
}

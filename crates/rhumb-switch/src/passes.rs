//! The data plane: how every worker forwards, the switch itself and the others.
//!
//! Per batch: a group of sealed PDUs at a time, and in its turn what is none. A close ends a
//! session, so it is no part of a group: PDUs that came before it are passed on before it. The PDUs
//! of a bundle are a group of their own, which is opened already; they stay in it if they all go on
//! to one next hop that takes it.
//!
//! Per group, three passes, so that the memory its flows and sessions stand in is waited for
//! together and not one after the other. 1. Open: the clear header finds the session, the replay
//! window is asked, the AEAD opens in place (all in `rhumb-link`). 2. Look up: the label finds the
//! flow by one array access, and names by one look-up; the TTL loses one, and the label becomes the
//! next hop's. 3. Seal: in place for the next session, and the slot is redirected; small ones for
//! one session together, if it takes bundles. Where there are many sessions or flows, the keys of a
//! group, or what its flows stand in, are read ahead of the pass that needs them.
//!
//! What a worker does with a PDU of no known flow is its own: the switch takes the slow path during
//! the second pass, any other worker hands it to the switch.

use std::net::SocketAddr;
use std::ops::Range;

use rhumb_link::{Decrypted, Decryption, Opened, SessionId};
use rhumb_trust::Now;
use rhumb_wire::bundle::{self, MAX_BUNDLED, MAX_PDUS};
use rhumb_wire::datagram::{AEAD_TAG_LEN, RecordHeader, RecordKind};
use rhumb_wire::pdu::{Frame, LabelledPdu};
use rhumb_wire::{Action, Batch};

use crate::border::is_stamped;
use crate::bundles::{GROUP, Plan, take_apart};
use crate::flows::{NAMES_TAKE, Place, Sought};

/// A worker, as the passes see it.
pub(crate) trait Worker {
    /// What a PDU that was opened needs besides, to be handed over.
    type Record;

    /// First pass: decrypts all of a group in place; each is to be opened then.
    fn decrypt(&self, batch: &mut Batch, slots: Range<usize>) -> Decrypted;

    /// First pass: opens a sealed PDU in place, which may be decrypted already. What is refused is
    /// counted; what is another worker's is handed over.
    fn open(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        decryption: Decryption,
        now: Now,
    ) -> Option<(Opened, Self::Record)>;

    /// Whether keys are waited for, so that reading them ahead pays.
    fn are_keys_far(&self) -> bool;

    /// Asks for the memory that opening this datagram needs.
    fn read_ahead_to_open(&self, datagram: &[u8]);

    /// Asks for the memory that sealing a datagram of this length needs.
    fn read_ahead_to_seal(&self, next: SessionId, len: usize);

    /// Whether look-ups wait for memory, so that reading ahead pays.
    fn is_far(&self) -> bool;

    /// What is looked up for a PDU. Asks for the memory that says where it is.
    fn seek(&self, frame: &Frame<'_>) -> Sought;

    /// Where what is sought is likely to be. Asks for the memory there.
    fn find(&self, sought: Sought) -> Place;

    /// Notes that the flows that are there stand, as far as that is easy to tell, where many are
    /// likely to ask.
    #[inline]
    fn confirm_all(&mut self, _places: &[Place]) {}

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

    /// Third pass: seals what stands in each of these slots for the next hop at its place, and
    /// redirects it; drops what has none, or is refused.
    fn seal_all(
        &mut self,
        batch: &mut Batch,
        slots: Range<usize>,
        next_hops: &[Option<SessionId>; GROUP],
        now: Now,
    );

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

/// Forwards the PDUs of a bundle: all in it where one next hop takes them so, otherwise each in a
/// slot of its own, in its place. How many slots it is then.
fn pass_bundle<W: Worker>(worker: &mut W, batch: &mut Batch, slot: usize, now: Now) -> usize {
    let (from, datagram) = batch.datagram_mut(slot);
    let opened =
        worker.open(from, datagram, Decryption::NONE, now).filter(|(opened, _)| opened.is_bundle);
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
    let (places, slots) = (&places[..count], slot..slot + count);
    let part = |pdu: &Range<usize>| {
        let plaintext = RecordHeader::LEN..RecordHeader::LEN + pdu.len();
        let record = W::part(&record, plaintext.end);
        (Opened { session: opened.session, plaintext, is_bundle: false }, record)
    };
    // What is stamped is set aside by its slot.
    if count == 1 || places.iter().any(|pdu| is_stamped(&datagram[pdu.clone()])) {
        let mut all_opened = [const { None }; GROUP];
        for (opened, pdu) in all_opened.iter_mut().zip(places) {
            *opened = Some(part(pdu));
        }
        take_apart(batch, slot, places);
        pass_opened(worker, batch, slots, all_opened, now);
        return count;
    }
    let mut next_hops = [None; GROUP];
    let mut likely = [Place::NOWHERE; GROUP];
    if worker.is_far() {
        read_ahead(worker, places.iter().map(|pdu| Some(&datagram[pdu.clone()])), &mut likely);
    }
    for ((pdu, likely), next) in places.iter().zip(likely).zip(&mut next_hops) {
        // With as much around it as it would have by itself; what stands there is others'.
        let alone = &mut datagram[pdu.start - RecordHeader::LEN..pdu.end + AEAD_TAG_LEN];
        *next = worker.look_up(from, alone, part(pdu), likely, now);
    }
    if let Some(next) = next_hops[0]
        && next_hops[..count].iter().all(|it| *it == Some(next))
        && worker.bundle_room(next).is_some_and(|room| datagram.len() <= room)
    {
        seal_slot(worker, batch, slot, (Some(next), count), now);
        return 1;
    }
    take_apart(batch, slot, places);
    seal_all(worker, batch, slots, next_hops, now);
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
    let is_sealed = |slot: &usize| kind_of(batch.datagram(*slot)) == Some(RecordKind::Pdu);
    slots.end = slots.clone().find(|slot| !is_sealed(slot)).unwrap_or(slots.end);
    if worker.are_keys_far() {
        slots.clone().for_each(|slot| worker.read_ahead_to_open(batch.datagram(slot)));
    }
    let mut decrypted = worker.decrypt(batch, slots.clone());
    // Arrays of this call, not lent by the caller: 8 ns a datagram less.
    let mut all_opened = [const { None }; GROUP];
    for (slot, opened) in slots.clone().zip(&mut all_opened) {
        let (from, datagram) = batch.datagram_mut(slot);
        *opened = worker.open(from, datagram, decrypted.next(), now);
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
        let pdus = slots.clone().zip(&all_opened).map(|(slot, opened)| {
            let (opened, _) = opened.as_ref()?;
            Some(&batch.datagram(slot)[opened.plaintext.clone()])
        });
        read_ahead(worker, pdus, &mut likely);
    }
    let places = likely.into_iter().zip(&mut next_hops);
    for ((slot, opened), (likely, next)) in slots.clone().zip(all_opened).zip(places) {
        if let Some(opened) = opened {
            let (from, datagram) = batch.datagram_mut(slot);
            *next = worker.look_up(from, datagram, opened, likely, now);
        }
    }
    worker.handle_aside(batch, slots.clone(), &mut next_hops, now);
    seal_all(worker, batch, slots, next_hops, now);
}

/// The third pass.
#[inline(always)] // As above.
fn seal_all<W: Worker>(
    worker: &mut W,
    batch: &mut Batch,
    slots: Range<usize>,
    next_hops: [Option<SessionId>; GROUP],
    now: Now,
) {
    if worker.are_keys_far() {
        for (slot, next) in batch.slots()[slots.clone()].iter().zip(&next_hops) {
            next.iter().for_each(|next| worker.read_ahead_to_seal(*next, slot.len()));
        }
    }
    if worker.sends_bundles()
        && let Some(plan) = plan_bundles(worker, batch, slots.clone(), &next_hops)
    {
        return seal_in_bundles(worker, batch, slots, (plan, next_hops), now);
    }
    worker.seal_all(batch, slots, &next_hops, now);
}

/// Seals what stands in a slot, a PDU or a bundle of so many, for its next hop, if there is one.
#[inline(always)] // As above.
fn seal_slot<W: Worker>(
    worker: &mut W,
    batch: &mut Batch,
    slot: usize,
    (next, pdus): (Option<SessionId>, usize),
    now: Now,
) {
    match next.and_then(|next| worker.seal(next, batch.datagram_mut(slot).1, pdus, now)) {
        Some(peer) => batch.redirect(slot, peer),
        None => batch.drop_datagram(slot),
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
        seal_slot(worker, batch, slot, (next, pdus), now);
    }
    // What is in a bundle stands in it now.
    slots.filter(|slot| plan.is_member(slot - base)).for_each(|slot| batch.drop_datagram(slot));
}

/// Reads ahead what the flows of these PDUs stand in: all that says where a flow is, then all
/// flows, then where changes are noted that end them. Asked for at once they are waited for
/// together; between other work it takes longer, since it is their addresses that take time to
/// translate.
#[inline]
fn read_ahead<'a, W: Worker>(
    worker: &mut W,
    pdus: impl Iterator<Item = Option<&'a [u8]>>,
    likely: &mut [Place; GROUP],
) {
    let mut all_sought = [Sought::Nothing; GROUP];
    for (pdu, sought) in pdus.zip(&mut all_sought) {
        if let Some(Ok(frame)) = pdu.map(Frame::parse) {
            *sought = worker.seek(&frame);
        }
    }
    for (sought, likely) in all_sought.iter().zip(&mut *likely) {
        *likely = worker.find(*sought);
    }
    worker.confirm_all(likely);
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

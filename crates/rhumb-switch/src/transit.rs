//! Stamped PDUs: what comes over the border of a trust
//! domain, and what is sent over that of another.
//!
//! From a foreign peer: 1. while a group is looked up, what is no PDU but stamped is set aside; 2.
//! what its header says of the PDU is compared with the PDU's names, or those that its label stands
//! for; 3. all that were set aside are verified together;
//! 4. what proved itself goes on as any PDU, in its slot, without its stamp. What is not stamped,
//!    and had to be, goes no further, and its source is told.
//!
//! To a peer that demands capabilities: PDUs are copied behind a
//! stamp, in place of being sealed in their slots.
//!
//! Flows over a border are marked ([`Ready::Guarded`]), so that the path of a known flow leaves
//! them to this file, and looks at nothing that it did not look at before.

use std::ops::Range;
use std::time::{Duration, Instant};

use rhumb_capability::{DropCounts, HeaderView, Packet, Verdict};
use rhumb_link::{Opened, SessionId};
use rhumb_trust::Now;
use rhumb_wire::datagram::{RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::nack::{CapabilityFault, Nack, Reason};
use rhumb_wire::pdu::{Frame, Label, LabelledHeader, LabelledPdu, decrement_ttl, relabel};
use rhumb_wire::{Action, Batch, Name, Pdu};

use crate::border::{Border, PDU_PROTOCOL, is_stamped, short_addresses, told};
use crate::budgets::Cost;
use crate::domain::Place;
use crate::event::Event;
use crate::flows::Ready;
use crate::stamps::Stamps;
use crate::{DropReason, Switch};

/// A stamped PDU that waits for the others of its group.
pub(crate) struct Aside {
    slot: usize,
    session: SessionId,
}

/// The border of this router's domain, and its way over those of others.
#[derive(Default)]
pub(crate) struct Transit {
    /// What is demanded of foreign peers.
    border: Option<Box<Border>>,
    /// What peers demand of us.
    stamps: Option<Box<Stamps>>,
    /// The trust domain that this router belongs to, if it was told of one.
    place: Option<Box<Place>>,
    /// When it was last told that a peer does not take what it got.
    told_at: Option<Instant>,
    /// Whether there are stamped PDUs in the present group; and those, as the verifier sees them.
    are_stamped: bool,
    aside: Vec<Aside>,
    packets: Vec<Packet>,
}

impl Transit {
    pub(crate) fn new(place: Option<Place>) -> Self {
        Self { place: place.map(Box::new), ..Self::default() }
    }

    /// The trust domain that this router belongs to, if it was told of one.
    pub(crate) fn place(&self) -> Option<&Place> {
        self.place.as_deref()
    }

    /// The same, to learn more of it.
    pub(crate) fn place_mut(&mut self) -> Option<&mut Place> {
        self.place.as_deref_mut()
    }

    /// Whether anything is demanded of foreign peers.
    pub(crate) fn demands(&self) -> bool {
        self.border.is_some()
    }

    /// Whether peers demand anything of us.
    pub(crate) fn is_demanded(&self) -> bool {
        self.stamps.is_some()
    }

    /// Whether there are stamped PDUs in the present group.
    #[inline]
    pub(crate) fn are_stamped(&self) -> bool {
        self.are_stamped
    }

    /// PDUs whose capability was refused, each reason with its count; none where nothing is
    /// demanded.
    pub(crate) fn refused(&self) -> Vec<(&'static str, u64)> {
        let drops = self.border.as_ref().map(|border| border.drops());
        drops.iter().flat_map(DropCounts::iter).map(|(why, count)| (why.name(), count)).collect()
    }

    /// Each peer that demands capabilities, and the last second in which there is one for it.
    pub(crate) fn peers(&self) -> impl Iterator<Item = (Name, Option<u64>)> {
        self.stamps.iter().flat_map(|stamps| stamps.peers())
    }

    fn stamps_for(&mut self, peer: &Name) -> Option<&mut Stamps> {
        self.stamps.as_deref_mut().filter(|stamps| stamps.are_for(peer))
    }
}

impl Switch {
    /// Demands capabilities of foreign peers from now on, or of none.
    pub fn set_border(&mut self, border: Option<Border>) {
        self.transit.border = border.map(Box::new);
        self.routes.all_changed();
    }

    /// What is demanded of foreign peers.
    pub fn border(&self) -> Option<&Border> {
        self.transit.border.as_deref()
    }

    /// The same, to be given keys and revocations.
    pub fn border_mut(&mut self) -> Option<&mut Border> {
        self.transit.border.as_deref_mut()
    }

    /// Has capabilities for peers that demand them, from now on.
    pub fn set_stamps(&mut self, stamps: Option<Stamps>) {
        self.transit.stamps = stamps.map(Box::new);
        self.routes.all_changed();
    }

    /// Whether a capability is demanded of a session's peer.
    pub(crate) fn is_foreign(&self, session: SessionId, now: Now) -> bool {
        let Some(border) = &self.transit.border else { return false };
        let is_outside = || self.transit.place.is_none() || self.is_outside(session, now);
        self.plane.peer(session).is_some_and(|peer| border.is_foreign(&peer.name, is_outside))
    }

    /// A session's peer may be a member no longer, or be one now: its flows are looked into again.
    pub(crate) fn demand_anew(&mut self, session: SessionId) {
        let of_domain = self.transit.border.as_ref().is_some_and(|border| border.is_of_domain());
        if let Some(peer) = self.plane.peer(session).filter(|_| of_domain) {
            self.routes.changed(&peer.name);
        }
    }

    /// Whether a session's peer demands capabilities.
    pub(crate) fn stamps_for(&self, session: SessionId) -> bool {
        let Some(stamps) = &self.transit.stamps else { return false };
        self.plane.peer(session).is_some_and(|peer| stamps.are_for(&peer.name))
    }

    /// The longest datagram that a session's peer takes, less what a stamp needs.
    pub(crate) fn room_to(&self, session: SessionId) -> Option<u16> {
        let peer = self.plane.peer(session)?;
        let stamp = self.transit.stamps.as_ref().map_or(0, |stamps| stamps.overhead(&peer.name));
        Some(peer.max_datagram_len.saturating_sub(u16::try_from(stamp).unwrap_or(u16::MAX)))
    }
}

/// What is to be done with a stamped PDU.
enum Seen {
    /// It goes no further.
    Refused,
    /// Nothing is demanded of its session's peer: so a
    /// peer may begin to stamp before it is asked to.
    Welcome,
    /// It is for the verifier.
    ToVerify(Packet),
}

// What comes stamped.
impl Switch {
    /// What was opened is no PDU. Returns its session, in place of a next
    /// hop, if it is stamped: it waits for its group.
    #[cold]
    pub(crate) fn handle_no_pdu(&mut self, session: SessionId, opened: &[u8]) -> Option<SessionId> {
        if !is_stamped(opened) {
            self.plane.drop_pdu(DropReason::MalformedPdu);
            return None;
        }
        self.transit.are_stamped = true;
        Some(session)
    }

    /// Handles the stamped PDUs of a group, in whose `next_hops` are their
    /// sessions. What goes on in its slot is noted there.
    #[cold]
    pub(crate) fn handle_stamped(
        &mut self,
        batch: &mut Batch,
        slots: Range<usize>,
        next_hops: &mut [Option<SessionId>],
        now: Now,
    ) {
        self.transit.are_stamped = false;
        let first = slots.start;
        let mut asides = std::mem::take(&mut self.transit.aside);
        for (slot, next) in slots.zip(&mut *next_hops) {
            // All else that has a next hop was found to be a PDU.
            let waits =
                |_: &mut SessionId| is_stamped(&batch.datagram_mut(slot).1[RecordHeader::LEN..]);
            asides.extend(next.take_if(waits).map(|session| Aside { slot, session }));
        }
        let mut packets = std::mem::take(&mut self.transit.packets);
        asides.retain(|Aside { slot, session }| {
            let range = plaintext(batch, *slot);
            let stamped = &batch.arena_mut()[range.clone()];
            match self.look_at(*session, stamped, range.start, now) {
                Seen::ToVerify(packet) => {
                    packets.push(packet);
                    return true;
                }
                Seen::Welcome => {
                    next_hops[*slot - first] = self.unwrap(*session, batch, *slot, now);
                }
                Seen::Refused => {}
            }
            false
        });
        if let Some(border) = &mut self.transit.border {
            let now_us = now.unix_ms * 1000;
            border.verifier_mut().verify_batch(batch.arena_mut(), &mut packets, now_us);
        }
        for (Aside { slot, session }, packet) in asides.drain(..).zip(packets.drain(..)) {
            let range = plaintext(batch, slot);
            match packet.verdict {
                Verdict::Forward(_) => {
                    // The verifier made an IPv6 header of the
                    // stamp, which ends where the PDU begins.
                    let pdu = packet.start + IPV6_HEADER_LEN..range.end;
                    next_hops[slot - first] = self.go_on(session, batch, slot, pdu, now);
                }
                Verdict::Drop(reason) => {
                    self.plane.drop_pdu(DropReason::CapabilityRefused);
                    if let (Some(told), Ok(header)) =
                        (told(reason), HeaderView::parse(&batch.arena_mut()[range]))
                    {
                        self.nack_stamped(session, header.payload(), told, now);
                    }
                }
                Verdict::Pending => {}
            }
        }
        (self.transit.aside, self.transit.packets) = (asides, packets);
    }

    /// Handles a stamped datagram that was opened and is in no batch.
    pub(crate) fn forward_stamped_alone(&mut self, opened: &Opened, datagram: &[u8], now: Now) {
        let Some(peer) = self.plane.peer(opened.session) else { return };
        let mut batch = Batch::new();
        batch.push(peer.address, datagram);
        let mut next_hops = [Some(opened.session)];
        self.handle_stamped(&mut batch, 0..1, &mut next_hops, now);
        let [Some(next)] = next_hops else { return };
        let datagram = batch.datagram_mut(0).1;
        if let Some(peer) = self.plane.seal(next, datagram, 1, now) {
            self.plane.queue(peer, datagram);
        }
    }

    /// What can be told of a stamped PDU, which stands at
    /// `start`, before its capability is looked at.
    fn look_at(&mut self, session: SessionId, stamped: &[u8], start: usize, now: Now) -> Seen {
        let is_foreign = self.is_foreign(session, now);
        let Ok(header) = HeaderView::parse(stamped) else {
            let Some(border) = self.transit.border.as_ref().filter(|_| is_foreign) else {
                self.plane.drop_pdu(DropReason::MalformedPdu);
                return Seen::Refused;
            };
            // It is the verifier that counts what is wrong with headers.
            return Seen::ToVerify(border.packet(start, stamped.len()));
        };
        let names = match Frame::parse(header.payload()) {
            Ok(Frame::Full(pdu)) if is_transit(pdu.action()) => *pdu.names(),
            Ok(Frame::Labelled(pdu)) if is_transit(pdu.header().action) => {
                match self.plane.flows().names_of(pdu.label(), session) {
                    Some(names) => *names,
                    None => {
                        self.nack_label(session, &pdu, now);
                        return Seen::Refused;
                    }
                }
            }
            _ => {
                self.plane.drop_pdu(DropReason::MalformedPdu);
                return Seen::Refused;
            }
        };
        let Some(border) = self.transit.border.as_mut().filter(|_| is_foreign) else {
            return Seen::Welcome;
        };
        match border.check(&header, &names) {
            Ok(()) => Seen::ToVerify(border.packet(start, stamped.len())),
            Err(reason) => {
                self.plane.drop_pdu(DropReason::CapabilityRefused);
                if let Some(told) = told(reason) {
                    self.nack_stamped(session, header.payload(), told, now);
                }
                Seen::Refused
            }
        }
    }

    /// Tells whoever sent a PDU that was behind a stamp why it goes no further.
    fn nack_stamped(&mut self, to: SessionId, pdu: &[u8], reason: Reason, now: Now) {
        match Frame::parse(pdu) {
            Ok(Frame::Full(pdu)) => self.nack(to, &pdu, reason, now),
            Ok(Frame::Labelled(pdu)) => self.nack_labelled(to, &pdu, reason, now),
            Err(_) => {}
        }
    }

    /// Takes the stamp off a PDU from which none is demanded.
    fn unwrap(
        &mut self,
        session: SessionId,
        batch: &mut Batch,
        slot: usize,
        now: Now,
    ) -> Option<SessionId> {
        let range = plaintext(batch, slot);
        let header = HeaderView::parse(&batch.arena_mut()[range.clone()]).ok()?;
        let at = range.start + header.header().len();
        self.go_on(session, batch, slot, at..range.end, now)
    }

    /// A PDU stands at `pdu` of the arena, and may go on as if it had come
    /// alone. Returns where to, if it goes in its slot.
    fn go_on(
        &mut self,
        session: SessionId,
        batch: &mut Batch,
        slot: usize,
        pdu: Range<usize>,
        now: Now,
    ) -> Option<SessionId> {
        batch.narrow(slot, pdu.start - RecordHeader::LEN..pdu.end + TAG_LEN);
        let len = pdu.len() + RECORD_OVERHEAD;
        let pdu = &mut batch.arena_mut()[pdu];
        match Frame::parse(pdu) {
            Ok(Frame::Labelled(labelled)) => {
                if !self.may_carry_labelled(session, &labelled, now) {
                    return None;
                }
                let about = (len, self.routes.seen());
                let is_ready = |it| !matches!(it, Ready::No | Ready::Several);
                let known = self.plane.known_label(session, &labelled, about, is_ready);
                match known {
                    Some((next, label)) if self.stamps_for(next) => {
                        self.send_on_labelled(next, &labelled, label, now);
                        None
                    }
                    Some((next, label)) => {
                        relabel(pdu, label);
                        Some(next)
                    }
                    None => {
                        self.carry_by_names(session, &labelled, now);
                        None
                    }
                }
            }
            Ok(Frame::Full(full)) => {
                let next = self.handle_full(session, &full, now)?;
                decrement_ttl(pdu);
                Some(next)
            }
            Err(_) => None,
        }
    }
}

// What comes from a foreign peer without a stamp, and had to have one.
impl Switch {
    /// Whether a PDU in full form lacks a stamp. If so, it is dropped, and its source told.
    pub(crate) fn lacks_stamp(&mut self, from: SessionId, pdu: &Pdu<'_>, now: Now) -> bool {
        let lacks = is_transit(pdu.action())
            && pdu.destination() != self.name()
            && self.is_foreign(from, now);
        if lacks {
            self.plane.drop_pdu(DropReason::Unstamped);
            self.nack(from, pdu, Reason::Capability(CapabilityFault::Missing), now);
        }
        lacks
    }

    /// The same of a PDU in labelled form that is no NACK.
    pub(crate) fn lacks_stamp_labelled(
        &mut self,
        from: SessionId,
        pdu: &LabelledPdu<'_>,
        now: Now,
    ) -> bool {
        let lacks = self.is_foreign(from, now);
        if lacks {
            self.plane.drop_pdu(DropReason::Unstamped);
            self.nack_labelled(from, pdu, Reason::Capability(CapabilityFault::Missing), now);
        }
        lacks
    }

    /// Whether a NACK from a foreign peer is within what may
    /// pass without a stamp; otherwise it is dropped.
    pub(crate) fn may_relay_nack(&mut self, from: SessionId, pdu: &Pdu<'_>, now: Now) -> bool {
        if !self.is_foreign(from, now) {
            return true;
        }
        let len = u32::try_from(pdu.as_bytes().len()).unwrap_or(u32::MAX);
        let may = self.may_cost(from, Cost::Relayed(len), now);
        if !may {
            self.plane.drop_pdu(DropReason::Overloaded);
        }
        may
    }
}

// What goes to a peer that demands stamps.
impl Switch {
    /// Sends a labelled PDU on, stamped, if its flow is known and that is
    /// what its next hop demands. Whether it did.
    pub(crate) fn pass_on_stamped(
        &mut self,
        from: SessionId,
        pdu: &LabelledPdu<'_>,
        now: Now,
    ) -> bool {
        let len = LabelledHeader::LEN + pdu.data().len() + RECORD_OVERHEAD;
        let (about, is_guarded) = ((len, self.routes.seen()), |it| it == Ready::Guarded);
        let known = self.plane.known_label(from, pdu, about, is_guarded);
        let Some((next, label)) = known.filter(|(next, _)| self.stamps_for(*next)) else {
            return false;
        };
        self.send_on_labelled(next, pdu, label, now);
        true
    }

    /// Sends a PDU in full form to the next hop, its TTL one less, if that demands a stamp.
    /// Otherwise it is the caller's to send.
    pub(crate) fn pass_on_full(
        &mut self,
        next: SessionId,
        pdu: &Pdu<'_>,
        now: Now,
    ) -> Option<SessionId> {
        if !self.stamps_for(next) {
            return Some(next);
        }
        let mut bytes = pdu.as_bytes().to_vec();
        decrement_ttl(&mut bytes);
        if self.send_bytes(next, &bytes, now) {
            self.plane.count_forwarded(bytes.len() + RECORD_OVERHEAD);
        }
        None
    }

    fn send_on_labelled(&mut self, next: SessionId, pdu: &LabelledPdu<'_>, label: Label, now: Now) {
        let Some(names) = self.plane.flows().names_of_label(pdu.label()).copied() else { return };
        let header = LabelledHeader { label, ttl: pdu.ttl() - 1, ..pdu.header() };
        let Ok(header) = header.emit_before(pdu.data()) else { return };
        if self.send_stamped(next, &names, [&header, pdu.data()], now) {
            self.plane.count_forwarded(header.len() + pdu.data().len() + RECORD_OVERHEAD);
        }
    }

    /// Whether a PDU in full form is to be stamped for `next`; and its names.
    pub(crate) fn is_to_be_stamped(&self, next: SessionId, pdu: &[u8]) -> Option<[u8; 64]> {
        if !self.stamps_for(next) {
            return None;
        }
        let Ok(Frame::Full(pdu)) = Frame::parse(pdu) else { return None };
        let peer = self.plane.peer(next)?;
        let is_for_others = is_transit(pdu.action()) && pdu.destination() != peer.name;
        is_for_others.then(|| *pdu.names())
    }

    /// Queues a PDU, in two parts, for a peer that demands a
    /// stamp. Whether it was; if not, that is counted.
    pub(crate) fn send_stamped(
        &mut self,
        next: SessionId,
        names: &[u8; 64],
        parts: [&[u8]; 2],
        now: Now,
    ) -> bool {
        let Self { plane, transit, .. } = self;
        let (Some(peer), Some(stamps)) = (plane.peer(next), &mut transit.stamps) else {
            return false;
        };
        let (peer, max_datagram_len) = (peer.name, usize::from(peer.max_datagram_len));
        let Some((stamper, ids)) = stamps.choose(&peer, names, now.unix_s()) else {
            plane.drop_pdu(DropReason::NoCapability);
            self.tell_capability(peer, CapabilityFault::Missing, now);
            return false;
        };
        let pdu_at = RecordHeader::LEN + stamper.headroom();
        let pdu = pdu_at..pdu_at + parts[0].len() + parts[1].len();
        let len = pdu.end + TAG_LEN;
        if len > max_datagram_len {
            plane.drop_pdu(DropReason::TooBig);
            return false;
        }
        let fill = |buffer: &mut [u8]| {
            let (head, rest) = buffer[pdu.clone()].split_at_mut(parts[0].len());
            head.copy_from_slice(parts[0]);
            rest.copy_from_slice(parts[1]);
            let (addresses, now_us) = (short_addresses(names), now.unix_ms * 1000);
            stamper.stamp_payload(buffer, pdu, addresses, PDU_PROTOCOL, ids, now_us).is_ok()
        };
        let sealed = plane.queue_sealed(next, len, fill, now);
        if !sealed {
            plane.drop_pdu(DropReason::NextHopGone);
        }
        sealed
    }

    /// Whether there is a capability to stamp a PDU with, if the next hop demands one.
    pub(crate) fn has_capability(&mut self, next: SessionId, pdu: &Pdu<'_>, now: Now) -> bool {
        let Some(peer) = self.plane.peer(next).map(|peer| peer.name) else { return true };
        let Some(stamps) = self.transit.stamps_for(&peer) else { return true };
        let has = stamps.choose(&peer, pdu.names(), now.unix_s()).is_some();
        if !has {
            self.tell_capability(peer, CapabilityFault::Missing, now);
        }
        has
    }

    /// A router on the way demands a capability. If it is our next
    /// hop, whoever runs this router has to know.
    pub(crate) fn note_capability_nack(&mut self, from: SessionId, nack: &Nack, now: Now) {
        let Reason::Capability(fault) = nack.reason else { return };
        let Some(peer) = self.plane.peer(from).map(|peer| peer.name) else { return };
        if nack.reporter.is_none_or(|reporter| reporter == peer) {
            self.tell_capability(peer, fault, now);
        }
    }

    pub(crate) fn tell_capability(&mut self, peer: Name, fault: CapabilityFault, now: Now) {
        let told_at = &mut self.transit.told_at;
        if told_at.is_none_or(|at| now.instant >= at + TELL_AGAIN_AFTER) {
            *told_at = Some(now.instant);
            self.plane.tell(Event::CapabilityRefused { peer, fault });
        }
    }
}

/// Whether PDUs of an action are transit, when they are for others: what carries what somebody
/// likes. The rest is between routers, or about a PDU that they carried.
fn is_transit(action: Action) -> bool {
    matches!(action, Action::Data | Action::Ping | Action::Pong)
}

/// Where in the arena what was opened in a slot stands.
fn plaintext(batch: &Batch, slot: usize) -> Range<usize> {
    let Range { start, end } = batch.range(slot);
    start + RecordHeader::LEN..end - TAG_LEN
}

/// Of a record: it has room behind what is sealed.
const TAG_LEN: usize = RECORD_OVERHEAD - RecordHeader::LEN;
/// What the verifier makes again before what was stamped.
const IPV6_HEADER_LEN: usize = 40;
/// Whoever reads the log needs to know once.
const TELL_AGAIN_AFTER: Duration = Duration::from_secs(10);

//! Bundles: what comes in together is taken apart, and what goes on to one next hop together shares
//! a sealed datagram again (`docs/spec.md`, section 4.8).
//!
//! Only what is in one batch anyway: nothing waits for a bundle to be full. The PDUs for one next
//! hop keep their order: a bundle stands where the first of its PDUs stood, and one that does not
//! fit, or is too long to be worth it, ends the bundle before it.
//!
//! Work: for each PDU a step for each of a few open bundles, and one copy of its bytes.

use std::ops::Range;

use rhumb_link::SessionId;
use rhumb_wire::Batch;
use rhumb_wire::bundle::{LENGTH_LEN, MAX_PDUS};
use rhumb_wire::datagram::{AEAD_TAG_LEN, RECORD_OVERHEAD, RecordHeader};

/// Which of the slots of a group share a datagram.
pub(crate) struct Plan {
    /// By place in the group.
    places: [Place; GROUP],
    open: [Option<Open>; OPEN],
    /// Which of `open` gives way next.
    oldest: usize,
    is_empty: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Alone,
    /// The first of a bundle, and the one that follows it.
    First(u8),
    /// Another one, and what follows it: itself, if it is the last.
    Member(u8),
}

/// A bundle that more may join.
#[derive(Clone, Copy)]
struct Open {
    next: SessionId,
    last: u8,
    count: usize,
    /// Of the datagram, if it ends here.
    len: usize,
}

impl Plan {
    pub(crate) fn new() -> Self {
        Self { places: [Place::Alone; GROUP], open: [None; OPEN], oldest: 0, is_empty: true }
    }

    /// A PDU goes to a next hop that takes bundles in datagrams of at most `room` bytes, in the
    /// datagram of `len` bytes that would carry it alone.
    pub(crate) fn add(&mut self, at: usize, next: SessionId, len: usize, room: usize) {
        let (at, takes) = (at as u8, len - RECORD_OVERHEAD + LENGTH_LEN);
        let known = self.open.iter().position(|it| it.is_some_and(|open| open.next == next));
        if let Some(Some(open)) = known.map(|known| &mut self.open[known])
            && open.len + takes <= room
            && open.count < MAX_PDUS
        {
            let last = usize::from(std::mem::replace(&mut open.last, at));
            self.places[last] = match self.places[last] {
                Place::Alone => Place::First(at),
                Place::First(_) | Place::Member(_) => Place::Member(at),
            };
            self.places[usize::from(at)] = Place::Member(at);
            (open.len, open.count) = (open.len + takes, open.count + 1);
            self.is_empty = false;
            return;
        }
        let opened = Open { next, last: at, count: 1, len: len + LENGTH_LEN };
        let place = known.unwrap_or_else(|| {
            let place = self.oldest;
            self.oldest = (place + 1) % OPEN;
            place
        });
        self.open[place] = Some(opened);
    }

    /// A PDU goes to this next hop by itself: nothing joins what goes before it.
    pub(crate) fn close(&mut self, next: SessionId) {
        for open in &mut self.open {
            open.take_if(|open| open.next == next);
        }
    }

    /// Whether no two PDUs go together.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Whether a PDU is in the bundle of one before it.
    pub(crate) fn is_member(&self, at: usize) -> bool {
        matches!(self.places[at], Place::Member(_))
    }

    /// Puts together the bundle that begins in this place of a group whose first slot is `base`.
    /// How many PDUs leave with this one, itself included.
    pub(crate) fn gather(&self, batch: &mut Batch, base: usize, at: usize) -> usize {
        let Place::First(second) = self.places[at] else { return 1 };
        let members = || {
            let on = |at: &u8| match self.places[usize::from(*at)] {
                Place::Member(next) if next != *at => Some(next),
                _ => None,
            };
            std::iter::once(at).chain(std::iter::successors(Some(second), on).map(usize::from))
        };
        let pdu_of = |batch: &Batch, at: usize| {
            let whole = batch.range(base + at);
            whole.start + RecordHeader::LEN..whole.end - AEAD_TAG_LEN
        };
        let first = pdu_of(batch, at);
        let pdus = members().map(|at| pdu_of(batch, at).len() + LENGTH_LEN).sum::<usize>();
        let whole = batch.replace(base + at, pdus + RECORD_OVERHEAD);
        let mut to = whole.start + RecordHeader::LEN;
        for member in members() {
            let pdu = if member == at { first.clone() } else { pdu_of(batch, member) };
            let arena = batch.arena_mut();
            arena[to..to + LENGTH_LEN].copy_from_slice(&(pdu.len() as u16).to_be_bytes());
            arena.copy_within(pdu.clone(), to + LENGTH_LEN);
            to += LENGTH_LEN + pdu.len();
        }
        members().count()
    }
}

/// Puts the PDUs of a bundle, which stand in these ranges of the datagram in a slot, each into a
/// datagram of its own with room for a seal, in its place.
pub(crate) fn take_apart(batch: &mut Batch, slot: usize, pdus: &[Range<usize>]) {
    let at = batch.range(slot).start;
    batch.split(slot, pdus.len());
    for (slot, pdu) in (slot..).zip(pdus) {
        let to = batch.replace(slot, pdu.len() + RECORD_OVERHEAD);
        let from = at + pdu.start..at + pdu.end;
        batch.arena_mut().copy_within(from, to.start + RecordHeader::LEN);
    }
}

/// Datagrams that take each pass together: as many as one batch of messages brings, and of the
/// usual size no more than half a second-level cache holds.
pub(crate) const GROUP: usize = 64;
/// Next hops that bundles of one group are open for. To more of them at once, what goes in turns
/// goes by itself.
const OPEN: usize = 8;

const _: () = assert!(GROUP <= MAX_PDUS && GROUP < 256, "places are bytes");

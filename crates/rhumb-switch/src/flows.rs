//! The flow table: what is remembered of a flow, found by its names or by the label we gave it.
//!
//! A label is a place in the table and a tag that changes whenever the place is used
//! again, so a labelled PDU costs one index and one comparison, and labels of former flows
//! find nothing. What every PDU needs of a flow fills one line of the processor's cache, and its
//! names the next; what seldom matters is kept apart. Where there are many flows, all that a group
//! of PDUs needs is asked for before any is looked up: [`Flows::seek`], then [`Flows::find`].
//! The table is bounded; which flow has to go when it is full is decided in `eviction`.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::RandomState;
use hashbrown::HashMap;
use rhumb_directory::{Eviction, Fill};
use rhumb_link::{SessionId, read_ahead};
use rhumb_trust::Now;
use rhumb_wire::pdu::{Frame, Label, LabelledHeader};
use rhumb_wire::{Name, PduHeader};

use crate::LISTED;
use crate::changes::{Grounds, Seen};
use crate::clock::Moment;
use crate::index::Index;

/// All flows of a worker.
pub(crate) struct Flows<S = SessionId> {
    places: Vec<Held<S>>,
    /// When the chain of each last went ahead, so that a burst of PDUs sends it once: the last bits
    /// of Unix milliseconds. Seldom needed, so it is not kept with them.
    chains_ahead_ms: Vec<u32>,
    by_names: Index,
    /// Flows by the label that the next hop gave: asked only when
    /// the next hop says that it does not know it.
    by_next_label: HashMap<(S, Label), u32, RandomState>,
    eviction: Eviction,
    /// Where the next visit begins.
    visited: usize,
    hasher: RandomState,
    bound: usize,
    /// The last ones made, the newest first.
    made: VecDeque<u32>,
    /// Flows that other workers have copies of, and that are otherwise by
    /// now: the label, and a bit for each worker.
    outdated: Vec<(Label, u8)>,
}

/// What the next PDU of a flow needs: one line of the
/// cache, and all that a labelled PDU touches here.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Flow<S = SessionId> {
    pub(crate) ingress: S,
    pub(crate) next: S,
    /// What the next hop wants in place of the names.
    pub(crate) next_label: NextLabel,
    pub(crate) until: Moment,
    /// The number of a change up to which nothing that the
    /// flow rests on has changed since it was made.
    pub(crate) as_of: u64,
    /// Where changes are noted that end it.
    pub(crate) grounds: Grounds,
    /// When the previous hop was last told the label.
    pub(crate) label_told: LabelTold,
    /// The longest datagram the next hop takes.
    pub(crate) max_datagram_len: u16,
    pub(crate) ready: Ready,
    /// The table's own.
    pub(crate) marks: Marks,
}

/// Whether the next hop takes a flow's PDUs without certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// Not yet.
    No,
    /// Yes, as they are.
    Open,
    /// Yes, but the flow crosses the border of a trust domain: its PDUs are for `transit`.
    Guarded,
    /// Yes, but its PDUs count against a rate that a trust domain set: see `members`.
    Metered,
    /// Its PDUs go several ways, each of its own: see `spread`.
    Several,
}

/// What the table notes of a flow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Marks {
    tag: u8,
    /// A bit for each of those who ask whether it was used since they last did.
    used: u8,
    /// A bit for each other worker that has a copy.
    copies: u8,
}

/// When a label was told: the last bits of Unix time in units of some milliseconds, which take
/// little room. What was told nine minutes ago looks as if it was told just now, for a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LabelTold(u16);

impl LabelTold {
    #[inline]
    pub(crate) fn at(now: Now) -> Self {
        Self((now.unix_ms / TOLD_UNIT_MS) as u16)
    }

    /// Whether less than [`TELL_LABEL_AGAIN_MS`] ago. A clock that is set counts as a long time.
    #[inline]
    pub(crate) fn is_lately(self, now: Now) -> bool {
        let since = Self::at(now).0.wrapping_sub(self.0);
        u64::from(since.min(since.wrapping_neg())) < TELL_LABEL_AGAIN_MS / TOLD_UNIT_MS
    }
}

/// Source and destination, as they stand in a PDU: one line of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Names([u8; 64]);

/// A flow and its names, side by side: two lines of the cache, and one address to translate, which
/// takes longer than to read a line.
#[derive(Clone, Copy)]
#[repr(align(128))]
struct Held<S> {
    flow: Flow<S>,
    names: Names,
}

/// What is known of the label that a next hop gives a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextLabel {
    /// It gave none yet.
    None,
    /// It takes this one in place of the names.
    Given(Label),
    /// It gave this one, and said that it knows it no more. Kept, so that
    /// every PDU that was under way can be answered.
    Lapsed(Label),
}

/// What is looked up next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sought {
    Label(Label),
    /// A hash of names.
    Hash(u32),
    Nothing,
}

/// Where a flow is likely to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place(u32);

impl Place {
    pub(crate) const NOWHERE: Self = Self(u32::MAX);
}

impl Marks {
    /// Whether it was used since this was asked last, by who has this bit.
    fn take_used(&mut self, bit: u8) -> bool {
        let was_used = self.used & bit != 0;
        self.used &= !bit;
        was_used
    }
}

impl<S: Copy + Eq> Flow<S> {
    /// Whether the flow, which stands, is for PDUs that come in on `session`.
    #[inline]
    pub(crate) fn is_current(&self, session: S, now: Moment) -> bool {
        self.ingress == session && now < self.until
    }

    /// When `session` was told the label, if that is the previous hop and was told it lately.
    pub(crate) fn told_lately(&self, session: S, now: Now) -> Option<LabelTold> {
        let told = self.ingress == session && self.label_told.is_lately(now);
        told.then_some(self.label_told)
    }
}

impl<S: Copy + Eq + Hash> Flows<S> {
    /// Lists may have twice the room they need; the index of labels is at least 7/16 full, with a
    /// byte of its own for each place.
    #[cfg(test)]
    pub(crate) const MAX_BYTES_A_FLOW: usize = 2
        * (size_of::<Held<S>>() + size_of::<u32>() + Eviction::BYTES_A_PLACE)
        + Index::MAX_BYTES_A_PLACE
        + (size_of::<((S, Label), u32)>() + 1) * 16 / 7;

    /// A table of at most `bound` flows.
    pub(crate) fn new(bound: usize) -> Self {
        let hasher = RandomState::default();
        let bound = bound.clamp(1, MAX_PLACES);
        Self {
            places: Vec::new(),
            chains_ahead_ms: Vec::new(),
            by_names: Index::new(),
            by_next_label: HashMap::with_hasher(hasher.clone()),
            eviction: Eviction::new(bound),
            visited: 0,
            hasher,
            bound,
            made: VecDeque::new(),
            outdated: Vec::new(),
        }
    }

    pub(crate) fn fill(&self) -> Fill {
        Fill { used: self.places.len(), bound: self.bound }
    }

    /// Up to `count` flows that were made lately, the newest first, with their names, and whether
    /// they stand. No more than [`LISTED`].
    pub(crate) fn newest<'a>(
        &'a self,
        count: usize,
        seen: Seen<'a>,
    ) -> impl Iterator<Item = (&'a Flow<S>, &'a [u8; 64], bool)> {
        let places = self.made.iter().take(count).map(|index| *index as usize);
        places.map(move |index| {
            let Held { flow, names } = &self.places[index];
            let stands = seen.changes.are_older(&flow.grounds, flow.as_of);
            (flow, &names.0, stands)
        })
    }

    /// The flow of these names, if it stands, and marks it as used. `likely` is where
    /// [`Flows::find`] found that it may be.
    #[inline]
    pub(crate) fn by_names(
        &mut self,
        names: &[u8; 64],
        likely: Place,
        seen: Seen<'_>,
    ) -> Option<&Flow<S>> {
        let index = match self.places.get(likely.0 as usize) {
            Some(its) if its.names.0 == *names => likely.0 as usize,
            _ => self.index_of(names)? as usize,
        };
        let flow = &mut self.places[index].flow;
        flow.marks.used = USED;
        let stands = seen.stands(&flow.grounds, &mut flow.as_of);
        stands.then_some(flow)
    }

    /// Whether the table is larger than what of the cache it can
    /// count on, so that look-ups wait for memory.
    #[inline]
    pub(crate) fn is_far(&self) -> bool {
        self.places.len() > NEAR_PLACES
    }

    /// What [`Flows::find`] is to look for. Asks for the memory that says where it is.
    #[inline]
    pub(crate) fn seek(&self, frame: &Frame<'_>) -> Sought {
        match frame {
            Frame::Labelled(pdu) => Sought::Label(pdu.label()),
            Frame::Full(pdu) => {
                let hash = hash_of(&self.hasher, pdu.names());
                self.by_names.read_ahead(hash);
                Sought::Hash(hash)
            }
        }
    }

    /// Where a flow is likely to be. Asks for its memory.
    #[inline]
    pub(crate) fn find(&self, sought: Sought) -> Place {
        match sought {
            Sought::Label(label) => {
                let place = place_of(label);
                self.places.get(place).iter().for_each(|held| read_ahead(&held.flow));
                Place(place as u32)
            }
            Sought::Hash(hash) => {
                // Whatever has the bits of the hash that the index keeps: to ask whether it is the
                // one is to wait for its names.
                let place = self.by_names.find(hash, |_| true).unwrap_or(Place::NOWHERE.0);
                self.places.get(place as usize).iter().for_each(|held| read_ahead(*held));
                Place(place)
            }
            Sought::Nothing => Place::NOWHERE,
        }
    }

    /// Notes that the flow that is there stands, if that is easy to tell.
    #[inline]
    pub(crate) fn confirm(&mut self, place: Place, seen: Seen<'_>) {
        if let Some(Held { flow, .. }) = self.places.get_mut(place.0 as usize) {
            seen.confirm(&flow.grounds, &mut flow.as_of);
        }
    }

    /// The flow of these names, without marking it as used.
    pub(crate) fn peek(&self, names: &[u8; 64]) -> Option<&Flow<S>> {
        Some(&self.places[self.index_of(names)? as usize].flow)
    }

    /// The flow that we gave this label, if it stands, and marks it as used.
    #[inline]
    pub(crate) fn by_label(&mut self, wanted: Label, seen: Seen<'_>) -> Option<&Flow<S>> {
        let index = wanted.0 & PLACE_MASK;
        let flow = &mut self.places.get_mut(index as usize)?.flow;
        if label(index, flow.marks.tag) != wanted {
            return None;
        }
        flow.marks.used = USED;
        let stands = seen.stands(&flow.grounds, &mut flow.as_of);
        stands.then_some(flow)
    }

    /// Marks the flow that we gave this label as used, by another worker.
    pub(crate) fn mark_used(&mut self, wanted: Label) {
        let index = wanted.0 & PLACE_MASK;
        if let Some(Held { flow, .. }) = self.places.get_mut(index as usize)
            && label(index, flow.marks.tag) == wanted
        {
            flow.marks.used = USED;
        }
    }

    /// The names of the flow that we gave this label, if it comes in on `session`.
    pub(crate) fn names_of(&self, wanted: Label, session: S) -> Option<&[u8; 64]> {
        let index = wanted.0 & PLACE_MASK;
        let Held { flow, names } = self.places.get(index as usize)?;
        let is_it = label(index, flow.marks.tag) == wanted && flow.ingress == session;
        is_it.then_some(&names.0)
    }

    /// The names of the flow that we gave this label, whichever session it comes in on.
    pub(crate) fn names_of_label(&self, wanted: Label) -> Option<&[u8; 64]> {
        let index = wanted.0 & PLACE_MASK;
        let Held { flow, names } = self.places.get(index as usize)?;
        (label(index, flow.marks.tag) == wanted).then_some(&names.0)
    }

    /// Remembers a flow. It keeps its place and its label, unless
    /// it comes in on another session than before.
    pub(crate) fn insert(&mut self, flow: Flow<S>, names: &[u8; 64]) -> Label {
        let known = self.index_of(names);
        let index = known.unwrap_or_else(|| self.place_for(&flow, names));
        self.recall(index);
        let place = &mut self.places[index as usize].flow;
        let before = *place;
        *place = Flow { marks: before.marks, ..flow };
        let marks = &mut place.marks;
        if before.ingress != flow.ingress {
            marks.tag = marks.tag.wrapping_add(1);
        }
        // What is new counts as used from its next PDU on.
        if known.is_some() {
            marks.used |= SINCE_EVICTION;
        }
        let label = label(index, marks.tag);
        if before.next != flow.next || flow.next_label == NextLabel::None {
            self.forget_next_label(index, &before);
            self.places[index as usize].flow.next_label = NextLabel::None;
        }
        label
    }

    /// Whether the chain of a flow has not gone ahead
    /// within `interval_ms`; noted as gone now, if so.
    pub(crate) fn may_send_ahead(&mut self, names: &[u8; 64], interval_ms: u32, now: Now) -> bool {
        let Some(index) = self.index_of(names) else { return true };
        let chain_ahead_ms = &mut self.chains_ahead_ms[index as usize];
        let now_ms = now.unix_ms as u32;
        let may = now_ms.wrapping_sub(*chain_ahead_ms) >= interval_ms;
        if may {
            *chain_ahead_ms = now_ms;
        }
        may
    }

    /// The next hop of a flow wants to see its chain again.
    pub(crate) fn end_acceptance(&mut self, names: &[u8; 64]) {
        if let Some(index) = self.index_of(names) {
            self.recall(index);
            self.places[index as usize].flow.ready = Ready::No;
        }
    }

    /// Notes the label that the next hop gave. Whether there is such a flow with that next hop.
    pub(crate) fn set_next_label(&mut self, names: &[u8; 64], next: S, label: Label) -> bool {
        let Some(index) = self.index_of(names) else { return false };
        let before = self.places[index as usize].flow;
        if before.next != next {
            return false;
        }
        self.recall(index);
        self.forget_next_label(index, &before);
        self.places[index as usize].flow.next_label = NextLabel::Given(label);
        self.by_next_label.insert((next, label), index);
        true
    }

    /// The next hop does not know this label any more: the flow it was for goes
    /// back to names. Its previous hop, and names.
    pub(crate) fn lapse_next_label(&mut self, next: S, label: Label) -> Option<(S, &[u8; 64])> {
        let index = *self.by_next_label.get(&(next, label))? as usize;
        self.recall(index as u32);
        let Held { flow, names } = &mut self.places[index];
        flow.next_label = NextLabel::Lapsed(label);
        Some((flow.ingress, &names.0))
    }

    /// Visits those that were used since they were last visited, among the
    /// next [`MAX_PASSED`] places, at most `most`.
    pub(crate) fn visit_active(&mut self, most: usize, mut visit: impl FnMut(&Flow<S>, &[u8; 64])) {
        let mut visits = 0;
        for _ in 0..MAX_PASSED.min(self.places.len()) {
            self.visited = (self.visited + 1) % self.places.len();
            let Held { flow, names } = &mut self.places[self.visited];
            if flow.marks.take_used(SINCE_VISIT) {
                visit(flow, &names.0);
                visits += 1;
                if visits == most {
                    return;
                }
            }
        }
    }

    /// The flow that we gave this label, and what it rests on, for worker `worker` to have a copy:
    /// it is told when the flow changes.
    pub(crate) fn lend(&mut self, wanted: Label, worker: usize) -> Option<Flow<S>> {
        let index = place_of(wanted);
        let flow = &mut self.places.get_mut(index)?.flow;
        if label(index as u32, flow.marks.tag) != wanted {
            return None;
        }
        flow.marks.copies |= 1 << worker;
        let flow = *flow;
        Some(flow)
    }

    /// Copies that are to be forgotten: the label, and a bit for each worker that has one.
    pub(crate) fn take_outdated(&mut self) -> impl Iterator<Item = (Label, u8)> {
        std::mem::take(&mut self.outdated).into_iter()
    }

    /// The flow changes: who has a copy has to forget it.
    fn recall(&mut self, index: u32) {
        let marks = &mut self.places[index as usize].flow.marks;
        let copies = std::mem::take(&mut marks.copies);
        if copies != 0 {
            self.outdated.push((label(index, marks.tag), copies));
        }
    }

    #[inline]
    fn index_of(&self, names: &[u8; 64]) -> Option<u32> {
        let hash = hash_of(&self.hasher, names);
        self.by_names.find(hash, |index| self.places[index as usize].names.0 == *names)
    }

    /// A place for a new flow, entered under its names.
    fn place_for(&mut self, flow: &Flow<S>, names: &[u8; 64]) -> u32 {
        let index = if self.places.len() < self.bound {
            let marks = Marks { tag: 1, ..Marks::default() };
            self.places.push(Held { flow: Flow { marks, ..*flow }, names: Names(*names) });
            self.chains_ahead_ms.push(0);
            let places = &mut self.places;
            self.eviction.push(|index| places[index as usize].flow.marks.take_used(SINCE_EVICTION));
            (self.places.len() - 1) as u32
        } else {
            let index = self.evict();
            self.recall(index);
            let place = &mut self.places[index as usize];
            let tag = place.flow.marks.tag.wrapping_add(1);
            let flow = Flow { marks: Marks { tag, ..Marks::default() }, ..*flow };
            *place = Held { flow, names: Names(*names) };
            self.chains_ahead_ms[index as usize] = 0;
            index
        };
        self.made.retain(|other| *other != index);
        self.made.push_front(index);
        self.made.truncate(LISTED);
        let hash = hash_of(&self.hasher, names);
        self.by_names.insert(hash, index);
        index
    }

    /// Forgets the flow that has to go, for another to have its place.
    fn evict(&mut self) -> u32 {
        let places = &mut self.places;
        let used = |index: u32| places[index as usize].flow.marks.take_used(SINCE_EVICTION);
        let index = self.eviction.evict(used);
        self.eviction.enter_again(index);
        let hash = hash_of(&self.hasher, &self.places[index as usize].names.0);
        self.by_names.remove(hash, index);
        let former = self.places[index as usize].flow;
        self.forget_next_label(index, &former);
        index
    }

    fn forget_next_label(&mut self, index: u32, flow: &Flow<S>) {
        let (NextLabel::Given(label) | NextLabel::Lapsed(label)) = flow.next_label else { return };
        // Two flows may have been given one label by a next hop that forgot the first.
        if self.by_next_label.get(&(flow.next, label)) == Some(&index) {
            self.by_next_label.remove(&(flow.next, label));
        }
    }
}

/// Where the flow of a label is, in a table of all places.
#[inline]
pub(crate) fn place_of(label: Label) -> usize {
    (label.0 & PLACE_MASK) as usize
}

fn label(index: u32, tag: u8) -> Label {
    Label(u32::from(tag) << PLACE_BITS | index)
}

/// The hash of a flow's names, in words as that of one [`Name`].
#[inline]
fn hash_of(hasher: &RandomState, names: &[u8; 64]) -> u32 {
    let mut state = hasher.build_hasher();
    for word in names.as_chunks::<16>().0 {
        state.write_u128(u128::from_ne_bytes(*word));
    }
    state.finish() as u32
}

/// The key of the flow from `source` to `destination`: the names as they stand in its PDUs.
pub(crate) fn flow_key(source: Name, destination: Name) -> [u8; 64] {
    let mut key = [0; 64];
    key[..32].copy_from_slice(&source.0);
    key[32..].copy_from_slice(&destination.0);
    key
}

/// Source and destination of a flow's key.
pub(crate) fn split_names(names: &[u8; 64]) -> (Name, Name) {
    let (mut source, mut destination) = (Name([0; 32]), Name([0; 32]));
    source.0.copy_from_slice(&names[..32]);
    destination.0.copy_from_slice(&names[32..]);
    (source, destination)
}

/// A FlowAccept that got lost is repeated no later; one that is ignored costs no more than this.
const TELL_LABEL_AGAIN_MS: u64 = 500;
const TOLD_UNIT_MS: u64 = 8;
/// A flow that was just used, to all who ask.
const USED: u8 = SINCE_EVICTION | SINCE_VISIT;
/// For `eviction`.
const SINCE_EVICTION: u8 = 1;
/// For [`Flows::visit_active`].
const SINCE_VISIT: u8 = 2;
/// What a PDU in full form takes more than one with a label.
pub(crate) const NAMES_TAKE: usize = PduHeader::LEN - LabelledHeader::LEN;
const PLACE_BITS: u32 = 24;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;
const MAX_PLACES: usize = 1 << PLACE_BITS;
/// A quarter of a megabyte of flows: a part of a second-level cache.
pub(crate) const NEAR_PLACES: usize = 1 << 12;
/// A tenth of a millisecond; a million places are passed in a minute.
const MAX_PASSED: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::Changes;
    use rhumb_wire::pdu::Label;

    fn flow(number: u32, ingress: u32) -> (Flow<u32>, [u8; 64]) {
        let mut names = [0; 64];
        names[..4].copy_from_slice(&number.to_be_bytes());
        let flow = Flow {
            ingress,
            next: ingress,
            next_label: NextLabel::None,
            until: Moment::START,
            as_of: 0,
            grounds: Grounds::NONE,
            label_told: LabelTold(0),
            max_datagram_len: 1452,
            ready: Ready::Open,
            marks: Marks::default(),
        };
        (flow, names)
    }

    /// A world in which nothing changes.
    fn seen() -> Seen<'static> {
        static CHANGES: std::sync::LazyLock<Changes> = std::sync::LazyLock::new(Changes::new);
        Seen { changes: &CHANGES, latest: 0, at: Moment::START }
    }

    fn insert(flows: &mut Flows<u32>, (flow, names): (Flow<u32>, [u8; 64])) -> Label {
        flows.insert(flow, &names)
    }

    fn names(flows: &Flows<u32>, label: Label, session: u32) -> Option<[u8; 64]> {
        flows.names_of(label, session).copied()
    }

    #[test]
    fn a_label_was_told_lately_also_where_the_bits_of_its_time_go_round() {
        #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
        let instant = std::time::Instant::now();
        let at = |unix_ms| Now { instant, unix_ms };
        let round_ms = TOLD_UNIT_MS << 16;
        for told_ms in [7 * round_ms - 100, 7 * round_ms + 1000] {
            let told = LabelTold::at(at(told_ms));
            let is_told = |unix_ms| told.is_lately(at(unix_ms));
            assert!([told_ms, told_ms + 300, told_ms + 480].into_iter().all(is_told));
            assert!(![told_ms + 508, told_ms + 60_000, told_ms - 60_000].into_iter().any(is_told));
        }
    }

    #[test]
    fn a_flood_evicts_nothing_in_use_and_old_labels_find_nothing() {
        let session = 1;
        for in_use in [1, 40, 80] {
            let mut flows = Flows::new(100);
            let kept: Vec<_> = (0..in_use).map(|n| insert(&mut flows, flow(n, session))).collect();
            let mut former = None;
            for stranger in 100..50_000 {
                // Once before the flood, and now and then.
                if stranger % 1000 == 100 {
                    for (number, label) in kept.iter().enumerate() {
                        assert!(
                            flows.by_label(*label, seen()).is_some(),
                            "{number} after {stranger}"
                        );
                    }
                }
                let (new, its_names) = flow(stranger, session);
                let label = flows.insert(new, &its_names);
                assert!(flows.fill().used <= 100);
                assert_eq!(names(&flows, label, session), Some(its_names));
                if let Some(former) = former.replace(label) {
                    assert_ne!(former, label);
                }
            }
            assert!(flows.by_names(&flow(100, session).1, Place::NOWHERE, seen()).is_none());
            for (number, label) in kept.iter().enumerate() {
                let expected = flow(number as u32, session).1;
                assert_eq!(names(&flows, *label, session), Some(expected));
                assert!(flows.by_names(&expected, Place::NOWHERE, seen()).is_some());
            }
        }
    }

    #[test]
    fn the_newest_come_first_also_when_the_table_goes_round() {
        let mut flows = Flows::new(4);
        assert_eq!(flows.newest(9, seen()).count(), 0);
        let mut made = Vec::new();
        for number in 0..10 {
            insert(&mut flows, flow(number, 1));
            made.insert(0, flow(number, 1).1);
            made.truncate(4);
            let newest: Vec<_> = flows.newest(9, seen()).map(|(_, names, _)| *names).collect();
            assert_eq!(newest[0], made[0]);
            assert_eq!(newest.len(), made.len());
        }
        assert_eq!(flows.newest(2, seen()).count(), 2);
    }

    #[test]
    fn a_label_fits_one_session_and_a_flow_from_another_gets_another() {
        let (one, other) = (1, 2);
        let mut flows = Flows::new(4);
        let first = insert(&mut flows, flow(7, one));
        assert_eq!(insert(&mut flows, flow(7, one)), first);
        assert!(names(&flows, first, other).is_none());
        let second = insert(&mut flows, flow(7, other));
        assert_ne!(first, second);
        assert!(flows.by_label(first, seen()).is_none() && names(&flows, first, one).is_none());
        assert!(names(&flows, second, other).is_some());
    }

    #[test]
    fn next_labels_follow_their_flow() {
        let (session, elsewhere) = (1, 2);
        let mut flows = Flows::new(4);
        let (one, names) = flow(1, session);
        flows.insert(one, &names);
        assert!(!flows.set_next_label(&names, elsewhere, Label(5)));
        assert!(flows.set_next_label(&names, session, Label(5)));
        let next_label = |flows: &mut Flows<u32>| {
            flows.by_names(&names, Place::NOWHERE, seen()).unwrap().next_label
        };
        assert_eq!(next_label(&mut flows), NextLabel::Given(Label(5)));
        assert!(flows.lapse_next_label(elsewhere, Label(5)).is_none());
        for _ in 0..2 {
            assert_eq!(flows.lapse_next_label(session, Label(5)), Some((session, &names)));
            assert_eq!(next_label(&mut flows), NextLabel::Lapsed(Label(5)));
        }
        assert!(flows.set_next_label(&names, session, Label(6)));
        assert!(flows.lapse_next_label(session, Label(5)).is_none());
        // A new next hop knows nothing of the old one's label.
        let moved = Flow { next: elsewhere, next_label: NextLabel::Given(Label(6)), ..one };
        flows.insert(moved, &names);
        assert_eq!(next_label(&mut flows), NextLabel::None);
        assert!(flows.lapse_next_label(session, Label(6)).is_none());
        assert!(flows.by_next_label.is_empty());
    }

    #[test]
    fn reading_ahead_finds_most_and_changes_no_answer() {
        let mut flows = Flows::new(5000);
        let labels: Vec<_> = (0..5000).map(|number| insert(&mut flows, flow(number, 1))).collect();
        assert!(flows.is_far());
        let numbers: Vec<u32> = (0..10_000).collect();
        let hash = |number: &u32| Sought::Hash(hash_of(&flows.hasher, &flow(*number, 1).1));
        let mut likely: Vec<_> = numbers.iter().map(|number| flows.find(hash(number))).collect();
        for label in &labels {
            assert_eq!(flows.find(Sought::Label(*label)).0 as usize, place_of(*label));
        }
        assert_eq!(flows.find(Sought::Nothing).0, Place::NOWHERE.0);
        let found = (0..5000).filter(|number| likely[*number].0 as usize == *number).count();
        assert!(found > 4500, "{found}");
        likely.extend([Place(4999), Place(5000), Place::NOWHERE]);
        for number in numbers {
            for at in [number as usize, 7, 10_000, 10_001, 10_002] {
                let flow = flows
                    .by_names(&flow(number, 1).1, likely[at], seen())
                    .map(|flow| flow.marks.tag);
                assert_eq!(flow.is_some(), number < 5000, "{number} at {at}");
            }
        }
    }

    #[test]
    fn a_flow_is_one_cache_line_and_few_bytes_more() {
        assert_eq!(size_of::<Flow>(), 64);
        assert_eq!(Flows::<SessionId>::MAX_BYTES_A_FLOW, 2 * 144 + 57, "as decision 0140 says");
    }
}

//! The flow table: what is remembered of a flow, found by its names or by the label we gave it.
//!
//! A label is a place in the table and a tag that changes whenever the place is used again, so a labelled PDU costs one
//! index and one comparison, and labels of former flows find nothing. The table is bounded; the place of a flow that was
//! not used since the hand last passed is taken first (CLOCK).

use std::hash::{BuildHasher, Hash};
use std::time::Instant;

use foldhash::quality::RandomState;
use hashbrown::{HashMap, HashTable};
use rhumb_link::SessionId;
use rhumb_trust::Now;
use rhumb_wire::pdu::Label;

/// All flows of a worker.
pub(crate) struct Flows<S = SessionId> {
    places: Vec<Place<S>>,
    by_names: HashTable<u32>,
    /// Flows by the label that the next hop gave: asked only when the next hop says that it does not know it.
    by_next_label: HashMap<(S, Label), u32, RandomState>,
    hasher: RandomState,
    bound: usize,
    hand: usize,
    /// Where the newest flow is.
    newest: usize,
}

struct Place<S> {
    tag: u8,
    used: bool,
    flow: Flow<S>,
}

/// What is remembered of a flow: all that the next PDU needs, and the names for when that is not enough.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow<S = SessionId> {
    pub(crate) ingress: S,
    pub(crate) next: S,
    /// What the next hop wants in place of the names.
    pub(crate) next_label: NextLabel,
    pub(crate) until: Instant,
    /// Of the routes, when the flow was made.
    pub(crate) generation: u64,
    /// The longest datagram the next hop takes.
    pub(crate) max_datagram_len: usize,
    /// Whether the next hop takes these PDUs without certificates.
    pub(crate) ready: bool,
    /// When the chain last went ahead, so that a burst of PDUs sends it once.
    pub(crate) chain_ahead_at: Option<Instant>,
    /// When the previous hop was last told the label.
    pub(crate) label_told_at: Option<Instant>,
    /// Source and destination, as they stand in a PDU.
    pub(crate) names: [u8; 64],
}

/// What is known of the label that a next hop gives a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextLabel {
    /// It gave none yet.
    None,
    /// It takes this one in place of the names.
    Given(Label),
    /// It gave this one, and said that it knows it no more. Kept, so that every PDU that was under way can be answered.
    Lapsed(Label),
}

impl<S: Copy + Eq> Flow<S> {
    /// Whether the flow still stands for PDUs that come in on `session`.
    #[inline]
    pub(crate) fn is_current(&self, session: S, generation: u64, now: Now) -> bool {
        self.ingress == session && self.generation == generation && now.instant < self.until
    }
}

impl<S: Copy + Eq + Hash> Flows<S> {
    /// A table of at most `bound` flows.
    pub(crate) fn new(bound: usize) -> Self {
        let hasher = RandomState::default();
        Self {
            places: Vec::new(),
            by_names: HashTable::new(),
            by_next_label: HashMap::with_hasher(hasher.clone()),
            hasher,
            bound: bound.clamp(1, MAX_PLACES),
            hand: 0,
            newest: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Up to `count` flows that were made lately, the newest first, with their names.
    pub(crate) fn newest(&self, count: usize) -> impl Iterator<Item = (&Flow<S>, &[u8; 64])> {
        let (older, newer) = self.places.split_at((self.newest + 1).min(self.places.len()));
        let places = older.iter().rev().chain(newer.iter().rev());
        places.take(count).map(|place| (&place.flow, &place.flow.names))
    }

    /// The flow of these names, and its label.
    #[inline]
    pub(crate) fn by_names(&mut self, names: &[u8; 64]) -> Option<(Label, &mut Flow<S>)> {
        let index = self.index_of(names)?;
        let place = &mut self.places[index as usize];
        place.used = true;
        Some((label(index, place.tag), &mut place.flow))
    }

    /// The flow of these names, without marking it as used.
    pub(crate) fn peek(&self, names: &[u8; 64]) -> Option<&Flow<S>> {
        Some(&self.places[self.index_of(names)? as usize].flow)
    }

    /// The flow that we gave this label.
    #[inline]
    pub(crate) fn by_label(&mut self, wanted: Label) -> Option<&mut Flow<S>> {
        let index = wanted.0 & PLACE_MASK;
        let place = self.places.get_mut(index as usize)?;
        if label(index, place.tag) != wanted {
            return None;
        }
        place.used = true;
        Some(&mut place.flow)
    }

    /// Remembers a flow. It keeps its place and its label, unless it comes in on another session than before.
    pub(crate) fn insert(&mut self, flow: Flow<S>) -> Label {
        let index = match self.index_of(&flow.names) {
            Some(index) => index,
            None => self.place_for(&flow),
        };
        let place = &mut self.places[index as usize];
        let before = std::mem::replace(&mut place.flow, flow);
        if before.ingress != flow.ingress {
            place.tag = place.tag.wrapping_add(1);
        }
        place.used = true;
        let label = label(index, place.tag);
        if before.next != flow.next {
            self.forget_next_label(index, &before);
            self.places[index as usize].flow.next_label = NextLabel::None;
        }
        label
    }

    /// Notes the label that the next hop gave. Whether there is such a flow with that next hop.
    pub(crate) fn set_next_label(&mut self, names: &[u8; 64], next: S, label: Label) -> bool {
        let Some(index) = self.index_of(names) else { return false };
        let before = self.places[index as usize].flow;
        if before.next != next {
            return false;
        }
        self.forget_next_label(index, &before);
        self.places[index as usize].flow.next_label = NextLabel::Given(label);
        self.by_next_label.insert((next, label), index);
        true
    }

    /// The next hop does not know this label any more: the flow it was for, which goes back to names.
    pub(crate) fn lapse_next_label(&mut self, next: S, label: Label) -> Option<&Flow<S>> {
        let index = *self.by_next_label.get(&(next, label))?;
        let flow = &mut self.places[index as usize].flow;
        flow.next_label = NextLabel::Lapsed(label);
        Some(flow)
    }

    /// Forgets the labels of a next hop that may have forgotten them. Rare, so all flows are looked at.
    pub(crate) fn forget_labels_of(&mut self, next: S) {
        for place in &mut self.places {
            if place.flow.next == next {
                place.flow.next_label = NextLabel::None;
            }
        }
        self.by_next_label.retain(|(session, _), _| *session != next);
    }

    fn index_of(&self, names: &[u8; 64]) -> Option<u32> {
        let hash = self.hasher.hash_one(names);
        self.by_names.find(hash, |&index| self.places[index as usize].flow.names == *names).copied()
    }

    /// A place for a new flow, entered under its names.
    fn place_for(&mut self, flow: &Flow<S>) -> u32 {
        let index = if self.places.len() < self.bound {
            self.places.push(Place { tag: 0, used: true, flow: *flow });
            self.places.len() - 1
        } else {
            self.evict()
        };
        self.newest = index;
        let index = index as u32;
        let place = &mut self.places[index as usize];
        place.tag = place.tag.wrapping_add(1);
        place.flow = *flow;
        let hash = self.hasher.hash_one(flow.names);
        let (places, hasher) = (&self.places, &self.hasher);
        self.by_names.insert_unique(hash, index, |&other| {
            hasher.hash_one(places[other as usize].flow.names)
        });
        index
    }

    /// Takes the next place that was not used lately; after [`MAX_STEPS`], the next.
    fn evict(&mut self) -> usize {
        for _ in 0..MAX_STEPS {
            if !std::mem::take(&mut self.places[self.hand].used) {
                break;
            }
            self.hand = (self.hand + 1) % self.places.len();
        }
        let index = self.hand;
        self.hand = (self.hand + 1) % self.places.len();
        let former = self.places[index].flow;
        let hash = self.hasher.hash_one(former.names);
        if let Ok(entry) = self.by_names.find_entry(hash, |&other| other as usize == index) {
            entry.remove();
        }
        self.forget_next_label(index as u32, &former);
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

fn label(index: u32, tag: u8) -> Label {
    Label(u32::from(tag) << PLACE_BITS | index)
}

const PLACE_BITS: u32 = 24;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;
const MAX_PLACES: usize = 1 << PLACE_BITS;
/// Places looked at for one that was not used: bounds the work of an insertion.
const MAX_STEPS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::pdu::Label;

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn flow(number: u32, ingress: u32) -> Flow<u32> {
        let mut names = [0; 64];
        names[..4].copy_from_slice(&number.to_be_bytes());
        Flow {
            ingress,
            next: ingress,
            next_label: NextLabel::None,
            until: Instant::now(),
            generation: 0,
            max_datagram_len: 1452,
            ready: true,
            chain_ahead_at: None,
            label_told_at: None,
            names,
        }
    }

    #[test]
    fn a_flood_evicts_nothing_in_use_and_old_labels_find_nothing() {
        let session = 1;
        let mut flows = Flows::new(100);
        let kept = flow(0, session);
        let in_use = flows.insert(kept);
        let mut former = None;
        for stranger in 1..50_000 {
            let label = flows.insert(flow(stranger, session));
            assert!(flows.len() <= 100);
            assert_eq!(flows.by_label(label).unwrap().names, flow(stranger, session).names);
            assert_eq!(flows.by_label(in_use).unwrap().names, kept.names, "after {stranger}");
            if let Some(former) = former.replace(label) {
                assert_ne!(former, label);
            }
        }
        assert!(flows.by_names(&flow(1, session).names).is_none());
        assert_eq!(flows.by_names(&kept.names).unwrap().0, in_use);
    }

    #[test]
    fn the_newest_come_first_also_when_the_table_goes_round() {
        let mut flows = Flows::new(4);
        assert_eq!(flows.newest(9).count(), 0);
        let mut made = Vec::new();
        for number in 0..10 {
            flows.insert(flow(number, 1));
            made.insert(0, flow(number, 1).names);
            made.truncate(4);
            let newest: Vec<_> = flows.newest(9).map(|(_, names)| *names).collect();
            assert_eq!(newest[0], made[0]);
            assert_eq!(newest.len(), made.len());
        }
        assert_eq!(flows.newest(2).count(), 2);
    }

    #[test]
    fn a_flow_from_another_session_gets_another_label() {
        let (one, other) = (1, 2);
        let mut flows = Flows::new(4);
        let first = flows.insert(flow(7, one));
        assert_eq!(flows.insert(flow(7, one)), first);
        let second = flows.insert(flow(7, other));
        assert_ne!(first, second);
        assert!(flows.by_label(first).is_none());
    }

    #[test]
    fn next_labels_follow_their_flow() {
        let (session, elsewhere) = (1, 2);
        let mut flows = Flows::new(4);
        let one = flow(1, session);
        flows.insert(one);
        assert!(!flows.set_next_label(&one.names, elsewhere, Label(5)));
        assert!(flows.set_next_label(&one.names, session, Label(5)));
        let next_label = |flows: &mut Flows<u32>| flows.by_names(&one.names).unwrap().1.next_label;
        assert_eq!(next_label(&mut flows), NextLabel::Given(Label(5)));
        assert!(flows.lapse_next_label(elsewhere, Label(5)).is_none());
        for _ in 0..2 {
            assert_eq!(flows.lapse_next_label(session, Label(5)).unwrap().names, one.names);
            assert_eq!(next_label(&mut flows), NextLabel::Lapsed(Label(5)));
        }
        assert!(flows.set_next_label(&one.names, session, Label(6)));
        assert!(flows.lapse_next_label(session, Label(5)).is_none());
        // A new next hop knows nothing of the old one's label.
        flows.insert(Flow { next: elsewhere, next_label: NextLabel::Given(Label(6)), ..one });
        assert_eq!(next_label(&mut flows), NextLabel::None);
        assert!(flows.lapse_next_label(session, Label(6)).is_none());
        assert!(flows.by_next_label.is_empty());
    }
}

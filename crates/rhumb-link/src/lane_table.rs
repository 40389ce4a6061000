//! Which receive lane a session index means. The index is the lane's place in a table and a tag that changes whenever the
//! place is used again, so look-up costs one index and one comparison, and datagrams for a former lane find nothing.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rhumb_wire::datagram::SessionIndex;

use crate::SessionId;
use crate::lane::ReceiveLane;
use crate::slots::Key;

/// All receive lanes.
pub(crate) struct LaneTable {
    places: Vec<Place>,
    /// First freed, first used again, so that a tag returns as late as possible.
    free: VecDeque<u32>,
    /// Where the tags of a place begin: differs from run to run, so that datagrams for the last run find nothing.
    first_tag: u8,
}

struct Place {
    tag: u8,
    entry: Option<LaneEntry>,
}

/// A receive lane and whose it is.
pub(crate) struct LaneEntry {
    pub(crate) lane: ReceiveLane,
    /// The session; none until the peer's parameters have arrived.
    pub(crate) session: Option<SessionId>,
    /// Where the session sends to; until there is one, where the handshake is made with.
    pub(crate) address: SocketAddr,
    /// Whether a record was opened, so that the peer is known to have our index.
    pub(crate) confirmed: bool,
    /// Whether the session's watch dozes: then opening wakes it.
    pub(crate) dozes: bool,
    /// The exchange that made it.
    pub(crate) exchange: Key,
}

impl LaneTable {
    pub(crate) fn new(first_tag: u8) -> Self {
        Self { places: Vec::new(), free: VecDeque::new(), first_tag }
    }

    /// Gives a lane an index; `None` when all are taken.
    pub(crate) fn insert(&mut self, entry: LaneEntry) -> Option<SessionIndex> {
        // A place that was just freed rests until others are free too.
        if self.free.len() > REST || self.places.len() > PLACE_MASK as usize {
            let place = self.free.pop_front()?;
            let slot = &mut self.places[place as usize];
            slot.tag = next_tag(slot.tag);
            slot.entry = Some(entry);
            return index(place, slot.tag);
        }
        let place = u32::try_from(self.places.len()).ok()?;
        let tag = next_tag(self.first_tag);
        self.places.push(Place { tag, entry: Some(entry) });
        index(place, tag)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: SessionIndex) -> Option<&mut LaneEntry> {
        let place = self.places.get_mut((index.as_u32() & PLACE_MASK) as usize)?;
        if u32::from(place.tag) == index.as_u32() >> PLACE_BITS {
            place.entry.as_mut()
        } else {
            None
        }
    }

    pub(crate) fn get(&self, index: SessionIndex) -> Option<&LaneEntry> {
        let place = self.places.get((index.as_u32() & PLACE_MASK) as usize)?;
        if u32::from(place.tag) == index.as_u32() >> PLACE_BITS {
            place.entry.as_ref()
        } else {
            None
        }
    }

    pub(crate) fn remove(&mut self, index: SessionIndex) {
        let number = index.as_u32() & PLACE_MASK;
        let Some(place) = self.places.get_mut(number as usize) else { return };
        if u32::from(place.tag) == index.as_u32() >> PLACE_BITS && place.entry.take().is_some() {
            self.free.push_back(number);
        }
    }
}

/// Tags are 1 to 255: an index is never zero.
fn next_tag(tag: u8) -> u8 {
    tag.checked_add(1).unwrap_or(1)
}

fn index(place: u32, tag: u8) -> Option<SessionIndex> {
    SessionIndex::new(u32::from(tag) << PLACE_BITS | place)
}

const PLACE_BITS: u32 = 20;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;
/// Freed places that rest before one is used again.
const REST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cipher;
    use crate::keys::ExportedKeys;
    use crate::slots::Slots;
    use std::time::Instant;

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn entry() -> LaneEntry {
        let keys = ExportedKeys::new(&[1; 88]).unwrap();
        let exchange = Slots::new().insert(());
        let lane =
            ReceiveLane::new(Cipher::Aes256Gcm, keys.lane_secrets(true, 0).0, Instant::now());
        LaneEntry {
            lane,
            session: None,
            address: "192.0.2.1:1".parse().unwrap(),
            confirmed: false,
            dozes: false,
            exchange,
        }
    }

    #[test]
    fn a_former_index_finds_nothing() {
        let mut table = LaneTable::new(250);
        let mut former = std::collections::HashSet::new();
        for round in 0..1000 {
            let index = table.insert(entry()).unwrap();
            assert_ne!(index.as_u32(), 0);
            assert!(former.insert(index), "index {index:?} came back after {round} rounds");
            assert!(table.get(index).is_some());
            table.remove(index);
            table.remove(index);
            assert!(table.get(index).is_none() && table.get_mut(index).is_none());
        }
        assert!(table.places.len() <= REST + 1);
    }
}

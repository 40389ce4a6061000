//! What a party holds of all members: each announcement's share, whether it is current, and what is
//! current for each destination.
//!
//! Invariant: a lane has at most one current route for a destination. Without a pair nothing is
//! current, and of each lane only its latest word on a destination is held.

use std::collections::{BTreeMap, HashMap};

use super::latest::Latest;
use crate::coins::short_digest;
use crate::message::pair::Item;
use crate::message::{BUCKETS, Mark};
use crate::roster::Lane;
use crate::route::{Destination, RouteId, Share};
use crate::{ExchangeError, Few, Quota};

/// An announcement.
pub(crate) struct Held {
    pub(crate) id: RouteId,
    pub(crate) destination: Destination,
    pub(crate) share: Share,
    /// At party one: the sealed route.
    pub(crate) sealed: Box<[u8]>,
    /// Whether this party handed out its shares, in this pair or a former one.
    pub(crate) exported: bool,
    /// In this pair, since which order; zero if it was adopted.
    pub(crate) current: Option<u64>,
}

impl Held {
    /// What it takes of the lane's quota.
    pub(crate) fn bytes(&self) -> usize {
        self.sealed.len() + self.share.keys_len()
    }
}

/// What is held of one lane.
#[derive(Default)]
struct LaneTable {
    /// The highest mark heard.
    last: Mark,
    /// The incarnation whose end was heard.
    ended: u64,
    held: BTreeMap<Mark, Held>,
    latest: Latest,
    /// The highest mark whose route was refused.
    refused: Mark,
}

pub(crate) struct Table {
    lanes: Vec<LaneTable>,
    /// All that are held, by the first byte of the id.
    ids: Vec<HashMap<RouteId, Item>>,
    current: HashMap<Destination, Few<Lane, Mark>>,
    /// Sums of the ids of what is current, by bucket.
    sums: Vec<u64>,
    /// The order that last made or removed something current.
    changed: u64,
}

impl Table {
    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            lanes: (0..lanes).map(|_| LaneTable::default()).collect(),
            ids: (0..BUCKETS).map(|_| HashMap::new()).collect(),
            current: HashMap::new(),
            sums: vec![0; BUCKETS],
            changed: 0,
        }
    }

    /// There are more lanes now.
    pub(crate) fn extend(&mut self, lanes: usize) {
        self.lanes.resize_with(lanes, LaneTable::default);
    }

    /// The highest mark heard of a lane.
    pub(crate) fn last(&self, lane: Lane) -> Mark {
        self.lanes[lane.index()].last
    }

    /// Whether the lane has said all that it began with.
    pub(crate) fn has_ended(&self, lane: Lane) -> bool {
        let lane = &self.lanes[lane.index()];
        lane.ended == lane.last.incarnation
    }

    /// How many of a lane are held.
    pub(crate) fn len(&self, lane: Lane) -> usize {
        self.lanes[lane.index()].held.len()
    }

    pub(crate) fn held(&self, (lane, mark): Item) -> Option<&Held> {
        self.lanes.get(lane.index())?.held.get(&mark)
    }

    /// All that is held of a lane, in the order of marks.
    pub(crate) fn items(&self, lane: Lane) -> impl Iterator<Item = (Mark, &Held)> {
        self.lanes[lane.index()].held.iter().map(|(mark, held)| (*mark, held))
    }

    /// The lane's latest word on a destination, if that is a route.
    pub(crate) fn latest(&self, lane: Lane, destination: &Destination) -> Option<Mark> {
        self.lanes[lane.index()].latest.get(destination)
    }

    /// Whether a lane's route of so many bytes fits its quota.
    pub(crate) fn has_room(
        &self,
        lane: Lane,
        destination: &Destination,
        bytes: usize,
        quota: Quota,
    ) -> bool {
        self.lanes[lane.index()].latest.has_room(destination, bytes, quota)
    }

    /// A lane's announcement is refused: of what it leads to the lane
    /// has no route any more. Whether it had one.
    pub(crate) fn refuse(
        &mut self,
        (lane, mark): Item,
        destination: &Destination,
        has_pair: bool,
    ) -> bool {
        let is_current = self.current(destination).any(|(other, _)| other == lane);
        let had = is_current || self.latest(lane, destination).is_some();
        self.hear_withdrawal((lane, mark), destination, has_pair);
        self.lanes[lane.index()].refused = mark;
        had
    }

    /// Whether the last word that was heard of a lane was refused.
    pub(crate) fn last_was_refused(&self, lane: Lane) -> bool {
        let lane = &self.lanes[lane.index()];
        lane.refused == lane.last
    }

    /// A new announcement. Without a pair it takes the place of the lane's former one.
    pub(crate) fn hear(
        &mut self,
        item: Item,
        held: Held,
        has_pair: bool,
    ) -> Result<(), ExchangeError> {
        let bucket = &mut self.ids[usize::from(held.id.0[0])];
        if bucket.contains_key(&held.id) {
            return Err(ExchangeError::Malformed("an announcement has the id of another"));
        }
        bucket.insert(held.id, item);
        let (lane, mark) = item;
        let table = &mut self.lanes[lane.index()];
        table.last = mark;
        let former = table.latest.insert(held.destination.clone(), mark, held.bytes());
        table.held.insert(mark, held);
        if let (Some(former), false) = (former, has_pair) {
            self.drop_item((lane, former));
        }
        Ok(())
    }

    /// The lane's route to a destination is no more. Without a pair nothing of it is held further.
    pub(crate) fn hear_withdrawal(
        &mut self,
        (lane, mark): Item,
        destination: &Destination,
        has_pair: bool,
    ) {
        let table = &mut self.lanes[lane.index()];
        table.last = mark;
        let former = table.latest.remove(destination);
        if let (Some(former), false) = (former, has_pair) {
            self.drop_item((lane, former));
        }
    }

    /// What earlier incarnations of the lane said and this one did not is no more.
    pub(crate) fn hear_end(&mut self, (lane, mark): Item, has_pair: bool) {
        let table = &mut self.lanes[lane.index()];
        table.last = mark;
        table.ended = mark.incarnation;
        table.latest.retain(|latest| latest.incarnation == mark.incarnation);
        if !has_pair {
            self.compact(lane);
        }
    }

    /// A pair has ended: nothing is current, and each lane's latest words are held alone.
    pub(crate) fn end_pair(&mut self) {
        self.current.clear();
        self.sums.fill(0);
        self.changed = 0;
        for lane in 0..self.lanes.len() {
            self.lanes[lane].held.values_mut().for_each(|held| held.current = None);
            self.compact(Lane(lane as u16));
        }
    }

    fn compact(&mut self, lane: Lane) {
        let table = &self.lanes[lane.index()];
        let is_latest =
            |(mark, held): &(&Mark, &Held)| table.latest.get(&held.destination) == Some(**mark);
        let old: Vec<Mark> =
            table.held.iter().filter(|entry| !is_latest(entry)).map(|(mark, _)| *mark).collect();
        for mark in old {
            self.drop_item((lane, mark));
        }
    }

    /// Makes an announcement current; gives the one whose place it takes.
    pub(crate) fn make_current(
        &mut self,
        (lane, mark): Item,
        position: u64,
        since: u64,
    ) -> Option<(Mark, RouteId)> {
        let held = self.lanes[lane.index()].held.get_mut(&mark)?;
        (held.exported, held.current) = (true, Some(since));
        let (id, destination) = (held.id, held.destination.clone());
        let former = self.current.entry(destination).or_default().insert(lane, mark);
        self.add_sum(id, 1);
        self.changed = position;
        let former = former.filter(|former| *former != mark)?;
        let held = self.lanes[lane.index()].held.remove(&former)?;
        self.ids[usize::from(held.id.0[0])].remove(&held.id);
        self.add_sum(held.id, u64::MAX);
        Some((former, held.id))
    }

    /// Removes what is current; gives its lane, mark and destination.
    pub(crate) fn remove(&mut self, id: RouteId, position: u64) -> Option<(Item, Destination)> {
        let item = self.item_of(id)?;
        self.held(item)?.current?;
        let held = self.drop_item(item)?;
        self.changed = position;
        Some((item, held.destination.clone()))
    }

    /// Removes an announcement whatever it is.
    pub(crate) fn drop_item(&mut self, (lane, mark): Item) -> Option<Held> {
        let table = &mut self.lanes[lane.index()];
        let held = table.held.remove(&mark)?;
        if table.latest.get(&held.destination) == Some(mark) {
            table.latest.remove(&held.destination);
        }
        self.ids[usize::from(held.id.0[0])].remove(&held.id);
        if held.current.is_some() {
            self.add_sum(held.id, u64::MAX);
            if let Some(lanes) = self.current.get_mut(&held.destination) {
                lanes.remove(&lane);
                if lanes.is_empty() {
                    self.current.remove(&held.destination);
                }
            }
        }
        Some(held)
    }

    /// Forgets that anything was heard of a lane whose announcements are removed.
    pub(crate) fn reset(&mut self, lane: Lane) {
        debug_assert!(self.lanes[lane.index()].held.is_empty());
        self.lanes[lane.index()] = LaneTable::default();
    }

    pub(crate) fn item_of(&self, id: RouteId) -> Option<Item> {
        self.ids[usize::from(id.0[0])].get(&id).copied()
    }

    /// What is current for a destination, in the order of lanes.
    pub(crate) fn current(&self, destination: &Destination) -> impl Iterator<Item = Item> {
        let lanes = self.current.get(destination).into_iter().flat_map(Few::iter);
        lanes.map(|(lane, mark)| (*lane, *mark))
    }

    /// How many that is.
    pub(crate) fn current_len(&self, destination: &Destination) -> usize {
        self.current.get(destination).map_or(0, Few::len)
    }

    /// Destinations with several routes.
    pub(crate) fn contested(&self) -> impl Iterator<Item = &Destination> {
        self.current.iter().filter(|(_, lanes)| lanes.len() > 1).map(|(destination, _)| destination)
    }

    /// Routes that are current.
    pub(crate) fn total_current(&self) -> usize {
        self.current.values().map(Few::len).sum()
    }

    /// Routes that are held.
    pub(crate) fn total_held(&self) -> usize {
        self.lanes.iter().map(|lane| lane.held.len()).sum()
    }

    /// What is current in a bucket since before an order.
    pub(crate) fn bucket(&self, bucket: u8, before: u64) -> impl Iterator<Item = RouteId> {
        let ids = self.ids[usize::from(bucket)].iter();
        let is_there = move |item: &Item| {
            self.held(*item).and_then(|held| held.current).is_some_and(|since| since < before)
        };
        ids.filter(move |(_, item)| is_there(item)).map(|(id, _)| *id)
    }

    /// Sums of what is current since before an order.
    pub(crate) fn sums(&self, before: u64) -> Vec<u64> {
        if self.changed < before {
            return self.sums.clone();
        }
        let mut sums = vec![0_u64; BUCKETS];
        for (bucket, sum) in sums.iter_mut().enumerate() {
            for id in self.bucket(bucket as u8, before) {
                *sum = sum.wrapping_add(id_digest(id));
            }
        }
        sums
    }

    /// What a party does that deviates: its shares of who may have a route are others for a lane.
    #[cfg(test)]
    pub(crate) fn turn_over(&mut self, lane: Lane) {
        let lanes = self.lanes.len();
        for held in self.lanes.iter_mut().flat_map(|lane| lane.held.values_mut()) {
            let mut policy = held.share.policy(lanes.div_ceil(64));
            policy[lane.index() / 64] ^= 1 << (lane.0 % 64);
            let keys = held.share.keys(lanes).as_slice().into();
            held.share = Share::Masked { policy: policy.as_slice().into(), keys };
        }
    }

    fn add_sum(&mut self, id: RouteId, times: u64) {
        let sum = &mut self.sums[usize::from(id.0[0])];
        *sum = sum.wrapping_add(id_digest(id).wrapping_mul(times));
    }
}

/// What an id adds to the sum of its bucket.
pub(crate) fn id_digest(id: RouteId) -> u64 {
    short_digest(b"rhumb-exchange id", &[&id.0])
}

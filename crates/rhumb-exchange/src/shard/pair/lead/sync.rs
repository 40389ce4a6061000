//! A member that joins says what it holds and gets what it lacks, without the
//! announcers: what is stored of policies and keys is enough. It need not say
//! it in full: sums by bucket are compared first.
//!
//! 1. The order `Join` marks a place in both parties' messages. What is exported after it reaches
//!    the member as it does all others.
//! 2. The member says the sums of what it held there. Where they differ, it is asked for ids.
//! 3. What it lacks is replayed, routes as lanes, no faster than it puts both parties' halves
//!    together; what is gone is retracted. Then it is told that it has everything.
//!
//! Invariant: what is gone is told only once the pair has settled: until then members keep what
//! they hold of a former pair. And until then nobody is told to have everything: what both parties
//! have not heard again may still come.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use rhumb_mpc::Party;

use super::Lead;
use crate::MAX_MEMBER_MESSAGE;
use crate::config::{REPLAY_AHEAD, REPLAY_LANES};
use crate::message::member::{OFFER_LEN, ToMember};
use crate::message::pair::Order;
use crate::message::{BUCKETS, Tag};
use crate::roster::Lane;
use crate::route::RouteId;
use crate::shard::Shard;

/// How far a lane is.
pub(in crate::shard) struct Sync {
    /// The order by which it joined.
    joined: u64,
    state: State,
    /// Buckets of which it has nothing.
    empty: VecDeque<u8>,
    /// Buckets to ask about, and those asked about.
    differing: VecDeque<u8>,
    asked: BTreeSet<u8>,
    /// What it lacks. A set: a run that held an id twice would give it two shares under one tag.
    missing: BTreeSet<RouteId>,
    /// Runs whose milestones it has not passed, with the bytes of their routes.
    ahead: VecDeque<(u64, usize)>,
    /// Whether it is among those that wait for a replay.
    is_in_turn: bool,
}

enum State {
    /// It has said its sums.
    Said(Vec<u64>),
    /// They were compared.
    Compared,
    /// It has everything.
    Done,
}

impl Sync {
    /// Bytes that may be sent before it has to have passed a milestone.
    fn room(&self) -> usize {
        let ahead: usize = self.ahead.iter().map(|(_, len)| len).sum();
        REPLAY_AHEAD.saturating_sub(ahead)
    }

    /// Something became current without a run, perhaps after
    /// this lane was looked at; true if that is so.
    pub(in crate::shard) fn late_adoption(&mut self, id: RouteId) -> bool {
        if matches!(self.state, State::Said(_)) {
            return false;
        }
        let bucket = id.0[0];
        // It will be found there.
        if self.empty.contains(&bucket) || self.differing.contains(&bucket) {
            return true;
        }
        self.missing.insert(id);
        // It is told once more that it has everything, and asked once more what is best.
        self.state = State::Compared;
        true
    }
}

impl Lead {
    /// A lane may lack something: it waits for its turn, once.
    pub(in crate::shard) fn replay_later(&mut self, lane: Lane) {
        if let Some(sync) = self.syncs.get_mut(&lane)
            && !std::mem::replace(&mut sync.is_in_turn, true)
        {
            self.replays.push_back(lane);
        }
    }

    /// Something became current without a run: those who have
    /// said what they hold before this may lack it.
    pub(in crate::shard) fn adopted(&mut self, id: RouteId) {
        for (lane, sync) in &mut self.syncs {
            if sync.late_adoption(id) && !std::mem::replace(&mut sync.is_in_turn, true) {
                self.replays.push_back(*lane);
            }
        }
    }
}

impl Shard {
    pub(in crate::shard) fn take_holding(
        &mut self,
        lane: Lane,
        tag: Tag,
        sums: Vec<u64>,
        _now: Instant,
    ) {
        if !self.is_joined(lane, tag) {
            return;
        }
        let Some(lead) = self.lead() else { return };
        if lead.syncs.contains_key(&lane) {
            return;
        }
        // Whoever holds nothing need not wait for what is gone.
        let is_empty = sums.iter().all(|sum| *sum == 0);
        let said = if is_empty || lead.is_settled { &mut lead.said } else { &mut lead.said_early };
        said.push(lane);
        let sync = Sync {
            joined: tag.position,
            state: State::Said(sums),
            empty: VecDeque::new(),
            differing: VecDeque::new(),
            asked: BTreeSet::new(),
            missing: BTreeSet::new(),
            ahead: VecDeque::new(),
            is_in_turn: false,
        };
        lead.syncs.insert(lane, sync);
    }

    /// A member has put together what both parties sent before a milestone.
    pub(in crate::shard) fn take_passed(&mut self, lane: Lane, tag: Tag) {
        if self.tag(tag.position) != tag {
            return;
        }
        let Some(lead) = self.lead() else { return };
        let Some(sync) = lead.syncs.get_mut(&lane) else { return };
        while sync.ahead.pop_front_if(|(position, _)| *position <= tag.position).is_some() {}
        lead.replay_later(lane);
    }

    /// Routes were replayed to a lane: it says when it is there.
    pub(in crate::shard) fn mark_replayed(&mut self, lane: Lane, position: u64, ids: &[RouteId]) {
        if self.party == Party::Two {
            return;
        }
        let len = ids.iter().filter_map(|id| self.offer_len(*id)).sum();
        let tag = self.tag(position);
        let Some(sync) = self.lead().and_then(|lead| lead.syncs.get_mut(&lane)) else { return };
        sync.ahead.push_back((position, len));
        self.tell(lane, &ToMember::Milestone { tag });
    }

    /// Bytes of the offer of a route that is current.
    fn offer_len(&self, id: RouteId) -> Option<usize> {
        let held = self.table.item_of(id).and_then(|item| self.table.held(item))?;
        held.current.map(|_| OFFER_LEN + held.sealed.len())
    }

    /// What a member holds of a bucket that it was asked about.
    pub(in crate::shard) fn take_ids(&mut self, lane: Lane, tag: Tag, bucket: u8, ids: &[RouteId]) {
        if !self.is_joined(lane, tag) {
            return;
        }
        let Some(sync) = self.lead().and_then(|lead| lead.syncs.get_mut(&lane)) else { return };
        if !sync.asked.remove(&bucket) {
            return;
        }
        let held: BTreeSet<RouteId> = ids.iter().copied().collect();
        let missing = self.table.bucket(bucket, tag.position).filter(|id| !held.contains(id));
        let missing: Vec<RouteId> = missing.collect();
        let is_current = |id: &RouteId| {
            let held = self.table.item_of(*id).and_then(|item| self.table.held(item));
            held.is_some_and(|held| held.current.is_some())
        };
        let gone: Vec<RouteId> = held.into_iter().filter(|id| !is_current(id)).collect();
        let position = self.pair.as_ref().map_or(0, |pair| pair.position);
        let tag = self.tag(position);
        for ids in gone.chunks(MAX_MEMBER_MESSAGE / 32) {
            self.tell(lane, &ToMember::Retract { tag, ids: ids.to_vec() });
        }
        let Some(lead) = self.lead() else { return };
        if let Some(sync) = lead.syncs.get_mut(&lane) {
            sync.missing.extend(missing);
            lead.replay_later(lane);
        }
    }

    /// Compares what lanes have said with what is current.
    pub(in crate::shard) fn look_at_syncs(&mut self) {
        while let Some(lane) = self.lead().and_then(|lead| lead.said.pop()) {
            let Some(joined) =
                self.lead().and_then(|lead| lead.syncs.get(&lane)).map(|sync| sync.joined)
            else {
                continue;
            };
            let mine = self.table.sums(joined);
            let Some(lead) = self.lead() else { return };
            let Some(sync) = lead.syncs.get_mut(&lane) else { continue };
            // It may have joined anew, and be looked at already.
            let State::Said(sums) = &mut sync.state else { continue };
            let sums = std::mem::take(sums);
            sync.state = State::Compared;
            for bucket in 0..BUCKETS {
                match sums[bucket] {
                    same if same == mine[bucket] => {}
                    0 => sync.empty.push_back(bucket as u8),
                    _ => sync.differing.push_back(bucket as u8),
                }
            }
            lead.replay_later(lane);
        }
    }

    /// The next run for a member that lacks something, or for one after the other the word that it
    /// lacks nothing. Who has not put together what was replayed to it is left out until it has.
    pub(in crate::shard) fn next_replay(&mut self) -> Option<Order> {
        while let Some(lane) = self.lead()?.replays.pop_front() {
            let Some(sync) = self.lead()?.syncs.get_mut(&lane) else { continue };
            sync.is_in_turn = false;
            let mut room = sync.room();
            if room == 0 {
                continue;
            }
            let mut ids = Vec::new();
            while ids.len() < REPLAY_LANES && room > 0 {
                let Some(sync) = self.lead()?.syncs.get_mut(&lane) else { break };
                if let Some(id) = sync.missing.pop_first() {
                    if let Some(len) = self.offer_len(id) {
                        room = room.saturating_sub(len);
                        ids.push(id);
                    }
                } else if let Some(bucket) = sync.empty.pop_front() {
                    let joined = sync.joined;
                    let all: Vec<RouteId> = self.table.bucket(bucket, joined).collect();
                    self.lead()?.syncs.get_mut(&lane)?.missing.extend(all);
                } else {
                    break;
                }
            }
            self.ask_for_buckets(lane);
            if !ids.is_empty() {
                self.lead()?.replay_later(lane);
                return Some(Order::Replay { lane, ids });
            }
            self.check_synced(lane);
        }
        None
    }

    /// Asks about some more of the buckets that differ,
    /// once nothing waits that it is known to lack.
    fn ask_for_buckets(&mut self, lane: Lane) {
        let Some(sync) = self.lead().and_then(|lead| lead.syncs.get_mut(&lane)) else { return };
        if !sync.asked.is_empty() || sync.differing.is_empty() || !sync.missing.is_empty() {
            return;
        }
        let count = sync.differing.len().min(BUCKETS_AT_ONCE);
        let buckets: Vec<u8> = sync.differing.drain(..count).collect();
        sync.asked.extend(&buckets);
        let joined = sync.joined;
        let tag = self.tag(joined);
        self.tell(lane, &ToMember::Wanted { tag, buckets });
    }

    /// A lane that lacks nothing is told so, once nothing of a former pair can still come.
    fn check_synced(&mut self, lane: Lane) {
        let Some(lead) = self.lead().filter(|lead| lead.is_settled) else { return };
        let Some(sync) = lead.syncs.get_mut(&lane) else { return };
        let is_waiting = !sync.asked.is_empty() || !sync.differing.is_empty();
        if is_waiting || !matches!(sync.state, State::Compared) {
            return;
        }
        sync.state = State::Done;
        let position = self.pair.as_ref().map_or(0, |pair| pair.position);
        let tag = self.tag(position);
        self.tell(lane, &ToMember::Synced { tag });
        if self.connections[lane.index()].joined.is_some_and(|(_, participates)| participates) {
            self.ask_about_all(lane);
        }
    }

    fn is_joined(&self, lane: Lane, tag: Tag) -> bool {
        let joined = self.connections[lane.index()].joined.map(|(position, _)| position);
        joined == Some(tag.position) && self.tag(tag.position) == tag
    }
}

/// Buckets asked about at a time: what a member may hold of them is
/// bounded, and so is what is kept of its answer.
const BUCKETS_AT_ONCE: usize = 8;

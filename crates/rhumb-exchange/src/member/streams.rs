//! What the two parties of a pair send, put together.
//!
//! Party one's messages are taken in their order, each once party two's half is there; both
//! parties' messages come in the order of positions, so a half whose position the other party has
//! passed will not come, and what waits for it is dropped. What is lost like that, by a connection
//! that broke, is found when the member joins again and says what it holds.

use std::collections::{BTreeMap, HashMap, VecDeque};

use rhumb_mpc::Party;

use super::{Connection, Event, Live, Member, Round};
use crate::message::member::{FromMember, Offer};
use crate::message::{BUCKETS, Mark, Tag};
use crate::roster::Lane;
use crate::route::{self, Destination, RouteId};
use crate::shard::table::id_digest;
use crate::{ExchangeError, Few};

/// What came over one connection for one shard and waits.
#[derive(Default)]
pub(super) struct Stream {
    /// The place at which this member joined.
    joined: Option<Tag>,
    /// The position of the last message.
    at: Tag,
    /// Of party one.
    queue: VecDeque<(Tag, Waiting)>,
    /// Of party two.
    shares: BTreeMap<(Tag, RouteId), u128>,
    asks: BTreeMap<Tag, Vec<RouteId>>,
}

pub(super) enum Waiting {
    Offer { id: RouteId, replaces: Option<RouteId>, share: u128, sealed: Box<[u8]> },
    Retract(Vec<RouteId>),
    Ask(Vec<RouteId>),
    Synced,
    Milestone,
}

/// What a member holds of a shard.
#[derive(Default)]
pub(super) struct Holdings {
    /// All announcements that both halves came of; nothing for those that this member may not have.
    known: HashMap<RouteId, Option<HeldRoute>>,
    routes: HashMap<Destination, Few<Lane, RouteId>>,
    count: usize,
}

/// A route that this member may have.
pub(super) struct HeldRoute {
    pub(super) destination: Destination,
    pub(super) from: Lane,
    /// For the paper's circuit, whose result is a key.
    pub(super) key: zeroize::Zeroizing<u128>,
}

impl Holdings {
    pub(super) fn routes(&self) -> usize {
        self.count
    }

    pub(super) fn known(&self) -> usize {
        self.known.len()
    }

    pub(super) fn route(&self, id: RouteId) -> Option<&HeldRoute> {
        self.known.get(&id)?.as_ref()
    }

    fn sums(&self) -> Vec<u64> {
        let mut sums = vec![0_u64; BUCKETS];
        for id in self.known.keys() {
            let sum = &mut sums[usize::from(id.0[0])];
            *sum = sum.wrapping_add(id_digest(*id));
        }
        sums
    }

    /// Takes a route out; gives it if this member had it.
    fn remove(&mut self, id: RouteId) -> Option<HeldRoute> {
        let held = self.known.remove(&id)??;
        self.count -= 1;
        if let Some(lanes) = self.routes.get_mut(&held.destination) {
            if lanes.get(&held.from) == Some(&id) {
                lanes.remove(&held.from);
            }
            if lanes.is_empty() {
                self.routes.remove(&held.destination);
            }
        }
        Some(held)
    }
}

impl Member {
    pub(super) fn resume(
        &mut self,
        connection: Connection,
        at: usize,
        mark: Mark,
    ) -> Result<(), ExchangeError> {
        let mine = self.shards[at].words.incarnation();
        if mark.incarnation > mine {
            return Err(ExchangeError::Unexpected("a word of a later process of this member"));
        }
        let Some(link) = self.links.get_mut(&connection) else { return Ok(()) };
        let number = if mark.incarnation == mine { mark.number } else { 0 };
        let said = link.cursors[at].replace(number);
        self.shards[at].words.refused_up_to(number);
        // It has forgotten what it had heard over this connection. Of what is still on its way it
        // would take the last word for the last of all that is said again.
        if said.is_some_and(|said| said > number) {
            self.say_anew(at);
        }
        Ok(())
    }

    /// Says all words for a shard once more, as another process would.
    pub(super) fn say_anew(&mut self, at: usize) {
        self.shards[at].words.renew(self.lane, &mut self.coins);
        self.links.values_mut().for_each(|link| {
            link.cursors[at] = link.cursors[at].map(|_| 0);
        });
    }

    /// A place at which both parties of a pair begin. Once both
    /// have marked it, the member says what it holds.
    pub(super) fn joined(&mut self, connection: Connection, at: usize, tag: Tag) {
        let Some(link) = self.links.get_mut(&connection) else { return };
        let party = link.party;
        link.streams[at] = Stream { joined: Some(tag), at: tag, ..Stream::default() };
        let other = self
            .links
            .iter()
            .find(|(_, link)| link.party != party && link.streams[at].joined == Some(tag));
        let Some((other, _)) = other else { return };
        let (one, two) = match party {
            Party::One => (connection, *other),
            Party::Two => (*other, connection),
        };
        let shard = &mut self.shards[at];
        shard.live = Some(Live { one, two, epoch: tag.epoch });
        shard.rounds.clear();
        shard.is_synced = false;
        let sums = shard.holdings.sums();
        self.send(one, at, &FromMember::Holding { tag, sums });
    }

    /// Whether a message belongs to what its connection has
    /// joined; then it moves the stream's position.
    fn check_tag(&mut self, connection: Connection, at: usize, tag: Tag) -> bool {
        let Some(link) = self.links.get_mut(&connection) else { return false };
        let stream = &mut link.streams[at];
        let is_current = stream.joined.is_some_and(|joined| joined.epoch == tag.epoch)
            && tag.position >= stream.at.position;
        if is_current {
            stream.at = tag;
        } else {
            self.status.stale += 1;
        }
        is_current
    }

    fn queue(
        &mut self,
        connection: Connection,
        at: usize,
        tag: Tag,
        waiting: Waiting,
    ) -> Result<(), ExchangeError> {
        let Some(link) = self.links.get_mut(&connection) else { return Ok(()) };
        let queue = &mut link.streams[at].queue;
        bounded(queue.len() + 1, "halves ahead of the other party")?;
        queue.push_back((tag, waiting));
        Ok(())
    }

    pub(super) fn take_offers(
        &mut self,
        connection: Connection,
        at: usize,
        tag: Tag,
        offers: &[Offer<'_>],
    ) -> Result<(), ExchangeError> {
        if !self.check_tag(connection, at, tag) {
            return Ok(());
        }
        for offer in offers {
            let Offer { id, replaces, share, sealed } = *offer;
            let sealed = sealed.into();
            self.queue(connection, at, tag, Waiting::Offer { id, replaces, share, sealed })?;
        }
        Ok(())
    }

    pub(super) fn take_shares(
        &mut self,
        connection: Connection,
        at: usize,
        tag: Tag,
        shares: Vec<(RouteId, u128)>,
    ) -> Result<(), ExchangeError> {
        if !self.check_tag(connection, at, tag) {
            return Ok(());
        }
        let Some(link) = self.links.get_mut(&connection) else { return Ok(()) };
        let waiting = &mut link.streams[at].shares;
        waiting.extend(shares.into_iter().map(|(id, share)| ((tag, id), share)));
        bounded(waiting.len(), "halves ahead of the other party")
    }

    /// What is of one party alone, and waits for its turn.
    pub(super) fn take_in_turn(
        &mut self,
        connection: Connection,
        at: usize,
        tag: Tag,
        waiting: Waiting,
    ) -> Result<(), ExchangeError> {
        if !self.check_tag(connection, at, tag) {
            return Ok(());
        }
        self.queue(connection, at, tag, waiting)
    }

    pub(super) fn take_ask(
        &mut self,
        connection: Connection,
        at: usize,
        tag: Tag,
        ids: Vec<RouteId>,
    ) -> Result<(), ExchangeError> {
        if !self.check_tag(connection, at, tag) {
            return Ok(());
        }
        let Some(link) = self.links.get_mut(&connection) else { return Ok(()) };
        if link.party == Party::One {
            return self.queue(connection, at, tag, Waiting::Ask(ids));
        }
        let asks = &mut link.streams[at].asks;
        asks.insert(tag, ids);
        bounded(asks.len(), "rounds ahead of the other party")
    }

    /// What this member holds of some buckets.
    pub(super) fn answer_wanted(
        &mut self,
        connection: Connection,
        at: usize,
        tag: Tag,
        buckets: &[u8],
    ) {
        let is_live = self.shards[at]
            .live
            .is_some_and(|live| live.one == connection && live.epoch == tag.epoch);
        if !is_live {
            self.status.stale += 1;
            return;
        }
        let mut wanted: BTreeMap<u8, Vec<RouteId>> =
            buckets.iter().map(|bucket| (*bucket, Vec::new())).collect();
        for id in self.shards[at].holdings.known.keys() {
            if let Some(ids) = wanted.get_mut(&id.0[0]) {
                ids.push(*id);
            }
        }
        for (bucket, ids) in wanted {
            self.send(connection, at, &FromMember::Ids { tag, bucket, ids });
        }
    }

    /// Takes what party one has sent and party two has the half of, in order.
    pub(super) fn advance(&mut self, at: usize) {
        while let Some(live) = self.shards[at].live {
            let Some(two) = self.links.get_mut(&live.two).map(|link| &mut link.streams[at]) else {
                return;
            };
            let passed = two.at;
            let (mut shares, mut asks) =
                (std::mem::take(&mut two.shares), std::mem::take(&mut two.asks));
            let next = self.next_whole(live, at, passed, &mut shares, &mut asks);
            if let Some(two) = self.links.get_mut(&live.two).map(|link| &mut link.streams[at]) {
                (two.shares, two.asks) = (shares, asks);
            }
            match next {
                None => return,
                Some(Whole::Key { id, replaces, key, sealed }) => {
                    self.learn(at, id, replaces, key, &sealed);
                }
                Some(Whole::Gone(ids)) => ids.into_iter().for_each(|id| self.unlearn(at, id)),
                Some(Whole::Round(tag, ids)) => {
                    self.begin_round(Round { shard: at as u16, tag }, ids);
                }
                Some(Whole::Synced) => {
                    self.shards[at].is_synced = true;
                    if self.shards.iter().all(|shard| shard.is_synced) {
                        self.events.push_back(Event::Synced);
                    }
                }
                Some(Whole::Milestone(tag)) => {
                    self.send(live.one, at, &FromMember::Passed { tag });
                }
                Some(Whole::Lost) => self.status.stale += 1,
            }
        }
    }

    /// Party one's first message, if the other half is there, or will not come.
    fn next_whole(
        &mut self,
        live: Live,
        at: usize,
        passed: Tag,
        shares: &mut BTreeMap<(Tag, RouteId), u128>,
        asks: &mut BTreeMap<Tag, Vec<RouteId>>,
    ) -> Option<Whole> {
        let one = self.links.get_mut(&live.one).map(|link| &mut link.streams[at])?;
        // What party one has passed without its half will not be asked for.
        let floor = one.queue.front().map_or(one.at, |(tag, _)| *tag);
        if shares.first_key_value().is_some_and(|((tag, _), _)| *tag < floor) {
            *shares = shares.split_off(&(floor, RouteId([0; 16])));
        }
        if asks.first_key_value().is_some_and(|(tag, _)| *tag < floor) {
            *asks = asks.split_off(&floor);
        }
        let (tag, waiting) = one.queue.front()?;
        let is_passed = passed.epoch == tag.epoch && passed.position > tag.position;
        let half = match waiting {
            Waiting::Offer { id, .. } => half(shares.remove(&(*tag, *id)), is_passed, Half::Share),
            Waiting::Ask(_) => half(asks.remove(tag), is_passed, Half::Ask),
            Waiting::Retract(_) | Waiting::Synced | Waiting::Milestone => Half::None,
        };
        if matches!(half, Half::Wait) {
            return None;
        }
        let (tag, waiting) = one.queue.pop_front()?;
        Some(match (waiting, half) {
            (Waiting::Retract(ids), _) => Whole::Gone(ids),
            (Waiting::Synced, _) => Whole::Synced,
            (Waiting::Milestone, _) => Whole::Milestone(tag),
            (Waiting::Offer { id, replaces, share, sealed }, Half::Share(other)) => {
                Whole::Key { id, replaces, key: share ^ other, sealed }
            }
            (Waiting::Ask(ids), Half::Ask(other)) if ids == other => Whole::Round(tag, ids),
            _ => Whole::Lost,
        })
    }

    /// Both halves of an announcement are here: a key, or zero.
    fn learn(
        &mut self,
        at: usize,
        id: RouteId,
        replaces: Option<RouteId>,
        key: u128,
        sealed: &[u8],
    ) {
        let key = zeroize::Zeroizing::new(key);
        let holdings = &mut self.shards[at].holdings;
        if holdings.known.contains_key(&id) {
            // Sent again after a break.
            return;
        }
        let mut former = replaces.and_then(|former| Some((former, holdings.remove(former)?)));
        let opened = if *key == 0 { None } else { route::open(id, &key.to_le_bytes(), sealed) };
        let is_own_shard =
            |destination: &Destination| usize::from(self.common.shard_of(destination)) == at;
        let Some(opened) = opened.filter(|opened| is_own_shard(&opened.destination)) else {
            self.status.unopened += u64::from(*key != 0);
            self.shards[at].holdings.known.insert(id, None);
            if let Some((id, held)) = former {
                let HeldRoute { destination, from, .. } = held;
                self.events.push_back(Event::Retracted { destination, from, id });
            }
            return;
        };
        let (destination, from) = (opened.destination, opened.from);
        let holdings = &mut self.shards[at].holdings;
        // A later announcement of the same lane takes the place of an earlier
        // one, also if a pair between them was lost.
        let lanes = holdings.routes.entry(destination.clone()).or_default();
        let earlier = lanes.insert(from, id);
        if let Some(earlier) = earlier.filter(|_| former.is_none()) {
            former = holdings.known.insert(earlier, None).flatten().map(|held| (earlier, held));
            holdings.count -= usize::from(former.is_some());
        }
        holdings.count += 1;
        let held = HeldRoute { destination: destination.clone(), from, key };
        holdings.known.insert(id, Some(held));
        let is_same = |held: &HeldRoute| held.destination == destination && held.from == from;
        let replaces = former.as_ref().filter(|(_, held)| is_same(held)).map(|(id, _)| *id);
        if let Some((id, held)) = former.filter(|_| replaces.is_none()) {
            let HeldRoute { destination, from, .. } = held;
            self.events.push_back(Event::Retracted { destination, from, id });
        }
        let route = opened.route;
        self.events.push_back(Event::Offered { destination, from, id, route, replaces });
    }

    fn unlearn(&mut self, at: usize, id: RouteId) {
        if let Some(HeldRoute { destination, from, .. }) = self.shards[at].holdings.remove(id) {
            self.events.push_back(Event::Retracted { destination, from, id });
        }
    }
}

/// What both parties have sent.
enum Whole {
    Key {
        id: RouteId,
        replaces: Option<RouteId>,
        key: u128,
        sealed: Box<[u8]>,
    },
    Gone(Vec<RouteId>),
    Round(Tag, Vec<RouteId>),
    Synced,
    Milestone(Tag),
    /// The other half will not come, or is of something else.
    Lost,
}

/// Party two's half of a message of party one.
enum Half {
    Share(u128),
    Ask(Vec<RouteId>),
    /// It needs none, or none will come.
    None,
    Wait,
}

fn half<T>(found: Option<T>, is_passed: bool, whole: impl FnOnce(T) -> Half) -> Half {
    match found {
        Some(found) => whole(found),
        None if is_passed => Half::None,
        None => Half::Wait,
    }
}

fn bounded(len: usize, what: &'static str) -> Result<(), ExchangeError> {
    if len > MAX_AHEAD { Err(ExchangeError::TooMany { what, most: MAX_AHEAD }) } else { Ok(()) }
}

/// Halves that wait for the other party's: as many as a full table has in a shard.
const MAX_AHEAD: usize = 1 << 20;
